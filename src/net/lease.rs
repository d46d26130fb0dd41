//! What the pool hands out: connections, places on shared ones, the right to open one; each counts itself back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use tokio::time::Instant;

use super::body::Body;
use super::error::ClientError;
use super::gate::Gate;
use super::h1::H1;
use super::pool::{Dialect, Pool, Shared, State};

/// Streams we open on one HTTP/2 connection at most, whatever the server allows: together with the window
/// sizes of `h2.rs` it makes sure that streams nobody reads can't use up the connection's window.
pub(super) const MAX_STREAMS: usize = 128;

/// An answer, or the reason and with it the request if that was not sent.
type Sent = Result<Response<Incoming>, TrySendError<Request<Body>>>;

/// An HTTP/2 connection that many calls share.
#[derive(Debug)]
pub(super) struct H2 {
    pub(super) sender: http2::SendRequest<Body>,
    /// Streams the server allows at once; 0 until its SETTINGS have come.
    pub(super) max: AtomicUsize,
    /// No new streams: GOAWAY, an error or the end.
    pub(super) closed: AtomicBool,
    /// Streams of ours that have not ended; changed under the pool's lock.
    pub(super) active: AtomicUsize,
    gate: Gate,
}

impl H2 {
    pub(super) fn new(sender: http2::SendRequest<Body>, gate: Gate) -> Self {
        let (max, active) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { sender, max, closed: AtomicBool::new(false), active, gate }
    }

    /// Hands a request to the connection.
    pub(super) fn try_send(&self, request: Request<Body>) -> impl Future<Output = Sent> + use<> {
        let mut sender = self.sender.clone();
        let _held = self.gate.hold();
        sender.try_send_request(request)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || self.sender.is_closed()
    }

    pub(super) fn room(&self) -> usize {
        if self.is_closed() {
            return 0;
        }
        let max = self.max.load(Ordering::Relaxed).min(MAX_STREAMS);
        max.saturating_sub(self.active.load(Ordering::Relaxed))
    }
}

/// One stream's place on an HTTP/2 connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) h2: Arc<H2>,
    pub(super) pool: Arc<Pool>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.stream_ended(&self.h2);
    }
}

/// What a body holds until its end.
#[derive(Debug)]
pub(super) enum Lease {
    /// A whole connection.
    H1(H1, Arc<Pool>),
    /// A place on a shared one.
    H2(Slot),
}

impl Lease {
    /// The answer was read to its end: the connection can serve another call.
    pub(super) fn release(self) {
        match self {
            Self::H1(h1, pool) => pool.give_back(h1),
            Self::H2(slot) => drop(slot),
        }
    }
}

/// A right to use or to open a connection.
pub(super) enum Grant {
    /// An idle connection.
    H1(H1),
    /// A place on a shared connection.
    H2(Slot),
    /// Open one more.
    Dial(DialPermit),
    /// The connection that was waited for could not be opened.
    Failed(ClientError),
}

/// The right to open one connection, counted. Dropping it gives the right to the next in line.
pub(super) struct DialPermit {
    pool: Arc<Pool>,
    counted: Option<Counted>,
    done: bool,
}

impl DialPermit {
    /// Counts one more connection; called with `state` of `pool`.
    pub(super) fn new(pool: &Arc<Pool>, state: &mut State) -> Self {
        state.open += 1;
        state.dialing += 1;
        // Weak: a pool that nobody uses must go, and with it its idle connections and then their tasks.
        let counted = Some(Counted(Arc::downgrade(pool)));
        Self { pool: Arc::clone(pool), counted, done: false }
    }

    /// The connection's place in the count, for the task that drives it.
    pub(super) fn counted(&mut self) -> Option<Counted> {
        self.counted.take()
    }

    /// The dial failed: those who waited for it learn why.
    pub(super) fn failed(mut self, error: &ClientError) {
        let mut waiters = VecDeque::new();
        self.end(|state| {
            if state.dialing == 0 && state.h2.is_empty() && state.dialect != Dialect::H1 {
                waiters = std::mem::take(&mut state.waiters);
            }
        });
        for waiter in waiters {
            // A waiter that has gone needs no answer.
            let _ = waiter.send(Grant::Failed(error.clone()));
        }
    }

    /// The dial gave a connection for one call at a time; its dialer uses it first.
    pub(super) fn opened_h1(mut self) {
        self.end(|state| state.dialect = Dialect::H1);
    }

    /// The dial gave a shareable connection; its dialer gets the first place.
    pub(super) fn opened_h2(mut self, h2: Arc<H2>) -> Slot {
        self.end(|state| {
            state.dialect = Dialect::H2(h2.max.load(Ordering::Relaxed).clamp(1, MAX_STREAMS));
            h2.active.store(1, Ordering::Relaxed);
            state.h2.push(Shared { h2: Arc::clone(&h2), idle_since: Instant::now() });
        });
        Slot { h2, pool: Arc::clone(&self.pool) }
    }

    fn end(&mut self, what: impl FnOnce(&mut State)) {
        self.done = true;
        self.pool.change(|state| {
            state.dialing -= 1;
            what(state);
        });
    }
}

impl Drop for DialPermit {
    fn drop(&mut self) {
        if !self.done {
            self.end(|_| {});
        }
    }
}

/// An open connection's place in the count; lives in the task that drives the connection.
pub(super) struct Counted(Weak<Pool>);

impl Counted {
    /// Looks again at who waits: the connection allows more streams, or none any more.
    pub(super) fn changed(&self) {
        if let Some(pool) = self.0.upgrade() {
            pool.change(State::forget_closed);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.change(|state| {
                state.open -= 1;
                state.forget_closed();
            });
        }
    }
}
