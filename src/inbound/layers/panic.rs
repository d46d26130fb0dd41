//! A panic in a request: counted, logged, answered with 500 and an empty body.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use http::StatusCode;

use crate::inbound::respond::empty;
use crate::inbound::{Door, Request, Response};

pub(in crate::inbound) async fn catch<F: Future<Output = Response>>(
    door: &Door,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let answered = AssertUnwindSafe(async { next(request).await }).catch_unwind().await;
    answered.unwrap_or_else(|_| {
        door.tasks.count_panic();
        tracing::error!("a request panicked");
        empty(StatusCode::INTERNAL_SERVER_ERROR)
    })
}
