//! `[[server]]`: its keys and the rules among them.

use std::collections::BTreeMap;
use std::time::Duration;

use url::Url;

use super::super::problem::Place;
use super::super::read::Text;
use super::super::secret::Secret;
use super::super::tree::{Node, Table};
use super::super::units::Wrong;
use super::super::values::{
    big_number, big_size, boolean, child_text, choice, count, duration, each, globs, http_url, line,
    line_with_place, number, path, proxy_url, size, text, text_with_place, time,
};
use super::super::{
    Breaker, ClientFiles, Command, Credentials, Filter, Globs, Guarding, Override, Protocol, Rlimit, Server,
    SessionScope, Target, Validating,
};
use super::ServerEntry;
use super::aids::aids;
use super::contract::{guarding, validating};
use super::credentials::{credentials, forwardable};
use super::words;

/// `server.probe_timeout` over HTTP.
const HTTP_PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// `server.probe_timeout` of a child process, which may have to be downloaded first.
const STDIO_PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// More children of one server than any machine has use for.
const MOST_PROCESSES: usize = 256;

const MIB: usize = 1 << 20;

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("auto", Protocol::Auto),
    ("modern", Protocol::Modern),
    ("legacy", Protocol::Legacy),
    ("sse", Protocol::Sse),
];

const SCOPES: &[(&str, SessionScope)] = &[
    ("auto", SessionScope::Auto),
    ("session", SessionScope::Session),
    ("principal", SessionScope::Principal),
    ("shared", SessionScope::Shared),
];

/// Keys that mean nothing beside `command`.
const HTTP_ONLY: &[&str] =
    &["proxy", "ca_file", "client_cert", "client_key", "connect_timeout", "forward_headers"];
/// Keys that mean nothing beside `url`.
const STDIO_ONLY: &[&str] = &["env", "cwd", "user", "rlimit", "processes"];

/// Reads one `[[server]]`.
pub(super) fn server(table: &Table<'_>) -> ServerEntry {
    let name = table.need("name", server_name);
    let enabled = table.or("enabled", boolean, true);
    let prefix = table.get("prefix", text_with_place);
    let target = target(table);
    let (tools, overrides, own) =
        table.inner("tools", |tools| (filter(tools), overrides(tools), own_rules(tools)));
    let renamed = overrides.iter().filter_map(|(_, _, renamed)| renamed.clone()).collect();
    let overrides = overrides.into_iter().map(|(native, one, _)| (native, one)).collect();
    let entry = table.inner("credentials", credentials);
    let credentials = entry.credentials;
    stray_credentials(table, credentials.as_ref());
    let written = prefix.as_ref().map(|(text, _)| text.value.clone());
    let prefix_value = if table.has("prefix") { written } else { name.clone() };
    let head =
        Head { name: name.clone(), prefix: prefix_value.clone(), target, tools, own, overrides, credentials };
    ServerEntry {
        server: rest(table, head),
        enabled,
        name,
        label: table.at().key.clone(),
        name_at: table.place("name"),
        prefix_at: table.place("prefix"),
        prefix,
        command_at: table.place("command"),
        prefix_value,
        issuer_at: entry.issuer_at,
        token_url_at: entry.token_url_at,
        renamed,
    }
}

/// The parts of a server that are more than one key.
struct Head {
    name: Option<String>,
    prefix: Option<String>,
    target: Option<Target>,
    tools: Filter,
    own: ToolRules,
    overrides: BTreeMap<String, Override>,
    credentials: Option<Credentials>,
}

