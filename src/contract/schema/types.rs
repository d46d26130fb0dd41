//! The types instances of a schema can have, and the values of those that have few.

use serde_json::Value;

use super::document::Schema;

/// A set of types; integers are numbers of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

const NAMES: [(&str, u8); 7] = [
    ("array", 1),
    ("boolean", 2),
    ("integer", 4),
    ("null", 8),
    // Those that are no integers.
    ("number", 16),
    ("object", 32),
    ("string", 64),
];
/// How far references and compositions are followed for types.
const DEEPEST: usize = 8;

impl Types {
    pub(super) const ALL: Self = Self(127);
    pub(super) const NONE: Self = Self(0);
    pub(super) const ARRAY: Self = Self(1);
    pub(super) const NUMBER: Self = Self(4 | 16);
    pub(super) const OBJECT: Self = Self(32);
    pub(super) const STRING: Self = Self(64);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn named(name: &str) -> Self {
        match name {
            "number" => Self::NUMBER,
            _ => Self(NAMES.iter().find(|(known, _)| *known == name).map_or(0, |(_, bit)| *bit)),
        }
    }

    /// One type each; what is a number stays whole.
    pub(super) fn each(self) -> Vec<(&'static str, Self)> {
        let whole = self.0 & 20 == 20;
        let all = NAMES.iter().filter(|(name, bit)| self.0 & bit != 0 && !(whole && *name == "integer"));
        all.map(|(name, bit)| (*name, if *name == "number" { self.and(Self::NUMBER) } else { Self(*bit) }))
            .collect()
    }

    /// As a person writes it.
    pub(super) fn said(self) -> String {
        match self.0 {
            127 => "anything".to_owned(),
            0 => "nothing".to_owned(),
            _ => self.each().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or "),
        }
    }

    /// The type of a value.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::named("null"),
            Value::Bool(_) => Self::named("boolean"),
            Value::Number(number) => {
                let whole = number.is_i64()
                    || number.is_u64()
                    || number.as_f64().is_some_and(|float| float.fract() == 0.0);
                if whole { Self::named("integer") } else { Self(16) }
            }
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Of what the keyword allows.
    fn declared(value: &Value) -> Self {
        match value {
            Value::String(name) => Self::named(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .map(Self::named)
                .fold(Self::NONE, |all, one| all.or(one)),
            _ => Self::ALL,
        }
    }
}

/// The types its instances can have, or more.
pub(super) fn types(schema: &Schema<'_>) -> Types {
    within(schema, 0)
}

fn within(schema: &Schema<'_>, depth: usize) -> Types {
    if depth > DEEPEST {
        return Types::ALL;
    }
    if *schema.value == Value::Bool(false) {
        return Types::NONE;
    }
    let mut found = Types::ALL;
    let union = |all: &[Value]| {
        all.iter().fold(Types::NONE, |found, one| found.or(within(&schema.part(one), depth + 1)))
    };
    for (key, value) in schema.value.as_object().into_iter().flatten() {
        let allowed = match (key.as_str(), value) {
            ("type", value) => Types::declared(value),
            ("const", value) => Types::of(value),
            ("enum", Value::Array(all)) => {
                all.iter().map(Types::of).fold(Types::NONE, |found, one| found.or(one))
            }
            ("anyOf" | "oneOf", Value::Array(all)) => union(all),
            ("allOf", Value::Array(all)) => {
                all.iter().fold(Types::ALL, |found, one| found.and(within(&schema.part(one), depth + 1)))
            }
            ("$ref", Value::String(reference)) => match schema.document.target(reference) {
                Some(target) => within(&schema.part(target), depth + 1),
                None => Types::ALL,
            },
            _ => Types::ALL,
        };
        found = found.and(allowed);
    }
    found
}

/// All its values, where `enum`, `const` or its types say that there are few: these, or more.
pub(super) fn values(schema: &Schema<'_>) -> Option<Vec<Value>> {
    let possible = types(schema);
    let listed = schema.conjunction().flats.iter().find_map(|flat| listed(&flat.value));
    if let Some(listed) = listed {
        return Some(listed.into_iter().filter(|value| Types::of(value).is_within(possible)).collect());
    }
    let few = Types::named("null").or(Types::named("boolean"));
    let all = [Value::Null, Value::Bool(false), Value::Bool(true)];
    possible
        .is_within(few)
        .then(|| all.into_iter().filter(|value| Types::of(value).is_within(possible)).collect())
}

/// What `enum` and `const` of one schema list.
pub(super) fn listed(schema: &Value) -> Option<Vec<Value>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![value.clone()]);
    }
    Some(schema.get("enum")?.as_array()?.clone())
}

/// Whether two values are the same to a validator: `1` is `1.0`.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}
