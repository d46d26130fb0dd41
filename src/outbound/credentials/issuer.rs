//! One authorization server, asked for tokens for one server: where, how we prove who we are, what it may answer.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::assertion::{self, assertion};
use super::pause::Pause;
use super::place::{Finder, Place, Towards};
use super::scopes;
use super::token::{Issued, Token, TokenError};
use crate::config::{ClientSecret, OauthClient, Secret};
use crate::net::fetch::{Fetched, basic};
use crate::tasks::{Flight, Tasks};

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
pub struct TokenServer {
    /// The MCP server's name, for the log.
    server: Arc<str>,
    client: OauthClient,
    /// How the token endpoint is found, and what the MCP server said.
    pub(super) finder: Arc<Finder>,
    place: ArcSwapOption<Place>,
    finding: Flight<Result<Arc<Place>, TokenError>>,
    pause: Pause,
    tasks: Tasks,
}

impl TokenServer {
    pub(super) fn new(towards: &Towards<'_>, client: &OauthClient, tasks: &Tasks) -> Self {
        Self {
            server: Arc::clone(towards.server),
            client: client.clone(),
            finder: Arc::new(Finder::new(towards, client.clone(), tasks.clone())),
            place: ArcSwapOption::empty(),
            finding: Flight::default(),
            pause: Pause::default(),
            tasks: tasks.clone(),
        }
    }

    /// Whether the operator said which scopes are asked for: then no server widens them.
    pub(super) fn is_bounded(&self) -> bool {
        !self.client.scopes.is_empty()
    }

    /// The MCP server wants more scopes than the operator said.
    pub(super) fn tell_bounds(&self, token: &Token, wanted: &[String]) {
        let missing: Vec<&String> = wanted.iter().filter(|scope| !token.has(scope)).collect();
        let help = "add them to `credentials.scopes`, or leave that out to let the server say what it needs";
        tracing::warn!(server = %self.server, ?missing, help, "the server wants more scopes");
    }

    /// The MCP server refused a token that it may have wanted from elsewhere: it is asked again who issues them.
    pub(super) fn doubt(&self) {
        if self.finder.discovers() {
            self.place.store(None);
        }
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.client.issuer.as_deref()
    }

    /// Asks for a token, once, with these scopes besides. While the server was out of order a moment ago it is not
    /// asked.
    pub(super) async fn ask(
        self: &Arc<Self>,
        grant: Grant<'_>,
        wider: &[String],
    ) -> Result<Issued, TokenError> {
        self.pause.check()?;
        let issued = self.try_ask(grant, wider).await;
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

    async fn try_ask(self: &Arc<Self>, grant: Grant<'_>, wider: &[String]) -> Result<Issued, TokenError> {
        let place = self.place().await?;
        let own = if self.is_bounded() { &self.client.scopes } else { &place.scopes };
        let scopes = scopes::union(own, wider);
        let scope = scopes.join(" ");
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
        form.push(("resource", &place.resource));
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        let proof = self.proof(&place)?;
        form.extend(proof.form.iter().map(|(name, value)| (*name, value.expose())));
        let issued = read(&place.remote.post_form(&form, proof.authorization).await?)?;
        if let Grant::Exchange { subject, .. } = grant
            && issued.header.as_bytes().strip_prefix(b"Bearer ") == Some(subject.expose().as_bytes())
        {
            // Presented to the server it would be the caller's own token after all.
            return Err(TokenError::Unusable("is the caller's own token"));
        }
        self.finder.bind(&place);
        Ok(Issued { scopes, ..issued })
    }

    /// The token endpoint, found once for all who wait.
    async fn place(self: &Arc<Self>) -> Result<Arc<Place>, TokenError> {
        if let Some(known) = self.place.load_full().filter(|place| place.holds()) {
            return Ok(known);
        }
        let own = Arc::clone(self);
        let found = self.finding.join(&self.tasks, "find token endpoint", || async move {
            let place = Arc::new(own.finder.find().await?);
            own.place.store(Some(Arc::clone(&place)));
            Ok(place)
        });
        found.await.unwrap_or_else(|| Err(TokenError::Unavailable("stopping".to_owned())))
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
                let signed = assertion(key, id, &place.audience)
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

/// A token, a refusal, or nothing of the kind.
fn read(answer: &Fetched) -> Result<Issued, TokenError> {
    let status = answer.status;
    let document = serde_json::from_slice::<Map<String, Value>>(&answer.body).ok();
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        return Err(TokenError::Unavailable(format!("status {}", status.as_u16())));
    }
    if status.is_client_error() {
        let said = document.as_ref().and_then(|document| document.get("error")?.as_str());
        if said.is_none() && matches!(status.as_u16(), 404 | 405 | 410) {
            // Nobody there who issues tokens: it may have moved.
            return Err(TokenError::Unavailable(format!("status {}", status.as_u16())));
        }
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
