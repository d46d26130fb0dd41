//! Playbooks of one endpoint: as tools, as prompts, and for the search; read piece by piece.
//!
//! Whoever may use one of a playbook's tools sees it; one that names no tool is for everybody who has anything at its
//! endpoint. Of its links a caller is told only those it could follow.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;

use super::record::Record;
use super::snapshot::Endpoint;
use super::{Call, Gateway, GatewayError, Outlet, relay, results};
use crate::config::{Config, Endpoint as EndpointConfig, Server as ServerConfig};
use crate::playbooks::{Book, Library};
use crate::policy::{GrantSet, Policy, Rights};
use crate::protocol::edit::Parts;
use crate::protocol::items::json_string;
use crate::protocol::meta::SERVER_INFO;
use crate::protocol::method::{Kind, Method};
use crate::protocol::object::{Object, string};
use crate::telemetry::Outcome;

/// What names of playbooks begin with; no server's tool or prompt does where there are playbooks.
pub const PREFIX: &str = "playbook_";
/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// A longer playbook is given section by section.
const LARGE: usize = 8 * 1024;

/// The playbooks of an endpoint, read anew when their files change.
#[derive(Debug)]
pub(super) struct Books {
    folders: Vec<PathBuf>,
    shelf: ArcSwap<Shelved>,
    /// Names of those that were read by somebody.
    opened: Mutex<BTreeSet<String>>,
}

/// A library, and who sees what of it.
#[derive(Debug)]
pub(super) struct Shelved {
    pub(super) library: Library,
    /// By book: its tools, each with the grants that give it to somebody.
    tools: Vec<Vec<(String, GrantSet)>>,
}

impl Books {
    /// The playbooks of an endpoint, if it has any folder of them.
    pub(super) fn of(config: &Config, endpoint: &EndpointConfig, policy: &Policy) -> Option<Self> {
        let folders = folders(config, endpoint);
        if folders.is_empty() {
            return None;
        }
        let shelf = ArcSwap::from_pointee(Shelved::new(Library::read(&folders), config, endpoint, policy));
        Some(Self { folders, shelf, opened: Mutex::default() })
    }

    /// Those that were read under the configuration before are not unused.
    pub(super) fn take_over(&self, before: &Self) {
        let opened = before.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).extend(opened);
    }

    pub(super) fn now(&self) -> Arc<Shelved> {
        self.shelf.load_full()
    }

    /// Reads the files anew if they changed; whether they did. Blocks.
    fn refresh(&self, config: &Config, endpoint: &EndpointConfig, policy: &Policy) -> bool {
        if !self.shelf.load().library.is_old(&self.folders) {
            return false;
        }
        let library = Library::read(&self.folders);
        self.shelf.store(Arc::new(Shelved::new(library, config, endpoint, policy)));
        true
    }
}

/// Central ones first; an endpoint that mirrors one server shows that and nothing else.
pub fn folders(config: &Config, endpoint: &EndpointConfig) -> Vec<PathBuf> {
    if !endpoint.prefix {
        return Vec::new();
    }
    config.gateway.playbooks.iter().chain(&endpoint.playbooks).cloned().collect()
}

impl Shelved {
    fn new(library: Library, config: &Config, endpoint: &EndpointConfig, policy: &Policy) -> Self {
        let servers: Vec<&ServerConfig> =
            config.servers.iter().filter(|server| endpoint.servers.is_match(&server.name)).collect();
        let givers = |name: &String| {
            let (server, native) = native(&servers, &config.gateway.separator, name)?;
            Some((name.clone(), policy.givers(&server.name, Kind::Tools, native)))
        };
        let tools = library.books.iter().map(|book| book.tools.iter().filter_map(givers).collect());
        Self { tools: tools.collect(), library }
    }

    /// Whether a caller sees a playbook.
    fn shows(&self, at: usize, rights: &Rights) -> bool {
        match rights {
            Rights::Open => true,
            Rights::Granted(granted) if self.tools[at].is_empty() => !granted.shown.is_empty(),
            Rights::Granted(_) => self.tools[at].iter().any(|(_, givers)| rights.sees(givers)),
        }
    }

