//! Queues between the one reader of a connection and the many who wait: bounded, never blocking the reader (F-087).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::net::budget::{Budget, Held};
use crate::outbound::link::error::LinkError;
use crate::protocol::message::Received;

/// Locks held for a few instructions only; a panic inside cannot leave them half changed.
pub(in crate::outbound::link) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One waiter's queue.
#[derive(Debug)]
pub(super) struct Slot {
    max_messages: usize,
    max_bytes: usize,
    budget: Option<Budget>,
    state: Mutex<State>,
    ready: Notify,
    /// Its answer is the end of something that lasts.
    lasting: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(Received, Option<Held>)>,
    bytes: usize,
    ended: Option<LinkError>,
}

impl Slot {
    /// A queue for so many messages and bytes; one message always fits.
    pub(super) fn new(max_messages: usize, max_bytes: usize, budget: Option<Budget>) -> Self {
        Self {
            max_messages,
            max_bytes,
            budget,
            state: Mutex::default(),
            ready: Notify::new(),
            lasting: AtomicBool::new(false),
        }
    }

    /// Queues a message that may get lost: false when there was no room. After the end nothing is kept.
    pub(super) fn offer(&self, message: Received) -> bool {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return true;
        }
        let bytes = state.bytes + message.body.len();
        if state.queue.len() >= self.max_messages || (bytes > self.max_bytes && !state.queue.is_empty()) {
            return false;
        }
        let Ok(held) = self.hold(&message) else { return false };
        state.push(message, held);
        drop(state);
        self.ready.notify_one();
        true
    }

    /// From now on its answer is the end of something that lasts.
    pub(super) fn last(&self) {
        self.lasting.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub(super) fn is_lasting(&self) -> bool {
        self.lasting.load(Ordering::Relaxed)
    }

    /// Takes the bytes of a message from the allowance of the process.
    fn hold(&self, message: &Received) -> Result<Option<Held>, LinkError> {
        let Some(budget) = &self.budget else { return Ok(None) };
        let mut held = budget.hold();
        if held.grow(message.body.len()) { Ok(Some(held)) } else { Err(LinkError::Buffered) }
    }

    /// Queues the last message, for which there is always room in the queue.
    pub(super) fn finish(&self, answer: Received) {
        let mut state = lock(&self.state);
        if state.ended.is_none() {
            state.ended = Some(match self.hold(&answer) {
                Ok(held) => {
                    state.push(answer, held);
                    LinkError::Closed
                }
                Err(full) => full,
            });
        }
        drop(state);
        self.ready.notify_one();
    }

    /// Nothing more will come; what is queued can still be taken.
    pub(super) fn fail(&self, error: LinkError) {
        lock(&self.state).ended.get_or_insert(error);
        self.ready.notify_one();
    }

    /// Throws away what is queued and all that may still come.
    pub(super) fn abandon(&self) {
        let mut state = lock(&self.state);
        *state = State { ended: Some(LinkError::Closed), ..State::default() };
    }

    /// Waits until there is a message or an end, and takes neither. For the one waiter.
    pub(super) async fn ready(&self) {
        loop {
            {
                let state = lock(&self.state);
                if !state.queue.is_empty() || state.ended.is_some() {
                    return;
                }
            }
            self.ready.notified().await;
        }
    }

    /// The next message; the error says why there will be none. For one waiter at a time.
    pub(super) async fn next(&self) -> Result<Received, LinkError> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some((message, _held)) = state.queue.pop_front() {
                    state.bytes -= message.body.len();
                    return Ok(message);
                }
                if let Some(error) = &state.ended {
                    return Err(error.clone());
                }
            }
            self.ready.notified().await;
        }
    }
}

impl State {
    fn push(&mut self, message: Received, held: Option<Held>) {
        self.bytes += message.body.len();
        self.queue.push_back((message, held));
    }
}
