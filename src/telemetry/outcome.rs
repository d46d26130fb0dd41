//! How a request ended: the same word in metrics, audit and spans (design §6).

/// The one outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A complete result.
    Ok,
    /// A tool result with `isError`.
    ToolError,
    /// A JSON-RPC error of the server, relayed.
    RpcError,
    /// The server asks the client's user or model first.
    InputRequired,
    /// The server kept silent for too long.
    Timeout,
    /// The server could not be reached, or died on the way.
    Unavailable,
    /// The answer exceeded a bound.
    TooLarge,
    /// The caller may not.
    Denied,
    /// A limit of ours was reached.
    Limited,
    /// The client's message was wrong.
    BadRequest,
    /// A header disagrees with the body.
    HeaderMismatch,
    /// The client went away or cancelled.
    Cancelled,
    /// A fault of the server's answer or of ours.
    Internal,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 13] = [
        Self::Ok,
        Self::ToolError,
        Self::RpcError,
        Self::InputRequired,
        Self::Timeout,
        Self::Unavailable,
        Self::TooLarge,
        Self::Denied,
        Self::Limited,
        Self::BadRequest,
        Self::HeaderMismatch,
        Self::Cancelled,
        Self::Internal,
    ];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::RpcError => "rpc_error",
            Self::InputRequired => "input_required",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::TooLarge => "too_large",
            Self::Denied => "denied",
            Self::Limited => "limited",
            Self::BadRequest => "bad_request",
            Self::HeaderMismatch => "header_mismatch",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }
}
