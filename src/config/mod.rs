//! The typed, checked configuration (design §3). Read by `file.rs`, its keys by `tables/`; rules are in `check.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;

use crate::protocol::method::Kind;

pub mod admin;
pub mod audit;
pub mod auth;
mod breaker;
mod check;
pub mod cluster;
pub mod contract;
pub mod credentials;
pub mod endpoint;
mod expand;
mod file;
pub mod files;
mod gateway;
pub mod globs;
pub mod grant;
mod include;
pub mod limit;
mod packages;
mod problem;
mod read;
pub mod secret;
pub mod signing;
mod tables;
mod target;
#[cfg(test)]
mod tests;
mod tree;
mod units;
mod values;
mod warnings;
pub mod watch;

pub use admin::Admin;
pub use audit::{Audit, AuditArguments, AuditFile};
pub use auth::Auth;
pub use breaker::Breaker;
pub use cluster::Cluster;
pub use contract::{Contract, Guarding, Validating};
pub use credentials::{ClientSecret, Credentials, OauthClient};
pub use endpoint::{Discovery, Endpoint};
pub use files::Files;
pub use gateway::Gateway;
pub use globs::{Filter, Globs};
pub use grant::Grant;
pub use limit::Limit;
pub use packages::unpinned as unpinned_package;
pub use problem::{Problem, Problems};
pub use secret::{Secret, SecretBytes};
pub use target::Target;
pub use warnings::Warning;
pub use watch::Watch;

/// Everything the operator wrote, with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[gateway]`
    pub gateway: Gateway,
    /// `[[endpoint]]`; without any in the file: `/mcp` with every server and prefixes.
    pub endpoints: Vec<Endpoint>,
    /// `[[server]]` with `enabled = true`, in file order.
    pub servers: Vec<Server>,
    /// `[auth]`; `None`: nobody is asked who they are.
    pub auth: Option<Auth>,
    /// `[[grant]]`, in file order; without any everybody who gets in may use everything.
    pub grants: Vec<Grant>,
    /// `[[limit]]`, in file order.
    pub limits: Vec<Limit>,
    /// `[admin]`
    pub admin: Admin,
    /// `[cluster]`; `None`: this replica knows of no other.
    pub cluster: Option<Cluster>,
    /// `[audit]`
    pub audit: Audit,
    /// `[contract]`
    pub contract: Contract,
    /// `[telemetry]`
    pub telemetry: Telemetry,
    /// `[tls]`; `None`: clients come by plain HTTP.
    pub tls: Option<Tls>,
}

