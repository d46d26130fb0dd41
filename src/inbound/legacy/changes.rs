//! What a session is told apart from its requests: changed lists and updated resources, on the stream that its client
//! opens by GET, each once (G-32..G-34, S-50..S-55).

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::Final;
use super::perform::Origin;
use super::session::{Session, Use, Watch};
use super::stream::{Purpose, Stream};
use super::tail::Tail;
use crate::auth::Principal;
use crate::gateway::{Call, GatewayError, Outlet};
use crate::inbound::endpoint::not_allowed;
use crate::inbound::respond::{NOTICES, empty, stream};
use crate::inbound::{Door, Response};
use crate::protocol::edit::Parts;
use crate::protocol::envelope::{Envelope, Id, Limits};
use crate::protocol::items::json_string;
use crate::protocol::message::{self, Received, ReceivedKind};
use crate::protocol::method::Method;
use crate::protocol::object::{Object, array, string};
use crate::telemetry::Outcome;

/// Resources one session may watch (S-42).
const MOST_TOPICS: usize = 256;
/// All lists: legacy clients are told of what was declared, without asking (S-54).
const LISTS: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;
/// How often a server is asked for its updates of one resource.
const TRIES: usize = 10;
/// Bounds of messages that we write ourselves.
const OWN: Limits = Limits { max_depth: 64, max_elements: 1 << 20 };
const OURS: GatewayError = GatewayError::Internal("the gateway failed on this request");

/// A GET: the session's own stream, or one that its client has lost and names an event of (G-36). An event that
/// nobody knows replays nothing.
pub(super) async fn get(origin: &Arc<Origin>, held: Use) -> Response {
    let session = &origin.session;
    let most = origin.snapshot.config.gateway.max_streams;
    // Before anything is opened for it. The same places as those of streams of the modern revision.
    let Some(counted) = origin.door.gateway.hold_stream(&origin.principal.id, most) else {
        return too_many();
    };
    let last = origin.headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let (events, behind) = match last.and_then(|event| session.stream_of(event)) {
        Some((events, number)) => (events, Some(number)),
        None => (session.changes(), None),
    };
    if events.purpose == Purpose::Changes {
        watch(origin, &events).await;
        resume(origin);
    } else if behind.is_some_and(|number| events.is_exhausted(number)) {
        // A cancelled request has no last word. Clients that wait for one would come again for ever; this they take
        // for a no.
        return not_allowed();
    }
    let until = Some(session.expires.min(expiry(&origin.principal).unwrap_or(session.expires)));
    let tail = Tail::new(events, behind, held, origin.door.bounds().keepalive, until).counted(counted);
    stream(StatusCode::OK, tail.into())
}

/// The answer for a stream too many: no body was read, so the status says it (design §6).
fn too_many() -> Response {
    let mut response = empty(StatusCode::TOO_MANY_REQUESTS);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
    response
}

/// When a caller's credential ends: no stream outlives it (S-38).
fn expiry(principal: &Principal) -> Option<Instant> {
    Some(Instant::now() + principal.time_left()?)
}

/// Watches the lists for the session, from its first stream to its end, so that what changes between two streams is
/// told once the next one opens (S-51). Returns when it stands: no change after the answer to the GET is missed. That
/// takes no longer than the core waits for servers it does not watch yet.
async fn watch(origin: &Arc<Origin>, events: &Arc<Stream>) {
    let session = &origin.session;
    // What a caller with grants may see depends on its newest credential.
    let open = origin.snapshot.rights(&origin.endpoint, &origin.principal).is_open();
    if open && session.is_watching() {
        return;
    }
    let Ok(call) = listening(origin, Method::Listen, LISTS) else { return };
    let (watch, token) = Watch::new(session);
    // Neither the request nor its configuration is kept: the stream goes over to the next one.
    let (door, session, events) = (Arc::clone(&origin.door), Arc::clone(session), Arc::clone(events));
    let tasks = door.tasks.clone();
    let (stands, standing) = oneshot::channel();
    let number = watch.number;
    let mut stands = Some((stands, watch));
    tasks.spawn("session watch", async move {
        let told = told(&door, call, |said| {
            // The first word is that it stands.
            if let Some((stands, watch)) = stands.take() {
                session.watch(watch);
                let _ = stands.send(());
            }
            put(&events, &said);
        });
        tokio::select! {
            () = token.cancelled() => {}
            ended = told => {
                session.unwatch(number);
                match ended {
                    // The gateway stops, or the credential has expired: so do its streams (S-38, S-41).
                    Ok(_) => session.end_changes(&events),
                    Err(error) => tracing::debug!(%error, "a session's lists are not watched"),
                }
            }
        }
    });
    // One that has ended is waited for no longer.
    let _ = standing.await;
}

/// The call that listens in the core for a session.
fn listening(origin: &Origin, method: Method, filter: &str) -> Result<Call, GatewayError> {
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{filter}}}}}"
    );
    let envelope = Envelope::parse(text.into(), OWN).map_err(|_| OURS)?;
    origin.lasting().call(method, envelope).map_err(|_| OURS)
}

/// Listens in the core, as long as this is polled.
async fn told(door: &Door, call: Call, mut each: impl FnMut(Parts)) -> Result<Parts, GatewayError> {
    let (outlet, mut notices) = Outlet::new(NOTICES);
    let mut running = Box::pin(door.gateway.listen(call, outlet));
    loop {
        tokio::select! {
            Some(notice) = notices.recv() => each(notice),
            result = &mut running => return result,
        }
    }
}

