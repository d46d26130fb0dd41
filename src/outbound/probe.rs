//! Which era does a server speak? `server/discover` first, the handshake where that says so (G-60..G-67).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;

use super::error::{Failure, OutboundError};
use super::link::Connection;
use super::link::http::HttpLink;
use super::link::sse::Stream;
use super::offer::Offer;
use super::place::{Place, Transport};
use super::replica::{Replica, is_fault, is_hint};
use super::request::Request;
use super::server::{Peer, Server};
use super::wire::Wire;
use super::{legacy, modern};
use crate::config::Protocol;
use crate::protocol::edit::Parts;
use crate::protocol::message::{Received, ReceivedKind, RpcError};
use crate::protocol::method::Method;
use crate::protocol::version::{Era, LEGACY, MODERN};
use crate::protocol::{code, header};

/// What the answer to `server/discover` means.
#[derive(Debug, Clone, PartialEq)]
enum Verdict {
    Modern(Box<Offer>),
    Legacy,
    Failed(Failure),
}

/// Where a contact is made: for a place, at a replica.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    place: &'a Place,
    replica: &'a Arc<Replica>,
}

/// Finds out how to speak to `server` and gets ready to: the first contact, and each one after a loss. Of several
/// replicas the next is asked when one is down.
pub async fn establish(server: &Arc<Server>, place: &Arc<Place>) -> Result<Peer, OutboundError> {
    let replicas = match &place.transport {
        Transport::Http(replicas) => replicas,
        Transport::Stdio(link, replica) => {
            let failed = |e| server.error(Failure::Unavailable(format!("{e}")), false);
            let connection = Connection::Child(link.connect().await.map_err(failed)?);
            let peer = agree(server, At { place, replica }, Some(connection.clone())).await;
            if peer.is_err() {
                // A process that will not shake hands is not kept (F-038).
                connection.abandon();
            }
            return peer;
        }
    };
    let mut failed = Vec::new();
    let mut last = server.error(Failure::Unavailable("it has no address".into()), false);
    while let Some(replica) = replicas.pick_any(&failed) {
        match agree(server, At { place, replica: &replica }, None).await {
            Err(error) if is_fault(&error.failure) || matches!(error.failure, Failure::Timeout(_)) => {
                if !place.key.is_service() && is_hint(&error.failure) {
                    server.doubt(place, &replica);
                } else {
                    server.strike(place, &replica);
                    if replicas.are_several() {
                        replica.contact(false);
                    }
                }
                failed.push(replica);
                last = error;
            }
            done => return done,
        }
    }
    Err(last)
}

async fn agree(
    server: &Arc<Server>,
    at: At<'_>,
    connection: Option<Connection>,
) -> Result<Peer, OutboundError> {
    let wanted = server.config.protocol;
    if let Some(outcome) = without_asking(server, at, connection.as_ref()).await {
        return outcome;
    }
    let verdict = discover(server, at, connection.as_ref()).await;
    tracing::debug!(server = %server.name, verdict = ?verdict, "probed");
    match verdict {
        Verdict::Modern(offer) => Ok(Peer {
            era: Era::Modern,
            version: MODERN.to_owned(),
            session: None,
            offer: *offer,
            connection,
            replica: Arc::clone(at.replica),
            running: Arc::default(),
        }),
        Verdict::Legacy if wanted == Protocol::Modern => Err(server.error(Failure::Version, true)),
        Verdict::Legacy => {
            let gone = connection.as_ref().is_some_and(Connection::is_closed);
            if gone {
                // It ended itself on a message it did not know: next time begin with the handshake (G-64).
                server.skip_discover(true);
                return Err(server.error(Failure::Exited, true));
            }
            match (shake_hands(server, at, connection).await, &at.replica.link) {
                (Err(refusal), Some(link)) if wanted == Protocol::Auto && refusal.older => {
                    stream(server, at, link).await.map_err(|error| match error.failure {
                        // No stream either: the refusal of the handshake says more.
                        Failure::Status(_) => refusal.error,
                        _ => error,
                    })
                }
                (peer, _) => peer.map_err(Refusal::error),
            }
        }
        Verdict::Failed(failure) => Err(server.error(failure, true)),
    }
}

/// The contact that needs no question: how to speak is configured, or known from the last time (G-65). `None`: ask.
async fn without_asking(
    server: &Arc<Server>,
    at: At<'_>,
    connection: Option<&Connection>,
) -> Option<Result<Peer, OutboundError>> {
    let greeted = || shake_hands(server, at, connection.cloned());
    match (server.config.protocol, &at.replica.link) {
        (Protocol::Modern, _) => return None,
        (Protocol::Legacy, _) => return Some(greeted().await.map_err(Refusal::error)),
        (Protocol::Sse, Some(link)) => return Some(stream(server, at, link).await),
        (Protocol::Auto, Some(link)) if link.speaks_sse() => match stream(server, at, link).await {
            Err(error) if is_refusal(&error.failure) => link.note_sse(false),
            peer => return Some(peer),
        },
        (Protocol::Auto | Protocol::Sse, _) => {}
    }
    // What the server speaks is asked in the service context; others go by what was found there (G-65).
    let is_legacy = !at.place.key.is_service() && server.era() == Some(Era::Legacy);
    if !is_legacy && !server.skips_discover() {
        return None;
    }
    let refusal = match greeted().await {
        Ok(peer) => return Some(Ok(peer)),
        Err(refusal) => refusal,
    };
    // So it was not the question that it had ended itself on.
    server.skip_discover(false);
    let over = match connection {
        Some(connection) => connection.is_closed(),
        None => !is_refusal(&refusal.error.failure),
    };
    over.then_some(Err(refusal.error))
}

