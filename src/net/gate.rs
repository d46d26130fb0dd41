//! Keeps a request from being lost between its sender and a connection that is just ending.
//!
//! hyper hands requests to a connection's task through a channel. tokio empties that channel when its receiver is
//! dropped, but a message that another thread is putting in at that very moment stays inside until the last sender is
//! gone. The one who sends keeps a sender while waiting for the answer, so nobody would ever answer: the call would
//! hang. Putting in and dropping therefore exclude each other here.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Held while a request is put into the channel, and while the connection is dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<Mutex<()>>);

impl Gate {
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is dropped behind its gate.
pub(super) struct Gated<C> {
    connection: Option<C>,
    gate: Gate,
}

impl<C> Gated<C> {
    pub(super) fn new(connection: C, gate: &Gate) -> Self {
        Self { connection: Some(connection), gate: gate.clone() }
    }

    /// The connection; there is one until the drop.
    pub(super) fn get(&self) -> Option<&C> {
        self.connection.as_ref()
    }
}

impl<C: Future + Unpin> Future for Gated<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        match &mut self.connection {
            Some(connection) => Pin::new(connection).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<C> Drop for Gated<C> {
    fn drop(&mut self) {
        let _held = self.gate.hold();
        self.connection = None;
    }
}
