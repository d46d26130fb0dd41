//! `[server.credentials]`: what we present to a server; never the caller's own token.

use std::fmt;

use http::HeaderName;
use url::Url;

use super::Secret;
use super::signing::SigningKey;

/// What we present to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Credentials {
    /// Nothing.
    None,
    /// `Authorization: Bearer`.
    Bearer(Secret),
    /// Headers by name.
    Headers(Vec<(HeaderName, Secret)>),
    /// `Authorization: Basic`.
    Basic {
        /// User name.
        user: String,
        /// Password.
        password: Secret,
    },
    /// A token that an authorization server issues to the gateway.
    Client(OauthClient),
    /// A token that the issuer of the caller's own token issues for the caller. What belongs to no
    /// caller (discovery, lists, streams of changes) is asked for with a token of the gateway's own.
    Exchange {
        /// The gateway, as that issuer knows it.
        client: OauthClient,
        /// `audience`, beside `resource`.
        audience: Option<String>,
    },
}

/// The gateway as a client of an authorization server.
#[derive(Clone, PartialEq)]
pub struct OauthClient {
    /// `issuer`, compared as a string. There, or `token_url` is.
    pub issuer: Option<String>,
    /// `token_url`; `None`: found in the issuer's metadata.
    pub token_url: Option<Url>,
    /// `client_id`
    pub client_id: String,
    /// `client_secret` or `private_key`
    pub secret: ClientSecret,
    /// `scopes` asked for; none: the server's default.
    pub scopes: Vec<String>,
    /// `resource` that tokens are for; `None`: the server's own address.
    pub resource: Option<String>,
    /// `auth.allow_insecure_http`: addresses in the issuer's metadata may be anything.
    pub unguarded: bool,
}

/// How the gateway proves who it is.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientSecret {
    /// `client_secret`
    Secret(Secret),
    /// `private_key`: `private_key_jwt`.
    Key(SigningKey),
}

impl Credentials {
    /// Whether servers see each caller as himself.
    pub const fn is_per_user(&self) -> bool {
        matches!(self, Self::Exchange { .. })
    }

    /// The gateway as an OAuth client, if it is one here.
    pub const fn client(&self) -> Option<&OauthClient> {
        match self {
            Self::Client(client) | Self::Exchange { client, .. } => Some(client),
            Self::None | Self::Bearer(_) | Self::Headers(_) | Self::Basic { .. } => None,
        }
    }

    /// Says that addresses in documents may be anything.
    pub(super) const fn unguard(&mut self) {
        match self {
            Self::Client(client) | Self::Exchange { client, .. } => client.unguarded = true,
            Self::None | Self::Bearer(_) | Self::Headers(_) | Self::Basic { .. } => {}
        }
    }
}

impl fmt::Debug for OauthClient {
    /// Without the address, which can hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthClient")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("secret", &self.secret)
            .field("scopes", &self.scopes)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
