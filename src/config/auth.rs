//! `[auth]`: whose tokens and keys are taken, and what they must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};
use url::Url;

use super::Secret;

/// `[auth]`
#[derive(Debug, Clone, PartialEq)]
pub struct Auth {
    /// `required_scopes`: every caller holds all of them.
    pub required_scopes: Vec<String>,
    /// `scopes_supported` of the metadata, = required by default.
    pub scopes_supported: Vec<String>,
    /// `scope_implies`: who holds the first holds the others too. As written; see [`Auth::closure`].
    pub scope_implies: BTreeMap<String, Vec<String>>,
    /// `skew` of clocks.
    pub skew: Duration,
    /// `allow_insecure_http` beyond loopback.
    pub allow_insecure_http: bool,
    /// `[[auth.issuer]]`
    pub issuers: Vec<Issuer>,
    /// `[[auth.key]]`
    pub keys: Vec<ApiKey>,
}

impl Auth {
    /// These scopes and all they imply, however far.
    pub fn closure<'a>(&'a self, scopes: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        let mut held = BTreeSet::new();
        let mut open: Vec<&str> = scopes.into_iter().collect();
        while let Some(scope) = open.pop() {
            if held.insert(scope.to_owned()) {
                open.extend(self.scope_implies.get(scope).into_iter().flatten().map(String::as_str));
            }
        }
        held
    }
}

/// `[[auth.issuer]]`: an authorization server whose tokens are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Issuer {
    /// `issuer`, compared as a string and never normalised.
    pub issuer: String,
    /// `audiences` that mean this gateway, beside the endpoint's own address.
    pub audiences: Vec<String>,
    /// `other_audiences` that tokens for this gateway may have besides; alone they open nothing.
    pub other_audiences: Vec<String>,
    /// `algorithms` of signatures.
    pub algorithms: Vec<Algorithm>,
    /// `jwks_url`; `None`: discovered.
    pub jwks_url: Option<Url>,
    /// `require_at_jwt`: tokens say that they are access tokens (RFC 9068).
    pub require_at_jwt: bool,
    /// `introspection` of opaque tokens.
    pub introspection: Option<Introspection>,
}

/// `introspection = { url, client_id, client_secret }` (RFC 7662).
#[derive(Debug, Clone, PartialEq)]
pub struct Introspection {
    /// `url`
    pub url: Url,
    /// `client_id`
    pub client_id: String,
    /// `client_secret`
    pub client_secret: Secret,
}

/// `[[auth.key]]`: a static key of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiKey {
    /// `name`: its principal, and its label in metrics.
    pub name: String,
    /// `sha256` of the key.
    pub sha256: [u8; 32],
    /// `claims`, as a token would have them; `scope` among them.
    pub claims: Map<String, Value>,
}

/// The scopes in a claim: a string of words, or an array of strings (F-092).
pub fn scope_words(claim: &Value) -> Vec<&str> {
    match claim {
        Value::String(words) => words.split(' ').filter(|word| !word.is_empty()).collect(),
        Value::Array(words) => {
            words.iter().filter_map(Value::as_str).filter(|word| !word.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a URL names a loopback address as a number; a name could resolve to anything.
pub fn is_loopback_literal(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(_)) | None => false,
    }
}

/// Algorithms of signatures, all asymmetric: a shared secret would let this gateway make tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of RFC 7518")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// Every algorithm by its name.
    pub const ALL: [(&'static str, Self); 9] = [
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    /// The algorithm of this name, in exactly this spelling.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, algorithm)| algorithm == self).map_or("", |(name, _)| *name);
        f.write_str(name)
    }
}
