//! Every way we refuse or fail; what it looks like on the wire is decided in `inbound/error.rs`.

use std::sync::Arc;

use super::limits::Limited;
use crate::outbound::{Failure, OutboundError};
use crate::protocol::code;
use crate::protocol::items::json_string;
use crate::protocol::message::RpcError;
use crate::protocol::meta::RETRY_AFTER;
use crate::protocol::object::ObjectError;
use crate::telemetry::Outcome;

/// A request that ends in a JSON-RPC error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GatewayError {
    /// Not in our table, or not offered at this endpoint (M-30).
    #[error("method not found")]
    UnknownMethod,
    /// No such tool or prompt in this caller's view (M-43): never says whether it exists elsewhere.
    #[error("unknown {0}")]
    UnknownItem(&'static str),
    /// Nobody in this caller's view owns the URI (M-42).
    #[error("unknown resource")]
    UnknownResource(String),
    /// The parameters are not what the method takes.
    #[error("{0}")]
    InvalidParams(&'static str),
    /// The message itself is ambiguous (design §2).
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// An `Mcp-Param-*` header disagrees with the arguments (H-52).
    #[error("header {0} does not match the arguments")]
    ParamHeader(String),
    /// A server cannot go on without a capability the client did not declare; `data` as it gave it (M-36).
    #[error("{}", .0.message)]
    Capability(RpcError),
    /// A server's own error, relayed (M-44).
    #[error("{}", .0.message)]
    Relayed(RpcError),
    /// A server behind us failed; for tool calls this is a result instead.
    #[error("{}", sentence(.0))]
    Server(#[from] OutboundError),
    /// The process has more to do than it can.
    #[error("The gateway has too much to do just now, and the call was not made. Try again in some seconds.")]
    Overloaded,
    /// A server's call waits for its client, or should; for tool calls this is a result instead.
    #[error("{}", .1.sentence(.0))]
    Parked(Arc<str>, NotParked),
    /// This call of a tool cannot be made as it is: why, and what to do. For the model.
    #[error("{0}")]
    Held(String, Outcome),
    /// A `[[limit]]` is reached; for tool calls there is a result that says it.
    #[error("{}", .0.said)]
    Limited(Box<Limited>),
    /// The caller lacks scopes; all that this needs.
    #[error("this needs the scopes: {}", .0.join(" "))]
    Scope(Vec<String>),
    /// A fault of the answer or of ours.
    #[error("{0}")]
    Internal(&'static str),
}

impl GatewayError {
    /// What is said to a request that still runs at the end of the drain.
    pub const STOPPED: Self =
        Self::Internal("the gateway is stopping and gave this request up; it may have had effects");

    /// Whether a model can act on it: then a tool call has a result that says it (design §6).
    pub const fn is_for_the_model(&self) -> bool {
        matches!(self, Self::Server(_) | Self::Overloaded | Self::Parked(..))
    }

    /// The JSON-RPC code.
    pub const fn code(&self) -> i32 {
        match self {
            Self::UnknownMethod => code::METHOD_NOT_FOUND,
            Self::UnknownItem(_) | Self::UnknownResource(_) | Self::InvalidParams(_) => code::INVALID_PARAMS,
            Self::InvalidRequest(_) => code::INVALID_REQUEST,
            Self::ParamHeader(_) => code::HEADER_MISMATCH,
            Self::Capability(_) => code::MISSING_CAPABILITY,
            Self::Relayed(error) => error.code,
            // We have no codes of our own (M-40); the status says more.
            Self::Server(_)
            | Self::Parked(..)
            | Self::Scope(_)
            | Self::Internal(_)
            | Self::Held(..)
            | Self::Limited(_)
            | Self::Overloaded => code::INTERNAL_ERROR,
        }
    }

    /// `error.data` as JSON text.
    pub fn data(&self) -> Option<String> {
        match self {
            Self::Capability(error) | Self::Relayed(error) => error.data.clone(),
            Self::UnknownResource(uri) => Some(format!("{{\"uri\":{}}}", json_string(uri))),
            Self::Scope(scopes) => {
                let all: Vec<String> = scopes.iter().map(|scope| json_string(scope)).collect();
                Some(format!("{{\"dev.gatehouse/scopes\":[{}]}}", all.join(",")))
            }
            Self::Limited(limited) => Some(format!("{{\"{RETRY_AFTER}\":{}}}", limited.millis())),
            _ => None,
        }
    }

    /// The outcome to record.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::ParamHeader(_) => Outcome::HeaderMismatch,
            Self::Capability(_) | Self::Relayed(_) => Outcome::RpcError,
            Self::Server(error) => failure_outcome(&error.failure),
            Self::Overloaded | Self::Parked(_, NotParked::Full) => Outcome::Limited,
            Self::Parked(_, NotParked::Lost) => Outcome::Unavailable,
            Self::Held(_, outcome) => *outcome,
            Self::Scope(_) => Outcome::Denied,
            Self::Limited(_) => Outcome::Limited,
            Self::Internal(_) => Outcome::Internal,
            _ => Outcome::BadRequest,
        }
    }
}

/// Why a call that waits for its client's answers does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotParked {
    /// This caller has as many such calls as it may.
    Full,
    /// The process that kept it is gone, or ends.
    Lost,
}

