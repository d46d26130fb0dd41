//! The definition as it is listed while old callers live on: former names and values stand in it beside the new ones,
//! marked `deprecated`, each with a sentence.
//!
//! Nothing is added above the properties (`anyOf` for "this or that one"): hosts refuse tools whose schemas have it. What
//! must be given is said by the words of the former name, and checked when a call comes.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::Value;

use super::{Aids, Former};
use crate::protocol::edit::Edits;
use crate::protocol::items::{json_string, with_members};
use crate::protocol::object::{Object, ObjectError, Span, array, string};

/// Keywords that mean one place of a schema; a copy does without them.
const ONCE: [&str; 4] = ["x-mcp-header", "$anchor", "$dynamicAnchor", "$id"];

/// A tool that is listed to be left: its description says so first.
pub fn retired(json: &Bytes, since: Option<&str>, by: Option<&str>) -> Bytes {
    let said = sentence(since, by);
    let described = || -> Result<Bytes, ObjectError> {
        let text = text(json)?;
        let tool = Object::parse(text, Span::new(0, text.len()))?;
        let before = tool.get(text, "description")?.and_then(|span| string(span.of(text)));
        let words = before.filter(|words| !words.is_empty()).map(|words| format!("{said} {words}"));
        let words = json_string(words.as_deref().unwrap_or(&said));
        Ok(with_members(json, &[("description", words)])?.to_bytes())
    };
    // It was read when it came, so this cannot fail.
    described().unwrap_or_else(|_| json.clone())
}

/// `Deprecated since 2026-11-30: use "recipient".`
fn sentence(since: Option<&str>, by: Option<&str>) -> String {
    let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
    let by = by.map(|by| format!(": use {by:?}")).unwrap_or_default();
    format!("Deprecated{since}{by}.")
}

fn text(json: &Bytes) -> Result<&str, ObjectError> {
    std::str::from_utf8(json).map_err(|_| ObjectError::Syntax)
}

impl Aids {
    /// The definition of a tool with its former names and values.
    pub fn publish(&self, json: &Bytes) -> Result<Bytes, ObjectError> {
        let text = text(json)?;
        let whole = Span::new(0, text.len());
        let tool = Object::parse(text, whole)?;
        let Some(schema) = tool.get(text, "inputSchema")? else { return Ok(json.clone()) };
        let schema = Object::parse(text, schema)?;
        let mut edits = Edits::new();
        if let Some(properties) = schema.get(text, "properties")? {
            let properties = Object::parse(text, properties)?;
            self.properties(json, text, &properties, &mut edits)?;
        }
        if let Some(required) = schema.get(text, "required")? {
            self.required(text, required, &mut edits)?;
        }
        Ok(edits.apply(json, whole).to_bytes())
    }

    fn properties(
        &self,
        json: &Bytes,
        text: &str,
        all: &Object,
        edits: &mut Edits,
    ) -> Result<(), ObjectError> {
        let mut added = String::new();
        for member in &all.members {
            let name = member.name(text);
            let said = json.slice(member.value.range());
            // `true` and `false` are schemas that have no place for words.
            let valued = match self.values.iter().find(|former| *former.name == *name) {
                Some(former) if said.starts_with(b"{") => former.publish(&said)?,
                _ => said.clone(),
            };
            for alias in self.aliases.iter().filter(|alias| *alias.new == *name) {
                let words = sentence(self.since.as_deref(), Some(name));
                let comma = if added.is_empty() { "" } else { "," };
                let former = marked(&valued, &words)?;
                let _ =
                    write!(added, "{comma}{}:{}", json_string(&alias.old), String::from_utf8_lossy(&former));
            }
            let preset = self.defaults.iter().find(|preset| *preset.name == *name);
            let now = match preset {
                Some(preset) if said.starts_with(b"{") => {
                    with_members(&valued, &[("default", preset.value.to_string())])?.to_bytes()
                }
                _ => valued,
            };
            if now != said {
                edits.replace(member.value, now);
            }
        }
        if !added.is_empty() {
            edits.append(all, added);
        }
        Ok(())
    }

