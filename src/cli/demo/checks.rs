//! What a request must satisfy before it is answered: its era, its `_meta`, and headers that equal the body.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::{ACCEPT, HOST, ORIGIN};
use serde_json::{Value, json};

use super::Eras;
use super::call::Fault;
use super::session;
use crate::protocol::code;
use crate::protocol::envelope::Envelope;
use crate::protocol::header::{self, HeaderError};
use crate::protocol::method::Method;
use crate::protocol::object::string;
use crate::protocol::version::{Era, MODERN};

/// Tells the era of an HTTP message (H-20).
pub(super) fn era(message: &Envelope, headers: &HeaderMap, serves: Eras) -> Result<Era, Fault> {
    let modern_meta = message.meta.as_ref().is_some_and(|meta| meta.protocol_version.is_some());
    if !serves.modern() {
        return Ok(Era::Legacy);
    }
    if modern_meta {
        return Ok(Era::Modern);
    }
    if message.method() == "initialize" {
        return if serves.legacy() { Ok(Era::Legacy) } else { Err(no_handshake(message, serves)) };
    }
    match single(headers, header::PROTOCOL_VERSION)? {
        Some(MODERN) => Ok(Era::Modern),
        Some(version) if serves.legacy() && session::VERSIONS.contains(&version) => Ok(Era::Legacy),
        Some(version) => Err(unsupported(serves, version)),
        None if serves.legacy() => Ok(Era::Legacy),
        None => Err(mismatch("MCP-Protocol-Version is missing")),
    }
}

/// Refuses `initialize` where only modern versions are served; the message names them (H-22).
pub(super) fn no_handshake(message: &Envelope, serves: Eras) -> Fault {
    let asked = message.param("protocolVersion").ok().flatten().and_then(|s| string(s.of(message.text())));
    unsupported(serves, asked.as_deref().unwrap_or_default())
}

/// Checks a modern request in the order of H-25; on stdio there are no headers (G-54).
pub(super) fn modern(message: &Envelope, headers: Option<&HeaderMap>, serves: Eras) -> Result<(), Fault> {
    let text = message.text();
    let bad_meta = |what: &str| Fault { status: 400, ..Fault::params(what) };
    let meta = message.meta.as_ref().ok_or_else(|| bad_meta("_meta is missing"))?;
    let version = meta.version(text).ok_or_else(|| bad_meta("_meta lacks a protocolVersion"))?;
    if !meta.client_capabilities.is_some_and(|span| span.of(text).starts_with('{')) {
        return Err(bad_meta("_meta lacks clientCapabilities"));
    }
    if let Some(headers) = headers {
        let sent = single(headers, header::PROTOCOL_VERSION)?;
        if sent != Some(&version) {
            return Err(mismatch("MCP-Protocol-Version is missing or differs from _meta"));
        }
    }
    if version != MODERN {
        return Err(unsupported(serves, &version));
    }
    let name = message.method();
    let method = Method::parse(&name);
    if let Some(headers) = headers {
        if single(headers, header::METHOD)? != Some(&name) {
            return Err(mismatch("Mcp-Method is missing or differs from the method"));
        }
        if let Some(field) = method.and_then(Method::name_field) {
            named(message, headers, field)?;
        }
    }
    if method.is_none_or(Method::is_task) {
        return Err(Fault::new(code::METHOD_NOT_FOUND, "no such method"));
    }
    Ok(())
}

/// `Mcp-Name` equals the field it mirrors (H-33).
fn named(message: &Envelope, headers: &HeaderMap, field: &str) -> Result<(), Fault> {
    let value = message.param(field).map_err(|_| Fault::params("a key of params occurs twice"))?;
    let value = value.and_then(|span| string(span.of(message.text())));
    if decoded(headers, header::NAME)? != value {
        return Err(mismatch("Mcp-Name is missing or differs from the body"));
    }
    Ok(())
}

/// `Mcp-Param-*` equal the annotated arguments (H-52, H-53).
pub(super) fn mirrored(
    annotated: &[(String, String)],
    arguments: &Value,
    headers: &HeaderMap,
) -> Result<(), Fault> {
    for (name, property) in annotated {
        let sent = decoded(headers, &format!("{}{}", header::PARAM_PREFIX, name.to_ascii_lowercase()))?;
        let agree = match (&arguments[property], sent.as_deref()) {
            (Value::Null | Value::Array(_) | Value::Object(_), None) => true,
            (Value::String(value), Some(sent)) => value == sent,
            (Value::Bool(value), Some(sent)) => value.to_string() == sent,
            (Value::Number(value), Some(sent)) => {
                value.to_string() == sent || value.as_f64().is_some_and(|value| sent.parse() == Ok(value))
            }
            _ => false,
        };
        if !agree {
            return Err(mismatch(&format!("Mcp-Param-{name} differs from the argument {property}")));
        }
    }
    Ok(())
}

fn mismatch(message: &str) -> Fault {
    Fault::new(code::HEADER_MISMATCH, message)
}

/// Never names what was asked for as supported; who asks for a legacy version here is told only of modern
/// ones (M-41, G-03).
fn unsupported(serves: Eras, requested: &str) -> Fault {
    let legacy = session::VERSIONS.contains(&requested);
    let supported = if legacy { vec![MODERN] } else { serves.versions() };
    let message = format!("the protocol version is not supported; supported: {}", supported.join(", "));
    Fault::new(code::UNSUPPORTED_VERSION, message)
        .with_data(json!({"supported": supported, "requested": requested}))
}

fn unreadable(error: HeaderError) -> Fault {
    mismatch(&error.to_string())
}

/// The value of a header that may come once (H-09), white space stripped.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Fault> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(mismatch("an MCP header occurs twice")),
        (Some(value), None) => header::plain(value.as_bytes()).map(Some).map_err(unreadable),
        (None, None) => Ok(None),
    }
}

fn decoded<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<Cow<'h, str>>, Fault> {
    single(headers, name)?.map(|value| header::decode(value.as_bytes())).transpose().map_err(unreadable)
}

/// Whether a page of this machine, or no page at all, sent the request (H-03, H-04).
pub(super) fn is_local(headers: &HeaderMap, loopback: bool) -> bool {
    let local = |url: &str| {
        let url = url::Url::parse(url).ok();
        url.and_then(|url| url.host_str().map(is_loopback)).unwrap_or(false)
    };
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let origin = text(ORIGIN).is_none_or(local);
    let host = text(HOST).is_none_or(|host| !loopback || local(&format!("http://{host}/")));
    origin && host
}

fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

/// The kinds of answer a client takes; one that says nothing takes both (H-07).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) stream: bool,
}

pub(super) fn accepts(headers: &HeaderMap) -> Accepts {
    if !headers.contains_key(ACCEPT) {
        return Accepts { json: true, stream: true };
    }
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let types: Vec<String> = values
        .flat_map(|value| value.split(','))
        .map(|item| item.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
        .collect();
    let any = |wanted: [&str; 3]| types.iter().any(|t| wanted.contains(&t.as_str()));
    Accepts {
        json: any(["*/*", "application/*", "application/json"]),
        stream: any(["*/*", "text/*", "text/event-stream"]),
    }
}
