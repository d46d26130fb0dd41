//! The connections to one server: who may use one, who waits, who may open another.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::h1::H1;
use super::lanes;
use super::lease::{DialPermit, Grant, H2, Slot};
use crate::tasks::Tasks;

/// How often idle connections are looked at: whether the server has closed them shows only then.
const LOOK: Duration = Duration::from_secs(5);

/// What was learnt from the last connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Nothing yet: who comes second waits for the first connection, since it may be shareable.
    Unknown,
    /// One call a connection.
    H1,
    /// So many calls a connection.
    H2(usize),
}

struct Idle {
    h1: H1,
    since: Instant,
}

pub(super) struct Shared {
    pub(super) h2: Arc<H2>,
    pub(super) idle_since: Instant,
}

pub(super) struct State {
    /// Longest idle first.
    idle: Vec<Idle>,
    pub(super) h2: Vec<Shared>,
    pub(super) waiters: VecDeque<oneshot::Sender<Grant>>,
    /// Connections open or being opened.
    pub(super) open: usize,
    pub(super) dialing: usize,
    pub(super) dialect: Dialect,
    /// The task that evicts idle connections is running.
    reaping: bool,
}

/// The pool of one server.
pub(super) struct Pool {
    /// A plain mutex: held for a few instructions, never across an await, and never while a [`Grant`] is dropped.
    state: Mutex<State>,
    max_connections: usize,
    idle_timeout: Duration,
    tasks: Tasks,
    /// Cancelled with the pool, so that its reaper does not outlive it.
    gone: CancellationToken,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// The answer to [`Pool::take`].
pub(super) enum Taken {
    /// Go on at once.
    Now(Grant),
    /// Wait for a grant.
    Wait(oneshot::Receiver<Grant>),
}

impl Pool {
    pub(super) fn new(
        max_connections: usize,
        idle_timeout: Duration,
        dialect: Dialect,
        tasks: Tasks,
    ) -> Arc<Self> {
        let state = State {
            idle: Vec::new(),
            h2: Vec::new(),
            waiters: VecDeque::new(),
            open: 0,
            dialing: 0,
            dialect,
            reaping: false,
        };
        let max_connections = max_connections.max(1);
        let gone = CancellationToken::new();
        Arc::new(Self { state: Mutex::new(state), max_connections, idle_timeout, tasks, gone })
    }

    /// Connections open now.
    pub(super) fn connections(&self) -> usize {
        let state = self.lock();
        // Both change one after the other, so the difference may be off for a moment, and must not wrap.
        state.open.saturating_sub(state.dialing)
    }

    /// Whether a connection is being opened now.
    pub(super) fn dialing(&self) -> bool {
        self.lock().dialing > 0
    }

    /// A connection, the right to open one, or a place in the queue. `fresh`: an idle connection has just been
    /// found dead, so the others are no safe choice either.
    pub(super) fn take(self: &Arc<Self>, fresh: bool) -> Taken {
        let mut dead = Vec::new();
        let taken = self.look(fresh, &mut dead);
        // Only now: a connection that ends takes the lock, and makes room for who waits.
        drop(dead);
        taken
    }

    fn look(self: &Arc<Self>, fresh: bool, dead: &mut Vec<H1>) -> Taken {
        let mut state = self.lock();
        if !fresh && let Some(h1) = self.pop_idle(&mut state, dead) {
            return Taken::Now(Grant::H1(h1));
        }
        if let Some(slot) = self.free_slot(&mut state) {
            return Taken::Now(Grant::H2(slot));
        }
        if state.waiters.len() >= state.expected() && state.open < self.max_connections {
            return Taken::Now(Grant::Dial(DialPermit::new(self, &mut state)));
        }
        if fresh && state.open >= self.max_connections && !state.idle.is_empty() {
            // Makes room for this one.
            dead.push(state.idle.remove(0).h1);
        }
        state.waiters.retain(|waiter| !waiter.is_closed());
        let (sender, receiver) = oneshot::channel();
        state.waiters.push_back(sender);
        Taken::Wait(receiver)
    }

    /// Takes a connection back, or lets one that is not ready yet settle first.
    pub(super) fn give_back(self: Arc<Self>, mut h1: H1) {
        if h1.is_ready() {
            self.put(h1);
        } else if !h1.is_closed() {
            let pool = Arc::clone(&self);
            self.tasks.spawn("http connection settling", async move {
                if let Some(h1) = h1.settled().await {
                    pool.put(h1);
                }
            });
        }
    }

    fn put(self: &Arc<Self>, mut h1: H1) {
        let mut state = self.lock();
        while let Some(waiter) = state.waiters.pop_front() {
            match waiter.send(Grant::H1(h1)) {
                Ok(()) => return,
                Err(Grant::H1(back)) => h1 = back,
                Err(_) => return,
            }
        }
        state.idle.push(Idle { h1, since: Instant::now() });
        self.start_reaper(state);
    }