/// The transport of 2024-11-05: the stream, its endpoint, then the handshake on it (G-60 step 4, G-70, G-72).
async fn stream(server: &Arc<Server>, at: At<'_>, link: &Arc<HttpLink>) -> Result<Peer, OutboundError> {
    let place = at.place;
    let opened = Stream::open(link, place.on_behalf(), &place.streams, &server.tasks).await;
    let connection = Connection::Stream(opened.map_err(|failure| server.error(failure, false))?);
    let peer = shake_hands(server, at, Some(connection.clone())).await;
    match peer {
        Ok(_) => link.note_sse(true),
        Err(_) => connection.abandon(),
    }
    peer.map_err(Refusal::error)
}

/// Whether a handshake or a GET was answered, and not as a server of the older revisions answers it.
const fn is_refusal(failure: &Failure) -> bool {
    matches!(failure, Failure::Status(400..=499) | Failure::Malformed(_) | Failure::Version)
}

/// A handshake that came to nothing.
struct Refusal {
    error: OutboundError,
    /// It may be that the server speaks the older transport (G-60 step 4).
    older: bool,
}

impl Refusal {
    fn error(self) -> OutboundError {
        self.error
    }
}

async fn discover(server: &Arc<Server>, at: At<'_>, connection: Option<&Connection>) -> Verdict {
    let id = server.next_id();
    let Ok(request) = Request::own(Method::Discover, "{}".to_owned()) else {
        return Verdict::Failed(Failure::Malformed("discover"));
    };
    let body = modern::body(&request, id, MODERN, &server.client_info);
    let accepted = AtomicBool::new(connection.is_some());
    let asked = ask((at, connection), id, (modern::headers(&request, MODERN), body), &accepted);
    match tokio::time::timeout(server.config.probe_timeout, asked).await {
        Ok((answer, status, _)) => judge(answer, status),
        // A stream or process that stays silent is a legacy one that ignores us; nothing at all is no verdict.
        Err(_) if accepted.load(Ordering::Relaxed) => Verdict::Legacy,
        Err(_) => Verdict::Failed(Failure::Timeout(server.config.probe_timeout)),
    }
}

/// A question that costs nothing, in the dialect that is known: for who only wants to hear anything.
pub(super) fn question(server: &Server, peer: Option<&Peer>, id: u64) -> (HeaderMap, Parts) {
    let era = peer.map_or_else(|| server.era(), |peer| Some(peer.era));
    match (era, Request::own(Method::Discover, "{}".to_owned())) {
        (Some(Era::Legacy), _) | (_, Err(_)) => (HeaderMap::new(), legacy::ping(id)),
        (_, Ok(request)) => {
            let body = modern::body(&request, id, MODERN, &server.client_info);
            (modern::headers(&request, MODERN), body)
        }
    }
}

