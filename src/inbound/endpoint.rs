//! Parses one message once, decides its era, hands it on (H-20).

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts as Head;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::Instant;

use super::accept::Accepts;
use super::error::Refusal;
use super::layers::unread::Payload;
use super::respond::{self, empty};
use super::{Door, Request, Response, Visit, accept, body, legacy, modern, well_known};
use crate::auth::Principal;
use crate::config::Secret;
use crate::gateway::{Call, Client, Endpoint, Members, Snapshot, Steps};
use crate::net::budget::Held;
use crate::protocol::envelope::{Envelope, Limits, MessageKind};
use crate::protocol::header as mcp;
use crate::protocol::method::Method as McpMethod;
use crate::protocol::version::{Era, era_of};
use crate::telemetry::Outcome;

/// One message on its way in.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) envelope: Envelope,
    pub(super) visitor: Visitor,
}

/// Where a request came, and whose it is.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) headers: HeaderMap,
    /// What it can read.
    pub(super) accepts: Accepts,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) principal: Arc<Principal>,
    pub(super) token: Option<Secret>,
    /// Whether another replica sent it here: it goes no further.
    pub(super) sent_here: bool,
    /// The number of the HTTP request.
    pub(super) request: u64,
    pub(super) address: Option<IpAddr>,
    pub(super) at: Instant,
}

impl Visitor {
    /// Its message as a call.
    pub(super) fn call(self, method: McpMethod, client: Client, envelope: Envelope) -> Call {
        Call {
            method,
            client,
            members: Members::default(),
            rights: self.snapshot.rights(&self.endpoint, &self.principal),
            request: self.request,
            address: self.address,
            endpoint: self.endpoint,
            snapshot: self.snapshot,
            headers: self.headers,
            principal: self.principal,
            token: self.token,
            arrived: self.at,
            envelope,
            steps: Steps::default(),
        }
    }
}

/// An endpoint, or a document about endpoints.
pub(super) async fn route(door: &Arc<Door>, request: Request, payload: &mut Payload) -> Response {
    if well_known::is_under(request.uri().path()) {
        return well_known::serve(door, &request);
    }
    serve(door, request, payload).await
}

async fn serve(door: &Arc<Door>, request: Request, payload: &mut Payload) -> Response {
    let (method, visitor) = match enter(*request, false) {
        Ok(entered) => entered,
        Err(refused) => return *refused,
    };
    let read = match method {
        Method::POST => match body::read(door, payload).await {
            Ok(read) => Some(read),
            Err(status) => return empty(status),
        },
        _ => None,
    };
    if let Some(peers) = door.peers.as_ref().filter(|_| in_session(&visitor)) {
        let body = read.as_ref().map(|read| read.bytes.clone()).unwrap_or_default();
        // Boxed: requests that are at home here would carry all of it along.
        if let Some(answer) = Box::pin(peers.of_session(door, &visitor, &method, body)).await {
            return answer;
        }
    }
    match read {
        Some(read) => posted(door, visitor, read).await,
        // Boxed: calls would carry it along.
        None => Box::pin(bodyless(door, visitor, &method)).await,
    }
}

/// A request that another replica has sent here: what it knew of it is known.
pub(super) async fn sent_here(door: &Arc<Door>, request: Request, read: body::Read) -> Response {
    match enter(*request, true) {
        Ok((Method::POST, visitor)) => posted(door, visitor, read).await,
        Ok((method, visitor)) => Box::pin(bodyless(door, visitor, &method)).await,
        Err(refused) => *refused,
    }
}

/// Where a request came, or the answer that refuses it by its head. Boxed: refusals are rare.
fn enter(visit: Visit, sent_here: bool) -> Result<(Method, Visitor), Box<Response>> {
    let at = Instant::now();
    let Visit { http, id: request, address, snapshot, principal, token } = visit;
    let (head, ()) = http.into_parts();
    let (Some(endpoint), Some(principal)) = (snapshot.endpoint(head.uri.path()).map(Arc::clone), principal)
    else {
        return Err(Box::new(empty(StatusCode::NOT_FOUND)));
    };
    let accepts = accept::accepts(&head.headers);
    if let Some(refused) = check_head(&head, accepts) {
        return Err(Box::new(refused));
    }
    let headers = head.headers;
    let visitor =
        Visitor { headers, accepts, endpoint, snapshot, principal, token, sent_here, request, address, at };
    Ok((head.method, visitor))
}

async fn bodyless(door: &Arc<Door>, visitor: Visitor, method: &Method) -> Response {
    match *method {
        Method::GET => legacy::get(door, visitor).await,
        Method::DELETE => legacy::delete(door, &visitor),
        _ => not_allowed(),
    }
}

async fn posted(door: &Arc<Door>, visitor: Visitor, read: body::Read) -> Response {
    if legacy::is_batch(&read.bytes) && in_session(&visitor) {
        return Box::pin(legacy::post_batch(door, visitor, read.bytes, read.held)).await;
    }
    let bounds = door.bounds();
    let limits = Limits { max_depth: bounds.max_depth, max_elements: bounds.max_elements };
    match Envelope::parse(read.bytes, limits) {
        Ok(envelope) => message(door, Arrival { envelope, visitor }, read.held).await,
        Err(error) => {
            let era = if in_session(&visitor) { Era::Legacy } else { Era::Modern };
            note(door, None, Outcome::BadRequest, era);
            if let Some(bound) = error.bound {
                door.metrics.limited(bound.as_str());
            }
            respond::refuse(&Refusal::from(&error), error.id.as_ref())
        }
    }
}

