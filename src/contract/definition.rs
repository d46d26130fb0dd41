//! What changed of a whole definition: schemas, words, annotations, and what no rule knows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::lint::{hosts, lint};
use super::schema::classify_schema;
use super::{Class, Finding, Side, units};

/// Larger definitions are not looked into, only held against each other.
const LARGEST: usize = 256 * 1024;

/// What changed from one definition to another: JSON objects of a tool, prompt, resource or template. Empty if
/// nothing did.
pub fn classify(old: &Value, new: &Value) -> Vec<Finding> {
    if old == new {
        return Vec::new();
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return vec![finding("", "member-changed", Class::Undecidable, "no definition")];
    };
    if old.to_string().len().max(new.to_string().len()) > LARGEST {
        return vec![finding("", "undecidable", Class::Undecidable, "too large to look into")];
    }
    let mut found = schemas(before, after);
    let mut words = Vec::new();
    // Words within schemas are judged with the others, by what else changed.
    found.retain(|one| {
        let word = one.rule == "wording";
        if word {
            words.push(one.path.clone());
        }
        !word
    });
    let same_schemas = found.is_empty();
    found.extend(arguments(before.get("arguments"), after.get("arguments")));
    found.extend(annotations(before.get("annotations"), after.get("annotations")));
    found.extend(others(before, after));
    let tops = ["title", "description"].into_iter().filter(|key| before.get(*key) != after.get(*key));
    words.extend(tops.map(|key| format!("/{key}")));
    found.extend(words.iter().map(|path| worded(old, new, path, same_schemas)));
    found.extend(fresh(old, new));
    if found.is_empty() {
        found.push(finding("", "member-changed", Class::Undecidable, "changed where no rule looks"));
    }
    found
}

fn finding(path: &str, rule: &'static str, class: Class, message: impl Into<String>) -> Finding {
    Finding { path: path.to_owned(), rule, class, message: message.into() }
}

