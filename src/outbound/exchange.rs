//! The answers to one request: deadlines kept, ids checked, and a drop is a cancel by the hop's own rule (H-82).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use prometheus::IntGauge;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::error::{Failure, OutboundError};
use super::legacy;
use super::offer::Offer;
use super::place::Place;
use super::server::{Peer, Server};
use super::wire::Wire;
use crate::protocol::code;
use crate::protocol::message::{Received, ReceivedKind, RpcError};
use crate::protocol::object::{Object, Span, string};
use crate::protocol::version::Era;

/// A message that belongs to a request.
#[derive(Debug)]
pub enum Message {
    /// `notifications/progress` for our token; `params` by position.
    Progress(Received, Object),
    /// `notifications/message` on the request's own stream.
    Log(Received, Object),
    /// The final result.
    Result {
        /// The whole message.
        body: ByteString,
        /// The result in it.
        result: Span,
        /// Its members, where it is an object that can be read.
        object: Option<Object>,
        /// Whether the server speaks the modern dialect, and the result has its shape.
        modern: bool,
    },
    /// The final JSON-RPC error, as the server gave it.
    Error(RpcError),
}

/// A permit and a place in the in-flight gauge.
#[derive(Debug)]
pub(super) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
    inflight: IntGauge,
}

impl Slot {
    pub(super) fn new(permit: Option<OwnedSemaphorePermit>, inflight: IntGauge) -> Self {
        inflight.inc();
        Self { _permit: permit, inflight }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.inflight.dec();
    }
}

/// A place in the queue for a permit.
pub(super) struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    /// Looked at and taken in one step: of two who come at once for the last place, one gets it.
    pub(super) fn enter(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let taken = |places: usize| (places < most).then_some(places + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok().map(|_| Self(count))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cancels the request at its server when dropped armed.
#[derive(Debug)]
pub(super) struct CancelGuard {
    server: Arc<Server>,
    place: Arc<Place>,
    peer: Arc<Peer>,
    id: u64,
    armed: bool,
}

impl CancelGuard {
    pub(super) const fn new(server: Arc<Server>, place: Arc<Place>, peer: Arc<Peer>, id: u64) -> Self {
        Self { server, place, peer, id, armed: true }
    }

    /// The request's id as JSON text.
    fn text<'b>(&self, buffer: &'b mut [u8; 20]) -> &'b [u8] {
        let mut at = buffer.len();
        let mut rest = self.id;
        loop {
            at -= 1;
            buffer[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return &buffer[at..];
            }
        }
    }

    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        // Modern HTTP: the closed stream is the cancel, there is nothing to send.
        let by_message = self.peer.era == Era::Legacy || self.peer.connection.is_some();
        if self.armed && by_message {
            self.server.post_later((&self.place, &self.peer), "cancel", legacy::cancelled(self.id));
        }
    }
}

/// One request on its way; dropping it before the final message cancels it.
#[derive(Debug)]
pub struct Exchange {
    wire: Wire,
    guard: CancelGuard,
    _slot: Slot,
    silence: Duration,
    until: Instant,
    hard: Instant,
}

impl Exchange {
    pub(super) fn new(wire: Wire, guard: CancelGuard, slot: Slot, silence: Duration, hard: Instant) -> Self {
        let until = (Instant::now() + silence).min(hard);
        Self { wire, guard, _slot: slot, silence, until, hard }
    }

    fn is_modern(&self) -> bool {
        self.guard.peer.era == Era::Modern
    }

    /// What the server declared when the request was sent.
    pub fn offer(&self) -> &Offer {
        &self.guard.peer.offer
    }

    /// The next message of this request. After a result or an error there is none.
    pub async fn next(&mut self) -> Result<Message, OutboundError> {
        loop {
            let message = match timeout_at(self.until, self.wire.next()).await {
                Ok(Ok(message)) => message,
                Ok(Err(failure)) => return Err(self.fail(failure)),
                Err(_) => return Err(self.guard.server.timed_out(self.silence, self.until == self.hard)),
            };
            if let Some(message) = self.accept(message)? {
                return Ok(message);
            }
        }
    }

