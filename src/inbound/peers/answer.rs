//! An answer that comes from another replica, passed on as it comes; where that replica dies on the way, the client
//! is told.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Response as HttpResponse, StatusCode, header};
use http_body::{Body as _, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::Response;
use crate::gateway::GatewayError;
use crate::inbound::Door;
use crate::inbound::error::Refusal;
use crate::inbound::respond::{framed, json, stream};
use crate::net::Body;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::Id;
use crate::protocol::items::json_string;
use crate::protocol::message;
use crate::protocol::method::Method;

const LOST: &str = "The gateway lost the process that ran this call. The call may have had effects; check before you repeat it.";
/// A stream is never quiet for so many of its own signs of life.
const QUIET: u32 = 4;

/// What a result of the modern revision begins with.
const COMPLETE: &str = "\"resultType\":\"complete\",";

/// A request that another replica answers.
pub(super) struct About {
    pub(super) id: Id,
    pub(super) method: Method,
    /// Whether its client speaks the modern revision.
    pub(super) modern: bool,
}

/// What the client of a request is told when whoever worked on it is gone.
fn lost(About { id, method, modern }: &About) -> Parts {
    if *method == Method::ToolsCall {
        let (text, kind) = (json_string(LOST), if *modern { COMPLETE } else { "" });
        let content =
            format!("{{{kind}\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"isError\":true}}");
        return message::result(id, content);
    }
    Refusal::from(&GatewayError::Internal(LOST)).message(Some(id))
}

/// The same as the whole answer.
pub(super) fn lost_answer(about: &About, as_event: bool) -> Response {
    let said = lost(about);
    if as_event { stream(StatusCode::OK, framed(said).into()) } else { json(StatusCode::OK, said) }
}

/// Passes an answer on; `about`: the request it is to, if that has one.
pub(super) fn passed_on(door: &Door, answer: Box<HttpResponse<Body>>, about: Option<About>) -> Response {
    let (mut head, body) = (*answer).into_parts();
    // Of that hop, or set anew on this one.
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::DATE] {
        head.headers.remove(name);
    }
    head.headers.remove("x-request-id");
    head.version = http::Version::HTTP_11;
    let events = head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !events {
        return HttpResponse::from_parts(head, body);
    }
    let limit = door.bounds().keepalive.saturating_mul(QUIET);
    let last = about.map(|about| framed(lost(&about)));
    let mut carried =
        Carried { body: Some(body), last, next: Vec::new(), limit, quiet: Box::pin(sleep(limit)) };
    HttpResponse::from_parts(head, Body::pieces(move |cx| carried.poll_next(cx)))
}

/// Events from another replica. Dropped with the client's connection, which ends the other one too (H-80).
#[derive(Debug)]
struct Carried {
    /// `None` once it has ended.
    body: Option<Body>,
    /// What is said if it ends before its time.
    last: Option<Parts>,
    next: Vec<Bytes>,
    limit: Duration,
    quiet: Pin<Box<Sleep>>,
}

impl Carried {
    /// The next bytes.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(piece) = self.next.pop() {
                return Poll::Ready(Some(piece));
            }
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let frame = match Pin::new(body).poll_frame(context) {
                Poll::Pending => {
                    ready!(self.quiet.as_mut().poll(context));
                    tracing::info!("another replica went silent");
                    self.broken();
                    continue;
                }
                Poll::Ready(frame) => frame,
            };
            match frame {
                Some(Ok(frame)) => {
                    self.quiet.as_mut().reset(Instant::now() + self.limit);
                    if let Ok(data) = Frame::into_data(frame) {
                        return Poll::Ready(Some(data));
                    }
                }
                Some(Err(error)) => {
                    tracing::info!(%error, "another replica was lost on the way");
                    self.broken();
                }
                None => self.body = None,
            }
        }
    }

    fn broken(&mut self) {
        self.body = None;
        // What was cut in the middle must not run into what is said now.
        let said = self.last.take().into_iter().flat_map(Parts::into_pieces);
        self.next = [Bytes::from_static(b"\n\n")].into_iter().chain(said).collect();
        self.next.reverse();
    }
}
