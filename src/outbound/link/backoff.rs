//! When a lost connection may be made again: 1 s doubling to 60 s, forgotten after a long enough life (F-037, F-080).

use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use tokio::time::Instant;

/// A life this long clears the record: uptime counts, not a successful start.
pub(in crate::outbound::link) const STABLE: Duration = Duration::from_secs(10);
const FIRST: Duration = Duration::from_secs(1);
/// With the jitter of a quarter, the longest pause is 60 s.
const LAST: Duration = Duration::from_secs(48);

/// The record of one server's recent failures.
#[derive(Debug, Default)]
pub(in crate::outbound::link) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// A child, or a stream, ended by itself after `uptime`.
    pub(in crate::outbound::link) fn ended(&mut self, uptime: Duration, now: Instant) {
        if uptime >= STABLE {
            self.failures = 0;
        }
        self.failed(now);
    }

    /// A start or a handshake failed. The first failure costs nothing: one crash is healed by the next call.
    pub(in crate::outbound::link) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.until = pause(self.failures, jitter()).map(|pause| now + pause);
    }

    /// How long no start may be tried; `None`: go ahead.
    pub(in crate::outbound::link) fn wait(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

/// The pause after this many failures in a row; `jitter` in 0..=1 adds up to a quarter.
fn pause(failures: u32, jitter: f64) -> Option<Duration> {
    let doublings = failures.checked_sub(2)?.min(16);
    let base = FIRST.saturating_mul(1 << doublings).min(LAST);
    Some(base.mul_f64(1.0 + 0.25 * jitter.clamp(0.0, 1.0)))
}

/// The hasher's random keys are random enough to spread restarts.
fn jitter() -> f64 {
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F-037 iii and iv: the pauses double from 1 s and end at 60 s, whatever the jitter.
    #[test]
    fn f037_pauses_double_between_one_second_and_a_minute() {
        assert_eq!(pause(0, 0.5), None);
        assert_eq!(pause(1, 0.5), None, "the first restart is free");
        let bases = [1, 2, 4, 8, 16, 32, 48, 48];
        for (base, failures) in bases.into_iter().zip(2..) {
            assert_eq!(pause(failures, 0.0), Some(Duration::from_secs(base)));
            assert_eq!(pause(failures, 1.0), Some(Duration::from_millis(base * 1250)));
        }
        assert_eq!(pause(u32::MAX, 1.0), Some(Duration::from_secs(60)));
        let random: Vec<f64> = (0..64).map(|_| jitter()).collect();
        assert!(random.iter().all(|j| (0.0..=1.0).contains(j)));
        assert!(random.iter().any(|j| *j != random[0]), "jitter varies");
    }

    /// F-037: uptime resets, a successful start does not.
    #[test]
    fn f037_a_long_life_clears_the_record_and_a_short_one_does_not() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.wait(now), None);
        for _ in 0..5 {
            backoff.ended(Duration::from_millis(10), now);
        }
        let wait = backoff.wait(now).expect("five quick deaths are held back");
        assert!(wait >= Duration::from_secs(8) && wait <= Duration::from_secs(10), "{wait:?}");
        assert_eq!(backoff.wait(now + wait), None, "and forgiven when the pause is over");
        backoff.ended(STABLE, now);
        assert_eq!(backoff.wait(now), None, "a long life: the next start is free");
        backoff.failed(now);
        assert!(backoff.wait(now).is_some_and(|wait| wait >= FIRST && wait < 2 * FIRST));
    }
}
