//! What is presented to a server, request by request: fixed headers, or a token obtained for it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

mod assertion;
mod challenge;
mod client;
mod exchange;
mod issuer;
mod pause;
mod place;
mod scopes;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use challenge::Challenge;
pub use exchange::OnBehalf;
pub use place::Towards;
pub use token::{Token, TokenError};

use crate::config::{Credentials, OauthClient};
use crate::tasks::Tasks;
use client::ClientToken;
use exchange::Exchanger;
use issuer::{Grant, TokenServer};

/// What one server gets to see of who is asking.
#[derive(Debug)]
pub enum Credential {
    /// The same headers with every request, or none.
    Fixed(HeaderMap),
    /// A token of the gateway's own.
    Client(Arc<ClientToken>, Arc<TokenServer>),
    /// A token for each caller, and one of the gateway's own for what belongs to no caller.
    User(Arc<ClientToken>, Box<Exchanger>, Arc<TokenServer>),
}

/// A server's no to a request.
#[derive(Debug)]
pub(crate) struct Refusal<'a> {
    /// 401 or 403
    pub(crate) status: StatusCode,
    /// The token it was about, if there was one.
    pub(crate) token: Option<&'a Arc<Token>>,
    /// What the server says is missing.
    pub(crate) challenge: Challenge,
}

/// What has been done about refusals of one request: each remedy is tried once.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    asked: bool,
    renewed: bool,
    widened: bool,
}

impl Credential {
    /// What `credentials` say, towards one server. Nothing is asked for yet.
    pub fn new(towards: &Towards<'_>, credentials: &Credentials, tasks: &Tasks) -> Self {
        let issuer = |client: &OauthClient| Arc::new(TokenServer::new(towards, client, tasks));
        let own = |issuer: &Arc<TokenServer>| {
            let issuer = Arc::clone(issuer);
            let source = move |wider: Vec<String>| {
                let issuer = Arc::clone(&issuer);
                async move { issuer.ask(Grant::ClientCredentials, &wider).await }
            };
            Arc::new(ClientToken::new(Box::new(move |wider| Box::pin(source(wider))), tasks.clone()))
        };
        match credentials {
            Credentials::Client(client) => {
                let issuer = issuer(client);
                Self::Client(own(&issuer), issuer)
            }
            Credentials::Exchange { client, audience } => {
                let issuer = issuer(client);
                let exchanger = Exchanger::new(Arc::clone(&issuer), audience.clone());
                Self::User(own(&issuer), Box::new(exchanger), issuer)
            }
            fixed => Self::Fixed(fixed_headers(fixed)),
        }
    }

    /// The headers that every request gets, if it is always the same: nothing to wait for, nothing to renew.
    pub const fn fixed(&self) -> Option<&HeaderMap> {
        match self {
            Self::Fixed(headers) => Some(headers),
            Self::Client(..) | Self::User(..) => None,
        }
    }

    /// Adds a token that is valid now to `headers`; `None` while the server has not said who issues them.
    ///
    /// # Errors
    ///
    /// No token is to be had. Nobody else's is used instead.
    pub async fn present(
        &self,
        caller: Option<&OnBehalf>,
        headers: &mut HeaderMap,
    ) -> Result<Option<Arc<Token>>, TokenError> {
        let token = match (self, caller) {
            (Self::Fixed(_), _) => return Err(TokenError::Unusable("is not asked for")),
            (Self::Client(own, issuer), _) if issuer.finder.is_waiting() && !own.is_there() => {
                return Ok(None);
            }
            (Self::Client(own, _), _) | (Self::User(own, ..), None) => own.get().await?,
            (Self::User(_, exchanger, _), Some(caller)) => exchanger.get(caller).await?,
        };
        headers.insert(header::AUTHORIZATION, token.header.clone());
        Ok(Some(token))
    }

    /// The server refused a request. True when the same may be sent once more: with a first token, with another one
    /// or with one of more scopes.
    pub(crate) async fn remedy(
        &self,
        caller: Option<&OnBehalf>,
        refusal: &Refusal<'_>,
        tried: &mut Tried,
    ) -> bool {
        let (Self::Client(own, issuer) | Self::User(own, _, issuer)) = self else { return false };
        let challenge = &refusal.challenge;
        let (tried, token) = match (refusal.status, refusal.token) {
            (StatusCode::UNAUTHORIZED, None) => {
                issuer.finder.challenged(challenge);
                return !std::mem::replace(&mut tried.asked, true);
            }
            (StatusCode::UNAUTHORIZED, Some(token)) => (&mut tried.renewed, token),
            (_, Some(token)) if challenge.wants_scopes() => (&mut tried.widened, token),
            _ => return false,
        };
        let first = !std::mem::replace(tried, true);
        if refusal.status == StatusCode::UNAUTHORIZED {
            issuer.finder.challenged(challenge);
            issuer.doubt();
            let renewed = first
                && match (self, caller) {
                    (Self::User(_, exchanger, _), Some(caller)) => exchanger.refused(caller, token).await,
                    _ => own.refused(token),
                };
            if !renewed {
                issuer.finder.wonder(challenge);
            }
            return renewed;
        }
        if issuer.is_bounded() {
            issuer.tell_bounds(token, &challenge.scopes);
            return false;
        }
        first
            && match (self, caller) {
                (Self::User(_, exchanger, _), Some(caller)) => {
                    exchanger.widen(caller, token, &challenge.scopes).await
                }
                _ => own.widen(token, &challenge.scopes).await,
            }
    }
}

/// Headers that never change; values are checked by the configuration.
fn fixed_headers(credentials: &Credentials) -> HeaderMap {
    let pairs: Vec<(HeaderName, String)> = match credentials {
        Credentials::None | Credentials::Client(_) | Credentials::Exchange { .. } => Vec::new(),
        Credentials::Bearer(token) => vec![(header::AUTHORIZATION, format!("Bearer {}", token.expose()))],
        Credentials::Basic { user, password } => {
            let coded = STANDARD.encode(format!("{user}:{}", password.expose()));
            vec![(header::AUTHORIZATION, format!("Basic {coded}"))]
        }
        Credentials::Headers(headers) => {
            headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
        }
    };
    pairs.into_iter().filter_map(|(name, text)| Some((name, sensitive(&text)?))).collect()
}

/// A header's value that is shown in no log.
fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
