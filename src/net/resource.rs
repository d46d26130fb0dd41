//! Metadata of protected resources (RFC 9728): where a server's are looked for, and whether they speak for it.

use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use super::fetch::{FetchError, Remote};
use super::oauth::{OauthError, cut, names_loopback, reach};
use super::reach::Reach;
use crate::tasks::Tasks;

const PLACE: &str = "/.well-known/oauth-protected-resource";

/// A server whose tokens somebody issues; whose word is taken on that.
#[derive(Debug, Clone)]
pub struct ProtectedResource {
    /// Its address, as the operator wrote it.
    pub url: Url,
    /// Its name where it is not its address, as the operator wrote it.
    pub resource: Option<String>,
    /// `allow_insecure_http`: addresses in documents may be anything.
    pub unguarded: bool,
    /// PEM file with certificates to trust besides the system's roots.
    pub ca_file: Option<PathBuf>,
}

/// What a server says of who issues its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResourceMetadata {
    /// `resource`, in its own spelling: tokens are asked for by this name.
    pub resource: String,
    /// `authorization_servers`: issuers, the preferred first.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// `scopes_supported`
    #[serde(default)]
    pub scopes_supported: Vec<String>,
}

/// A place where metadata may be, and the names they may have there.
#[derive(Debug, PartialEq, Eq)]
struct Spot {
    url: Url,
    names: Vec<String>,
}

impl ProtectedResource {
    /// Fetches its metadata: from the address its refusal named, else path-inserted, else at the root.
    ///
    /// # Errors
    ///
    /// None of them has it, or one has that of another resource: what it names is not for us.
    pub async fn metadata(&self, named: Option<&str>, tasks: &Tasks) -> Result<ResourceMetadata, OauthError> {
        let mut why = String::new();
        for spot in self.spots(named) {
            let metadata = match self.fetch(&spot.url, tasks).await {
                Ok(metadata) => metadata,
                Err(error) => {
                    let shown = shown(&spot.url);
                    why = format!("{why}{}{shown}: {error}", if why.is_empty() { "" } else { "; " });
                    continue;
                }
            };
            if !spot.names.contains(&canonical_text(&metadata.resource)) {
                return Err(OauthError::OtherResource(shown(&spot.url), cut(&metadata.resource)));
            }
            return Ok(metadata);
        }
        Err(OauthError::Absent(why))
    }

    /// Whether its documents may name addresses on this machine.
    pub fn is_local(&self) -> bool {
        names_loopback(&self.url)
    }

    async fn fetch(&self, url: &Url, tasks: &Tasks) -> Result<ResourceMetadata, OauthError> {
        let reach = self.reach(url).ok_or_else(|| {
            OauthError::Address("resource_metadata", self.url.origin().ascii_serialization(), "is not https")
        })?;
        let remote =
            Remote::trusting(url, reach, self.ca_file.as_deref(), tasks).map_err(FetchError::from)?;
        Ok(remote.get().await?.json()?)
    }

    /// At its own origin it may be anywhere: the operator wrote that. Elsewhere: A-50.
    fn reach(&self, url: &Url) -> Option<Reach> {
        reach(url, self.unguarded || url.origin() == self.url.origin(), self.is_local())
    }

    /// Where to look, in order. Documents at the root may speak for the whole origin: only its owner can put them
    /// there (RFC 9728 §3.3).
    fn spots(&self, named: Option<&str>) -> Vec<Spot> {
        let own = self.resource.as_deref().map_or_else(|| canonical(&self.url), canonical_text);
        let path = self.url.path().trim_end_matches('/');
        let inserted = self.at(&format!("{PLACE}{path}"), true);
        let root = self.at(PLACE, false);
        let origin = self.resource.is_none().then(|| canonical(&self.at("/", false)));
        let named = named.and_then(|named| Url::parse(named).ok());
        let mut spots: Vec<Spot> = Vec::with_capacity(3);
        for url in named.into_iter().chain([inserted, root.clone()]) {
            let whole = origin.iter().filter(|_| url == root);
            let names = std::iter::once(&own).chain(whole).cloned().collect();
            if !spots.iter().any(|spot| spot.url == url) {
                spots.push(Spot { url, names });
            }
        }
        spots
    }

    fn at(&self, path: &str, with_query: bool) -> Url {
        let mut url = self.url.clone();
        url.set_path(path);
        url.set_fragment(None);
        if !with_query {
            url.set_query(None);
        }
        url
    }
}

