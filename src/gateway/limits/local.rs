//! Counts of this process: one GCRA for each key, in bounded memory, without a lock that all calls share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use moka::notification::RemovalCause;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::time::Instant;

use super::{Key, Wait};

/// Keys that one limit counts apart. Beyond, the one that was quiet for longest starts anew, with its whole burst.
const MOST: u64 = 100_000;

type Gcra = RateLimiter<NotKeyed, InMemoryState, SinceStart, NoOpMiddleware<Duration>>;

/// The counts of one limit.
pub(super) struct Local {
    quota: Quota,
    clock: SinceStart,
    counts: Cache<Key, Arc<Gcra>>,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("quota", &self.quota).finish_non_exhaustive()
    }
}

impl Local {
    pub(super) fn new(every: Duration, burst: u32) -> Self {
        Self::bounded(every, burst, MOST)
    }

    pub(super) fn bounded(every: Duration, burst: u32, most: u64) -> Self {
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        // A rate always leaves some time for each (`config` checks it).
        let quota = Quota::with_period(every).unwrap_or(Quota::per_second(burst)).allow_burst(burst);
        let told = AtomicBool::new(false);
        let removed = move |_: Arc<Key>, _: Arc<Gcra>, cause| {
            if cause == RemovalCause::Size && !told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    most,
                    "a limit counts for more callers or tools than it has room for; those quiet for longest start anew"
                );
            }
        };
        let counts = Cache::builder()
            .max_capacity(most)
            .eviction_policy(EvictionPolicy::lru())
            // A count that rested so long is as good as new.
            .time_to_idle(quota.burst_size_replenished_in().max(Duration::from_secs(60)))
            .eviction_listener(removed)
            .build();
        Self { quota, clock: SinceStart(Instant::now()), counts }
    }

    /// Takes one, or says how long to wait.
    pub(super) fn admit(&self, key: Key) -> Result<(), Wait> {
        let count = match self.counts.get(&key) {
            Some(count) => count,
            None => {
                let new = || Arc::new(Gcra::direct_with_clock(self.quota, self.clock));
                self.counts.get_with(key, new)
            }
        };
        count.check().map_err(|not| Wait(not.wait_time_from(self.clock.now())))
    }

    /// Keys that are counted now.
    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        self.counts.run_pending_tasks();
        self.counts.entry_count()
    }
}

/// The runtime's clock, which tests can hold.
#[derive(Debug, Clone, Copy)]
struct SinceStart(Instant);

impl Clock for SinceStart {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
