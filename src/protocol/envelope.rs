//! Borrow the fields we own from the bytes of one message; refuse what two parsers could read differently.

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;

use super::code;
use super::meta::Meta;
use super::object::{Object, ObjectError, Span, string};
use super::scan;

/// A JSON-RPC id as its exact text: type and digits survive (M-04).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id(ByteString);

impl Id {
    /// The id's JSON text.
    pub fn raw(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// The same as text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// An integer id of ours.
    pub fn number(n: u64) -> Self {
        Self(ByteString::from(n.to_string()))
    }

    /// Reads an id that stands in `body`.
    pub fn parse(raw: &str, body: &ByteString) -> Option<Self> {
        Self::is(raw).then(|| Self(body.slice_ref(raw)))
    }

    /// Whether a JSON value is one: a string or an integer, nothing else (M-02).
    pub fn is(raw: &str) -> bool {
        let digits = raw.strip_prefix('-').unwrap_or(raw);
        let integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        integer || raw.starts_with('"')
    }
}

/// What a message is (M-01).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageKind {
    /// Has `method` and `id`.
    Request(Id),
    /// Has `method`, no `id`.
    Notification,
    /// Has `result` or `error`, no `method`.
    Response,
}

/// Bounds on what is read, counted without recursion.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Levels of nesting (`gateway.max_depth`).
    pub max_depth: usize,
    /// Array elements and object members in all (`gateway.max_input_elements`).
    pub max_elements: usize,
}

/// Why a message was refused before anybody looked at its meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EnvelopeError {
    /// -32700, -32600 or -32602.
    pub code: i32,
    /// One sentence without any of the message's content.
    pub message: &'static str,
    /// The id, where it could be read (M-05).
    pub id: Option<Id>,
    /// The bound that refused it, if one did.
    pub bound: Option<Bound>,
}

/// A bound on what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// [`Limits::max_depth`]
    Depth,
    /// [`Limits::max_elements`]
    Elements,
}

impl Bound {
    /// The key of `[gateway]`, which is also the `limit` label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Depth => "max_depth",
            Self::Elements => "max_input_elements",
        }
    }
}

impl EnvelopeError {
    const fn new(code: i32, message: &'static str) -> Self {
        Self { code, message, id: None, bound: None }
    }
}

/// One parsed message: the body and where its parts stand in it.
#[derive(Debug, Clone)]
pub struct Envelope {
    body: ByteString,
    /// Request, notification or response.
    pub kind: MessageKind,
    method: Option<Span>,
    /// `params`, when it is an object.
    pub params: Option<Object>,
    /// `params` present but of another type.
    pub params_malformed: bool,
    /// It is `null`, as some clients write "none".
    pub params_null: bool,
    /// `params._meta`, when it is an object.
    pub meta: Option<Meta>,
}

impl Envelope {
    /// Reads one message. Invalid UTF-8, a BOM, bad JSON or too much depth is -32700; JSON that is no
    /// acceptable message (batch, duplicate key, bad id) is -32600 with the id where it could be read.
    pub fn parse(body: Bytes, limits: Limits) -> Result<Self, EnvelopeError> {
        let body = ByteString::try_from(body)
            .map_err(|_| EnvelopeError::new(code::PARSE_ERROR, "the body is not UTF-8"))?;
        let text = &*body;
        let whole = Span::new(0, text.len());
        match exceeded(text.as_bytes(), limits) {
            None => {}
            Some(Bound::Depth) => {
                let error = EnvelopeError::new(code::PARSE_ERROR, "the body is nested too deeply");
                return Err(EnvelopeError { bound: Some(Bound::Depth), ..error });
            }
            Some(Bound::Elements) => return Err(oversized(&body)),
        }
        let read = Object::read(text, whole, ["params", "_meta"]).map_err(|e| top_error(e, text))?;
        let (top, bad_key) = (read.object, read.bad_key);
        let id_span = top.get(text, "id").map_err(|e| in_message(e, None))?;
        let id = id_span.and_then(|span| Id::parse(span.of(text), &body));
        let fail = |code, message| EnvelopeError { code, message, id: id.clone(), bound: None };
        let invalid = |message| fail(code::INVALID_REQUEST, message);
        let get = |key| top.get(text, key).map_err(|e| in_message(e, id.clone()));

        if bad_key {
            return Err(in_message(ObjectError::BadKey, id));
        }
        if get("jsonrpc")?.and_then(|s| string(s.of(text))).as_deref() != Some("2.0") {
            return Err(invalid("jsonrpc must be \"2.0\""));
        }
        if id_span.is_some() && id.is_none() {
            return Err(invalid("the id must be a string or an integer"));
        }
        let method = get("method")?;
        let (result, error) = (get("result")?.is_some(), get("error")?.is_some());
        let kind = match (method, &id, result, error) {
            (Some(_), Some(id), false, false) => MessageKind::Request(id.clone()),
            (Some(_), None, false, false) => MessageKind::Notification,
            (None, _, true, false) | (None, _, false, true) => MessageKind::Response,
            (None, _, false, false) => return Err(invalid("the message has neither method nor result")),
            // A peer that looks for other keys first would see another message (design §2, M-07).
            _ => return Err(invalid("only one of method, result and error may be there")),
        };
        if method.is_some_and(|span| string(span.of(text)).is_none()) {
            return Err(invalid("method must be a string"));
        }
        let params_span = get("params")?;
        let params = Self::params(text, params_span, read.inner);
        let (params, meta) = params.map_err(|e| in_message(e, id.clone()))?;
        let params_malformed = params_span.is_some() && params.is_none();
        let params_null = params_malformed && params_span.is_some_and(|span| span.of(text) == "null");
        Ok(Self { kind, method, params, params_malformed, params_null, meta, body })
    }

