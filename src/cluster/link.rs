//! The connection to Redis: commands with short deadlines, and one place that knows whether it is there.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, PubSub};
use redis::{Client, RedisError, RedisResult};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::BadAddress;

/// What a command may take: a call waits for it.
const ANSWER: Duration = Duration::from_millis(250);
/// What a connection may take: nobody waits for it.
const CONNECT: Duration = Duration::from_secs(2);

/// Redis does not answer; who asked goes on alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Redis is away")]
pub struct Away;

/// One Redis server.
pub(super) struct Link {
    client: Client,
    /// Connects anew by itself; never asked while Redis is known to be away.
    manager: ConnectionManager,
    up: AtomicBool,
    lost: Notify,
    /// Why it was lost, for the log. A std mutex: held to change a text.
    reason: Mutex<String>,
}

impl Link {
    /// Nothing is connected yet. Within a runtime.
    pub(super) fn new(url: &str) -> Result<Self, BadAddress> {
        if url.starts_with("rediss:") {
            // Its TLS takes the process's provider; one that is there already stays.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        let client = Client::open(url).map_err(|_| BadAddress("it is no address"))?;
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER));
        let manager = ConnectionManager::new_lazy_with_config(client.clone(), config)
            .map_err(|_| BadAddress("no connection to it can be made"))?;
        let (up, lost) = (AtomicBool::new(false), Notify::new());
        Ok(Self { client, manager, up, lost, reason: Mutex::default() })
    }

    /// Whether it is there, as far as is known.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    pub(super) fn set_up(&self, up: bool) -> bool {
        self.up.swap(up, Ordering::Relaxed)
    }

    /// A command; no waiting while Redis is away, and no long one while it is not.
    pub(super) async fn ask<T, F>(&self, command: impl FnOnce(ConnectionManager) -> F) -> Result<T, Away>
    where
        F: Future<Output = RedisResult<T>>,
    {
        if !self.is_up() {
            return Err(Away);
        }
        self.try_now(command, ANSWER).await
    }

    /// The same although it is not known to be there.
    pub(super) async fn try_first<T, F>(
        &self,
        command: impl FnOnce(ConnectionManager) -> F,
    ) -> Result<T, Away>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.try_now(command, CONNECT).await
    }

    async fn try_now<T, F>(
        &self,
        command: impl FnOnce(ConnectionManager) -> F,
        limit: Duration,
    ) -> Result<T, Away>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let reason = match timeout(limit, command(self.manager.clone())).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => said(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        self.lose(reason);
        Err(Away)
    }

    /// It does not answer: nobody asks it any more until it was found again.
    pub(super) fn lose(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        self.set_up(false);
        self.lost.notify_one();
    }

    /// Why it was lost.
    pub(super) fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves when a command came to nothing.
    pub(super) async fn lost(&self) {
        self.lost.notified().await;
    }

    /// A connection of its own that hears a channel.
    pub(super) async fn hear(&self, channel: &str) -> Result<PubSub, Away> {
        let heard = async {
            let mut heard = self.client.get_async_pubsub().await?;
            heard.subscribe(channel).await?;
            Ok::<_, RedisError>(heard)
        };
        let reason = match timeout(CONNECT, heard).await {
            Ok(Ok(heard)) => return Ok(heard),
            Ok(Err(error)) => said(&error),
            Err(_) => "no connection in time".to_owned(),
        };
        self.lose(reason);
        Err(Away)
    }
}

/// What kind of error it is; its text could quote a command.
fn said(error: &RedisError) -> String {
    match error.code() {
        Some(code) => format!("{} ({code})", error.category()),
        None => error.category().to_owned(),
    }
}

impl fmt::Debug for Link {
    /// Without the address: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("up", &self.is_up()).finish_non_exhaustive()
    }
}
