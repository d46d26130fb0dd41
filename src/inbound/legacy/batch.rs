//! Batches of 2025-03-26: several messages in one POST, each by itself (G-31).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;

use super::answer::{Final, answer};
use super::perform::{Origin, perform};
use super::session::Use;
use super::stream::Stream;
use super::{End, INITIALIZE, busy, hears};
use crate::inbound::Response;
use crate::inbound::accept::Accepts;
use crate::inbound::error::Refusal;
use crate::inbound::respond::{empty, refuse};
use crate::protocol::code;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::{Envelope, Limits, MessageKind, exceeded};
use crate::protocol::object::{Span, array};
use crate::protocol::version::Revision;

/// Messages of one batch.
const MOST: usize = 50;

/// What comes of one message: its last word, if it has one.
type Outcome = BoxFuture<'static, Option<Parts>>;

/// Whether a body is a batch.
pub(in crate::inbound) fn is_batch(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// Serves all messages of a batch at once; its answers come in the order they are ready.
pub(super) async fn serve(origin: Arc<Origin>, held: Use, body: Bytes, accepts: Accepts) -> Response {
    let messages = match split(&origin, &body) {
        Ok(messages) => messages,
        Err(refusal) => return refuse(&refusal, None),
    };
    let events = origin.session.stream();
    let work: Vec<Outcome> =
        messages.into_iter().filter_map(|message| taken(&origin, message, &events)).collect();
    if work.is_empty() {
        return empty(StatusCode::ACCEPTED);
    }
    let (one_by_one, mut end) = (accepts.events, End::of(&events));
    let said = Arc::clone(&events);
    origin.door.tasks.spawn("legacy batch", async move {
        let mut work: FuturesUnordered<Outcome> = work.into_iter().collect();
        let mut all: Vec<Parts> = Vec::new();
        while let Some(last) = work.next().await {
            match last {
                Some(last) if one_by_one => said.push(last).await,
                Some(last) => all.push(last),
                None => {}
            }
        }
        end.say((!all.is_empty()).then(|| together(all)));
    });
    answer(&origin.door, held, &events, accepts).await
}

/// The messages of a batch, or why there are none.
fn split(origin: &Origin, body: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let syntax = || Refusal::rpc(StatusCode::BAD_REQUEST, code::PARSE_ERROR, "the body is not valid JSON");
    if origin.session.revision != Revision::V20250326 {
        return Err(Refusal::invalid("this protocol revision has no batches"));
    }
    let text = std::str::from_utf8(body).map_err(|_| syntax())?;
    let limits = origin.limits();
    // The batch itself is a level.
    let limits = Limits { max_depth: limits.max_depth.saturating_add(1), ..limits };
    if let Some(bound) = exceeded(body, limits) {
        origin.door.metrics.limited(bound.as_str());
        return Err(Refusal::invalid("the batch is nested too deeply or has too many elements"));
    }
    let items = array(text, Span::new(0, text.len())).map_err(|_| syntax())?;
    if items.is_empty() || items.len() > MOST {
        return Err(Refusal::invalid("a batch has from 1 to 50 messages"));
    }
    Ok(items.into_iter().map(|span| body.slice(span.range())).collect())
}

/// Takes one message in: what hears it hears it now, in the order of the batch.
fn taken(origin: &Arc<Origin>, message: Bytes, events: &Arc<Stream>) -> Option<Outcome> {
    let at_once = |message: Parts| -> Option<Outcome> { Some(Box::pin(async move { Some(message) })) };
    let envelope = match Envelope::parse(message, origin.limits()) {
        Ok(envelope) => envelope,
        Err(error) => return at_once(Refusal::from(&error).message(error.id.as_ref())),
    };
    let MessageKind::Request(id) = envelope.kind.clone() else {
        hears(&origin.session, &envelope, origin.held());
        return None;
    };
    let modern = envelope.meta.as_ref().is_some_and(|meta| meta.protocol_version.is_some());
    if modern || envelope.method() == INITIALIZE {
        return at_once(Refusal::invalid("this request cannot be part of a batch").message(Some(&id)));
    }
    let Some(running) = origin.session.begin(&id) else {
        return at_once(busy(origin, &id).message);
    };
    let work = perform(Arc::clone(origin), envelope, running, Arc::clone(events));
    Some(Box::pin(async move { work.await.map(|last| last.message) }))
}

/// Answers as one array.
fn together(all: Vec<Parts>) -> Final {
    let mut message = Parts::new();
    for (at, one) in all.into_iter().enumerate() {
        message.push(Bytes::from_static(if at == 0 { b"[" } else { b"," }));
        message.extend(one);
    }
    message.push(Bytes::from_static(b"]"));
    Final { status: StatusCode::OK, message, challenge: None, retry_after: None }
}
