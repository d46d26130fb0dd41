//! The files of MCP clients: JSON, with comments where an editor allows them, and where in it servers are listed.

use jsonc_parser::{JsonObject, JsonValue, ParseOptions, parse_to_value};

/// What a client's file holds.
pub(super) struct Source {
    /// Its servers, in order.
    pub(super) servers: Vec<Entry>,
    /// `inputs` of VS Code: id and description.
    pub(super) inputs: Vec<(String, String)>,
    /// What of the file is not looked at.
    pub(super) remarks: Vec<String>,
}

/// One server as its client knows it.
pub(super) struct Entry {
    /// Its key.
    pub(super) name: String,
    members: Vec<(String, Value)>,
}

/// A JSON value that owns its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A string, a number or a boolean, as text.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// Elements that are strings, numbers or booleans.
    List(Vec<String>),
    /// Members in order.
    Table(Vec<(String, Self)>),
    /// `null`, and what is nested deeper than anything we read.
    Other,
}

impl Entry {
    /// The value of the first of these keys that is there.
    fn get(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|key| Some(&self.members.iter().find(|(name, _)| name == key)?.1))
    }

    /// A text.
    pub(super) fn text(&self, keys: &[&str]) -> Option<&str> {
        match self.get(keys)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A switch.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(&[key])? {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// A list of texts; empty when absent.
    pub(super) fn list(&self, keys: &[&str]) -> Vec<String> {
        match self.get(keys) {
            Some(Value::List(items)) => items.clone(),
            Some(Value::Text(one)) => vec![one.clone()],
            _ => Vec::new(),
        }
    }

    /// A table of texts; empty when absent.
    pub(super) fn table(&self, keys: &[&str]) -> Vec<(String, String)> {
        let Some(Value::Table(members)) = self.get(keys) else { return Vec::new() };
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        };
        members.iter().filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(key, _)| key.as_str())
    }
}

/// Where clients list their servers.
const PLACES: &[&[&str]] = &[
    &["mcpServers"],
    &["servers"],
    &["mcp", "servers"],
    &["settings", "mcp", "servers"],
    &["context_servers"],
    &["mcp_servers"],
];

/// Reads a client's file; the error never quotes it.
pub(super) fn read(text: &str) -> Result<Source, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = parse_to_value(text, &ParseOptions::default());
    let root = match parsed {
        Ok(Some(JsonValue::Object(root))) => root,
        Ok(_) => return Err("is not a JSON object".to_owned()),
        Err(error) => {
            let line = 1 + text.bytes().take(error.range().start).filter(|byte| *byte == b'\n').count();
            return Err(format!("is not JSON in line {line}"));
        }
    };
    let found = PLACES.iter().find_map(|path| inner(&root, path));
    let Some(listed) = found else {
        return Err(
            "lists no servers: none of `mcpServers`, `servers`, `mcp.servers`, `context_servers` is there"
                .into(),
        );
    };
    let mut servers = Vec::new();
    let mut remarks = Vec::new();
    for (name, value) in listed.clone() {
        match owned(value) {
            Value::Table(members) => servers.push(Entry { name: name.into_owned(), members }),
            _ => remarks.push(format!("server {name:?}: not imported: it is no JSON object")),
        }
    }
    if root.get_object("projects").is_some() {
        remarks.push(
            "servers under `projects` are not looked at: import each project's own .mcp.json".to_owned(),
        );
    }
    let settings = || root.get_object("mcp").or_else(|| root.get_object("settings")?.get_object("mcp"));
    let inputs = root.get_array("inputs").or_else(|| settings()?.get_array("inputs"));
    let inputs = inputs.map(|inputs| inputs.iter().filter_map(input).collect()).unwrap_or_default();
    Ok(Source { servers, inputs, remarks })
}

fn inner<'o, 'a>(root: &'o JsonObject<'a>, path: &[&str]) -> Option<&'o JsonObject<'a>> {
    path.iter().try_fold(root, |object, key| object.get_object(key))
}

fn input(value: &JsonValue<'_>) -> Option<(String, String)> {
    let JsonValue::Object(input) = value else { return None };
    let description = input.get_string("description").map(ToString::to_string).unwrap_or_default();
    Some((input.get_string("id")?.to_string(), description))
}

fn owned(value: JsonValue<'_>) -> Value {
    match value {
        JsonValue::String(text) => Value::Text(text.into_owned()),
        JsonValue::Number(number) => Value::Text(number.to_owned()),
        JsonValue::Boolean(flag) => Value::Bool(flag),
        JsonValue::Array(items) => {
            let word = |item: &JsonValue<'_>| match item {
                JsonValue::String(text) => Some(text.to_string()),
                JsonValue::Number(number) => Some((*number).to_owned()),
                JsonValue::Boolean(flag) => Some(flag.to_string()),
                _ => None,
            };
            Value::List(items.iter().filter_map(word).collect())
        }
        JsonValue::Object(members) => {
            Value::Table(members.into_iter().map(|(key, value)| (key.into_owned(), owned(value))).collect())
        }
        JsonValue::Null => Value::Other,
    }
}
