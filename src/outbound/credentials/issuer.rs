//! One authorization server, asked for tokens for one server: where, how we prove who we are, what it may answer.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::assertion::{self, assertion};
use super::pause::Pause;
use super::token::{Issued, TokenError};
use crate::config::{ClientSecret, OauthClient, Secret};
use crate::net::fetch::{Fetched, basic};
use crate::net::oauth::AuthorizationServer;
use crate::net::{FetchError, Reach, Remote};
use crate::tasks::Tasks;

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// What a token is asked for with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Grant<'a> {
    /// The gateway itself.
    ClientCredentials,
    /// A caller's token.
    Exchange {
        /// The caller's access token.
        subject: &'a Secret,
        /// `audience`
        audience: Option<&'a str>,
    },
}

/// Where tokens for one server are issued.
#[derive(Debug)]
pub(super) struct TokenServer {
    /// The MCP server's name, for the log.
    server: Arc<str>,
    client: OauthClient,
    resource: String,
    place: ArcSwapOption<Place>,
    pause: Pause,
    tasks: Tasks,
}

/// The token endpoint.
#[derive(Debug)]
struct Place {
    remote: Remote,
    /// Whether the client's secret goes into the form: only if that is all the server knows.
    in_form: bool,
}

impl TokenServer {
    pub(super) fn new(server: Arc<str>, client: OauthClient, resource: String, tasks: Tasks) -> Self {
        Self { server, client, resource, place: ArcSwapOption::empty(), pause: Pause::default(), tasks }
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.client.issuer.as_deref()
    }

    /// Asks for a token, once. While the server was out of order a moment ago it is not asked.
    pub(super) async fn ask(&self, grant: Grant<'_>) -> Result<Issued, TokenError> {
        self.pause.check()?;
        let issued = self.try_ask(grant).await;
        match &issued {
            Ok(_) => self.pause.note(None),
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "no token");
                // What it says of one caller is no reason to keep others waiting.
                if matches!(error, TokenError::Unavailable(_)) {
                    self.pause.note(Some(error));
                    self.place.store(None);
                }
            }
        }
        issued
    }

    async fn try_ask(&self, grant: Grant<'_>) -> Result<Issued, TokenError> {
        let place = self.place().await?;
        let scope = self.client.scopes.join(" ");
        let mut form: Vec<(&str, &str)> = Vec::with_capacity(12);
        match grant {
            Grant::ClientCredentials => form.push(("grant_type", "client_credentials")),
            Grant::Exchange { subject, audience } => {
                form.push(("grant_type", EXCHANGE));
                form.push(("subject_token", subject.expose()));
                form.push(("subject_token_type", ACCESS_TOKEN));
                form.push(("requested_token_type", ACCESS_TOKEN));
                form.extend(audience.map(|audience| ("audience", audience)));
            }
        }
        // In every request, whether the server knows it or not.
        form.push(("resource", &self.resource));
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        let proof = self.proof(&place)?;
        form.extend(proof.form.iter().map(|(name, value)| (*name, value.expose())));
        let answer = place.remote.post_form(&form, proof.authorization).await.map_err(unavailable)?;
        let issued = read(&answer)?;
        if let Grant::Exchange { subject, .. } = grant
            && issued.header.as_bytes().strip_prefix(b"Bearer ") == Some(subject.expose().as_bytes())
        {
            // Presented to the server it would be the caller's own token after all.
            return Err(TokenError::Unusable("is the caller's own token"));
        }
        Ok(issued)
    }

    /// The token endpoint: the operator's word, or the issuer's metadata.
    async fn place(&self) -> Result<Arc<Place>, TokenError> {
        if let Some(known) = self.place.load_full() {
            return Ok(known);
        }
        let absent = |error: &dyn std::fmt::Display| TokenError::Unavailable(error.to_string());
        let place = match (&self.client.token_url, &self.client.issuer) {
            (Some(url), _) => {
                let remote = Remote::new(url, Reach::Any, &self.tasks).map_err(|error| absent(&error))?;
                Place { remote, in_form: false }
            }
            (None, Some(issuer)) => {
                let issuer = issuer.clone();
                let unguarded = self.client.unguarded;
                let server = AuthorizationServer { issuer, discovered: false, unguarded };
                let metadata = server.metadata(&self.tasks).await.map_err(|error| absent(&error))?;
                let none = "its metadata have no token_endpoint; set `token_url`";
                let address = metadata.token_endpoint.as_deref().ok_or_else(|| absent(&none))?;
                let remote = server.remote("token_endpoint", address, &self.tasks);
                let knows = |method: &str| {
                    metadata.token_endpoint_auth_methods_supported.iter().any(|known| known == method)
                };
                let in_form = knows("client_secret_post") && !knows("client_secret_basic");
                Place { remote: remote.map_err(|error| absent(&error))?, in_form }
            }
            (None, None) => return Err(absent(&"no address is configured")),
        };
        let place = Arc::new(place);
        self.place.store(Some(Arc::clone(&place)));
        Ok(place)
    }

    /// How the gateway proves who it is.
    fn proof(&self, place: &Place) -> Result<Proof, TokenError> {
        let id = &self.client.client_id;
        let shown = || ("client_id", Secret::new(id.as_str()));
        match &self.client.secret {
            ClientSecret::Secret(secret) if place.in_form => {
                Ok(Proof { authorization: None, form: vec![shown(), ("client_secret", secret.clone())] })
            }
            ClientSecret::Secret(secret) => {
                Ok(Proof { authorization: basic(id, secret.expose()), form: Vec::new() })
            }
            ClientSecret::Key(key) => {
                // The issuer is the audience; of a server without a name, its address is.
                let address = self.client.token_url.as_ref().map_or("", |url| url.as_str());
                let audience = self.client.issuer.as_deref().unwrap_or(address);
                let signed = assertion(key, id, audience)
                    .ok_or_else(|| TokenError::Unavailable("nothing can be signed".to_owned()))?;
                let form = vec![
                    shown(),
                    ("client_assertion_type", Secret::new(assertion::TYPE)),
                    ("client_assertion", Secret::new(signed)),
                ];
                Ok(Proof { authorization: None, form })
            }
        }
    }
}

