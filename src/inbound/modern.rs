//! The 2026-07-28 door: `_meta` there, headers equal to the body, in the order of H-25; builds a [`Call`].

use http::HeaderMap;

use super::endpoint::{Arrival, refuse};
use super::error::Refusal;
use super::{Door, Response};
use crate::gateway::{Call, Client};
use crate::protocol::envelope::Envelope;
use crate::protocol::header;
use crate::protocol::meta::{Meta, level_rank};
use crate::protocol::method::Method;
use crate::protocol::object::{Object, Span, string};
use crate::protocol::version::{Era, MODERN, Revision};

/// The call, or the answer that refuses it. Boxed: a response is large and refusals are rare.
pub(super) fn call(door: &Door, arrival: Arrival) -> Result<Call, Box<Response>> {
    let checked = check(door, &arrival);
    match checked {
        Ok((method, client)) => {
            let Arrival { envelope, visitor } = arrival;
            Ok(visitor.call(method, client, envelope))
        }
        Err(refusal) => Err(Box::new(refuse(door, &arrival, &refusal))),
    }
}

/// H-25, steps 1 to 7; the first that fails answers.
fn check(door: &Door, arrival: &Arrival) -> Result<(Method, Client), Refusal> {
    let (envelope, headers) = (&arrival.envelope, &arrival.visitor.headers);
    let text = envelope.text();
    let meta = envelope.meta.as_ref().ok_or_else(|| Refusal::meta("params._meta is missing"))?;
    let version = meta.version(text);
    let version = version.ok_or_else(|| Refusal::meta("_meta lacks the protocol version"))?;
    let capabilities = capabilities(text, meta)?;

    let mismatch = |label: &'static str, message: &'static str| {
        door.metrics.header_rejection(label);
        Refusal::header(message)
    };
    let given = single(headers, header::PROTOCOL_VERSION)
        .ok_or_else(|| mismatch("version", "MCP-Protocol-Version is missing, doubled or malformed"))?;
    if given != version {
        return Err(mismatch("version", "MCP-Protocol-Version does not match the body"));
    }
    if version != MODERN {
        return Err(Refusal::version(&version));
    }
    let method = envelope.method();
    if single(headers, header::METHOD) != Some(&method) {
        return Err(mismatch("method", "Mcp-Method is missing, doubled or does not match the body"));
    }
    let known = Method::parse(&method);
    if let Some(field) = known.and_then(Method::name_field) {
        // Two names: which one the header mirrors is not even the question.
        let named = envelope.param(field).map_err(|_| Refusal::invalid("a key of params occurs twice"))?;
        check_name(arrival, named).map_err(|message| mismatch("name", message))?;
    }
    let known = known.ok_or_else(Refusal::method)?;
    let log_level = log_level(text, meta)?;
    let client = Client {
        era: Era::Modern,
        revision: Revision::V20260728,
        session: None,
        capabilities,
        log_level,
        hears: log_level,
        progress_token: progress_token(&arrival.envelope, meta)?,
    };
    Ok((known, client))
}

/// The header's text if it is there once and readable (H-09, H-32, H-35).
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => header::plain(value.as_bytes()).ok(),
        _ => None,
    }
}

/// `Mcp-Name` against its field of `params` (H-33, H-42, H-57). A body without the field is left to the
/// check of its parameters, if the header is absent as well.
fn check_name(arrival: &Arrival, named: Option<Span>) -> Result<(), &'static str> {
    let text = arrival.envelope.text();
    let body = named.and_then(|span| string(span.of(text)));
    let mut values = arrival.visitor.headers.get_all(header::NAME).iter();
    match (values.next(), values.next(), body) {
        (None, _, None) => Ok(()),
        (None, _, Some(_)) => Err("Mcp-Name is missing"),
        (Some(_), Some(_), _) => Err("Mcp-Name is doubled"),
        (Some(value), None, body) => match header::decode(value.as_bytes()) {
            Ok(name) if body.as_ref() == Some(&name) => Ok(()),
            Ok(_) => Err("Mcp-Name does not match the body"),
            Err(_) => Err("Mcp-Name is malformed"),
        },
    }
}

fn capabilities(text: &str, meta: &Meta) -> Result<String, Refusal> {
    let missing = || Refusal::meta("_meta lacks the client capabilities");
    let span = meta.client_capabilities.ok_or_else(missing)?;
    Object::parse(text, span).map_err(|_| missing())?;
    Ok(span.of(text).to_owned())
}

/// M-61: an unknown level is an error.
fn log_level(text: &str, meta: &Meta) -> Result<Option<usize>, Refusal> {
    let Some(span) = meta.log_level else { return Ok(None) };
    let rank = string(span.of(text)).and_then(|level| level_rank(&level));
    rank.map(Some).ok_or_else(|| Refusal::meta("the log level is unknown"))
}

/// M-50: a string or an integer.
pub(super) fn progress_token(envelope: &Envelope, meta: &Meta) -> Result<Option<bytes::Bytes>, Refusal> {
    let Some(span) = meta.progress_token else { return Ok(None) };
    let raw = span.of(envelope.text());
    let number = raw.strip_prefix('-').unwrap_or(raw).bytes().all(|b| b.is_ascii_digit());
    if !number && !raw.starts_with('"') {
        return Err(Refusal::meta("the progress token must be a string or an integer"));
    }
    Ok(Some(envelope.body().slice(span.range())))
}
