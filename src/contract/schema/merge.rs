//! One flat schema for several: every instance of all of them is one of it. It may accept more.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::document::Schema;
use super::types::{equal, listed, types};

/// Bounds of which the largest binds.
const LARGEST: [&str; 7] =
    ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains", "uniqueItems"];
/// Bounds of which the smallest binds.
const SMALLEST: [&str; 5] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
/// Keywords of which the first is taken, with what belongs to them.
const FIRST: [&[&str]; 12] = [
    &["pattern"],
    &["format"],
    &["multipleOf"],
    &["contains", "minContains", "maxContains"],
    &["propertyNames"],
    &["anyOf"],
    &["oneOf"],
    &["not"],
    &["if", "then", "else"],
    &["dependentRequired"],
    &["dependentSchemas"],
    &["prefixItems", "items"],
];

/// The merged schema. `fallback`: where references would be looked up, if there is none.
pub(super) fn merged<'d>(flats: &[Schema<'d>], fallback: &Schema<'d>) -> Schema<'d> {
    let objects: Vec<&Schema<'d>> = flats.iter().filter(|flat| flat.value.is_object()).collect();
    match &objects[..] {
        [] => fallback.with(Cow::Owned(json!({}))),
        [one] => (*one).clone(),
        [one, ..] => one.with(Cow::Owned(Value::Object(merge(&objects)))),
    }
}

fn merge(all: &[&Schema<'_>]) -> Map<String, Value> {
    let mut out = Map::new();
    let said = all.iter().filter(|one| one.get("type").is_some());
    let possible = said.map(|one| types(one)).reduce(super::types::Types::and);
    if let Some(possible) = possible {
        let names = possible.each().into_iter().map(|(name, _)| Value::from(name));
        out.insert("type".to_owned(), Value::Array(names.collect()));
    }
    for keys in FIRST {
        if let Some(one) = all.iter().find(|one| keys.iter().any(|key| one.get(key).is_some())) {
            let found = keys.iter().filter_map(|key| Some(((*key).to_owned(), one.get(key)?.clone())));
            out.extend(found);
        }
    }
    for key in LARGEST.into_iter().chain(SMALLEST) {
        let values = all.iter().filter_map(|one| one.get(key));
        let largest = LARGEST.contains(&key);
        let tighter = |a: &&Value, b: &&Value| number(a).total_cmp(&number(b));
        let found = if largest { values.max_by(tighter) } else { values.min_by(tighter) };
        out.extend(found.map(|value| (key.to_owned(), value.clone())));
    }
    out.extend(values(all).map(|values| ("enum".to_owned(), Value::Array(values))));
    properties(all, &mut out);
    out
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(if *value == Value::Bool(true) { 1.0 } else { 0.0 })
}

/// The values that each of those that list values has.
fn values(all: &[&Schema<'_>]) -> Option<Vec<Value>> {
    let mut lists = all.iter().filter_map(|one| listed(&one.value));
    let first = lists.next()?;
    Some(lists.fold(first, |kept, list| {
        kept.into_iter().filter(|value| list.iter().any(|other| equal(value, other))).collect()
    }))
}

/// What is said of each property, by name or by exclusion, and of all others.
fn properties(all: &[&Schema<'_>], out: &mut Map<String, Value>) {
    let map =
        |one: &Schema<'_>, key: &str| one.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut required: Vec<Value> =
        all.iter().filter_map(|one| one.get("required")?.as_array()).flatten().cloned().collect();
    required.sort_by_key(Value::to_string);
    required.dedup();
    if !required.is_empty() {
        out.insert("required".to_owned(), Value::Array(required));
    }
    let names: Vec<String> =
        all.iter().flat_map(|one| map(one, "properties").into_iter().map(|(name, _)| name)).collect();
    let mut declared = Map::new();
    for name in names {
        let said =
            all.iter().filter_map(|one| match one.get("properties").and_then(|some| some.get(&name)) {
                Some(own) => Some(own.clone()),
                // A pattern could have it.
                None if one.get("patternProperties").is_some() => None,
                None => one.get("additionalProperties").cloned(),
            });
        let said = conjunction(said.collect());
        declared.insert(name, said.unwrap_or(Value::Bool(true)));
    }
    if !declared.is_empty() {
        out.insert("properties".to_owned(), Value::Object(declared));
    }
    let plain = all.iter().filter(|one| one.get("patternProperties").is_none());
    let others = plain.filter_map(|one| one.get("additionalProperties").cloned()).collect();
    out.extend(conjunction(others).map(|others| ("additionalProperties".to_owned(), others)));
    let mut patterns = all.iter().filter_map(|one| one.get("patternProperties"));
    if let (Some(only), None) = (patterns.next(), patterns.next()) {
        out.insert("patternProperties".to_owned(), only.clone());
    }
}

fn conjunction(mut said: Vec<Value>) -> Option<Value> {
    said.dedup();
    if said.contains(&Value::Bool(false)) {
        return Some(Value::Bool(false));
    }
    match said.len() {
        0 => None,
        1 => said.pop(),
        _ => Some(json!({ "allOf": said })),
    }
}
