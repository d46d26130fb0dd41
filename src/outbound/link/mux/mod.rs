//! Many requests over one connection: what arrives goes to the inbox of the id it belongs to, the rest to one queue.

mod route;
mod slot;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::error::LinkError;
use super::sse::Posted;
use crate::net::budget::Budget;
use crate::protocol::message::Received;
pub(super) use route::{Garbage, Tally};
pub(super) use slot::lock;

use slot::Slot;

/// Progress notifications that may wait for one caller; its answer always fits beside them.
const INBOX_MESSAGES: usize = 64;
/// Messages nobody claimed that may wait.
const UNCLAIMED_MESSAGES: usize = 256;

/// Who waits for what on one connection, and whether there is any use in waiting.
#[derive(Debug)]
pub(super) struct Mux {
    /// The most bytes one queue holds.
    max_bytes: usize,
    /// What all queues of the process share.
    budget: Option<Budget>,
    /// Who waits for which id; `None` once the connection is gone, so that nobody waits in vain.
    pending: Mutex<Option<HashMap<u64, Arc<Slot>>>>,
    unclaimed: Arc<Slot>,
    unclaimed_taken: AtomicBool,
    cause: OnceLock<LinkError>,
    /// No message will come any more; `cause` is set.
    closed: CancellationToken,
    /// Somebody waits no longer.
    left: Notify,
}

impl Mux {
    /// Nobody waits yet. One queue holds `max_bytes`, all of the process what `budget` says.
    pub(super) fn new(max_bytes: usize, budget: Option<Budget>) -> Self {
        Self {
            max_bytes,
            unclaimed: Arc::new(Slot::new(UNCLAIMED_MESSAGES, max_bytes, budget.clone())),
            budget,
            pending: Mutex::new(Some(HashMap::new())),
            unclaimed_taken: AtomicBool::new(false),
            cause: OnceLock::new(),
            closed: CancellationToken::new(),
            left: Notify::new(),
        }
    }

    /// Waits until nobody waits for an answer.
    pub(super) async fn idle(&self) {
        loop {
            let left = self.left.notified();
            if self.pending() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Fails all that wait, at once; the first cause counts.
    pub(super) fn close(&self, cause: LinkError) {
        let cause = self.cause.get_or_init(|| cause).clone();
        let pending = lock(&self.pending).take();
        for slot in pending.into_iter().flat_map(HashMap::into_values) {
            slot.fail(cause.clone());
        }
        self.unclaimed.fail(cause);
        self.closed.cancel();
    }

    /// Why it was closed.
    pub(super) fn cause(&self) -> LinkError {
        self.cause.get().cloned().unwrap_or(LinkError::Closed)
    }

    /// Whether no message will come any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until no message will come any more; says why.
    pub(super) async fn closed(&self) -> LinkError {
        self.closed.cancelled().await;
        self.cause()
    }

    /// Ids that somebody waits for.
    pub(super) fn pending(&self) -> usize {
        lock(&self.pending).as_ref().map_or(0, HashMap::len)
    }

    /// From now on the answer to `id`, and progress whose token is `id`, arrive in this inbox.
    pub(super) fn open(self: &Arc<Self>, id: u64) -> Inbox {
        let slot = Arc::new(Slot::new(INBOX_MESSAGES, self.max_bytes, self.budget.clone()));
        match lock(&self.pending).as_mut() {
            Some(pending) => {
                if let Some(earlier) = pending.insert(id, Arc::clone(&slot)) {
                    earlier.fail(LinkError::Closed);
                }
            }
            None => slot.fail(self.cause()),
        }
        Inbox { id, slot, mux: Arc::clone(self), posting: None }
    }

    /// The queue of what belongs to no inbox; `None` when it was taken before.
    pub(super) fn unclaimed(&self) -> Option<Unclaimed> {
        let taken = self.unclaimed_taken.swap(true, Ordering::Relaxed);
        (!taken).then(|| Unclaimed { slot: Arc::clone(&self.unclaimed) })
    }

    /// The waiter for this id, whose answer has come.
    fn claim(&self, id: u64) -> Option<Arc<Slot>> {
        let claimed = lock(&self.pending).as_mut()?.remove(&id);
        self.left.notify_waiters();
        claimed
    }

    /// The only one who waits for an answer, if there is only one. Who waits for the end of a stream does not count.
    fn claim_only(&self) -> Option<Arc<Slot>> {
        let claimed = {
            let mut pending = lock(&self.pending);
            let pending = pending.as_mut()?;
            let mut open = pending.iter().filter(|(_, slot)| !slot.is_lasting()).map(|(id, _)| *id);
            let (Some(id), None) = (open.next(), open.next()) else { return None };
            pending.remove(&id)
        };
        self.left.notify_waiters();
        claimed
    }

    /// The waiter for this id, who waits on.
    fn waiter(&self, id: u64) -> Option<Arc<Slot>> {
        lock(&self.pending).as_ref()?.get(&id).cloned()
    }
}

/// The answer to one id, and its progress. Dropping it forgets the id: later messages are ignored (H-84).
#[derive(Debug)]
pub struct Inbox {
    id: u64,
    slot: Arc<Slot>,
    mux: Arc<Mux>,
    /// The POST of its request, given up with the inbox.
    posting: Option<Posted>,
}

impl Inbox {
    /// The next message; after the answer, [`LinkError::Closed`]. Any other error: there will be no answer.
    pub async fn recv(&mut self) -> Result<Received, LinkError> {
        self.slot.next().await
    }

    /// Its request was accepted, and is answered only when all is over: no error without an id is about it.
    pub fn lasts(&self) {
        self.slot.last();
    }

    /// Waits until there is something to take.
    pub(super) async fn ready(&self) {
        self.slot.ready().await;
    }

    /// Keeps the POST of its request going.
    pub(super) fn keep(&mut self, posting: Posted) {
        self.posting = Some(posting);
    }

    /// The id.
    pub const fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if let Some(pending) = lock(&self.mux.pending).as_mut()
            && pending.get(&self.id).is_some_and(|slot| Arc::ptr_eq(slot, &self.slot))
        {
            pending.remove(&self.id);
            self.mux.left.notify_waiters();
        }
    }
}

/// The one receiver of what belongs to no inbox.
#[derive(Debug)]
pub struct Unclaimed {
    slot: Arc<Slot>,
}

impl Unclaimed {
    /// The next message; `None` when the connection is gone.
    pub async fn recv(&mut self) -> Option<Received> {
        self.slot.next().await.ok()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        self.slot.abandon();
    }
}
