//! `[gateway]`: where it listens, its bounds, what holds for all servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use url::Url;

use super::SecretBytes;

/// `[gateway]`
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// `listen`: where MCP clients connect.
    pub listen: SocketAddr,
    /// `admin_listen`: health and metrics.
    pub admin_listen: SocketAddr,
    /// `public_url`: scheme, host and port that clients use; `None`: `http://` + the bound address.
    pub public_url: Option<Url>,
    /// `name`: `serverInfo.name` in both eras (F-015).
    pub name: String,
    /// `title`: `serverInfo.title`.
    pub title: Option<String>,
    /// `instructions`: own text before those of the servers.
    pub instructions: Option<String>,
    /// `allowed_hosts`: `None`: host of `public_url`, localhost names when bound to loopback; `["*"]`: any.
    pub allowed_hosts: Option<Vec<String>>,
    /// `allowed_origins`: `None`: origin of `public_url`, localhost origins when bound to loopback.
    pub allowed_origins: Option<Vec<String>>,
    /// `trusted_proxies`: networks whose word about a client's address is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// `allow_unauthenticated`: listen beyond loopback without `[auth]`.
    pub allow_unauthenticated: bool,
    /// `keys`: base64 of at least 32 bytes each; the first seals, all open. Decoded.
    pub keys: Vec<SecretBytes>,
    /// `state_dir`
    pub state_dir: Option<PathBuf>,
    /// `separator` between prefix and name.
    pub separator: String,
    /// `max_name_length` of exposed names.
    pub max_name_length: usize,
    /// `strict_names`: characters outside `[A-Za-z0-9_-]` become `_`.
    pub strict_names: bool,
    /// `allow_clashes` of prefixes.
    pub allow_clashes: bool,
    /// `pinned_only`: a command that fetches a package without an exact version is an error.
    pub pinned_only: bool,
    /// `playbooks`: a folder of playbooks for every endpoint with prefixes.
    pub playbooks: Option<PathBuf>,
    /// `max_ttl` for anything cached.
    pub max_ttl: Duration,
    /// `stale_if_error`: how long an expired list may stand in for a dead server's.
    pub stale_if_error: Duration,
    /// `page_size` of lists towards clients; 0: whole lists.
    pub page_size: usize,
    /// `max_body` of a request, in bytes.
    pub max_body: usize,
    /// `max_header`: all request headers together, in bytes.
    pub max_header: usize,
    /// `max_depth` of JSON nesting.
    pub max_depth: usize,
    /// `max_input_elements` of a request.
    pub max_input_elements: usize,
    /// `max_buffered`: bytes of bodies held at once by the process.
    pub max_buffered: usize,
    /// `max_lag`: how late the process may be with its work before calls are refused; 0: never too late.
    pub max_lag: Duration,
    /// `max_connections` of clients.
    pub max_connections: usize,
    /// `header_timeout`: from accept to the end of a request's headers.
    pub header_timeout: Duration,
    /// `body_timeout`: for the whole request body.
    pub body_timeout: Duration,
    /// `idle_timeout`: keep-alive connections without a request.
    pub idle_timeout: Duration,
    /// `keepalive_interval`: comments on quiet event streams (H-73).
    pub keepalive_interval: Duration,
    /// `max_streams`: streams of changes one principal may hold open.
    pub max_streams: usize,
    /// `max_sessions`: sessions of legacy clients one principal may have; the one idle for longest makes room.
    pub max_sessions: usize,
    /// `session_idle`: a session nobody uses ends after this time.
    pub session_idle: Duration,
    /// `session_max_age`: no session is older.
    pub session_max_age: Duration,
    /// `max_parked`: calls of one principal that may wait for its answers.
    pub max_parked: usize,
    /// `park_timeout`: how long each round of answers is waited for.
    pub park_timeout: Duration,
    /// `drain_timeout`: how long a stop waits for running calls.
    pub drain_timeout: Duration,
}
