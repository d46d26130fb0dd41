//! JSON by its text: parts of a message exactly as they were written.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// The text of a member, found by keys from the top; `None` where one is missing.
pub(crate) fn raw(text: &str, path: &[&str]) -> Option<String> {
    let Some((key, rest)) = path.split_first() else { return Some(text.trim().to_owned()) };
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
    raw(members.get(*key)?.get(), rest)
}

/// The keys of an object in their order.
pub(crate) fn keys(text: &str) -> Vec<String> {
    struct Keys;
    impl<'de> serde::de::Visitor<'de> for Keys {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
            let mut keys = Vec::new();
            while let Some(key) = map.next_key()? {
                map.next_value::<serde::de::IgnoredAny>()?;
                keys.push(key);
            }
            Ok(keys)
        }
    }
    serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(text), Keys).unwrap()
}

/// Parsed; says what it was when it is no JSON.
pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A string as JSON text.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
