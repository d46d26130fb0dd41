//! One server of a client's file as a server of ours.

use std::collections::BTreeSet;

use super::secrecy::{harmless, random, secretive};
use super::source::Entry;
use super::url::address;
use super::vault::{Place, Vault, is_reference, variable_name};

/// One server of ours. All texts are in our own notation, with variables for secrets.
pub(super) struct Draft {
    /// `name`
    pub(super) name: String,
    /// Its name in the client's file, if that is another.
    pub(super) was: Option<String>,
    /// `enabled`
    pub(super) enabled: bool,
    /// `description`
    pub(super) description: Option<String>,
    /// Where it is.
    pub(super) target: Target,
    /// `credentials`
    pub(super) credentials: Option<Credentials>,
    /// `tools.allow`, `tools.deny`
    pub(super) tools: [Vec<String>; 2],
    /// What is to be looked at.
    pub(super) notes: Vec<String>,
    /// Why it cannot be used as it is.
    pub(super) refused: Option<String>,
}

/// Where a server is.
pub(super) enum Target {
    /// `url`; whether it speaks the oldest HTTP transport.
    Http { url: String, sse: bool },
    /// `command`, `env`, `cwd`
    Stdio { argv: Vec<String>, env: Vec<(String, String)>, cwd: Option<String> },
}

/// `credentials`
pub(super) enum Credentials {
    /// A token.
    Bearer(String),
    /// Headers.
    Headers(Vec<(String, String)>),
    /// A name and a password.
    Basic { user: String, password: String },
}

/// Names given so far.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A name as ours must be (1 to 31 of a-z, 0-9, -), given once.
    fn give(&mut self, raw: &str) -> String {
        const MOST: usize = 31;
        let mut name = String::new();
        for c in raw.chars() {
            if c.is_ascii_alphanumeric() {
                name.push(c.to_ascii_lowercase());
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        name.truncate(MOST);
        let stem = match name.trim_end_matches('-') {
            "" => "server".to_owned(),
            name => name.to_owned(),
        };
        let numbered = (2_usize..).map(|number| {
            let tail = format!("-{number}");
            format!("{}{tail}", stem[..stem.len().min(MOST - tail.len())].trim_end_matches('-'))
        });
        let free = std::iter::once(stem.clone()).chain(numbered).find(|name| !self.0.contains(name));
        let name = free.unwrap_or(stem);
        self.0.insert(name.clone());
        name
    }
}

/// Keys that are read.
const READ: &[&str] = &[
    "command",
    "args",
    "env",
    "cwd",
    "type",
    "transport",
    "transportType",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "disabled",
    "enabled",
    "description",
    "includeTools",
    "excludeTools",
    "enabled_tools",
    "disabled_tools",
    "disabledTools",
    "tools",
];
/// Keys that mean something in their client only.
const CLIENTS_OWN: &[&str] =
    &["autoApprove", "alwaysAllow", "trust", "autoStart", "gallery", "version", "dev", "source"];

/// Makes a server of ours.
pub(super) fn draft(entry: &Entry, names: &mut Names, vault: &mut Vault) -> Draft {
    let name = names.give(&entry.name);
    let mut draft = Draft {
        was: (name != entry.name).then(|| entry.name.clone()),
        enabled: !entry.flag("disabled").unwrap_or(false) && entry.flag("enabled").unwrap_or(true),
        description: None,
        target: Target::Stdio { argv: Vec::new(), env: Vec::new(), cwd: None },
        credentials: None,
        tools: [Vec::new(), Vec::new()],
        notes: Vec::new(),
        refused: None,
        name,
    };
    let place = |what| Place { server: &entry.name, what };
    let described =
        entry.text(&["description"]).filter(|text| !random(text) && !text.contains(char::is_control));
    draft.description = described.map(|text| vault.text(text, place("description")));
    target(&mut draft, entry, vault);
    let allow = entry.list(&["includeTools", "enabled_tools", "tools"]);
    let deny = entry.list(&["excludeTools", "disabled_tools", "disabledTools"]);
    draft.tools = [allow, deny].map(|list| list.iter().map(|one| vault.text(one, place("tools"))).collect());
    rest(&mut draft, entry);
    draft
}

fn target(draft: &mut Draft, entry: &Entry, vault: &mut Vault) {
    let kind = entry.text(&["type", "transport", "transportType"]).unwrap_or_default().to_ascii_lowercase();
    let url = entry.text(&["url", "serverUrl", "httpUrl"]);
    let command =
        entry.text(&["command"]).map(str::to_owned).or_else(|| entry.list(&["command"]).first().cloned());
    match (kind.as_str(), url, command) {
        ("" | "stdio" | "local", _, Some(command)) => stdio(draft, entry, &command, vault),
        (
            "" | "http" | "sse" | "remote" | "streamable-http" | "streamablehttp" | "streamable_http",
            Some(url),
            _,
        ) => {
            http(draft, entry, (url, kind == "sse"), vault);
        }
        ("", None, None) => draft.refused = Some("it has neither a command nor an address".to_owned()),
        (kind, ..) => {
            // A word that a client made up could be anything.
            let kind = if harmless(kind) { format!("{kind:?}") } else { "of its entry".to_owned() };
            draft.refused =
                Some(format!("the transport {kind} is unknown, or what belongs to it is missing"));
        }
    }
}

fn http(draft: &mut Draft, entry: &Entry, (raw, sse): (&str, bool), vault: &mut Vault) {
    let server = draft.name.clone();
    let Some(address) = address(raw, &server, vault) else {
        draft.refused = Some("its address is neither http nor https".to_owned());
        return;
    };
    if address.cut {
        draft.notes.push("what stood behind # in its address is left out: it is never sent".to_owned());
    }
    draft.target = Target::Http { url: address.url, sse };
    let headers = entry.table(&["headers", "http_headers"]);
    let known = address.credentials.is_some();
    draft.credentials = address.credentials.or_else(|| credentials(draft, &headers, vault));
    if known && !headers.is_empty() {
        let kept = "its address holds a name and a password, which went first: its headers are left out";
        draft.notes.push(kept.to_owned());
    }
}

/// Headers that the gateway sets itself.
const HOPS: &[&str] = &["accept", "accept-encoding", "connection", "content-type", "content-length", "host"];

fn credentials(draft: &mut Draft, headers: &[(String, String)], vault: &mut Vault) -> Option<Credentials> {
    let ours = |name: &str| {
        let name = name.to_ascii_lowercase();
        HOPS.contains(&name.as_str()) || name.starts_with("mcp-")
    };
    let (dropped, kept): (Vec<_>, Vec<_>) = headers.iter().partition(|(name, _)| ours(name));
    for (name, _) in dropped {
        draft.notes.push(format!("header {name:?} is left out: the gateway sets it"));
    }
    let server = draft.name.clone();
    if let [(name, value)] = kept[..]
        && name.eq_ignore_ascii_case("authorization")
        && let Some(token) = bearer(value)
    {
        let place = Place { server: &server, what: "header Authorization" };
        return Some(Credentials::Bearer(vault.secret(token, &format!("{server}_token"), place)));
    }
    let kept: Vec<_> =
        kept.iter().map(|(name, value)| (name.clone(), header(name, value, &server, vault))).collect();
    (!kept.is_empty()).then_some(Credentials::Headers(kept))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().contains(' ')).then(|| token.trim())
}

