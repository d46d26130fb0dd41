//! What one endpoint shows under which names, and what is worth saying about it.

use std::collections::BTreeMap;

use super::live::Contact;
use super::report::{DroppedPart, EndpointPart, Finding, NamePart, Severity};
use crate::catalogue::Published;
use crate::config::{Config, Discovery, Endpoint, Globs, Server};
use crate::gateway::books::{PREFIX, folders};
use crate::gateway::names::{List, NameRules, Naming, Reason, on_endpoint};
use crate::playbooks::{FaultKind, Library};
use crate::protocol::method::Kind;

/// Models choose worse among more tools than this.
const MANY_TOOLS: usize = 30;
/// So many names stand in one message.
const SAID: usize = 5;

/// An endpoint before any server was asked.
pub(super) fn unasked(config: &Config, endpoint: &Endpoint) -> EndpointPart {
    let names = members(config, endpoint).map(|(_, server)| server.name.clone());
    EndpointPart {
        path: endpoint.path.to_string(),
        prefix: endpoint.prefix,
        servers: names.collect(),
        missing: Vec::new(),
        tools: Vec::new(),
        prompts: Vec::new(),
        resources: 0,
        templates: 0,
        dropped: Vec::new(),
        findings: Vec::new(),
    }
}

/// An endpoint over what its servers answered; `contacts` as the servers of the file.
pub(super) fn asked(config: &Config, endpoint: &Endpoint, contacts: &[Contact]) -> EndpointPart {
    let mut part = unasked(config, endpoint);
    let members: Vec<(&Server, &Contact)> = members(config, endpoint)
        .filter_map(|(index, server)| Some((server, contacts.get(index)?)))
        .collect();
    let incomplete = members.iter().filter(|(_, contact)| contact.lists.iter().any(|l| l.known().is_none()));
    part.missing = incomplete.map(|(server, _)| server.name.clone()).collect();
    let faces = Kind::ALL.map(|kind| Face::new(config, endpoint, kind, &members));
    for face in &faces {
        face.clashes(&mut part.findings);
        part.dropped.extend(face.dropped());
    }
    let [tools, prompts, resources, templates] = &faces;
    (part.tools, part.prompts) = (tools.names(), prompts.names());
    (part.resources, part.templates) = (resources.naming.named().len(), templates.naming.named().len());
    playbooks(config, endpoint, &part.tools, &mut part.findings);
    let findings = &mut part.findings;
    dropped_findings(&part.dropped, findings);
    if !endpoint.prefix {
        twice(&part.tools, "tools", findings);
        twice(&part.prompts, "prompts", findings);
    }
    findings.extend(too_long(&part.tools, &part.prompts, config.gateway.max_name_length));
    findings.extend(unpinned(endpoint, &part.tools).filter(|_| part.missing.is_empty()));
    let visible = tools.naming.named().iter().filter(|named| !named.former).count();
    if endpoint.discovery == Discovery::List && visible > MANY_TOOLS {
        let message = format!("{visible} tools are visible: models choose worse among many");
        let hint = Finding::new(Severity::Hint, "many_tools", message);
        findings.push(
            hint.help(
                "narrow `tools.allow`, make endpoints for fewer servers, or set `discovery = \"search\"`",
            ),
        );
    }
    part
}

/// `pinned` that names nothing, where all names are known. Playbooks can be pinned, too.
fn unpinned(endpoint: &Endpoint, tools: &[NamePart]) -> impl Iterator<Item = Finding> {
    let matches = |pattern: &String| {
        let glob = Globs::new(vec![pattern.clone()]);
        pattern.starts_with(PREFIX)
            || glob.is_ok_and(|glob| tools.iter().any(|tool| glob.is_match(&tool.name)))
    };
    let patterns = endpoint.pinned.patterns().iter();
    let unused = patterns.filter(move |pattern| *pattern != "*" && !matches(pattern));
    unused.map(|pattern| Finding::warning("pattern_unused", format!("pinned: {pattern:?} matches no tool")))
}

fn members<'a>(config: &'a Config, endpoint: &'a Endpoint) -> impl Iterator<Item = (usize, &'a Server)> {
    config.servers.iter().enumerate().filter(|(_, server)| endpoint.servers.is_match(&server.name))
}

/// One kind on one endpoint.
struct Face<'a> {
    kind: Kind,
    /// The servers whose list is known.
    listed: Vec<(&'a Server, &'a Published)>,
    naming: Naming,
}

impl<'a> Face<'a> {
    fn new(config: &Config, endpoint: &Endpoint, kind: Kind, members: &[(&'a Server, &'a Contact)]) -> Self {
        let known = members.iter().enumerate().filter_map(|(member, (server, contact))| {
            Some((member, *server, &**contact.lists[kind as usize].known()?))
        });
        let (mut lists, mut listed) = (Vec::new(), Vec::new());
        for (member, server, published) in known {
            lists.push(List { member, natives: published.natives() });
            listed.push((server, published));
        }
        let servers: Vec<&Server> = members.iter().map(|(server, _)| *server).collect();
        let rules = NameRules::from(&config.gateway).on(endpoint);
        let naming = on_endpoint(&rules, endpoint.prefix, kind, &servers, &lists);
        Self { kind, listed, naming }
    }