fn rest(table: &Table<'_>, head: Head) -> Option<Server> {
    let probe = if table.has("command") { STDIO_PROBE_TIMEOUT } else { HTTP_PROBE_TIMEOUT };
    let (resources, resource_uris, resources_probe) = table.inner("resources", |resources| {
        let uris = resources.or("uris", globs, Globs::none());
        (filter(resources), uris, resources.or("probe", boolean, false))
    });
    let seconds = Duration::from_secs;
    // Every key is read before the first `?`, so that one problem does not hide another.
    let server = |name: String, target: Target, credentials: Credentials| Server {
        prefix: head.prefix.unwrap_or_default(),
        name,
        owner: table.get("owner", line),
        description: table.get("description", line),
        tags: table.or("tags", |node| words(node, tag), []),
        target,
        protocol: table.or("protocol", choice(PROTOCOLS), Protocol::Auto),
        session_scope: table.or("session_scope", choice(SCOPES), SessionScope::Auto),
        required: table.or("required", boolean, false),
        timeout: table.or("timeout", time, seconds(15)),
        max_timeout: table.or("max_timeout", time, seconds(300)),
        connect_timeout: table.or("connect_timeout", time, seconds(5)),
        list_timeout: table.or("list_timeout", time, seconds(5)),
        probe_timeout: table.or("probe_timeout", time, probe),
        list_max_pages: table.or("list_max_pages", number, 1000_usize),
        list_max_bytes: table.or("list_max_bytes", size, 64 * MIB),
        max_result: table.or("max_result", size, 4 * MIB),
        truncate: table.or("truncate", boolean, false),
        processes: table.or("processes", processes, 1_usize),
        breaker: table.inner("breaker", breaker),
        health_interval: table.get("health_interval", time),
        max_concurrency: table.or("max_concurrency", number, 64_usize),
        queue: table.or("queue", count, 64_usize),
        ttl: table.get("ttl", duration),
        cache_public: table.or("cache_scope", choice(&[("private", false), ("public", true)]), false),
        expose_errors: table.or("expose_errors", boolean, false),
        extensions: table.or("extensions", |node| words(node, text), []),
        tools: head.tools,
        prompts: table.inner("prompts", filter),
        resources,
        resource_uris,
        resources_probe,
        tool_tags: head.own.tags,
        confirm: head.own.confirm,
        deny_secrets: head.own.deny_secrets,
        overrides: head.overrides,
        contract: table.or("contract", guarding, Guarding::Off),
        validate: table.or("validate", validating, Validating::Off),
        credentials,
        identity: identity(table),
        forward_headers: forward_headers(table),
    };
    let whole = head.name.is_some() && head.target.is_some() && head.credentials.is_some();
    // What stands in for a part that could not be read is thrown away two lines below.
    let target = head.target.unwrap_or_else(nowhere);
    let read = server(head.name.unwrap_or_default(), target, head.credentials.unwrap_or(Credentials::None));
    if read.protocol == Protocol::Sse && table.has("command") {
        table.report("protocol", "\"sse\" is only for servers with `url`", "remove it");
    }
    credential_rules(table, &read);
    whole.then_some(read)
}

/// `breaker`
fn breaker(table: &Table<'_>) -> Breaker {
    let failures = table.or("failures", count, 5_usize);
    let open = table.or("open", time, Duration::from_secs(10));
    Breaker { failures: u32::try_from(failures).unwrap_or(u32::MAX), open }
}

/// `urls`: one at least, none twice.
fn replicas(node: &Node<'_>) -> Option<Vec<Url>> {
    let urls = each(node, "an array of strings", http_url)?;
    let twice = urls.iter().enumerate().any(|(at, url)| urls[..at].contains(url));
    match urls.is_empty() {
        true => node.fail("is empty", "say where the server is"),
        false if twice => node.fail("names one address twice", "each is a replica of its own"),
        false => Some(urls),
    }
}

/// `client_cert` and `client_key`: both or none.
fn identity(table: &Table<'_>) -> Option<ClientFiles> {
    let (cert, key) = (table.get("client_cert", path), table.get("client_key", path));
    for (has, lacks) in [("client_cert", "client_key"), ("client_key", "client_cert")] {
        if table.has(has) && !table.has(lacks) {
            table.report(has, format!("needs `{lacks}` beside it"), "");
        }
    }
    Some(ClientFiles { cert: cert?, key: key? })
}

