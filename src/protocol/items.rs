//! Items of a list result as raw bytes: who they are, and how they look under another name.

use bytes::Bytes;

use super::edit::{Edits, Parts};
use super::method::Kind;
use super::object::{Object, ObjectError, Span, array, string};

/// One tool, prompt, resource or template exactly as its server sent it.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its native name, URI or URI template.
    pub native: Box<str>,
    /// The object's bytes.
    pub json: Bytes,
}

/// One page of a list result.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Its items; those without a usable name are left out and counted in `skipped`.
    pub items: Vec<Item>,
    /// Items that could not be read.
    pub skipped: usize,
    /// The cursor of the next page; an empty one counts (L-50).
    pub next_cursor: Option<String>,
    /// `ttlMs` as it stands.
    pub ttl_ms: Option<Box<str>>,
    /// `cacheScope`, when it is a string.
    pub cache_scope: Option<Box<str>>,
}

/// Reads the `result` object of a list answer.
pub fn page(kind: Kind, result: &Bytes) -> Result<Page, ObjectError> {
    let text = std::str::from_utf8(result).map_err(|_| ObjectError::Syntax)?;
    let object = Object::parse(text, Span::new(0, text.len()))?;
    let items = object.get(text, kind.result_key())?.ok_or(ObjectError::NotObject)?;
    let mut page = Page {
        next_cursor: next_cursor(text, object.get(text, "nextCursor")?)?,
        ttl_ms: object.get(text, "ttlMs")?.map(|s| s.of(text).into()),
        cache_scope: object
            .get(text, "cacheScope")?
            .and_then(|s| string(s.of(text)))
            .map(|s| s.into_owned().into()),
        ..Page::default()
    };
    for span in array(text, items)? {
        match item(kind, result, text, span) {
            Some(item) => page.items.push(item),
            None => page.skipped += 1,
        }
    }
    Ok(page)
}

/// Absent and `null` are the end (L-50). Of what is neither that nor a string we cannot ask on: an error,
/// or the rest of the list would be missing without a word.
fn next_cursor(text: &str, span: Option<Span>) -> Result<Option<String>, ObjectError> {
    match span.map(|span| span.of(text)) {
        None | Some("null") => Ok(None),
        Some(raw) => string(raw).map(|cursor| Some(cursor.into())).ok_or(ObjectError::Syntax),
    }
}

fn item(kind: Kind, body: &Bytes, text: &str, span: Span) -> Option<Item> {
    let object = Object::parse(text, span).ok()?;
    let native = object.get(text, kind.id_key()).ok()??;
    let native = string(native.of(text))?;
    Some(Item { native: native.into_owned().into(), json: body.slice(object.span.range()) })
}

/// The item with some members replaced: `(key, JSON value)`; a missing member is appended.
pub fn with_members(json: &Bytes, replace: &[(&str, String)]) -> Result<Parts, ObjectError> {
    let text = std::str::from_utf8(json).map_err(|_| ObjectError::Syntax)?;
    let whole = Span::new(0, text.len());
    let object = Object::parse(text, whole)?;
    let mut edits = Edits::new();
    let mut appended = Vec::new();
    for (key, value) in replace {
        match object.get(text, key)? {
            Some(span) => edits.replace(span, value.clone()),
            None => appended.push(format!("{}:{value}", json_string(key))),
        }
    }
    if !appended.is_empty() {
        edits.append(&object, appended.join(","));
    }
    Ok(edits.apply(json, whole))
}

/// A string as JSON text.
pub fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_json_string(&mut out, text);
    out
}

/// Appends a string as JSON text.
pub fn push_json_string(out: &mut String, text: &str) {
    let plain = text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\');
    if plain {
        out.extend(["\"", text, "\""]);
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}
