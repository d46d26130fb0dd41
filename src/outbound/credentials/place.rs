//! Where tokens for one server are issued: the operator's word, an issuer's metadata, or what the server itself says when
//! it refuses.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;
use url::Url;

use super::challenge::Challenge;
use super::scopes;
use super::token::TokenError;
use crate::config::OauthClient;
use crate::net::oauth::{AuthorizationServer, cut};
use crate::net::resource::{ProtectedResource, ResourceMetadata, canonical};
use crate::net::{FetchError, Reach, Remote};
use crate::tasks::Tasks;

/// How long documents are believed; another one may be asked meanwhile only for a reason.
const BELIEVED: Duration = Duration::from_secs(3600);
/// How often it is looked into why a server does not want our tokens.
const CURIOUS: Duration = Duration::from_secs(600);

/// A server, as far as its credentials are concerned.
#[derive(Debug, Clone, Copy)]
pub struct Towards<'a> {
    /// Its name, for the log.
    pub server: &'a Arc<str>,
    /// Its address.
    pub url: &'a Url,
    /// PEM file with certificates that are trusted, besides the system's roots, where its tokens are issued too.
    pub ca_file: Option<&'a Path>,
}

/// The token endpoint, and what tokens are asked for there.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) remote: Remote,
    /// Whether the client's secret goes into the form: only if that is all the server knows.
    pub(super) in_form: bool,
    /// Whom an assertion is for.
    pub(super) audience: String,
    /// `resource`
    pub(super) resource: String,
    /// What is asked for where the operator says nothing.
    pub(super) scopes: Vec<String>,
    /// The issuer, where the server named it.
    named: Option<String>,
    until: Option<Instant>,
}

/// Finds the token endpoint of one server.
#[derive(Debug)]
pub(super) struct Finder {
    server: Arc<str>,
    client: OauthClient,
    resource: ProtectedResource,
    ca_file: Option<PathBuf>,
    /// The last refusal that may lead there.
    challenge: ArcSwapOption<Challenge>,
    /// The issuer that took our credentials: they are its own.
    bound: OnceLock<String>,
    // A std mutex: held to read or write an instant.
    looked: Mutex<Option<Instant>>,
    tasks: Tasks,
}

