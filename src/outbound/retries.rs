//! How often one server's requests may be repeated: a fifth of what it is asked, so that repeating never drowns it.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A repeat costs this much.
const REPEAT: i64 = 1000;
/// A request earns this much: a fifth of a repeat.
const EARNED: i64 = 200;
/// What can be saved at most: the repeats of some 500 requests.
const MOST: i64 = 100 * REPEAT;
/// What there is from the start, and comes back by itself, for servers that are rarely asked.
const FLOOR: i64 = 10 * REPEAT;
/// How soon one repeat of the floor comes back.
const REFILL: Duration = Duration::from_secs(1);

/// The allowance of one server.
#[derive(Debug)]
pub(super) struct Allowance {
    left: AtomicI64,
    /// When the floor was last looked at. A std mutex: held for an addition, and only by who repeats.
    refilled: Mutex<Instant>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: AtomicI64::new(FLOOR), refilled: Mutex::new(Instant::now()) }
    }
}

impl Allowance {
    /// One request was made.
    pub(super) fn earn(&self) {
        // Full almost always: then nothing is written.
        if self.left.load(Ordering::Relaxed) < MOST {
            self.left.fetch_add(EARNED, Ordering::Relaxed);
        }
    }

    /// Whether one request may be repeated now.
    pub(super) fn spend(&self) -> bool {
        self.refill();
        let paid = |left: i64| (left >= REPEAT).then_some(left - REPEAT);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid).is_ok()
    }

    fn refill(&self) {
        let mut refilled = self.refilled.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = refilled.elapsed().as_millis() / REFILL.as_millis();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if steps == 0 {
            return;
        }
        *refilled = Instant::now();
        let more = REPEAT.saturating_mul(i64::from(steps));
        let filled = |left: i64| (left < FLOOR).then(|| (left + more).min(FLOOR));
        // Full: nothing to do.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, filled);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::Allowance;

    fn spent(allowance: &Allowance) -> usize {
        (0..10_000).take_while(|_| allowance.spend()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn h_65_a_fifth_of_what_is_asked_may_be_repeated() {
        let allowance = Allowance::default();
        assert_eq!(spent(&allowance), 10, "the floor");
        (0..100).for_each(|_| allowance.earn());
        assert_eq!(spent(&allowance), 20);
        (0..100_000).for_each(|_| allowance.earn());
        assert_eq!(spent(&allowance), 100, "what was earned long ago does not count for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn h_65_a_server_that_is_rarely_asked_has_a_few_repeats_all_the_same() {
        let allowance = Allowance::default();
        assert_eq!(spent(&allowance), 10);
        advance(Duration::from_secs(3)).await;
        assert_eq!(spent(&allowance), 3);
        advance(Duration::from_secs(3600)).await;
        assert_eq!(spent(&allowance), 10, "and no more than those");
    }
}
