//! A schema without what no validator looks at, in one spelling: what is left is compared.

use serde_json::{Map, Value};

/// Keywords whose value is a schema.
pub(super) const ONE: [&str; 12] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentSchema",
    "additionalItems",
];
/// Keywords whose value is an object of schemas.
pub(super) const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is an array of schemas.
pub(super) const MANY: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that restrict nothing below themselves.
const PLAIN: [&str; 26] = [
    "type",
    "enum",
    "const",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "required",
    "dependentRequired",
    "contentEncoding",
    "contentMediaType",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
];
/// Keywords that name places.
const PLACES: [&str; 4] = ["$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"];
/// Keywords for readers.
pub(super) const TEXTS: [&str; 4] = ["title", "description", "$comment", "examples"];
/// Keywords that say something beside what is valid.
pub(super) const ASIDE: [&str; 4] = ["default", "deprecated", "readOnly", "writeOnly"];

/// Whether no rule knows this keyword.
pub(super) fn is_foreign(key: &str) -> bool {
    let known: [&[&str]; 7] = [&ONE, &NAMED, &MANY, &PLAIN, &PLACES, &TEXTS, &ASIDE];
    key != "$schema" && !known.iter().any(|keys| keys.contains(&key))
}

/// The schema in its one spelling.
pub(super) fn normal(schema: &Value, draft: Draft) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in schema {
        let key = key.as_str();
        let value = match value {
            _ if ONE.contains(&key) && !value.is_array() => normal(value, draft),
            Value::Array(all) if MANY.contains(&key) || (ONE.contains(&key) && draft.has_lists()) => {
                Value::Array(all.iter().map(|one| normal(one, draft)).collect())
            }
            Value::Object(all) if NAMED.contains(&key) => {
                Value::Object(all.iter().map(|(name, one)| (name.clone(), normal(one, draft))).collect())
            }
            Value::Array(types) if key == "type" => sorted_types(types),
            Value::Array(all) if matches!(key, "required" | "enum") => sorted(all),
            _ if PLAIN.contains(&key) || PLACES.contains(&key) => value.clone(),
            _ => continue,
        };
        out.insert(key.to_owned(), value);
    }
    tuples(&mut out, draft);
    unevaluated(&mut out);
    // These say nothing.
    let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    if out.get("required").is_some_and(empty) {
        out.remove("required");
    }
    for key in ["additionalProperties", "items"] {
        if out.get(key).is_some_and(is_anything) {
            out.remove(key);
        }
    }
    Value::Object(out)
}

/// Which revision the root names, as far as it makes a difference here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draft {
    /// 2020-12, or none named.
    Modern,
    /// 2019-09: lists by `items` and `additionalItems`.
    Nineteen,
    /// Draft 6 or 7: the same, and nothing counts beside `$ref`.
    Seven,
    /// Another one.
    Unknown,
}

impl Draft {
    /// Whether `items` can be a list of schemas.
    const fn has_lists(self) -> bool {
        matches!(self, Self::Nineteen | Self::Seven)
    }
}

/// The revision of a root schema.
pub(super) fn draft(root: &Value) -> Draft {
    match root.get("$schema").and_then(Value::as_str).map(|uri| uri.trim_end_matches('#')) {
        None | Some("https://json-schema.org/draft/2020-12/schema") => Draft::Modern,
        Some(
            "http://json-schema.org/draft-07/schema"
            | "https://json-schema.org/draft-07/schema"
            | "http://json-schema.org/draft-06/schema",
        ) => Draft::Seven,
        Some("https://json-schema.org/draft/2019-09/schema") => Draft::Nineteen,
        Some(_) => Draft::Unknown,
    }
}

/// `true`, `{}`.
pub(super) fn is_anything(schema: &Value) -> bool {
    *schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

/// `items: [a, b]` with `additionalItems` of older revisions is `prefixItems` with `items`.
fn tuples(out: &mut Map<String, Value>, draft: Draft) {
    let rest = out.remove("additionalItems");
    if !draft.has_lists() || !out.get("items").is_some_and(Value::is_array) {
        return;
    }
    if let Some(prefix) = out.remove("items") {
        out.insert("prefixItems".to_owned(), prefix);
        out.extend(rest.map(|rest| ("items".to_owned(), rest)));
    }
}

/// Without anything beside it that evaluates in place, "unevaluated" is "additional".
fn unevaluated(out: &mut Map<String, Value>) {
    const IN_PLACE: [&str; 9] =
        ["allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas", "$ref", "$dynamicRef", "contains"];
    if IN_PLACE.iter().any(|key| out.contains_key(*key)) {
        return;
    }
    for (key, plain) in [("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")] {
        if let Some(schema) = out.remove(key)
            && !out.contains_key(plain)
        {
            out.insert(plain.to_owned(), schema);
        }
    }
}

fn sorted_types(types: &[Value]) -> Value {
    match types {
        [one] => one.clone(),
        _ => sorted(types),
    }
}

fn sorted(all: &[Value]) -> Value {
    let mut all: Vec<Value> = all.to_vec();
    all.sort_by_key(Value::to_string);
    all.dedup();
    Value::Array(all)
}
