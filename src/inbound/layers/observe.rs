//! Gives every request an id, in its log lines and in `X-Request-Id` of its answer, and finds its client's address.

use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use tracing::Instrument as _;

use super::address;
use crate::inbound::{Request, Response};
use crate::net::Peer;

static NEXT: AtomicU64 = AtomicU64::new(1);

pub(in crate::inbound) async fn follow<F: Future<Output = Response>>(
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    request.id = id;
    if let Some(Peer(peer)) = request.extensions().get::<Peer>() {
        let trusted = &request.snapshot.config.gateway.trusted_proxies;
        request.address = Some(address::client(peer.ip(), request.headers(), trusted));
    }
    let client = request.address.map(tracing::field::display);
    let span = tracing::debug_span!("request", id, client);
    let mut response = next(request).instrument(span).await;
    response.headers_mut().insert("x-request-id", HeaderValue::from(id));
    response
}