    /// `params` and its `_meta`, if they were not read already.
    fn params(
        text: &str,
        span: Option<Span>,
        [params, meta]: [Option<Object>; 2],
    ) -> Result<(Option<Object>, Option<Meta>), ObjectError> {
        let Some(span) = span else { return Ok((None, None)) };
        let params = match params.map_or_else(|| Object::parse(text, span), Ok) {
            Ok(params) => params,
            Err(ObjectError::NotObject) => return Ok((None, None)),
            Err(error) => return Err(error),
        };
        // Found in these `params` and no others: two of them are refused before.
        let read = |span| meta.map_or_else(|| Meta::parse(text, span), |meta| Meta::of(text, meta));
        let meta = match params.get(text, "_meta")?.map(read) {
            Some(Ok(meta)) => Some(meta),
            None | Some(Err(ObjectError::NotObject)) => None,
            Some(Err(error)) => return Err(error),
        };
        Ok((Some(params), meta))
    }

    /// The body it was read from.
    pub fn body(&self) -> &Bytes {
        self.body.as_bytes()
    }

    /// A part of the body, without a copy. `part` is a slice of [`Envelope::text`].
    pub fn slice(&self, part: &str) -> ByteString {
        self.body.slice_ref(part)
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        &self.body
    }

    /// The request's id; `None` for notifications and responses.
    pub const fn id(&self) -> Option<&Id> {
        match &self.kind {
            MessageKind::Request(id) => Some(id),
            _ => None,
        }
    }

    /// The method after unescaping; empty for responses.
    pub fn method(&self) -> Cow<'_, str> {
        self.method.and_then(|span| string(span.of(self.text()))).unwrap_or_default()
    }

    /// A member of `params`; an error when it occurs twice.
    pub fn param(&self, key: &str) -> Result<Option<Span>, ObjectError> {
        self.params.as_ref().map_or(Ok(None), |params| params.get(self.text(), key))
    }
}

fn top_error(error: ObjectError, text: &str) -> EnvelopeError {
    match error {
        ObjectError::Syntax => EnvelopeError::new(code::PARSE_ERROR, "the body is not valid JSON"),
        ObjectError::NotObject if text.trim_start().starts_with('[') => {
            EnvelopeError::new(code::INVALID_REQUEST, "batches are not supported")
        }
        ObjectError::NotObject => EnvelopeError::new(code::INVALID_REQUEST, "the message is not an object"),
        ObjectError::BadKey | ObjectError::Duplicate => in_message(error, None),
    }
}

const fn in_message(error: ObjectError, id: Option<Id>) -> EnvelopeError {
    let message = match error {
        ObjectError::Duplicate => "a key of the message occurs twice",
        _ => "a key of the message is not Unicode text",
    };
    EnvelopeError { code: code::INVALID_REQUEST, message, id, bound: None }
}

/// The refusal of a message with too many elements: nothing of it is kept, so that reading it costs no more than its
/// bytes, but for its id.
fn oversized(body: &ByteString) -> EnvelopeError {
    let id = match Object::id(body) {
        Ok(id) => id.and_then(|span| Id::parse(span.of(body), body)),
        Err(error) => return top_error(error, body),
    };
    let message = "the message has too many elements";
    EnvelopeError { code: code::INVALID_PARAMS, message, id, bound: Some(Bound::Elements) }
}

/// The first bound that JSON text exceeds (of anything else: some answer, safely): one pass, no recursion, before any
/// parser runs, ended where it is clear.
pub fn exceeded(bytes: &[u8], limits: Limits) -> Option<Bound> {
    // An element has a byte of its own and a level a bracket: most messages are too short for too many.
    if bytes.len() <= limits.max_elements
        && memchr::memchr2_iter(b'{', b'[', bytes).nth(limits.max_depth).is_none()
    {
        return None;
    }
    let (mut depth, mut elements, mut at) = (0usize, 0usize, 0usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            // What is no string is refused by whoever reads it.
            b'"' => at = scan::string(bytes, at)? - 1,
            b'{' | b'[' => {
                depth += 1;
                if depth > limits.max_depth {
                    return Some(Bound::Depth);
                }
                elements += usize::from(!is_empty_container(&bytes[at + 1..]));
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => elements += 1,
            _ => {}
        }
        if elements > limits.max_elements {
            return Some(Bound::Elements);
        }
        at += 1;
    }
    None
}

fn is_empty_container(rest: &[u8]) -> bool {
    matches!(rest.iter().find(|b| !b.is_ascii_whitespace()), None | Some(b'}' | b']'))
}
