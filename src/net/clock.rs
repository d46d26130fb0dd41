//! The deadlines of a client's connection: header, idle, none while requests are in work.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep_until};

use super::listener::ListenOptions;

/// How long a connection that is being closed may take for that, and for the head of a request on its way.
const ENDING: Duration = Duration::from_secs(2);

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Headers are awaited or on their way.
    Head,
    /// Requests are in work: their own deadlines hold.
    Busy,
    /// Nothing to do.
    Idle,
}

/// What happens on a connection, noted where it happens and read by `watch`.
#[derive(Debug, Default)]
pub(super) struct Activity {
    pub(super) h2: bool,
    in_work: AtomicUsize,
    requests: AtomicUsize,
    /// Bytes came since the last request began or ended. HTTP/1.1 only: pings are bytes as well.
    pub(super) bytes: AtomicBool,
    /// Wakes `watch` when the last request in work has ended: those of HTTP/2 run in their own tasks.
    pub(super) ended: AtomicWaker,
    /// The listener drains: the next answer is the last one here, and says so.
    pub(super) leaving: AtomicBool,
    /// The head of the answer in work has left, and has not said so.
    unsaid: AtomicBool,
}

impl Activity {
    /// Nothing has happened yet.
    pub(super) fn new(h2: bool) -> Self {
        Self { h2, ..Self::default() }
    }

    /// Whether a request is in work.
    pub(super) fn is_busy(&self) -> bool {
        self.in_work.load(Ordering::Acquire) > 0
    }

    /// Whether an answer is on its way whose client was not told that it is the last one here.
    pub(super) fn is_unsaid(&self) -> bool {
        self.unsaid.load(Ordering::Relaxed)
    }

    fn phase(&self) -> Phase {
        if self.is_busy() {
            Phase::Busy
        } else if self.bytes.load(Ordering::Relaxed) || self.requests.load(Ordering::Relaxed) == 0 {
            Phase::Head
        } else {
            Phase::Idle
        }
    }
}

/// A request in work, until its answer's body has ended.
pub(super) struct Busy(Arc<Activity>);

impl Busy {
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        activity.in_work.fetch_add(1, Ordering::AcqRel);
        activity.requests.fetch_add(1, Ordering::Relaxed);
        activity.bytes.store(false, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }

    /// Whether its connection ends after it, and can say so: asked when its head leaves.
    pub(super) fn is_last(&self) -> bool {
        let leaving = self.0.leaving.load(Ordering::Relaxed);
        self.0.unsaid.store(!self.0.h2 && !leaving, Ordering::Relaxed);
        !self.0.h2 && leaving
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.bytes.store(false, Ordering::Relaxed);
        self.0.unsaid.store(false, Ordering::Relaxed);
        if self.0.in_work.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.wake();
        }
    }
}

/// The deadline of the present phase. The timer is set anew only where it would fire too late, so a busy keep-alive
/// connection touches it about once in `idle_timeout`.
pub(super) struct Clock<'a> {
    options: &'a ListenOptions,
    seen: Option<(Phase, usize)>,
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
    armed: bool,
    pub(super) ending: bool,
}

impl<'a> Clock<'a> {
    pub(super) fn new(options: &'a ListenOptions, accepted: Instant) -> Self {
        let deadline = accepted + options.header_timeout;
        let timer = Box::pin(sleep_until(deadline));
        Self { options, seen: Some((Phase::Head, 0)), deadline, timer, armed: true, ending: false }
    }

    /// The connection is being closed: it gets a short while for that, and for requests on their way.
    pub(super) fn end(&mut self) {
        self.ending = true;
        self.seen = None;
    }

    /// Ready with the phase that has lasted too long.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>, activity: &Activity) -> Poll<Phase> {
        let phase = activity.phase();
        let seen = Some((phase, activity.requests.load(Ordering::Relaxed)));
        if self.seen != seen {
            self.seen = seen;
            let limit = match phase {
                Phase::Idle if !self.ending => self.options.idle_timeout,
                _ if self.ending => self.options.header_timeout.min(ENDING),
                _ => self.options.header_timeout,
            };
            self.deadline = Instant::now() + limit;
            if phase != Phase::Busy && (!self.armed || self.timer.deadline() > self.deadline) {
                self.timer.as_mut().reset(self.deadline);
                self.armed = true;
            }
        }
        while self.armed {
            ready!(self.timer.as_mut().poll(cx));
            self.armed = false;
            if phase == Phase::Busy {
                break;
            }
            if Instant::now() >= self.deadline {
                return Poll::Ready(phase);
            }
            self.timer.as_mut().reset(self.deadline);
            self.armed = true;
        }
        Poll::Pending
    }
}
