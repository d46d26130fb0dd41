//! The only caller of `tokio::spawn`: named, counted, cancellable; a panic is caught and counted.

mod end;
pub mod flight;

pub use end::End;
pub use flight::Flight;

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The process's tasks: handed down from `app`, cloned freely.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    panics: Arc<AtomicU64>,
}

impl Tasks {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set that ends by itself, for what must outlive the tasks of this one; panics are counted together.
    #[must_use]
    pub fn aside(&self) -> Self {
        Self { panics: Arc::clone(&self.panics), ..Self::default() }
    }

    /// Runs `work` to its end, or until [`Tasks::shutdown`] cancels it at an await point.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    pub fn spawn<F>(&self, name: &'static str, work: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(self.guarded(name, Box::pin(work)))
    }

    /// The same on another runtime.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    pub fn spawn_on<F>(&self, runtime: &Handle, name: &'static str, work: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn_on(self.guarded(name, Box::pin(work)), runtime)
    }

    /// The same for all work, boxed: all that the runtime does with a task would be compiled for each anew.
    fn guarded(
        &self,
        name: &'static str,
        work: BoxFuture<'static, ()>,
    ) -> impl Future<Output = ()> + Send + use<> {
        // A token of its own: the shared one is a lock that every task would touch at every step.
        let (stop, panics) = (End::of(self.stop.child_token()), Arc::clone(&self.panics));
        async move {
            let work = AssertUnwindSafe(work).catch_unwind();
            tokio::select! {
                biased;
                done = work => {
                    if done.is_err() {
                        panics.fetch_add(1, Ordering::Relaxed);
                        tracing::error!(task = name, "a task panicked");
                    }
                }
                () = stop => {}
            }
        }
    }

    /// Runs `work` on a thread of its own: for what blocks, and for what must outlive the tasks that feed it. Its end
    /// is its owner's affair: [`Tasks::shutdown`] neither cancels nor awaits it.
    ///
    /// # Errors
    ///
    /// No thread is to be had.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    pub fn spawn_thread(
        &self,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<std::thread::JoinHandle<()>> {
        let panics = Arc::clone(&self.panics);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                panics.fetch_add(1, Ordering::Relaxed);
                tracing::error!(thread = name, "a thread panicked");
            }
        })
    }

    /// Cancelled when the process stops.
    pub const fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Counts a panic that was caught elsewhere.
    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Panics caught so far (`gatehouse_panics_total`).
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Tasks that have not ended.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Cancels everything and waits for it, at most `limit`; false when something did not end in time.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }
}
