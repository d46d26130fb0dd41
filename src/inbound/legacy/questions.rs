//! The questions in an `input_required` result: read, held against what the client declared, written as its revision
//! has them (R-02..R-04, R-54, R-55).

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde_json::{Map, Value};

use super::declared::Declared;
use crate::protocol::items::json_string;
use crate::protocol::object::{Object, ObjectError, Span, string};
use crate::protocol::version::Revision;

/// Questions of one round.
const MOST: usize = 64;

/// One thing that is asked.
#[derive(Debug)]
pub(super) struct Question {
    /// Its key, as JSON text.
    pub(super) key: String,
    kind: Kind,
    /// `params`, as JSON text; empty: there are none.
    params: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Form,
    Url,
    Sampling { tools: bool },
    Roots,
    Unknown,
}

/// All of a result.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) list: Vec<Question>,
    /// `requestState`, as JSON text.
    pub(super) state: Option<String>,
}

impl Questions {
    /// Reads a result; `None`: it asks nothing.
    pub(super) fn read(result: &Bytes) -> Result<Option<Self>, ObjectError> {
        let text = std::str::from_utf8(result).map_err(|_| ObjectError::Syntax)?;
        let object = Object::parse(text, Span::new(0, text.len()))?;
        let kind = object.get(text, "resultType")?.and_then(|span| string(span.of(text)));
        if kind.as_deref() != Some("input_required") {
            return Ok(None);
        }
        let state = object.get(text, "requestState")?.map(|span| span.of(text).to_owned());
        let mut list = Vec::new();
        if let Some(requests) = object.get(text, "inputRequests")? {
            let requests = Object::parse(text, requests)?;
            if requests.members.len() > MOST {
                return Err(ObjectError::Syntax);
            }
            for member in &requests.members {
                list.push(Question::read(text, member.key.of(text).to_owned(), member.value)?);
            }
        }
        Ok(Some(Self { list, state }))
    }
}

impl Question {
    fn read(text: &str, key: String, span: Span) -> Result<Self, ObjectError> {
        let request = Object::parse(text, span)?;
        let method = request.get(text, "method")?.and_then(|span| string(span.of(text)));
        let params = request.get(text, "params")?;
        let member = |key: &str| -> Result<Option<&str>, ObjectError> {
            let Some(params) = params else { return Ok(None) };
            Ok(Object::parse(text, params)?.get(text, key)?.map(|span| span.of(text)))
        };
        let kind = match method.as_deref() {
            Some("elicitation/create") if member("mode")?.and_then(string).as_deref() == Some("url") => {
                Kind::Url
            }
            Some("elicitation/create") => Kind::Form,
            Some("sampling/createMessage") => Kind::Sampling { tools: member("tools")?.is_some() },
            Some("roots/list") => Kind::Roots,
            _ => Kind::Unknown,
        };
        Ok(Self { key, kind, params: params.map(|span| span.of(text).to_owned()).unwrap_or_default() })
    }

    /// The method of the request it becomes.
    pub(super) const fn method(&self) -> &'static str {
        match self.kind {
            Kind::Form | Kind::Url => "elicitation/create",
            Kind::Sampling { .. } => "sampling/createMessage",
            Kind::Roots | Kind::Unknown => "roots/list",
        }
    }

    pub(super) const fn is_elicitation(&self) -> bool {
        matches!(self.kind, Kind::Form | Kind::Url)
    }

    /// Whether a client that declared this can be asked.
    pub(super) const fn fits(&self, declared: &Declared) -> bool {
        match self.kind {
            Kind::Form => declared.form,
            Kind::Url => declared.url,
            Kind::Sampling { tools } => declared.sampling && (!tools || declared.sampling_tools),
            Kind::Roots => declared.roots,
            Kind::Unknown => false,
        }
    }

    /// `params` as the revision has them; at 2025-11-25 byte for byte, but for the id that a URL must have there.
    pub(super) fn shaped(&self, revision: Revision) -> String {
        let Ok(Value::Object(mut params)) = serde_json::from_str::<Value>(&self.params) else {
            return self.params.clone();
        };
        match self.kind {
            Kind::Url if !params.contains_key("elicitationId") => {
                let comma = if params.is_empty() { "" } else { "," };
                let open = self.params.trim_end().strip_suffix('}').unwrap_or_default();
                format!("{open}{comma}\"elicitationId\":{}}}", json_string(&elicitation_id()))
            }
            Kind::Form if revision < Revision::V20251125 => {
                params.remove("mode");
                if let Some(properties) =
                    params.get_mut("requestedSchema").and_then(|schema| schema.get_mut("properties"))
                {
                    properties.as_object_mut().into_iter().for_each(plain_properties);
                }
                Value::Object(params).to_string()
            }
            Kind::Sampling { .. } if revision < Revision::V20251125 => {
                params.remove("tools");
                params.remove("toolChoice");
                Value::Object(params).to_string()
            }
            _ => self.params.clone(),
        }
    }
}

/// One that nobody has had.
fn elicitation_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0u8; 8];
    // Without entropy the count alone tells them apart.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    format!("{}-{}", HEXLOWER.encode(&bytes), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Forms of 2025-06-18: titled choices are `enum` and `enumNames`, only booleans have defaults, and choices of
/// several are free text, since there is nothing else for them.
fn plain_properties(properties: &mut Map<String, Value>) {
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        let kind = property.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(choices) = property.remove("oneOf").as_ref().and_then(Value::as_array) {
            let of = |key: &str| -> Vec<Value> {
                choices.iter().filter_map(|choice| choice.get(key).cloned()).collect()
            };
            let (values, names) = (of("const"), of("title"));
            if names.len() == values.len() {
                property.insert("enumNames".to_owned(), names.into());
            }
            property.insert("enum".to_owned(), values.into());
        }
        if kind == "array" {
            for key in ["items", "minItems", "maxItems", "uniqueItems"] {
                property.remove(key);
            }
            property.insert("type".to_owned(), "string".into());
        }
        if kind != "boolean" {
            property.remove("default");
        }
    }
}

#[cfg(test)]
mod tests;
