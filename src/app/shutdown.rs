//! Not ready → stop accepting → finish what runs within the deadline → end servers and tasks.

use std::time::Duration;

use super::App;

/// What servers and tasks get after the drain, to end themselves: the kill ladder takes two graces.
const LAST_GRACE: Duration = Duration::from_secs(6);

/// What the audit log gets to be written to its end.
const AUDIT: Duration = Duration::from_secs(2);

impl App {
    /// Drains and ends; returns when every child is reaped and every task has ended or the deadlines are over.
    pub async fn stop(self) {
        self.readiness.drain();
        tracing::info!(timeout = ?self.drain_timeout, "draining");
        self.gateway.drain();
        self.drain.cancel();
        if tokio::time::timeout(self.drain_timeout, self.served).await.is_err() {
            tracing::warn!("calls still running at the end of drain_timeout are cut");
        }
        if tokio::time::timeout(LAST_GRACE, self.gateway.servers.stop()).await.is_err() {
            tracing::warn!("a server did not end in time");
        }
        self.close.cancel();
        if !self.tasks.shutdown(Duration::from_secs(2)).await {
            tracing::warn!(running = self.tasks.running(), "tasks did not end in time");
        }
        // Last of all: calls that were cut have their lines too.
        if let Some(audit) = &self.audit
            && tokio::time::timeout(AUDIT, audit.close()).await.is_err()
        {
            tracing::warn!("the audit log was not written in time");
        }
        tracing::info!("stopped");
    }
}