/// `[[server]]`: one MCP server behind us.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// `name`: `[a-z0-9][a-z0-9-]{0,30}`, unique.
    pub name: String,
    /// `owner`: who to ask.
    pub owner: Option<String>,
    /// `description`
    pub description: Option<String>,
    /// `tags` of all its tools, for the search.
    pub tags: Vec<String>,
    /// `prefix` of exposed names, = name by default; may be empty.
    pub prefix: String,
    /// `url` or `command`.
    pub target: Target,
    /// `protocol`
    pub protocol: Protocol,
    /// `session_scope`
    pub session_scope: SessionScope,
    /// `required`: gates readiness at start.
    pub required: bool,
    /// `timeout`: of silence; progress resets it.
    pub timeout: Duration,
    /// `max_timeout`: of one call in all.
    pub max_timeout: Duration,
    /// `connect_timeout`
    pub connect_timeout: Duration,
    /// `list_timeout`: how long a client's list waits for this server.
    pub list_timeout: Duration,
    /// `probe_timeout`: 5 s HTTP, 30 s stdio by default.
    pub probe_timeout: Duration,
    /// `list_max_pages`
    pub list_max_pages: usize,
    /// `list_max_bytes`
    pub list_max_bytes: usize,
    /// `max_result` in bytes.
    pub max_result: usize,
    /// `truncate`: results of tools beyond `max_result` are cut, not refused.
    pub truncate: bool,
    /// `processes`: children of one context; 1 for servers with a URL.
    pub processes: usize,
    /// `breaker`
    pub breaker: Breaker,
    /// `health_interval`: how often it is asked whether it is well; `None`: never.
    pub health_interval: Option<Duration>,
    /// `max_concurrency`: calls at once, with `processes` in each of them.
    pub max_concurrency: usize,
    /// `queue`: calls that may wait for a permit.
    pub queue: usize,
    /// `ttl` for lists of a server that gives no hints; `None`: 60 s where its changes are watched, else 0.
    pub ttl: Option<Duration>,
    /// `cache_scope = "public"` for servers that give none.
    pub cache_public: bool,
    /// `expose_errors`: show messages of a server's internal errors.
    pub expose_errors: bool,
    /// `extensions`: ids of extensions let through besides those the gateway knows.
    pub extensions: Vec<String>,
    /// `tools.allow`, `tools.deny`
    pub tools: Filter,
    /// `prompts.allow`, `prompts.deny`
    pub prompts: Filter,
    /// `resources.allow`, `resources.deny`, over URIs.
    pub resources: Filter,
    /// `resources.uris`: globs of URIs this server owns.
    pub resource_uris: Globs,
    /// `resources.probe`: asked for URIs that nobody is known to own.
    pub resources_probe: bool,
    /// `tools.tags`: for the search, which tools have which more tags, by globs on native names.
    pub tool_tags: BTreeMap<String, Globs>,
    /// `tools.confirm`: globs on native names of tools that are called only if the user agrees.
    pub confirm: Globs,
    /// `tools.deny_arguments = ["secrets"]`: no call whose arguments hold a token or a key.
    pub deny_secrets: bool,
    /// `tools.override.NAME`
    pub overrides: BTreeMap<String, Override>,
    /// `contract`: what happens when it changes what it offers.
    pub contract: Guarding,
    /// `validate`: what is held against a tool's schemas.
    pub validate: Validating,
    /// `[server.credentials]`
    pub credentials: Credentials,
    /// `client_cert` and `client_key`: what it is shown in the handshake; `None`: nothing.
    pub identity: Option<ClientFiles>,
    /// `forward_headers`: headers of a client's request that go along with its calls; never credentials.
    pub forward_headers: Vec<http::HeaderName>,
}

impl Server {
    /// Whether this server is a child process of ours.
    pub fn is_stdio(&self) -> bool {
        matches!(self.target, Target::Stdio(_))
    }

    /// The longest message of it that is read: what is cut has to be read to its end, and then there is a bound too.
    pub const fn most_read(&self) -> usize {
        if self.truncate { self.max_result.saturating_mul(LONGER) } else { self.max_result }
    }

    /// Files that its link is made of. They are read when it is made: another content asks for another link.
    pub fn materials(&self) -> Vec<&Path> {
        match &self.target {
            Target::Http { ca_file, .. } => ca_file.iter().map(PathBuf::as_path).collect(),
            Target::Stdio(_) => Vec::new(),
        }
    }

    /// Calls at once in all.
    pub const fn permits(&self) -> usize {
        self.max_concurrency.saturating_mul(self.processes)
    }
}

/// How much longer than `max_result` a result may be to be cut; beyond, it is refused.
const LONGER: usize = 16;

/// `client_cert` and `client_key`, PEM: who the gateway is to a server that asks for a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificate first, then those that lead to its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A child process.
#[derive(Clone, PartialEq)]
pub struct Command {
    /// `command`: argv, no shell; `gatehouse` as first word is the running executable.
    pub argv: Vec<String>,
    /// `env`
    pub env: BTreeMap<String, Secret>,
    /// `cwd`
    pub cwd: Option<PathBuf>,
    /// `user` to run as.
    pub user: Option<String>,
    /// `rlimit`
    pub rlimit: Rlimit,
}

