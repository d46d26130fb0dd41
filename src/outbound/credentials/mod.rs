//! What is presented to a server, request by request: fixed headers, or a token obtained for it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::Url;

mod assertion;
mod client;
mod exchange;
mod issuer;
mod pause;
#[cfg(test)]
mod tests;
mod token;

pub use exchange::OnBehalf;
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
    Client(Arc<ClientToken>),
    /// A token for each caller, and one of the gateway's own for what belongs to no caller.
    User(Arc<ClientToken>, Box<Exchanger>),
}

impl Credential {
    /// What `credentials` say, towards the server at `url`. Nothing is asked for yet.
    pub fn new(server: &Arc<str>, url: &Url, credentials: &Credentials, tasks: &Tasks) -> Self {
        let issuer = |client: &OauthClient| {
            let resource = client.resource.clone().unwrap_or_else(|| canonical(url));
            Arc::new(TokenServer::new(Arc::clone(server), client.clone(), resource, tasks.clone()))
        };
        let own = |issuer: &Arc<TokenServer>| {
            let issuer = Arc::clone(issuer);
            let source = move || {
                let issuer = Arc::clone(&issuer);
                async move { issuer.ask(Grant::ClientCredentials).await }
            };
            Arc::new(ClientToken::new(Box::new(move || Box::pin(source())), tasks.clone()))
        };
        match credentials {
            Credentials::Client(client) => Self::Client(own(&issuer(client))),
            Credentials::Exchange { client, audience } => {
                let issuer = issuer(client);
                let own = own(&issuer);
                Self::User(own, Box::new(Exchanger::new(issuer, audience.clone())))
            }
            fixed => Self::Fixed(fixed_headers(fixed)),
        }
    }

    /// The headers that every request gets, if it is always the same: nothing to wait for, nothing to renew.
    pub const fn fixed(&self) -> Option<&HeaderMap> {
        match self {
            Self::Fixed(headers) => Some(headers),
            Self::Client(_) | Self::User(..) => None,
        }
    }

    /// Adds a token that is valid now to `headers`.
    ///
    /// # Errors
    ///
    /// No token is to be had. Nobody else's is used instead.
    pub async fn present(
        &self,
        caller: Option<&OnBehalf>,
        headers: &mut HeaderMap,
    ) -> Result<Arc<Token>, TokenError> {
        let token = match (self, caller) {
            (Self::Fixed(_), _) => return Err(TokenError::Unusable("is not asked for")),
            (Self::Client(own), _) | (Self::User(own, _), None) => own.get().await?,
            (Self::User(_, exchanger), Some(caller)) => exchanger.get(caller).await?,
        };
        headers.insert(header::AUTHORIZATION, token.header.clone());
        Ok(token)
    }

    /// The server refused this token (401): forgets it. True when another one may be tried.
    pub async fn refused(&self, caller: Option<&OnBehalf>, token: &Arc<Token>) -> bool {
        match (self, caller) {
            (Self::Fixed(_), _) => false,
            (Self::Client(own), _) | (Self::User(own, _), None) => own.refused(token),
            (Self::User(_, exchanger), Some(caller)) => exchanger.refused(caller, token).await,
        }
    }
}

/// The resource that a server's tokens are for: its address, where a root has no slash.
fn canonical(url: &Url) -> String {
    let text = url.as_str();
    match (url.path(), url.query()) {
        ("/", None) => text.strip_suffix('/').unwrap_or(text).to_owned(),
        _ => text.to_owned(),
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
