//! Where one server runs: its addresses, each with its connections and its breaker, and which of them is next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use prometheus::IntGauge;

use super::breaker::{Board, Breaker};
use super::error::Failure;
use super::link::http::HttpLink;
use crate::config;

/// What every replica of a server is made with, and what it reports to.
#[derive(Debug, Clone)]
pub struct Ward {
    rules: config::Breaker,
    board: Arc<Board>,
    up: IntGauge,
    /// Replicas whose last contact succeeded.
    reached: Arc<AtomicUsize>,
    /// Another server of the same name is in its place, and shows at the gauges.
    replaced: Arc<AtomicBool>,
}

impl Ward {
    /// For a server with these rules and gauges.
    pub fn new(rules: config::Breaker, state: IntGauge, up: IntGauge) -> Self {
        let replaced = Arc::<AtomicBool>::default();
        let board = Arc::new(Board::new(state, Arc::clone(&replaced)));
        Self { rules, board, up, reached: Arc::default(), replaced }
    }

    /// Shows nothing any more.
    pub fn retire(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    /// Whether one of them answered last.
    pub fn is_up(&self) -> bool {
        self.reached.load(Ordering::Relaxed) > 0
    }

    /// How the best of their breakers stands, in words; `None`: there are none.
    pub fn breaker(&self) -> Option<&'static str> {
        (self.rules.failures > 0).then(|| self.board.best().as_str())
    }
}

/// One address, or one child process.
#[derive(Debug)]
pub struct Replica {
    /// How to get there; `None`: a child, which its place can reach.
    pub link: Option<Arc<HttpLink>>,
    /// Whether to.
    pub breaker: Breaker,
    /// Failures that may be one caller's or one tool's only, since somebody began to ask whether it is well; 0: nobody
    /// asks.
    doubts: AtomicU32,
    ward: Ward,
    is_up: AtomicBool,
}

impl Replica {
    /// Nobody has been there yet.
    pub fn new(link: Option<Arc<HttpLink>>, ward: &Ward) -> Self {
        let breaker = Breaker::new(ward.rules.failures, &ward.board);
        let (doubts, is_up) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { link, breaker, doubts, ward: ward.clone(), is_up }
    }

    /// A contact succeeded or failed.
    pub fn contact(&self, reached: bool) {
        if self.is_up.load(Ordering::Relaxed) == reached
            || self.is_up.swap(reached, Ordering::Relaxed) == reached
        {
            return;
        }
        let before = match reached {
            true => self.ward.reached.fetch_add(1, Ordering::Relaxed),
            false => self.ward.reached.fetch_sub(1, Ordering::Relaxed) - 1,
        };
        // Up as long as one of them is.
        if before == 0 && !self.ward.replaced.load(Ordering::Relaxed) {
            self.ward.up.set(i64::from(reached));
        }
    }

    /// One doubt more: true for the one who is to ask.
    pub(super) fn doubt(&self) -> bool {
        self.doubts.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// The answer is known; how many doubts it is for.
    pub(super) fn settle(&self) -> u32 {
        self.doubts.swap(0, Ordering::Relaxed)
    }

    /// A valid answer came from there.
    pub fn answered(&self) {
        self.contact(true);
        self.breaker.succeeded();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.contact(false);
    }
}

/// All addresses of one server, at least one.
#[derive(Debug)]
pub struct Replicas {
    all: Box<[Arc<Replica>]>,
    /// Where the next search begins: of equals, each is taken in turn.
    next: AtomicUsize,
}

impl Replicas {
    /// The replicas at the other ends of these links.
    pub fn new(links: Vec<Arc<HttpLink>>, ward: &Ward) -> Self {
        let all = links.into_iter().map(|link| Arc::new(Replica::new(Some(link), ward)));
        Self { all: all.collect(), next: AtomicUsize::new(0) }
    }

    /// All of them.
    pub fn all(&self) -> &[Arc<Replica>] {
        &self.all
    }

    /// Whether there is a choice.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Whether anything may be sent to any of them.
    pub fn are_open(&self) -> bool {
        self.all.iter().any(|replica| replica.breaker.is_closed())
    }

    /// The one with the fewest requests at work, among those that may be used and were not `tried`.
    pub fn pick(&self, tried: &[Arc<Replica>]) -> Option<Arc<Replica>> {
        self.best(|replica| replica.breaker.is_closed() && !is_among(replica, tried))
    }

    /// The same; where none may be used, one is tried all the same.
    pub fn pick_any(&self, tried: &[Arc<Replica>]) -> Option<Arc<Replica>> {
        self.pick(tried).or_else(|| self.best(|replica| !is_among(replica, tried)))
    }

    fn best(&self, may: impl Fn(&Arc<Replica>) -> bool) -> Option<Arc<Replica>> {
        if let [only] = &*self.all {
            return may(only).then(|| Arc::clone(only));
        }
        let from = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        let (before, behind) = self.all.split_at(from);
        let in_turn = behind.iter().chain(before).filter(|replica| may(replica));
        in_turn.min_by_key(|replica| replica.breaker.running()).cloned()
    }
}

fn is_among(replica: &Arc<Replica>, tried: &[Arc<Replica>]) -> bool {
    tried.iter().any(|one| Arc::ptr_eq(one, replica))
}

/// A request at a replica, counted for as long as this lives.
#[derive(Debug)]
pub struct Turn(Arc<Replica>);

impl Turn {
    /// One more there.
    pub fn new(replica: Arc<Replica>) -> Self {
        replica.breaker.enter();
        Self(replica)
    }

    /// Which one.
    pub const fn replica(&self) -> &Arc<Replica> {
        &self.0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.breaker.leave();
    }
}

/// Whether a failure speaks against where it happened, rather than against what was asked: then it counts for the
/// breaker. What a server says (`isError`, JSON-RPC errors, a 4xx) never does.
pub const fn is_fault(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Unavailable(_) | Failure::Exited | Failure::Malformed(_) | Failure::Status(502..=504)
    )
}

/// Whether a failure may be all of one tool or one caller: then it is no more than a reason to ask whether the replica
/// is well.
pub const fn is_hint(failure: &Failure) -> bool {
    matches!(failure, Failure::Timeout(_) | Failure::Malformed(_) | Failure::Status(504))
}

#[cfg(test)]
mod tests;