impl NotParked {
    fn sentence(self, server: &str) -> String {
        match self {
            Self::Full => format!(
                "The server \"{server}\" asked for input, but too many of your calls wait for answers already, so the call was cancelled. Answer or drop some of those, then repeat it. The call may have had effects; check before you repeat it."
            ),
            Self::Lost => format!(
                "The call to the server \"{server}\" waited for input and was lost. The call may have had effects; check before you repeat it."
            ),
        }
    }
}

impl From<ObjectError> for GatewayError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::NotObject => Self::InvalidParams("a parameter has the wrong type"),
            ObjectError::Duplicate => Self::InvalidRequest("a key of the message occurs twice"),
            _ => Self::InvalidRequest("a key of the message is not Unicode text"),
        }
    }
}

/// The outcome of a failed exchange.
const fn failure_outcome(failure: &Failure) -> Outcome {
    match failure {
        Failure::Unavailable(_)
        | Failure::Exited
        | Failure::Status(_)
        | Failure::Credentials(_)
        | Failure::NoToken(_) => Outcome::Unavailable,
        Failure::Timeout(_) => Outcome::Timeout,
        Failure::TooLarge(_) | Failure::Overflow(_) => Outcome::TooLarge,
        Failure::Buffered | Failure::Busy => Outcome::Limited,
        Failure::Malformed(_) | Failure::HeaderMismatch | Failure::Version => Outcome::Internal,
    }
}

/// A number of bytes as people say it.
fn size(bytes: usize) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// What a model or a person can do about it: names the server, holds no address and no secret.
fn sentence(error: &OutboundError) -> String {
    let server = &error.server;
    let effects = if error.sent { " The call may have had effects; check before you repeat it." } else { "" };
    match &error.failure {
        Failure::Unavailable(_) | Failure::Exited => {
            format!("The server \"{server}\" is unavailable. Try again later or do without it.{effects}")
        }
        Failure::Status(status) => format!(
            "The server \"{server}\" answered with HTTP status {status}. Try again later or do without it."
        ),
        Failure::Credentials(_) => format!(
            "The server \"{server}\" refused the gateway's credentials. Tell its operator; repeating does not help."
        ),
        Failure::NoToken(_) => format!(
            "The gateway has no credentials for the server \"{server}\". Try again later; if that does not help, tell its operator."
        ),
        Failure::Timeout(limit) => format!(
            "The server \"{server}\" did not answer within {} s (timeout).{effects}",
            limit.as_secs_f64()
        ),
        Failure::TooLarge(limit) | Failure::Overflow(limit) => format!(
            "The result of the server \"{server}\" is too large: it exceeds {} ({limit} bytes). Ask for less: narrow the query, filter or page.",
            size(*limit)
        ),
        Failure::Buffered => {
            format!("The gateway holds too much data to take the answer of \"{server}\". Try again shortly.")
        }
        Failure::Busy => {
            format!("The server \"{server}\" has too many calls running. Try again shortly.")
        }
        Failure::Malformed(_) | Failure::HeaderMismatch | Failure::Version => {
            format!(
                "The server \"{server}\" gave an answer that is not valid MCP. Tell its operator.{effects}"
            )
        }
    }
}
