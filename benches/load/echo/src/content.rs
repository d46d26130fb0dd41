//! Lists and texts, made once each.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// What the server has to give.
pub struct Content {
    tools: usize,
    schema_bytes: usize,
    lists: Mutex<HashMap<usize, Bytes>>,
    texts: Mutex<HashMap<usize, Bytes>>,
}

impl Content {
    /// `tools` where the path names no number, each of about `schema_bytes`.
    pub fn new(tools: usize, schema_bytes: usize) -> Self {
        Self { tools, schema_bytes, lists: Mutex::default(), texts: Mutex::default() }
    }

    /// The JSON array of so many tools.
    pub fn list(&self, tools: Option<usize>) -> Bytes {
        let count = tools.unwrap_or(self.tools).max(1);
        let mut lists = self.lists.lock().expect("no panic while it is held");
        lists.entry(count).or_insert_with(|| self.make_list(count).to_string().into()).clone()
    }

    /// A JSON string of so many bytes of prose; about 2 % of them are escaped.
    pub fn text(&self, size: usize) -> Bytes {
        const LINE: &str =
            "The quick brown fox jumps over the \"lazy\" dog and writes a line of log text, 0123456789.\n";
        let mut texts = self.texts.lock().expect("no panic while it is held");
        let make = || Value::from(LINE.chars().cycle().take(size).collect::<String>()).to_string().into();
        texts.entry(size).or_insert_with(make).clone()
    }

    fn make_list(&self, count: usize) -> Value {
        let echo = json!({
            "name": "echo",
            "description": "Gives a message back, or so many bytes of text.",
            "inputSchema": {"type": "object", "properties": {
                "message": {"type": "string"},
                "size": {"type": "integer", "minimum": 0},
                "delay_ms": {"type": "integer", "minimum": 0}}}
        });
        let others = (1..count).map(|number| self.make_tool(number));
        std::iter::once(echo).chain(others).collect()
    }

    fn make_tool(&self, number: usize) -> Value {
        let mut properties = Map::new();
        for field in 0.. {
            let kind = ["string", "integer", "boolean"][field % 3];
            let text = format!("Parameter number {field} of synthetic tool number {number}.");
            properties.insert(format!("field_{field}"), json!({"type": kind, "description": text}));
            let tool = json!({
                "name": format!("tool_{number:04}"),
                "description": format!("Synthetic tool number {number}; does nothing useful."),
                "inputSchema": {"type": "object", "properties": properties, "required": ["field_0"]}
            });
            if tool.to_string().len() + 60 >= self.schema_bytes {
                return tool;
            }
        }
        Value::Null
    }
}
