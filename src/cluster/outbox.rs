//! What is to be told the others once Redis is there: bounded, in order, never waited for.

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use redis::Script;
use tokio::sync::Notify;

use super::link::Away;
use super::news::{CHANNEL, Change, GENERATIONS, Said};
use super::{Cluster, owners};

/// Beyond it the oldest is given up: a session that ended may then be taken up again by its id until that expires.
const MOST: usize = 20_000;

/// A session has ended; that is known as long as its id could be shown.
static END: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) return redis.call('PUBLISH', ARGV[3], '0 ' .. ARGV[4])",
    )
});
/// A change is counted and told.
static CHANGE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local count = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
         return redis.call('PUBLISH', ARGV[2], count .. ' ' .. ARGV[3])",
    )
});

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// A session has ended; its id would have been valid for so long.
    Ended(String, Duration),
    Changed(Change),
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    // A std mutex: held to move one entry.
    waiting: Mutex<VecDeque<Outgoing>>,
    filled: Notify,
}

impl Outbox {
    pub(super) fn put(&self, outgoing: Outgoing) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(outgoing, Outgoing::Changed(_)) && waiting.contains(&outgoing) {
            return;
        }
        if waiting.len() >= MOST {
            waiting.pop_front();
        }
        waiting.push_back(outgoing);
        drop(waiting);
        self.filled.notify_one();
    }

    fn first(&self) -> Option<Outgoing> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).front().cloned()
    }

    fn done(&self, sent: &Outgoing) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.front() == Some(sent) {
            waiting.pop_front();
        }
    }

    /// Resolves when something waits that was not seen yet.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }
}

impl Cluster {
    /// Tells all that waits; what could not be told stays.
    pub(super) async fn send_all(&self) -> Result<(), Away> {
        while let Some(outgoing) = self.outbox.first() {
            self.send(&outgoing).await?;
            self.outbox.done(&outgoing);
        }
        Ok(())
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<(), Away> {
        let script = match outgoing {
            Outgoing::Ended(name, life) => {
                let mut end = END.prepare_invoke();
                end.key(owners::key(name)).arg(owners::ENDED).arg(life.as_secs().max(1));
                end.arg(CHANNEL).arg(self.message(Said::Ended(name.clone())));
                end
            }
            Outgoing::Changed(change) => {
                let mut tell = CHANGE.prepare_invoke();
                tell.key(GENERATIONS).arg(change.field());
                tell.arg(CHANNEL).arg(self.message(Said::Changed(change.clone())));
                tell
            }
        };
        self.link.ask(async |mut redis| script.invoke_async::<u64>(&mut redis).await).await.map(|_| ())
    }
}
