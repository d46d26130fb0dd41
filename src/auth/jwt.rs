//! A JWT taken apart: what its header says, what is signed, what it claims. Nothing here is verified yet.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::rejection::Reason;
use crate::config::auth::{Algorithm, Issuer};

/// Kinds of JWT that are never access tokens.
const FOREIGN: [&str; 4] = ["oauth-id-jag+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt"];

/// A JWT in three parts. Its letters are the client's; keys named in its header are not looked at.
#[derive(Debug)]
pub(super) struct Jwt<'t> {
    header: Map<String, Value>,
    /// Everything before the last dot.
    pub(super) signed: &'t str,
    /// After the last dot, base64url.
    pub(super) signature: &'t str,
    /// The claims, unverified.
    pub(super) claims: Map<String, Value>,
}

impl<'t> Jwt<'t> {
    /// Takes a token apart; `None` when it is not a JWT at all, and an opaque token perhaps.
    pub(super) fn parse(token: &'t str) -> Option<Result<Self, Reason>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        if payload.contains('.') {
            return None;
        }
        let header = object(header)?;
        header.get("alg")?;
        Some(
            object(payload).map(|claims| Self { header, signed, signature, claims }).ok_or(Reason::Malformed),
        )
    }

    /// `iss`
    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }

    /// Checks `typ`, `crit` and `alg`: the algorithm, if the issuer may use it.
    pub(super) fn check_header(&self, issuer: &Issuer) -> Result<Algorithm, Reason> {
        if self.header.contains_key("crit") {
            return Err(Reason::Critical);
        }
        let kind = self.kind()?;
        let fits = match kind.as_deref() {
            Some("at+jwt") => true,
            Some(kind) if FOREIGN.contains(&kind) => false,
            Some("jwt") | None => !issuer.require_at_jwt,
            // Something for another purpose, by a name we do not know.
            Some(_) => false,
        };
        if !fits {
            return Err(Reason::Type);
        }
        let name = self.header.get("alg").and_then(Value::as_str).ok_or(Reason::Algorithm)?;
        let algorithm = super::jwk::algorithm(name).ok_or(Reason::Algorithm)?;
        if issuer.algorithms.contains(&algorithm) { Ok(algorithm) } else { Err(Reason::Algorithm) }
    }

    /// `kid`, if it has one.
    pub(super) fn key_id(&self) -> Result<Option<&str>, Reason> {
        text(&self.header, "kid")
    }

    /// Whether it says that it is an access token.
    pub(super) fn is_at_jwt(&self) -> bool {
        self.kind().is_ok_and(|kind| kind.as_deref() == Some("at+jwt"))
    }

    /// `typ` in lower case, without the `application/` that it may have (RFC 7515 §4.1.9).
    fn kind(&self) -> Result<Option<String>, Reason> {
        let Some(typ) = text(&self.header, "typ")? else { return Ok(None) };
        let lower = typ.to_ascii_lowercase();
        Ok(Some(lower.strip_prefix("application/").map(str::to_owned).unwrap_or(lower)))
    }
}

fn text<'m>(map: &'m Map<String, Value>, name: &str) -> Result<Option<&'m str>, Reason> {
    map.get(name).map(|value| value.as_str().ok_or(Reason::Malformed)).transpose()
}

/// A JSON object in base64url. Loose last bits and names that occur twice are refused: nobody else may read it
/// in another way.
fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice::<Unique>(&bytes).ok().map(|unique| unique.0)
}

/// A JSON object whose names occur once.
#[derive(Debug)]
pub(super) struct Unique(pub(super) Map<String, Value>);

/// Collects the members of a [`Unique`].
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(Unique(map))
    }
}

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}
