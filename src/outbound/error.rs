//! How a request to a server can fail on our side of the answer.

use std::sync::Arc;
use std::time::Duration;

/// A request that got no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("server {server}: {failure}")]
pub struct OutboundError {
    /// The server's configured name.
    pub server: Arc<str>,
    /// What happened.
    pub failure: Failure,
    /// Whether the server may have acted on the request.
    pub sent: bool,
}

/// What happened. Texts hold no address, header or body of either side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Not reachable, or lost on the way.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Its process ended.
    #[error("the process ended")]
    Exited,
    /// An HTTP status without a JSON-RPC body.
    #[error("answered with HTTP status {0}")]
    Status(u16),
    /// Our credential was refused.
    #[error("refused our credentials with HTTP status {0}")]
    Credentials(u16),
    /// No token for it is to be had.
    #[error("no credentials: {0}")]
    NoToken(String),
    /// Silent for longer than allowed.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The answer exceeds `max_result`.
    #[error("the answer exceeds {0} bytes")]
    TooLarge(usize),
    /// A message on a shared connection exceeds `max_result`; the process was stopped, the stream closed.
    #[error("a message exceeds {0} bytes, and the connection was given up")]
    Overflow(usize),
    /// The process holds too many bytes (`max_buffered`).
    #[error("too much data is being buffered")]
    Buffered,
    /// All permits and queue places are taken.
    #[error("too many calls at once")]
    Busy,
    /// The answer is no JSON-RPC answer to this request.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// -32020 for our own headers: our view of its schemas is old (H-63).
    #[error("the server says our headers do not match")]
    HeaderMismatch,
    /// No revision in common.
    #[error("no common protocol version")]
    Version,
}

impl OutboundError {
    /// An error of this server.
    pub const fn new(server: Arc<str>, failure: Failure, sent: bool) -> Self {
        Self { server, failure, sent }
    }

    /// Whether what was presented to the server is not taken, or there is nothing to present.
    pub const fn is_refusal(&self) -> bool {
        matches!(self.failure, Failure::Credentials(_) | Failure::NoToken(_))
    }

    /// Whether the server looks dead rather than wrong.
    pub const fn is_down(&self) -> bool {
        matches!(self.failure, Failure::Unavailable(_) | Failure::Exited | Failure::Status(500..=599))
    }
}
