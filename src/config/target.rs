//! Where a server is: `url`, `urls` or `command`.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use super::Command;

/// Where a server is.
#[derive(Clone, PartialEq)]
pub enum Target {
    /// `url` and what belongs to it.
    Http {
        /// `url`, or the first of `urls`; http or https.
        url: Url,
        /// The other `urls`: replicas of the same server.
        others: Vec<Url>,
        /// `proxy`: an HTTP proxy, asked to CONNECT.
        proxy: Option<Url>,
        /// `ca_file`: PEM file trusted for this server instead of the system's roots.
        ca_file: Option<PathBuf>,
    },
    /// `command` and what belongs to it.
    Stdio(Command),
}

impl fmt::Debug for Target {
    /// Shows where a URL goes, without path and query: they can hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { url, others, proxy, ca_file } => f
                .debug_struct("Http")
                .field("url", &origin(url))
                .field("others", &others.iter().map(origin).collect::<Vec<_>>())
                .field("proxy", &proxy.as_ref().map(origin))
                .field("ca_file", ca_file)
                .finish(),
            Self::Stdio(command) => command.fmt(f),
        }
    }
}

/// Scheme, host and port.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
