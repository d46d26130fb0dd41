//! Metadata of authorization servers: where it is looked for, and whose word is taken.

use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use super::fetch::{FetchError, Remote};
use super::reach::Reach;
use crate::config::auth::is_loopback_literal;
use crate::tasks::Tasks;

/// What an authorization server says of itself (RFC 8414), as far as it is used.
#[derive(Debug, Clone, Deserialize)]
pub struct Metadata {
    /// `issuer`
    pub issuer: String,
    /// `jwks_uri`
    pub jwks_uri: Option<String>,
    /// `token_endpoint`
    pub token_endpoint: Option<String>,
    /// `token_endpoint_auth_methods_supported`
    #[serde(default)]
    pub token_endpoint_auth_methods_supported: Vec<String>,
}

/// Why an authorization server's metadata is not there or not believed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OauthError {
    /// The issuer is not a URL.
    #[error("{0:?} is not an http or https URL")]
    Issuer(String),
    /// None of the places has it.
    #[error("no metadata: {0}")]
    Absent(String),
    /// The document speaks for another issuer.
    #[error("the metadata at {0} is that of another issuer, {1:?}")]
    Foreign(Url, String),
    /// The document speaks for another resource.
    #[error(
        "the metadata at {0} are those of another resource, {1:?}; if that is the server's name, set `resource`"
    )]
    OtherResource(String, String),
    /// What the document names is no place to ask.
    #[error("{0} in the metadata of {1:?}: {2}")]
    Address(&'static str, String, &'static str),
    /// The address cannot be used or asked.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// Where the metadata of an issuer is looked for, in this order.
pub fn metadata_urls(issuer: &str) -> Option<Vec<Url>> {
    let url = Url::parse(issuer).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let path = url.path().trim_end_matches('/').to_owned();
    let at = |path: String| {
        let mut place = url.clone();
        place.set_path(&path);
        place.set_query(None);
        place.set_fragment(None);
        place
    };
    let oauth = at(format!("/.well-known/oauth-authorization-server{path}"));
    let openid = at(format!("/.well-known/openid-configuration{path}"));
    Some(match path.as_str() {
        "" => vec![oauth, openid],
        _ => vec![oauth, openid, at(format!("{path}/.well-known/openid-configuration"))],
    })
}

/// An authorization server, and how far what its documents name is trusted.
#[derive(Debug, Clone)]
pub struct AuthorizationServer {
    /// `issuer`, compared as a string.
    pub issuer: String,
    /// Whether the issuer itself was found in a document of others.
    pub discovered: bool,
    /// Whether that document was of a server on this machine: then others on this machine may be named.
    pub local: bool,
    /// `allow_insecure_http`: addresses in documents may be anything.
    pub unguarded: bool,
    /// PEM file with certificates to trust besides the system's roots.
    pub ca_file: Option<PathBuf>,
}

impl AuthorizationServer {
    /// One that the operator wrote.
    pub fn written(issuer: &str, unguarded: bool) -> Self {
        Self { issuer: issuer.to_owned(), discovered: false, local: false, unguarded, ca_file: None }
    }

    /// Fetches its metadata from the first place that has it.
    ///
    /// # Errors
    ///
    /// A document of another issuer ends the search: it is not for us to guess.
    pub async fn metadata(&self, tasks: &Tasks) -> Result<Metadata, OauthError> {
        let urls = metadata_urls(&self.issuer).ok_or_else(|| OauthError::Issuer(self.issuer.clone()))?;
        let mut why = String::new();
        for url in urls {
            let reach = if self.discovered { self.reach(&url, "issuer")? } else { Reach::Any };
            let answer = match Remote::trusting(&url, reach, self.ca_file.as_deref(), tasks) {
                Ok(remote) => remote.get().await,
                Err(error) => Err(FetchError::from(error)),
            };
            let metadata = match answer.and_then(|answer| answer.json::<Metadata>()) {
                Ok(metadata) => metadata,
                Err(error) => {
                    why = format!("{why}{}{url}: {error}", if why.is_empty() { "" } else { "; " });
                    continue;
                }
            };
            if metadata.issuer != self.issuer {
                return Err(OauthError::Foreign(url, cut(&metadata.issuer)));
            }
            return Ok(metadata);
        }
        Err(OauthError::Absent(why))
    }

    /// An address out of its metadata, guarded: `name` is its key there.
    ///
    /// # Errors
    ///
    /// Not a URL, or neither https nor what the operator trusts.
    pub fn remote(&self, name: &'static str, address: &str, tasks: &Tasks) -> Result<Remote, OauthError> {
        let url = Url::parse(address).map_err(|_| self.bad(name, "is not a URL"))?;
        let reach = self.reach(&url, name)?;
        Ok(Remote::trusting(&url, reach, self.ca_file.as_deref(), tasks).map_err(FetchError::from)?)
    }

