//! Threads that serve clients, each with a runtime of its own: what a call does stays on one thread, from its client's
//! socket to its server's, so that nothing is handed over and nobody is woken on the way.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

/// How often tasks have their turn before sockets and timers are looked at again, where there is always one with something
/// to do: what is slow for one must not be slow for all.
const TURNS: u32 = 16;

thread_local! {
    /// Which lane this thread is; 0: none.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// The lane that runs this; the same number for all that is no lane.
pub(super) fn current() -> usize {
    LANE.get()
}

/// All lanes, or none: then what is to be served runs where it is. Dropping the last handle ends their threads.
#[derive(Debug, Default)]
pub struct Lanes {
    all: Box<[Lane]>,
    end: CancellationToken,
}

#[derive(Debug)]
struct Lane {
    handle: Handle,
    /// Connections and requests that were given to it and have not ended.
    load: AtomicUsize,
}

/// A place at a lane, counted for as long as this lives.
#[derive(Debug)]
pub(super) struct Seat {
    lanes: Arc<Lanes>,
    at: usize,
}

impl Lanes {
    /// Starts `count` of them.
    ///
    /// # Errors
    ///
    /// No thread or no runtime is to be had.
    pub fn start(count: usize, tasks: &Tasks) -> io::Result<Arc<Self>> {
        let end = CancellationToken::new();
        let lane = |number: usize| {
            let runtime = Builder::new_current_thread().enable_all().event_interval(TURNS).build()?;
            let (handle, end) = (runtime.handle().clone(), end.clone());
            tasks.spawn_thread("lane", move || {
                LANE.set(number);
                runtime.block_on(end.cancelled());
                // Whatever blocks there is not worth waiting for.
                runtime.shutdown_background();
            })?;
            Ok(Lane { handle, load: AtomicUsize::new(0) })
        };
        let all: io::Result<Box<[Lane]>> = (1..=count).map(lane).collect();
        if all.is_err() {
            // Those that run already.
            end.cancel();
        }
        Ok(Arc::new(Self { all: all?, end }))
    }

    /// A place at the lane with the least to do; of equals the one that asks. `None`: there are none.
    pub(super) fn seat(self: &Arc<Self>) -> Option<Seat> {
        let own = current();
        let load = |at: &usize| (self.all[*at].load.load(Ordering::Relaxed), *at + 1 != own);
        let at = (0..self.all.len()).min_by_key(load)?;
        self.all[at].load.fetch_add(1, Ordering::Relaxed);
        Some(Seat { lanes: Arc::clone(self), at })
    }

    /// Returns when each of them has come to look at this: how long that takes says how far behind they are.
    pub fn touch(&self, tasks: &Tasks) -> impl Future<Output = ()> + Send + use<> {
        let looks = self.all.iter().map(|lane| tasks.spawn_on(&lane.handle, "look", async {}));
        let looks: Vec<_> = looks.collect();
        async move {
            join_all(looks).await;
        }
    }
}

#[cfg(test)]
impl Lanes {
    /// All that was given to them and has not ended.
    pub(super) fn load(&self) -> usize {
        self.all.iter().map(|lane| lane.load.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Seat {
    /// Runs `work` there, and keeps the place until it has ended.
    pub(super) fn spawn<F>(self, tasks: &Tasks, name: &'static str, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let lane = self.handle().clone();
        tasks.spawn_on(&lane, name, async move {
            let _seat = self;
            work.await;
        });
    }

    /// Where what has this place is to run.
    pub(super) fn handle(&self) -> &Handle {
        &self.lanes.all[self.at].handle
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lanes.all[self.at].load.fetch_sub(1, Ordering::Relaxed);
    }
}
