//! `Host` and `Origin`: DNS rebinding ends here (H-03, H-04, A-63).

use std::net::SocketAddr;

use http::{HeaderMap, StatusCode, Uri, header};
use url::{Host, Url};

use crate::inbound::respond::empty;
use crate::inbound::{Door, Request, Response};

/// Which `Host` and `Origin` values are accepted.
#[derive(Debug, Clone)]
pub struct Guard {
    hosts: Vec<Authority>,
    any_host: bool,
    origins: Vec<Origin>,
    any_origin: bool,
    /// Bound to loopback: localhost names with any port.
    loopback: bool,
    default_hosts: bool,
    default_origins: bool,
    /// Values of `Host` that are ours, as most clients write them: found without parsing.
    usual: Vec<String>,
}

/// A host, and a port if one was named.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Guard {
    /// From `allowed_hosts`, `allowed_origins` (`None`: derived), `public_url` and the bound address.
    pub fn new(
        hosts: Option<&[String]>,
        origins: Option<&[String]>,
        public_url: &Url,
        bound: SocketAddr,
    ) -> Self {
        let own_host =
            Authority { host: public_url.host_str().unwrap_or_default().to_ascii_lowercase(), port: None };
        let own_origin = Origin::parse(public_url.as_str());
        let mut guard = Self {
            any_host: hosts.is_some_and(|list| list.iter().any(|h| h == "*")),
            any_origin: origins.is_some_and(|list| list.iter().any(|o| o == "*")),
            hosts: match hosts {
                Some(list) => list.iter().filter_map(|h| Authority::parse(h)).collect(),
                None => vec![own_host],
            },
            origins: match origins {
                Some(list) => list.iter().filter_map(|o| Origin::parse(o)).collect(),
                None => own_origin.into_iter().collect(),
            },
            loopback: bound.ip().is_loopback(),
            default_hosts: hosts.is_none(),
            default_origins: origins.is_none(),
            usual: Vec::new(),
        };
        let (name, port) = (public_url.host_str().unwrap_or_default(), bound.port());
        let usual =
            [name.to_owned(), format!("{name}:{port}"), bound.to_string(), format!("localhost:{port}")];
        guard.usual = usual.into_iter().filter(|host| guard.host_allowed(host)).collect();
        guard
    }

    /// Whether a `Host` value (or HTTP/2 authority) is ours.
    pub fn host_allowed(&self, host: &str) -> bool {
        if self.any_host || self.usual.iter().any(|usual| usual == host) {
            return true;
        }
        let Some(given) = Authority::parse(host) else { return false };
        let local = self.loopback && self.default_hosts && is_local(&given.host);
        local
            || self
                .hosts
                .iter()
                .any(|own| own.host == given.host && (own.port.is_none() || own.port == given.port))
    }

    /// Whether an `Origin` value is ours; `null` never is unless any is (H-04).
    pub fn origin_allowed(&self, origin: &str) -> bool {
        if self.any_origin {
            return true;
        }
        let Some(given) = Origin::parse(origin) else { return false };
        let local = self.loopback && self.default_origins && is_local(&given.host);
        local || self.origins.contains(&given)
    }
}

fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

impl Authority {
    /// `host`, `host:port`, `[v6]`, `[v6]:port`; nothing else.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.rfind(':') {
            Some(at) if !text[at..].contains(']') => (&text[..at], Some(text[at + 1..].parse().ok()?)),
            _ => (text, None),
        };
        let host = Host::parse(host).ok()?;
        Some(Self { host: host.to_string().to_ascii_lowercase(), port })
    }
}

impl Origin {
    /// A serialized origin: scheme, host, port; compared parsed, never by prefix (H-04).
    fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.username().is_empty();
        let host = url.host_str()?.to_ascii_lowercase();
        bare.then(|| Self { scheme: url.scheme().to_owned(), host, port: url.port_or_known_default() })
    }
}

pub(in crate::inbound) async fn check<F: Future<Output = Response>>(
    door: &Door,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    if let Some(key) = refusal(&door.terms.load().guard, request.uri(), request.headers()) {
        tracing::warn!(
            key,
            "request refused: its Host or Origin is not among the allowed ones of gateway.{key}"
        );
        return empty(StatusCode::FORBIDDEN);
    }
    next(request).await
}

