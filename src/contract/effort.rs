//! How much work a schema can make: an upper bound on what a validator looks at, found before it looks.
//!
//! Schemas that refer to themselves in several branches take twice as long with each level of the instance. So for each
//! level it is counted, from the schema alone, how often one value at that level can be looked at, and how much there is
//! to do each time. Unknown ways through a schema mean that there is no bound, and it is not used.

use std::collections::HashMap;

use serde_json::Value;

/// Levels of an instance that are counted; messages have no more (`max_depth`).
const LEVELS: usize = 128;
/// Places in one schema.
const MOST: usize = 20_000;

/// Keywords with one schema for the same value, with several, and with several by name.
const SAME_ONE: [&str; 4] = ["not", "if", "then", "else"];
const SAME_ALL: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const SAME_MAP: [&str; 1] = ["dependentSchemas"];
/// Keywords of which one schema at most is for one child.
const ONE_OF_MAP: [&str; 1] = ["properties"];
const ONE_OF_LIST: [&str; 1] = ["prefixItems"];
/// Keywords whose schemas can all be for one child.
const EVERY_ONE: [&str; 8] = [
    "additionalProperties",
    "items",
    "additionalItems",
    "contains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "contentSchema",
];
const EVERY_MAP: [&str; 1] = ["patternProperties"];
/// Keywords that only keep schemas for references.
const KEPT: [&str; 2] = ["$defs", "definitions"];

/// The most work for one value, by how deep it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effort(Vec<u64>);

/// One place of a schema.
#[derive(Debug, Default)]
struct Place {
    /// What is to be done there, schemas below aside.
    weight: u64,
    same: Vec<usize>,
    one: Vec<usize>,
    every: Vec<usize>,
    reference: Option<String>,
}

#[derive(Debug, Default)]
struct Survey {
    places: Vec<Place>,
    by_pointer: HashMap<String, usize>,
    /// It has something whose way nobody follows here.
    lost: bool,
}

impl Effort {
    /// Of a schema; `None`: it cannot be said.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut survey = Survey::default();
        survey.visit(schema, String::new());
        survey.resolve();
        if survey.lost {
            return None;
        }
        let order = survey.order()?;
        let (mut above, mut levels) = (vec![0_u64; survey.places.len()], Vec::with_capacity(LEVELS + 1));
        for level in 0..=LEVELS {
            let mut here = vec![0_u64; above.len()];
            for &at in &order {
                let place = &survey.places[at];
                let own = if level == 0 { place.weight } else { below(place, &above) };
                here[at] = place.same.iter().fold(own, |sum, next| sum.saturating_add(here[*next]));
            }
            let most = levels.last().copied().unwrap_or(0);
            levels.push(here.first().copied().unwrap_or(1).max(most));
            above = here;
        }
        Some(Self(levels))
    }

    /// The most steps for an instance of so many values and levels.
    pub(super) fn steps(&self, values: usize, depth: usize) -> u64 {
        let most = self.0.get(depth.min(LEVELS)).copied().unwrap_or(u64::MAX);
        most.saturating_mul(values as u64)
    }
}

/// How often, and with what work, a child is looked at.
fn below(place: &Place, above: &[u64]) -> u64 {
    let one = place.one.iter().map(|next| above[*next]).max().unwrap_or(0);
    place.every.iter().fold(one, |sum, next| sum.saturating_add(above[*next]))
}

impl Survey {
    fn visit(&mut self, schema: &Value, pointer: String) -> usize {
        let at = self.places.len();
        self.places.push(Place { weight: 1, ..Place::default() });
        self.by_pointer.insert(pointer.clone(), at);
        let Value::Object(map) = schema else { return at };
        if self.places.len() > MOST {
            self.lost = true;
            return at;
        }
        for (key, value) in map {
            let path = format!("{pointer}/{}", escaped(key));
            self.keyword(at, key, value, path);
        }
        at
    }

    fn keyword(&mut self, at: usize, key: &str, value: &Value, path: String) {
        match key {
            "$ref" => self.places[at].reference = value.as_str().map(str::to_owned),
            // Other bases, and references that depend on where one came from.
            "$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor" => self.lost = true,
            "$id" if at > 0 => self.lost = true,
            _ if SAME_ONE.contains(&key) => {
                let next = self.visit(value, path);
                self.places[at].same.push(next);
            }
            _ if EVERY_ONE.contains(&key) && !value.is_array() => {
                let next = self.visit(value, path);
                self.places[at].every.push(next);
            }
            _ if SAME_ALL.contains(&key) || SAME_MAP.contains(&key) => {
                let next = self.each(value, &path);
                self.places[at].same.extend(next);
            }
            _ if ONE_OF_MAP.contains(&key) || ONE_OF_LIST.contains(&key) || EVERY_ONE.contains(&key) => {
                let next = self.each(value, &path);
                self.places[at].one.extend(next);
            }
            _ if EVERY_MAP.contains(&key) => {
                let next = self.each(value, &path);
                self.places[at].every.extend(next);
            }
            _ if KEPT.contains(&key) => {
                self.each(value, &path);
            }
            _ => self.places[at].weight += size(value),
        }
    }

