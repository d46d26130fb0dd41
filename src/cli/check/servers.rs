//! What is worth saying about one server.

use std::time::Duration;

use serde_json::Value;

use super::live::{Contact, Listed};
use super::report::{Finding, Info, ListPart, ListState, ServerPart, ServerState, Severity};
use crate::catalogue::{Fault, Published, PublishedItem};
use crate::config::{Filter, Globs, Guarding, Server, Target, Validating};
use crate::contract::checker::Checker;
use crate::contract::lint::lint;
use crate::protocol::method::Kind;

/// A server before anybody asked it.
pub(super) fn unasked(server: &Server) -> ServerPart {
    ServerPart {
        name: server.name.clone(),
        owner: server.owner.clone(),
        target: target(&server.target),
        required: server.required,
        state: ServerState::Unasked,
        reason: None,
        took_ms: None,
        era: None,
        version: None,
        info: None,
        capabilities: None,
        tools: ListPart::default(),
        prompts: ListPart::default(),
        resources: ListPart::default(),
        templates: ListPart::default(),
        findings: Vec::new(),
    }
}

/// A server and its answers.
pub(super) fn asked(server: &Server, contact: &Contact) -> ServerPart {
    let mut part = unasked(server);
    part.took_ms = Some(millis(contact.took));
    match &contact.peer {
        Ok(peer) => {
            part.state = ServerState::Up;
            part.era = Some(peer.era.as_str());
            part.version = Some(peer.version.clone());
            part.info = Some(info(&peer.offer.server_info));
            part.capabilities = Some(peer.offer.capabilities.clone());
        }
        Err(reason) => {
            part.state = ServerState::Dead;
            part.reason = Some(reason.clone());
            part.findings.push(dead(server, reason));
        }
    }
    let [tools, prompts, resources, templates] = &contact.lists;
    part.tools = list(tools);
    part.prompts = list(prompts);
    part.resources = list(resources);
    part.templates = list(templates);
    for (kind, listed) in Kind::ALL.into_iter().zip(&contact.lists) {
        part.findings.extend(list_findings(server, kind, listed));
    }
    pattern_findings(server, &contact.lists, &mut part.findings);
    part
}

