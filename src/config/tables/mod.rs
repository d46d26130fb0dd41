//! The tables of a file: each key declared once, with its reader and its default.

use super::problem::Place;
use super::read::Text;
use super::tree::{Node, Table};
use super::values::{boolean, choice, each, http_url, line, path};
use super::{
    Admin, Audit, Auth, Cluster, Contract, Endpoint, Gateway, Limit, LogFormat, Server, Telemetry, Tls,
};

mod admin;
mod aids;
mod audit;
mod auth;
mod cluster;
mod contract;
mod credentials;
mod endpoint;
mod gateway;
mod grant;
mod limit;
mod server;

pub(super) use admin::admin;
pub(super) use audit::audit;
pub(super) use auth::is_insecure;
pub(super) use contract::contract;
pub(super) use endpoint::default_endpoint;
pub(super) use gateway::{gateway, name_fault};
pub(super) use grant::GrantEntry;

/// What one file holds.
#[derive(Default)]
pub(super) struct Sections {
    /// `[gateway]` and where it begins.
    pub(super) gateway: Option<(GatewayEntry, Place)>,
    /// `[auth]` and where it begins.
    pub(super) auth: Option<(Auth, Place)>,
    /// `[admin]` and where it begins.
    pub(super) admin: Option<(Admin, Place)>,
    /// Where `[auth]` begins, if it names neither an issuer nor a key.
    pub(super) nobody: Option<Place>,
    /// `[cluster]` and where it begins; without its typed part after a problem.
    pub(super) cluster: Option<(Option<Cluster>, Place)>,
    /// `[audit]` and where it begins.
    pub(super) audit: Option<(Audit, Place)>,
    /// `[contract]` and where it begins.
    pub(super) contract: Option<(Contract, Place)>,
    /// `[telemetry]` and where it begins.
    pub(super) telemetry: Option<(Telemetry, Place)>,
    /// `[tls]` and where it begins; without its typed part after a problem.
    pub(super) tls: Option<(Option<Tls>, Place)>,
    /// `[[endpoint]]`
    pub(super) endpoints: Vec<EndpointEntry>,
    /// `[[server]]`, disabled ones too.
    pub(super) servers: Vec<ServerEntry>,
    /// `[[grant]]`
    pub(super) grants: Vec<GrantEntry>,
    /// `[[limit]]`; without its typed part after a problem.
    pub(super) limits: Vec<Option<Limit>>,
}

/// `[gateway]` and what of it is not in the typed configuration.
pub(super) struct GatewayEntry {
    /// The typed part.
    pub(super) gateway: Gateway,
    /// `include`
    pub(super) include: Vec<(Text, Place)>,
    /// Where `include` stands, if it does.
    pub(super) include_at: Option<Place>,
    /// Where `listen` is, or would be.
    pub(super) listen_at: Place,
}

/// `[[endpoint]]` as far as it could be read, for the rules across tables.
pub(super) struct EndpointEntry {
    /// The typed part; `None` when it is not known which servers it shows and how. Without a path after a problem.
    pub(super) endpoint: Option<Endpoint>,
    /// As `endpoint "/mcp"`.
    pub(super) label: String,
    /// Where `path` is.
    pub(super) path_at: Place,
    /// Where `prefix` is, or would be.
    pub(super) prefix_at: Place,
    /// `servers`, glob by glob.
    pub(super) patterns: Vec<(Text, Place)>,
}

/// `[[server]]` as far as it could be read, for the rules across tables.
pub(super) struct ServerEntry {
    /// The typed part; `None` only after a problem.
    pub(super) server: Option<Server>,
    /// `enabled`
    pub(super) enabled: bool,
    /// `name`, if it is one.
    pub(super) name: Option<String>,
    /// As `server "github"`.
    pub(super) label: String,
    /// Where `name` is.
    pub(super) name_at: Place,
    /// Where `prefix` is, or would be.
    pub(super) prefix_at: Place,
    /// `prefix`, if it was written.
    pub(super) prefix: Option<(Text, Place)>,
    /// Where `command` is, or would be.
    pub(super) command_at: Place,
    /// What `prefix` comes to, unless it or the name it comes from could not be read.
    pub(super) prefix_value: Option<String>,
    /// Where `credentials.issuer` is, or would be.
    pub(super) issuer_at: Place,
    /// Where `credentials.token_url` is, or would be.
    pub(super) token_url_at: Place,
    /// `tools.override.NAME.name`
    pub(super) renamed: Vec<(Text, Place)>,
}

