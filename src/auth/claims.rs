//! What a token must claim before it is anybody's: time, audience, subject, and that it is for access.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::principal::{Principal, scopes, token_id};
use super::rejection::Reason;
use crate::config::auth::{Auth, Issuer};

/// Claims of ID tokens only.
const OF_LOGINS: [&str; 4] = ["nonce", "at_hash", "c_hash", "s_hash"];
/// What some servers write into `typ` of the claims of tokens that are not for access.
const OTHER_TYPES: [&str; 5] = ["id", "refresh", "offline", "logout", "registrationaccesstoken"];

/// Where claims come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A JWT; whether it says that it is an access token.
    Jwt { at: bool },
    /// The issuer's own answer about an opaque token.
    Introspection,
}

/// What claims are held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'r> {
    /// `[auth]`
    pub(super) auth: &'r Auth,
    /// Whose token it is.
    pub(super) issuer: &'r Issuer,
    /// The address of the endpoint, as clients know it.
    pub(super) resource: &'r str,
    /// Seconds since 1970.
    pub(super) now: u64,
}

impl Rules<'_> {
    /// The principal of verified claims, or the first rule they break.
    pub(super) fn admit(&self, claims: Map<String, Value>, origin: Origin) -> Result<Principal, Reason> {
        let expires = self.time(&claims, origin)?;
        self.audience(&claims)?;
        let client = client(&claims)?;
        for_access(&claims, client, origin)?;
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        let issuer = self.issuer.issuer.as_str();
        let (id, subject) = match (subject, client, origin) {
            (Some(subject), ..) => (token_id("sub", issuer, subject), subject),
            // Of a client that acts for itself many servers say no subject when asked (RFC 7662 has it optional).
            (None, Some(client), Origin::Introspection) => (token_id("app", issuer, client), client),
            (None, ..) => return Err(Reason::Claims),
        };
        Ok(Principal {
            id,
            issuer: Arc::from(issuer),
            subject: Arc::from(subject),
            client: client.map(Arc::from),
            scopes: scopes(&claims, self.auth),
            expires,
            claims,
        })
    }

    /// `exp`, which a JWT must have, and `nbf` and `iat` if they are there.
    fn time(&self, claims: &Map<String, Value>, origin: Origin) -> Result<Option<u64>, Reason> {
        let skew = self.auth.skew.as_secs();
        let expires = seconds(claims, "exp")?;
        match expires {
            Some(expires) if expires.saturating_add(skew) <= self.now => return Err(Reason::Expired),
            None if origin != Origin::Introspection => return Err(Reason::Claims),
            Some(_) | None => {}
        }
        for name in ["nbf", "iat"] {
            if seconds(claims, name)?.is_some_and(|from| from > self.now.saturating_add(skew)) {
                return Err(Reason::NotYet);
            }
        }
        Ok(expires)
    }

    /// At least one audience is ours, and nobody else is one but whom the operator bears with: who else
    /// gets a token could show it here.
    fn audience(&self, claims: &Map<String, Value>) -> Result<(), Reason> {
        let among = |names: &[String], audience: &str| names.iter().any(|known| known == audience);
        let ours = |audience: &str| audience == self.resource || among(&self.issuer.audiences, audience);
        let borne = |audience: &str| ours(audience) || among(&self.issuer.other_audiences, audience);
        let fits = match claims.get("aud") {
            Some(Value::String(audience)) => ours(audience),
            Some(Value::Array(all)) => {
                let every =
                    |fits: &dyn Fn(&str) -> bool| all.iter().all(|one| one.as_str().is_some_and(fits));
                every(&borne) && all.iter().any(|one| one.as_str().is_some_and(ours))
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(Reason::Audience) }
    }
}

/// A number of seconds since 1970, whole or not.
fn seconds(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, Reason> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let whole = |number: f64| (number >= 0.0).then_some(number as u64);
    let number = value.as_u64().or_else(|| value.as_f64().and_then(whole));
    number.map(Some).ok_or(Reason::Claims)
}

/// `client_id`, else `azp`.
fn client(claims: &Map<String, Value>) -> Result<Option<&str>, Reason> {
    let Some(client) = claims.get("client_id").or_else(|| claims.get("azp")) else { return Ok(None) };
    client.as_str().filter(|client| !client.is_empty()).map(Some).ok_or(Reason::Claims)
}

/// Neither about a login, nor for a client alone, nor bound to a key we do not ask for.
fn for_access(claims: &Map<String, Value>, client: Option<&str>, origin: Origin) -> Result<(), Reason> {
    let typ = claims.get("typ").and_then(Value::as_str).map(str::to_ascii_lowercase);
    let to_client = || match (claims.get("aud"), client) {
        (Some(Value::String(audience)), Some(client)) => audience == client,
        (Some(Value::Array(all)), Some(client)) => all.iter().any(|one| one == client),
        _ => false,
    };
    let of_login = OF_LOGINS.iter().any(|name| claims.contains_key(*name))
        || typ.is_some_and(|typ| OTHER_TYPES.contains(&typ.as_str()))
        || origin == (Origin::Jwt { at: false }) && to_client();
    if of_login {
        return Err(Reason::IdToken);
    }
    let dpop = claims.get("token_type").and_then(Value::as_str);
    let bound = claims.contains_key("cnf") || dpop.is_some_and(|kind| kind.eq_ignore_ascii_case("dpop"));
    if bound { Err(Reason::Bound) } else { Ok(()) }
}
