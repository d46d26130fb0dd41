//! The protected-resource metadata of each endpoint (RFC 9728; A-01..A-06), built from the configuration alone.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
    CACHE_CONTROL, CONTENT_TYPE,
};
use http::{HeaderValue, Method, StatusCode};

use super::respond::empty;
use super::{Door, Request, Response};
use crate::auth::Authenticator;
use crate::gateway::{Endpoint, Snapshot};
use crate::protocol::edit::Parts;
use crate::protocol::items::json_string;

/// Where metadata stand; the path of an endpoint follows.
const PLACE: &str = "/.well-known/oauth-protected-resource";
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
const ANYBODY: HeaderValue = HeaderValue::from_static("*");

/// Whether a path is one of ours here.
pub(super) fn is_under(path: &str) -> bool {
    path.starts_with("/.well-known/")
}

/// The address of an endpoint's metadata; `None` where no authorization server could be named in it.
pub(super) fn address(door: &Door, auth: &Authenticator, endpoint: &Endpoint) -> Option<String> {
    let any = !auth.config().issuers.is_empty();
    any.then(|| format!("{}{PLACE}{}", door.terms.load().public, endpoint.config.path))
}

pub(super) fn serve(door: &Door, request: &Request) -> Response {
    let snapshot = door.gateway.snapshot();
    let auth = snapshot.auth.clone().filter(|auth| !auth.config().issuers.is_empty());
    let found = auth.as_ref().zip(endpoint(&snapshot, request.uri().path()));
    let Some((auth, endpoint)) = found else {
        return empty(StatusCode::NOT_FOUND);
    };
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => document(door, auth, endpoint, &snapshot),
        Method::OPTIONS => {
            let mut response = empty(StatusCode::NO_CONTENT);
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_HEADERS, ANYBODY);
            response
        }
        _ => empty(StatusCode::METHOD_NOT_ALLOWED),
    };
    let headers = response.headers_mut();
    headers.insert(ALLOW, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANYBODY);
    response
}

/// Whose metadata stand at a path. The root speaks for the only endpoint, if there is only one.
fn endpoint<'s>(snapshot: &'s Snapshot, path: &str) -> Option<&'s Arc<Endpoint>> {
    match path.strip_prefix(PLACE)? {
        "" | "/" => match &snapshot.endpoints[..] {
            [only] => Some(only),
            _ => None,
        },
        path => snapshot.endpoint(path),
    }
}

fn document(door: &Door, auth: &Authenticator, endpoint: &Endpoint, snapshot: &Snapshot) -> Response {
    let config = auth.config();
    let list = |texts: &mut dyn Iterator<Item = &str>| texts.map(json_string).collect::<Vec<_>>().join(",");
    let issuers = list(&mut config.issuers.iter().map(|issuer| issuer.issuer.as_str()));
    let scopes = list(&mut config.scopes_supported.iter().map(String::as_str));
    let scopes = if scopes.is_empty() { String::new() } else { format!(",\"scopes_supported\":[{scopes}]") };
    let gateway = &snapshot.config.gateway;
    let text = format!(
        "{{\"resource\":{},\"authorization_servers\":[{issuers}]{scopes},\"bearer_methods_supported\":[\"header\"],\
         \"resource_name\":{}}}",
        json_string(&door.resource(endpoint)),
        json_string(gateway.title.as_ref().unwrap_or(&gateway.name)),
    );
    let mut response = Response::new(Parts::from(text).into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}