/// Where a server is, without path, query and arguments: they can hold a key.
fn target(target: &Target) -> String {
    match target {
        Target::Http { url, others, .. } => {
            let all = [url].into_iter().chain(others).map(|url| url.origin().ascii_serialization());
            all.collect::<Vec<_>>().join(", ")
        }
        Target::Stdio(command) => command.argv.first().cloned().unwrap_or_default(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn info(said: &Value) -> Info {
    let text = |key: &str| said.get(key).and_then(Value::as_str).map(str::to_owned);
    Info { name: text("name"), title: text("title"), version: text("version") }
}

fn dead(server: &Server, reason: &str) -> Finding {
    if server.required {
        Finding::new(Severity::Error, "dead", format!("is `required` and does not answer: {reason}"))
            .help("a gateway without it does not get ready")
    } else {
        Finding::warning("dead", format!("does not answer: {reason}"))
    }
}

fn list(listed: &Listed) -> ListPart {
    match listed {
        Listed::Known(known) => ListPart {
            state: if known.offered { ListState::Listed } else { ListState::None },
            listed: known.listed().count(),
            allowed: known.items.len(),
            denied: known.hidden.len(),
            reason: None,
        },
        Listed::Failed(reason) => {
            ListPart { state: ListState::Failed, reason: Some(reason.clone()), ..ListPart::default() }
        }
        Listed::Unasked => ListPart::default(),
    }
}

fn list_findings(server: &Server, kind: Kind, listed: &Listed) -> Vec<Finding> {
    let kind = kind.as_str();
    match listed {
        Listed::Known(known) => {
            let faults = known.faults.iter().map(|fault| fault_finding(kind, fault));
            faults.chain(known.items.iter().flat_map(|item| item_findings(server, kind, item))).collect()
        }
        Listed::Failed(reason) => {
            let severity = if server.required { Severity::Error } else { Severity::Warning };
            vec![Finding::new(
                severity,
                "list_failed",
                format!("{kind}: the list is not to be had: {reason}"),
            )]
        }
        Listed::Unasked => Vec::new(),
    }
}

/// What a definition says that none should, and what of it cannot be held against anything.
fn item_findings(server: &Server, kind: &str, item: &PublishedItem) -> Vec<Finding> {
    let mut found = Vec::new();
    // A definition, not arguments: it may be read as a value.
    let lint = lint(&serde_json::from_slice(&item.said).unwrap_or_default());
    if let Some(first) = lint.first() {
        let more = if lint.len() > 1 { format!(", and {} more", lint.len() - 1) } else { String::new() };
        let at = if first.path.is_empty() { "/" } else { &first.path };
        let message = format!("{kind}: {:?} at {at}: {} ({}){more}", item.native, first.message, first.rule);
        // With a lock file somebody has looked at it.
        let guarded = server.contract != Guarding::Off;
        let severity = if guarded { Severity::Hint } else { Severity::Warning };
        let help =
            "read the whole definition before models do; `contract = \"hold\"` keeps what was approved";
        found.push(Finding::new(severity, "suspicious_text", message).help(help));
    }
    if let Some(checks) = &item.checks {
        let both = server.validate == Validating::Both;
        let output = checks.output().filter(|_| both).and_then(Checker::unusable);
        let sides = [("inputSchema", checks.input().unusable()), ("outputSchema", output)];
        for (schema, why) in sides.into_iter().filter_map(|(schema, why)| Some((schema, why?))) {
            let message = format!("{kind}: {:?} is not held against its {schema}: {why}", item.native);
            found.push(Finding::warning("schema_unchecked", message));
        }
    }
    found
}

fn fault_finding(kind: &str, fault: &Fault) -> Finding {
    let (code, help) = match fault {
        Fault::LeftOut { .. } => ("annotation_left_out", "its server must mend the annotation"),
        Fault::Stripped { .. } => ("annotation_stripped", "its server should mend the annotation"),
        Fault::Unreadable { .. } => ("item_unreadable", "its server must mend the definition"),
        Fault::TasksOnly { .. } => ("tool_tasks_only", "its server must let it be called plainly as well"),
        Fault::Override { .. } => ("override_misfit", "it is not applied"),
        Fault::Nameless(_) => ("item_nameless", "its server must name each of them once, with a string"),
        Fault::Cut { .. } => ("list_cut", "what comes after is not shown"),
    };
    Finding::warning(code, format!("{kind}: {fault}")).help(help)
}

/// Patterns and overrides that match nothing the server lists, where the whole list is known.
fn pattern_findings(server: &Server, lists: &[Listed; Kind::ALL.len()], found: &mut Vec<Finding>) {
    let [tools, prompts, resources, templates] = lists;
    let groups: [(&str, &Filter, &[&Listed]); 3] = [
        ("tools", &server.tools, &[tools]),
        ("prompts", &server.prompts, &[prompts]),
        ("resources", &server.resources, &[resources, templates]),
    ];
    for (table, filter, lists) in groups {
        let Some(names) = names(lists) else { continue };
        for (key, globs) in [("allow", &filter.allow), ("deny", &filter.deny)] {
            found.extend(unmatched(globs, &names).map(|pattern| unused(table, key, pattern, &names)));
        }
    }
    let Some(names) = names(&[tools]) else { return };
    let own = server.tool_tags.iter().map(|(tag, globs)| (format!("tags.{tag}"), globs));
    for (key, globs) in own.chain([("confirm".to_owned(), &server.confirm)]) {
        found.extend(unmatched(globs, &names).map(|pattern| unused("tools", &key, pattern, &names)));
    }
    for native in server.overrides.keys().filter(|native| !names.contains(&native.as_str())) {
        let message = format!("tools.override.{native:?}: the server lists no such tool");
        found.push(near(Finding::warning("override_unused", message), native, &names));
    }
}

/// All native names of lists that are whole.
fn names<'a>(lists: &[&'a Listed]) -> Option<Vec<&'a str>> {
    let known: Option<Vec<&Published>> = lists
        .iter()
        .map(|list| list.known().map(|known| &**known).filter(|known| known.is_whole()))
        .collect();
    Some(known?.into_iter().flat_map(Published::listed).collect())
}

fn unmatched<'a>(globs: &'a Globs, names: &'a [&str]) -> impl Iterator<Item = &'a String> {
    let matches = |pattern: &String| {
        Globs::new(vec![pattern.clone()]).is_ok_and(|glob| names.iter().any(|name| glob.is_match(name)))
    };
    globs.patterns().iter().filter(move |pattern| *pattern != "*" && !matches(pattern))
}

fn unused(table: &str, key: &str, pattern: &str, names: &[&str]) -> Finding {
    let message = format!("{table}.{key}: {pattern:?} matches nothing that the server lists");
    near(Finding::warning("pattern_unused", message), pattern, names)
}

/// With the name that was probably meant.
fn near(finding: Finding, wanted: &str, names: &[&str]) -> Finding {
    const ALIKE: f64 = 0.6;
    let score = |name: &str| strsim::normalized_damerau_levenshtein(wanted, name);
    let best = names.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
    match best.filter(|best| score(best) >= ALIKE) {
        Some(best) => finding.help(format!("the nearest name is {best:?}")),
        None => finding,
    }
}
