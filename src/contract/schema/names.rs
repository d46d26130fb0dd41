//! Names of properties that came and went between two schemas, wherever in them they are declared.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::Schema;
use super::gap::Kind;
use super::walk::{Mode, Walker};

/// How deep compositions and references are searched for names.
const DEEPEST: usize = 8;
/// Names this much alike are one name changed.
const ALIKE: f64 = 0.5;

/// The names that a schema declares for its own instances, in whatever composition.
pub(super) fn declared(schema: &Schema<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(schema, &mut found, 0);
    found
}

/// The same of several.
pub(super) fn declared_by(schemas: &[Schema<'_>]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    schemas.iter().for_each(|schema| collect(schema, &mut found, 0));
    found
}

fn collect(schema: &Schema<'_>, found: &mut BTreeSet<String>, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        found.extend(properties.keys().cloned());
    }
    for key in ["if", "then", "else"] {
        schema.get(key).into_iter().for_each(|one| collect(&schema.part(one), found, depth + 1));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let all = schema.get(key).and_then(Value::as_array);
        all.into_iter().flatten().for_each(|one| collect(&schema.part(one), found, depth + 1));
    }
    let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
    dependent.into_iter().flat_map(|all| all.values()).for_each(|one| {
        collect(&schema.part(one), found, depth + 1);
    });
    let reference = schema.get("$ref").and_then(Value::as_str);
    if let Some(target) = reference.and_then(|reference| schema.document.target(reference)) {
        collect(&schema.part(target), found, depth + 1);
    }
}

impl Walker<'_> {
    /// Says which properties are gone, look renamed, or are new.
    pub(super) fn missed(&mut self, first: &Schema<'_>, second: &Schema<'_>, known: &BTreeSet<String>) {
        let theirs = declared(second);
        let ((old, before), (new, after)) = match self.mode {
            Mode::Output => ((second, &theirs), (first, known)),
            Mode::Strict | Mode::Input => ((first, known), (second, &theirs)),
        };
        let lost: Vec<&String> = before.difference(after).collect();
        let mut gained: Vec<&String> = after.difference(before).collect();
        let only = lost.len() == 1 && gained.len() == 1;
        for lost in lost {
            let twin = gained.iter().position(|gained| {
                (only || alike(lost, gained)) && twins(&property(old, lost), &property(new, gained))
            });
            match twin {
                Some(at) => {
                    let kind = Kind::Renamed(lost.clone(), gained.remove(at).clone());
                    self.gap(kind, "", "");
                }
                None => self.gap(Kind::Lost(lost.clone()), "", ""),
            }
        }
        for gained in gained {
            self.gap(Kind::Gained(gained.clone()), "", "");
        }
    }
}

fn twins(old: &Option<Value>, new: &Option<Value>) -> bool {
    old.is_some() && old == new
}

fn alike(old: &str, new: &str) -> bool {
    let (old, new) = (old.to_lowercase(), new.to_lowercase());
    old.contains(&new) || new.contains(&old) || strsim::normalized_damerau_levenshtein(&old, &new) >= ALIKE
}

/// What one of the parts of a schema says of a property.
fn property(schema: &Schema<'_>, name: &str) -> Option<Value> {
    let parts = schema.conjunction();
    parts.flats.iter().find_map(|flat| Some(flat.get("properties")?.get(name)?.clone()))
}
