//! The door for other replicas (`cluster.listen`): takes sealed letters and nothing else, and never sends one on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request as HttpRequest, StatusCode};
use hyper::body::Incoming;

use super::{PATH, Peers, REFUSED};
use crate::auth::Principal;
use crate::cluster::{Letter, Refused};
use crate::inbound::body::{Read, read_up_to};
use crate::inbound::layers::unread::Payload;
use crate::inbound::respond::empty;
use crate::inbound::{Door, Response, Visit, endpoint, layers};
use crate::net::Handler;

/// What a seal may add to the largest body: headers and claims, in Base64, and more than enough.
const SEAL: usize = 1 << 20;

/// What serves `cluster.listen`.
pub fn service(door: Arc<Door>) -> Handler {
    Arc::new(move |http: HttpRequest<Incoming>| {
        let door = Arc::clone(&door);
        async move {
            let (head, body) = http.into_parts();
            let mut payload = Payload::new(&head, body);
            let mut response = take(&door, head.uri.path(), &mut payload).await;
            payload.read_away(&mut response).await;
            response
        }
        .boxed()
    })
}

async fn take(door: &Arc<Door>, path: &str, payload: &mut Payload) -> Response {
    let Some(peers) = door.peers.as_ref().filter(|_| path == PATH) else {
        return empty(StatusCode::NOT_FOUND);
    };
    let read = match read_up_to(door, payload, door.bounds().max_body + SEAL).await {
        Ok(read) => read,
        Err(status) => return empty(status),
    };
    if peers.closing.load(Ordering::Relaxed) {
        return refused("stranger");
    }
    let Some((visit, body)) = opened(peers, door, &read.bytes) else { return refused("seal") };
    let visit = match visit {
        Ok(visit) => visit,
        Err(Refused::Stranger) => return refused("stranger"),
        Err(why) => {
            tracing::warn!(%why, "a letter was refused at cluster.listen");
            return refused("seal");
        }
    };
    let read = Read { bytes: body, held: read.held };
    let serve = move |request| endpoint::sent_here(door, request, read);
    let serve = move |request| layers::panic::catch(door, request, serve);
    layers::observe::follow(visit, serve).await
}

/// The request in a letter, and its body. `None`: it is no letter.
fn opened(peers: &Peers, door: &Door, bytes: &Bytes) -> Option<(Result<Box<Visit>, Refused>, Bytes)> {
    let end = memchr::memchr(b'\n', bytes)?;
    let seal = std::str::from_utf8(&bytes[..end]).ok()?;
    let body = bytes.slice(end + 1..);
    let visit =
        peers.cluster.open(door.gateway.sealer(), seal, &body).and_then(|letter| visit(door, &letter));
    Some((visit, body))
}

/// What the replica at which the request came knew of it.
fn visit(door: &Door, letter: &Letter) -> Result<Box<Visit>, Refused> {
    let principal = Principal::from_carried(letter.principal.get()).ok_or(Refused::Seal)?;
    let mut http = http::Request::new(());
    *http.method_mut() = letter.method.parse().map_err(|_| Refused::Seal)?;
    *http.uri_mut() = letter.path.parse().map_err(|_| Refused::Seal)?;
    *http.headers_mut() = letter.headers();
    Ok(Box::new(Visit {
        address: letter.address,
        principal: Some(principal),
        ..Visit::new(http, door.gateway.snapshot())
    }))
}

fn refused(why: &'static str) -> Response {
    let mut response = empty(StatusCode::MISDIRECTED_REQUEST);
    response.headers_mut().insert(REFUSED, HeaderValue::from_static(why));
    response
}
