//! Finds every `x-mcp-header` of a schema by keyword position and judges it (H-45..H-51).

use std::collections::HashMap;

use http::HeaderName;

use super::{Binding, Primitive};
use crate::protocol::header::PARAM_PREFIX;
use crate::protocol::object::{Member, Object, Span, array, string};

const KEYWORD: &str = "x-mcp-header";
/// Schemas nested deeper than this are not walked; other JSON parsers stop there as well.
const MAX_DEPTH: usize = 128;

/// Keywords whose value is one schema (or, in old drafts, a list of them).
const ONE: [&str; 12] = [
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
const LIST: [&str; 4] = ["prefixItems", "oneOf", "anyOf", "allOf"];
/// Keywords whose value holds schemas by name.
const NAMED: [&str; 5] = ["$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"];

/// What is wrong with an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// H-45
    #[error("the value is no header name")]
    Name,
    /// H-46
    #[error("the header name is used twice")]
    NotUnique,
    /// H-47
    #[error("the property is no string, integer or boolean")]
    Type,
    /// H-48
    #[error("the property is not reached through `properties` alone")]
    Unreachable,
    /// A key that decides occurs twice: two parsers would see two schemas (design §2).
    #[error("a key next to it or above it occurs twice")]
    Ambiguous,
    /// The schema is nested too deeply to be looked through.
    #[error("the schema is nested too deeply")]
    Depth,
}

/// An invalid annotation: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("x-mcp-header at {pointer:?}: {reason}")]
pub struct Invalid {
    /// JSON pointer of the schema that has it, cut to a length fit for logs. A server's text.
    pub pointer: String,
    /// Why.
    pub reason: Reason,
}

/// One occurrence of the keyword.
pub(super) struct Annotation {
    /// The schema object that has it.
    pub(super) owner: Object,
    /// Its position there.
    pub(super) member: usize,
    verdict: Result<Binding, Reason>,
    pointer: String,
}

impl Annotation {
    /// The binding, or what is wrong.
    pub(super) fn judged(self) -> Result<Binding, Invalid> {
        self.verdict.map_err(|reason| Invalid { pointer: self.pointer, reason })
    }
}

/// What a walk found.
pub(super) struct Found {
    /// The annotations, parents before children.
    pub(super) annotations: Vec<Annotation>,
    /// Something that may be an annotation lies too deep to be looked at.
    pub(super) too_deep: Option<Invalid>,
}

/// A schema still to be looked through.
struct Place {
    span: Span,
    /// The keys of the properties that lead to it; `None` once anything but `properties` did.
    path: Option<Vec<Box<str>>>,
    /// A key on the way occurs twice.
    ambiguous: bool,
    depth: usize,
    pointer: String,
}

impl Place {
    fn below(&self, span: Span, keys: [&str; 2]) -> Self {
        let pointer = keys.iter().filter(|key| !key.is_empty()).fold(self.pointer.clone(), pointer);
        Self { span, path: None, ambiguous: self.ambiguous, depth: self.depth + 1, pointer }
    }

    fn property(&self, span: Span, key: &str, ambiguous: bool) -> Self {
        let path = self.path.clone().map(|mut path| {
            path.push(key.into());
            path
        });
        let ambiguous = self.ambiguous || ambiguous;
        Self { path, ambiguous, ..self.below(span, ["properties", key]) }
    }
}

/// Looks for annotations at the positions of schemas.
pub(super) fn annotations(text: &str) -> Found {
    let mut found = Found { annotations: Vec::new(), too_deep: None };
    if !may_hold_keyword(text) {
        return found;
    }
    let span = Span::new(0, text.len());
    let root = Place { span, path: Some(Vec::new()), ambiguous: false, depth: 0, pointer: String::new() };
    let mut open = vec![root];
    while let Some(place) = open.pop() {
        if place.depth > MAX_DEPTH {
            if may_hold_keyword(place.span.of(text)) {
                found.too_deep = Some(Invalid { pointer: place.pointer, reason: Reason::Depth });
            }
            continue;
        }
        let Ok(object) = Object::parse(text, place.span) else { continue };
        let before = open.len();
        inner(text, &place, &object, &mut open);
        open[before..].reverse();
        judge(text, &place, &object, &mut found.annotations);
    }
    refuse_doubles(&mut found.annotations);
    found
}

/// Nearly all schemas have no annotation: they are not walked. Any escaped spelling needs a `\u`.
fn may_hold_keyword(text: &str) -> bool {
    let has = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    has(KEYWORD) || has("\\u")
}

