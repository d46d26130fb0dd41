//! JSON-RPC messages as bytes: built from pieces, and answers read shallowly.

use bytes::Bytes;
use bytestring::ByteString;

use super::edit::{Edits, Parts};
use super::envelope::Id;
use super::items::{json_string, push_json_string};
use super::object::{Object, ObjectError, Span, string};

/// An error answer; `id` is left out when it could not be read (M-05).
pub fn error(id: Option<&Id>, code: i32, message: &str, data: Option<&str>) -> Parts {
    let mut text = String::from("{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        text.push_str("\"id\":");
        text.push_str(id.text());
        text.push(',');
    }
    text.push_str(&format!("\"error\":{{\"code\":{code},\"message\":{}", json_string(message)));
    if let Some(data) = data {
        text.push_str(",\"data\":");
        text.push_str(data);
    }
    text.push_str("}}");
    text.into()
}

/// A result answer around the result's own bytes.
pub fn result(id: &Id, result: impl Into<Parts>) -> Parts {
    let result = result.into();
    let mut parts = Parts::with_capacity(result.pieces().len() + 4);
    parts.push(Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":"));
    parts.push(id.raw().clone());
    parts.push(Bytes::from_static(b",\"result\":"));
    parts.extend(result);
    parts.push(Bytes::from_static(b"}"));
    parts
}

/// A request or, without id, a notification; `params` is the object's text.
pub fn request(id: Option<&Id>, method: &str, params: impl Into<Parts>) -> Parts {
    let params = params.into();
    let mut head = request_head(id, method);
    if params.is_empty() {
        head.push('}');
        return head.into();
    }
    head.push_str(PARAMS);
    let mut parts = Parts::with_capacity(params.pieces().len() + 2);
    parts.push(head);
    parts.extend(params);
    parts.push(Bytes::from_static(b"}"));
    parts
}

/// A request whose params are the object at `whole` of `body`, edited.
pub fn edited_request(id: &Id, method: &str, edits: Edits, body: &Bytes, whole: Span) -> Parts {
    let mut head = request_head(Some(id), method);
    head.push_str(PARAMS);
    let mut parts = Parts::with_capacity(edits.pieces() + 2);
    parts.push(head);
    edits.apply_to(&mut parts, body, whole);
    parts.push(Bytes::from_static(b"}"));
    parts
}

const PARAMS: &str = ",\"params\":";

fn request_head(id: Option<&Id>, method: &str) -> String {
    let mut head = String::with_capacity(96 + method.len());
    head.push_str("{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        head.extend(["\"id\":", id.text(), ","]);
    }
    head.push_str("\"method\":");
    push_json_string(&mut head, method);
    head
}

/// A message that a server sent us, by position.
#[derive(Debug, Clone)]
pub struct Received {
    /// The whole message.
    pub body: ByteString,
    /// What it is.
    pub kind: ReceivedKind,
}

/// The kinds of message a server can send.
#[derive(Debug, Clone)]
pub enum ReceivedKind {
    /// An answer with a result. `id` is its JSON text.
    Result {
        /// The id's text.
        id: Bytes,
        /// The result's position.
        result: Span,
        /// Its members, where it is an object that can be read.
        object: Option<Object>,
    },
    /// An answer with an error.
    Error {
        /// The id's text, if any: `null` and absent are accepted from others (M-05).
        id: Option<Bytes>,
        /// What went wrong.
        error: RpcError,
    },
    /// A request of the server's own (legacy only).
    Request {
        /// The id's text.
        id: Bytes,
        /// The method.
        method: Box<str>,
        /// `params`, as it stands.
        params: Option<Span>,
    },
    /// A notification.
    Notification {
        /// The method.
        method: Box<str>,
        /// `params`, when it is an object.
        params: Option<Object>,
    },
}

/// A JSON-RPC error as a server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The code.
    pub code: i32,
    /// The message.
    pub message: String,
    /// `data` as JSON text.
    pub data: Option<String>,
}

impl Received {
    /// Reads one message of a server; keys we read may occur once only (design §2).
    pub fn parse(body: Bytes) -> Result<Self, ObjectError> {
        let body = ByteString::try_from(body).map_err(|_| ObjectError::Syntax)?;
        let body = body.slice_ref(body.strip_prefix('\u{feff}').unwrap_or(&body));
        let text = &*body;
        let (top, object) = Object::parse_with(text, Span::new(0, text.len()), "result")?;
        let version = top.get(text, "jsonrpc")?.and_then(|s| string(s.of(text)));
        if version.as_deref() != Some("2.0") {
            return Err(ObjectError::Syntax);
        }
        let id = top.get(text, "id")?.map(|span| body.as_bytes().slice(span.range()));
        let method = match top.get(text, "method")? {
            Some(span) => Some(string(span.of(text)).ok_or(ObjectError::Syntax)?),
            None => None,
        };
        // Some write `"id":null` on what they want no answer to.
        let id = id.filter(|id| id != "null");
        let (result, error) = (top.get(text, "result")?, top.get(text, "error")?);
        let kind = match (method, id, result, error) {
            (None, Some(id), Some(result), None) => ReceivedKind::Result { id, result, object },
            (None, id, None, Some(error)) => ReceivedKind::Error { id, error: rpc_error(text, error)? },
            (Some(method), Some(id), None, None) if is_id(&id) => {
                ReceivedKind::Request { id, method: method.as_ref().into(), params: top.get(text, "params")? }
            }
            (Some(method), None, None, None) => {
                let params = match top.get(text, "params")?.map(|span| Object::parse(text, span)) {
                    Some(Ok(params)) => Some(params),
                    None | Some(Err(ObjectError::NotObject)) => None,
                    Some(Err(error)) => return Err(error),
                };
                ReceivedKind::Notification { method: method.as_ref().into(), params }
            }
            _ => return Err(ObjectError::Syntax),
        };
        Ok(Self { body, kind })
    }

    /// The message as text.
    pub fn text(&self) -> &str {
        &self.body
    }
}

/// The ids that an object names which is no message and no request: what it was to answer. Each as its JSON text.
pub fn broken_answer(body: &Bytes) -> Vec<Bytes> {
    let Ok(text) = std::str::from_utf8(body) else { return Vec::new() };
    let Ok(object) = Object::parse(text, Span::new(0, text.len())) else { return Vec::new() };
    if object.members.iter().any(|member| member.is(text, "method")) {
        return Vec::new();
    }
    let ids = object.members.iter().filter(|member| member.is(text, "id"));
    ids.map(|id| body.slice(id.value.range())).collect()
}

fn is_id(raw: &Bytes) -> bool {
    std::str::from_utf8(raw).is_ok_and(Id::is)
}

fn rpc_error(text: &str, span: Span) -> Result<RpcError, ObjectError> {
    let object = Object::parse(text, span)?;
    let code = object.get(text, "code")?.and_then(|s| s.of(text).parse().ok()).ok_or(ObjectError::Syntax)?;
    let message = object.get(text, "message")?.and_then(|s| string(s.of(text))).unwrap_or_default();
    let data = object.get(text, "data")?.map(|s| s.of(text).to_owned());
    Ok(RpcError { code, message: message.into_owned(), data })
}
