//! What a legacy revision does not know, left out of items and results by splices (G-81, M-83, M-85).

use bytes::Bytes;

use super::edit::{Edits, Parts};
use super::items::json_string;
use super::meta::is_reserved;
use super::method::{Kind, Method};
use super::object::{Object, ObjectError, Span, array, string};
use super::version::Revision;

/// What only modern results have, and what only interim ones have.
const MODERN_ONLY: [&str; 5] = ["resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"];
/// Content that every revision with this transport knows.
const CONTENT: [&str; 4] = ["text", "image", "audio", "resource"];

/// An item of a list for clients of a revision; the same bytes where nothing is left out.
pub fn item(kind: Kind, json: &Bytes, revision: Revision) -> Bytes {
    if revision == Revision::V20260728 {
        return json.clone();
    }
    shaped_item(kind, json, revision).ok().flatten().unwrap_or_else(|| json.clone())
}

fn shaped_item(kind: Kind, json: &Bytes, revision: Revision) -> Result<Option<Bytes>, ObjectError> {
    let text = std::str::from_utf8(json).map_err(|_| ObjectError::Syntax)?;
    let object = Object::parse(text, Span::new(0, text.len()))?;
    let gone: &[&str] = match revision {
        Revision::V20250326 => &["title", "outputSchema", "icons", "execution"],
        Revision::V20250618 => &["icons", "execution"],
        _ => &[],
    };
    let leave = |name: &str, value: Span| {
        gone.contains(&name)
            || kind == Kind::Tools && name == "outputSchema" && !is_object_schema(text, value)
    };
    let at: Vec<usize> = (0..object.members.len())
        .filter(|at| leave(object.members[*at].name(text), object.members[*at].value))
        .collect();
    if at.is_empty() {
        return Ok(None);
    }
    let mut edits = Edits::new();
    edits.remove(&object, &at);
    Ok(Some(edits.apply(json, object.span).to_bytes()))
}

/// Whether a schema's root is what legacy clients take: `"type": "object"` (M-83).
fn is_object_schema(text: &str, schema: Span) -> bool {
    let kind = Object::parse(text, schema).and_then(|schema| schema.get(text, "type"));
    kind.is_ok_and(|kind| kind.and_then(|span| string(span.of(text))).as_deref() == Some("object"))
}

/// A complete result for clients of a legacy revision. `body` is the result's object.
///
/// # Errors
///
/// It is no JSON object, or a key of ours occurs twice.
pub fn result(method: Method, body: &Bytes, revision: Revision) -> Result<Parts, ObjectError> {
    let text = std::str::from_utf8(body).map_err(|_| ObjectError::Syntax)?;
    let object = Object::parse(text, Span::new(0, text.len()))?;
    let mut shaped = Shaped { text, edits: Edits::new(), gone: Vec::new(), first: None };
    for key in MODERN_ONLY {
        shaped.gone.extend(object.position(text, key)?);
    }
    if let Some(at) = object.position(text, "_meta")? {
        shaped.meta(&object, at);
    }
    match method {
        Method::ToolsCall => shaped.tool_result(&object, revision)?,
        Method::PromptsGet if revision < Revision::V20250618 => shaped.messages(&object)?,
        _ => {}
    }
    let Shaped { mut edits, mut gone, first, .. } = shaped;
    gone.sort_unstable();
    edits.remove(&object, &gone);
    if let Some(first) = first {
        let comma = if gone.len() < object.members.len() { "," } else { "" };
        edits.insert(object.span.start + 1, format!("{first}{comma}"));
    }
    Ok(edits.apply(body, object.span))
}

/// A result being shaped.
struct Shaped<'t> {
    text: &'t str,
    edits: Edits,
    /// Positions of members that are left out.
    gone: Vec<usize>,
    /// A member to be put first.
    first: Option<String>,
}

impl Shaped<'_> {
    /// The hop's own keys go, foreign ones stay (M-23).
    fn meta(&mut self, object: &Object, at: usize) {
        let Ok(meta) = Object::parse(self.text, object.members[at].value) else { return };
        let own: Vec<usize> =
            (0..meta.members.len()).filter(|at| is_reserved(meta.members[*at].name(self.text))).collect();
        if own.len() == meta.members.len() {
            self.gone.push(at);
        } else {
            self.edits.remove(&meta, &own);
        }
    }

    /// M-83, M-85: structured content where the revision has it and it is an object, else a copy as text.
    fn tool_result(&mut self, object: &Object, revision: Revision) -> Result<(), ObjectError> {
        let text = self.text;
        let structured = object.position(text, "structuredContent")?;
        let dropped = structured.filter(|at| {
            revision < Revision::V20250618
                || !object.members[*at].value.of(text).trim_start().starts_with('{')
        });
        self.gone.extend(dropped);
        let copy = dropped.map(|at| text_block(object.members[at].value.of(text))).unwrap_or_default();
        let Some(content) = object.get(text, "content")? else {
            self.first = Some(format!("\"content\":[{copy}]"));
            return Ok(());
        };
        let blocks = array(text, content).unwrap_or_default();
        if blocks.is_empty() && !copy.is_empty() {
            self.edits.replace(content, format!("[{copy}]"));
        } else if revision < Revision::V20250618 {
            blocks.into_iter().for_each(|block| self.block(block));
        }
        Ok(())
    }

    /// Each message of a prompt has one block.
    fn messages(&mut self, object: &Object) -> Result<(), ObjectError> {
        let Some(messages) = object.get(self.text, "messages")? else { return Ok(()) };
        for message in array(self.text, messages).unwrap_or_default() {
            let Ok(message) = Object::parse(self.text, message) else { continue };
            if let Some(block) = message.get(self.text, "content")? {
                self.block(block);
            }
        }
        Ok(())
    }

    /// Content that 2025-03-26 does not know becomes text.
    fn block(&mut self, span: Span) {
        let text = self.text;
        let Ok(block) = Object::parse(text, span) else { return };
        let member = |key: &str| block.get(text, key).ok().flatten().and_then(|span| string(span.of(text)));
        let kind = member("type").unwrap_or_default();
        if CONTENT.contains(&&*kind) {
            return;
        }
        let said = match (&*kind, member("uri")) {
            ("resource_link", Some(uri)) => {
                let name = member("title").or_else(|| member("name")).unwrap_or_default();
                format!("{name}: {uri}")
            }
            _ => format!(
                "[content of type \"{kind}\" left out: this client's protocol revision does not have it]"
            ),
        };
        self.edits.replace(span, text_block(&said));
    }
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", json_string(text))
}