    /// Those that a caller sees.
    pub(super) fn seen<'s>(&'s self, rights: &'s Rights) -> impl Iterator<Item = (usize, &'s Book)> {
        self.library.books.iter().enumerate().filter(|(at, _)| self.shows(*at, rights))
    }

    /// Their definitions as tools or prompts.
    pub(super) fn items(&self, kind: Kind, rights: &Rights) -> Vec<Bytes> {
        match kind {
            Kind::Tools | Kind::Prompts => self.seen(rights).map(|(_, book)| item(kind, book)).collect(),
            Kind::Resources | Kind::Templates => Vec::new(),
        }
    }

    /// One that a caller sees, by its exposed name.
    pub(super) fn find(&self, exposed: &str, rights: &Rights) -> Option<(usize, &Book)> {
        let found = self.library.book(exposed.strip_prefix(PREFIX)?)?;
        self.shows(found.0, rights).then_some(found)
    }

    /// A playbook or one section of it, with where it leads; the error is for the model.
    fn page(&self, at: usize, section: Option<&str>, rights: &Rights) -> Result<String, String> {
        let book = &self.library.books[at];
        let headings = || headings(&book.body).map(|(_, title, _)| title).collect::<Vec<_>>().join("; ");
        let mut text = match section {
            Some(title) => {
                let found = part(&book.body, title);
                found
                    .ok_or_else(|| format!("There is no section {title:?}. There are: {}", headings()))?
                    .to_owned()
            }
            None if book.body.len() > LARGE => {
                let second = self::headings(&book.body).nth(1).map_or(LARGE, |(at, ..)| at.min(LARGE));
                let first = &book.body[..book.body.floor_char_boundary(second)];
                format!(
                    "{first}\n\nThis is the beginning. Its sections, to be read with `section`: {}",
                    headings()
                )
            }
            None => book.body.clone(),
        };
        let mut linked = String::new();
        for link in &book.links {
            if let Some((_, other)) = self.find(&format!("{PREFIX}{link}"), rights) {
                let _ = write!(linked, "\n- {PREFIX}{link}: {}", other.description);
            }
        }
        if !linked.is_empty() {
            let _ = write!(text, "\n\nPlaybooks it leads to:{linked}");
        }
        let tools = self.tools[at].iter().filter(|(_, givers)| rights.sees(givers));
        let tools: Vec<&str> = tools.map(|(name, _)| name.as_str()).collect();
        if !tools.is_empty() {
            let _ = write!(text, "\n\nTools it uses: {}", tools.join(", "));
        }
        Ok(text)
    }
}

/// Whose tool an exposed name is, by the configuration alone: the server, and the name it uses.
fn native<'s>(
    servers: &[&'s ServerConfig],
    separator: &str,
    exposed: &'s str,
) -> Option<(&'s ServerConfig, &'s str)> {
    let rest = |server: &ServerConfig| {
        if server.prefix.is_empty() {
            return Some(exposed);
        }
        exposed.strip_prefix(server.prefix.as_str())?.strip_prefix(separator)
    };
    let owner = |empty: bool| {
        servers
            .iter()
            .filter(move |server| server.prefix.is_empty() == empty)
            .find_map(|s| Some((*s, rest(s)?)))
    };
    let (server, name) = owner(false).or_else(|| owner(true))?;
    let renamed = server.overrides.iter().find(|(_, one)| one.name.as_deref() == Some(name));
    Some((server, renamed.map_or(name, |(native, _)| native.as_str())))
}

/// A playbook as it is listed.
pub(super) fn item(kind: Kind, book: &Book) -> Bytes {
    let head = format!(
        "{{\"name\":{},\"description\":{}",
        json_string(&format!("{PREFIX}{}", book.name)),
        json_string(&format!("Playbook: {}", book.description))
    );
    let rest = if kind == Kind::Tools {
        ",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"section\":{\"type\":\"string\",\"description\":\
         \"One section only, by its heading\"}}},\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}}"
    } else {
        "}"
    };
    (head + rest).into()
}

/// Position, title and level of each heading.
fn headings(body: &str) -> impl Iterator<Item = (usize, &str, usize)> {
    let mut at = 0;
    let mut code = false;
    body.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let title = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level) && !code)?;
        Some((start, title.trim().trim_end_matches('#').trim_end(), level))
    })
}

/// The section under a heading, up to the next of its level.
fn part<'b>(body: &'b str, title: &str) -> Option<&'b str> {
    let mut all = headings(body).skip_while(|(_, found, _)| !found.eq_ignore_ascii_case(title.trim()));
    let (start, _, level) = all.next()?;
    let end = all.find(|(_, _, other)| *other <= level).map_or(body.len(), |(at, ..)| at);
    Some(body[start..end].trim_end())
}

impl Endpoint {
    /// Its playbooks now.
    pub(super) fn shelved(&self) -> Option<Arc<Shelved>> {
        self.books.as_ref().map(Books::now)
    }
}

