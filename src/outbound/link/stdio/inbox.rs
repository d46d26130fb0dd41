//! Queues between the one reader of a child and the many who wait: bounded, never blocking the reader (F-087).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::error::LinkError;
use crate::protocol::message::Received;

/// Locks held for a few instructions only; a panic inside cannot leave them half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One waiter's queue.
#[derive(Debug)]
pub(super) struct Slot {
    max_messages: usize,
    max_bytes: usize,
    state: Mutex<State>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Received>,
    bytes: usize,
    ended: Option<LinkError>,
}

impl Slot {
    /// A queue for so many messages and bytes; one message always fits.
    pub(super) fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self { max_messages, max_bytes, state: Mutex::default(), ready: Notify::new() }
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
        state.push(message);
        drop(state);
        self.ready.notify_one();
        true
    }

    /// Queues the last message, for which there is always room.
    pub(super) fn finish(&self, answer: Received) {
        let mut state = lock(&self.state);
        if state.ended.is_none() {
            state.push(answer);
            state.ended = Some(LinkError::Closed);
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

    /// The next message; the error says why there will be none. For one waiter at a time.
    pub(super) async fn next(&self) -> Result<Received, LinkError> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(message) = state.queue.pop_front() {
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
    fn push(&mut self, message: Received) {
        self.bytes += message.body.len();
        self.queue.push_back(message);
    }
}
