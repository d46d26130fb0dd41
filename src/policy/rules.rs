//! Which grants fit a caller: claims, endpoint, time, scopes.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::{Caller, GrantSet, Granted, Policy, Rights};
use crate::config::Grant;
use crate::config::grant::ClaimRule;

impl Policy {
    /// The grants that fit a caller at an endpoint, now. `None`: nobody knows who it is, so none does.
    pub fn rights(&self, caller: Option<Caller<'_>>, now: SystemTime, endpoint: &str) -> Rights {
        if self.is_open() {
            return Rights::Open;
        }
        let empty = GrantSet::for_grants(self.grants.len());
        let mut granted = Granted { shown: empty.clone(), held: empty, until: None };
        let Some(caller) = caller else { return Rights::Granted(Arc::new(granted)) };
        for (index, grant) in self.grants.iter().enumerate() {
            if !grant.endpoints.is_match(endpoint) || is_over(grant, now) || !is_for(grant, caller.claims) {
                continue;
            }
            let held = grant.scopes.iter().all(|scope| caller.scopes.contains(scope));
            if held {
                granted.held.insert(index);
            } else if grant.hide_without_scopes {
                continue;
            }
            granted.shown.insert(index);
            granted.until = granted.until.into_iter().chain(grant.valid_until).min();
        }
        Rights::Granted(Arc::new(granted))
    }
}

/// Whether the grant's time is over.
pub(super) fn is_over(grant: &Grant, now: SystemTime) -> bool {
    grant.valid_until.is_some_and(|until| until <= now)
}

fn is_for(grant: &Grant, claims: &Map<String, Value>) -> bool {
    grant.to.iter().flatten().all(|rule| fits(rule, claims))
}

/// Whether a claim is what it must be.
pub(super) fn fits(rule: &ClaimRule, claims: &Map<String, Value>) -> bool {
    find(claims, &rule.path).is_some_and(|claim| rule.wanted.iter().any(|wanted| wanted.test.fits(claim)))
}

/// The claim at a path. Keys may hold dots themselves, as `https://example.com/roles` does: the longest key
/// that is there counts.
fn find<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(claim) = claims.get(path) {
        return Some(claim);
    }
    path.rmatch_indices('.').find_map(|(dot, _)| {
        let inner = claims.get(&path[..dot])?.as_object()?;
        find(inner, &path[dot + 1..])
    })
}
