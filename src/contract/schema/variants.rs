//! `anyOf`, `oneOf`, `not`: each variant of the first schema needs one of the second that holds it.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::document::Schema;
use super::gap::Kind;
use super::merge::merged;
use super::types::{equal, types, values};
use super::walk::{Mode, Walker, said};

/// More variants are not tried one against the other.
const MOST: usize = 48;

impl Walker<'_> {
    pub(super) fn variants(&mut self, first: &Schema<'_>, second: &Schema<'_>) {
        for key in ["anyOf", "oneOf"] {
            let Some(wanted) = second.get(key).and_then(Value::as_array) else { continue };
            let given = first.get(key).and_then(Value::as_array);
            if given.is_some_and(|given| self.same_set(given, wanted)) {
                continue;
            }
            if wanted.len() > MOST {
                self.unknown("it has too many variants");
                continue;
            }
            let wanted: Vec<Schema<'_>> = wanted.iter().map(|one| second.part(one)).collect();
            if key == "oneOf" && !apart(&wanted) {
                self.overlapping(given, &wanted);
                continue;
            }
            self.covered(key, &alternatives(first), &wanted);
        }
    }

    /// Whether two lists have the same schemas, in whatever order.
    fn same_set(&self, given: &[Value], wanted: &[Value]) -> bool {
        given.len() == wanted.len()
            && given.iter().all(|one| {
                let count = |all: &[Value]| all.iter().filter(|other| self.same(one, other)).count();
                count(given) == count(wanted) && count(wanted) > 0
            })
    }

    /// `oneOf` whose variants may overlap: exactly one must fit, and more variants can spoil that.
    fn overlapping(&mut self, given: Option<&Vec<Value>>, wanted: &[Schema<'_>]) {
        let Some(given) = given else {
            self.unknown("the variants of `oneOf` may overlap");
            return;
        };
        let has = |one: &Value| wanted.iter().any(|other| self.same(one, &other.value));
        let gone: Vec<String> = given.iter().filter(|one| !has(one)).map(said).collect();
        let kept = given.len() - gone.len();
        if kept != wanted.len() {
            self.unknown("the variants of `oneOf` may overlap");
        }
        for variant in gone {
            self.gap(Kind::Variant, variant.clone(), variant);
        }
    }

    /// Each of the alternatives has a variant that holds it, or is said not to.
    fn covered(&mut self, key: &str, alternatives: &[Schema<'_>], wanted: &[Schema<'_>]) {
        let mut free: Vec<bool> = vec![true; wanted.len()];
        let mut lost = Vec::new();
        for (place, alternative) in alternatives.iter().enumerate() {
            let holder =
                wanted.iter().position(|one| self.holds(|walker| walker.compare(alternative, one, false)));
            match holder {
                Some(at) => free[at] = false,
                None => lost.push((place, alternative)),
            }
        }
        for (place, alternative) in lost {
            // What its type rules out has been said.
            let possible = |one: &Schema<'_>| types(alternative).meets(types(one));
            let near = (0..wanted.len()).filter(|at| free[*at] && possible(&wanted[*at]));
            let near = near.min_by_key(|at| usize::from(*at != place));
            match near {
                Some(at) => {
                    free[at] = false;
                    let index = at.to_string();
                    self.beside(&[key, &index], |walker| walker.compare(alternative, &wanted[at], true));
                }
                None => {
                    let text = said(&alternative.value);
                    self.gap(Kind::Variant, text.clone(), text);
                }
            }
        }
    }

    pub(super) fn exclusion(&mut self, first: &Schema<'_>, second: &Schema<'_>) {
        let Some(wanted) = second.get("not") else { return };
        let excluded = second.part(wanted);
        if !types(first).meets(types(&excluded)) || disjoint(first, &excluded, 0) {
            return;
        }
        match first.get("not") {
            None => self.gap(Kind::Exclusion, "", ""),
            Some(given) => {
                let given = first.part(given);
                let gaps = self.aside(Mode::Strict, |walker| walker.compare(&excluded, &given, true));
                if gaps.iter().any(|gap| gap.kind.counts()) {
                    self.unknown("it has another `not`");
                }
            }
        }
    }
}

/// Schemas that together have every instance of this one.
fn alternatives<'d>(schema: &Schema<'d>) -> Vec<Schema<'d>> {
    let Some(map) = schema.value.as_object() else { return vec![schema.clone()] };
    for key in ["anyOf", "oneOf"] {
        let Some(all) = map.get(key).and_then(Value::as_array).filter(|all| all.len() <= MOST) else {
            continue;
        };
        let mut rest = map.clone();
        rest.remove(key);
        let each = all.iter().map(|one| match rest.is_empty() {
            true => schema.part(one),
            false => schema.with(Cow::Owned(json!({ "allOf": [Value::Object(rest.clone()), one] }))),
        });
        return each.collect();
    }
    let each = types(schema).each();
    if each.len() < 2 {
        return vec![schema.clone()];
    }
    let typed = |(name, _)| {
        let mut one: Map<String, Value> = map.clone();
        one.insert("type".to_owned(), Value::from(name));
        schema.with(Cow::Owned(Value::Object(one)))
    };
    each.into_iter().map(typed).collect()
}

/// Whether no instance is one of two of them.
fn apart(variants: &[Schema<'_>]) -> bool {
    let pairs = variants.iter().enumerate();
    pairs.into_iter().all(|(at, one)| variants[at + 1..].iter().all(|other| disjoint(one, other, 0)))
}

/// Whether nothing is an instance of both; by types, values, or a property that tells them apart.
fn disjoint(a: &Schema<'_>, b: &Schema<'_>, depth: usize) -> bool {
    const DEEPEST: usize = 4;
    if depth > DEEPEST {
        return false;
    }
    if !types(a).meets(types(b)) {
        return true;
    }
    if let (Some(a), Some(b)) = (values(a), values(b)) {
        return !a.iter().any(|value| b.iter().any(|other| equal(value, other)));
    }
    // Only where both can be objects alone does a property tell all instances apart.
    let object = |schema: &Schema<'_>| types(schema) == super::types::Types::OBJECT;
    if !object(a) && !object(b) {
        return false;
    }
    let (a, b) = (merged(&a.conjunction().flats, a), merged(&b.conjunction().flats, b));
    let property = |schema: &Schema<'_>, name: &str| Some(schema.get("properties")?.get(name)?.clone());
    let required = |schema: &Schema<'_>, name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|all| all.contains(&Value::from(name)))
    };
    let names: Vec<String> =
        a.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
    names.iter().any(|name| match (property(&a, name), property(&b, name)) {
        (Some(one), Some(other)) => {
            (required(&a, name) || required(&b, name)) && disjoint(&a.part(&one), &b.part(&other), depth + 1)
        }
        _ => false,
    })
}
