//! The process group of a child: signalled as one, so that grandchildren do not outlive it (F-036d).

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::time::Instant;

/// Between two looks whether a group is empty: the system has no event for it.
const POLL: Duration = Duration::from_millis(10);

/// A group whose leader is our child. Its number stays taken while it has any member.
#[derive(Debug)]
pub(super) struct Group(Pid);

impl Group {
    /// The group that the child with this process id leads.
    pub(super) fn of(leader: u32) -> Option<Self> {
        // 0 and 1 would mean other groups than a child's.
        i32::try_from(leader).ok().filter(|pid| *pid > 1).map(|pid| Self(Pid::from_raw(pid)))
    }

    /// Signals all members; no member left is fine.
    pub(super) fn signal(&self, signal: Signal) {
        match killpg(self.0, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => {
                tracing::warn!(group = self.0.as_raw(), %signal, %error, "a signal was not delivered")
            }
        }
    }

    /// Whether no member is left. Only after the leader was reaped: members whose parent died are ours to reap
    /// when we are process 1 of a container.
    fn is_empty(&self) -> bool {
        while waitpid(Pid::from_raw(-self.0.as_raw()), Some(WaitPidFlag::WNOHANG))
            .is_ok_and(|status| status.pid().is_some())
        {}
        killpg(self.0, None) == Err(Errno::ESRCH)
    }

    /// Waits until no member is left; false when `deadline` came first.
    pub(super) async fn emptied(&self, deadline: Instant) -> bool {
        while !self.is_empty() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(POLL).await;
        }
        true
    }
}
