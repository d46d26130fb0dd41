//! The 2026-07-28 dialect towards servers: `_meta` and `Mcp-*` headers out, `resultType` in (H-60, M-21).

use http::{HeaderMap, HeaderName, HeaderValue};

use super::request::Request;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::Id;
use crate::protocol::header;
use crate::protocol::items::json_string;
use crate::protocol::message;
use crate::protocol::meta;
use crate::protocol::method::Method;

/// The request's bytes for a hop of this revision.
pub fn body(request: &Request, id: u64, version: &str, client: &str) -> Parts {
    let capabilities = match request.hop.capabilities.as_str() {
        "" => "{}",
        declared => declared,
    };
    let mut members = vec![
        format!("\"{}\":{}", meta::PROTOCOL_VERSION, json_string(version)),
        format!("\"{}\":{client}", meta::CLIENT_INFO),
        format!("\"{}\":{capabilities}", meta::CLIENT_CAPABILITIES),
    ];
    members.extend(request.hop.log_level.map(|level| format!("\"{}\":\"{level}\"", meta::LOG_LEVEL)));
    members.extend(request.hop.members(id));
    let meta = format!("{{{}}}", members.join(","));
    message::request(Some(&Id::number(id)), request.method.as_str(), request.params_with(&meta, true))
}

/// The headers that mirror the body (H-58: derived from what is sent, never copied).
pub fn headers(request: &Request, version: &str) -> HeaderMap {
    let mut headers = standard_headers(request.method, version, request.name.as_deref());
    for (name, value) in &request.param_headers {
        headers.insert(name.clone(), value.clone());
    }
    if let Some(trace) = &request.hop.trace {
        insert(&mut headers, "traceparent", &trace.traceparent());
        if let Some(state) = &trace.state {
            insert(&mut headers, "tracestate", state);
        }
    }
    headers
}

fn standard_headers(method: Method, version: &str, name: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    insert(&mut headers, header::PROTOCOL_VERSION, version);
    headers.insert(HeaderName::from_static(header::METHOD), HeaderValue::from_static(method.as_str()));
    if let (Some(_), Some(name)) = (method.name_field(), name) {
        insert(&mut headers, header::NAME, &header::encode(name));
    }
    headers
}

/// Values here are of our own making or encoded, so none is refused; one that were would be left out.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