fn header(name: &str, value: &str, server: &str, vault: &mut Vault) -> String {
    let what = format!("header {name}");
    let place = Place { server, what: &what };
    if let Some(token) = bearer(value) {
        return format!("Bearer {}", vault.secret(token, &format!("{server}_token"), place));
    }
    if is_reference(value) || (harmless(value) && !secretive(name)) {
        return vault.text(value, place);
    }
    vault.secret(value, &format!("{server}_{name}"), place)
}

fn stdio(draft: &mut Draft, entry: &Entry, command: &str, vault: &mut Vault) {
    let server = draft.name.clone();
    let mut words: Vec<String> = vec![command.to_owned()];
    let listed = entry.list(&["command"]);
    words.extend(listed.into_iter().skip(1));
    words.extend(entry.list(&["args"]));
    if words.len() == 1 && command.contains(' ') && !command.contains(['"', '\'', '\\']) {
        words = command.split_whitespace().map(str::to_owned).collect();
        draft.notes.push(
            "its command was one text with spaces: there is no shell, so it is split into words".into(),
        );
    }
    if words.first().is_some_and(|word| word.eq_ignore_ascii_case("cmd")) && words.len() > 2 {
        words.drain(..2);
        draft.notes.push("`cmd /c` is left out: it is for Windows".to_owned());
    }
    if let Some(at) = words.iter().position(|word| word.starts_with("mcp-remote"))
        && words.get(at + 1).is_some_and(|next| next.starts_with("http"))
    {
        let note = "`mcp-remote` only carries it to an address: the gateway reaches that itself with `url`";
        draft.notes.push(note.to_owned());
    }
    if words.iter().any(|word| word.starts_with("./") || word.starts_with("../")) {
        draft.notes.push("a relative path is meant from the gateway's own folder, or from `cwd`".to_owned());
    }
    let argv = arguments(&words, &server, vault);
    let env = entry.table(&["env"]).into_iter().map(|(name, value)| {
        let value = environment(&name, &value, &server, vault);
        (name, value)
    });
    let env = env.collect();
    let place = Place { server: &server, what: "cwd" };
    let cwd = entry.text(&["cwd"]).map(|cwd| vault.text(&home(cwd), place));
    draft.target = Target::Stdio { argv, env, cwd };
}

