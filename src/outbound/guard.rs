//! What a request holds while it is on its way: its permit, its place in the counts, and that a drop cancels it (H-82).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::IntGauge;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::error::{Failure, OutboundError};
use super::legacy;
use super::place::Place;
use super::pool::Load;
use super::replica::Turn;
use super::request::Request;
use super::server::{Peer, Server};
use crate::protocol::version::Era;

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
    /// Which replica works on it.
    pub(super) turn: Turn,
    pub(super) id: u64,
    pub(super) armed: bool,
    /// Whether the server may ask for input meanwhile.
    pub(super) asks: bool,
}

impl CancelGuard {
    pub(super) const fn new(
        server: Arc<Server>,
        place: Arc<Place>,
        peer: Arc<Peer>,
        turn: Turn,
        id: u64,
    ) -> Self {
        Self { server, place, peer, turn, id, armed: true, asks: false }
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
    pub(super) fn text<'b>(&self, buffer: &'b mut [u8; 20]) -> &'b [u8] {
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
    pub(super) fn doubt(&self) {
        if let (Some(connection), Some(session)) = (&self.peer.connection, &self.peer.session) {
            let id = self.server.next_id();
            connection.doubt(id, legacy::headers(session), legacy::ping(id));
        }
    }

    /// It failed on the way. What was sent may be at work there for some time, and ask (F-043).
    pub(super) fn settle(mut self, error: &OutboundError) {
        self.armed = error.sent && !is_over(&error.failure);
    }

    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

/// Whether nothing can be at work there after this: refused, or nobody there to tell. Behind a proxy that waited in
/// vain somebody may be.
pub(super) const fn is_over(failure: &Failure) -> bool {
    match failure {
        Failure::Status(status) => *status != 504,
        other => matches!(other, Failure::Credentials(_) | Failure::Exited),
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
