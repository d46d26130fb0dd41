//! Servers that left the configuration end when the last call of theirs has, whoever began it when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Server, Servers};

/// How often it is looked whether somebody still uses it.
const LOOK: Duration = Duration::from_millis(100);

/// Those that are about to end.
// A std mutex: held to change a list, never across an await.
#[derive(Debug, Clone, Default)]
pub(super) struct Retiring(Arc<Mutex<Vec<Arc<Server>>>>);

impl Retiring {
    pub(super) fn all(&self) -> Vec<Arc<Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn enter(&self, server: &Arc<Server>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(server));
    }

    fn leave(&self, server: &Arc<Server>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| !Arc::ptr_eq(known, server));
    }
}

impl Servers {
    /// Ends servers in the background, each once no call runs there and `left` says that nobody could begin one. What
    /// takes longer than its `max_timeout` and `parked` is cut: that long no call can run.
    pub fn retire(
        &self,
        gone: Vec<Arc<Server>>,
        parked: Duration,
        left: impl Fn() -> bool + Clone + Send + 'static,
    ) {
        for server in gone {
            self.retiring.enter(&server);
            server.ward.retire();
            let (list, retiring, metrics) =
                (Arc::clone(&self.list), self.retiring.clone(), Arc::clone(&self.shared.metrics));
            let left = left.clone();
            self.shared.tasks.spawn("retire server", async move {
                let latest = Instant::now() + server.config.max_timeout + parked;
                while !(left() && server.is_free()) && Instant::now() < latest {
                    sleep(LOOK).await;
                }
                if !server.is_free() {
                    tracing::warn!(server = %server.name, "a server left the configuration: its last calls are cut");
                }
                server.stop().await;
                retiring.leave(&server);
                if !list.load().iter().any(|kept| kept.name == server.name) {
                    metrics.forget(&server.name);
                }
                tracing::info!(server = %server.name, "a server that left the configuration has ended");
            });
        }
    }
}
