//! The private home directory of a server's children: 0700, lasting under `state_dir`, else temporary.

use std::fs::{self, DirBuilder, Permissions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use super::account::Account;

/// A directory that nobody else reads. A temporary one is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    temporary: bool,
}

impl Home {
    /// The home of `server`, made when there is none, owned by `account` if the child runs as one.
    pub(super) fn make(
        state_dir: Option<&Path>,
        server: &str,
        account: Option<&Account>,
    ) -> io::Result<Self> {
        let home = match state_dir {
            Some(state_dir) => Self::lasting(state_dir, server)?,
            None => Self::temporary(server)?,
        };
        if let Some(account) = account {
            chown(&home.path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))?;
        }
        Ok(home)
    }

    fn lasting(state_dir: &Path, server: &str) -> io::Result<Self> {
        let homes = state_dir.join("homes");
        // Passable, not readable: a child that runs as another user must reach its own.
        DirBuilder::new().recursive(true).mode(0o711).create(&homes)?;
        let path = homes.join(server);
        match private_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&path)?.is_dir() {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            }
            made => made?,
        }
        Ok(Self { path, temporary: false })
    }

    fn temporary(server: &str) -> io::Result<Self> {
        loop {
            let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
            let path = std::env::temp_dir().join(format!("gatehouse-{server}-{random:016x}"));
            match private_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self { path, temporary: true }),
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a temporary one without blocking the runtime: package managers fill it.
    pub(super) async fn remove(&self) {
        if self.temporary {
            // The drop that follows reports what is left.
            let _ = tokio::fs::remove_dir_all(&self.path).await;
        }
    }

    /// Whether it is still there: temporary directories get cleaned by others, too.
    pub(super) fn exists(&self) -> bool {
        self.path.is_dir()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.temporary
            && let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(error = %error.kind(), "a temporary home directory was not removed");
        }
    }
}

/// Makes one directory, which must not exist, with exactly 0700.
fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}
