//! Single flight: many ask, one works, all get the answer; a caller that leaves stops nothing.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::Tasks;

/// One piece of work that runs at most once at a time.
#[derive(Debug)]
pub struct Flight<T> {
    // A std mutex: held for a look at an option, never across an await.
    current: Mutex<Option<watch::Receiver<Option<T>>>>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self { current: Mutex::new(None) }
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Joins the running work or starts `work`. `None` when it was cancelled or panicked.
    pub async fn join<F>(
        &self,
        tasks: &Tasks,
        name: &'static str,
        work: impl FnOnce() -> F + Send,
    ) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut receiver = self.start(tasks, name, work);
        let answer = receiver.wait_for(Option::is_some).await.ok()?;
        answer.clone()
    }

    /// Starts `work` unless it runs already; does not wait.
    pub fn start<F>(
        &self,
        tasks: &Tasks,
        name: &'static str,
        work: impl FnOnce() -> F + Send,
    ) -> watch::Receiver<Option<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = current.as_ref() {
            // Still in the air: nobody has an answer yet and the worker lives.
            if running.borrow().is_none() && running.has_changed().is_ok() {
                return running.clone();
            }
        }
        let (sender, receiver) = watch::channel(None);
        let work = work();
        tasks.spawn(name, async move {
            let answer = work.await;
            let _ = sender.send(Some(answer));
        });
        *current = Some(receiver.clone());
        receiver
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::{Flight, Tasks};

    #[tokio::test]
    async fn many_callers_share_one_run_and_the_next_call_runs_again() {
        let (tasks, flight, runs) =
            (Tasks::new(), Arc::new(Flight::default()), Arc::new(AtomicUsize::new(0)));
        let (release, gate) = oneshot::channel::<()>();
        let counted = Arc::clone(&runs);
        let first = flight.start(&tasks, "test", move || async move {
            let _ = gate.await;
            counted.fetch_add(1, Ordering::SeqCst)
        });
        let joined: Vec<_> = (0..20).map(|_| flight.start(&tasks, "test", || async { 99 })).collect();
        release.send(()).unwrap();
        for mut receiver in joined.into_iter().chain([first]) {
            assert_eq!(*receiver.wait_for(Option::is_some).await.unwrap(), Some(0));
        }
        assert_eq!(flight.join(&tasks, "test", || async { 7 }).await, Some(7));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_panicking_run_answers_none_and_does_not_block_the_next() {
        let (tasks, flight) = (Tasks::new(), Flight::<u32>::default());
        assert_eq!(flight.join(&tasks, "test", || async { panic!("on purpose") }).await, None);
        assert_eq!(flight.join(&tasks, "test", || async { 1 }).await, Some(1));
        assert_eq!(tasks.panics(), 1);
    }
}
