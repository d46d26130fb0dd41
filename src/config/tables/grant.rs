//! `[[grant]]`: its keys and the rules among them.

use serde_json::Value;

use super::super::Globs;
use super::super::grant::{ClaimRule, Grant, Test, Wanted};
use super::super::problem::Place;
use super::super::tree::{Node, Table};
use super::super::values::{boolean, globs, instant};
use super::auth::scope;
use super::words;

/// `[[grant]]` and where it begins.
pub(in super::super) struct GrantEntry {
    /// The typed part; `None` only after a problem.
    pub(in super::super) grant: Option<Grant>,
    /// Where it begins.
    pub(in super::super) at: Place,
}

/// Reads one `[[grant]]`.
pub(super) fn grant(table: &Table<'_>) -> GrantEntry {
    GrantEntry { grant: grant_of(table), at: table.at().clone() }
}

fn grant_of(table: &Table<'_>) -> Option<Grant> {
    let to = table.get("to", claims);
    let endpoints = table.or("endpoints", globs, Globs::any());
    let servers = table.need("servers", globs);
    let [tools, prompts, resources] =
        ["tools", "prompts", "resources"].map(|kind| table.or(kind, globs, Globs::none()));
    let scopes = table.or("scopes", |node| words(node, scope), []);
    let hide_without_scopes = table.or("hide_without_scopes", boolean, false);
    let valid_until = table.get("valid_until", instant);
    for key in ["servers", "endpoints"] {
        let empty = if key == "servers" { servers.as_ref() } else { Some(&endpoints) };
        if table.has(key) && empty.is_some_and(|globs| globs.patterns().is_empty()) {
            table.report(key, "is empty: nothing is granted", "");
        }
    }
    let kinds = ["tools", "prompts", "resources"];
    if !kinds.iter().any(|kind| table.has(kind)) {
        let help = "add `tools`, `prompts` or `resources`; [\"*\"] for all of them";
        table.report_here("grants nothing", help);
    }
    // Half a grant is no narrower grant: who it is for must have been read, if it was written.
    if table.has("to") && to.is_none() || table.has("valid_until") && valid_until.is_none() {
        return None;
    }
    Some(Grant {
        to,
        endpoints,
        servers: servers?,
        tools,
        prompts,
        resources,
        scopes,
        hide_without_scopes,
        valid_until,
        place: table.at().to_string(),
    })
}

/// A table of claims; tables in it are nested claims.
fn claims(node: &Node<'_>) -> Option<Vec<ClaimRule>> {
    let mut rules = Vec::new();
    collect(node, "", &mut rules)?;
    if rules.is_empty() {
        return node.fail("names no claim", "leave `to` out to grant to every authenticated caller");
    }
    Some(rules)
}

fn collect(node: &Node<'_>, above: &str, rules: &mut Vec<ClaimRule>) -> Option<()> {
    let mut whole = Some(());
    for (key, value) in node.entries()? {
        let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let read = if value.is_table() {
            collect(&value, &path, rules)
        } else {
            wanted(&value).map(|wanted| rules.push(ClaimRule { path, wanted }))
        };
        whole = whole.and(read);
    }
    whole
}

fn wanted(node: &Node<'_>) -> Option<Vec<Wanted>> {
    let Some(elements) = node.array() else { return Some(vec![one(node)?]) };
    if elements.is_empty() {
        return node.fail("is empty: no caller could fit", "");
    }
    let read: Vec<Option<Wanted>> = elements.iter().map(one).collect();
    read.into_iter().collect()
}

fn one(node: &Node<'_>) -> Option<Wanted> {
    let value = node.json()?;
    match &value {
        Value::String(text) => {
            let shown =
                if node.text()?.literal { value.to_string() } else { "a configured value".to_owned() };
            if !text.contains('*') {
                return Some(Wanted { test: Test::Is(value), shown });
            }
            match Globs::new(vec![text.clone()]) {
                Ok(globs) => Some(Wanted { test: Test::Like(globs), shown }),
                Err(_) => node.fail("holds a `*` and is not a glob", ""),
            }
        }
        Value::Bool(_) | Value::Number(_) => {
            let shown = value.to_string();
            Some(Wanted { test: Test::Is(value), shown })
        }
        _ => node.mistyped("text, a number, true or false, or an array of these", ""),
    }
}