struct Proof {
    authorization: Option<HeaderValue>,
    form: Vec<(&'static str, Secret)>,
}

fn unavailable(error: FetchError) -> TokenError {
    TokenError::Unavailable(error.to_string())
}

/// A token, a refusal, or nothing of the kind.
fn read(answer: &Fetched) -> Result<Issued, TokenError> {
    let status = answer.status;
    let document = serde_json::from_slice::<Map<String, Value>>(&answer.body).ok();
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        return Err(TokenError::Unavailable(format!("status {}", status.as_u16())));
    }
    if status.is_client_error() {
        let said = document.as_ref().and_then(|document| document.get("error")?.as_str());
        return Err(TokenError::Refused(status.as_u16(), known(said)));
    }
    if status != StatusCode::OK && status != StatusCode::CREATED {
        return Err(TokenError::Unavailable(format!("status {}", status.as_u16())));
    }
    // A page in place of an answer comes from something in between: it may be gone in a moment.
    let document = document.ok_or_else(|| TokenError::Unavailable("the answer is not JSON".to_owned()))?;
    match document.get("issued_token_type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if [ACCESS_TOKEN, JWT].contains(&kind.as_str()) => {}
        Some(_) => return Err(TokenError::Unusable("is no access token")),
    }
    Issued::read(&document)
}

/// An error code that can be told: anything else might hold what was sent.
fn known(code: Option<&str>) -> &'static str {
    const KNOWN: [&str; 8] = [
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "invalid_target",
        "access_denied",
    ];
    code.and_then(|code| KNOWN.into_iter().find(|known| *known == code)).unwrap_or("no known error code")
}