impl Gateway {
    /// Serves a playbook, if that is what a call means.
    pub(super) fn playbook(
        &self,
        call: &Call,
        name: &str,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Option<Parts>, GatewayError> {
        let Some(books) = call.endpoint.books.as_ref().filter(|_| name.starts_with(PREFIX)) else {
            return Ok(None);
        };
        let shelved = books.now();
        let Some((at, book)) = shelved.find(name, &call.rights) else { return Ok(None) };
        outlet.admitted();
        record.own(name);
        books.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(book.name.clone());
        let info = call.snapshot.server_info.as_bytes();
        let parts = if call.method == Method::PromptsGet {
            // A prompt has no section: whoever picks it reads it from the top.
            let text = shelved.page(at, None, &call.rights).unwrap_or_default();
            prompt(&book.description, &text, info)
        } else {
            let page = shelved.page(at, section(call)?.as_deref(), &call.rights);
            let outcome = if page.is_err() { Outcome::ToolError } else { Outcome::Ok };
            record.outcome(outcome);
            match page {
                Ok(text) => results::tool_text(&text, info),
                Err(wrong) => relay::tool_error(&wrong, info),
            }
        };
        Ok(Some(parts))
    }

    /// Looks at the files of playbooks again and again, and tells of changes.
    pub async fn keep_playbooks(self: Arc<Self>) {
        let mut any = self.count_playbooks(false);
        loop {
            tokio::time::sleep(LOOK).await;
            let gateway = Arc::clone(&self);
            let changed = tokio::task::spawn_blocking(move || {
                let snapshot = gateway.snapshot();
                let refreshed = snapshot.endpoints.iter().map(|endpoint| {
                    let books = endpoint.books.as_ref();
                    books.is_some_and(|b| b.refresh(&snapshot.config, &endpoint.config, &snapshot.policy))
                });
                refreshed.filter(|changed| *changed).count() > 0
            });
            if changed.await.unwrap_or(false) {
                tracing::info!("playbooks were read anew");
                self.catalogue.nudge();
            }
            any = self.count_playbooks(any);
        }
    }

    /// Whether there are any; where there are none and were none, there is nothing to say.
    fn count_playbooks(&self, before: bool) -> bool {
        let any = self.snapshot().endpoints.iter().any(|endpoint| endpoint.books.is_some());
        if !any && !before {
            return false;
        }
        let (mut loaded, mut unused) = (0, 0);
        let mut faults = std::collections::BTreeMap::new();
        for books in self.snapshot().endpoints.iter().filter_map(|endpoint| endpoint.books.as_ref()) {
            let shelved = books.now();
            let opened = books.opened.lock().unwrap_or_else(PoisonError::into_inner);
            loaded += shelved.library.books.len();
            unused += shelved.library.books.iter().filter(|book| !opened.contains(&book.name)).count();
            for fault in &shelved.library.faults {
                *faults.entry(fault.kind).or_insert(0) += 1;
            }
        }
        self.metrics.playbooks("loaded", loaded);
        self.metrics.playbooks("unused", unused);
        for kind in crate::playbooks::FaultKind::ALL {
            self.metrics.playbooks(kind.as_str(), faults.get(&kind).copied().unwrap_or(0));
        }
        any
    }
}

fn section(call: &Call) -> Result<Option<String>, GatewayError> {
    let text = call.envelope.text();
    let Some(span) = call.envelope.param("arguments")? else { return Ok(None) };
    let Ok(arguments) = Object::parse(text, span) else { return Ok(None) };
    let section = arguments.get(text, "section")?;
    Ok(section.and_then(|span| string(span.of(text)).map(std::borrow::Cow::into_owned)))
}

fn prompt(description: &str, text: &str, server_info: &Bytes) -> Parts {
    let mut parts = Parts::new();
    parts.push(format!(
        "{{\"resultType\":\"complete\",\"description\":{},\"messages\":[{{\"role\":\"user\",\"content\":{{\"type\":\
         \"text\",\"text\":{}}}}}],\"_meta\":{{\"{SERVER_INFO}\":",
        json_string(description),
        json_string(text)
    ));
    parts.push(server_info.clone());
    parts.push(Bytes::from_static(b"}}"));
    parts
}

#[cfg(test)]
mod tests {
    use super::{headings, part};

    const BODY: &str = "# A\nx\n## B ##\ny\n```\n# no\n```\n### C\nz\n## D\nend";

    #[test]
    fn sections_are_found_by_their_headings() {
        let titles: Vec<&str> = headings(BODY).map(|(_, title, _)| title).collect();
        assert_eq!(titles, ["A", "B", "C", "D"]);
        assert_eq!(part(BODY, "b"), Some("## B ##\ny\n```\n# no\n```\n### C\nz"));
        assert_eq!(part(BODY, "D"), Some("## D\nend"));
        assert_eq!(part(BODY, "A").map(str::len), Some(BODY.len()));
        assert_eq!(part(BODY, "no"), None);
    }
}
