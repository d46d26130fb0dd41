//! The 2025 dialect towards servers: `initialize`, session id and version header (G-40, G-41).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

mod aside;
mod level;
mod watch;

pub(super) use level::raise;

use super::context::Asks;
use super::request::{Request, close};
use super::server::Peer;
use super::wire::Wire;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::Id;
use crate::protocol::items::json_string;
use crate::protocol::message;
use crate::protocol::version::LATEST_LEGACY;
use crate::protocol::{code, header};

/// What `initialize` agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// `Mcp-Session-Id`, if the server gave one.
    pub id: Option<HeaderValue>,
    /// The negotiated revision.
    pub version: String,
}

/// The `initialize` request: declares what the client behind it can be asked for, and nothing else (G-48, R-34).
pub fn initialize(id: u64, asks: Asks, client: &str) -> Parts {
    let declared = asks.declaration();
    let params = format!(
        "{{\"protocolVersion\":\"{LATEST_LEGACY}\",\"capabilities\":{declared},\"clientInfo\":{client}}}"
    );
    message::request(Some(&Id::number(id)), "initialize", params)
}

/// `notifications/initialized`.
pub fn initialized() -> Parts {
    message::request(None, "notifications/initialized", Parts::new())
}

/// `ping`: is anybody there?
pub fn ping(id: u64) -> Parts {
    message::request(Some(&Id::number(id)), "ping", Parts::new())
}

/// `notifications/cancelled` for a request of ours (G-47).
pub fn cancelled(id: u64) -> Parts {
    message::request(None, "notifications/cancelled", format!("{{\"requestId\":{id}}}"))
}

/// The request's bytes: hop `_meta` of the modern era and retry members are left out (G-83).
pub fn body(request: &Request, id: u64) -> Parts {
    let mut meta = String::from("{");
    request.hop.write(&mut meta, id);
    close(&mut meta);
    request.message(id, meta, false)
}

/// The headers of every request of a session (G-41).
pub fn headers(session: &Session) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    if let Some(id) = &session.id {
        headers.insert(HeaderName::from_static(header::SESSION_ID), id.clone());
    }
    // 2025-03-26 does not know the header.
    if session.version.as_str() >= "2025-06-18"
        && let Ok(version) = HeaderValue::from_str(&session.version)
    {
        headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), version);
    }
    headers
}

/// The answer to a request of the server's own: `ping` is answered, the rest refused (R-35, G-45).
pub fn answer(method: &str, id: &[u8]) -> Parts {
    if method == "ping" {
        return response(id, "{}".into());
    }
    refusal(id, code::METHOD_NOT_FOUND, "Method not found")
}

/// The answer to a request of the server's own: this result.
pub fn response(id: &[u8], result: Bytes) -> Parts {
    let mut parts = Parts::with_capacity(3);
    parts.push(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", String::from_utf8_lossy(id)));
    parts.push(result);
    parts.push("}");
    parts
}

/// The answer to a request of the server's own: this error.
pub fn refusal(id: &[u8], code: i32, message: &str) -> Parts {
    let (id, message) = (String::from_utf8_lossy(id), json_string(message));
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}}}}}").into()
}

/// What a refusal that came before execution says, so that the request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It does not know our session any more (G-42).
    Session,
    /// It speaks the modern revision by now (G-65).
    Dialect,
}

/// Whether a legacy server refused for one of these reasons.
pub(super) async fn lost(peer: &Peer, wire: &mut Wire) -> Option<Lost> {
    let session = peer.session.as_ref()?;
    // The older transport has the session's id in its endpoint (G-72).
    let has_session = session.id.is_some() || peer.connection.is_some();
    match wire.status() {
        Some(404) => has_session.then_some(Lost::Session),
        Some(400) => {
            let body = wire.peek().await?;
            let named = has_session && mentions_session(&body);
            if is_modern_error(body) { Some(Lost::Dialect) } else { named.then_some(Lost::Session) }
        }
        _ => None,
    }
}

fn mentions_session(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).to_ascii_lowercase().contains("session")
}

/// What only a server of the modern revision says: that headers or version are wrong.
fn is_modern_error(body: Bytes) -> bool {
    let kind = message::Received::parse(body).map(|message| message.kind);
    matches!(kind, Ok(message::ReceivedKind::Error { error, .. })
        if matches!(error.code, code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION))
}
