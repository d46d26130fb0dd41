//! A root schema, what its references lead to, and the flat schemas that one schema is the conjunction of.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::normal::{Draft, NAMED, draft, normal};

/// Parts one schema may be the conjunction of.
const MOST_PARTS: usize = 128;

/// A root schema in its one spelling.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Value,
    pub(super) draft: Draft,
    anchors: HashMap<String, String>,
    /// A part names itself anew: references are not followed.
    rebased: bool,
}

/// A schema and the document its references are in.
#[derive(Debug, Clone)]
pub(super) struct Schema<'d> {
    pub(super) value: Cow<'d, Value>,
    pub(super) document: &'d Document,
}

/// What a schema is the conjunction of.
#[derive(Debug, Default, Clone)]
pub(super) struct Conjunction<'d> {
    /// Schemas without `$ref` and `allOf`.
    pub(super) flats: Vec<Schema<'d>>,
    /// References that lead nowhere we go.
    pub(super) opaque: Vec<String>,
    /// It refers to itself without anything in between.
    pub(super) circular: bool,
}

impl Document {
    pub(super) fn new(root: &Value) -> Self {
        let draft = draft(root);
        let normal = normal(root, draft);
        let mut found = Self { root: Value::Null, draft, anchors: HashMap::new(), rebased: false };
        found.scan(&normal, &mut String::new(), 0);
        Self { root: normal, ..found }
    }

    pub(super) fn schema(&self) -> Schema<'_> {
        Schema { value: Cow::Borrowed(&self.root), document: self }
    }

    fn scan(&mut self, value: &Value, at: &mut String, depth: usize) {
        if depth > 128 {
            return;
        }
        let Value::Object(map) = value else {
            for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                self.down(inner, &index.to_string(), at, depth);
            }
            return;
        };
        if let Some(name) = map.get("$anchor").and_then(Value::as_str) {
            self.anchors.insert(name.to_owned(), at.clone());
        }
        self.rebased |= depth > 0 && map.get("$id").is_some_and(Value::is_string);
        for (key, inner) in map.iter().filter(|(key, _)| !matches!(key.as_str(), "enum" | "const")) {
            self.down(inner, key, at, depth);
        }
    }

    fn down(&mut self, inner: &Value, key: &str, at: &mut String, depth: usize) {
        let length = at.len();
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        self.scan(inner, at, depth + 1);
        at.truncate(length);
    }

    /// Where a reference within this document leads.
    pub(super) fn target(&self, reference: &str) -> Option<&Value> {
        if self.rebased {
            return None;
        }
        let own = self.root.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
        let reference = match own {
            "" => reference,
            own => reference.strip_prefix(own).filter(|rest| rest.starts_with('#')).unwrap_or(reference),
        };
        let fragment = percent_decoded(reference.strip_prefix('#')?)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment);
        }
        self.root.pointer(self.anchors.get(&fragment)?)
    }

    /// What references can lead to, to compare whole.
    pub(super) fn referable(&self) -> Value {
        let mut references = Vec::new();
        collect(&self.root, &mut references);
        if references.is_empty() {
            return Value::Null;
        }
        let local = |one: &&str| NAMED.iter().any(|name| one.starts_with(&format!("#/{name}/")));
        if !references.iter().all(local) {
            return self.root.clone();
        }
        let pick = |name: &&str| Some(((*name).to_owned(), self.root.get(*name)?.clone()));
        Value::Object(NAMED.iter().filter_map(pick).collect::<Map<_, _>>())
    }
}

fn collect<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|inner| collect(inner, found));
        }
        Value::Array(all) => all.iter().for_each(|inner| collect(inner, found)),
        _ => {}
    }
}

/// Whether anything in it is a reference.
pub(super) fn refers(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.contains_key("$ref") || map.contains_key("$dynamicRef") || map.values().any(refers)
        }
        Value::Array(all) => all.iter().any(refers),
        _ => false,
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

impl<'d> Schema<'d> {
    /// A part of it, or one made of its parts.
    pub(super) fn with(&self, value: Cow<'d, Value>) -> Self {
        Self { value, document: self.document }
    }

    /// The value of a keyword.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.value.as_object()?.get(key)
    }

    /// A part of it as a schema of its own.
    pub(super) fn part(&self, value: &Value) -> Self {
        self.with(Cow::Owned(value.clone()))
    }

    /// What it is the conjunction of.
    pub(super) fn conjunction(&self) -> Conjunction<'d> {
        let mut found = Conjunction::default();
        self.flatten(&mut found, &mut Vec::new());
        found
    }

    fn flatten(&self, found: &mut Conjunction<'d>, way: &mut Vec<String>) {
        if found.flats.len() > MOST_PARTS {
            found.circular = true;
            return;
        }
        let Some(map) = self.value.as_object() else {
            found.flats.push(self.clone());
            return;
        };
        let mut rest = map.clone();
        let all = rest.remove("allOf");
        let reference = rest.remove("$ref");
        let alone = self.document.draft == Draft::Seven && reference.is_some();
        if !rest.is_empty() && !alone {
            found.flats.push(self.with(Cow::Owned(Value::Object(rest))));
        }
        for one in all.iter().filter(|_| !alone).flat_map(|all| all.as_array().into_iter().flatten()) {
            self.part(one).flatten(found, way);
        }
        let Some(reference) = reference.as_ref().and_then(Value::as_str) else { return };
        if way.iter().any(|passed| passed == reference) {
            found.circular = true;
            return;
        }
        match self.document.target(reference) {
            Some(target) => {
                way.push(reference.to_owned());
                self.with(Cow::Borrowed(target)).flatten(found, way);
                way.pop();
            }
            None => found.opaque.push(reference.to_owned()),
        }
    }
}
