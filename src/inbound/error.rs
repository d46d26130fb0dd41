//! The only place where an error becomes an HTTP status and a JSON-RPC code (H-14, H-15).

use http::StatusCode;

use crate::gateway::GatewayError;
use crate::protocol::code;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::{EnvelopeError, Id};
use crate::protocol::items::json_string;
use crate::protocol::message;
use crate::protocol::version::MODERN;

/// A JSON-RPC error with its status.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: i32,
    pub(super) message: String,
    /// `error.data` as JSON text.
    pub(super) data: Option<String>,
    /// Seconds after which it may be asked again.
    pub(super) retry_after: Option<u64>,
}

impl Refusal {
    fn new(status: StatusCode, code: i32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), data: None, retry_after: None }
    }

    /// 400/-32602: `_meta` or what must be in it is missing (H-25.1).
    pub(super) fn meta(message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, message)
    }

    /// 400/-32020 (H-31).
    pub(super) fn header(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, message)
    }

    /// 400/-32022 with what we speak (M-41).
    pub(super) fn version(requested: &str) -> Self {
        let message = format!("Protocol version not supported; this endpoint speaks {MODERN}");
        let data = format!("{{\"supported\":[\"{MODERN}\"],\"requested\":{}}}", json_string(requested));
        Self { data: Some(data), ..Self::new(StatusCode::BAD_REQUEST, code::UNSUPPORTED_VERSION, message) }
    }

    /// 404/-32601 (H-14).
    pub(super) fn method() -> Self {
        Self::new(StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND, "Method not found")
    }

    /// Any of them, with a message of ours.
    pub(super) fn rpc(status: StatusCode, code: i32, message: &'static str) -> Self {
        Self::new(status, code, message)
    }

    /// 400/-32600.
    pub(super) fn invalid(message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, message)
    }

    /// The message for a request of this id; without one where it could not be read (M-05).
    pub(super) fn message(&self, id: Option<&Id>) -> Parts {
        message::error(id, self.code, &self.message, self.data.as_deref())
    }
}

/// What is said to a request that failed: a finished result where a model has to read it, else an error.
pub(super) fn last_word(error: &GatewayError, id: &Id) -> Parts {
    match error {
        GatewayError::Limited(limited) if let Some(result) = &limited.result => {
            message::result(id, result.clone())
        }
        _ => Refusal::from(error).message(Some(id)),
    }
}

impl From<&EnvelopeError> for Refusal {
    fn from(error: &EnvelopeError) -> Self {
        let status = match error.code {
            // Bad parameters are the request's own affair (H-15); what is no request at all is not.
            code::INVALID_PARAMS => StatusCode::OK,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.code, error.message)
    }
}

impl From<&GatewayError> for Refusal {
    fn from(error: &GatewayError) -> Self {
        let status = match error {
            GatewayError::UnknownMethod => StatusCode::NOT_FOUND,
            GatewayError::ParamHeader(_) | GatewayError::Capability(_) | GatewayError::InvalidRequest(_) => {
                StatusCode::BAD_REQUEST
            }
            GatewayError::Scope(_) => StatusCode::FORBIDDEN,
            _ => StatusCode::OK,
        };
        let retry_after = match error {
            GatewayError::Limited(limited) => Some(limited.seconds()),
            _ => None,
        };
        Self { data: error.data(), retry_after, ..Self::new(status, error.code(), error.to_string()) }
    }
}
