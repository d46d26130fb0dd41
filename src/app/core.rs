//! The core without doors: for commands that ask the servers what the gateway would ask, and leave.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::build;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::net::Budget;
use crate::outbound::link::stdio::harden_process;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;

/// What servers get to end themselves, and then tasks.
const GRACE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(2));

/// The servers of a configuration and what they offer; no socket listens.
#[derive(Debug)]
pub struct Core {
    /// The core.
    pub gateway: Gateway,
    tasks: Tasks,
}

impl Core {
    /// Builds the rooms; servers are contacted behind it. An error: `serve` could not start either.
    pub fn start(config: Config) -> anyhow::Result<Self> {
        if harden_process().is_err() {
            tracing::warn!("the process could not be made non-dumpable");
        }
        let config = Arc::new(config);
        let tasks = Tasks::new();
        let metrics = Arc::new(Metrics::new().context("metrics")?);
        let budget = Budget::new(config.gateway.max_buffered);
        // What a running gateway keeps on disk is neither asked nor touched.
        let gateway = build(&config, &tasks, &metrics, &budget, None)?;
        Ok(Self { gateway, tasks })
    }

    /// Ends every session, reaps every child; bounded.
    pub async fn stop(self) {
        let (servers, tasks) = GRACE;
        if tokio::time::timeout(servers, self.gateway.servers.stop()).await.is_err() {
            tracing::warn!("a server did not end in time");
        }
        self.tasks.shutdown(tasks).await;
    }
}
