//! What a child or a stream says outside of calls: its requests answered by rule, its notices passed to who listens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::timeout;

use super::legacy;
use super::link::connection::Weak;
use super::place::Place;
use super::server::{Peer, Server};
use crate::protocol::message::ReceivedKind::{Notification, Request};
use crate::protocol::version::Era;

/// How long an answer to the server's own request may wait before the next message is looked at.
const ANSWER: Duration = Duration::from_secs(10);

impl Server {
    /// Reads a new connection's unclaimed messages until it ends.
    pub(super) fn attend(self: &Arc<Self>, place: &Arc<Place>, peer: &Arc<Peer>) {
        let Some(connection) = &peer.connection else { return };
        let Some(mut unclaimed) = connection.unclaimed() else { return };
        // Neither is held while waiting: a process or stream that nobody uses is given up.
        let (connection, overheard) = (connection.downgrade(), place.overheard.clone());
        let (server, era, running) = (Arc::clone(self), peer.era, Arc::clone(&peer.running));
        let headers = peer.session.as_ref().map(legacy::headers).unwrap_or_default();
        self.tasks.spawn("attend", async move {
            while let Some(message) = unclaimed.recv().await {
                match &message.kind {
                    Request { .. } if era == Era::Legacy => {
                        answer(&connection, &headers, running.ask(message)).await;
                    }
                    // Of a request of its own: if it is none of the only call's, nobody knows whose.
                    Notification { method, .. } if &**method == "notifications/cancelled" => {
                        drop(running.give(message));
                    }
                    // Nobody listening is no fault.
                    Notification { .. } => drop(overheard.send(Arc::new(message))),
                    _ => server.violation("unexpected"),
                }
            }
        });
    }
}

/// Answers a request that is no call's, by rule; an answer that cannot be sent has nobody to read it.
async fn answer(connection: &Weak, headers: &HeaderMap, asked: Option<(Bytes, Box<str>)>) {
    if let (Some(connection), Some((id, method))) = (connection.upgrade(), asked) {
        let _ = timeout(ANSWER, connection.send(headers.clone(), &legacy::answer(&method, &id))).await;
    }
}
