//! Load shedding: when the process falls behind with its work for good, or nearly holds all the bytes it may, some new
//! calls are refused at once, so that the others are answered in time (`max_lag`, `max_buffered`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Gateway;
use crate::net::{Budget, Lanes};
use crate::protocol::method::Method;
use crate::tasks::Tasks;

/// How often it is looked how late the process is.
const LOOK: Duration = Duration::from_millis(100);
/// A delay counts once it has stood for so long, and was seen twice: bursts are what queues are for.
const WINDOW: Duration = Duration::from_millis(500);
const SEEN: u32 = 2;
/// Refused shares are parts of this.
const WHOLE: u32 = 1024;
/// The share shrinks by this a window, and grows by twice as much: a window is as long as it is late.
const STEP: u32 = WHOLE / 8;
/// However late it is, some are let through: only they show that it is over.
const MOST: u32 = WHOLE - STEP;
/// An odd number near the golden section of [`WHOLE`]: multiples of it are spread evenly.
const SPREAD: u32 = 633;

/// How much of what comes is refused.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Of [`WHOLE`].
    share: AtomicU32,
    /// Calls looked at while some are refused.
    turn: AtomicU32,
    budget: Option<Budget>,
}

impl Load {
    /// Of a process that shares these bytes.
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget: Some(budget), ..Self::default() }
    }

    /// Whether this request is one of those to refuse. What a client cannot begin without never is.
    pub(super) fn refuses(&self, method: Method) -> bool {
        let is_call = matches!(
            method,
            Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete
        );
        is_call && (self.is_out() || self.budget.as_ref().is_some_and(Budget::is_nearly_full))
    }

    /// Whether the next one is out: of every eight so many as the share says, evenly.
    fn is_out(&self) -> bool {
        let share = self.share.load(Ordering::Relaxed);
        // Nothing is written as long as nothing is refused.
        share > 0 && self.turn.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD) % WHOLE < share
    }

    /// A window is over: whether the delay stood all the time. True when refusing begins or ends.
    fn judge(&self, late: bool) -> bool {
        let share = self.share.load(Ordering::Relaxed);
        let next = if late { (share + 2 * STEP).min(MOST) } else { share.saturating_sub(STEP) };
        self.share.store(next, Ordering::Relaxed);
        (share == 0) != (next == 0)
    }
}

/// Looks at how late the process is, for as long as there is a gateway.
pub(super) async fn watch(gateway: Weak<Gateway>, lanes: Arc<Lanes>, tasks: Tasks) {
    let mut window = Window::begin();
    loop {
        let asleep = Instant::now();
        sleep(LOOK).await;
        lanes.touch(&tasks).await;
        let Some(gateway) = gateway.upgrade() else { return };
        let now = Instant::now();
        let delay = now.saturating_duration_since(asleep).saturating_sub(LOOK);
        let Some(least) = window.note(now, delay) else { continue };
        let most = gateway.snapshot().config.gateway.max_lag;
        let late = !most.is_zero() && least >= most;
        if gateway.load.judge(late) {
            let milliseconds = least.as_millis();
            match late {
                true => tracing::warn!(milliseconds, "overloaded: some calls are refused"),
                false => tracing::info!("no call is refused any more"),
            }
        }
    }
}

/// The least delay since it began.
struct Window {
    since: Instant,
    least: Duration,
    seen: u32,
}

impl Window {
    fn begin() -> Self {
        Self { since: Instant::now(), least: Duration::MAX, seen: 0 }
    }

    /// One delay more; when the window is over, the least of its delays.
    fn note(&mut self, now: Instant, delay: Duration) -> Option<Duration> {
        self.least = self.least.min(delay);
        self.seen += 1;
        if self.seen < SEEN || now.saturating_duration_since(self.since) < WINDOW {
            return None;
        }
        let least = self.least;
        *self = Self { since: now, least: Duration::MAX, seen: 0 };
        Some(least)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LOOK, Load, MOST, WHOLE, WINDOW, Window};
    use crate::net::Budget;
    use crate::protocol::method::Method;

    /// How many of a thousand calls are refused.
    fn refused(load: &Load) -> usize {
        (0..1000).filter(|_| load.refuses(Method::ToolsCall)).count()
    }

    #[test]
    fn what_is_refused_grows_while_it_is_late_and_shrinks_again() {
        let load = Load::default();
        assert_eq!(refused(&load), 0);
        assert!(load.judge(true), "it begins");
        assert!((225..275).contains(&refused(&load)), "a quarter, {}", refused(&load));
        let mut last = refused(&load);
        for _ in 0..20 {
            assert!(!load.judge(true));
            let now = refused(&load);
            assert!(now + 5 >= last, "{last} then {now}");
            last = now;
        }
        let most = (MOST * 1000 / WHOLE) as usize;
        assert!(last.abs_diff(most) <= 5 && last < 1000, "some come through: {last}");
        let ends = (0..7).filter(|_| load.judge(false)).count();
        assert_eq!((ends, refused(&load)), (1, 0));
    }

    #[test]
    fn lists_and_greetings_are_never_refused() {
        let load = Load::default();
        assert_eq!((0..50).filter(|_| load.judge(true)).count(), 1);
        let free = Method::ALL.into_iter().chain(Method::LEGACY).filter(|method| {
            !matches!(
                method,
                Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete
            )
        });
        for method in free {
            assert!((0..1000).all(|_| !load.refuses(method)), "{method:?}");
        }
    }

    #[test]
    fn memory_that_is_nearly_used_up_refuses_all_until_it_is_back() {
        let budget = Budget::new(1000);
        let load = Load::new(budget.clone());
        let mut held = budget.hold();
        assert!(held.grow(800));
        assert_eq!(refused(&load), 0);
        assert!(held.grow(100));
        assert_eq!(refused(&load), 1000);
        drop(held);
        assert_eq!(refused(&load), 0);
    }

    /// A burst is over before the window is: its least delay is small.
    #[test]
    fn only_a_delay_that_stands_counts() {
        let (small, large) = (Duration::from_millis(1), Duration::from_secs(5));
        let judge = |delays: &[Duration]| {
            let mut window = Window::begin();
            let mut now = window.since;
            delays.iter().find_map(|delay| {
                now += LOOK + *delay;
                window.note(now, *delay)
            })
        };
        assert_eq!(judge(&[large]), None, "seen once only");
        assert_eq!(judge(&[large, small]), Some(small));
        assert_eq!(judge(&[small, small, large]), Some(small));
        assert_eq!(judge(&[small; 4]), None, "not long enough");
        assert_eq!(judge(&[large, large]), Some(large));
        assert!(LOOK * 4 < WINDOW);
    }
}