    /// What has a default or a former name need not be given under its name.
    fn required(&self, text: &str, span: Span, edits: &mut Edits) -> Result<(), ObjectError> {
        let all = array(text, span)?;
        let free = |name: &str| {
            self.defaults.iter().any(|preset| *preset.name == *name)
                || self.aliases.iter().any(|alias| *alias.new == *name)
        };
        let kept: Vec<&str> = all
            .iter()
            .map(|one| one.of(text))
            .filter(|raw| !string(raw).is_some_and(|name| free(&name)))
            .collect();
        if kept.len() < all.len() {
            edits.replace(span, format!("[{}]", kept.join(",")));
        }
        Ok(())
    }
}

/// The schema of a former name: as the new one, marked, and nothing that means one place only.
fn marked(schema: &Bytes, words: &str) -> Result<Bytes, ObjectError> {
    let text = text(schema)?;
    if !text.starts_with('{') {
        return Ok(format!("{{\"deprecated\":true,\"description\":{}}}", json_string(words)).into());
    }
    let bare = if ONCE.iter().any(|key| text.contains(key)) {
        // A definition, not arguments: it may be read as a value.
        let mut value: Value = serde_json::from_str(text).map_err(|_| ObjectError::Syntax)?;
        strip(&mut value);
        value.to_string().into()
    } else {
        schema.clone()
    };
    let marks = [("deprecated", "true".to_owned()), ("description", json_string(words))];
    Ok(with_members(&bare, &marks)?.to_bytes())
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !ONCE.contains(&key.as_str()));
            map.values_mut().for_each(strip);
        }
        Value::Array(all) => all.iter_mut().for_each(strip),
        _ => {}
    }
}

impl Former {
    /// The schema of an argument with its former values allowed and told.
    fn publish(&self, schema: &Bytes) -> Result<Bytes, ObjectError> {
        let text = text(schema)?;
        let object = Object::parse(text, Span::new(0, text.len()))?;
        let types: Vec<String> = match object.get(text, "type")?.map(|span| span.of(text)) {
            None => Vec::new(),
            Some(raw) => match string(raw) {
                Some(one) => vec![one.into_owned()],
                None => {
                    let all = array(raw, Span::new(0, raw.len()))?;
                    all.iter().filter_map(|span| Some(string(span.of(raw))?.into_owned())).collect()
                }
            },
        };
        let former: Vec<String> = self.told.iter().map(|(old, _)| as_json(old, &types)).collect();
        let mut members = Vec::new();
        if let Some(span) = object.get(text, "enum")? {
            let known: Vec<&str> = array(text, span)?.iter().map(|one| one.of(text)).collect();
            let fresh = former.iter().map(String::as_str).filter(|old| !known.contains(old));
            let all: Vec<&str> = known.iter().copied().chain(fresh).collect();
            members.push(("enum", format!("[{}]", all.join(","))));
        }
        if !types.is_empty() && !fits_string(&types) && former.iter().any(|old| old.starts_with('"')) {
            let all: Vec<String> =
                types.iter().map(String::as_str).chain(["string"]).map(json_string).collect();
            members.push(("type", format!("[{}]", all.join(","))));
        }
        let before = object.get(text, "description")?.and_then(|span| string(span.of(text)));
        let told: Vec<String> = self
            .told
            .iter()
            .zip(&former)
            .map(|((_, new), old)| format!("{old} (now {})", String::from_utf8_lossy(new)))
            .collect();
        let words = format!("Deprecated, but still taken: {}.", told.join(", "));
        let words = match before {
            Some(before) if !before.is_empty() => format!("{before} {words}"),
            _ => words,
        };
        members.push(("description", json_string(&words)));
        Ok(with_members(schema, &members)?.to_bytes())
    }
}

fn fits_string(types: &[String]) -> bool {
    types.iter().any(|one| one == "string")
}

/// A former value as callers write it: a number or a word where the argument is one, else a string.
fn as_json(old: &str, types: &[String]) -> String {
    let fits = match serde_json::from_str::<Value>(old) {
        Ok(Value::Number(_)) => types.iter().any(|one| one == "number" || one == "integer"),
        Ok(Value::Bool(_)) => types.iter().any(|one| one == "boolean"),
        Ok(Value::Null) => types.iter().any(|one| one == "null"),
        _ => false,
    };
    if fits { old.to_owned() } else { json_string(old) }
}