    fn each(&mut self, value: &Value, path: &str) -> Vec<usize> {
        match value {
            Value::Array(all) => {
                all.iter().enumerate().map(|(n, one)| self.visit(one, format!("{path}/{n}"))).collect()
            }
            Value::Object(map) => {
                map.iter().map(|(key, one)| self.visit(one, format!("{path}/{}", escaped(key)))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// References become ways to the same value's other schema.
    fn resolve(&mut self) {
        for at in 0..self.places.len() {
            let Some(reference) = self.places[at].reference.take() else { continue };
            let found = reference.strip_prefix('#').and_then(|pointer| self.by_pointer.get(pointer));
            match found {
                Some(next) => self.places[at].same.push(*next),
                None => self.lost = true,
            }
        }
    }

    /// Places so that each comes after those it needs for the same value; `None`: some need each other, for ever.
    fn order(&self) -> Option<Vec<usize>> {
        let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); self.places.len()];
        let mut missing: Vec<usize> = self.places.iter().map(|place| place.same.len()).collect();
        for (at, place) in self.places.iter().enumerate() {
            place.same.iter().for_each(|next| needed_by[*next].push(at));
        }
        let mut order: Vec<usize> = (0..self.places.len()).filter(|at| missing[*at] == 0).collect();
        let mut done = 0;
        while let Some(&at) = order.get(done) {
            done += 1;
            for &other in &needed_by[at] {
                missing[other] -= 1;
                if missing[other] == 0 {
                    order.push(other);
                }
            }
        }
        (order.len() == self.places.len()).then_some(order)
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Values in a value: what is compared with, required, or matched.
fn size(value: &Value) -> u64 {
    match value {
        Value::Array(all) => all.iter().map(size).sum::<u64>() + 1,
        Value::Object(map) => map.values().map(size).sum::<u64>() + 1,
        Value::String(text) => text.len() as u64 / 64,
        _ => 0,
    }
}

/// How many values a JSON text holds, about, and how deep they go. Long strings count as several.
pub(super) fn extent(text: &str) -> (usize, usize) {
    let (mut values, mut depth, mut deepest) = (1 + text.len() / 64, 0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        if quoted {
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => {
                depth += 1;
                values += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    (values, deepest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Effort, extent};

    fn steps(schema: serde_json::Value, values: usize, depth: usize) -> Option<u64> {
        Effort::of(&schema).map(|effort| effort.steps(values, depth))
    }

    #[test]
    fn plain_schemas_cost_what_they_say() {
        assert_eq!(steps(json!({}), 1, 0), Some(1));
        assert_eq!(
            steps(json!({"properties": {"a": {}, "b": {}}}), 1, 1),
            Some(1),
            "one of them is for a child"
        );
        assert_eq!(steps(json!({"allOf": [{}, {}, {}]}), 1, 0), Some(4));
        assert_eq!(steps(json!({"enum": [1, 2, 3]}), 10, 0), Some(20));
        assert_eq!(steps(json!({"patternProperties": {"a": {}, "b": {}}}), 1, 1), Some(2));
    }

    #[test]
    fn branches_that_come_back_grow_with_each_level() {
        let twice = json!({
            "$ref": "#/$defs/t",
            "$defs": {"t": {"anyOf": [
                {"properties": {"a": {"$ref": "#/$defs/t"}}},
                {"properties": {"a": {"$ref": "#/$defs/t"}}}
            ]}}
        });
        let effort = Effort::of(&twice).unwrap();
        assert!(effort.steps(1, 40) > 1 << 40);
        let once = json!({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"a": {"$ref": "#/$defs/t"}}}}});
        assert!(steps(once, 1, 128).unwrap() < 10, "a list is as long as it is");
    }

    #[test]
    fn what_cannot_be_followed_has_no_bound() {
        for odd in [
            json!({"$ref": "https://example.com/schema"}),
            json!({"$ref": "#/$defs/none"}),
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$dynamicRef": "#x"}),
            json!({"properties": {"a": {"$id": "https://example.com/x"}}}),
        ] {
            assert_eq!(steps(odd.clone(), 1, 1), None, "{odd}");
        }
    }

    #[test]
    fn an_instance_is_measured_by_its_text() {
        assert_eq!(extent("1"), (1, 0));
        assert_eq!(extent(r#"{"a":[1,2,{"b":"],[{\""}]}"#), (6, 3));
        assert!(extent(&format!("\"{}\"", "x".repeat(6400))).0 >= 100);
    }
}
