//! How often the configuration was read anew, and when that last did something.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounterVec, IntGauge, Registry};

use super::declare::{counter, register};

/// Readings of the configuration.
#[derive(Debug)]
pub struct Reloads {
    total: IntCounterVec,
    last: IntGauge,
}

impl Reloads {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let total = counter(
            registry,
            "gatehouse_config_reloads_total",
            "Readings of a changed configuration: ok is in force, error changed nothing",
            &["result"],
        )?;
        let last = IntGauge::new(
            "gatehouse_config_last_reload_timestamp_seconds",
            "When the configuration in force was read, in seconds since 1970",
        )?;
        // Both are there before anything happens: an alert on the first error needs a zero to start from.
        for result in ["ok", "error"] {
            total.with_label_values(&[result]);
        }
        Ok(Self { total, last: register(registry, last)? })
    }

    /// The configuration in force was read now.
    pub fn began(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.last.set(i64::try_from(now).unwrap_or(i64::MAX));
    }

    /// A changed configuration was read; whether it is in force now.
    pub fn count(&self, good: bool) {
        self.total.with_label_values(&[if good { "ok" } else { "error" }]).inc();
        if good {
            self.began();
        }
    }
}
