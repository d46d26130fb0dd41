//! A request refused before its body was read: the rest is read away, or the client is told that the
//! connection ends. Else hyper closes it without a word, and a client that keeps connections sends its next
//! request into the void.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, Version, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;

use crate::inbound::Door;

/// What is read away at most: more is not worth a connection.
const MOST: usize = 64 * 1024;
/// How long the rest of a small body may take to come.
const PATIENCE: Duration = Duration::from_secs(1);

pub(in crate::inbound) async fn read_away(
    State(_): State<Arc<Door>>,
    request: Request<Body>,
    next: Next,
) -> Response {
    // HTTP/2 ends a stream, not a connection.
    if request.body().is_end_stream() || request.version() > Version::HTTP_11 {
        return next.run(request).await;
    }
    // A client that waits for a sign to send its body is told at once, without one.
    let waits = request.headers().contains_key(header::EXPECT);
    let (back, mut returned) = oneshot::channel();
    let request = request.map(|body| Body::new(Lent { body: Some(body), back: Some(back) }));
    let mut response = next.run(request).await;
    if let Ok(body) = returned.try_recv()
        && (waits || !drained(body).await)
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether all that was left came, and was little.
async fn drained(mut body: Body) -> bool {
    let read = async {
        let mut left = MOST;
        while let Some(frame) = body.frame().await {
            let length = frame.ok()?.data_ref().map_or(0, Bytes::len);
            left = left.checked_sub(length)?;
        }
        Some(())
    };
    matches!(tokio::time::timeout(PATIENCE, read).await, Ok(Some(())))
}

/// A request's body that comes back to its layer when nobody read it to its end.
struct Lent {
    body: Option<Body>,
    back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            // Ended, or broken: there is nothing left to read.
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take().filter(|b| !b.is_end_stream()), self.back.take())
        {
            // If the layer is gone, so is the connection.
            drop(back.send(body));
        }
    }
}
