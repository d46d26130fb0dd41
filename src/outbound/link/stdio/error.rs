//! Every way a child's link fails; no path, argument or environment value in any of them.

use std::io;
use std::time::Duration;

/// Why a child could not be started or a message got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The process could not be started; nothing was sent.
    #[error("the process cannot be started ({what}: {reason})")]
    Spawn {
        /// The part of the start that failed.
        what: &'static str,
        /// The system's words for it.
        reason: String,
    },
    /// The process ended, or closed its output, before it answered.
    #[error("the process ended before it answered")]
    Exited,
    /// The process wrote a line longer than `max_line` and was stopped.
    #[error("the process wrote a message that is too long, and was stopped")]
    Overflow,
    /// The answer with this id breaks JSON-RPC (design §2: a key twice, both result and error, …).
    #[error("the process answered with a malformed message")]
    Malformed,
    /// From `send` and `connect`: nothing was sent. From an inbox: we stopped the process before it answered, or
    /// the answer was already taken.
    #[error("the link is closed")]
    Closed,
    /// The process failed too often lately; nothing was started.
    #[error("the process failed, the next start is possible in {} ms", retry_after.as_millis())]
    BackedOff {
        /// How long no start will be tried.
        retry_after: Duration,
    },
}

impl LinkError {
    /// A failed start. Only the system's text for the error goes in, never a path.
    pub(super) fn spawn(what: &'static str, error: &io::Error) -> Self {
        let reason = match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code).to_string(),
            None => error.kind().to_string(),
        };
        Self::Spawn { what, reason }
    }
}
