//! The answers to one request: deadlines kept, ids checked, and a drop is a cancel by the hop's own rule (H-82).

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use tokio::time::{Instant, timeout_at};

use super::dispatch::{Limits, is_repeatable};
use super::error::{Failure, OutboundError};
use super::guard::{CancelGuard, Slot, is_over};
use super::legacy;
use super::offer::Offer;
use super::replica::is_fault;
use super::request::Request;
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
    /// Whether anything came of it yet.
    heard: bool,
    /// What may be sent once more if the answer is lost before anything came of it (H-65).
    again: Option<Box<Request>>,
    /// Since when the server waits for a client.
    paused: Option<Instant>,
}

/// No limit: a century.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Exchange {
    pub(super) fn new(wire: Wire, guard: CancelGuard, slot: Slot, limits: Limits) -> Self {
        let Limits { silence, hard } = limits;
        let until = (Instant::now() + silence).min(hard);
        Self { wire, guard, _slot: slot, silence, until, hard, heard: false, again: None, paused: None }
    }

    /// The same for this request, which is kept if it may be sent once more.
    pub(super) fn repeatable(mut self, request: &Request) -> Self {
        self.again = is_repeatable(request).then(|| Box::new(request.clone()));
        self
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
            for _ in 0..self.wire.take_junk() {
                self.guard.server.violation("line");
            }
            let message = match heard {
                Ok(Ok(message)) => message,
                Ok(Err(failure)) => {
                    let error = self.fail(failure);
                    // Boxed: rare, and large beside a call's future.
                    match self.again.take().filter(|_| !self.heard) {
                        Some(request) => Box::pin(self.repeat(&request, error)).await?,
                        None => return Err(error),
                    }
                    continue;
                }
                Err(_) => {
                    self.guard.doubt();
                    // An answer that has begun is slow; one of which nothing came may never come.
                    if !self.heard && matches!(self.wire, Wire::Inbox(_)) {
                        self.guard.server.silent(&self.guard);
                    }
                    return Err(self.guard.server.timed_out(self.silence, self.until == self.hard));
                }
            };
            if let Some(message) = self.accept(message)? {
                return Ok(message);
            }
        }
    }

    /// Sends the request once more, to another replica where there is one, if `error` says that the answer was lost.
    async fn repeat(&mut self, request: &Request, error: OutboundError) -> Result<(), OutboundError> {
        let CancelGuard { server, place, peer, .. } = &self.guard;
        let (server, place, peer) = (Arc::clone(server), Arc::clone(place), Arc::clone(peer));
        let failed = [Arc::clone(self.guard.turn.replica())];
        let turn = match &error.failure {
            // What said "not now" says it again.
            Failure::Status(502..=504) if place.has_others() => place.turn(&peer, &failed),
            Failure::Unavailable(_) => place.turn(&peer, &failed).or_else(|| place.turn(&peer, &[])),
            _ => None,
        };
        let Some(turn) = turn.filter(|_| !peer.is_gone() && server.allowance.spend()) else {
            return Err(error);
        };
        tracing::debug!(server = %server.name, method = request.method.as_str(), "asked once more");
        let id = server.next_id();
        let guard = CancelGuard::new(Arc::clone(&server), place, peer, turn, id).running(request);
        let until = (Instant::now() + self.silence).min(self.hard);
        let sent = timeout_at(until, server.transmit(&guard, request)).await;
        // The one before may be at work there still: it is cancelled, unless nobody is there to tell.
        self.guard = guard;
        match sent {
            Ok(Ok(wire)) => self.wire = wire,
            Ok(Err((failure, _))) => return Err(self.fail(failure)),
            Err(_) => {
                server.silent(&self.guard);
                return Err(server.timed_out(self.silence, until == self.hard));
            }
        }
        self.until = (Instant::now() + self.silence).min(self.hard);
        Ok(())
    }

    fn fail(&mut self, failure: Failure) -> OutboundError {
        let server = &self.guard.server;
        server.last_failure.note(&failure);
        let error = server.error(failure, true);
        if is_fault(&error.failure) {
            server.fault(&self.guard, &error.failure);
        }
        match &error.failure {
            // One caller's token says nothing of the others' dialect.
            Failure::Credentials(_) if server.config.credentials.is_per_user() => {}
            // Not what this dialect answers: agree anew before the next request (G-65).
            Failure::Status(400..=499) | Failure::Credentials(_) => self.guard.place.forget(&self.guard.peer),
            _ => {}
        }
        if is_over(&error.failure) {
            self.guard.armed = false;
        }
        error
    }

    fn accept(&mut self, mut message: Received) -> Result<Option<Message>, OutboundError> {
        let mut buffer = [0; 20];
        let number = self.guard.text(&mut buffer);
        let own = |id: &[u8]| id == number;
        self.heard = true;
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
        self.guard.turn.replica().answered();
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
