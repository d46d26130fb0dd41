//! The 2026-07-28 dialect towards servers: `_meta` and `Mcp-*` headers out, `resultType` in (H-60, M-21).

use http::{HeaderMap, HeaderName, HeaderValue};

use super::request::{Request, close};
use crate::protocol::edit::Parts;
use crate::protocol::header;
use crate::protocol::items::push_json_string;
use crate::protocol::meta;
use crate::protocol::method::Method;
use crate::protocol::version::MODERN;

/// The request's bytes for a hop of this revision.
pub fn body(request: &Request, id: u64, version: &str, client: &str) -> Parts {
    let capabilities = match request.hop.capabilities.as_str() {
        "" => "{}",
        declared => declared,
    };
    let own = client.len() + capabilities.len() + request.hop.foreign.len();
    let mut out = String::with_capacity(320 + own);
    out.extend(["{\"", meta::PROTOCOL_VERSION, "\":"]);
    push_json_string(&mut out, version);
    out.extend([",\"", meta::CLIENT_INFO, "\":", client]);
    out.extend([",\"", meta::CLIENT_CAPABILITIES, "\":", capabilities, ","]);
    if let Some(level) = request.hop.log_level {
        out.extend(["\"", meta::LOG_LEVEL, "\":\"", level, "\","]);
    }
    request.hop.write(&mut out, id);
    close(&mut out);
    request.message(id, out, true)
}

/// The headers that mirror the body (H-58: derived from what is sent, never copied).
pub fn headers(request: &Request, version: &str) -> HeaderMap {
    let mut headers = standard_headers(request.method, version, request.name.as_ref());
    for (name, value) in &request.param_headers {
        headers.insert(name.clone(), value.clone());
    }
    headers
}

fn standard_headers(method: Method, version: &str, name: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    insert(&mut headers, header::PROTOCOL_VERSION, version);
    headers.insert(HeaderName::from_static(header::METHOD), HeaderValue::from_static(method.as_str()));
    if let (Some(_), Some(name)) = (method.name_field(), name) {
        headers.insert(HeaderName::from_static(header::NAME), name.clone());
    }
    headers
}

/// Values here are of our own making or encoded, so none is refused; one that were would be left out.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let value =
        if value == MODERN { Ok(HeaderValue::from_static(MODERN)) } else { HeaderValue::from_str(value) };
    if let Ok(value) = value {
        headers.insert(HeaderName::from_static(name), value);
    }
}
