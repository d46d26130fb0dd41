//! Every way a connection of many requests fails; no path, argument, address or environment value in any of them.

use std::io;
use std::time::Duration;

/// Why there is no connection, or a message got no answer.
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
    /// A message was longer than allowed; the process was stopped, the stream closed.
    #[error("a message exceeds {0} bytes, and the connection was given up")]
    Overflow(usize),
    /// The event stream ended, or broke, before the answer (G-72).
    #[error("the stream ended before the answer")]
    Lost,
    /// The process held too many bytes (`max_buffered`) when the answer came.
    #[error("too much data is being buffered")]
    Buffered,
    /// The answer with this id breaks JSON-RPC (design §2: a key twice, both result and error, …).
    #[error("the answer is a malformed message")]
    Malformed,
    /// From `send` and `connect`: nothing was sent. From an inbox: we ended the connection before the answer, or
    /// the answer was already taken.
    #[error("the link is closed")]
    Closed,
    /// It failed too often lately; nothing was started.
    #[error("it failed lately, the next start is possible in {} ms", retry_after.as_millis())]
    BackedOff {
        /// How long no start will be tried.
        retry_after: Duration,
    },
}

impl LinkError {
    /// A failed start. Only the system's text for the error goes in, never a path.
    pub(in crate::outbound::link) fn spawn(what: &'static str, error: &io::Error) -> Self {
        let reason = match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code).to_string(),
            None => error.kind().to_string(),
        };
        Self::Spawn { what, reason }
    }
}
