//! May this caller use this item? Grants and a caller in, a verdict out (design §7). Pure: no I/O, no clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};

pub mod doubts;
pub mod explain;
mod rules;
mod set;
#[cfg(test)]
mod tests;

pub use set::GrantSet;

use crate::config::{Globs, Grant};
use crate::protocol::method::Kind;

/// What of a caller grants look at.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// Its claims.
    pub claims: &'a Map<String, Value>,
    /// The scopes it holds, with all they imply.
    pub scopes: &'a BTreeSet<String>,
}

/// The grants of a configuration. Without any, everything is allowed.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    grants: Vec<Grant>,
}

/// What a caller may do at an endpoint, whatever the item: which grants fit it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Rights {
    /// There are no grants.
    #[default]
    Open,
    /// The grants that fit.
    Granted(Arc<Granted>),
}

/// The grants that fit a caller at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Those whose items it sees: the part of a view's key that is the caller's (design §5).
    pub shown: GrantSet,
    /// Those whose scopes it holds as well.
    pub held: GrantSet,
    /// When the first of them ends.
    pub until: Option<SystemTime>,
}

/// The verdict on one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may be used.
    Allowed {
        /// The grant that gives it, the first in file order; `None`: there are no grants.
        grant: Option<usize>,
    },
    /// It is shown, and using it takes all scopes of this grant: the first in file order that gives it.
    NeedsScopes {
        /// The grant.
        grant: usize,
    },
    /// To this caller it does not exist.
    Hidden,
}

impl Policy {
    /// The policy of these grants.
    pub fn new(grants: &[Grant]) -> Self {
        Self { grants: grants.to_vec() }
    }

    /// Whether everything is allowed to everybody who gets in.
    pub fn is_open(&self) -> bool {
        self.grants.is_empty()
    }

    /// A grant by its position in file order.
    pub fn grant(&self, index: usize) -> Option<&Grant> {
        self.grants.get(index)
    }

    /// All scopes that using an item by this grant takes.
    pub fn scopes(&self, index: usize) -> &[String] {
        self.grant(index).map_or(&[], |grant| &grant.scopes)
    }

    /// The grants that give an item to somebody. It depends on the item only, so it is found once and kept with it.
    pub fn givers(&self, server: &str, kind: Kind, native: &str) -> GrantSet {
        self.all(|grant| grant.servers.is_match(server) && globs(grant, kind).is_match(native))
    }

    /// The grants that give somebody something of this kind of a server.
    pub fn givers_of_any(&self, server: &str, kind: Kind) -> GrantSet {
        self.all(|grant| grant.servers.is_match(server) && !globs(grant, kind).patterns().is_empty())
    }

    /// The verdict on one item for a caller who asks now.
    pub fn decide(&self, rights: &Rights, server: &str, kind: Kind, native: &str) -> Decision {
        match rights {
            Rights::Open => Decision::Allowed { grant: None },
            Rights::Granted(_) => rights.decide(&self.givers(server, kind, native)),
        }
    }

    fn all(&self, wanted: impl Fn(&Grant) -> bool) -> GrantSet {
        let mut set = GrantSet::for_grants(self.grants.len());
        let hits = self.grants.iter().enumerate().filter(|(_, grant)| wanted(grant));
        hits.for_each(|(index, _)| set.insert(index));
        set
    }
}

impl Rights {
    /// The verdict on an item that these grants give.
    pub fn decide(&self, givers: &GrantSet) -> Decision {
        let Self::Granted(granted) = self else { return Decision::Allowed { grant: None } };
        if let Some(grant) = granted.held.first_common(givers) {
            return Decision::Allowed { grant: Some(grant) };
        }
        match granted.shown.first_common(givers) {
            Some(grant) => Decision::NeedsScopes { grant },
            None => Decision::Hidden,
        }
    }

    /// Whether an item that these grants give is in the caller's view.
    pub fn sees(&self, givers: &GrantSet) -> bool {
        match self {
            Self::Open => true,
            Self::Granted(granted) => granted.shown.first_common(givers).is_some(),
        }
    }

    /// Whether there are no grants.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// When they may become fewer by time alone.
    pub fn until(&self) -> Option<SystemTime> {
        match self {
            Self::Open => None,
            Self::Granted(granted) => granted.until,
        }
    }
}

/// What a grant gives of a kind. A template is a resource of many addresses.
fn globs(grant: &Grant, kind: Kind) -> &Globs {
    match kind {
        Kind::Tools => &grant.tools,
        Kind::Prompts => &grant.prompts,
        Kind::Resources | Kind::Templates => &grant.resources,
    }
}
