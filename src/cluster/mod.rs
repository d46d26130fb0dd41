//! What several replicas share by Redis (counters, owners, what is no longer valid; never payloads), and the sealed
//! letters between them (design §7). Nobody waits long for Redis: while it is away each replica goes on alone.
//!
//! Without `[cluster]` there is no [`Cluster`]: whoever has one asks an `Option`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

mod counters;
pub mod letter;
mod link;
pub mod news;
mod nonces;
mod outbox;
pub mod owners;

pub use letter::{Letter, Refused};
pub use link::Away;
pub use news::{Change, News};
pub use owners::{Claimed, Place};

use crate::config::Secret;
use crate::tasks::Tasks;
use link::Link;
use nonces::Nonces;
use outbox::Outbox;
use owners::Owners;

/// News that may wait for who hears them; beyond it they are told that they missed some.
const MOST_NEWS: usize = 1024;

/// One process of a fleet. Another one after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replica {
    /// Tells it from all others, also from itself after a restart.
    pub id: String,
    /// Host and port where other replicas reach it.
    pub at: String,
}

impl Replica {
    /// A process that was not there before.
    pub fn new(at: String) -> Self {
        Self { id: random(), at }
    }
}

/// This replica among the others.
pub struct Cluster {
    me: Replica,
    link: Link,
    owners: Owners,
    outbox: Outbox,
    news: broadcast::Sender<News>,
    nonces: Nonces,
}

impl Cluster {
    /// This replica, which others reach `at` a host and port. Redis is asked for in the background, and for ever.
    /// `life` is that of the longest session.
    ///
    /// # Errors
    ///
    /// The address is none, or nothing can be trusted for TLS.
    pub fn start(redis: &Secret, at: String, life: Duration, tasks: &Tasks) -> Result<Arc<Self>, BadAddress> {
        let cluster = Arc::new(Self {
            me: Replica::new(at),
            link: Link::new(redis.expose())?,
            owners: Owners::new(life),
            outbox: Outbox::default(),
            news: broadcast::Sender::new(MOST_NEWS),
            nonces: Nonces::default(),
        });
        tasks.spawn("redis", Arc::clone(&cluster).keep());
        Ok(cluster)
    }

    /// This replica.
    pub const fn me(&self) -> &Replica {
        &self.me
    }

    /// Whether Redis answers.
    pub fn is_joined(&self) -> bool {
        self.link.is_up()
    }

    /// What other replicas say, from now on.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("me", &self.me)
            .field("joined", &self.is_joined())
            .finish_non_exhaustive()
    }
}

/// `cluster.redis` cannot be used. Says nothing of what is in it.
#[derive(Debug, thiserror::Error)]
#[error("cluster.redis cannot be used: {0}")]
pub struct BadAddress(pub(crate) &'static str);

/// 16 random bytes as hexadecimal text.
fn random() -> String {
    let mut bytes = [0u8; 16];
    // Without entropy no seal could have been made either.
    let _ = rand::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