/// Sends one request of the handshake and waits for its answer; also the HTTP status and headers.
async fn ask(
    (at, connection): (At<'_>, Option<&Connection>),
    id: u64,
    (headers, body): (HeaderMap, Parts),
    accepted: &AtomicBool,
) -> (Result<Received, Failure>, Option<u16>, HeaderMap) {
    let (mut wire, headers) = match (connection, &at.replica.link) {
        (Some(connection), _) => match connection.request(id, headers, &body).await {
            Ok(put) => (Wire::put(put), HeaderMap::new()),
            Err((failure, _)) => return (Err(failure), None, HeaderMap::new()),
        },
        (None, Some(link)) => match link.post_for(at.place.on_behalf().as_deref(), headers, body).await {
            Ok(answer) => {
                accepted.store(true, Ordering::Relaxed);
                let headers = answer.headers.clone();
                (Wire::http(answer), headers)
            }
            Err((failure, _)) => return (Err(failure), None, HeaderMap::new()),
        },
        (None, None) => {
            return (Err(Failure::Unavailable("no process".into())), None, HeaderMap::new());
        }
    };
    let status = wire.status();
    loop {
        let message = match wire.next().await {
            Ok(message) => message,
            Err(failure) => return (Err(failure), status, headers),
        };
        if matches!(message.kind, ReceivedKind::Result { .. } | ReceivedKind::Error { .. }) {
            return (Ok(message), status, headers);
        }
    }
}

/// Statuses that say nothing of the era, whatever the body: redirects, "not now", trouble.
const fn is_no_verdict(status: u16) -> bool {
    matches!(status, 300..=399 | 408 | 429 | 500..=599)
}

fn judge(answer: Result<Received, Failure>, status: Option<u16>) -> Verdict {
    if let Some(status) = status.filter(|status| is_no_verdict(*status)) {
        return Verdict::Failed(Failure::Status(status));
    }
    match answer {
        Ok(message) => match &message.kind {
            ReceivedKind::Result { result, .. } => match Offer::read(result.of(message.text())) {
                Some(offer) if offer.versions.iter().any(|v| v == MODERN) => Verdict::Modern(Box::new(offer)),
                Some(offer) if offer.versions.is_empty() => Verdict::Legacy,
                Some(offer) if offer.versions.iter().any(|v| LEGACY.contains(&v.as_str())) => Verdict::Legacy,
                Some(_) => Verdict::Failed(Failure::Version),
                None => Verdict::Legacy,
            },
            ReceivedKind::Error { error, .. } => judge_error(error),
            _ => Verdict::Legacy,
        },
        Err(Failure::Status(_) | Failure::Malformed(_)) => Verdict::Legacy,
        // A 2xx whose body is empty (202) or ends without an answer: it did not understand the question.
        Err(Failure::Unavailable(_)) if status.is_some_and(|s| (200..300).contains(&s)) => Verdict::Legacy,
        // A process that ended: `agree` looks whether it is gone.
        Err(Failure::Exited) => Verdict::Legacy,
        Err(failure) => Verdict::Failed(failure),
    }
}

fn judge_error(error: &RpcError) -> Verdict {
    match error.code {
        code::UNSUPPORTED_VERSION => {
            let data: serde_json::Value =
                error.data.as_deref().and_then(|d| serde_json::from_str(d).ok()).unwrap_or_default();
            let listed = data.get("supported").and_then(|s| s.as_array()).cloned().unwrap_or_default();
            let legacy = listed.iter().any(|v| v.as_str().is_some_and(|v| LEGACY.contains(&v)));
            if legacy { Verdict::Legacy } else { Verdict::Failed(Failure::Version) }
        }
        // Modern, and our request is at fault: never the handshake.
        code::HEADER_MISMATCH => Verdict::Failed(Failure::HeaderMismatch),
        code::MISSING_CAPABILITY => Verdict::Failed(Failure::Malformed("discover was refused")),
        _ => Verdict::Legacy,
    }
}

/// `initialize` and `notifications/initialized` (G-40).
async fn shake_hands(
    server: &Arc<Server>,
    at: At<'_>,
    connection: Option<Connection>,
) -> Result<Peer, Refusal> {
    let id = server.next_id();
    let body = legacy::initialize(id, at.place.key.asks, &server.client_info);
    let accepted = AtomicBool::new(false);
    let asked = ask((at, connection.as_ref()), id, (HeaderMap::new(), body), &accepted);
    let limit = server.config.probe_timeout;
    let failed = |failure| Refusal { error: server.error(failure, true), older: false };
    let (answer, status, headers) =
        tokio::time::timeout(limit, asked).await.map_err(|_| failed(Failure::Timeout(limit)))?;
    let older = connection.is_none()
        && matches!(status, Some(400 | 404 | 405))
        && !answer.as_ref().is_ok_and(is_modern_error);
    let failed = |failure| Refusal { older, ..failed(failure) };
    let message = answer.map_err(failed)?;
    let ReceivedKind::Result { result, .. } = &message.kind else {
        return Err(failed(Failure::Malformed("initialize was refused")));
    };
    let text = result.of(message.text());
    let version = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|v| v.get("protocolVersion")?.as_str().map(str::to_owned))
        .filter(|v| LEGACY.contains(&v.as_str()))
        .ok_or_else(|| failed(Failure::Version))?;
    let session = legacy::Session { id: headers.get(header::SESSION_ID).cloned(), version };
    let offer = Offer::read(text).unwrap_or_default();
    confirm(server, (at, connection.as_ref()), &session).await.map_err(failed)?;
    Ok(Peer {
        era: Era::Legacy,
        version: session.version.clone(),
        session: Some(session),
        offer,
        connection,
        replica: Arc::clone(at.replica),
        running: Arc::default(),
    })
}

/// What only a server of the modern revision says.
fn is_modern_error(message: &Received) -> bool {
    matches!(&message.kind, ReceivedKind::Error { error, .. }
        if matches!(error.code, code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION | code::MISSING_CAPABILITY))
}

async fn confirm(
    server: &Arc<Server>,
    (at, connection): (At<'_>, Option<&Connection>),
    session: &legacy::Session,
) -> Result<(), Failure> {
    let (headers, message) = (legacy::headers(session), legacy::initialized());
    let sent = async {
        match (connection, &at.replica.link) {
            (Some(connection), _) => connection.send(headers, &message).await,
            // Any 2xx is acceptance; a refusal shows at the first request.
            (None, Some(link)) => {
                let caller = at.place.on_behalf();
                let posted = link.post_for(caller.as_deref(), headers, message).await;
                posted.map(drop).map_err(|(failure, _)| failure)
            }
            (None, None) => Ok(()),
        }
    };
    let limit = server.config.probe_timeout;
    tokio::time::timeout(limit, sent).await.map_err(|_| Failure::Timeout(limit))?
}

#[cfg(test)]
mod tests;
