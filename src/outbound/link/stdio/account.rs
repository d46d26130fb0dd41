//! `user` of a server: the account its child runs as.

use std::io;

use nix::unistd::{Gid, Uid, User};

/// An account by its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub uid: Uid,
    /// Its group.
    pub gid: Gid,
    /// The name to take further groups from; `None` for a number that is in no user database.
    pub name: Option<String>,
}

impl Account {
    /// A name or a number. A number without an entry stands for the group of the same number, too.
    pub fn find(user: &str) -> io::Result<Self> {
        let number = user.parse().ok().map(Uid::from_raw);
        let entry = match number {
            Some(uid) => User::from_uid(uid)?,
            None => User::from_name(user)?,
        };
        match (entry, number) {
            (Some(entry), _) => Ok(Self { uid: entry.uid, gid: entry.gid, name: Some(entry.name) }),
            (None, Some(uid)) => Ok(Self { uid, gid: Gid::from_raw(uid.as_raw()), name: None }),
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
