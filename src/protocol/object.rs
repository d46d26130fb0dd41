//! One level of a JSON object as positions in the text: which key stands where, nothing copied.

use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A half-open byte range of a message body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span from byte offsets; bodies are bounded far below 4 GiB.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The text it covers.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// As a range for slicing `Bytes`.
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Where `part` lies inside `text`; both must come from the same allocation.
    fn locate(text: &str, part: &str) -> Self {
        let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        Self::new(start, start + part.len())
    }
}

/// Why text could not be read as an object of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Not JSON at all.
    #[error("not valid JSON")]
    Syntax,
    /// Valid JSON of another type.
    #[error("not a JSON object")]
    NotObject,
    /// A key that is no Unicode text (lone surrogate).
    #[error("a key holds a lone surrogate")]
    BadKey,
    /// A key we read occurs twice.
    #[error("a key occurs twice")]
    Duplicate,
}

/// One `"key": value` pair, by position.
#[derive(Debug, Clone)]
pub struct Member {
    /// The key with its quotes.
    pub key: Span,
    /// The value.
    pub value: Span,
    /// The key after unescaping, only where it differs from its text.
    unescaped: Option<Box<str>>,
}

impl Member {
    /// The key after unescaping.
    pub fn name<'a>(&'a self, text: &'a str) -> &'a str {
        match &self.unescaped {
            Some(name) => name,
            None => Span { start: self.key.start + 1, end: self.key.end.saturating_sub(1) }.of(text),
        }
    }
}

/// The members of one object in order of appearance.
#[derive(Debug, Clone, Default)]
pub struct Object {
    /// The whole object with its braces.
    pub span: Span,
    /// Its members.
    pub members: Vec<Member>,
}

impl Object {
    /// Reads the object that `span` of `text` holds (surrounding white space allowed).
    pub fn parse(text: &str, span: Span) -> Result<Self, ObjectError> {
        let (object, bad_key) = Self::read(text, span)?;
        if bad_key { Err(ObjectError::BadKey) } else { Ok(object) }
    }

    /// Like [`Object::parse`], but a key that is no Unicode text only sets the flag: such a message is
    /// refused as well, yet with its id (M-05). The key's own text stands in for its name.
    pub(super) fn read(text: &str, span: Span) -> Result<(Self, bool), ObjectError> {
        let raw = span.of(text);
        let trimmed = raw.trim_matches([' ', '\t', '\n', '\r']);
        if !trimmed.starts_with('{') {
            return Err(if is_json(trimmed) { ObjectError::NotObject } else { ObjectError::Syntax });
        }
        let mut reader = serde_json::Deserializer::from_str(trimmed);
        let (members, bad_key) = reader.deserialize_map(Members { text }).map_err(|_| ObjectError::Syntax)?;
        reader.end().map_err(|_| ObjectError::Syntax)?;
        Ok((Self { span: Span::locate(text, trimmed), members }, bad_key))
    }

    /// The value of `key`; an error when it occurs more than once, however it is spelled.
    pub fn get(&self, text: &str, key: &str) -> Result<Option<Span>, ObjectError> {
        let mut found = None;
        for member in self.members.iter().filter(|m| m.name(text) == key) {
            if found.replace(member.value).is_some() {
                return Err(ObjectError::Duplicate);
            }
        }
        Ok(found)
    }

    /// Like [`Object::get`], with the position in [`Object::members`].
    pub fn position(&self, text: &str, key: &str) -> Result<Option<usize>, ObjectError> {
        let mut hits = self.members.iter().enumerate().filter(|(_, m)| m.name(text) == key);
        match (hits.next(), hits.next()) {
            (_, Some(_)) => Err(ObjectError::Duplicate),
            (first, None) => Ok(first.map(|(i, _)| i)),
        }
    }
}

/// The elements of a JSON array, by position.
pub fn array(text: &str, span: Span) -> Result<Vec<Span>, ObjectError> {
    let raw = span.of(text);
    let mut reader = serde_json::Deserializer::from_str(raw);
    let items = reader.deserialize_seq(Elements { text }).map_err(|_| ObjectError::Syntax)?;
    reader.end().map_err(|_| ObjectError::Syntax)?;
    Ok(items)
}

/// A JSON string's content; `None` when `raw` is no string or holds a lone surrogate.
pub fn string(raw: &str) -> Option<std::borrow::Cow<'_, str>> {
    let raw = raw.trim_matches([' ', '\t', '\n', '\r']);
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(raw).ok().map(Into::into);
    }
    Some(inner.into())
}

/// Whether `raw` is one JSON value.
pub fn is_json(raw: &str) -> bool {
    serde_json::from_str::<&RawValue>(raw).is_ok()
}

struct Members<'t> {
    text: &'t str,
}

impl<'de> Visitor<'de> for Members<'_> {
    /// The members, and whether a key is no Unicode text.
    type Value = (Vec<Member>, bool);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(8);
        let mut bad_key = false;
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            let value = map.next_value::<&'de RawValue>()?;
            let raw = key.get();
            let unescaped = match raw.contains('\\').then(|| serde_json::from_str::<Box<str>>(raw)) {
                Some(Ok(name)) => Some(name),
                Some(Err(_)) => {
                    bad_key = true;
                    None
                }
                None => None,
            };
            members.push(Member {
                key: Span::locate(self.text, raw),
                value: Span::locate(self.text, value.get()),
                unescaped,
            });
        }
        Ok((members, bad_key))
    }
}

struct Elements<'t> {
    text: &'t str,
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = Vec<Span>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<&'de RawValue>()? {
            items.push(Span::locate(self.text, item.get()));
        }
        Ok(items)
    }
}
