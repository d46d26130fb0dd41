//! The stdio link: one server, at most one child process at a time, started when it is needed.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
pub use super::error::LinkError;
use super::mux::lock;
use crate::config;
use crate::tasks::Tasks;

mod account;
mod child;
mod connection;
mod counts;
mod group;
mod home;
mod launch;
mod lines;
mod reader;
mod stderr;
#[cfg(test)]
mod tests;
mod writer;

pub use account::Account;
pub use connection::Connection;
pub use counts::Counts;
pub use launch::{LAUNCHER, harden_process};

use child::Watched;
use connection::Shared;
use counts::Counters;
use home::Home;
use stderr::Voice;

/// How a link treats its children.
#[derive(Debug, Clone)]
pub struct StdioOptions {
    /// The server's name, for logs and its home directory.
    pub server: String,
    /// The longest message in bytes; a longer one ends the child (F-040). One queue holds as much.
    pub max_line: usize,
    /// `state_dir`: homes last there; `None`: a temporary home for the life of the link.
    pub state_dir: Option<PathBuf>,
    /// The pauses of the kill ladder.
    pub grace: Grace,
    /// What `gatehouse` as `command[0]` and the launcher for `user` and `rlimit` stand for; `None`: the running
    /// executable.
    pub executable: Option<PathBuf>,
}

impl StdioOptions {
    /// The usual options.
    pub fn new(server: impl Into<String>, max_line: usize) -> Self {
        Self { server: server.into(), max_line, state_dir: None, grace: Grace::default(), executable: None }
    }
}

/// The pauses of the kill ladder (G-55).
#[derive(Debug, Clone, Copy)]
pub struct Grace {
    /// From closing its input to SIGTERM.
    pub eof: Duration,
    /// From SIGTERM to SIGKILL.
    pub term: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self { eof: Duration::from_secs(2), term: Duration::from_secs(2) }
    }
}

/// One server's link. Clones are the same link; when the last is dropped its child is stopped.
#[derive(Clone)]
pub struct StdioLink(Arc<Inner>);

struct Inner {
    spec: config::Command,
    options: StdioOptions,
    tasks: Tasks,
    /// Single flight of starts, over waiting for the child before: hence an async lock, taken by starts and stops only.
    flight: tokio::sync::Mutex<Flight>,
    current: Mutex<Option<Connection>>,
    backoff: Arc<Mutex<Backoff>>,
    generations: AtomicU64,
    counters: Arc<Counters>,
    stopped: CancellationToken,
}

#[derive(Default)]
struct Flight {
    home: Option<Arc<Home>>,
}

impl StdioLink {
    /// A link without a child yet.
    pub fn new(spec: config::Command, options: StdioOptions, tasks: Tasks) -> Self {
        Self(Arc::new(Inner {
            spec,
            options,
            tasks,
            flight: tokio::sync::Mutex::default(),
            current: Mutex::default(),
            backoff: Arc::default(),
            generations: AtomicU64::new(0),
            counters: Arc::default(),
            stopped: CancellationToken::new(),
        }))
    }

    /// The running child; starts one when there is none, after the last one is gone with its group. Starts are
    /// held back after failures: 1 s doubling to 60 s, from the second failure in a row on (F-037).
    ///
    /// Cancel-safe. Errors: [`LinkError::Spawn`], [`LinkError::BackedOff`], [`LinkError::Closed`] after
    /// [`StdioLink::stop`].
    pub async fn connect(&self) -> Result<Connection, LinkError> {
        if let Some(connection) = self.running() {
            return Ok(connection);
        }
        let inner = &self.0;
        let mut flight = inner.flight.lock().await;
        let last = lock(&inner.current).clone();
        match last {
            Some(connection) if connection.is_running() => return Ok(connection),
            Some(last) => last.gone().await,
            None => {}
        }
        if inner.stopped.is_cancelled() {
            return Err(LinkError::Closed);
        }
        if let Some(retry_after) = lock(&inner.backoff).wait(Instant::now()) {
            return Err(LinkError::BackedOff { retry_after });
        }
        let started = inner.start(&mut flight);
        if let Err(error) = &started {
            tracing::warn!(server = inner.options.server, %error, "the server's process was not started");
            lock(&inner.backoff).failed(Instant::now());
        }
        started
    }

