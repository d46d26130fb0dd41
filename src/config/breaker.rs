//! `breaker` of a server.

use std::time::Duration;

/// `breaker = { failures, open }`: when nothing more is sent to a replica, or process, that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row; 0: never.
    pub failures: u32,
    /// For how long, before it is tried again.
    pub open: Duration,
}
