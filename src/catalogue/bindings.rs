//! `x-mcp-header`: is it valid, where does it point, does header equal body, what header to send (H-45..H-55).

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use crate::protocol::edit::{Edits, Parts};
use crate::protocol::header;
use crate::protocol::number::Decimal;
use crate::protocol::object::{Object, ObjectError, Span, string};

mod schema;

use schema::Annotation;
pub use schema::{Invalid, Reason};

/// The type an annotated property is declared with (H-47).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `boolean`
    Boolean,
}

/// One annotated property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// `mcp-param-` and the annotated name.
    pub header: HeaderName,
    /// The property's keys from the root of the arguments.
    pub path: Vec<Box<str>>,
    /// Its declared type. Values are compared by the type they have.
    pub primitive: Primitive,
}

/// The valid annotations of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bindings(Vec<Binding>);

/// Why arguments and `Mcp-Param-*` headers do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// -32020: missing, doubled, malformed, or it says something else than the body (H-31, H-52).
    #[error("header {0} does not match the arguments")]
    Mismatch(HeaderName),
    /// -32600: a key on the way to an annotated value occurs twice or is no Unicode text (design §2).
    #[error("the arguments hold {0}")]
    Arguments(ObjectError),
}

/// A schema without its invalid annotations (H-50).
#[derive(Debug, Clone)]
pub struct Stripped {
    /// The schema, byte for byte but for what was removed.
    pub schema: Parts,
    /// The annotations that remain.
    pub bindings: Bindings,
    /// What was removed and why, for the log.
    pub removed: Vec<Invalid>,
}

impl Bindings {
    /// Reads an `inputSchema`. The error makes the whole tool invalid (H-45..H-49).
    pub fn read(schema: &str) -> Result<Self, Invalid> {
        let found = schema::annotations(schema);
        if let Some(invalid) = found.too_deep {
            return Err(invalid);
        }
        found.annotations.into_iter().map(Annotation::judged).collect::<Result<_, _>>().map(Self)
    }

    /// For stdio and legacy servers, where the annotation had no meaning: removes the invalid ones, keeps
    /// the tool (H-50).
    pub fn strip(schema: &Bytes) -> Stripped {
        let text = std::str::from_utf8(schema).unwrap_or_default();
        let (mut edits, mut removed, mut kept) = (Edits::new(), Vec::new(), Vec::new());
        let mut doomed: HashMap<u32, (Object, Vec<usize>)> = HashMap::new();
        for annotation in schema::annotations(text).annotations {
            let (owner, member) = (annotation.owner.clone(), annotation.member);
            match annotation.judged() {
                Ok(binding) => kept.push(binding),
                Err(invalid) => {
                    removed.push(invalid);
                    doomed.entry(owner.span.start).or_insert((owner, Vec::new())).1.push(member);
                }
            }
        }
        for (owner, members) in doomed.values() {
            edits.remove(owner, members);
        }
        let whole = Span::new(0, schema.len());
        Stripped { schema: edits.apply(schema, whole), bindings: Self(kept), removed }
    }

    /// The annotations.
    pub fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Holds the headers of a call against its `arguments` (JSON text; `None` when absent): every annotated
    /// value has its header and every annotated header its value (H-52), once (H-09), equal after decoding
    /// (H-42, H-43, H-53). Headers that no annotation names are not looked at (H-55).
    pub fn check<'h, H>(&self, arguments: Option<&str>, headers: H) -> Result<(), ParamError>
    where
        H: IntoIterator<Item = (&'h str, &'h [u8])>,
    {
        self.check_mapped(arguments, None, headers)
    }