impl Place {
    /// Whether what was read is still believed.
    pub(super) fn holds(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

impl Finder {
    pub(super) fn new(towards: &Towards<'_>, client: OauthClient, tasks: Tasks) -> Self {
        let ca_file = towards.ca_file.map(Path::to_path_buf);
        let resource = ProtectedResource {
            url: towards.url.clone(),
            resource: client.resource.clone(),
            unguarded: client.unguarded,
            ca_file: ca_file.clone(),
        };
        Self {
            server: Arc::clone(towards.server),
            client,
            resource,
            ca_file,
            challenge: ArcSwapOption::empty(),
            bound: OnceLock::new(),
            looked: Mutex::new(None),
            tasks,
        }
    }

    /// Whether the server is asked who issues its tokens.
    pub(super) const fn discovers(&self) -> bool {
        self.client.issuer.is_none() && self.client.token_url.is_none()
    }

    /// Whether it has to refuse a request first.
    pub(super) fn is_waiting(&self) -> bool {
        self.discovers() && self.challenge.load().is_none()
    }

    /// Notes a refusal.
    pub(super) fn challenged(&self, challenge: &Challenge) {
        self.challenge.store(Some(Arc::new(challenge.clone())));
    }

    /// This place took our credentials.
    pub(super) fn bind(&self, place: &Place) {
        if let Some(named) = &place.named {
            self.bound.get_or_init(|| named.clone());
        }
    }

    /// The token endpoint.
    pub(super) async fn find(&self) -> Result<Place, TokenError> {
        let resource = || self.client.resource.clone().unwrap_or_else(|| canonical(&self.resource.url));
        match (&self.client.token_url, &self.client.issuer) {
            (Some(url), issuer) => {
                let remote = Remote::trusting(url, Reach::Any, self.ca_file.as_deref(), &self.tasks);
                // Of a server without a name, its address is the name.
                let audience = issuer.clone().unwrap_or_else(|| url.to_string());
                Ok(Place {
                    remote: remote.map_err(|error| absent(&error))?,
                    in_form: false,
                    audience,
                    resource: resource(),
                    scopes: Vec::new(),
                    named: None,
                    until: None,
                })
            }
            (None, Some(issuer)) => {
                let written = AuthorizationServer::written(issuer, self.client.unguarded);
                self.at(written, resource(), Vec::new()).await
            }
            (None, None) => self.discover().await.inspect_err(|_| self.challenge.store(None)),
        }
    }

    /// What the server's refusal leads to.
    async fn discover(&self) -> Result<Place, TokenError> {
        let challenge = self.challenge.load_full().unwrap_or_default();
        let metadata = self.ask_server(&challenge).await?;
        let issuer = self.choose(&metadata)?;
        let scopes = match challenge.scopes.is_empty() {
            false => challenge.scopes.clone(),
            true => scopes::checked(metadata.scopes_supported),
        };
        let server = AuthorizationServer {
            discovered: true,
            local: self.resource.is_local(),
            ..AuthorizationServer::written(&issuer, self.client.unguarded)
        };
        let place = self.at(server, metadata.resource, scopes).await?;
        tracing::info!(server = %self.server, issuer = cut(&issuer), "the server says who issues its tokens");
        Ok(Place { named: Some(issuer), ..place })
    }

    async fn ask_server(&self, challenge: &Challenge) -> Result<ResourceMetadata, TokenError> {
        let asked = self.resource.metadata(challenge.metadata.as_deref(), &self.tasks).await;
        asked.map_err(|error| absent(&error))
    }

    /// The first issuer; if our credentials are somebody's already, that one or none.
    fn choose(&self, metadata: &ResourceMetadata) -> Result<String, TokenError> {
        let all = &metadata.authorization_servers;
        match self.bound.get() {
            Some(bound) if all.contains(bound) => Ok(bound.clone()),
            Some(bound) => {
                tracing::error!(
                    server = %self.server,
                    was = bound,
                    now = shown(all),
                    "the server names another issuer now; our credentials are not sent there: set `credentials.issuer`"
                );
                Err(TokenError::Moved)
            }
            None => all.first().cloned().ok_or(TokenError::Unusable("of who issues tokens names nobody")),
        }
    }

    /// The token endpoint of an issuer.
    async fn at(
        &self,
        mut issuer: AuthorizationServer,
        resource: String,
        scopes: Vec<String>,
    ) -> Result<Place, TokenError> {
        issuer.ca_file.clone_from(&self.ca_file);
        let metadata = issuer.metadata(&self.tasks).await.map_err(|error| absent(&error))?;
        let none = "its metadata have no token_endpoint; set `token_url`";
        let address = metadata.token_endpoint.as_deref().ok_or_else(|| absent(&none))?;
        let remote = issuer.remote("token_endpoint", address, &self.tasks);
        let knows =
            |method: &str| metadata.token_endpoint_auth_methods_supported.iter().any(|known| known == method);
        Ok(Place {
            remote: remote.map_err(|error| absent(&error))?,
            in_form: knows("client_secret_post") && !knows("client_secret_basic"),
            audience: issuer.issuer,
            resource,
            scopes,
            named: None,
            until: Some(Instant::now() + BELIEVED),
        })
    }

    /// The server does not want tokens of the issuer that the operator wrote: whether it names others is looked up
    /// behind the scenes, for the log.
    pub(super) fn wonder(self: &Arc<Self>, challenge: &Challenge) {
        let Some(issuer) = self.client.issuer.clone() else { return };
        let now = Instant::now();
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if challenge.metadata.is_none() || looked.is_some_and(|at| now < at + CURIOUS) {
                return;
            }
            *looked = Some(now);
        }
        let (own, challenge) = (Arc::clone(self), challenge.clone());
        self.tasks.spawn("look up issuers", async move {
            match own.ask_server(&challenge).await {
                Ok(metadata) if metadata.authorization_servers.contains(&issuer) => {}
                Ok(metadata) => tracing::error!(
                    server = %own.server,
                    issuer,
                    named = shown(&metadata.authorization_servers),
                    "the server takes tokens of other issuers than `credentials.issuer`"
                ),
                Err(error) => {
                    tracing::debug!(server = %own.server, %error, "it does not say who issues its tokens")
                }
            }
        });
    }
}

/// The first issuers of a list, for the log.
fn shown(issuers: &[String]) -> String {
    issuers.iter().take(3).map(|issuer| cut(issuer)).collect::<Vec<_>>().join(" ")
}

fn absent(error: &dyn std::fmt::Display) -> TokenError {
    TokenError::Unavailable(error.to_string())
}

impl From<FetchError> for TokenError {
    fn from(error: FetchError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
