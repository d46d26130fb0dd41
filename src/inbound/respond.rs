//! A running call → JSON or event stream. A dropped body is a cancelled call (H-80).

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::accept::Accepts;
use super::error::{Refusal, last_word};
use super::layers::authn;
use super::{Door, Response};
use crate::gateway::{Call, Endpoint, GatewayError, Outlet};
use crate::net::Body;
use crate::net::budget::Held;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::Id;
use crate::protocol::method::Method;
use crate::protocol::{message, sse};
use crate::tasks::Tasks;

/// How long an answer may take before an event stream is opened for it, so that no proxy on the way waits
/// for a first byte (F-054). Until then a refusal still has its own status (H-16).
pub(super) const PATIENCE: Duration = Duration::from_millis(700);
/// Notices that may wait for a slow client.
pub(super) const NOTICES: usize = 32;

pub(super) type Running = Pin<Box<dyn Future<Output = Result<Parts, GatewayError>> + Send>>;

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Parts::new().into());
    *response.status_mut() = status;
    response
}

/// An answer that refuses.
pub(super) fn refuse(refusal: &Refusal, id: Option<&Id>) -> Response {
    json(refusal.status, refusal.message(id))
}

/// Runs a call and answers it: one JSON object where nothing came before the result, else events (H-12).
pub(super) async fn answer(door: &Arc<Door>, call: Call, accepts: Accepts, held: Held) -> Response {
    let Some(id) = call.envelope.id().cloned() else { return empty(StatusCode::ACCEPTED) };
    let listens = call.method == Method::Listen;
    let (outlet, mut notices) = Outlet::new(NOTICES);
    let (outlet, admission) = outlet.gated(&call);
    let patience = patience(admission);
    let endpoint = Arc::clone(&call.endpoint);
    let finished = |result, id: &Id, as_event| finished((door, &endpoint), result, id, as_event);
    let mut running = start(door, call, outlet, held);
    if !accepts.events && listens {
        // Its answer is a stream, always (S-03).
        return empty(StatusCode::NOT_ACCEPTABLE);
    }
    if !accepts.events {
        return finished(running_without_notices(door, running, notices).await, &id, false);
    }
    // Made when it is clear that there will be any: most calls have their result first.
    let events = |id: Id| Events::new(id, door.bounds().keepalive);
    let first = tokio::select! {
        biased;
        Some(notice) = notices.recv() => framed(notice),
        result = &mut running => {
            // A server may say all it has to say at once: notices and result in one piece.
            let said: Vec<Parts> = std::iter::from_fn(|| notices.try_recv().ok()).collect();
            if said.is_empty() || result.is_err() {
                return finished(result, &id, !accepts.json);
            }
            let mut events = events(id);
            said.into_iter().for_each(|notice| events.queue(framed(notice)));
            events.finish(result);
            return stream(StatusCode::OK, events.into());
        }
        () = patience => Bytes::from_static(sse::KEEP_ALIVE).into(),
    };
    let mut events = events(id);
    events.queue(first);
    events.source = Some((running, notices));
    events.cut = Some(Box::pin(door.gateway.is_cut().clone().cancelled_owned()));
    stream(StatusCode::OK, events.into())
}

/// The call, ready to be polled. A panic in it is its own internal error.
pub(super) fn start(door: &Arc<Door>, call: Call, outlet: Outlet, held: Held) -> Running {
    let (gateway, tasks) = (Arc::clone(&door.gateway), door.tasks.clone());
    if call.method == Method::Listen {
        // Apart from calls: thousands of them are idle, and a call's future is many times larger.
        return Box::pin(async move {
            let outcome = AssertUnwindSafe(gateway.listen(call, outlet)).catch_unwind().await;
            caught(outcome, &tasks)
        });
    }
    Box::pin(async move {
        let _held = held;
        let outcome = AssertUnwindSafe(gateway.handle(call, outlet)).catch_unwind().await;
        caught(outcome, &tasks)
    })
}

/// No function around the call's future: it would hold it twice, before and after its first poll.
fn caught(
    outcome: std::thread::Result<Result<Parts, GatewayError>>,
    tasks: &Tasks,
) -> Result<Parts, GatewayError> {
    outcome.unwrap_or_else(|_| {
        tasks.count_panic();
        tracing::error!("a call panicked");
        Err(GatewayError::Internal("the gateway failed on this request"))
    })
}

