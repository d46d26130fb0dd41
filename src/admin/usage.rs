//! `/usage`: who still uses what is on its way out, for `gatehouse diff --usage`. It names clients, so it is for whom the
//! status page is.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use super::Desk;

pub(super) async fn show(State(desk): State<Arc<Desk>>) -> Response {
    let mut response = Response::new(Body::empty());
    match serde_json::to_vec(&desk.gateway.metrics.usage().report()) {
        Ok(document) => *response.body_mut() = Body::from(document),
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
