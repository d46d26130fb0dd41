//! Values of `Mcp-Name` and `Mcp-Param-*`: plain where they can be, Base64 in a marker where not (H-40..H-44).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// `Mcp-Method`
pub const METHOD: &str = "mcp-method";
/// `Mcp-Name`
pub const NAME: &str = "mcp-name";
/// `MCP-Protocol-Version`
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// `Mcp-Session-Id`
pub const SESSION_ID: &str = "mcp-session-id";
/// `Mcp-Param-` in lower case; the annotated name follows.
pub const PARAM_PREFIX: &str = "mcp-param-";

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Why a header value cannot be read (H-35, H-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A byte outside 0x20–0x7E and HT.
    #[error("the header value holds characters that are not allowed")]
    Characters,
    /// The marker is there, strict Base64 of UTF-8 is not.
    #[error("the header value is not valid Base64")]
    Base64,
}

/// The text of a header value without decoding: allowed bytes only, optional white space stripped
/// (H-32, H-35).
pub fn plain(value: &[u8]) -> Result<&str, HeaderError> {
    if !value.iter().all(|b| matches!(b, 0x20..=0x7e | b'\t')) {
        return Err(HeaderError::Characters);
    }
    let text = std::str::from_utf8(value).map_err(|_| HeaderError::Characters)?;
    Ok(text.trim_matches([' ', '\t']))
}

/// The decoded value of a received header (H-42, H-43).
pub fn decode(value: &[u8]) -> Result<Cow<'_, str>, HeaderError> {
    let text = plain(value)?;
    let Some(coded) = marked(text) else { return Ok(text.into()) };
    let bytes = STANDARD.decode(coded).map_err(|_| HeaderError::Base64)?;
    String::from_utf8(bytes).map(Into::into).map_err(|_| HeaderError::Base64)
}

/// The header value that mirrors a string (H-41).
pub fn encode(value: &str) -> Cow<'_, str> {
    let visible = value.bytes().all(|b| matches!(b, 0x20..=0x7e));
    let padded = value.starts_with(' ') || value.ends_with(' ');
    // Also `=?base64?=`, where the markers share a `?`: a peer may see both in it.
    let looks_marked = value.starts_with(OPEN) && value.ends_with(CLOSE);
    if visible && !padded && !looks_marked {
        return value.into();
    }
    format!("{OPEN}{}{CLOSE}", STANDARD.encode(value)).into()
}

/// What stands between the markers (which are case-sensitive), if both are there.
fn marked(text: &str) -> Option<&str> {
    text.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}
