//! How many streams are open, and whose.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::IntGauge;

/// Streams open per principal.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Streams {
    // A std mutex: held to count.
    open: Mutex<HashMap<Arc<str>, usize>>,
}

/// One open stream, counted until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    streams: Arc<Streams>,
    principal: Arc<str>,
    gauge: IntGauge,
}

impl Streams {
    /// One stream more of a principal; `None` if it has as many as it may.
    pub(super) fn enter(
        self: &Arc<Self>,
        principal: &Arc<str>,
        most: usize,
        gauge: &IntGauge,
    ) -> Option<Counted> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(Arc::clone(principal)).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        gauge.inc();
        Some(Counted { streams: Arc::clone(self), principal: Arc::clone(principal), gauge: gauge.clone() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec();
        let mut open = self.streams.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.principal);
            }
        }
    }
}
