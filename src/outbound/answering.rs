//! What we say to a legacy server beside our requests: answers to its own ones, and that a call is given up.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::error::{Failure, OutboundError};
use super::exchange::Exchange;
use super::guard::CancelGuard;
use super::legacy;
use super::place::Place;
use super::server::Peer;
use crate::protocol::edit::Parts;

impl Exchange {
    /// Answers a request that the server sent during this call: with a result as JSON text, or with an error's code and
    /// message (R-32, G-45). An error: the server did not take it, so the call will not go on.
    pub async fn answer(&self, id: &[u8], answer: Result<Bytes, (i32, &str)>) -> Result<(), OutboundError> {
        let message = match answer {
            Ok(result) => legacy::response(id, result),
            Err((code, message)) => legacy::refusal(id, code, message),
        };
        let server = &self.guard.server;
        let limit = server.config.connect_timeout;
        let sent = deliver(&self.guard.place, &self.guard.peer, message, limit).await;
        sent.map_err(|failure| server.error(failure, true))
    }

    /// Gives the call up and tells the server so, after all that it was told before (G-47).
    pub async fn cancel(mut self) {
        if self.is_legacy() && std::mem::take(&mut self.guard.armed) {
            self.guard.abandoned();
            // A server that is not there needs not be told.
            let CancelGuard { server, place, peer, id, .. } = &self.guard;
            let _ = deliver(place, peer, legacy::cancelled(*id), server.config.connect_timeout).await;
        }
    }
}

/// Sends a legacy server a message that has no answer, in its session; takes at most `limit`.
pub(super) async fn deliver(
    place: &Place,
    peer: &Peer,
    message: Parts,
    limit: Duration,
) -> Result<(), Failure> {
    let sent = async {
        let headers = peer.session.as_ref().map(legacy::headers).unwrap_or_default();
        match (&peer.connection, &peer.replica.link) {
            (Some(connection), _) => connection.send(headers, &message).await,
            (None, Some(link)) if peer.session.is_some() => {
                let caller = place.on_behalf();
                let answer = link.post_for(caller.as_deref(), headers, message).await;
                let status = answer.map_err(|(failure, _)| failure)?.status;
                if status.is_success() { Ok(()) } else { Err(Failure::Status(status.as_u16())) }
            }
            _ => Ok(()),
        }
    };
    timeout(limit, sent).await.unwrap_or(Err(Failure::Timeout(limit)))
}
