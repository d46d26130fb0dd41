//! One level of a JSON object as positions in the text: which key stands where, nothing copied.

use super::scan;

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
            None => self.raw_name().of(text),
        }
    }

    /// Whether that is `key`.
    pub fn is(&self, text: &str, key: &str) -> bool {
        match &self.unescaped {
            Some(name) => **name == *key,
            // Bytes: whether they begin a character does not matter for being the same.
            None => text.as_bytes().get(self.raw_name().range()) == Some(key.as_bytes()),
        }
    }

    /// The key without its quotes.
    const fn raw_name(&self) -> Span {
        Span { start: self.key.start + 1, end: self.key.end.saturating_sub(1) }
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
        let mut reader = Reader::new(text, ["", ""]);
        let object = reader.object(span)?;
        if reader.bad_key { Err(ObjectError::BadKey) } else { Ok(object) }
    }

    /// [`Object::parse`], and the object under `key` read in the same pass, where there is a good one.
    pub fn parse_with(text: &str, span: Span, key: &str) -> Result<(Self, Option<Self>), ObjectError> {
        let mut reader = Reader::new(text, [key, ""]);
        let object = reader.object(span)?;
        let [inner, _] = reader.inner;
        if reader.bad_key { Err(ObjectError::BadKey) } else { Ok((object, inner)) }
    }

    /// Like [`Object::parse`], but a key that is no Unicode text only sets the flag: such a message is
    /// refused as well, yet with its id (M-05). The key's own text stands in for its name.
    ///
    /// Reads in the same pass the object under the first of `keys`, and in that the one under the second, where
    /// there are good ones.
    pub(super) fn read(text: &str, span: Span, keys: [&str; 2]) -> Result<Read, ObjectError> {
        let mut reader = Reader::new(text, keys);
        let object = reader.object(span)?;
        Ok(Read { object, bad_key: reader.bad_key, inner: reader.inner })
    }

    /// The value of `id` in an object that is the whole of `text`, as [`Object::get`] finds it; nothing else is kept.
    pub(super) fn id(text: &str) -> Result<Option<Span>, ObjectError> {
        let mut reader = Reader { only: Some("id"), ..Reader::new(text, ["", ""]) };
        let object = reader.object(Span::new(0, text.len()))?;
        if reader.bad_key { Err(ObjectError::BadKey) } else { object.get(text, "id") }
    }

    /// The value of `key`; an error when it occurs more than once, however it is spelled.
    pub fn get(&self, text: &str, key: &str) -> Result<Option<Span>, ObjectError> {
        let mut found = None;
        for member in self.members.iter().filter(|m| m.is(text, key)) {
            if found.replace(member.value).is_some() {
                return Err(ObjectError::Duplicate);
            }
        }
        Ok(found)
    }

    /// Like [`Object::get`], with the position in [`Object::members`].
    pub fn position(&self, text: &str, key: &str) -> Result<Option<usize>, ObjectError> {
        let mut hits = self.members.iter().enumerate().filter(|(_, m)| m.is(text, key));
        match (hits.next(), hits.next()) {
            (_, Some(_)) => Err(ObjectError::Duplicate),
            (first, None) => Ok(first.map(|(i, _)| i)),
        }
    }
}

/// The elements of a JSON array, by position.
pub fn array(text: &str, span: Span) -> Result<Vec<Span>, ObjectError> {
    elements(text, span).ok_or(ObjectError::Syntax)
}

fn elements(text: &str, span: Span) -> Option<Vec<Span>> {
    let (end, mut at) = (span.end as usize, span.start as usize);
    let bytes = text.as_bytes().get(..end)?;
    at = scan::space(bytes, at);
    if bytes.get(at) != Some(&b'[') {
        return None;
    }
    let mut items = Vec::new();
    at = scan::space(bytes, at + 1);
    if bytes.get(at) == Some(&b']') {
        return (scan::space(bytes, at + 1) == end).then_some(items);
    }
    loop {
        let start = at;
        at = scan::value(bytes, at)?;
        items.push(Span::new(start, at));
        at = scan::space(bytes, at);
        match bytes.get(at)? {
            b',' => at = scan::space(bytes, at + 1),
            b']' => return (scan::space(bytes, at + 1) == end).then_some(items),
            _ => return None,
        }
    }
}