/// The name of a resource by its address, where a root has no slash.
pub fn canonical(url: &Url) -> String {
    let text = url.as_str();
    match (url.path(), url.query()) {
        ("/", None) => text.strip_suffix('/').unwrap_or(text).to_owned(),
        _ => text.to_owned(),
    }
}

/// The same of a name as it is written; what is no address stays as it is.
fn canonical_text(name: &str) -> String {
    Url::parse(name).map_or_else(|_| name.to_owned(), |url| canonical(&url))
}

/// An address for the log: queries may hold keys.
fn shown(url: &Url) -> String {
    url[..url::Position::AfterPath].to_owned()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{ProtectedResource, canonical};
    use crate::net::Reach;

    fn resource(url: &str, name: Option<&str>) -> ProtectedResource {
        let (url, resource) = (Url::parse(url).unwrap(), name.map(str::to_owned));
        ProtectedResource { url, resource, unguarded: false, ca_file: None }
    }

    fn spots(of: &ProtectedResource, named: Option<&str>) -> Vec<(String, Vec<String>)> {
        of.spots(named).into_iter().map(|spot| (spot.url.to_string(), spot.names)).collect()
    }

    /// Covers: A-35: the named address, path-inserted, root; and whose documents are believed there.
    #[test]
    fn a_35_places_in_order() {
        let server = resource("https://h.example/a/mcp", None);
        let (own, origin) = ("https://h.example/a/mcp".to_owned(), "https://h.example".to_owned());
        let inserted =
            ("https://h.example/.well-known/oauth-protected-resource/a/mcp".to_owned(), vec![own.clone()]);
        let root = (
            "https://h.example/.well-known/oauth-protected-resource".to_owned(),
            vec![own.clone(), origin.clone()],
        );
        assert_eq!(spots(&server, None), [inserted.clone(), root.clone()]);
        let named = "https://h.example/custom.json?x=1";
        let first = (named.to_owned(), vec![own.clone()]);
        assert_eq!(spots(&server, Some(named)), [first, inserted.clone(), root.clone()]);
        // Named or not, a place is looked at once, and the root speaks for the origin either way.
        assert_eq!(spots(&server, Some(&root.0)), [root.clone(), inserted.clone()]);
        assert_eq!(spots(&server, Some("no address")), [inserted, root]);
        let bare = resource("https://h.example", None);
        assert_eq!(spots(&bare, None).len(), 1);
        assert!(spots(&bare, None)[0].1.contains(&origin));
        let slash = resource("https://h.example/mcp/?t=1", None);
        assert_eq!(
            spots(&slash, None)[0].0,
            "https://h.example/.well-known/oauth-protected-resource/mcp?t=1"
        );
        // The operator's word is the only one.
        let renamed = resource("https://h.example/mcp", Some("https://API.example:443/"));
        for (_, names) in spots(&renamed, None) {
            assert_eq!(names, ["https://api.example"]);
        }
    }

    /// Covers: A-50: what a refusal names is at the server's own origin, or public and https.
    #[test]
    fn a_50_reach_of_named_metadata() {
        let reach = |server: &str, named: &str| resource(server, None).reach(&Url::parse(named).unwrap());
        let inside = "http://10.0.0.1:8080/mcp";
        assert_eq!(reach(inside, "http://10.0.0.1:8080/prm"), Some(Reach::Any));
        assert_eq!(reach(inside, "http://10.0.0.2:8080/prm"), None);
        assert_eq!(reach(inside, "https://10.0.0.1/prm"), Some(Reach::Public));
        assert_eq!(reach(inside, "http://127.0.0.1/prm"), None);
        assert_eq!(reach("http://localhost:1/mcp", "http://127.0.0.1:2/prm"), Some(Reach::Loopback));
        assert_eq!(reach("http://localhost:1/mcp", "http://10.0.0.1/prm"), None);
        assert_eq!(reach(inside, "file:///etc/passwd"), None);
    }

    #[test]
    fn a_37_the_resource_is_the_servers_address() {
        let of = |url: &str| canonical(&Url::parse(url).unwrap());
        assert_eq!(of("https://MCP.example.com"), "https://mcp.example.com");
        assert_eq!(of("https://mcp.example.com:443/mcp"), "https://mcp.example.com/mcp");
        assert_eq!(of("https://mcp.example.com/a/?t=1"), "https://mcp.example.com/a/?t=1");
    }
}
