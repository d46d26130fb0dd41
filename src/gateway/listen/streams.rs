//! One open stream of a principal, while it is counted.

use std::sync::Arc;

use prometheus::IntGauge;

use crate::gateway::quota::{Quota, Taken};

/// One open stream, counted until it is dropped.
#[derive(Debug)]
pub struct Counted {
    _taken: Taken,
    gauge: IntGauge,
}

impl Counted {
    /// One stream more of a principal; `None` if it has as many as it may.
    pub(super) fn new(
        streams: &Arc<Quota>,
        principal: &Arc<str>,
        most: usize,
        gauge: &IntGauge,
    ) -> Option<Self> {
        let taken = streams.take(principal, most)?;
        gauge.inc();
        Some(Self { _taken: taken, gauge: gauge.clone() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