    /// The same where arguments are `mapped` on their way: each header says what came, or what goes on.
    pub fn check_mapped<'h, H>(
        &self,
        arguments: Option<&str>,
        mapped: Option<&str>,
        headers: H,
    ) -> Result<(), ParamError>
    where
        H: IntoIterator<Item = (&'h str, &'h [u8])>,
    {
        if self.0.is_empty() {
            return Ok(());
        }
        let is_param = |name: &str| {
            name.get(..header::PARAM_PREFIX.len())
                .is_some_and(|n| n.eq_ignore_ascii_case(header::PARAM_PREFIX))
        };
        let given: Vec<(&str, &[u8])> = headers.into_iter().filter(|(name, _)| is_param(name)).collect();
        let came = Arguments::read(arguments)?;
        let goes = mapped.map(|mapped| Arguments::read(Some(mapped))).transpose()?;
        for binding in &self.0 {
            let name = binding.header.as_str();
            let fits = |value: Option<Value<'_>>| {
                let mut hits = given.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
                match (value, hits.next(), hits.next()) {
                    (None, None, None) => true,
                    (Some(value), Some((_, received)), None) => value.equals(received),
                    _ => false,
                }
            };
            if fits(came.value(&binding.path)?) {
                continue;
            }
            let other = goes.as_ref().map(|goes| goes.value(&binding.path)).transpose()?;
            if !other.is_some_and(fits) {
                return Err(ParamError::Mismatch(binding.header.clone()));
            }
        }
        Ok(())
    }

    /// The headers to send with these arguments: one for each annotated value that is there and is
    /// neither `null` nor an object or array (H-40, H-41, H-54).
    pub fn headers_for(&self, arguments: Option<&str>) -> Result<Vec<(HeaderName, HeaderValue)>, ParamError> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let arguments = Arguments::read(arguments)?;
        let mut headers = Vec::with_capacity(self.0.len());
        for binding in &self.0 {
            let Some(value) = arguments.value(&binding.path)? else { continue };
            let text = value.plain().ok_or_else(|| ParamError::Mismatch(binding.header.clone()))?;
            let coded = HeaderValue::from_str(&header::encode(&text));
            let coded = coded.map_err(|_| ParamError::Mismatch(binding.header.clone()))?;
            headers.push((binding.header.clone(), coded));
        }
        Ok(headers)
    }
}

/// The arguments of a call, read one level deep.
struct Arguments<'t> {
    text: &'t str,
    /// `None`: there are none, or they are no object; then no annotated value is there.
    root: Option<Object>,
}

impl<'t> Arguments<'t> {
    fn read(arguments: Option<&'t str>) -> Result<Self, ParamError> {
        let text = arguments.unwrap_or("null");
        Ok(Self { text, root: object(text, Span::new(0, text.len()))? })
    }

    /// The value at `path` that needs a header.
    fn value(&self, path: &[Box<str>]) -> Result<Option<Value<'t>>, ParamError> {
        let Some((last, above)) = path.split_last() else { return Ok(None) };
        let member = |object: &Object, key: &str| object.get(self.text, key).map_err(ParamError::Arguments);
        let mut inner = None;
        for key in above {
            let Some(outer) = inner.as_ref().or(self.root.as_ref()) else { return Ok(None) };
            let Some(span) = member(outer, key)? else { return Ok(None) };
            inner = object(self.text, span)?;
            if inner.is_none() {
                return Ok(None);
            }
        }
        let Some(parent) = inner.as_ref().or(self.root.as_ref()) else { return Ok(None) };
        let Some(span) = member(parent, last)? else { return Ok(None) };
        let raw = span.of(self.text);
        Ok(match raw.as_bytes().first() {
            Some(b'"') => Some(Value::String(string(raw))),
            Some(b't' | b'f') => Some(Value::Boolean(raw)),
            Some(b'-' | b'0'..=b'9') => Some(Value::Number(raw)),
            _ => None,
        })
    }
}

/// The object there; `None` for another type where the schema has an object.
fn object(text: &str, span: Span) -> Result<Option<Object>, ParamError> {
    match Object::parse(text, span) {
        Ok(object) => Ok(Some(object)),
        Err(ObjectError::NotObject) => Ok(None),
        Err(error) => Err(ParamError::Arguments(error)),
    }
}

/// A value of the arguments, by the type it has (not the one it should have).
enum Value<'t> {
    /// `None`: it holds a lone surrogate, which no header can mirror.
    String(Option<Cow<'t, str>>),
    Boolean(&'t str),
    Number(&'t str),
}

impl Value<'_> {
    fn equals(&self, received: &[u8]) -> bool {
        let Ok(received) = header::decode(received) else { return false };
        match self {
            Self::String(value) => value.as_deref() == Some(&*received),
            Self::Boolean(value) => *value == received,
            Self::Number(value) => {
                *value == received
                    || Decimal::parse(value).is_some_and(|n| Some(n) == Decimal::parse(&received))
            }
        }
    }

    /// Its text before header coding; integers in plain decimal.
    fn plain(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(value) => value.as_deref().map(Cow::from),
            Self::Boolean(value) => Some((*value).into()),
            Self::Number(value) => {
                let plain = Decimal::parse(value).and_then(|number| number.integer());
                Some(plain.map_or(Cow::from(*value), Cow::from))
            }
        }
    }
}

#[cfg(test)]
mod tests;