/// One message, by its era.
async fn message(door: &Arc<Door>, arrival: Arrival, held: Held) -> Response {
    let legacy = match arrival.envelope.kind {
        MessageKind::Request(_) => match era(&arrival) {
            Ok(era) => era == Era::Legacy,
            Err(refusal) => return refuse(door, &arrival, &refusal),
        },
        MessageKind::Notification | MessageKind::Response => {
            !is_modern(&arrival.envelope) && in_session(&arrival.visitor)
        }
    };
    if legacy {
        let Arrival { envelope, visitor } = arrival;
        // Boxed: modern requests would carry all of it along.
        return Box::pin(legacy::post(door, visitor, envelope, held)).await;
    }
    match arrival.envelope.kind {
        MessageKind::Response => {
            // Only legacy clients answer requests; a modern server sends none (H-10).
            note(door, None, Outcome::BadRequest, Era::Modern);
            respond::refuse(&Refusal::invalid("responses are not accepted here"), None)
        }
        MessageKind::Notification => empty(StatusCode::ACCEPTED),
        MessageKind::Request(_) => {
            let peers = door.peers.as_ref().filter(|_| !arrival.visitor.sent_here);
            let accepts = arrival.visitor.accepts;
            let call = match modern::call(door, arrival) {
                Ok(call) => call,
                Err(refused) => return *refused,
            };
            if let Some((peers, keeper)) = peers.and_then(|p| Some((p, door.gateway.kept_elsewhere(&call)?)))
                && let Some(answer) = Box::pin(peers.resumed(door, &call, &keeper)).await
            {
                return answer;
            }
            respond::answer(door, call, accepts, held).await
        }
    }
}

/// Refusals that need no body (H-02, H-06, H-07, F-090).
fn check_head(head: &Head, accepts: Accepts) -> Option<Response> {
    match head.method {
        Method::POST => {}
        Method::GET | Method::DELETE => return None,
        _ => return Some(not_allowed()),
    }
    if !accept::is_json(&head.headers) {
        return Some(empty(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    (!accepts.json && !accepts.events).then(|| empty(StatusCode::NOT_ACCEPTABLE))
}

/// A method that is not served here, or not now.
pub(super) fn not_allowed() -> Response {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    response
}

/// H-20, in its order.
fn era(arrival: &Arrival) -> Result<Era, Refusal> {
    let (envelope, headers) = (&arrival.envelope, &arrival.visitor.headers);
    if is_modern(envelope) {
        return Ok(Era::Modern);
    }
    if envelope.method() == McpMethod::Initialize.as_str() {
        return Ok(Era::Legacy);
    }
    let version = headers.get(mcp::PROTOCOL_VERSION).map(|v| v.to_str().unwrap_or_default());
    match (version, version.and_then(era_of)) {
        (_, Some(era)) => Ok(era),
        _ if headers.contains_key(mcp::SESSION_ID) => Ok(Era::Legacy),
        (Some(version), None) => Err(Refusal::version(version)),
        // 2025-03-26 has no such header.
        (None, _) => Ok(Era::Legacy),
    }
}

/// Whether a message says itself which version it is of: whatever stands around it (G-02, H-08).
fn is_modern(envelope: &Envelope) -> bool {
    envelope.meta.as_ref().is_some_and(|meta| meta.protocol_version.is_some())
}

/// Whether a request names a session and no modern version.
fn in_session(visitor: &Visitor) -> bool {
    let version = visitor.headers.get(mcp::PROTOCOL_VERSION).map(|v| v.to_str().unwrap_or_default());
    visitor.headers.contains_key(mcp::SESSION_ID) && version.and_then(era_of) != Some(Era::Modern)
}

/// Answers with a refusal and records it.
pub(super) fn refuse(door: &Door, arrival: &Arrival, refusal: &Refusal) -> Response {
    let mismatch = refusal.code == crate::protocol::code::HEADER_MISMATCH;
    let outcome = if mismatch { Outcome::HeaderMismatch } else { Outcome::BadRequest };
    note(door, Some(&arrival.envelope), outcome, Era::Modern);
    respond::refuse(refusal, arrival.envelope.id())
}

/// Records a request that never became a call.
fn note(door: &Door, envelope: Option<&Envelope>, outcome: Outcome, era: Era) {
    let method = envelope.and_then(|e| McpMethod::parse(&e.method())).map_or("other", McpMethod::as_str);
    door.metrics.request(method, "", outcome, era);
}

/// Records a request of a legacy client that was served or refused at the door.
pub(super) fn note_legacy(door: &Door, principal: &Principal, method: Option<McpMethod>, outcome: Outcome) {
    door.metrics.request(method.map_or("other", McpMethod::as_str), "", outcome, Era::Legacy);
    door.metrics.client_call(principal.client_label(), outcome);
}
