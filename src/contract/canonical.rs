//! One spelling of a definition: keys sorted, no blanks, numbers as they stand. What is hashed and locked.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::digest::{SHA256, digest as sha};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::protocol::items::push_json_string;

/// Levels a definition may have.
const DEEPEST: usize = 100;

/// A definition that two readers could read differently, or none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the definition is no JSON that can be read in one way only")]
pub struct Unreadable;

/// The canonical text of JSON. An error: a key occurs twice, it is too deep, or no JSON.
pub fn canonical(json: &str) -> Result<String, Unreadable> {
    let mut out = String::with_capacity(json.len());
    write(json, &mut out, 0)?;
    Ok(out)
}

/// The first 128 bits of SHA-256 in hexadecimal; of nothing, `-`.
pub fn digest(text: Option<&str>) -> String {
    let Some(text) = text else { return "-".to_owned() };
    sha(&SHA256, text.as_bytes()).as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn write(json: &str, out: &mut String, depth: usize) -> Result<(), Unreadable> {
    if depth > DEEPEST {
        return Err(Unreadable);
    }
    match json.trim_start().bytes().next() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(json).map_err(|_| Unreadable)?;
            out.push('{');
            for (place, (key, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                push_json_string(out, key);
                out.push(':');
                write(value.get(), out, depth + 1)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let all: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| Unreadable)?;
            out.push('[');
            for (place, value) in all.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(value.get(), out, depth + 1)?;
            }
            out.push(']');
        }
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(|_| Unreadable)?;
            push_json_string(out, &text);
        }
        _ => {
            let value: &RawValue = serde_json::from_str(json).map_err(|_| Unreadable)?;
            out.push_str(value.get());
        }
    }
    Ok(())
}

/// The members of an object by key, each once.
struct Members<'j>(BTreeMap<String, &'j RawValue>);

/// Reads [`Members`], each key once.
struct Once;

impl<'de> Visitor<'de> for Once {
    type Value = BTreeMap<String, &'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            if members.insert(key, value).is_some() {
                return Err(serde::de::Error::custom("a key occurs twice"));
            }
        }
        Ok(members)
    }
}

impl<'de: 'j, 'j> Deserialize<'de> for Members<'j> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Once).map(Members)
    }
}
