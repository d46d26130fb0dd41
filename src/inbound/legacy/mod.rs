//! The door for clients of 2025-03-26, 2025-06-18 and 2025-11-25: handshake, sessions, streams that are taken up again,
//! questions to the client. Behind it everything is modern (G-01..G-38).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

mod answer;
mod ask;
mod batch;
mod changes;
mod declared;
mod elsewhere;
mod initialize;
mod perform;
mod questions;
mod session;
mod stream;
mod table;
mod tail;
mod ticket;

pub(super) use batch::is_batch;
pub use table::Sessions;

use super::endpoint::{Visitor, note_legacy};
use super::error::Refusal;
use super::respond::{empty, refuse};
use super::{Door, Response};
use crate::gateway::GatewayError;
use crate::net::budget::Held;
use crate::protocol::code;
use crate::protocol::envelope::{Envelope, Id, MessageKind};
use crate::protocol::header as mcp;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, Span, string};
use crate::protocol::version::Revision;
use crate::telemetry::Outcome;
use answer::Final;
use perform::Origin;
use session::{Said, Session, Use};
use stream::Stream;
use ticket::Ticket;

/// The method that begins a session.
const INITIALIZE: &str = Method::Initialize.as_str();

/// One message by POST.
pub(super) async fn post(door: &Arc<Door>, visitor: Visitor, envelope: Envelope, held: Held) -> Response {
    let accepts = visitor.accepts;
    let id = envelope.id().cloned();
    let begins = id.is_some() && envelope.method() == INITIALIZE;
    if begins && !visitor.headers.contains_key(mcp::SESSION_ID) {
        return initialize::initialize(door, visitor, envelope, held).await;
    }
    let session = match session(door, &visitor) {
        Ok(session) => session,
        Err(refusal) => {
            let method = Method::parse_legacy(&envelope.method());
            note_legacy(door, &visitor.principal, method, Outcome::BadRequest);
            return refuse(&refusal, id.as_ref());
        }
    };
    let MessageKind::Request(id) = envelope.kind.clone() else {
        hears(session.session(), &envelope, &Arc::new(held));
        return empty(StatusCode::ACCEPTED);
    };
    let origin = Origin::of(door, session.session(), visitor, accepts.events, held);
    let Some(running) = origin.session.begin(&id) else {
        return busy(&origin, &id).response(!accepts.json);
    };
    let events = origin.session.stream();
    // Also when it panics or the gateway stops: whoever waits is let go.
    let mut end = End::of(&events);
    let work = perform::perform(origin, envelope, running, Arc::clone(&events));
    door.tasks.spawn("legacy request", async move {
        let last = work.await;
        end.say(last);
    });
    answer::answer(door, session, &events, accepts).await
}

/// Ends a stream, with a last word or when dropped.
struct End(Option<Arc<Stream>>);

impl End {
    fn of(stream: &Arc<Stream>) -> Self {
        Self(Some(Arc::clone(stream)))
    }

    fn say(&mut self, last: Option<Final>) {
        if let Some(stream) = self.0.take() {
            stream.end(last);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.say(None);
    }
}

/// Several messages in one POST.
pub(super) async fn post_batch(door: &Arc<Door>, visitor: Visitor, body: Bytes, held: Held) -> Response {
    let accepts = visitor.accepts;
    match session(door, &visitor) {
        Ok(session) => {
            let origin = Origin::of(door, session.session(), visitor, accepts.events, held);
            batch::serve(origin, session, body, accepts).await
        }
        Err(refusal) => {
            note_legacy(door, &visitor.principal, None, Outcome::BadRequest);
            refuse(&refusal, None)
        }
    }
}

/// A stream of what the session is told, or one to be taken up again.
pub(super) async fn get(door: &Arc<Door>, visitor: Visitor) -> Response {
    let session = match session(door, &visitor) {
        Ok(session) => session,
        Err(refusal) => return refuse(&refusal, None),
    };
    // A client that names no type did not ask for events (G-32).
    if !visitor.accepts.events || !visitor.headers.contains_key(header::ACCEPT) {
        return empty(StatusCode::NOT_ACCEPTABLE);
    }
    let origin = Origin::of(door, session.session(), visitor, true, door.budget.hold());
    changes::get(&origin, session).await
}

/// The end of a session (G-24).
pub(super) fn delete(door: &Arc<Door>, visitor: &Visitor) -> Response {
    match session(door, visitor) {
        Ok(session) => {
            door.sessions.end(session.session());
            empty(StatusCode::OK)
        }
        Err(refusal) => refuse(&refusal, None),
    }
}

/// The session a request names: in use as long as the value lives (G-22, G-23, G-27).
fn session(door: &Door, visitor: &Visitor) -> Result<Use, Refusal> {
    let id = match single(&visitor.headers, mcp::SESSION_ID) {
        Ok(Some(id)) => id,
        Ok(None) => {
            return Err(Refusal::invalid(
                "session id required: send Mcp-Session-Id as the answer to initialize gave it",
            ));
        }
        Err(()) => return Err(Refusal::invalid("Mcp-Session-Id is doubled or malformed")),
    };
    let at = (door.gateway.sealer(), &*visitor.endpoint.config.path);
    let unknown =
        || Refusal::rpc(StatusCode::NOT_FOUND, code::INVALID_REQUEST, "unknown session: initialize anew");
    let session = door.sessions.find(at, id, &visitor.principal).ok_or_else(unknown)?;
    match single(&visitor.headers, mcp::PROTOCOL_VERSION) {
        Ok(None) => Ok(session.hold()),
        Ok(Some(version)) if Revision::legacy(version).is_some() => Ok(session.hold()),
        _ => Err(Refusal::invalid("MCP-Protocol-Version is not one of this session")),
    }
}

/// What stands in the id of the session that a request names, where it is valid here and now.
pub(super) fn ticket(door: &Door, visitor: &Visitor) -> Option<Ticket> {
    let id = single(&visitor.headers, mcp::SESSION_ID).ok()??;
    Ticket::open(door.gateway.sealer(), &visitor.endpoint.config.path, id, &visitor.principal)
}

/// A header that may be there once.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => mcp::plain(value.as_bytes()).map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

/// What a session hears: cancels, and answers to what was asked of it. Everything else, and what nobody waits for, is
/// passed over (G-30, G-75).
fn hears(session: &Arc<Session>, envelope: &Envelope, held: &Arc<Held>) {
    let text = envelope.text();
    match envelope.kind {
        MessageKind::Notification if envelope.method() == "notifications/cancelled" => {
            if let Ok(Some(id)) = envelope.param("requestId") {
                session.cancel(&envelope.body().slice(id.range()));
            }
        }
        MessageKind::Response => {
            let Ok(message) = Object::parse(text, Span::new(0, text.len())) else { return };
            let of = |key: &str| message.get(text, key).ok().flatten().map(|span| span.of(text));
            let Some(id) = of("id").and_then(string) else { return };
            let result = of("result").filter(|result| result.starts_with('{'));
            let said = |text: &str| Said { text: envelope.slice(text), _held: Arc::clone(held) };
            if !session.answered(&id, result.map(said)) {
                tracing::debug!(session = %session.name, "an answer nobody waits for");
            }
        }
        _ => {}
    }
}

/// Too much runs in the session already.
fn busy(origin: &Origin, id: &Id) -> Final {
    origin.door.metrics.limited("session_requests");
    origin.note(None, Outcome::Limited);
    origin.failure(Method::Ping, id, &GatewayError::Internal("too many requests run in this session"))
}