/// A notice of the core in legacy words: no subscription has an id there.
fn put(events: &Stream, notice: &Parts) {
    let Ok(received) = Received::parse(notice.to_bytes()) else { return };
    let ReceivedKind::Notification { method, params } = &received.kind else { return };
    match &**method {
        "notifications/subscriptions/acknowledged" => {}
        "notifications/resources/updated" => {
            let uri = params.as_ref().and_then(|params| params.get(received.text(), "uri").ok().flatten());
            let Some(uri) = uri.map(|uri| uri.of(received.text())) else { return };
            events.put(uri, message::request(None, method, format!("{{\"uri\":{uri}}}")));
        }
        _ => events.put(method, message::request(None, method, Parts::new())),
    }
}

/// `resources/subscribe`: listens for one resource until it is unsubscribed or the session ends (S-55).
pub(super) async fn subscribe(origin: &Arc<Origin>, envelope: Envelope, id: &Id) -> Final {
    let failure = |error: &GatewayError| origin.failure(Method::Subscribe, id, error);
    let refused = |error: &GatewayError| {
        origin.note(Some(Method::Subscribe), error.outcome());
        failure(error)
    };
    let uri = match uri(&envelope) {
        Ok(uri) => uri,
        Err(error) => return refused(&error),
    };
    let reserved = match origin.session.reserve(&uri, MOST_TOPICS) {
        Some(true) => Reserved { session: &origin.session, uri: &uri, kept: false },
        Some(false) => return refused(&GatewayError::Internal("too many resources are subscribed")),
        None => {
            origin.note(Some(Method::Subscribe), Outcome::Ok);
            return Final::result(id, "{}");
        }
    };
    let tellable = match origin.call(Method::Subscribe, envelope) {
        Ok(call) => origin.door.gateway.tellable(&call, &uri).await,
        Err(refusal) => return Final::refusal(id, &refusal),
    };
    if let Err(error) = tellable {
        return refused(&error);
    }
    match settle(origin, &uri).await {
        Ok(()) => {
            reserved.keep();
            Final::result(id, "{}")
        }
        Err(error) => failure(&error),
    }
}

/// Has a subscription stand. The core does not wait long for a server's word (S-33); whoever subscribes may.
async fn settle(origin: &Arc<Origin>, uri: &str) -> Result<(), GatewayError> {
    for _ in 0..TRIES {
        let token = CancellationToken::new();
        let guard = token.clone().drop_guard();
        match follow(origin, uri, token).await {
            Some(Ok(true)) => {
                origin.session.subscribe(uri, guard);
                return Ok(());
            }
            Some(Err(error)) => return Err(error),
            _ => {}
        }
    }
    Err(GatewayError::Internal("the server of this resource did not confirm the subscription"))
}

/// Takes subscriptions up again that ended with the credential they were made with.
fn resume(origin: &Arc<Origin>) {
    for uri in origin.session.lapsed() {
        let origin = origin.lasting();
        let tasks = origin.door.tasks.clone();
        tasks.spawn("session subscription again", async move {
            if let Err(error) = settle(&origin, &uri).await {
                tracing::debug!(%error, "a subscription has ended");
                origin.session.unsubscribe(&uri);
            }
        });
    }
}

/// Listens for one resource in the background. Whether that is agreed; `None`: it ended before that was known.
async fn follow(
    origin: &Arc<Origin>,
    uri: &str,
    token: CancellationToken,
) -> Option<Result<bool, GatewayError>> {
    let (sender, agreed) = oneshot::channel();
    let mut sender = Some(sender);
    let filter = format!("{{\"resourceSubscriptions\":[{}]}}", json_string(uri));
    let call = match listening(origin, Method::Subscribe, &filter) {
        Ok(call) => call,
        Err(error) => return Some(Err(error)),
    };
    let (door, session, uri) = (Arc::clone(&origin.door), Arc::clone(&origin.session), uri.to_owned());
    let tasks = door.tasks.clone();
    tasks.spawn("session subscription", async move {
        let ended = {
            let told = told(&door, call, |said| match sender.take() {
                // The first word is what is honoured (S-03).
                Some(sender) => drop(sender.send(Ok(honours(&said, &uri)))),
                None => put(&session.changes(), &said),
            });
            tokio::select! {
                () = token.cancelled() => return,
                ended = told => ended,
            }
        };
        match (sender, ended) {
            (Some(sender), Err(error)) => drop(sender.send(Err(error))),
            (None, Ok(_)) => session.lapse(uri),
            _ => {}
        }
    });
    agreed.await.ok()
}

/// Whether an acknowledgement names the resource.
fn honours(acknowledgement: &Parts, uri: &str) -> bool {
    let Ok(received) = Received::parse(acknowledgement.to_bytes()) else { return false };
    let ReceivedKind::Notification { params: Some(params), .. } = &received.kind else { return false };
    let text = received.text();
    let listed = || {
        let filter = Object::parse(text, params.get(text, "notifications").ok()??).ok()?;
        array(text, filter.get(text, "resourceSubscriptions").ok()??).ok()
    };
    listed().is_some_and(|all| all.iter().any(|span| string(span.of(text)).as_deref() == Some(uri)))
}

/// `resources/unsubscribe`. Of what was not subscribed either.
pub(super) fn unsubscribe(origin: &Origin, envelope: &Envelope) -> Result<(), GatewayError> {
    origin.session.unsubscribe(&uri(envelope)?);
    Ok(())
}

fn uri(envelope: &Envelope) -> Result<String, GatewayError> {
    let span = envelope.param("uri")?;
    let uri = span.and_then(|span| string(span.of(envelope.text())));
    uri.map(Into::into).ok_or(GatewayError::InvalidParams("params.uri must be a string"))
}

/// A place for a subscription, given back unless it is kept.
struct Reserved<'s> {
    session: &'s Session,
    uri: &'s str,
    kept: bool,
}

impl Reserved<'_> {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.session.unsubscribe(self.uri);
        }
    }
}
