//! Not ready → parked calls finish → stop accepting → finish what runs within the deadline → end servers and tasks.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{App, usage};

/// What servers and tasks get after the drain, to end themselves: the kill ladder takes two graces.
const LAST_GRACE: Duration = Duration::from_secs(6);

/// What calls get to be answered that were given up at the end of the drain.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The part of `drain_timeout` for which a call is kept whose client was asked something and may have left for good.
const PATIENCE: u32 = 3;

impl App {
    /// Drains and ends; returns when every child is reaped and every task has ended or the deadlines are over.
    pub async fn stop(self) {
        let drain_timeout = self.gateway.snapshot().config.gateway.drain_timeout;
        self.readiness.drain();
        self.settled.cancel();
        // A configuration that is half way in is all the way in first.
        drop(self.reloader.turn.lock().await);
        tracing::info!(timeout = ?drain_timeout, "draining");
        self.gateway.drain(drain_timeout / PATIENCE);
        let mut until = Instant::now() + drain_timeout;
        // Who was asked something comes back by another connection: until the last of them has, we listen.
        if timeout_at(until, self.gateway.unparked()).await.is_err() {
            tracing::warn!(
                "calls still waiting for their clients' answers at the end of drain_timeout are given up"
            );
            until += LAST_WORDS;
        }
        // From now on nobody could come back.
        if timeout(LAST_GRACE, self.gateway.give_up_parked()).await.is_err() {
            tracing::warn!("a server was not told in time that its call is given up");
        }
        self.drain.cancel();
        let (mut clients, replicas, lanes) = self.served;
        if timeout_at(until, &mut clients).await.is_err() {
            tracing::warn!("calls still running at the end of drain_timeout are cut");
            self.gateway.cut();
            self.reloader.door.sessions.cut();
            // Their clients are told.
            let _ = timeout(LAST_WORDS, &mut clients).await;
        }
        if let Some(replicas) = replicas {
            let until = until.max(Instant::now() + LAST_WORDS);
            if timeout_at(until, replicas.stop()).await.is_err() {
                tracing::warn!("calls of other replicas still running at the end of drain_timeout are cut");
            }
        }
        if timeout(LAST_GRACE, self.gateway.servers.stop()).await.is_err() {
            tracing::warn!("a server did not end in time");
        }
        usage::close(self.gateway.snapshot().config.gateway.state_dir.as_deref(), &self.gateway.metrics);
        self.close.cancel();
        if !self.tasks.shutdown(Duration::from_secs(2)).await {
            tracing::warn!(running = self.tasks.running(), "tasks did not end in time");
        }
        // Last: not only connections of clients run there, but all that was begun for one.
        drop(lanes);
        self.sight.close(self.gateway.audit()).await;
        tracing::info!("stopped");
    }
}
