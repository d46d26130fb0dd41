//! Tests of the policy: tables by hand, and an oracle that looks at nothing but the rules as written.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::{Caller, Decision, GrantSet, Policy, Rights};
use crate::config::{Config, Grant};
use crate::protocol::method::Kind;

mod doubts;
mod explain;
mod oracle;
mod table;

const AUTH: &str = "[[auth.issuer]]\nissuer = \"https://id.example\"\n";

/// The grants of a configuration's text.
fn grants(text: &str) -> Vec<Grant> {
    let config = Config::parse(&format!("{AUTH}{text}"), Path::new(""), &|_| None);
    config.unwrap_or_else(|problems| panic!("{problems}\nin:\n{text}")).grants
}

fn policy(text: &str) -> Policy {
    Policy::new(&grants(text))
}

/// Somebody with claims and scopes.
#[derive(Debug, Clone)]
struct Person {
    claims: Map<String, Value>,
    scopes: BTreeSet<String>,
}

impl Person {
    fn new(claims: &Value, scopes: &[&str]) -> Self {
        let claims = claims.as_object().unwrap().clone();
        Self { claims, scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect() }
    }

    fn caller(&self) -> Caller<'_> {
        Caller { claims: &self.claims, scopes: &self.scopes }
    }
}

/// Seconds since 1970.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

const NOW: u64 = 1_800_000_000;

#[test]
fn sets_beyond_one_word() {
    let mut a = GrantSet::for_grants(130);
    let mut b = GrantSet::for_grants(130);
    assert!(a.is_empty() && a == b);
    for index in [0, 63, 64, 129] {
        a.insert(index);
    }
    b.insert(129);
    assert_eq!(a.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
    assert_eq!(a.first_common(&b), Some(129));
    b.insert(64);
    assert_eq!(a.first_common(&b), Some(64));
    assert!(!a.contains(1) && !a.contains(1000));
    assert_ne!(a, b);
    assert_eq!(GrantSet::default().first_common(&a), None);
}
