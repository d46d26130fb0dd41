//! What schemas say beside what is valid: defaults, headers, units, words, keywords that no rule knows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::units;
use super::super::{Class, Finding, Side};
use super::normal::{ASIDE, MANY, NAMED, ONE, TEXTS, is_foreign};

/// Places one schema may have; more are not looked at, and that is said.
const MOST: usize = 20_000;
const DEEPEST: usize = 64;

/// What stands aside at each place, references followed.
struct Places<'v> {
    root: &'v Value,
    found: BTreeMap<String, Map<String, Value>>,
    way: Vec<&'v str>,
    full: bool,
}

/// What changed of it. Places that came or went are not compared.
pub(super) fn changes(old: &Value, new: &Value, side: Side, path: &str) -> Vec<Finding> {
    let (old, new) = (places(old), places(new));
    let mut found: Vec<Finding> = Vec::new();
    let mut told = BTreeSet::new();
    for (at, before) in &old.found {
        let Some(after) = new.found.get(at) else { continue };
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let (before, after) = (before.get(key), after.get(key));
            if before == after
                || !told.insert((
                    key.clone(),
                    before.cloned().map(|v| v.to_string()),
                    after.cloned().map(|v| v.to_string()),
                ))
            {
                continue;
            }
            let (rule, class, message) = judged(key, before, after, side);
            found.push(Finding { path: format!("{path}{at}/{key}"), rule, class, message });
        }
    }
    if old.full || new.full {
        found.push(super::undecided(path, "too large to look at all of it"));
    }
    found
}

fn judged(key: &str, old: Option<&Value>, new: Option<&Value>, side: Side) -> (&'static str, Class, String) {
    let both = || {
        let said = |value: Option<&Value>| value.map_or("absent".to_owned(), super::walk::said);
        format!("`{key}` was {} and is {}", said(old), said(new))
    };
    if TEXTS.contains(&key) {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        return match units::changed(&text(old), &text(new)) {
            Some((before, after)) => {
                ("unit-changed", Class::Breaking, format!("the unit was {before} and is {after}"))
            }
            None => ("wording", Class::Compatible, format!("`{key}` is worded differently")),
        };
    }
    match key {
        "default" if side == Side::Input => ("default-changed", Class::Conditional, both()),
        "default" => ("default-changed", Class::Compatible, both()),
        "deprecated" if new == Some(&Value::Bool(true)) => {
            ("deprecated", Class::Conditional, "marked as deprecated".to_owned())
        }
        "deprecated" => ("deprecated", Class::Compatible, "no longer marked as deprecated".to_owned()),
        "x-mcp-header" if new.is_some() && side == Side::Input => {
            ("header-changed", Class::Breaking, format!("{}: callers send the headers they know", both()))
        }
        "x-mcp-header" => ("header-dropped", Class::Compatible, both()),
        "unit" | "units" | "x-unit" | "x-units" => ("unit-changed", Class::Breaking, both()),
        _ if ASIDE.contains(&key) => ("access-changed", Class::Conditional, both()),
        _ => ("unknown-keyword", Class::Undecidable, format!("{}: no rule knows that keyword", both())),
    }
}

fn places(root: &Value) -> Places<'_> {
    let mut places = Places { root, found: BTreeMap::new(), way: Vec::new(), full: false };
    places.schema(root, &mut String::new(), 0);
    places
}

impl<'v> Places<'v> {
    fn schema(&mut self, schema: &'v Value, at: &mut String, depth: usize) {
        let Some(map) = schema.as_object() else { return };
        if self.found.len() >= MOST || depth > DEEPEST {
            self.full = true;
            return;
        }
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            self.follow(reference, at, depth);
        }
        // What stands beside a reference wins over what it leads to.
        let here = self.found.entry(at.clone()).or_default();
        let stands = |key: &str| TEXTS.contains(&key) || ASIDE.contains(&key) || is_foreign(key);
        here.extend(
            map.iter().filter(|(key, _)| stands(key)).map(|(key, value)| (key.clone(), value.clone())),
        );
        for (key, value) in map {
            match value {
                Value::Object(all) if NAMED.contains(&key.as_str()) => {
                    for (name, one) in all {
                        self.down(&[key, name], one, at, depth);
                    }
                }
                Value::Array(all) if MANY.contains(&key.as_str()) || key == "items" => {
                    for (index, one) in all.iter().enumerate() {
                        self.down(&[key, &index.to_string()], one, at, depth);
                    }
                }
                _ if ONE.contains(&key.as_str()) => self.down(&[key], value, at, depth),
                _ => {}
            }
        }
    }

    fn follow(&mut self, reference: &'v str, at: &mut String, depth: usize) {
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) else {
            return;
        };
        if self.way.contains(&reference) {
            return;
        }
        self.way.push(reference);
        self.schema(target, at, depth + 1);
        self.way.pop();
    }

    fn down(&mut self, segments: &[&str], schema: &'v Value, at: &mut String, depth: usize) {
        let length = at.len();
        for segment in segments {
            at.push('/');
            at.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        }
        self.schema(schema, at, depth + 1);
        at.truncate(length);
    }
}