    /// The running child, if there is one.
    pub fn running(&self) -> Option<Connection> {
        lock(&self.0.current).clone().filter(Connection::is_running)
    }

    /// Whether a child is running.
    pub fn is_up(&self) -> bool {
        self.running().is_some()
    }

    /// Whether there is no child, and none may be started yet (F-037).
    pub fn is_held_back(&self) -> bool {
        !self.is_up() && lock(&self.0.backoff).wait(Instant::now()).is_some()
    }

    /// Starts after the first (`gatehouse_child_restarts_total`).
    pub fn restarts(&self) -> u64 {
        self.0.generations.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// What is worth counting about this server's children.
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    /// Ends the link: closes the child's input, waits, SIGTERM to its group, waits, SIGKILL to its group, reaps
    /// (G-55). Answers that come meanwhile are delivered at once (F-036). Returns when the whole group is gone.
    /// Must run before [`Tasks::shutdown`], which leaves only SIGKILL.
    pub async fn stop(&self) {
        let inner = &self.0;
        inner.stopped.cancel();
        inner.stop_current().await;
        let home = inner.flight.lock().await.home.take();
        // A start that was under way has ended: the flight is ours.
        inner.stop_current().await;
        if let Some(home) = home {
            home.remove().await;
        }
    }
}

impl fmt::Debug for StdioLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioLink").field("server", &self.0.options.server).finish_non_exhaustive()
    }
}

impl Inner {
    async fn stop_current(&self) {
        let current = lock(&self.current).clone();
        if let Some(connection) = current {
            connection.stop();
            connection.gone().await;
        }
    }

    fn start(&self, flight: &mut Flight) -> Result<Connection, LinkError> {
        let home = self.home(flight)?;
        let home_path = home.as_deref().map(Home::path);
        let child = launch::spawn(&self.spec, self.options.executable.as_deref(), home_path)?;
        let server: Arc<str> = self.options.server.as_str().into();
        let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        let program = self.spec.argv.first().map(String::as_str);
        tracing::info!(
            server = &*server,
            generation,
            pid = child.id(),
            program,
            "the server's process started"
        );
        let counters = Arc::clone(&self.counters);
        let (shared, queue) =
            Shared::new(Arc::clone(&server), generation, self.options.max_line, Arc::clone(&counters));
        let secrets = self.spec.env.values().cloned().collect();
        let watched = Watched {
            child,
            started: Instant::now(),
            shared: Arc::clone(&shared),
            backoff: Arc::clone(&self.backoff),
            grace: self.options.grace,
            home,
        };
        child::watch(watched, queue, Voice { server, secrets, counters }, &self.tasks)?;
        let connection = Connection::new(shared);
        *lock(&self.current) = Some(connection.clone());
        Ok(connection)
    }

    /// The private home, unless `env` names another.
    fn home(&self, flight: &mut Flight) -> Result<Option<Arc<Home>>, LinkError> {
        if self.spec.env.contains_key("HOME") {
            return Ok(None);
        }
        if let Some(home) = flight.home.as_ref().filter(|home| home.exists()) {
            return Ok(Some(Arc::clone(home)));
        }
        let account = self.spec.user.as_deref().map(Account::find).transpose();
        let account = account.map_err(|error| LinkError::spawn("user", &error))?;
        let options = &self.options;
        let home = Home::make(options.state_dir.as_deref(), &options.server, account.as_ref());
        let home = Arc::new(home.map_err(|error| LinkError::spawn("home directory", &error))?);
        flight.home = Some(Arc::clone(&home));
        Ok(Some(home))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(connection) = &*lock(&self.current) {
            connection.stop();
        }
    }
}
