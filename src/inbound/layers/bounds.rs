//! Refuses by declared length before a byte of the body is read (H-06).

use http::{StatusCode, header};

use crate::inbound::respond::empty;
use crate::inbound::{Door, Request, Response};

pub(in crate::inbound) async fn check<F: Future<Output = Response>>(
    door: &Door,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > door.bounds().max_body as u64) {
        door.metrics.limited("max_body");
        return empty(StatusCode::PAYLOAD_TOO_LARGE);
    }
    next(request).await
}
