//! When to stop sending to one address or process that fails, and when to go on. Knows no clock: who uses it waits.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::IntGauge;

/// Whether anything is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// As usual.
    Closed = 0,
    /// It is being tried.
    HalfOpen = 1,
    /// Nothing is sent.
    Open = 2,
}

/// How the breakers of one server stand, together: the gauge shows the best of them, for that is what calls meet.
#[derive(Debug)]
pub struct Board {
    gauge: IntGauge,
    replaced: Arc<AtomicBool>,
    /// How many are in each state. A std mutex: held for three additions, when a state changes.
    counts: Mutex<[usize; 3]>,
}

impl State {
    /// As operators read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }
}

impl Board {
    /// A board without breakers. Nothing is shown any more once it is `replaced`.
    pub fn new(gauge: IntGauge, replaced: Arc<AtomicBool>) -> Self {
        Self { gauge, replaced, counts: Mutex::default() }
    }

    /// How the best of them stands.
    pub fn best(&self) -> State {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        best(&counts)
    }

    fn change(&self, from: Option<State>, to: Option<State>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(from) = from {
            counts[from as usize] = counts[from as usize].saturating_sub(1);
        }
        if let Some(to) = to {
            counts[to as usize] += 1;
        }
        if !self.replaced.load(Ordering::Relaxed) {
            self.gauge.set(best(&counts) as i64);
        }
    }

    /// Breakers through which calls go.
    fn closed(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)[State::Closed as usize]
    }
}

fn best(counts: &[usize; 3]) -> State {
    let all = [State::Closed, State::HalfOpen, State::Open];
    all.into_iter().find(|state| counts[*state as usize] > 0).unwrap_or(State::Closed)
}

/// The breaker of one address or process.
#[derive(Debug)]
pub struct Breaker {
    /// Failures in a row that open it; 0: it never opens.
    most: u32,
    state: AtomicU8,
    /// Failures in a row.
    row: AtomicU32,
    /// How much of what it was asked lately failed, in parts of [`WHOLE`].
    share: AtomicU32,
    /// Requests at work there, where somebody counts them.
    running: AtomicUsize,
    board: Arc<Board>,
}

/// All of it failed.
const WHOLE: u32 = 1 << 16;
/// One answer changes the share by this part of the difference: some fifty answers are remembered.
const MEMORY: u32 = 32;

impl Breaker {
    /// A closed one that opens after `most` failures in a row.
    pub fn new(most: u32, board: &Arc<Board>) -> Self {
        board.change(None, Some(State::Closed));
        Self {
            most,
            state: AtomicU8::new(State::Closed as u8),
            row: AtomicU32::new(0),
            share: AtomicU32::new(0),
            running: AtomicUsize::new(0),
            board: Arc::clone(board),
        }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Closed,
            1 => State::HalfOpen,
            _ => State::Open,
        }
    }

    /// Whether anything may be sent.
    pub fn is_closed(&self) -> bool {
        self.state() == State::Closed
    }

    /// An answer came, whatever it says.
    pub fn succeeded(&self) {
        // Almost always both are 0 already: nothing is written for most calls.
        if self.row.load(Ordering::Relaxed) != 0 {
            self.row.store(0, Ordering::Relaxed);
        }
        let share = self.share.load(Ordering::Relaxed);
        if share != 0 {
            // Of two at once one may be lost: it is a rule of thumb.
            self.share.store(share - (share / MEMORY).max(1), Ordering::Relaxed);
        }
    }

    /// No answer came, or none that can be read. True when that opened it: who is told so has it tried again later.
    pub fn failed(&self) -> bool {
        let row = self.row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let before = self.share.load(Ordering::Relaxed);
        let share = before + (WHOLE - before.min(WHOLE)) / MEMORY;
        self.share.store(share, Ordering::Relaxed);
        // More than half fails, while others of the same server are well: it is the odd one out. The last is kept.
        let is_outlier = || share > WHOLE / 2 && self.board.closed() > 1;
        self.most > 0 && (row >= self.most || is_outlier()) && self.turn(State::Closed, State::Open)
    }

    /// It will be tried: true for the one who is to.
    pub fn half_open(&self) -> bool {
        self.turn(State::Open, State::HalfOpen)
    }

    /// How the trial went. Until the first real answer, one more failure opens it again.
    pub fn tried(&self, well: bool) {
        if well {
            self.row.store(self.most.saturating_sub(1), Ordering::Relaxed);
            self.share.store(0, Ordering::Relaxed);
        }
        self.turn(State::HalfOpen, if well { State::Closed } else { State::Open });
    }

    /// It answered where nobody waits for a trial: a session was opened there.
    pub fn recovered(&self) {
        if !self.is_closed() {
            self.turn(State::Open, State::HalfOpen);
            self.tried(true);
        }
    }

    /// Requests at work there.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// One request more.
    pub(super) fn enter(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// One request less.
    pub(super) fn leave(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Changes the state if it is `from`.
    fn turn(&self, from: State, to: State) -> bool {
        let turned =
            self.state.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if turned {
            self.board.change(Some(from), Some(to));
        }
        turned
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        self.board.change(Some(self.state()), None);
    }
}

#[cfg(test)]
mod tests;
