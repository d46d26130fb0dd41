//! The life of one child: its tasks, the watch for its exit, the kill ladder, the reaping (G-55, F-036, F-037).

use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::{Shared, Why};
use super::group::Group;
use super::home::Home;
use super::stderr::Voice;
use super::{Grace, reader, stderr, writer};
use crate::outbound::link::backoff::Backoff;
use crate::outbound::link::error::LinkError;
use crate::outbound::link::mux::lock;
use crate::tasks::Tasks;

/// After an exit: how long output that some escaped process keeps open may delay the failure of what waits.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long killed processes may take to vanish before we stop waiting for them.
const VANISH: Duration = Duration::from_secs(10);

/// A started child and what watches it.
pub(super) struct Watched {
    pub(super) child: Child,
    pub(super) started: Instant,
    pub(super) shared: Arc<Shared>,
    pub(super) backoff: Arc<Mutex<Backoff>>,
    pub(super) grace: Grace,
    /// Held so that a temporary home lasts as long as the child.
    pub(super) home: Option<Arc<Home>>,
}

/// Starts the tasks around a new child.
pub(super) fn watch(
    mut watched: Watched,
    queue: tokio::sync::mpsc::Receiver<Vec<bytes::Bytes>>,
    voice: Voice,
    tasks: &Tasks,
) -> Result<(), LinkError> {
    let child = &mut watched.child;
    let pipes =
        (child.stdin.take(), child.stdout.take(), child.stderr.take(), child.id().and_then(Group::of));
    let (Some(stdin), Some(stdout), Some(stderr), Some(group)) = pipes else {
        return Err(LinkError::spawn("pipes", &std::io::ErrorKind::BrokenPipe.into()));
    };
    let leash = Leash { group, slack: false, shared: Arc::clone(&watched.shared) };
    let shared = Arc::clone(&watched.shared);
    tasks.spawn("stdio stdin", async move { writer::write(stdin, queue, &shared).await });
    let shared = Arc::clone(&watched.shared);
    let reader = tasks.spawn("stdio stdout", async move { reader::read(stdout, &shared).await });
    let listener = tasks.spawn("stdio stderr", stderr::drain(stderr, voice));
    tasks.spawn("stdio child", supervise(leash, watched, [reader, listener]));
    Ok(())
}

/// Kills the group when the supervisor itself is dropped: no path leaves a process behind.
struct Leash {
    group: Group,
    /// The group is gone: its number may belong to others by now.
    slack: bool,
    shared: Arc<Shared>,
}

impl Drop for Leash {
    fn drop(&mut self) {
        if !self.slack {
            self.group.signal(Signal::SIGKILL);
        }
        self.shared.begin_stop(Why::Stop);
        self.shared.close(LinkError::Closed);
        self.shared.gone.cancel();
    }
}

async fn supervise(mut leash: Leash, mut watched: Watched, ears: [JoinHandle<()>; 2]) {
    let shared = Arc::clone(&watched.shared);
    let exited = tokio::select! {
        biased;
        status = watched.child.wait() => Some(status.ok()),
        () = shared.stopping.cancelled() => None,
    };
    let uptime = watched.started.elapsed();
    shared.begin_stop(Why::Failure);
    let status = match exited {
        Some(status) => {
            // Its orphans serve nobody, and keep the output open on which answers are awaited.
            leash.group.signal(Signal::SIGKILL);
            status
        }
        None => ladder(&mut watched.child, &leash.group, watched.grace, shared.why()).await,
    };
    let [reader, listener] = ears;
    ended(reader, LAST_WORDS).await;
    shared.close_ended();
    report(&shared, status, uptime);
    leash.slack = leash.group.emptied(Instant::now() + VANISH).await;
    if !leash.slack {
        tracing::error!(server = &*shared.server, "processes of the server's group survive being killed");
        leash.slack = true;
    }
    let now = Instant::now();
    match shared.why() {
        Why::Failure => lock(&watched.backoff).ended(uptime, now),
        Why::Abandoned => lock(&watched.backoff).failed(now),
        Why::Stop => {}
    }
    drop(watched.home.take());
    drop(leash);
    ended(listener, VANISH).await;
}

/// Close its input (the writer does) → wait → SIGTERM to the group → wait → SIGKILL to the group → reap.
async fn ladder(child: &mut Child, group: &Group, grace: Grace, why: Why) -> Option<ExitStatus> {
    let start = Instant::now();
    let (terminate, kill) = (start + grace.eof, start + grace.eof + grace.term);
    let mut status = timeout_at(terminate, child.wait()).await;
    if status.is_err() {
        group.signal(Signal::SIGTERM);
        status = timeout_at(kill, child.wait()).await;
    }
    let leader_left = status.is_ok();
    // Members that outlive their leader: time to end well when we asked for the stop, none after a failure.
    if leader_left && why == Why::Stop {
        group.signal(Signal::SIGTERM);
        if group.emptied(kill.min(Instant::now() + grace.term)).await {
            return status.ok()?.ok();
        }
    }
    group.signal(Signal::SIGKILL);
    if status.is_err() {
        status = timeout(VANISH, child.wait()).await;
    }
    status.ok()?.ok()
}

/// Lets a pipe's task read to the end; a process outside the group that keeps the pipe open cannot hold us.
async fn ended(mut task: JoinHandle<()>, limit: Duration) {
    if timeout(limit, &mut task).await.is_err() {
        task.abort();
    }
}

fn report(shared: &Shared, status: Option<ExitStatus>, uptime: Duration) {
    let (server, generation) = (&*shared.server, shared.generation);
    let status = status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
    let uptime_ms = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
    match shared.why() {
        Why::Failure => tracing::warn!(server, generation, status, uptime_ms, "the server's process ended"),
        Why::Abandoned | Why::Stop => {
            tracing::info!(server, generation, status, uptime_ms, "the server's process was stopped");
        }
    }
}