/// The schemas directly inside one.
fn inner(text: &str, place: &Place, object: &Object, open: &mut Vec<Place>) {
    for member in &object.members {
        let keyword = member.name(text);
        if keyword == "properties" {
            let doubled = occurs(text, object, keyword) > 1;
            open.extend(
                named(text, member.value).into_iter().map(|property| {
                    place.property(property.value, &property.key, doubled || property.doubled)
                }),
            );
        } else if NAMED.contains(&keyword) {
            let schemas = named(text, member.value).into_iter();
            open.extend(schemas.map(|schema| place.below(schema.value, [keyword, &schema.key])));
        } else if ONE.contains(&keyword) || LIST.contains(&keyword) {
            let schemas = array(text, member.value).unwrap_or_else(|_| vec![member.value]);
            open.extend(schemas.into_iter().map(|schema| place.below(schema, [keyword, ""])));
        }
    }
}

/// A schema under a name.
struct Named {
    key: String,
    value: Span,
    doubled: bool,
}

fn named(text: &str, span: Span) -> Vec<Named> {
    let Ok(object) = Object::parse(text, span) else { return Vec::new() };
    let mut counts: HashMap<&str, usize> = HashMap::with_capacity(object.members.len());
    for member in &object.members {
        *counts.entry(member.name(text)).or_default() += 1;
    }
    let name = |member: &Member| {
        let key = member.name(text);
        Named { key: key.to_owned(), value: member.value, doubled: counts.get(key).is_some_and(|n| *n > 1) }
    };
    object.members.iter().map(name).collect()
}

fn occurs(text: &str, object: &Object, key: &str) -> usize {
    object.members.iter().filter(|m| m.is(text, key)).count()
}

fn judge(text: &str, place: &Place, object: &Object, found: &mut Vec<Annotation>) {
    let ambiguous = place.ambiguous || occurs(text, object, KEYWORD) > 1 || occurs(text, object, "type") > 1;
    for (at, member) in object.members.iter().enumerate().filter(|(_, m)| m.is(text, KEYWORD)) {
        let verdict =
            if ambiguous { Err(Reason::Ambiguous) } else { binding(text, place, object, member.value) };
        found.push(Annotation { owner: object.clone(), member: at, verdict, pointer: place.pointer.clone() });
    }
}

fn binding(text: &str, place: &Place, object: &Object, value: Span) -> Result<Binding, Reason> {
    let path = place.path.clone().filter(|path| !path.is_empty()).ok_or(Reason::Unreachable)?;
    let header = string(value.of(text)).and_then(|name| header_name(&name)).ok_or(Reason::Name)?;
    let declared = object.get(text, "type").map_err(|_| Reason::Ambiguous)?;
    let primitive = declared.and_then(|span| primitive(text, span)).ok_or(Reason::Type)?;
    Ok(Binding { header, path, primitive })
}

/// `1*tchar` (H-45) as the header that carries it; `HeaderName` knows the same characters.
fn header_name(name: &str) -> Option<HeaderName> {
    if name.is_empty() {
        return None;
    }
    HeaderName::from_bytes(format!("{PARAM_PREFIX}{name}").as_bytes()).ok()
}

/// One primitive type, alone or together with `null`.
fn primitive(text: &str, span: Span) -> Option<Primitive> {
    let one = |span: Span| match string(span.of(text)).as_deref() {
        Some("string") => Some(Primitive::String),
        Some("integer") => Some(Primitive::Integer),
        Some("boolean") => Some(Primitive::Boolean),
        _ => None,
    };
    let is_null = |span: &Span| string(span.of(text)).as_deref() == Some("null");
    let Ok(union) = array(text, span) else { return one(span) };
    match union.as_slice() {
        [only] => one(*only),
        [first, second] if is_null(second) => one(*first),
        [first, second] if is_null(first) => one(*second),
        _ => None,
    }
}

/// H-46. Both are wrong: which of them the server means, nobody can say.
fn refuse_doubles(found: &mut [Annotation]) {
    let mut counts: HashMap<HeaderName, usize> = HashMap::new();
    for binding in found.iter().filter_map(|a| a.verdict.as_ref().ok()) {
        *counts.entry(binding.header.clone()).or_default() += 1;
    }
    for annotation in found {
        if annotation.verdict.as_ref().is_ok_and(|b| counts.get(&b.header).is_some_and(|n| *n > 1)) {
            annotation.verdict = Err(Reason::NotUnique);
        }
    }
}

fn pointer(parent: String, key: &&str) -> String {
    const MOST: usize = 200;
    if parent.len() > MOST {
        return parent;
    }
    let key: String = key.chars().take(MOST).collect();
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}