    /// A stream's place is free again.
    pub(super) fn stream_ended(self: &Arc<Self>, h2: &Arc<H2>) {
        let mut state = self.lock();
        let was = h2.active.fetch_sub(1, Ordering::Relaxed);
        if was == 1
            && let Some(entry) = state.h2.iter_mut().find(|entry| Arc::ptr_eq(&entry.h2, h2))
        {
            entry.idle_since = Instant::now();
        }
        let unused = self.pump(&mut state);
        if was == 1 {
            self.start_reaper(state);
        } else {
            drop(state);
        }
        drop(unused);
    }

    /// Changes the state and then serves who waits.
    pub(super) fn change(self: &Arc<Self>, what: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        what(&mut state);
        let unused = self.pump(&mut state);
        drop(state);
        // Only now: dropping a grant takes the lock again.
        drop(unused);
    }

    /// Hands out what is free. Returns grants whose waiters went away meanwhile, to be dropped without the lock.
    fn pump(self: &Arc<Self>, state: &mut State) -> Vec<Grant> {
        let mut unused = Vec::new();
        if state.waiters.is_empty() {
            return unused;
        }
        state.waiters.retain(|waiter| !waiter.is_closed());
        while !state.waiters.is_empty() {
            let grant = if let Some(slot) = self.free_slot(state) {
                Grant::H2(slot)
            } else if state.open < self.max_connections && state.waiters.len() > state.expected() {
                Grant::Dial(DialPermit::new(self, state))
            } else {
                break;
            };
            if let Some(waiter) = state.waiters.pop_front()
                && let Err(back) = waiter.send(grant)
            {
                unused.push(back);
            }
        }
        unused
    }

    /// The connection of this lane that was used last, if it is young and the server has not closed it; what is found
    /// dead on the way is to be dropped without the lock. That of another lane only where no more may be opened: with
    /// it each step of the call is one between threads.
    fn pop_idle(&self, state: &mut State, dead: &mut Vec<H1>) -> Option<H1> {
        let (lane, full) = (lanes::current(), state.open >= self.max_connections);
        loop {
            let own = state.idle.iter().rposition(|idle| idle.h1.lane == lane);
            let at = own.or_else(|| state.idle.len().checked_sub(1).filter(|_| full))?;
            let mut idle = state.idle.remove(at);
            if idle.since.elapsed() < self.idle_timeout && idle.h1.is_ready() {
                return Some(idle.h1);
            }
            dead.push(idle.h1);
        }
    }

    fn free_slot(self: &Arc<Self>, state: &mut State) -> Option<Slot> {
        let entry = state.h2.iter().find(|entry| entry.h2.room() > 0)?;
        entry.h2.active.fetch_add(1, Ordering::Relaxed);
        Some(Slot { h2: Arc::clone(&entry.h2), pool: Arc::clone(self) })
    }

    /// One task evicts what is idle for too long; it ends when nothing is idle.
    fn start_reaper(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.reaping, true) {
            return;
        }
        drop(state);
        let (pool, idle_timeout, gone) = (Arc::downgrade(self), self.idle_timeout, self.gone.clone());
        self.tasks.spawn("http idle reaper", async move {
            let mut wait = idle_timeout.min(LOOK);
            while gone.run_until_cancelled(sleep(wait)).await.is_some() {
                let Some(next) = pool.upgrade().and_then(|pool| pool.evict()) else { return };
                wait = next;
            }
        });
    }

    /// Ends connections that were idle for too long or that the server has closed; returns when to look again.
    fn evict(&self) -> Option<Duration> {
        let mut state = self.lock();
        let now = Instant::now();
        let left = |since: Instant| (since + self.idle_timeout).saturating_duration_since(now);
        let gone = |idle: &mut Idle| left(idle.since).is_zero() || !idle.h1.is_ready();
        let old: Vec<Idle> = state.idle.extract_if(.., gone).collect();
        let is_idle = |entry: &Shared| entry.h2.active.load(Ordering::Relaxed) == 0;
        // Dropping the last sender makes hyper end the connection.
        state.h2.retain(|entry| !(is_idle(entry) && left(entry.idle_since).is_zero()));
        let oldest = state.idle.first().map(|idle| idle.since);
        let shared = state.h2.iter().filter(|entry| is_idle(entry)).map(|entry| entry.idle_since).min();
        let next = oldest.into_iter().chain(shared).min().map(|since| left(since).min(LOOK));
        state.reaping = next.is_some();
        drop(state);
        // Only now: a connection that ends takes the lock.
        drop(old);
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in the critical sections can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops what can serve no call any more.
    pub(super) fn forget_closed(&mut self) {
        self.h2.retain(|entry| !entry.h2.is_closed());
    }

    /// Waiters that connections being opened will serve, their own dialers aside.
    fn expected(&self) -> usize {
        match self.dialect {
            Dialect::Unknown if self.dialing > 0 => usize::MAX,
            Dialect::Unknown | Dialect::H1 => 0,
            Dialect::H2(streams) => self.dialing * (streams - 1),
        }
    }
}
