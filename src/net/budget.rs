//! `gateway.max_buffered`: bytes of bodies the process holds at once, in all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A process-wide allowance of bytes.
#[derive(Debug, Clone)]
pub struct Budget {
    used: Arc<AtomicUsize>,
    limit: Arc<AtomicUsize>,
}

/// Bytes taken from the allowance; given back when dropped.
#[derive(Debug)]
pub struct Held {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// An allowance of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit: Arc::new(AtomicUsize::new(limit)) }
    }

    /// Starts a holder with nothing in it.
    pub fn hold(&self) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }

    /// Whether more than seven eighths are held.
    pub fn is_nearly_full(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        self.used() > limit - limit / 8
    }

    /// Another allowance from now on; what is held stays held.
    pub fn resize(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes held now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Held {
    /// Takes `bytes` more; false, and nothing taken, when the process holds too much already.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let before = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.budget.limit.load(Ordering::Relaxed) {
            self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
