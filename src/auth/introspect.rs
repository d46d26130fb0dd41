//! Opaque tokens: their issuer is asked about them (RFC 7662, A-24).

use http::HeaderValue;
use serde_json::{Map, Value};

use super::jwt::Unique;
use super::rejection::Reason;
use crate::config::auth::{Introspection, Issuer};
use crate::net::fetch::basic;
use crate::net::{ClientError, FetchError, Reach, Remote};
use crate::tasks::Tasks;

/// The issuer that is asked about opaque tokens.
#[derive(Debug)]
pub(super) struct Introspector {
    /// Its place among the issuers.
    pub(super) issuer: usize,
    name: String,
    remote: Remote,
    authorization: Option<HeaderValue>,
}

impl Introspector {
    /// Checks the address; nothing is connected yet.
    pub(super) fn new(
        at: usize,
        issuer: &Issuer,
        asked: &Introspection,
        tasks: &Tasks,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            issuer: at,
            name: issuer.issuer.clone(),
            remote: Remote::new(&asked.url, Reach::Any, tasks)?,
            authorization: basic(&asked.client_id, asked.client_secret.expose()),
        })
    }

    /// What the issuer says of a token that is active.
    ///
    /// # Errors
    ///
    /// [`Reason::Inactive`], [`Reason::Issuer`] when the answer speaks for another, and
    /// [`Reason::IntrospectionUnavailable`] when there is no answer.
    pub(super) async fn ask(&self, token: &str) -> Result<Map<String, Value>, Reason> {
        let form = [("token", token), ("token_type_hint", "access_token")];
        let answer = self.remote.post_form(&form, self.authorization.clone()).await;
        let Unique(claims) = match answer.and_then(|answer| answer.json::<Unique>()) {
            Ok(unique) => unique,
            Err(error) => {
                self.complain(&error);
                return Err(Reason::IntrospectionUnavailable);
            }
        };
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(Reason::Inactive);
        }
        match claims.get("iss") {
            Some(issuer) if issuer != self.name.as_str() => Err(Reason::Issuer),
            Some(_) | None => Ok(claims),
        }
    }

    fn complain(&self, error: &FetchError) {
        tracing::warn!(issuer = self.name, %error, "the issuer could not be asked about a token");
    }
}
