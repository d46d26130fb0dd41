//! What of `tools.override.NAME` lets old callers live on: `aliases`, `defaults`, `values`, `deprecated_since`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::Override;
use super::super::tree::{Node, Table};
use super::super::values::line;

/// Reads them; the rest of the override has its defaults.
pub(super) fn aids(table: &Table<'_>) -> Override {
    let read = Override {
        aliases: table.or("aliases", |node| named(node, line), []),
        defaults: table.or("defaults", |node| named(node, |value| value.json()), []),
        values: table.or("values", |node| named(node, |one| named(one, |value| value.json())), []),
        deprecated_since: table.get("deprecated_since", date),
        ..Override::default()
    };
    rules(table, &read);
    read
}

/// A table whose keys are names of arguments, or their values.
fn named<T>(node: &Node<'_>, read: impl Fn(&Node<'_>) -> Option<T>) -> Option<BTreeMap<String, T>> {
    let entries = node.entries()?;
    let read: Vec<Option<(String, T)>> =
        entries.iter().map(|(name, value)| Some(((*name).to_owned(), read(value)?))).collect();
    read.into_iter().collect()
}

/// A day, as TOML has it: without quotes.
fn date(node: &Node<'_>) -> Option<String> {
    const HELP: &str = "a day without quotes, as 2026-11-30";
    if node.is_string() {
        return node.mistyped("a date without quotes", HELP);
    }
    let read = node.datetime()?;
    match (read.date, read.time) {
        (Some(day), None) => Some(day.to_string()),
        _ => node.fail("is not a day alone", HELP),
    }
}

/// One argument has one name of today.
fn rules(table: &Table<'_>, read: &Override) {
    for (old, new) in &read.aliases {
        if old == new {
            table.report("aliases", format!("{old:?} is an alias of itself"), "give the name it has now");
        } else if read.aliases.contains_key(new) {
            let message = format!("{old:?} leads to {new:?}, which is an alias as well");
            table.report("aliases", message, "give the name that the argument has now");
        }
    }
    let former = |key: &str, names: Vec<&String>| {
        for name in names.into_iter().filter(|name| read.aliases.contains_key(*name)) {
            let message = format!("{name:?} is a former name (`aliases`)");
            table.report(key, message, "give the name that the argument has now");
        }
    };
    former("defaults", read.defaults.keys().collect());
    former("values", read.values.keys().collect());
    for (name, old, new) in
        read.values.iter().flat_map(|(name, map)| map.iter().map(move |(o, n)| (name, o, n)))
    {
        if *new == Value::String(old.clone()) {
            table.report(
                "values",
                format!("{old:?} of {name:?} becomes itself"),
                "give the value it has now",
            );
        }
    }
}
