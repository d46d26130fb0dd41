//! Letters that were taken already: none is taken twice.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Letters remembered at once; beyond, none is taken: some would be taken twice.
const MOST: usize = 1 << 20;

/// Nonces with the end of their time, oldest first.
#[derive(Debug, Default)]
pub(super) struct Nonces(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    known: HashSet<u128>,
    /// Milliseconds since 1970, and whose.
    until: VecDeque<(u64, u128)>,
}

impl Nonces {
    /// Whether this one is new; it is known `until` then (milliseconds since 1970).
    pub(super) fn take(&self, nonce: u128, until: u64, now: u64) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, nonce)) = seen.until.front().copied().filter(|(until, _)| *until < now) {
            seen.until.pop_front();
            seen.known.remove(&nonce);
        }
        if seen.known.len() >= MOST || !seen.known.insert(nonce) {
            return false;
        }
        seen.until.push_back((until, nonce));
        true
    }
}