/// White space of JSON.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// A JSON string's content; `None` when `raw` is no string or holds a lone surrogate.
pub fn string(raw: &str) -> Option<std::borrow::Cow<'_, str>> {
    // Values by position have no white space around them.
    let raw = if raw.starts_with('"') { raw } else { raw.trim_start_matches(SPACE) };
    let raw = if raw.ends_with('"') { raw } else { raw.trim_end_matches(SPACE) };
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_some() {
        return serde_json::from_str::<String>(raw).ok().map(Into::into);
    }
    Some(inner.into())
}

/// Whether `raw` is one JSON value.
pub fn is_json(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    scan::value(bytes, scan::space(bytes, 0)).is_some_and(|end| scan::space(bytes, end) == bytes.len())
}

/// What [`Object::read`] finds.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) object: Object,
    /// A key of it is no Unicode text.
    pub(super) bad_key: bool,
    /// The objects that stand in it.
    pub(super) inner: [Option<Object>; 2],
}

/// Reads one object, one that stands in it, and one that stands in that.
struct Reader<'t> {
    text: &'t str,
    /// The keys whose objects are read as well; an empty one ends them.
    keys: [&'t str; 2],
    inner: [Option<Object>; 2],
    /// How far inside it reads.
    level: usize,
    /// A key is no Unicode text.
    bad_key: bool,
    /// The one key whose members are kept; `None`: all.
    only: Option<&'t str>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, keys: [&'t str; 2]) -> Self {
        Self { text, keys, inner: [None, None], level: 0, bad_key: false, only: None }
    }

    fn object(&mut self, span: Span) -> Result<Object, ObjectError> {
        let end = span.end as usize;
        let bytes = self.text.as_bytes().get(..end).ok_or(ObjectError::Syntax)?;
        let start = scan::space(bytes, span.start as usize);
        if bytes.get(start) != Some(&b'{') {
            let is_json = scan::value(bytes, start).is_some_and(|at| scan::space(bytes, at) == end);
            return Err(if is_json { ObjectError::NotObject } else { ObjectError::Syntax });
        }
        let (members, at) = self.members(bytes, start).ok_or(ObjectError::Syntax)?;
        if scan::space(bytes, at) != end {
            return Err(ObjectError::Syntax);
        }
        Ok(Object { span: Span::new(start, at), members })
    }

    /// The members of the object whose brace is at `at`, and where it ends.
    fn members(&mut self, bytes: &[u8], at: usize) -> Option<(Vec<Member>, usize)> {
        let mut at = scan::space(bytes, at + 1);
        if bytes.get(at) == Some(&b'}') {
            return Some((Vec::new(), at + 1));
        }
        let mut members = Vec::with_capacity(8);
        loop {
            let (end, escapes) = scan::text(bytes, at)?;
            let key = Span::new(at, end);
            let value = scan::colon(bytes, end)?;
            let unescaped = if escapes { self.unescaped(key) } else { None };
            let mut member = Member { key, value: Span::new(value, value), unescaped };
            at = self.value(bytes, value, &member)?;
            member.value.end = at as u32;
            if self.only.is_none_or(|only| member.is(self.text, only)) {
                members.push(member);
            }
            at = scan::space(bytes, at);
            match bytes.get(at)? {
                b',' => at = scan::space(bytes, at + 1),
                b'}' => return Some((members, at + 1)),
                _ => return None,
            }
        }
    }

    /// The end of a member's value; it is read if it is the one wanted.
    fn value(&mut self, bytes: &[u8], at: usize, member: &Member) -> Option<usize> {
        let wanted = |key: &&str| !key.is_empty() && member.is(self.text, key);
        if bytes.get(at) != Some(&b'{') || !self.keys.get(self.level).is_some_and(wanted) {
            return scan::value(bytes, at);
        }
        // A bad key there is for whoever reads that object.
        let bad_key = std::mem::take(&mut self.bad_key);
        self.level += 1;
        let (members, end) = self.members(bytes, at)?;
        self.level -= 1;
        let good = !std::mem::replace(&mut self.bad_key, bad_key);
        self.inner[self.level] = good.then(|| Object { span: Span::new(at, end), members });
        Some(end)
    }

    /// The text of a key that is spelled with escapes.
    fn unescaped(&mut self, key: Span) -> Option<Box<str>> {
        let text = serde_json::from_str(key.of(self.text)).ok();
        self.bad_key |= text.is_none();
        text
    }
}