    fn native(&self, list: usize, item: usize) -> &'a str {
        &self.listed[list].1.items[item].native
    }

    fn names(&self) -> Vec<NamePart> {
        let named = self.naming.named().iter();
        named
            .map(|named| NamePart {
                name: named.exposed.clone(),
                length: named.exposed.chars().count(),
                server: self.listed[named.list].0.name.clone(),
                native: self.native(named.list, named.item).into(),
                changed: named.changed.map(word),
            })
            .collect()
    }

    fn dropped(&self) -> impl Iterator<Item = DroppedPart> {
        self.naming.dropped().iter().map(|dropped| DroppedPart {
            kind: self.kind.as_str(),
            server: self.listed[dropped.list].0.name.clone(),
            native: self.native(dropped.list, dropped.item).into(),
            reason: if dropped.duplicate { "duplicate" } else { "taken" },
        })
    }

    fn clashes(&self, found: &mut Vec<Finding>) {
        for named in self.naming.named() {
            let Some(reason) = named.changed.filter(|reason| reason.is_clash()) else { continue };
            let native = self.native(named.list, named.item);
            let (server, kind, exposed) =
                (&self.listed[named.list].0.name, self.kind.as_str(), &named.exposed);
            let why = match reason {
                Reason::Foreign => "its name begins with the prefix of another server",
                Reason::Reserved => "the gateway has tools of its own by such names",
                _ => "an override of this server has its name",
            };
            let message = format!("{kind}: {native:?} of server {server:?} is shown as {exposed:?}: {why}");
            found.push(Finding::warning("name_clash", message).help("give it another name by an override"));
        }
    }
}

const fn word(reason: Reason) -> &'static str {
    match reason {
        Reason::Characters => "characters",
        Reason::Length => "length",
        Reason::Foreign => "foreign",
        Reason::Taken => "taken",
        Reason::Reserved => "reserved",
    }
}

/// What is wrong with playbooks, tools they name and nobody has included.
fn playbooks(config: &Config, endpoint: &Endpoint, tools: &[NamePart], found: &mut Vec<Finding>) {
    let library = Library::read(&folders(config, endpoint));
    for fault in &library.faults {
        let message = format!("playbook {}: {}", fault.file.display(), fault.message);
        found.push(match fault.kind {
            FaultKind::Unlinked | FaultKind::Cycle => Finding::new(Severity::Hint, "playbook", message),
            _ => Finding::warning("playbook", message),
        });
    }
    for book in &library.books {
        let dead = book.tools.iter().filter(|name| tools.iter().all(|tool| *tool.name != ***name));
        let dead: Vec<&str> = dead.map(String::as_str).collect();
        if !dead.is_empty() {
            let message = format!("playbook {}: no such tools: {}", book.file.display(), some(&dead));
            found.push(Finding::warning("playbook", message));
        }
    }
}

/// One finding for all that a server loses of a kind for one reason.
fn dropped_findings(dropped: &[DroppedPart], found: &mut Vec<Finding>) {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
    for one in dropped {
        groups.entry((&one.server, one.kind, one.reason)).or_default().push(&one.native);
    }
    for ((server, kind, reason), items) in groups {
        let items = some(&items);
        let (code, why) = match (reason, kind) {
            ("duplicate", _) => ("name_duplicate", "it lists them twice, the first stays"),
            (_, "resources" | "templates") => {
                ("uri_taken", "a server before it in the file has the same URIs")
            }
            _ => ("name_clash", "others have their names"),
        };
        found.push(Finding::warning(code, format!("{kind}: {items} of server {server:?} not shown: {why}")));
    }
}

/// Without prefixes nothing is dropped, and what is there twice can be called once.
fn twice(names: &[NamePart], kind: &str, found: &mut Vec<Finding>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(&name.name).or_default() += 1;
    }
    let doubled: Vec<&str> =
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
    if !doubled.is_empty() {
        let message = format!("{kind}: {} listed more than once: calls go to the first", some(&doubled));
        found.push(Finding::warning("name_duplicate", message));
    }
}

/// Only names that are shown untouched can be longer than allowed.
fn too_long(tools: &[NamePart], prompts: &[NamePart], most: usize) -> Option<Finding> {
    let long = tools.iter().chain(prompts).filter(|name| name.length > most);
    let long: Vec<&str> = long.map(|name| &*name.name).collect();
    let message = || format!("{} longer than {most} characters (`gateway.max_name_length`)", some(&long));
    (!long.is_empty())
        .then(|| Finding::warning("name_long", message()).help("some clients refuse such names"))
}

/// Names for a message: the first few, and how many more.
fn some(names: &[&str]) -> String {
    let said: Vec<String> = names.iter().take(SAID).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(SAID) {
        0 => said.join(", "),
        more => format!("{} and {more} more", said.join(", ")),
    }
}
