//! Migration aids of one tool: former names of arguments, defaults, former values. What the operator wrote, as far as the
//! definition has a place for it.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::checker::Checker;
use crate::config::Override;
use crate::protocol::items::json_string;

mod apply;
mod publish;
#[cfg(test)]
mod tests;

pub use apply::{Mapped, Refused};
pub use publish::retired;

/// The path of a tool's former name, or of a tool that is on its way out, among deprecated paths.
pub const NAME: &str = "/name";

/// What is done to the arguments of one tool's calls.
#[derive(Debug, Clone, Default)]
pub struct Aids {
    aliases: Vec<Alias>,
    values: Vec<Former>,
    defaults: Vec<Preset>,
    since: Option<String>,
    /// Every deprecated path: what is counted by.
    paths: Vec<Box<str>>,
}

/// A former name of an argument.
#[derive(Debug, Clone)]
struct Alias {
    old: Box<str>,
    new: Box<str>,
    /// The new name as JSON text.
    key: Bytes,
    path: usize,
}

/// Former values of an argument.
#[derive(Debug, Clone)]
struct Former {
    name: Box<str>,
    /// By the text of a string, or a number or word as it stands: the new value as JSON text.
    map: HashMap<Box<str>, Bytes>,
    /// The same, sorted, for the definition.
    told: Vec<(Box<str>, Bytes)>,
    path: usize,
}

/// What an argument gets that is absent.
#[derive(Debug, Clone)]
struct Preset {
    name: Box<str>,
    /// `"name":value`
    member: Box<str>,
    /// The value as JSON text.
    value: Box<str>,
    path: usize,
}

impl Aids {
    /// Of an override, for the definition that callers are held to; and what of it has no place there, in words.
    /// `None`: there is nothing to be done.
    pub fn new(over: &Override, definition: &Value) -> (Option<Self>, Vec<String>) {
        let schema = definition.get("inputSchema").unwrap_or(&Value::Null);
        let mut aids = Self { since: over.deprecated_since.clone(), ..Self::default() };
        let mut problems = Vec::new();
        aids.take_aliases(&over.aliases, schema, &mut problems);
        aids.take_values(&over.values, schema, &mut problems);
        aids.take_defaults(&over.defaults, schema, &mut problems);
        let some = !aids.paths.is_empty();
        (some.then_some(aids), problems)
    }

    /// Every deprecated path, in the order that [`Mapped::used`] counts in.
    pub fn paths(&self) -> &[Box<str>] {
        &self.paths
    }

    fn take_aliases(
        &mut self,
        aliases: &BTreeMap<String, String>,
        schema: &Value,
        problems: &mut Vec<String>,
    ) {
        for (old, new) in aliases {
            if let Some(properties) = properties(schema) {
                if properties.contains_key(old) {
                    problems.push(format!("aliases: its server has an argument {old:?} of its own"));
                    continue;
                }
                if !properties.contains_key(new) {
                    problems
                        .push(format!("aliases: {old:?} leads to {new:?}, and there is no such argument"));
                    continue;
                }
            }
            let path = self.path(old, "");
            let (old, key) = (old.as_str().into(), json_string(new).into());
            self.aliases.push(Alias { old, new: new.as_str().into(), key, path });
        }
    }

    fn take_values(
        &mut self,
        values: &BTreeMap<String, BTreeMap<String, Value>>,
        schema: &Value,
        problems: &mut Vec<String>,
    ) {
        for (name, map) in values {
            if properties(schema).is_some_and(|all| !all.contains_key(name)) {
                problems.push(format!("values: there is no argument {name:?}"));
                continue;
            }
            let mut told = Vec::new();
            for (old, new) in map {
                match misfit(schema, name, new) {
                    Some(why) => {
                        problems.push(format!("values: what {old:?} of {name:?} becomes does not fit: {why}"))
                    }
                    None => told.push((old.as_str().into(), Bytes::from(new.to_string()))),
                }
            }
            if !told.is_empty() {
                let path = self.path(name, "#value");
                let map = told.iter().cloned().collect();
                self.values.push(Former { name: name.as_str().into(), map, told, path });
            }
        }
    }

    fn take_defaults(
        &mut self,
        defaults: &BTreeMap<String, Value>,
        schema: &Value,
        problems: &mut Vec<String>,
    ) {
        for (name, value) in defaults {
            if properties(schema).is_some_and(|all| !all.contains_key(name)) {
                problems.push(format!("defaults: there is no argument {name:?}"));
                continue;
            }
            if let Some(why) = misfit(schema, name, value) {
                problems.push(format!("defaults: the one of {name:?} does not fit: {why}"));
                continue;
            }
            let path = self.path(name, "#default");
            let value = value.to_string();
            let member = format!("{}:{value}", json_string(name)).into();
            self.defaults.push(Preset { name: name.as_str().into(), member, value: value.into(), path });
        }
    }

    /// The number of a new deprecated path.
    fn path(&mut self, name: &str, what: &str) -> usize {
        self.paths.push(argument_path(name, what).into());
        self.paths.len() - 1
    }
}

/// The deprecated path of an argument: of its name (``), its former values (`#value`), its default (`#default`).
pub fn argument_path(name: &str, what: &str) -> String {
    format!("/arguments/{}{what}", name.replace('~', "~0").replace('/', "~1"))
}

/// The arguments that a schema names; `None`: it names none, so any may be meant.
fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Why a value is none for an argument: held against the argument's own schema.
fn misfit(schema: &Value, name: &str, value: &Value) -> Option<String> {
    let own = properties(schema)?.get(name)?;
    let mut alone = json!({ "properties": { name: own } });
    for key in ["$schema", "$defs", "definitions"] {
        if let Some(value) = schema.get(key) {
            alone[key] = value.clone();
        }
    }
    Checker::of(Some(&alone)).fault(Some(&json!({ name: value }).to_string()))
}
