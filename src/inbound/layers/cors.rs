//! CORS for web pages whose origin the guard has let pass: reflected, without credentials mode.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderValue, Method, StatusCode};

use crate::inbound::respond::empty;
use crate::inbound::{Door, Request, Response, well_known};

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, DELETE");
/// What a page may read beside the body.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("WWW-Authenticate, Mcp-Session-Id, Retry-After, X-Request-Id");
const MINUTES: HeaderValue = HeaderValue::from_static("600");

pub(in crate::inbound) async fn allow<F: Future<Output = Response>>(
    door: &Door,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let path = request.uri().path();
    let Some(origin) = request.headers().get(ORIGIN).cloned().filter(|_| !well_known::is_under(path)) else {
        return next(request).await;
    };
    let asks =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks && door.gateway.snapshot().endpoint(path).is_some() {
        preflight(&request)
    } else {
        next(request).await
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}

/// Browsers ask without a token, so this answers before anybody is asked for one. It says the same for every
/// endpoint. Any header may be sent: those of tool parameters have names we do not know here.
fn preflight(request: &Request) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    if let Some(wanted) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        headers.append(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, MINUTES);
    response
}
