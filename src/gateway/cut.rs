//! A result that is too long, cut so that it may pass (`truncate`): text goes, with a mark that says so, and what is left
//! is a valid result.
//!
//! Only texts are cut: of `text` items and of embedded resources, from the first that does not fit; text behind it is
//! left out, pictures and links stay. Structured content stays while it fits beside some text; it is never cut. Where it
//! does not fit it is left out, unless the tool promises it (`outputSchema`): then nothing that a client takes for valid
//! can be made, and the result is too large.

use crate::protocol::edit::Edits;
use crate::protocol::items::json_string;
use crate::protocol::object::{Object, ObjectError, Span, array, string};

/// A text that can be cut.
struct Text {
    /// The item it stands in.
    item: Span,
    /// The string, without its quotes.
    inner: Span,
    /// Where the item before ends, or its own beginning: what goes when the item goes.
    from: u32,
}

/// The bytes of a complete tool result that `most` of them are left of; `None`: it cannot be done. `promised`: its
/// structured content may not go.
pub(super) fn cut(body: &bytes::Bytes, object: &Object, most: usize, promised: bool) -> Option<bytes::Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let texts = texts(text, object).ok()?;
    let all = size(object.span);
    let mark = json_string(&mark(all, most));
    // Without its quotes; with what an item needs that holds nothing else.
    let note = &mark[1..mark.len() - 1];
    let alone = format!("{{\"type\":\"text\",\"text\":{mark}}}");
    let of_texts: usize = texts.iter().map(|one| (one.item.end - one.from) as usize).sum();
    let mut fixed = all - of_texts + alone.len() + 1;
    let mut edits = Edits::new();
    if fixed > most {
        let at = object.position(text, "structuredContent").ok()?.filter(|_| !promised)?;
        let member = &object.members[at];
        // With its comma.
        fixed -= (member.value.end - member.key.start) as usize;
        edits.remove(object, &[at]);
    }
    let mut room = most.checked_sub(fixed)?;
    let mut texts = texts.into_iter();
    let long = texts.find(|one| {
        let whole = (one.item.end - one.from) as usize;
        let fits = whole <= room;
        room -= if fits { whole } else { 0 };
        !fits
    })?;
    let around = (long.item.end - long.from) as usize - size(long.inner);
    match room.checked_sub(around) {
        Some(left) => {
            let kept = boundary(long.inner.of(text), left);
            let from = long.inner.start as usize + kept;
            edits.replace(Span::new(from, long.inner.end as usize), note.to_owned());
        }
        None => edits.replace(long.item, alone),
    }
    texts.for_each(|one| edits.replace(Span { start: one.from, end: one.item.end }, bytes::Bytes::new()));
    Some(edits.apply(body, object.span).to_bytes())
}

const fn size(span: Span) -> usize {
    (span.end - span.start) as usize
}

fn mark(all: usize, most: usize) -> String {
    format!(
        "\n[Cut here by the gateway: the result has {all} bytes, and {most} may pass. Ask for less: narrow the query, filter or page.]"
    )
}

/// Every text in `content`.
fn texts(text: &str, object: &Object) -> Result<Vec<Text>, ObjectError> {
    let Some(content) = object.get(text, "content")? else { return Ok(Vec::new()) };
    let items = array(text, content)?;
    let mut found = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let one = Object::parse(text, *item)?;
        let kind = one.get(text, "type")?.and_then(|kind| string(kind.of(text)));
        let value = match kind.as_deref() {
            Some("text") => one.get(text, "text")?,
            Some("resource") => match one.get(text, "resource")?.map(|span| Object::parse(text, span)) {
                Some(resource) => resource?.get(text, "text")?,
                None => None,
            },
            _ => None,
        };
        let Some(value) = value.filter(|value| value.of(text).starts_with('"') && size(*value) >= 2) else {
            continue;
        };
        let from = if at == 0 { item.start } else { items[at - 1].end };
        found.push(Text { item: *item, inner: Span { start: value.start + 1, end: value.end - 1 }, from });
    }
    Ok(found)
}

/// The most bytes of a JSON string's inside, up to `most`, that end between two characters: not inside one, not inside
/// an escape, not between the halves of a pair of them.
fn boundary(inner: &str, most: usize) -> usize {
    if inner.len() <= most {
        return inner.len();
    }
    let end = inner.floor_char_boundary(most);
    let bytes = inner.as_bytes();
    let mut at = 0;
    while let Some(step) = memchr::memchr(b'\\', &bytes[at..end]) {
        let escape = at + step;
        let length = match inner.get(escape + 1..escape + 6).and_then(|text| text.strip_prefix('u')) {
            Some(hex) if is_high(hex) && inner[escape + 6..].starts_with("\\u") => 12,
            Some(_) => 6,
            None => 2,
        };
        if escape + length > end {
            return escape;
        }
        at = escape + length;
    }
    end
}

/// The first half of a character that is written as two.
fn is_high(hex: &str) -> bool {
    u32::from_str_radix(hex, 16).is_ok_and(|unit| (0xD800..0xDC00).contains(&unit))
}

#[cfg(test)]
mod tests;
