//! Refuses by declared length before a byte of the body is read (H-06).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{StatusCode, header};

use crate::inbound::Door;
use crate::inbound::respond::empty;

pub(in crate::inbound) async fn check(
    State(door): State<Arc<Door>>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > door.bounds.max_body as u64) {
        door.metrics.limited("max_body");
        return empty(StatusCode::PAYLOAD_TOO_LARGE);
    }
    next.run(request).await
}
