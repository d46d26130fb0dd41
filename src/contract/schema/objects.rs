//! Objects: what each name may hold, which must be there, and what of all others.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::document::Schema;
use super::gap::Kind;
use super::normal::is_anything;
use super::scalars::{count, least};
use super::walk::{Mode, Scene, Walker};

/// What an object schema says of names.
struct Names {
    declared: Map<String, Value>,
    patterns: Map<String, Value>,
    /// Of names that are neither; `None`: anything.
    others: Option<Value>,
    required: Vec<String>,
}

impl Names {
    fn of(schema: &Schema<'_>) -> Self {
        let map = |key: &str| schema.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        Self {
            declared: map("properties"),
            patterns: map("patternProperties"),
            others: schema.get("additionalProperties").cloned(),
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    fn is_closed(&self) -> bool {
        self.patterns.is_empty() && self.others == Some(Value::Bool(false))
    }
}

impl Walker<'_> {
    pub(super) fn objects(&mut self, first: &Schema<'_>, second: &Schema<'_>, scene: &Scene<'_>) {
        let (given, wanted) = (Names::of(first), Names::of(second));
        for name in wanted.required.iter().filter(|name| !given.required.contains(name)) {
            self.gap(Kind::Required(name.clone()), "", "");
        }
        let pair = Pair { first, second, given: &given, wanted: &wanted, scene };
        self.declared(&pair);
        self.undeclared(&pair);
        self.patterns(&pair);
        self.others(&pair);
        let low = count(first, "minProperties").max(Some(given.required.len() as u64));
        let size = given.is_closed().then_some(given.declared.len() as u64);
        self.least(second, "minProperties", low);
        self.most(second, "maxProperties", least(count(first, "maxProperties"), size));
        self.dependent(&pair);
        match (first.get("propertyNames"), second.get("propertyNames")) {
            (_, None) => {}
            (Some(a), Some(b)) => self.down(&["propertyNames"], &first.part(a), &second.part(b)),
            (None, Some(_)) if given.is_closed() => self.unknown("it has `propertyNames`"),
            (None, Some(_)) => self.gap(Kind::Bound("propertyNames"), "free", "restricted"),
        }
    }

    /// Names the second schema declares.
    fn declared(&mut self, pair: &Pair<'_, '_>) {
        for (name, wanted) in &pair.wanted.declared {
            let given = match pair.given.declared.get(name) {
                Some(given) => given,
                None if !pair.given.patterns.is_empty() => {
                    if !is_anything(wanted) {
                        self.unknown("`patternProperties` could have a declared name");
                    }
                    continue;
                }
                // Nobody sends, and nobody relies on, what no schema of the caller declares.
                None if pair.given.others.is_none()
                    && self.mode != Mode::Strict
                    && !pair.scene.known.contains(name) =>
                {
                    continue;
                }
                None => pair.given.others.as_ref().unwrap_or(&Value::Bool(true)),
            };
            self.down(&["properties", name], &pair.first.part(given), &pair.second.part(wanted));
        }
    }

    /// Names only the first schema declares.
    fn undeclared(&mut self, pair: &Pair<'_, '_>) {
        let wanted = pair.wanted;
        for (name, given) in
            pair.given.declared.iter().filter(|(name, _)| !wanted.declared.contains_key(*name))
        {
            match &wanted.others {
                None => {}
                Some(_) if !wanted.patterns.is_empty() => {
                    self.unknown("`patternProperties` could have a name that was declared");
                }
                Some(Value::Bool(false)) if *given != Value::Bool(false) => {
                    self.gap(Kind::Undeclared(name.clone()), "", "");
                }
                Some(others) => {
                    self.down(&["properties", name], &pair.first.part(given), &pair.second.part(others));
                }
            }
        }
    }

    fn patterns(&mut self, pair: &Pair<'_, '_>) {
        let (given, wanted) = (pair.given, pair.wanted);
        for (pattern, schema) in &wanted.patterns {
            match given.patterns.get(pattern) {
                Some(own) => {
                    let (own, schema) = (pair.first.part(own), pair.second.part(schema));
                    self.down(&["patternProperties", pattern], &own, &schema);
                }
                None if is_anything(schema) => {}
                None => self.unknown("`patternProperties` came or changed"),
            }
        }
        for (pattern, schema) in given.patterns.iter().filter(|(key, _)| !wanted.patterns.contains_key(*key))
        {
            match &wanted.others {
                None => {}
                Some(others) => {
                    let (own, others) = (pair.first.part(schema), pair.second.part(others));
                    self.down(&["patternProperties", pattern], &own, &others);
                }
            }
        }
    }

    /// Names that neither declares.
    fn others(&mut self, pair: &Pair<'_, '_>) {
        match (&pair.given.others, &pair.wanted.others) {
            (_, None) => {}
            (None, Some(Value::Bool(false))) => self.gap(Kind::Additional, "", ""),
            (given, Some(wanted)) => {
                let given = given.as_ref().unwrap_or(&Value::Bool(true));
                self.down(&["additionalProperties"], &pair.first.part(given), &pair.second.part(wanted));
            }
        }
    }

    fn dependent(&mut self, pair: &Pair<'_, '_>) {
        let lists = |schema: &Schema<'_>, key: &str| {
            schema.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let given = lists(pair.first, "dependentRequired");
        for (trigger, names) in lists(pair.second, "dependentRequired") {
            let kept = |name: &Value| {
                given.get(&trigger).and_then(Value::as_array).is_some_and(|own| own.contains(name))
                    || name.as_str().is_some_and(|name| pair.given.required.iter().any(|own| own == name))
            };
            let absent = pair.given.is_closed() && !pair.given.declared.contains_key(&trigger);
            let missing = names.as_array().into_iter().flatten().filter(|name| !kept(name));
            for name in missing.filter_map(Value::as_str).filter(|_| !absent) {
                self.gap(Kind::Required(name.to_owned()), "", "");
            }
        }
        let schemas = (pair.first.get("dependentSchemas"), pair.second.get("dependentSchemas"));
        if let (given, Some(wanted)) = schemas
            && !given.is_some_and(|given| self.same(given, wanted))
        {
            self.unknown("it has `dependentSchemas`");
        }
    }

    /// Arrays: each place, all further ones, how many, and whether they differ.
    pub(super) fn arrays(&mut self, first: &Schema<'_>, second: &Schema<'_>) {
        let places = |schema: &Schema<'_>| {
            schema.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let (given, wanted) = (places(first), places(second));
        let longest = match first.get("items") {
            Some(Value::Bool(false)) => least(count(first, "maxItems"), Some(given.len() as u64)),
            _ => count(first, "maxItems"),
        };
        let reach = |place: usize| longest.is_none_or(|longest| longest > place as u64);
        let most = given.len().max(wanted.len());
        let anything = Value::Bool(true);
        let rest = (first.get("items").unwrap_or(&anything), second.get("items").unwrap_or(&anything));
        let closed = *rest.1 == Value::Bool(false);
        for place in (0..most).filter(|place| reach(*place)) {
            let (own, theirs) = (given.get(place).unwrap_or(rest.0), wanted.get(place).unwrap_or(rest.1));
            if closed && place >= wanted.len() {
                break;
            }
            let index = place.to_string();
            self.down(&["prefixItems", &index], &first.part(own), &second.part(theirs));
        }
        if closed {
            let limit = Schema {
                value: Cow::Owned(serde_json::json!({ "maxItems": wanted.len() })),
                ..second.clone()
            };
            self.most(&limit, "maxItems", longest);
        } else if reach(most) {
            self.down(&["items"], &first.part(rest.0), &second.part(rest.1));
        }
        self.least(second, "minItems", count(first, "minItems"));
        self.most(second, "maxItems", longest);
        let unique = |schema: &Schema<'_>| schema.get("uniqueItems") == Some(&Value::Bool(true));
        if unique(second) && !unique(first) && longest.is_none_or(|longest| longest > 1) {
            self.gap(Kind::Bound("uniqueItems"), "false", "true");
        }
        self.contained(first, second);
    }

    fn contained(&mut self, first: &Schema<'_>, second: &Schema<'_>) {
        let Some(wanted) = second.get("contains") else { return };
        if !first.get("contains").is_some_and(|given| self.same(given, wanted)) {
            self.unknown("it has `contains`");
            return;
        }
        let low = |schema: &Schema<'_>| count(schema, "minContains").unwrap_or(1);
        if low(second) > low(first) {
            self.gap(Kind::Bound("minContains"), low(first).to_string(), low(second).to_string());
        }
        self.most(second, "maxContains", count(first, "maxContains"));
    }
}

/// Two object schemas and what they say of names.
struct Pair<'p, 'd> {
    first: &'p Schema<'d>,
    second: &'p Schema<'d>,
    given: &'p Names,
    wanted: &'p Names,
    scene: &'p Scene<'p>,
}
