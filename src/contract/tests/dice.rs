//! Schemas, changes of them, and instances, by a deterministic die.

use serde_json::{Map, Value, json};

/// Names that schemas declare.
const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
/// Names that no schema declares.
const UNKNOWN: [&str; 2] = ["zz_one", "zz_two"];

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        (self.next() % sides as u64) as usize
    }

    fn yes(&mut self) -> bool {
        self.roll(2) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let at = self.roll(all.len());
        &all[at]
    }

    /// A root schema of an object, with a definition to refer to.
    pub(super) fn root(&mut self) -> Value {
        let mut root = self.object(3);
        if self.yes() {
            let definition = if self.yes() { self.object(1) } else { self.schema(1) };
            root["$defs"] = json!({ "D": definition });
        }
        root
    }

    pub(super) fn schema(&mut self, depth: usize) -> Value {
        let kinds = if depth == 0 { 8 } else { 16 };
        match self.roll(kinds) {
            0 | 1 => self.string(),
            2 | 3 => self.number(),
            4 => json!({"type": "boolean"}),
            5 => json!({"enum": self.values()}),
            6 => json!({"const": self.scalar()}),
            7 => json!({"type": ["string", *self.pick(&["null", "integer", "number", "boolean"])]}),
            8 | 9 => self.array(depth),
            10 | 11 => self.object(depth - 1),
            12 => json!({"anyOf": [self.schema(depth - 1), self.schema(depth - 1)]}),
            13 => json!({"oneOf": [self.schema(depth - 1), self.schema(depth - 1)]}),
            14 => {
                let mut both = self.object(depth - 1);
                both["allOf"] = json!([self.object(depth - 1)]);
                both
            }
            _ => match self.roll(4) {
                0 => json!({"type": "string", "not": {"enum": self.values()}}),
                1 => json!(self.yes()),
                2 => json!({}),
                _ => json!({"$ref": "#/$defs/D"}),
            },
        }
    }

    fn string(&mut self) -> Value {
        let mut out = json!({"type": "string"});
        if self.yes() {
            out["minLength"] = json!(self.roll(3));
        }
        if self.yes() {
            out["maxLength"] = json!(2 + self.roll(4));
        }
        if self.roll(6) == 0 {
            out["pattern"] = json!(*self.pick(&["^[a-z]*$", "^a", "b$"]));
        }
        out
    }

    fn number(&mut self) -> Value {
        let mut out = json!({"type": *self.pick(&["integer", "number"])});
        for (key, from) in
            [("minimum", -3_i64), ("exclusiveMinimum", -3), ("maximum", 2), ("exclusiveMaximum", 2)]
        {
            if self.roll(3) == 0 {
                out[key] = json!(from + self.roll(4) as i64);
            }
        }
        if self.roll(5) == 0 {
            out["multipleOf"] = json!(1 + self.roll(3));
        }
        out
    }

    fn array(&mut self, depth: usize) -> Value {
        let mut out = json!({"type": "array"});
        if self.roll(3) > 0 {
            out["items"] = self.schema(depth - 1);
        }
        if self.roll(4) == 0 {
            out["prefixItems"] = json!([self.schema(depth - 1)]);
        }
        if self.roll(3) == 0 {
            out["minItems"] = json!(self.roll(2));
        }
        if self.roll(3) == 0 {
            out["maxItems"] = json!(self.roll(4));
        }
        if self.roll(5) == 0 {
            out["uniqueItems"] = json!(true);
        }
        out
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut properties = Map::new();
        for name in NAMES {
            if self.yes() {
                properties.insert(name.to_owned(), self.schema(depth));
            }
        }
        let names: Vec<String> = properties.keys().cloned().collect();
        let required: Vec<String> = names.into_iter().filter(|_| self.roll(3) == 0).collect();
        let mut out = json!({"type": "object", "properties": properties, "required": required});
        match self.roll(5) {
            0 | 1 => out["additionalProperties"] = json!(false),
            2 => out["additionalProperties"] = self.schema(0),
            _ => {}
        }
        if self.roll(8) == 0 {
            out["minProperties"] = json!(1);
        }
        out
    }

    fn scalar(&mut self) -> Value {
        match self.roll(6) {
            0 => Value::Null,
            1 => json!(self.yes()),
            2 | 3 => json!(self.roll(8) as i64 - 4),
            4 => json!(*self.pick(&[0.5, -1.5, 2.0])),
            _ => json!(*self.pick(&["", "a", "ab", "b", "abc", "ABCDE"])),
        }
    }

    fn values(&mut self) -> Vec<Value> {
        (0..1 + self.roll(3)).map(|_| self.scalar()).collect()
    }

    /// One place of a schema changed.
    pub(super) fn changed(&mut self, root: &Value) -> Value {
        let mut out = root.clone();
        for _ in 0..1 + self.roll(2) {
            let places = places(&out);
            let place = self.pick(&places).clone();
            let Some(here) = out.pointer_mut(&place) else { continue };
            let new = self.edit(here);
            *here = new;
        }
        out
    }

    fn edit(&mut self, here: &Value) -> Value {
        let Some(map) = here.as_object() else { return self.schema(0) };
        let mut map = map.clone();
        match self.roll(9) {
            0 => return self.schema(1),
            1 => {
                let keys: Vec<String> = map.keys().cloned().collect();
                if let Some(key) = (!keys.is_empty()).then(|| self.pick(&keys).clone()) {
                    map.remove(&key);
                }
            }
            2 => {
                let bounds = [
                    "minimum",
                    "maximum",
                    "minLength",
                    "maxLength",
                    "minItems",
                    "maxItems",
                    "exclusiveMinimum",
                ];
                map.insert((*self.pick(&bounds)).to_owned(), json!(self.roll(5)));
            }
            3 => self.edit_properties(&mut map),
            4 => {
                let closed = if self.yes() { json!(false) } else { self.schema(0) };
                map.insert("additionalProperties".to_owned(), closed);
            }
            5 => return json!({"anyOf": [here, self.schema(0)]}),
            6 => return json!({"allOf": [here, self.schema(0)]}),
            7 => {
                let wider = match map.get("type") {
                    Some(Value::String(one)) => {
                        json!([one, *self.pick(&["null", "string", "integer", "number"])])
                    }
                    _ => json!(*self.pick(&["string", "integer", "object", "array"])),
                };
                map.insert("type".to_owned(), wider);
            }
            _ => {
                for key in ["enum", "anyOf", "oneOf"] {
                    let more = if key == "enum" { self.scalar() } else { self.schema(0) };
                    let grows = self.yes();
                    map.get_mut(key).and_then(Value::as_array_mut).into_iter().for_each(|all| {
                        match grows || all.len() < 2 {
                            true => all.push(more.clone()),
                            false => all.truncate(all.len() - 1),
                        }
                    });
                }
            }
        }
        Value::Object(map)
    }

    fn edit_properties(&mut self, map: &mut Map<String, Value>) {
        let name = *self.pick(&NAMES);
        let schema = self.schema(1);
        match self.roll(3) {
            0 => {
                if let Some(all) = map.get_mut("properties").and_then(Value::as_object_mut) {
                    all.insert(name.to_owned(), schema);
                }
            }
            1 => {
                if let Some(all) = map.get_mut("properties").and_then(Value::as_object_mut) {
                    all.remove(name);
                }
            }
            _ => {
                if let Some(all) = map.get_mut("required").and_then(Value::as_array_mut) {
                    if all.is_empty() || self.yes() { all.push(json!(name)) } else { all.clear() }
                }
            }
        }
    }

    /// Something that could be an instance; whoever asks holds it against the schema. Objects have names that their
    /// schema declares, or that none does.
    pub(super) fn instance(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let Some(map) = schema.as_object().filter(|_| depth < 8) else { return self.scalar() };
        if let Some(value) = map.get("const") {
            return value.clone();
        }
        if let Some(all) = map.get("enum").and_then(Value::as_array).filter(|all| !all.is_empty()) {
            return self.pick(all).clone();
        }
        let mut parts: Vec<Value> = Vec::new();
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let target = root.pointer(target.trim_start_matches('#')).cloned().unwrap_or(json!(true));
            parts.push(self.instance(&target, root, depth + 1));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(all) = map.get(key).and_then(Value::as_array).filter(|all| !all.is_empty()) {
                let one = self.pick(all).clone();
                parts.push(self.instance(&one, root, depth + 1));
            }
        }
        for one in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            parts.push(self.instance(one, root, depth + 1));
        }
        let plain =
            ["type", "properties", "items", "prefixItems", "additionalProperties", "minimum", "maximum"];
        if parts.is_empty() || plain.iter().any(|key| map.contains_key(*key)) {
            parts.push(self.plain(map, root, depth));
        }
        joined(parts)
    }

    fn plain(&mut self, map: &Map<String, Value>, root: &Value, depth: usize) -> Value {
        let kind = match map.get("type") {
            Some(Value::String(one)) => one.clone(),
            Some(Value::Array(all)) if !all.is_empty() => {
                self.pick(all).as_str().unwrap_or("null").to_owned()
            }
            _ if map.contains_key("properties") => "object".to_owned(),
            _ => (*self.pick(&["object", "array", "string", "integer", "number", "null", "boolean"]))
                .to_owned(),
        };
        match kind.as_str() {
            "object" => self.fields(map, root, depth),
            "array" => {
                let length = map.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize + self.roll(3);
                let prefix = map.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default();
                let rest = map.get("items").cloned().unwrap_or(json!(true));
                (0..length)
                    .map(|at| self.instance(prefix.get(at).unwrap_or(&rest), root, depth + 1))
                    .collect()
            }
            "string" => json!(*self.pick(&["", "a", "ab", "b", "abc", "ABCDE", "aaaa", "bcdefg"])),
            "integer" => json!(self.roll(12) as i64 - 5),
            "number" => json!(*self.pick(&[-4.0, -2.5, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 6.0])),
            "boolean" => json!(self.yes()),
            _ => Value::Null,
        }
    }

    fn fields(&mut self, map: &Map<String, Value>, root: &Value, depth: usize) -> Value {
        let mut out = Map::new();
        let required: Vec<&str> = map
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, schema) in &properties {
            if required.contains(&name.as_str()) || self.yes() {
                out.insert(name.clone(), self.instance(schema, root, depth + 1));
            }
        }
        if self.roll(3) == 0 {
            let other = map.get("additionalProperties").cloned().unwrap_or(json!(true));
            let name = (*self.pick(&UNKNOWN)).to_owned();
            out.insert(name, self.instance(&other, root, depth + 1));
        }
        Value::Object(out)
    }
}

/// Objects together, or the last of anything else.
fn joined(parts: Vec<Value>) -> Value {
    let mut all = Map::new();
    let mut other = None;
    for part in parts {
        match part {
            Value::Object(map) => all.extend(map),
            value => other = Some(value),
        }
    }
    match other {
        Some(value) if all.is_empty() => value,
        _ => Value::Object(all),
    }
}

/// Where schemas stand in a schema.
fn places(root: &Value) -> Vec<String> {
    fn walk(value: &Value, at: String, found: &mut Vec<String>) {
        found.push(at.clone());
        let Some(map) = value.as_object() else { return };
        for (key, inner) in map {
            match (key.as_str(), inner) {
                ("properties" | "$defs", Value::Object(all)) => {
                    all.iter().for_each(|(name, one)| walk(one, format!("{at}/{key}/{name}"), found));
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                    all.iter().enumerate().for_each(|(n, one)| walk(one, format!("{at}/{key}/{n}"), found));
                }
                ("items" | "additionalProperties" | "not", one) => walk(one, format!("{at}/{key}"), found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(root, String::new(), &mut found);
    found
}
