//! Gives every request an id: in its log lines and in `X-Request-Id` of its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderValue;
use tracing::Instrument as _;

use crate::inbound::Door;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number of a request, in its extensions.
#[derive(Debug, Clone, Copy)]
pub(in crate::inbound) struct RequestId(pub(in crate::inbound) u64);

pub(in crate::inbound) async fn follow(
    State(_): State<Arc<Door>>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    request.extensions_mut().insert(RequestId(id));
    let span = tracing::debug_span!("request", id);
    let mut response = next.run(request).instrument(span).await;
    response.headers_mut().insert("x-request-id", HeaderValue::from(id));
    response
}
