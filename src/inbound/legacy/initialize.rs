//! `initialize`: the revision agreed on, what this caller can use across all servers, and a session (G-10..G-14).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::answer::Final;
use super::declared::Declared;
use crate::gateway::{Call, Client, Outlet};
use crate::inbound::endpoint::{Visitor, note_legacy};
use crate::inbound::error::Refusal;
use crate::inbound::respond::{refuse, start};
use crate::inbound::{Door, Response};
use crate::net::budget::Held;
use crate::protocol::code;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::{Envelope, Id};
use crate::protocol::header as mcp;
use crate::protocol::items::json_string;
use crate::protocol::meta::UI;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectError, Span, string};
use crate::protocol::version::{Era, Revision};
use crate::telemetry::Outcome;

/// Seconds after which a session may have become idle.
const LATER: HeaderValue = HeaderValue::from_static("30");

/// Answers `initialize`. Never an error because a server is down: it waits for none but one that is mirrored, and for
/// that not long (F-011).
pub(super) async fn initialize(
    door: &Arc<Door>,
    visitor: Visitor,
    envelope: Envelope,
    held: Held,
) -> Response {
    let accepts = visitor.accepts;
    let Some(id) = envelope.id().cloned() else { return refuse(&Refusal::invalid("no id"), None) };
    let Some(revision) = requested(&envelope) else {
        note_legacy(door, &visitor.principal, Some(Method::Initialize), Outcome::BadRequest);
        let message = "params.protocolVersion must be a protocol version";
        return refuse(&Refusal::rpc(StatusCode::OK, code::INVALID_PARAMS, message), Some(&id));
    };
    let given = envelope.param("capabilities").ok().flatten().map(|span| span.of(envelope.text()));
    let declared = Declared::read(given.unwrap_or("{}"), revision);
    let (endpoint, principal) = (Arc::clone(&visitor.endpoint), Arc::clone(&visitor.principal));
    let server_info = visitor.snapshot.server_info.as_bytes().clone();
    let (outlet, _) = Outlet::new(1);
    let call = call(visitor, envelope, revision, declared.text.clone());
    let found = match start(door, call, outlet, held).await {
        Ok(found) => found.to_bytes(),
        Err(error) => {
            return Final::failure((door, &endpoint), Method::Initialize, &id, &error)
                .response(!accepts.json);
        }
    };
    let Ok(result) = result(&found, &server_info, revision) else {
        let broken = Refusal::rpc(StatusCode::OK, code::INTERNAL_ERROR, "the gateway failed on this request");
        return refuse(&broken, Some(&id));
    };
    let at = (door.gateway.sealer(), &*endpoint.config.path);
    match door.sessions.begin(at, &principal, revision, declared.text) {
        Ok((_, session)) => greeting(&id, result, &session, !accepts.json),
        Err(full) => {
            let message = "every session of this caller is at work; end one, or try again later";
            tracing::warn!(principal = %principal.id, "{full}");
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let mut response = refuse(&Refusal::rpc(status, code::INTERNAL_ERROR, message), Some(&id));
            response.headers_mut().insert(header::RETRY_AFTER, LATER);
            response
        }
    }
}

fn greeting(id: &Id, result: Parts, session: &str, as_event: bool) -> Response {
    let mut response = Final::result(id, result).response(as_event);
    // Sealed handles are visible ASCII (G-20).
    if let Ok(session) = HeaderValue::from_str(session) {
        response.headers_mut().insert(mcp::SESSION_ID, session);
    }
    response
}

/// What the client asks for if we serve it, else our newest (G-10, G-11).
fn requested(envelope: &Envelope) -> Option<Revision> {
    let span = envelope.param("protocolVersion").ok().flatten()?;
    let asked = string(span.of(envelope.text()))?;
    Some(Revision::legacy(&asked).unwrap_or(Revision::V20251125))
}

fn call(visitor: Visitor, envelope: Envelope, revision: Revision, capabilities: String) -> Call {
    let client = Client {
        era: Era::Legacy,
        revision,
        session: None,
        capabilities,
        log_level: None,
        hears: None,
        progress_token: None,
    };
    visitor.call(Method::Initialize, client, envelope)
}

/// `InitializeResult` out of what `server/discover` says: one catalogue for both eras.
fn result(found: &Bytes, server_info: &Bytes, revision: Revision) -> Result<Parts, ObjectError> {
    let text = std::str::from_utf8(found).map_err(|_| ObjectError::Syntax)?;
    let object = Object::parse(text, Span::new(0, text.len()))?;
    let capabilities = object.get(text, "capabilities")?.ok_or(ObjectError::NotObject)?;
    let capabilities = capabilities_of(text, capabilities, revision)?;
    let mut parts = Parts::new();
    parts.push(format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{capabilities},\"serverInfo\":",
        revision.as_str()
    ));
    parts.push(server_of(server_info, revision));
    if let Some(instructions) = object.get(text, "instructions")? {
        parts.push(format!(",\"instructions\":{}", instructions.of(text)));
    }
    parts.push("}");
    Ok(parts)
}

/// Of extensions legacy clients know interfaces only.
fn capabilities_of(text: &str, span: Span, revision: Revision) -> Result<String, ObjectError> {
    let object = Object::parse(text, span)?;
    let mut members = Vec::with_capacity(object.members.len());
    for member in &object.members {
        if member.name(text) != "extensions" {
            members.push(Span { start: member.key.start, end: member.value.end }.of(text).to_owned());
        } else if revision >= Revision::V20251125
            && let Some(ui) = Object::parse(text, member.value)?.get(text, UI)?
        {
            members.push(format!("\"extensions\":{{\"{UI}\":{}}}", ui.of(text)));
        }
    }
    Ok(format!("{{{}}}", members.join(",")))
}

/// 2025-03-26 has no titles (M-85).
fn server_of(info: &Bytes, revision: Revision) -> Bytes {
    let without = || {
        let text = std::str::from_utf8(info).ok()?;
        let object = Object::parse(text, Span::new(0, text.len())).ok()?;
        let of = |key: &str| Some(object.get(text, key).ok()??.of(text));
        let (name, version) = (string(of("name")?)?, string(of("version")?)?);
        Some(format!("{{\"name\":{},\"version\":{}}}", json_string(&name), json_string(&version)))
    };
    if revision >= Revision::V20250618 {
        return info.clone();
    }
    without().map_or_else(|| info.clone(), Into::into)
}