fn schemas(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Finding> {
    let anything = json!({"type": "object"});
    let input = |all: &Map<String, Value>| all.get("inputSchema").unwrap_or(&anything).clone();
    let mut found = classify_schema(&input(old), &input(new), Side::Input, "/inputSchema");
    let path = "/outputSchema";
    match (old.get("outputSchema"), new.get("outputSchema")) {
        (None, None) => {}
        (Some(old), Some(new)) => found.extend(classify_schema(old, new, Side::Output, path)),
        (None, Some(_)) => {
            let message = "results are described now";
            found.push(finding(path, "output-schema-added", Class::Compatible, message));
        }
        (Some(_), None) => {
            let message = "results are no longer described";
            found.push(finding(path, "output-schema-removed", Class::Breaking, message));
        }
    }
    found
}

/// Arguments of a prompt, by name.
fn arguments(old: Option<&Value>, new: Option<&Value>) -> Vec<Finding> {
    let by_name = |list: Option<&Value>| -> BTreeMap<String, (bool, Value)> {
        let all = list.and_then(Value::as_array).into_iter().flatten();
        let named = all.filter_map(|one| {
            let required = one.get("required") == Some(&Value::Bool(true));
            Some((one.get("name")?.as_str()?.to_owned(), (required, one.clone())))
        });
        named.collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let judged = |name: &String| {
        let path = format!("/arguments/{name}");
        let say =
            |rule, class, message: &str| Some(finding(&path, rule, class, format!("{name:?} {message}")));
        match (old.get(name), new.get(name)) {
            (Some(_), None) => say("argument-removed", Class::Breaking, "is gone"),
            (None, Some((true, _))) => say("argument-required", Class::Breaking, "is new and required"),
            (None, Some((false, _))) => say("argument-added", Class::Compatible, "is new and optional"),
            (Some((false, _)), Some((true, _))) => {
                say("argument-required", Class::Breaking, "is required now")
            }
            (Some((true, _)), Some((false, _))) => {
                say("argument-optional", Class::Compatible, "is no longer required")
            }
            (Some((_, old)), Some((_, new))) if old != new => {
                say("description-changed", Class::Suspicious, "is described differently")
            }
            _ => None,
        }
    };
    names.into_iter().filter_map(judged).collect()
}

/// What hosts go by when they ask their users, or do not.
fn annotations(old: Option<&Value>, new: Option<&Value>) -> Vec<Finding> {
    let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let (before, after) = (map(old), map(new));
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    changed
        .map(|key| {
            let said = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
            let (old, new) = (before.get(key), after.get(key));
            let turned = [old, new].iter().any(|value| value.is_some_and(Value::is_boolean));
            let rule = if turned { "annotation-turned" } else { "annotation-changed" };
            let message = format!("`{key}` was {} and is {}", said(old), said(new));
            finding(&format!("/annotations/{key}"), rule, Class::Suspicious, message)
        })
        .collect()
}

/// Members that have no rules of their own.
fn others(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Finding> {
    const RULED: [&str; 6] =
        ["title", "description", "inputSchema", "outputSchema", "annotations", "arguments"];
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed =
        keys.into_iter().filter(|key| !RULED.contains(&key.as_str()) && old.get(*key) != new.get(*key));
    changed
        .map(|key| {
            let (rule, class) = match key.as_str() {
                "icons" => ("icons-changed", Class::Conditional),
                "mimeType" => ("media-type-changed", Class::Breaking),
                _ => ("member-changed", Class::Undecidable),
            };
            finding(&format!("/{key}"), rule, class, format!("`{key}` came, went or changed"))
        })
        .collect()
}

/// Words that changed at a path: alone they are suspicious, with a changed schema they may have to.
fn worded(old: &Value, new: &Value, path: &str, same_schemas: bool) -> Finding {
    let text = |root: &Value| match text_at(root, path) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let (before, after) = (text(old), text(new));
    let (old_words, new_words) = (words(&before), words(&after));
    if old_words == new_words && !before.is_empty() {
        return finding(path, "wording", Class::Compatible, "the same words are written differently");
    }
    if let Some((was, is)) = units::changed(&before, &after) {
        return finding(path, "unit-changed", Class::Breaking, format!("the unit was {was} and is {is}"));
    }
    let rule = if path.ends_with("title") { "title-changed" } else { "description-changed" };
    if same_schemas {
        let message = "says something else while the schemas stay as they are";
        return finding(path, rule, Class::Suspicious, message);
    }
    let kept = old_words.iter().filter(|word| new_words.contains(word)).count();
    let added = new_words.iter().filter(|word| !old_words.contains(word)).count();
    if kept * 2 < old_words.len() || added > MOST_ADDED {
        let message = "says something else beside a changed schema: most of it is new";
        return finding(path, "description-rewritten", Class::Suspicious, message);
    }
    finding(path, "wording", Class::Compatible, "is worded differently, as the schemas changed")
}

/// What stands at a path of a definition, references of its schemas followed.
fn text_at<'v>(definition: &'v Value, path: &str) -> Option<&'v Value> {
    /// References in a row.
    const MOST: usize = 16;
    let mut segments = path.split('/').skip(1).map(|one| one.replace("~1", "/").replace("~0", "~"));
    let root = definition.get(segments.next()?)?;
    segments.try_fold(root, |mut here, segment| {
        for _ in 0..MOST {
            let next = match here {
                Value::Array(all) => segment.parse().ok().and_then(|place: usize| all.get(place)),
                _ => here.get(&segment),
            };
            if next.is_some() {
                return next;
            }
            let reference = here.get("$ref")?.as_str()?;
            here = root.pointer(reference.strip_prefix('#')?)?;
        }
        None
    })
}

/// New words that may go with a changed schema.
const MOST_ADDED: usize = 30;

fn words(text: &str) -> Vec<String> {
    let split = |c: char| !c.is_alphanumeric();
    text.to_lowercase().split(split).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// What the lint says of the new definition and did not say of the old one, and hosts it did not link to.
fn fresh(old: &Value, new: &Value) -> Vec<Finding> {
    let before = lint(old);
    let known = |one: &Finding| before.iter().any(|old| old.rule == one.rule && old.message == one.message);
    let mut found: Vec<Finding> = lint(new).into_iter().filter(|one| !known(one)).collect();
    let linked = hosts(old);
    let links = hosts(new).into_iter().filter(|host| !linked.contains(host));
    found.extend(links.map(|host| finding("", "link", Class::Suspicious, format!("links to {host:?} now"))));
    found
}