    fn fail(&mut self, failure: Failure) -> OutboundError {
        let server = &self.guard.server;
        let error = server.error(failure, true);
        match &error.failure {
            Failure::Unavailable(_) | Failure::Exited => server.contact(false),
            // One caller's token says nothing of the others' dialect.
            Failure::Credentials(_) if server.config.credentials.is_per_user() => {}
            // Not what this dialect answers: agree anew before the next request (G-65).
            Failure::Status(400..=499) | Failure::Credentials(_) => self.guard.place.forget(&self.guard.peer),
            _ => {}
        }
        if matches!(error.failure, Failure::Status(_) | Failure::Credentials(_) | Failure::Exited) {
            // Refused, or nobody there to tell.
            self.guard.armed = false;
        }
        error
    }

    fn accept(&mut self, mut message: Received) -> Result<Option<Message>, OutboundError> {
        let mut buffer = [0; 20];
        let number = self.guard.text(&mut buffer);
        let own = |id: &[u8]| id == number;
        match &mut message.kind {
            ReceivedKind::Result { id, result, object } if own(id) => {
                let (result, object, modern) = (*result, object.take(), self.is_modern());
                self.finish();
                Ok(Some(Message::Result { body: message.body, result, object, modern }))
            }
            ReceivedKind::Error { id, error } if id.as_ref().is_none_or(|id| own(id)) => {
                let error = error.clone();
                self.finish();
                self.refused(error).map(Some)
            }
            ReceivedKind::Request { id, method, .. } => {
                self.asked(id, method)?;
                Ok(None)
            }
            ReceivedKind::Notification { method, params: Some(params) } => {
                let (method, params) = (method.clone(), params.clone());
                Ok(self.notified(&method, message, params))
            }
            _ => {
                self.guard.server.violation("foreign_id");
                Ok(None)
            }
        }
    }

    fn finish(&mut self) {
        self.guard.armed = false;
        self.guard.server.contact(true);
    }

    /// Errors that concern our hop only are turned here; the rest is the caller's to relay.
    fn refused(&self, error: RpcError) -> Result<Message, OutboundError> {
        let modern = self.is_modern();
        let server = &self.guard.server;
        match error.code {
            code::HEADER_MISMATCH if modern => Err(server.error(Failure::HeaderMismatch, true)),
            code::UNSUPPORTED_VERSION if modern => {
                self.guard.place.forget(&self.guard.peer);
                Err(server.error(Failure::Version, true))
            }
            code::METHOD_NOT_FOUND => {
                // It declared the method and does not know it: ask again what it offers (M-45).
                self.guard.place.forget(&self.guard.peer);
                Ok(Message::Error(error))
            }
            _ => Ok(Message::Error(error)),
        }
    }

    /// A request of the server's own during a call: answered by rule; on modern hops a violation (H-67).
    fn asked(&self, id: &Bytes, method: &str) -> Result<(), OutboundError> {
        let server = &self.guard.server;
        if self.is_modern() {
            server.violation("request");
            return Err(server.error(Failure::Malformed("the server sent a request"), true));
        }
        server.post_later((&self.guard.place, &self.guard.peer), "answer", legacy::answer(method, id));
        Ok(())
    }

    fn notified(&mut self, method: &str, message: Received, params: Object) -> Option<Message> {
        match method {
            "notifications/progress" => {
                let token = params.get(message.text(), "progressToken").ok().flatten();
                let text = token.map(|span| span.of(message.text()));
                // Some servers answer a number with its string.
                let ours = text.is_some_and(|t| {
                    let id = self.guard.id.to_string();
                    t == id || string(t).is_some_and(|s| s == id)
                });
                if !ours {
                    self.guard.server.violation("progress_token");
                    return None;
                }
                self.until = (Instant::now() + self.silence).min(self.hard);
                Some(Message::Progress(message, params))
            }
            "notifications/message" => Some(Message::Log(message, params)),
            _ => None,
        }
    }
}
