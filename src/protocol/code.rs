//! JSON-RPC and MCP error codes (M-40; `messages.md`, table "Error codes").

/// Parse error: not JSON, not UTF-8, or nested too deeply.
pub const PARSE_ERROR: i32 = -32700;
/// Invalid request: JSON, but no acceptable JSON-RPC message.
pub const INVALID_REQUEST: i32 = -32600;
/// Method not found: not in our table, or not advertised (M-30).
pub const METHOD_NOT_FOUND: i32 = -32601;
/// Invalid params: also unknown tool, prompt, resource, cursor, state (M-42, M-43).
pub const INVALID_PARAMS: i32 = -32602;
/// Internal error: a server behind us failed, or we did.
pub const INTERNAL_ERROR: i32 = -32603;
/// `HeaderMismatch`: hop-local, never relayed (H-31).
pub const HEADER_MISMATCH: i32 = -32020;
/// `MissingRequiredClientCapability`: relayed with its `data` (M-35, M-36).
pub const MISSING_CAPABILITY: i32 = -32021;
/// `UnsupportedProtocolVersion`: hop-local, never relayed (M-41).
pub const UNSUPPORTED_VERSION: i32 = -32022;
/// Resource not found in the legacy revisions; never emitted on modern ones (M-42).
pub const LEGACY_RESOURCE_NOT_FOUND: i32 = -32002;
/// URL elicitation required, 2025-11-25 only.
pub const LEGACY_URL_ELICITATION: i32 = -32042;