/// Nobody can read notices: they are drained so that they do not block the call.
async fn running_without_notices(
    door: &Door,
    mut running: Running,
    mut notices: mpsc::Receiver<Parts>,
) -> Result<Parts, GatewayError> {
    let mut cut = pin!(async {
        sleep(PATIENCE).await;
        door.gateway.is_cut().cancelled().await;
    });
    loop {
        tokio::select! {
            biased;
            result = &mut running => return result,
            Some(_) = notices.recv() => {}
            () = &mut cut => return Err(GatewayError::STOPPED),
        }
    }
}

/// Resolves when an answer has taken long enough, and it is decided that the caller may have it: inside a stream
/// there is no 403.
async fn patience(admission: impl Future<Output = ()>) {
    let over = Instant::now() + PATIENCE;
    admission.await;
    sleep_until(over).await;
}

fn finished(
    (door, endpoint): (&Door, &Endpoint),
    result: Result<Parts, GatewayError>,
    id: &Id,
    as_event: bool,
) -> Response {
    let mut retry_after = None;
    let message = match result {
        Ok(result) => message::result(id, result),
        Err(error) => {
            let refusal = Refusal::from(&error);
            retry_after = refusal.retry_after;
            if refusal.status != StatusCode::OK {
                let mut response = json(refusal.status, refusal.message(Some(id)));
                if let GatewayError::Scope(scopes) = &error
                    && let Some(challenge) = authn::step_up(door, endpoint, scopes)
                {
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                }
                return response;
            }
            last_word(&error, id)
        }
    };
    let mut response =
        if as_event { stream(StatusCode::OK, framed(message).into()) } else { json(StatusCode::OK, message) };
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// One message as one event.
pub(super) fn framed(message: Parts) -> Parts {
    let mut parts = Parts::new();
    parts.push(Bytes::from_static(sse::OPEN));
    // A raw line break can only be white space between tokens; it would end the event's line.
    for piece in message.into_pieces() {
        parts.push(one_line(piece));
    }
    parts.push(Bytes::from_static(sse::CLOSE));
    parts
}

fn one_line(piece: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &piece).is_none() {
        return piece;
    }
    piece.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }).collect()
}

pub(super) fn json(status: StatusCode, message: Parts) -> Response {
    let mut response = Response::new(message.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn stream(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The events of one call: notices as they come, the answer last, comments when quiet (H-70, H-71, H-73).
struct Events {
    /// The call and what it says; `None` once it has ended.
    source: Option<(Running, mpsc::Receiver<Parts>)>,
    /// Fires when the gateway gives up what still runs.
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    id: Id,
    next: VecDeque<Bytes>,
    quiet: Pin<Box<Sleep>>,
    keepalive: Duration,
}

impl From<Events> for Body {
    fn from(mut events: Events) -> Self {
        Self::pieces(move |cx| events.poll_next(cx))
    }
}

impl Events {
    fn new(id: Id, keepalive: Duration) -> Self {
        Self {
            source: None,
            cut: None,
            id,
            next: VecDeque::new(),
            quiet: Box::pin(sleep(keepalive)),
            keepalive,
        }
    }

    fn queue(&mut self, parts: Parts) {
        self.next.extend(parts.into_pieces());
        self.quiet.as_mut().reset(Instant::now() + self.keepalive);
    }

    fn finish(&mut self, result: Result<Parts, GatewayError>) {
        let message = match result {
            Ok(result) => message::result(&self.id, result),
            Err(error) => last_word(&error, &self.id),
        };
        self.queue(framed(message));
    }

    /// Moves on by what there is to say; false when the call is still running and says nothing.
    fn advance(&mut self, context: &mut Context<'_>) -> bool {
        let Some((running, notices)) = &mut self.source else { return false };
        let result = running.as_mut().poll(context);
        // Polling the call may have made it say something; what it said goes before its answer.
        let mut said = Vec::new();
        while let Poll::Ready(Some(notice)) = notices.poll_recv(context) {
            said.push(notice);
        }
        let spoke = !said.is_empty();
        said.into_iter().for_each(|notice| self.queue(framed(notice)));
        if let Poll::Ready(result) = result {
            self.source = None;
            self.finish(result);
            return true;
        }
        if self.cut.as_mut().is_some_and(|cut| cut.as_mut().poll(context).is_ready()) {
            self.source = None;
            self.finish(Err(GatewayError::STOPPED));
            return true;
        }
        if !spoke && self.quiet.as_mut().poll(context).is_ready() {
            self.queue(Bytes::from_static(sse::KEEP_ALIVE).into());
            return true;
        }
        spoke
    }
}

impl Events {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(piece) = self.next.pop_front() {
                return Poll::Ready(Some(piece));
            }
            if self.source.is_none() {
                return Poll::Ready(None);
            }
            if !self.advance(context) {
                return Poll::Pending;
            }
        }
    }
}