    /// Anything goes where the operator trusts it: at the origin that the operator wrote, beside a server on
    /// loopback, or unguarded. Else https to public addresses only.
    fn reach(&self, url: &Url, name: &'static str) -> Result<Reach, OauthError> {
        let own = Url::parse(&self.issuer).map_err(|_| OauthError::Issuer(self.issuer.clone()))?;
        let trusted = !self.discovered && (own.origin() == url.origin() || is_loopback_literal(&own));
        reach(url, self.unguarded || trusted, self.local).ok_or_else(|| self.bad(name, "is not https"))
    }

    fn bad(&self, name: &'static str, why: &'static str) -> OauthError {
        OauthError::Address(name, self.issuer.clone(), why)
    }
}

/// What may be connected to for an address in a document: anything if it is `trusted`; this machine if the
/// document is `local` and the address says so; else https to public addresses.
pub(super) fn reach(url: &Url, trusted: bool, local: bool) -> Option<Reach> {
    match url.scheme() {
        "http" | "https" if trusted => Some(Reach::Any),
        "http" | "https" if local && names_loopback(url) => Some(Reach::Loopback),
        "https" => Some(Reach::Public),
        _ => None,
    }
}

/// What somebody else's document says, for the log: not all of it.
pub fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Whether a URL says that it is on this machine, as a number or by name; whether it is, is seen when it is connected to.
pub fn names_loopback(url: &Url) -> bool {
    let named = |host: &str| host == "localhost" || host.ends_with(".localhost");
    matches!(url.host(), Some(url::Host::Domain(host)) if named(host)) || is_loopback_literal(url)
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{AuthorizationServer, metadata_urls};
    use crate::net::Reach;

    fn urls(issuer: &str) -> Vec<String> {
        metadata_urls(issuer).unwrap().into_iter().map(String::from).collect()
    }

    ///
    #[test]
    fn a_36_places_of_metadata_in_order() {
        let bare = [
            "https://id.example/.well-known/oauth-authorization-server",
            "https://id.example/.well-known/openid-configuration",
        ];
        assert_eq!(urls("https://id.example"), bare);
        assert_eq!(urls("https://id.example/"), bare);
        let tenant = [
            "https://id.example/.well-known/oauth-authorization-server/a/t",
            "https://id.example/.well-known/openid-configuration/a/t",
            "https://id.example/a/t/.well-known/openid-configuration",
        ];
        assert_eq!(urls("https://id.example/a/t"), tenant);
        assert_eq!(urls("https://id.example/a/t/"), tenant);
        assert_eq!(metadata_urls("ftp://a"), None);
        assert_eq!(metadata_urls("a"), None);
    }

    /// Covers: A-50: what a document names is public and https, unless the operator's own word covers it.
    #[test]
    fn a_50_reach_of_named_addresses() {
        let reach = |issuer: &str, discovered, unguarded, url: &str| {
            let server =
                AuthorizationServer { discovered, ..AuthorizationServer::written(issuer, unguarded) };
            server.reach(&Url::parse(url).unwrap(), "jwks_uri").ok()
        };
        let written = "https://id.example/t";
        assert_eq!(reach(written, false, false, "https://id.example/keys"), Some(Reach::Any));
        assert_eq!(reach(written, false, false, "https://keys.example/"), Some(Reach::Public));
        assert_eq!(reach(written, false, false, "https://id.example:444/keys"), Some(Reach::Public));
        assert_eq!(reach(written, false, false, "http://id.example/keys"), None);
        assert_eq!(reach(written, false, true, "http://keys.example/"), Some(Reach::Any));
        assert_eq!(reach(written, true, false, "https://id.example/keys"), Some(Reach::Public));
        assert_eq!(reach("http://127.0.0.1:9", false, false, "http://127.0.0.1:8/keys"), Some(Reach::Any));
        assert_eq!(reach("http://127.0.0.1:9", true, false, "https://127.0.0.1:9/keys"), Some(Reach::Public));
        assert_eq!(reach("http://127.0.0.1:9", true, false, "http://127.0.0.1:9/keys"), None);
        assert_eq!(reach(written, false, true, "file:///etc/passwd"), None);
    }

    /// Covers: A-50: documents of a server on this machine may name others there, by whatever name, and nobody inside.
    #[test]
    fn a_50_beside_a_server_on_this_machine() {
        let reach = |url: &str| super::reach(&Url::parse(url).unwrap(), false, true);
        for here in ["http://127.0.0.1:9/", "http://localhost:9/", "https://a.localhost/", "http://[::1]/"] {
            assert_eq!(reach(here), Some(Reach::Loopback), "{here}");
        }
        assert_eq!(reach("https://10.0.0.1/"), Some(Reach::Public), "which it is not");
        assert_eq!(reach("https://localhost.example/"), Some(Reach::Public));
        assert_eq!(reach("http://id.example/"), None);
    }
}