/// Reads one file.
pub(super) fn sections(root: &Table<'_>) -> Sections {
    let gateway = root.get("gateway", |node| node.open(|table| (gateway(table), table.at().clone())));
    let mut nobody = None;
    let auth = root.get("auth", |node| {
        node.open(|table| {
            nobody = (!table.has("issuer") && !table.has("key")).then(|| table.at().clone());
            (auth::auth(table), table.at().clone())
        })
    });
    let admin = root.get("admin", |node| node.open(|table| (admin(table), table.at().clone())));
    let cluster =
        root.get("cluster", |node| node.open(|table| (cluster::cluster(table), table.at().clone())));
    let audit = root.get("audit", |node| node.open(|table| (audit(table), table.at().clone())));
    let contract = root.get("contract", |node| node.open(|table| (contract(table), table.at().clone())));
    let telemetry = root.get("telemetry", |node| node.open(|table| (telemetry(table), table.at().clone())));
    let tls = root.get("tls", |node| node.open(|table| (tls(table), table.at().clone())));
    let endpoints = root.get("endpoint", |node| rows(node, "path", endpoint::endpoint));
    let servers = root.get("server", |node| rows(node, "name", server::server));
    let grants = root.get("grant", |node| rows(node, "", grant::grant));
    let limits = root.get("limit", |node| rows(node, "", limit::limit));
    Sections {
        gateway,
        auth,
        admin,
        nobody,
        cluster,
        audit,
        contract,
        telemetry,
        tls,
        endpoints: endpoints.unwrap_or_default(),
        servers: servers.unwrap_or_default(),
        grants: grants.unwrap_or_default(),
        limits: limits.unwrap_or_default(),
    }
}

/// `[tls]`
fn tls(table: &Table<'_>) -> Option<Tls> {
    let (cert, key) = (table.need("cert", path), table.need("key", path));
    let client_ca = table.get("client_ca", path);
    Some(Tls { cert: cert?, key: key?, client_ca })
}

/// `[telemetry]`
pub(super) fn telemetry(table: &Table<'_>) -> Telemetry {
    let format = choice(&[("json", LogFormat::Json), ("text", LogFormat::Text)]);
    Telemetry {
        log: table.or("log", log_filter, "info"),
        log_format: table.get("log_format", format),
        otlp: table.get("otlp", http_url),
        service_name: table.or("service_name", service_name, "gatehouse"),
        trust_trace_context: table.or("trust_trace_context", boolean, true),
        baggage: table.or("baggage", boolean, false),
    }
}

fn service_name(node: &Node<'_>) -> Option<String> {
    let name = line(node)?;
    if name.is_empty() { node.fail("must not be empty", "") } else { Some(name) }
}

/// A level, or directives as `info,hyper=warn`. A bare word must be a level: a misspelt one would be read as
/// a target and switch everything else off.
fn log_filter(node: &Node<'_>) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let text = line(node)?;
    let bare = text.split(',').map(str::trim).find(|part| {
        !part.contains(['=', '[']) && !LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level))
    });
    let parsed = tracing_subscriber::EnvFilter::builder().parse(&text);
    if bare.is_some() || parsed.is_err() {
        return node.fail(
            "is neither a level nor a list of directives",
            "off, error, warn, info, debug or trace, or as \"info,hyper=warn\"",
        );
    }
    Some(text)
}

/// Reads every table of an array of tables. `name` is the key whose value names one in messages.
fn rows<T>(node: &Node<'_>, name: &str, read: fn(&Table<'_>) -> T) -> Option<Vec<T>> {
    let kind = node.place().key;
    let wanted = format!("an array of tables, [[{kind}]]");
    let mut rows = node.elements(&wanted, "")?;
    for row in &mut rows {
        if let Some(label) = row.peek(name).filter(|label| sayable(label)) {
            row.rename(format!("{kind} {label:?}"));
        }
    }
    Some(rows.iter().filter_map(|row| row.open(read)).collect())
}

/// Whether a name is short and plain enough to stand in a message's key.
fn sayable(name: &str) -> bool {
    (1..=80).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

/// An array of strings of a certain form.
fn words(node: &Node<'_>, read: fn(&Node<'_>) -> Option<String>) -> Option<Vec<String>> {
    each(node, "an array of strings", read)
}
