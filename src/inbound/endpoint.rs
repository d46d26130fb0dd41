//! Parses one message once, decides its era, hands it on (H-20).

use std::sync::Arc;

use http::request::Parts as Head;
use http::{HeaderMap, Method, StatusCode, header};
use tokio::time::Instant;

use super::error::Refusal;
use super::layers::unread::Payload;
use super::respond::{self, empty};
use super::{Door, Request, Response, Visit, accept, body, modern, well_known};
use crate::auth::Principal;
use crate::config::Secret;
use crate::gateway::{Endpoint, Snapshot};
use crate::protocol::envelope::{Envelope, Limits, MessageKind};
use crate::protocol::header as mcp;
use crate::protocol::method::Method as McpMethod;
use crate::protocol::version::{Era, era_of};
use crate::telemetry::Outcome;

/// One message on its way in.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) envelope: Envelope,
    pub(super) headers: HeaderMap,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) principal: Arc<Principal>,
    pub(super) token: Option<Secret>,
    /// The number of the HTTP request.
    pub(super) request: u64,
    pub(super) at: Instant,
}

/// An endpoint, or a document about endpoints.
pub(super) async fn route(door: &Arc<Door>, request: Request, payload: &mut Payload) -> Response {
    if well_known::is_under(request.uri().path()) {
        return well_known::serve(door, &request);
    }
    serve(door, request, payload).await
}

async fn serve(door: &Arc<Door>, request: Request, payload: &mut Payload) -> Response {
    let at = Instant::now();
    let Visit { http, id: request, principal, token } = *request;
    let (head, ()) = http.into_parts();
    let snapshot = door.gateway.snapshot();
    // Without a principal nobody looked at this request: its endpoint came a moment later.
    let (Some(endpoint), Some(principal)) = (snapshot.endpoint(head.uri.path()).map(Arc::clone), principal)
    else {
        return empty(StatusCode::NOT_FOUND);
    };
    if let Some(refused) = check_head(&head) {
        return refused;
    }
    let accepts = accept::accepts(&head.headers);
    let read = match body::read(door, payload).await {
        Ok(read) => read,
        Err(status) => return empty(status),
    };
    let limits = Limits { max_depth: door.bounds.max_depth, max_elements: door.bounds.max_elements };
    let envelope = match Envelope::parse(read.bytes, limits) {
        Ok(envelope) => envelope,
        Err(error) => {
            note(door, None, Outcome::BadRequest);
            return respond::refuse(&Refusal::from(&error), error.id.as_ref());
        }
    };
    let arrival =
        Arrival { envelope, headers: head.headers, endpoint, snapshot, principal, token, request, at };
    match arrival.envelope.kind {
        MessageKind::Response => {
            // Only legacy clients answer requests; a modern server sends none (H-10).
            note(door, None, Outcome::BadRequest);
            respond::refuse(&Refusal::invalid("responses are not accepted here"), None)
        }
        MessageKind::Notification => empty(StatusCode::ACCEPTED),
        MessageKind::Request(_) => match era(&arrival) {
            Ok(()) => match modern::call(door, arrival) {
                Ok(call) => respond::answer(door, call, accepts, read.held).await,
                Err(refused) => *refused,
            },
            Err(refusal) => refuse(door, &arrival, &refusal),
        },
    }
}

/// Refusals that need no body (H-02, H-06, H-07).
fn check_head(head: &Head) -> Option<Response> {
    if head.method != Method::POST {
        let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
        response.headers_mut().insert(header::ALLOW, http::HeaderValue::from_static("POST"));
        return Some(response);
    }
    if !accept::is_json(&head.headers) {
        return Some(empty(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let accepts = accept::accepts(&head.headers);
    (!accepts.json && !accepts.events).then(|| empty(StatusCode::NOT_ACCEPTABLE))
}

/// H-20: modern, or the refusal of what this endpoint does not speak yet.
fn era(arrival: &Arrival) -> Result<(), Refusal> {
    let envelope = &arrival.envelope;
    if envelope.meta.as_ref().is_some_and(|meta| meta.protocol_version.is_some()) {
        return Ok(());
    }
    if envelope.method() == "initialize" {
        return Err(Refusal::version(requested(arrival).unwrap_or_default()));
    }
    let version = arrival.headers.get(mcp::PROTOCOL_VERSION).map(|v| v.to_str().unwrap_or_default());
    match version {
        Some(version) if era_of(version) == Some(Era::Modern) => Ok(()),
        Some(version) => Err(Refusal::version(version)),
        None => Err(Refusal::header("MCP-Protocol-Version is missing")),
    }
}

/// The revision a legacy `initialize` asks for.
fn requested(arrival: &Arrival) -> Option<&str> {
    let span = arrival.envelope.param("protocolVersion").ok().flatten()?;
    span.of(arrival.envelope.text()).strip_prefix('"')?.strip_suffix('"')
}

/// Answers with a refusal and records it.
pub(super) fn refuse(door: &Door, arrival: &Arrival, refusal: &Refusal) -> Response {
    let mismatch = refusal.code == crate::protocol::code::HEADER_MISMATCH;
    let outcome = if mismatch { Outcome::HeaderMismatch } else { Outcome::BadRequest };
    note(door, Some(&arrival.envelope), outcome);
    respond::refuse(refusal, arrival.envelope.id())
}

/// Records a request that never became a call.
fn note(door: &Door, envelope: Option<&Envelope>, outcome: Outcome) {
    let method = envelope.and_then(|e| McpMethod::parse(&e.method())).map_or("other", McpMethod::as_str);
    door.metrics.request(method, "", outcome, Era::Modern);
}