/// The configuration key by which a request is refused.
fn refusal(guard: &Guard, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    let single = |name| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(one), None) => Some(one.to_str().unwrap_or("")),
            (None, _) => None,
            // Two of them: proxies differ in which one they trust.
            (Some(_), Some(_)) => Some(""),
        }
    };
    // HTTP/2 has its authority in the URI.
    let host = uri.authority().map(|a| a.as_str()).or_else(|| single(header::HOST));
    if !host.is_some_and(|host| guard.host_allowed(host)) {
        return Some("allowed_hosts");
    }
    match single(header::ORIGIN) {
        Some(origin) if !guard.origin_allowed(origin) => Some("allowed_origins"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Guard, refusal};
    use http::{HeaderMap, HeaderValue, Uri};
    use url::Url;

    fn guard(bound: &str, public: &str) -> Guard {
        Guard::new(None, None, &Url::parse(public).unwrap(), bound.parse().unwrap())
    }

    fn asked(guard: &Guard, host: &str, origin: Option<&str>) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert("origin", HeaderValue::from_str(origin).unwrap());
        }
        refusal(guard, &Uri::from_static("/mcp"), &headers)
    }

    /// Covers: H-04 policy, F-050.
    #[test]
    fn h_04_hosts_on_loopback() {
        let g = guard("127.0.0.1:8080", "https://mcp.example.test/");
        for good in [
            "mcp.example.test",
            "mcp.example.test:443",
            "MCP.EXAMPLE.TEST",
            "localhost:1",
            "127.0.0.1:8080",
            "[::1]:9",
        ] {
            assert_eq!(asked(&g, good, None), None, "{good}");
        }
        for bad in [
            "evil.test",
            "localhost.evil.test",
            "10.0.0.5:8080",
            "",
            "mcp.example.test.evil.test",
            "127.0.0.2",
            "a b",
        ] {
            assert_eq!(asked(&g, bad, None), Some("allowed_hosts"), "{bad}");
        }
        assert_eq!(refusal(&g, &Uri::from_static("/mcp"), &HeaderMap::new()), Some("allowed_hosts"));
    }

    /// Covers: H-04 policy: localhost names only when bound to loopback.
    #[test]
    fn h_04_hosts_on_a_public_address() {
        let g = guard("0.0.0.0:8080", "https://mcp.example.test/");
        assert_eq!(asked(&g, "mcp.example.test", None), None);
        assert_eq!(asked(&g, "localhost", None), Some("allowed_hosts"));
        assert_eq!(asked(&g, "10.0.0.5:8080", None), Some("allowed_hosts"));
    }

    /// Covers: H-03, H-04; conformance: dns-rebinding-protection.
    #[test]
    fn h_03_origins_are_compared_parsed() {
        let g = guard("127.0.0.1:8080", "https://mcp.example.test/");
        for good in [
            "https://mcp.example.test",
            "https://mcp.example.test:443",
            "http://localhost:5173",
            "http://127.0.0.1:1",
            "http://[::1]:3",
        ] {
            assert_eq!(asked(&g, "localhost", Some(good)), None, "{good}");
        }
        for bad in [
            "null",
            "",
            "http://evil.test",
            "http://localhost.evil.test",
            "https://mcp.example.test.evil.test",
            "http://mcp.example.test",
            "https://mcp.example.test:444",
            "https://mcp.example.test/path",
            "http://localhost@evil.test",
        ] {
            assert_eq!(asked(&g, "localhost", Some(bad)), Some("allowed_origins"), "{bad}");
        }
    }

    #[test]
    fn two_hosts_or_origins_are_refused() {
        let g = guard("127.0.0.1:8080", "http://localhost/");
        let mut headers = HeaderMap::new();
        headers.append("host", HeaderValue::from_static("localhost"));
        headers.append("host", HeaderValue::from_static("localhost"));
        assert_eq!(refusal(&g, &Uri::from_static("/mcp"), &headers), Some("allowed_hosts"));
    }
}
