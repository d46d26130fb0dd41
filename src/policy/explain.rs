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

/// What is asked, by whom, and where.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who asks.
    pub caller: Caller<'a>,
    /// When.
    pub now: SystemTime,
    /// The path of the endpoint.
    pub endpoint: &'a str,
    /// For what; `None`: for anything at all.
    pub target: Option<Target<'a>>,
}

impl Policy {
    /// The verdict on one item, or on whether there is any, with its reasons.
    pub fn explain(&self, question: Question<'_>) -> Explanation {
        let rights = self.rights(Some(question.caller), question.now, question.endpoint);
        let decision = match question.target {
            Some(target) => self.decide(&rights, target.server, target.kind, target.native),
            None => rights.decide(&self.all(|_| true)),
        };
        if matches!(decision, Decision::Allowed { .. }) {
            return Explanation { decision, nearest: None };
        }
        let lacks = |(index, grant)| (index, lacks(grant, question));
        // `min_by_key` takes the first of equals: file order.
        let nearest = self.grants.iter().enumerate().map(lacks).min_by_key(|(_, lacks)| distance(lacks));
        Explanation { decision, nearest }
    }
}

fn lacks(grant: &Grant, question: Question<'_>) -> Vec<Lack> {
    let Question { caller, now, endpoint, target } = question;
    let mut lacks = Vec::new();
    if target.is_some_and(|target| !grant.servers.is_match(target.server)) {
        lacks.push(Lack::Server);
    }
    if let Some(target) = target.filter(|target| !globs(grant, target.kind).is_match(target.native)) {
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
                    if *hidden { "; without, it is hidden" } else { "; clients are told to ask for it" };
                let verb = if missing.len() == 1 { "is" } else { "are" };
                write!(f, "{noun} {} {verb} not held{how}", missing.join(" "))
            }
        }
    }
}