/// There is no shell to know what `~` is.
fn home(path: &str) -> String {
    path.strip_prefix("~/").map_or_else(|| path.to_owned(), |rest| format!("${{HOME}}/{rest}"))
}

fn environment(name: &str, value: &str, server: &str, vault: &mut Vault) -> String {
    let what = format!("env {name}");
    let place = Place { server, what: &what };
    if value.is_empty() || is_reference(value) || (harmless(value) && !secretive(name)) {
        return vault.text(&home(value), place);
    }
    vault.secret(value, name, place)
}

/// The words of a command, with variables for what could be secrets.
fn arguments(words: &[String], server: &str, vault: &mut Vault) -> Vec<String> {
    let mut out = Vec::with_capacity(words.len());
    let mut option: Option<String> = None;
    for word in words {
        let before = option.take();
        out.push(argument(word, before.as_deref(), server, vault));
        if word.starts_with('-') && !word.contains('=') && word.len() > 1 {
            option = Some(word.trim_start_matches('-').to_owned());
        }
    }
    out
}

fn argument(word: &str, option: Option<&str>, server: &str, vault: &mut Vault) -> String {
    let place = |what| Place { server, what };
    // As `--header "Authorization: Bearer …"`.
    let is_header = option.is_some_and(|option| matches!(option, "header" | "H"));
    if is_header && let Some((name, value)) = word.split_once(':') {
        return format!("{name}:{}{}", spaces(value), header(name, value.trim_start(), server, vault));
    }
    // As `--api-key=…`, or `-e API_KEY=…` of docker.
    if let Some((name, value)) = word.split_once('=')
        && !name.contains(['/', ' ', '?'])
    {
        let name = name.trim_start_matches('-');
        // As `package==1.0`.
        let version = value.strip_prefix('=').is_some_and(harmless);
        if version || value.is_empty() || is_reference(value) || (harmless(value) && !secretive(name)) {
            return vault.text(word, place("command"));
        }
        let wanted = if word.starts_with('-') { format!("{server}_{name}") } else { variable_name(name) };
        let what = format!("command, {name}");
        return word[..word.len() - value.len()].to_owned() + &vault.secret(value, &wanted, place(&what));
    }
    let named = option.is_some_and(|option| secretive(option) && !word.starts_with('-'));
    if word.contains("://")
        && let Some(parts) = address(word, server, vault)
        && parts.credentials.is_none()
    {
        return parts.url;
    }
    let secret =
        named || word.split_once("://").is_some_and(|(_, rest)| rest.contains('@')) || unpinned_random(word);
    if secret && !is_reference(word) {
        let wanted = format!("{server}_{}", option.filter(|_| named).unwrap_or("argument"));
        return vault.secret(word, &wanted, place("command"));
    }
    vault.text(&home(word), place("command"))
}

fn spaces(text: &str) -> &str {
    &text[..text.len() - text.trim_start().len()]
}

/// Whether a word looks made at random and is no commit or digest that pins something.
fn unpinned_random(word: &str) -> bool {
    let pin = |tail: &str| matches!(tail.len(), 40 | 64) && tail.bytes().all(|byte| byte.is_ascii_hexdigit());
    let before =
        word.rsplit_once(['@', '#', ':']).filter(|(_, tail)| pin(tail)).map_or(word, |(before, _)| before);
    random(before)
}

/// What else the entry says.
fn rest(draft: &mut Draft, entry: &Entry) {
    let other: Vec<&str> = entry.keys().filter(|key| !READ.contains(key)).collect();
    let (own, left): (Vec<&str>, Vec<&str>) = other.into_iter().partition(|key| CLIENTS_OWN.contains(key));
    if !own.is_empty() {
        draft.notes.push(format!("left out, for it is its client's business: {}", own.join(", ")));
    }
    for key in left {
        draft.notes.push(match key {
            "timeout" => {
                "`timeout` is left out: clients disagree on its unit; ours is `timeout = \"15s\"`".to_owned()
            }
            "envFile" => "`envFile` is not read: give what is in it with `env`".to_owned(),
            "oauth" | "auth" => {
                format!("{key:?} is left out: see `credentials` for what a gateway can present")
            }
            _ if random(key) => "a key that is not known is left out".to_owned(),
            _ => format!("{key:?} is not known and left out"),
        });
    }
}