/// `processes`
fn processes(node: &Node<'_>) -> Option<usize> {
    let wanted: usize = number(node)?;
    if wanted > MOST_PROCESSES {
        return node.fail(format!("must be at most {MOST_PROCESSES}"), "");
    }
    Some(wanted)
}

fn forward_headers(table: &Table<'_>) -> Vec<http::HeaderName> {
    table.or("forward_headers", |node| each(node, "an array of strings", forwardable), [])
}

fn nowhere() -> Target {
    let argv = Vec::new();
    Target::Stdio(Command { argv, env: BTreeMap::new(), cwd: None, user: None, rlimit: Rlimit::default() })
}

/// `[a-z0-9][a-z0-9-]{0,30}`
fn server_name(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let head = text.bytes().next().is_some_and(lower);
        if head && text.len() <= 31 && text.bytes().all(|byte| lower(byte) || byte == b'-') {
            return Ok(text.to_owned());
        }
        Err(Wrong::new("is not a server's name", "1 to 31 of a-z, 0-9 and `-`, not beginning with `-`"))
    })
}

fn target(table: &Table<'_>) -> Option<Target> {
    let url = table.get("url", http_url);
    let urls = table.get("urls", replicas);
    let proxy = table.get("proxy", proxy_url);
    let ca_file = table.get("ca_file", path);
    let argv = table.get("command", argv);
    let env = table.or("env", environment, []);
    let cwd = table.get("cwd", path);
    let user = table.get("user", line);
    let rlimit = table.inner("rlimit", |limits| Rlimit {
        memory: limits.get("memory", big_size),
        files: limits.get("files", big_number),
        processes: limits.get("processes", big_number),
    });
    if table.has("url") && table.has("urls") {
        table.report("urls", "`url` and `urls` are both given", "a server has one of them");
    }
    match (has_url(table), table.has("command")) {
        (true, true) => {
            table.report("command", "`url` and `command` are both given", "a server has one of them")
        }
        (false, false) => table.report_here("has neither `url` nor `command`", "say where the server is"),
        (true, false) => stray(table, STDIO_ONLY, "command"),
        (false, true) => stray(table, HTTP_ONLY, "url"),
    }
    let mut urls = url.into_iter().chain(urls.into_iter().flatten());
    match (urls.next(), argv) {
        (Some(url), _) => Some(Target::Http { url, others: urls.collect(), proxy, ca_file }),
        (None, Some(argv)) => Some(Target::Stdio(Command { argv, env, cwd, user, rlimit })),
        (None, None) => None,
    }
}

/// Whether the server is at one address or several.
fn has_url(table: &Table<'_>) -> bool {
    table.has("url") || table.has("urls")
}

fn stray(table: &Table<'_>, keys: &[&str], owner: &str) {
    for key in keys.iter().filter(|key| table.has(key)) {
        table.report(key, format!("is only for servers with `{owner}`"), "remove it");
    }
}

fn stray_credentials(table: &Table<'_>, credentials: Option<&Credentials>) {
    let some = credentials.is_some_and(|credentials| *credentials != Credentials::None);
    if some && table.has("command") && !has_url(table) {
        let help = "give a child process its secrets with `env`";
        table.report("credentials", "is only for servers with `url`", help);
    }
}

/// What credentials ask of the rest of a server.
fn credential_rules(table: &Table<'_>, server: &Server) {
    if server.credentials.is_per_user() && server.session_scope == SessionScope::Shared {
        let help = "each caller has a session of its own there: remove it";
        table.report("session_scope", "cannot be \"shared\" with `kind = \"token_exchange\"`", help);
    }
    if let Credentials::Headers(own) = &server.credentials
        && let Some((name, _)) = own.iter().find(|(name, _)| server.forward_headers.contains(name))
    {
        let message = format!("names the header `{name}`, which `credentials` set");
        table.report("forward_headers", message, "remove it");
    }
}

