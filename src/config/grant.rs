//! `[[grant]]`: which callers may use what.

use std::time::SystemTime;

use serde_json::Value;

use super::Globs;

/// `[[grant]]`: gives the callers it names some items of some servers (design §7).
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// `to`: all of these must fit; `None`: any authenticated caller.
    pub to: Option<Vec<ClaimRule>>,
    /// `endpoints`: globs over paths.
    pub endpoints: Globs,
    /// `servers`: globs over names.
    pub servers: Globs,
    /// `tools`: globs over native names; absent grants none.
    pub tools: Globs,
    /// `prompts`: globs over native names; absent grants none.
    pub prompts: Globs,
    /// `resources`: globs over URIs and URI templates; absent grants none.
    pub resources: Globs,
    /// `scopes` the caller must hold, all of them.
    pub scopes: Vec<String>,
    /// `hide_without_scopes`: who lacks a scope does not see the items, instead of being asked for it.
    pub hide_without_scopes: bool,
    /// `valid_until`: from then on the grant gives nothing.
    pub valid_until: Option<SystemTime>,
    /// Where it stands, as `gatehouse.toml:12`.
    pub place: String,
}

/// What one claim must be.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRule {
    /// The claim: a key, or keys of nested objects with dots between.
    pub path: String,
    /// One of these.
    pub wanted: Vec<Wanted>,
}

/// One value that fits a claim, or, of an array, one of its elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// How it is compared.
    pub test: Test,
    /// As written, unless the environment or a file filled it in.
    pub shown: String,
}

/// How a claim's value is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Exactly this string, number or boolean.
    Is(Value),
    /// A string that fits this glob: it was written with a `*`.
    Like(Globs),
}

impl Test {
    /// Whether a claim's value fits; of an array, whether any element does.
    pub fn fits(&self, claim: &Value) -> bool {
        match claim {
            Value::Array(items) => items.iter().any(|item| self.fits_one(item)),
            one => self.fits_one(one),
        }
    }

    fn fits_one(&self, value: &Value) -> bool {
        match self {
            Self::Is(wanted) => wanted == value,
            Self::Like(globs) => value.as_str().is_some_and(|text| globs.is_match(text)),
        }
    }
}
