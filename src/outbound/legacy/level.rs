//! The log level of a session with a legacy server: as verbose as anybody who uses it wants it (G-15, M-62). What is
//! too much for one of them is kept from him on the way back.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::outbound::dispatch::Limits;
use crate::outbound::exchange::{Exchange, Message};
use crate::outbound::guard::{CancelGuard, Slot};
use crate::outbound::place::Place;
use crate::outbound::request::Request;
use crate::outbound::server::{Peer, Server};
use crate::protocol::meta::level_rank;
use crate::protocol::method::Method;

/// How long a server may take over it: the call waits so long at most.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks for this level, unless the session has it, or a more verbose one, already.
pub(in crate::outbound) async fn raise(
    server: &Arc<Server>,
    (place, peer): (&Arc<Place>, &Arc<Peer>),
    request: &Request,
) {
    let wanted = request.hop.log_level.and_then(|level| Some((level, level_rank(level)?)));
    let Some((level, rank)) = wanted.filter(|_| peer.session.is_some() && peer.offer.has("logging")) else {
        return;
    };
    {
        let mut asked = place.level.lock().unwrap_or_else(PoisonError::into_inner);
        let same = std::ptr::eq(asked.0.as_ptr(), Arc::as_ptr(peer));
        if same && asked.1 <= rank {
            return;
        }
        // Also when it does not work out: no server is asked again and again.
        *asked = (Arc::downgrade(peer), rank);
    }
    let Ok(own) = Request::own(Method::SetLevel, format!("{{\"level\":\"{level}\"}}")) else { return };
    let own = Request { context: request.context.clone(), ..own };
    let Some(turn) = place.turn(peer, &[]) else { return };
    let id = server.next_id();
    let guard = CancelGuard::new(Arc::clone(server), Arc::clone(place), Arc::clone(peer), turn, id);
    match timeout(LIMIT, server.transmit(&guard, &own)).await {
        Ok(Ok(wire)) => {
            let slot = Slot::new(None, server.inflight());
            let mut exchange =
                Exchange::new(wire, guard, slot, Limits { silence: LIMIT, hard: Instant::now() + LIMIT });
            while let Ok(message) = exchange.next().await {
                if matches!(message, Message::Result { .. } | Message::Error(_)) {
                    break;
                }
            }
        }
        Ok(Err(_)) => guard.disarm(),
        Err(_) => {}
    }
}