impl fmt::Debug for Command {
    /// Shows the program only: arguments can hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("env", &self.env)
            .field("cwd", &self.cwd)
            .field("user", &self.user)
            .field("rlimit", &self.rlimit)
            .finish()
    }
}

/// `rlimit = { memory, files, processes }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rlimit {
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Processes of the user.
    pub processes: Option<u64>,
}

/// `protocol`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Probe (G-60..G-67).
    Auto,
    /// 2026-07-28 without a probe for the handshake.
    Modern,
    /// `initialize` at once.
    Legacy,
    /// The HTTP+SSE transport of 2024-11-05 at once (G-70).
    Sse,
}

/// `session_scope`: who shares a session of a server of the older revisions, or a process (design §7, G-49).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionScope {
    /// HTTP: as `session`. A child process is one for all.
    Auto,
    /// Each session of a client has its own; clients of the current revision, which have none, as `principal`.
    Session,
    /// Each caller has its own.
    Principal,
    /// All share one: for servers that keep nothing of one caller that another must not meet.
    Shared,
}

/// `tools.override.NAME`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Override {
    /// `enabled` (true); false hides the tool.
    pub disabled: bool,
    /// `name`, before prefixing.
    pub name: Option<String>,
    /// `description`
    pub description: Option<String>,
    /// `timeout` of silence for this tool.
    pub timeout: Option<Duration>,
    /// `aliases`: former names of arguments, and the names they have now.
    pub aliases: BTreeMap<String, String>,
    /// `defaults`: what arguments get that are absent.
    pub defaults: BTreeMap<String, serde_json::Value>,
    /// `values`: by argument, former values as text, and what they are now.
    pub values: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// `deprecated_since`, as `2026-11-30`: of its former names and values; where there are none, of the tool.
    pub deprecated_since: Option<String>,
}

impl Override {
    /// Whether the name that the tool had before `name` is served, too.
    pub const fn keeps_name(&self) -> bool {
        self.name.is_some() && self.deprecated_since.is_some() && !self.disabled
    }

    /// Whether the tool itself is on its way out.
    pub fn is_retired(&self) -> bool {
        let of_parts = self.name.is_some() || !self.aliases.is_empty() || !self.values.is_empty();
        self.deprecated_since.is_some() && !of_parts
    }
}

/// `[tls]`: how the gateway itself ends its clients' TLS. The admin listener stays plain.
#[derive(Debug, Clone, PartialEq)]
pub struct Tls {
    /// `cert`: PEM, the certificate first.
    pub cert: PathBuf,
    /// `key`: PEM.
    pub key: PathBuf,
    /// `client_ca`: PEM; a certificate of these authorities says who a client is. Without `[auth]` every client needs one.
    pub client_ca: Option<PathBuf>,
}

/// `[telemetry]`
#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// `log`: a level or tracing filter directives.
    pub log: String,
    /// `log_format`; `None`: JSON, text on a terminal.
    pub log_format: Option<LogFormat>,
    /// `otlp`: a collector that takes OTLP over HTTP; `None`: no span is made.
    pub otlp: Option<Url>,
    /// `service_name`: who we are in traces.
    pub service_name: String,
    /// `trust_trace_context`: whether the traces of clients are continued.
    pub trust_trace_context: bool,
    /// `baggage`: whether `baggage` of clients goes on to servers.
    pub baggage: bool,
}

/// `log_format`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Server {
    /// Whether nothing of this kind is held back or changed by the operator.
    pub fn shows_all(&self, kind: Kind) -> bool {
        match kind {
            _ if self.contract == Guarding::Hold => false,
            Kind::Tools => self.tools.is_open() && self.overrides.is_empty(),
            Kind::Prompts => self.prompts.is_open(),
            Kind::Resources | Kind::Templates => self.resources.is_open(),
        }
    }

    /// Life and publicity of results that carry no hints (L-42).
    pub fn fallback_hints(&self) -> (Duration, bool) {
        (self.ttl.unwrap_or_default(), self.cache_public)
    }
}