fn argv(node: &Node<'_>) -> Option<Vec<String>> {
    if node.is_string() {
        return node.mistyped(
            "an array of strings",
            "one string a word, there is no shell: [\"npx\", \"-y\", \"…\"]",
        );
    }
    let words = each(node, "an array of strings", child_text)?;
    match words.first() {
        None => node.fail("is empty", ""),
        Some(first) if first.expose().trim().is_empty() => node.fail("its first word is empty", ""),
        Some(_) => Some(words.iter().map(|word| word.expose().to_owned()).collect()),
    }
}

fn environment(node: &Node<'_>) -> Option<BTreeMap<String, Secret>> {
    let read: Vec<Option<(String, Secret)>> =
        node.entries()?.iter().map(|(name, value)| variable(name, value)).collect();
    read.into_iter().collect()
}

fn variable(name: &str, value: &Node<'_>) -> Option<(String, Secret)> {
    let secret = child_text(value)?;
    if name.is_empty() || name.contains(['=', '\0']) {
        return value.fail(format!("{name:?} is not a variable's name"), "");
    }
    Some((name.to_owned(), secret))
}

fn filter(table: &Table<'_>) -> Filter {
    Filter { allow: table.or("allow", globs, Globs::any()), deny: table.or("deny", globs, Globs::none()) }
}

/// What the gateway itself does about calls of a server's tools.
struct ToolRules {
    tags: BTreeMap<String, Globs>,
    confirm: Globs,
    deny_secrets: bool,
}

fn own_rules(tools: &Table<'_>) -> ToolRules {
    let denied = |node: &Node<'_>| each(node, "an array of strings", choice(&[("secrets", ())]));
    ToolRules {
        tags: tool_tags(tools),
        confirm: tools.or("confirm", globs, Globs::none()),
        deny_secrets: !tools.or("deny_arguments", denied, []).is_empty(),
    }
}

/// `tools.tags`: each tag with globs on native names.
fn tool_tags(tools: &Table<'_>) -> BTreeMap<String, Globs> {
    let read = |(name, node): &(&str, Node<'_>)| {
        if !is_tag(name) {
            return node.fail("is not a tag", TAG_HELP);
        }
        Some(((*name).to_owned(), globs(node)?))
    };
    let all = tools.get("tags", |node| Some(node.entries()?.iter().filter_map(read).collect()));
    all.unwrap_or_default()
}

const TAG_HELP: &str = "1 to 40 of a-z, 0-9, `-` and `_`";

fn is_tag(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=40).contains(&text.len()) && text.bytes().all(plain)
}

fn tag(node: &Node<'_>) -> Option<String> {
    node.parsed(
        |text| if is_tag(text) { Ok(text.to_owned()) } else { Err(Wrong::new("is not a tag", TAG_HELP)) },
    )
}

/// An override: native name, the typed part, and the new name with its place.
type OverrideEntry = (String, Override, Option<(Text, Place)>);

fn overrides(tools: &Table<'_>) -> Vec<OverrideEntry> {
    let read = |(native, node): &(&str, Node<'_>)| {
        let (one, renamed) = node.open(tool_override)?;
        Some(((*native).to_owned(), one, renamed))
    };
    let all = tools.get("override", |node| Some(node.entries()?.iter().filter_map(read).collect()));
    all.unwrap_or_default()
}

fn tool_override(table: &Table<'_>) -> (Override, Option<(Text, Place)>) {
    let renamed = table.get("name", line_with_place);
    let one = Override {
        disabled: !table.or("enabled", boolean, true),
        name: renamed.as_ref().map(|(text, _)| text.value.clone()),
        description: table.get("description", text),
        timeout: table.get("timeout", time),
        ..aids(table)
    };
    (one, renamed)
}
