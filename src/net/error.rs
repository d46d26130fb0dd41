//! How a request to a server can fail, and whether the server may have seen it.

use std::error::Error;
use std::fmt;

/// Where a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The host name has no address.
    Resolve,
    /// No TCP connection (or no HTTP/2 preface) in time.
    Connect,
    /// No trust or no agreement on TLS.
    Tls,
    /// The proxy refused or broke.
    Proxy,
    /// The request did not go out whole.
    Send,
    /// No answer came, or it is not HTTP.
    Response,
    /// The answer's body broke off.
    Body,
    /// Every connection is in use.
    Busy,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Proxy => "proxy",
            Self::Send => "send",
            Self::Response => "response",
            Self::Body => "body",
            Self::Busy => "busy",
        })
    }
}

/// A failed request. Its text is for the operator (it may name hosts), never holds secrets or bodies.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{stage}: {message}")]
pub struct ClientError {
    /// Where it failed.
    pub stage: Stage,
    /// Whether the server may have received the request: if not, it is safe to send it again.
    pub sent: bool,
    message: String,
}

impl ClientError {
    /// A failure before anything of the request left.
    pub(super) fn unsent(stage: Stage, message: impl Into<String>) -> Self {
        Self { stage, sent: false, message: message.into() }
    }

    /// A failure after the request may have reached the server.
    pub(super) fn sent(stage: Stage, cause: &dyn Error) -> Self {
        Self { stage, sent: true, message: chain(cause) }
    }
}

/// An error and its causes in one line, without repeating what a text already says.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
