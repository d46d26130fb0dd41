//! What the demo offers: the built-in items of `offer.json` and the generated tools, as finished text.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::method::Kind;

/// All items in listed order, each as one line of JSON.
pub(super) struct Offer {
    tools: Vec<String>,
    hidden: Vec<String>,
    extra: Vec<String>,
    prompts: Vec<String>,
    resources: Vec<String>,
    templates: Vec<String>,
    /// Tool name → what its headers mirror: (name in the header, property) (H-45).
    pub(super) mirrored: HashMap<String, Vec<(String, String)>>,
}

#[derive(Deserialize)]
struct File {
    tools: Vec<Box<RawValue>>,
    hidden: Vec<Box<RawValue>>,
    prompts: Vec<Box<RawValue>>,
    resources: Vec<Box<RawValue>>,
    templates: Vec<Box<RawValue>>,
}

impl Offer {
    pub(super) fn new(extra: usize, schema_bytes: usize) -> anyhow::Result<Self> {
        let file: File = serde_json::from_str(include_str!("offer.json"))?;
        let mut mirrored = HashMap::new();
        for tool in &file.tools {
            let tool: Value = serde_json::from_str(tool.get())?;
            let Some(name) = tool["name"].as_str() else { anyhow::bail!("a tool without a name") };
            mirrored.insert(name.to_owned(), annotations(&tool["inputSchema"]));
        }
        Ok(Self {
            tools: one_line(&file.tools),
            hidden: one_line(&file.hidden),
            extra: (1..=extra).map(|n| extra_tool(n, schema_bytes)).collect(),
            prompts: one_line(&file.prompts),
            resources: one_line(&file.resources),
            templates: one_line(&file.templates),
            mirrored,
        })
    }

    /// The items of a list; `change` is the state of the tool list.
    pub(super) fn items(&self, kind: Kind, change: u64) -> Vec<&str> {
        let hidden = if shows_hidden(change) { self.hidden.as_slice() } else { &[] };
        let parts: [&[String]; 3] = match kind {
            Kind::Tools => [&self.tools, hidden, &self.extra],
            Kind::Prompts => [&self.prompts, &[], &[]],
            Kind::Resources => [&self.resources, &[], &[]],
            Kind::Templates => [&self.templates, &[], &[]],
        };
        parts.into_iter().flatten().map(String::as_str).collect()
    }

    /// Whether a generated tool has this name.
    pub(super) fn has_extra(&self, name: &str) -> bool {
        let number = name.strip_prefix("extra_").and_then(|digits| digits.parse::<usize>().ok());
        number.is_some_and(|n| (1..=self.extra.len()).contains(&n) && name == extra_name(n))
    }
}

/// Whether `hidden_gem` is listed in this state of the tool list.
pub(super) const fn shows_hidden(change: u64) -> bool {
    change % 2 == 1
}

fn extra_name(n: usize) -> String {
    format!("extra_{n:04}")
}

fn extra_tool(n: usize, schema_bytes: usize) -> String {
    let schema = |padding: &str| {
        format!(
            r#"{{"type":"object","properties":{{"text":{{"type":"string","description":"{padding}"}}}}}}"#
        )
    };
    let padding = "x".repeat(schema_bytes.saturating_sub(schema("").len()));
    format!(
        r#"{{"name":"{}","description":"Generated tool {n}.","inputSchema":{}}}"#,
        extra_name(n),
        schema(&padding)
    )
}

/// The line breaks of JSON text never stand inside a string, so they and the indentation can go.
fn one_line(items: &[Box<RawValue>]) -> Vec<String> {
    items.iter().map(|item| item.get().lines().map(str::trim).collect()).collect()
}

fn annotations(schema: &Value) -> Vec<(String, String)> {
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let annotated = properties.iter().filter_map(|(property, schema)| {
        schema["x-mcp-header"].as_str().map(|header| (header.to_owned(), property.clone()))
    });
    annotated.collect()
}
