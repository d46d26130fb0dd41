//! What one server's children did that is worth counting, over all generations.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a link, all since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Output lines that were no JSON-RPC message (F-041).
    pub skipped_lines: u64,
    /// Notifications and requests dropped because their queue was full.
    pub dropped: u64,
    /// Answers and progress for ids nobody waits for any more (H-84).
    pub late: u64,
    /// Children stopped for a line longer than `max_line` (F-040).
    pub overflows: u64,
    /// Lines of standard error kept out of the log by its rate bound.
    pub suppressed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) skipped_lines: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) overflows: AtomicU64,
    pub(super) suppressed: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> Counts {
        Counts {
            skipped_lines: self.skipped_lines.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            overflows: self.overflows.load(Ordering::Relaxed),
            suppressed: self.suppressed.load(Ordering::Relaxed),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
