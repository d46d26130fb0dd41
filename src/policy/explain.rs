//! Why a caller may or may not use an item: the verdict, and what the nearest grant lacked.

use std::fmt;
use std::time::SystemTime;

use super::{Caller, Decision, Policy, globs, rules};
use crate::config::Grant;
use crate::protocol::method::Kind;

/// One item of one server.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The server's name.
    pub server: &'a str,
    /// What it is.
    pub kind: Kind,
    /// The name its server uses, or its URI.
    pub native: &'a str,
}

/// A verdict and its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The verdict.
    pub decision: Decision,
    /// If it may not be used: the grant that comes nearest, and all it lacked. There is none without grants.
    pub nearest: Option<(usize, Vec<Lack>)>,
}

/// Why a grant does not give an item to a caller. Holds nothing of the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// It does not name the server.
    Server,
    /// It does not name the item.
    Item(Kind),
    /// It is not for this endpoint.
    Endpoint,
    /// Its time is over.
    Over,
    /// A claim of the caller is not there, or is another.
    Claim {
        /// Its path.
        path: String,
        /// What it must be: one of these.
        wanted: Vec<String>,
    },
    /// The caller lacks scopes.
    Scopes {
        /// Those it lacks.
        missing: Vec<String>,
        /// Without them the item is not even shown.
        hidden: bool,
    },
}

impl Policy {
    /// The verdict on one item, with its reasons.
    pub fn explain(
        &self,
        caller: Caller<'_>,
        now: SystemTime,
        endpoint: &str,
        target: Target<'_>,
    ) -> Explanation {
        let rights = self.rights(Some(caller), now, endpoint);
        let decision = self.decide(&rights, target.server, target.kind, target.native);
        if matches!(decision, Decision::Allowed { .. }) {
            return Explanation { decision, nearest: None };
        }
        let lacks = |(index, grant)| (index, lacks(grant, caller, now, endpoint, target));
        // `min_by_key` takes the first of equals: file order.
        let nearest = self.grants.iter().enumerate().map(lacks).min_by_key(|(_, lacks)| distance(lacks));
        Explanation { decision, nearest }
    }
}

#[allow(clippy::too_many_arguments, reason = "one question with all its parts, asked in one place")]
fn lacks(
    grant: &Grant,
    caller: Caller<'_>,
    now: SystemTime,
    endpoint: &str,
    target: Target<'_>,
) -> Vec<Lack> {
    let mut lacks = Vec::new();
    if !grant.servers.is_match(target.server) {
        lacks.push(Lack::Server);
    }
    if !globs(grant, target.kind).is_match(target.native) {
        lacks.push(Lack::Item(target.kind));
    }
    if !grant.endpoints.is_match(endpoint) {
        lacks.push(Lack::Endpoint);
    }
    if rules::is_over(grant, now) {
        lacks.push(Lack::Over);
    }
    for rule in grant.to.iter().flatten().filter(|rule| !rules::fits(rule, caller.claims)) {
        let wanted = rule.wanted.iter().map(|wanted| wanted.shown.clone()).collect();
        lacks.push(Lack::Claim { path: rule.path.clone(), wanted });
    }
    let missing: Vec<String> =
        grant.scopes.iter().filter(|scope| !caller.scopes.contains(*scope)).cloned().collect();
    if !missing.is_empty() {
        lacks.push(Lack::Scopes { missing, hidden: grant.hide_without_scopes });
    }
    lacks
}

/// How far a grant is from giving: what is easier to come by counts less. A grant that is for other items is
/// farther than any that is for this one.
fn distance(lacks: &[Lack]) -> usize {
    let weight = |lack: &Lack| match lack {
        Lack::Server => 10_000,
        Lack::Item(_) => 5_000,
        Lack::Endpoint => 100,
        Lack::Claim { .. } => 10,
        Lack::Over => 5,
        Lack::Scopes { .. } => 1,
    };
    lacks.iter().map(weight).sum()
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => write!(f, "its `servers` do not name the server"),
            Self::Item(kind) => {
                let key = if *kind == Kind::Templates { Kind::Resources } else { *kind };
                write!(f, "its `{}` do not name it", key.as_str())
            }
            Self::Endpoint => write!(f, "it is for other endpoints"),
            Self::Over => write!(f, "its `valid_until` is over"),
            Self::Claim { path, wanted } => match &wanted[..] {
                [one] => write!(f, "the claim `{path}` must be {one}, and is not"),
                many => write!(f, "the claim `{path}` must be one of {}, and is not", many.join(", ")),
            },
            Self::Scopes { missing, hidden } => {
                let noun = if missing.len() == 1 { "the scope" } else { "the scopes" };
                let how =
                    if *hidden { "; without, it is hidden" } else { "; the client is told to ask for it" };
                write!(f, "{noun} {} is not held{how}", missing.join(" "))
            }
        }
    }
}
