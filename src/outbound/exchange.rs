//! The answers to one request: deadlines kept, ids checked, and a drop is a cancel by the hop's own rule (H-82).

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
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
use super::pool::Load;
use super::request::Request;
use super::server::{Peer, Server};
use super::wire::Wire;
use crate::protocol::code;
use crate::protocol::input::Input;
use crate::protocol::message::{Received, ReceivedKind, RpcError};
use crate::protocol::object::{Object, Span, string};
use crate::protocol::version::Era;

/// A message that belongs to a request.
#[derive(Debug, Clone)]
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
    /// A legacy server asks the client for something during the call, and waits for [`Exchange::answer`].
    Asked(Box<Asked>),
    /// It does not wait for the answer to the request with this id any more; the id as JSON text.
    Withdrawn(Bytes),
}

/// A legacy server's request for input during a call.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its id, as JSON text.
    pub id: Bytes,
    /// What is asked for.
    pub input: Input,
    /// `params`, byte for byte.
    pub params: Option<ByteString>,
}

/// A permit and a place in the in-flight gauge.
#[derive(Debug)]
pub(super) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
    /// Which of several processes works on it.
    load: Option<Load>,
    inflight: IntGauge,
}

impl Slot {
    pub(super) fn new(permit: Option<OwnedSemaphorePermit>, inflight: IntGauge) -> Self {
        inflight.inc();
        Self { _permit: permit, load: None, inflight }
    }

    /// It is at work there.
    pub(super) fn occupy(&mut self, load: Option<Load>) {
        self.load = load;
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
    pub(super) server: Arc<Server>,
    pub(super) place: Arc<Place>,
    pub(super) peer: Arc<Peer>,
    pub(super) id: u64,
    pub(super) armed: bool,
    /// Whether the server may ask for input meanwhile.
    asks: bool,
}

impl CancelGuard {
    pub(super) const fn new(server: Arc<Server>, place: Arc<Place>, peer: Arc<Peer>, id: u64) -> Self {
        Self { server, place, peer, id, armed: true, asks: false }
    }

    /// The same for this request, which is about to be sent.
    pub(super) fn running(mut self, request: &Request) -> Self {
        self.asks = self.peer.era == Era::Legacy && request.method.may_ask();
        if self.asks {
            let owner = request.context.as_ref().map(|context| Arc::clone(&context.principal));
            self.peer.running.enter(self.id, owner);
        }
        self
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

    /// Its server may go on with the call for some time.
    pub(super) fn abandoned(&mut self) {
        if std::mem::take(&mut self.asks) {
            self.peer.running.leave(self.id, Some(Instant::now() + self.server.config.max_timeout));
        }
    }

    /// It got no answer in time: is the connection still one?
    fn doubt(&self) {
        if let (Some(connection), Some(session)) = (&self.peer.connection, &self.peer.session) {
            let id = self.server.next_id();
            connection.doubt(id, legacy::headers(session), legacy::ping(id));
        }
    }

    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if self.armed {
            self.abandoned();
        } else if self.asks {
            self.peer.running.leave(self.id, None);
        }
        // Modern HTTP: the closed stream is the cancel, there is nothing to send.
        let by_message = self.peer.era == Era::Legacy || self.peer.connection.is_some();
        if self.armed && by_message {
            self.server.post_later((&self.place, &self.peer), "cancel", legacy::cancelled(self.id));
        }
    }
}

/// One request on its way; dropping it before the final message cancels it. Its permit is held as long as the server
/// works on it, also while the server waits for a client: that is what it is for.
#[derive(Debug)]
pub struct Exchange {
    wire: Wire,
    pub(super) guard: CancelGuard,
    _slot: Slot,
    silence: Duration,
    until: Instant,
    hard: Instant,
    /// Since when the server waits for a client.
    paused: Option<Instant>,
}

/// No limit: a century.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Exchange {
    pub(super) fn new(wire: Wire, guard: CancelGuard, slot: Slot, silence: Duration, hard: Instant) -> Self {
        let until = (Instant::now() + silence).min(hard);
        Self { wire, guard, _slot: slot, silence, until, hard, paused: None }
    }

    fn is_modern(&self) -> bool {
        self.guard.peer.era == Era::Modern
    }

    /// What the server declared when the request was sent.
    pub fn offer(&self) -> &Offer {
        &self.guard.peer.offer
    }

    /// Whether the server speaks a revision before the modern one.
    pub fn is_legacy(&self) -> bool {
        !self.is_modern()
    }

    /// The revision that the server speaks.
    pub fn version(&self) -> &str {
        &self.guard.peer.version
    }

    /// Time does not count from now on: the server waits for a client (design §3).
    pub fn pause(&mut self) {
        self.paused.get_or_insert_with(Instant::now);
    }

    /// Time counts again.
    pub fn resume(&mut self) {
        if let Some(since) = self.paused.take() {
            self.hard += since.elapsed();
            self.until = (Instant::now() + self.silence).min(self.hard);
        }
    }

    /// The next message of this request. After a result or an error there is none. Cancel-safe.
    pub async fn next(&mut self) -> Result<Message, OutboundError> {
        loop {
            let until = if self.paused.is_some() { Instant::now() + NEVER } else { self.until };
            let heard = {
                let CancelGuard { peer, id, asks, .. } = &self.guard;
                let mut own = pin!(self.wire.next());
                // What is asked outside of the call's own stream, where it can be this call's only.
                let either = poll_fn(|context| match asks.then(|| peer.running.poll(*id, context)) {
                    Some(Poll::Ready(message)) => Poll::Ready(Ok(message)),
                    _ => own.as_mut().poll(context),
                });
                timeout_at(until, either).await
            };
            let message = match heard {
                Ok(Ok(message)) => message,
                Ok(Err(failure)) => return Err(self.fail(failure)),
                Err(_) => {
                    self.guard.doubt();
                    return Err(self.guard.server.timed_out(self.silence, self.until == self.hard));
                }
            };
            if let Some(message) = self.accept(message)? {
                return Ok(message);
            }
        }
    }

    fn fail(&mut self, failure: Failure) -> OutboundError {
        let server = &self.guard.server;
        server.last_failure.note(&failure);
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
            ReceivedKind::Request { id, method, params } => {
                let params = params.map(|span| message.body.slice_ref(span.of(&message.body)));
                self.asked(id, method, params)
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

    /// A request of the server's own during a call: what only the client can answer waits for it, the rest is answered
    /// by rule; on modern hops it is a violation (H-67).
    fn asked(
        &self,
        id: &Bytes,
        method: &str,
        params: Option<ByteString>,
    ) -> Result<Option<Message>, OutboundError> {
        let server = &self.guard.server;
        if self.is_modern() {
            server.violation("request");
            return Err(server.error(Failure::Malformed("the server sent a request"), true));
        }
        let input = Input::parse(method).filter(|_| self.guard.asks);
        let answer = match input {
            Some(input) if input.is_request(params.as_deref()) => {
                return Ok(Some(Message::Asked(Box::new(Asked { id: id.clone(), input, params }))));
            }
            Some(_) => legacy::refusal(id, code::INVALID_PARAMS, "Invalid params"),
            None => legacy::answer(method, id),
        };
        server.post_later((&self.guard.place, &self.guard.peer), "answer", answer);
        Ok(None)
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
            "notifications/cancelled" if self.guard.asks => {
                let id = params.get(message.text(), "requestId").ok().flatten()?;
                Some(Message::Withdrawn(message.body.as_bytes().slice(id.range())))
            }
            // Among others, that the user is done at an address he was sent to: the answer says so.
            _ => None,
        }
    }
}
