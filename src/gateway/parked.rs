//! Calls of legacy servers that wait for their client's answers (R-30..R-40): who is kept here, and what became of
//! those that ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use prometheus::IntGauge;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

mod ended;
mod keeper;
mod words;

pub(super) use ended::Last;
pub(super) use keeper::Keeper;
pub(super) use words::{Event, Listener, Refused, Resume, Round, decline};

use super::quota::{Quota, Taken};
use crate::cluster::Replica;
use ended::Ended;

/// What a sealed state says of a call that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    /// The process that keeps it: a socket cannot be handed on.
    pub(super) owner: String,
    /// Where other replicas reach that process, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    pub(super) park: u64,
    /// Which questions were asked with it.
    pub(super) round: u32,
}

/// The calls that this process keeps.
#[derive(Debug)]
pub(super) struct Parked {
    /// Tells this process from all others, also from itself after a restart.
    owner: Replica,
    /// Whether there are others.
    shared: bool,
    ids: AtomicU64,
    // A std mutex: held for a look-up.
    table: Mutex<Table>,
    quota: Arc<Quota>,
    kept: watch::Sender<usize>,
    gauge: IntGauge,
    /// Cancelled when nobody may wait any longer.
    close: CancellationToken,
    /// Cancelled when the process is about to end: who is not there yet gets [`Parked::hurry`]'s time.
    leaving: CancellationToken,
    /// Since when, and how much.
    patience: OnceLock<(Instant, Duration)>,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<u64, Live>,
    ended: Ended,
}

#[derive(Debug)]
struct Live {
    principal: Arc<str>,
    resumes: mpsc::Sender<Resume>,
}

/// A call's place in the table, and in the count of its principal.
#[derive(Debug)]
pub(super) struct Place {
    parked: Arc<Parked>,
    pub(super) id: u64,
    principal: Arc<str>,
    /// Until it is dropped: it is free before the call is seen to be gone.
    taken: Option<Taken>,
}

/// Why a call cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// This principal has `max_parked` already.
    Full,
    /// The process ends.
    Closing,
}

/// What is known of a call.
#[derive(Debug)]
pub(super) enum Found {
    /// It is kept: answers go here.
    Live(mpsc::Sender<Resume>),
    /// It has ended, and its answer is still there.
    Ended(Box<Last>),
    /// It was kept, and is no more.
    Gone,
}

impl Parked {
    /// `replica`: this process among others, where there are any.
    pub(super) fn new(gauge: IntGauge, replica: Option<&Replica>) -> Self {
        Self {
            shared: replica.is_some(),
            owner: replica.cloned().unwrap_or_else(|| Replica::new(String::new())),
            ids: AtomicU64::new(1),
            table: Mutex::default(),
            quota: Arc::default(),
            kept: watch::channel(0).0,
            gauge,
            close: CancellationToken::new(),
            leaving: CancellationToken::new(),
            patience: OnceLock::new(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a call of this principal, who may have `most` of them.
    pub(super) fn enter(
        self: &Arc<Self>,
        principal: &Arc<str>,
        most: usize,
    ) -> Result<(Place, mpsc::Receiver<Resume>), NoPlace> {
        let mut table = self.table();
        if self.close.is_cancelled() {
            return Err(NoPlace::Closing);
        }
        let taken = self.quota.take(principal, most).ok_or(NoPlace::Full)?;
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (resumes, receiver) = mpsc::channel(4);
        table.live.insert(id, Live { principal: Arc::clone(principal), resumes });
        self.gauge.inc();
        self.kept.send_replace(table.live.len());
        let principal = Arc::clone(principal);
        Ok((Place { parked: Arc::clone(self), id, principal, taken: Some(taken) }, receiver))
    }

    /// Where the answers for a ticket of this principal go. `None`: another process has the call, or had it.
    pub(super) fn find(&self, ticket: &Ticket, principal: &str) -> Option<Found> {
        if ticket.owner != self.owner.id {
            return None;
        }
        let table = self.table();
        let live = table.live.get(&ticket.park).filter(|live| *live.principal == *principal);
        if let Some(live) = live {
            return Some(Found::Live(live.resumes.clone()));
        }
        let last = table.ended.get(ticket, principal);
        Some(last.map_or(Found::Gone, |last| Found::Ended(Box::new(last))))
    }

    /// The ticket for a round of a call kept here.
    pub(super) fn ticket(&self, park: u64, round: u32) -> Ticket {
        let at = self.shared.then(|| self.owner.at.clone());
        Ticket { owner: self.owner.id.clone(), at, park, round }
    }

    /// The process that a ticket is for, where that is another one that can be reached.
    pub(super) fn elsewhere(&self, ticket: Ticket) -> Option<Replica> {
        let at = ticket.at.filter(|_| ticket.owner != self.owner.id)?;
        Some(Replica { id: ticket.owner, at })
    }

    /// Returns once no call is kept.
    pub(super) async fn idle(&self) {
        // The sender is ours, so there is always an answer.
        let _ = self.kept.subscribe().wait_for(|kept| *kept == 0).await;
    }

    /// From now on a call that nobody attends is kept for this long: whoever has left it would hold up the end.
    pub(super) fn hurry(&self, patience: Duration) {
        // The first word counts; there is no second.
        let _ = self.patience.set((Instant::now(), patience));
        self.leaving.cancel();
    }

    /// Whether every call is given up.
    pub(super) fn is_closing(&self) -> bool {
        self.close.is_cancelled()
    }

    /// Gives up every call that is kept; none is taken in any more.
    pub(super) fn close(&self) {
        // Under the lock: who is entering is seen, who comes later is refused.
        let _table = self.table();
        self.close.cancel();
    }
}

impl Place {
    /// Comes back when a call that nobody attends has waited long enough, since the process ends.
    pub(super) async fn hurried(&self, alone_since: Instant) {
        self.parked.leaving.cancelled().await;
        if let Some((began, patience)) = self.parked.patience.get() {
            sleep_until(alone_since.max(*began) + *patience).await;
        }
    }

    /// Cancelled when the call must be given up.
    pub(super) fn closing(&self) -> CancellationToken {
        self.parked.close.clone()
    }

    /// The call has ended with this after so many rounds: who asks for it with the last ticket is told again.
    pub(super) fn ended(&self, round: u32, last: &Last, grace: Duration) {
        let ticket = self.parked.ticket(self.id, round);
        self.parked.table().ended.put(ticket, &self.principal, last.clone(), grace);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.parked.table();
        table.live.remove(&self.id);
        self.taken = None;
        self.parked.gauge.dec();
        self.parked.kept.send_replace(table.live.len());
    }
}
