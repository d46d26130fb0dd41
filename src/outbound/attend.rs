//! What a child or a stream says outside of calls: its requests answered by rule, its notices passed to who listens.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::broadcast;
use tokio::time::timeout;

use super::legacy;
use super::link::connection::Weak;
use super::server::{Peer, Server};
use crate::protocol::edit::Parts;
use crate::protocol::message::Received;
use crate::protocol::message::ReceivedKind::{Notification, Request};
use crate::protocol::version::Era;

/// How long an answer to the server's own request may wait before the next message is looked at.
const ANSWER: Duration = Duration::from_secs(10);

impl Server {
    /// Reads a new connection's unclaimed messages until it ends.
    pub(super) fn attend(self: &Arc<Self>, peer: &Arc<Peer>) {
        let Some(connection) = &peer.connection else { return };
        let Some(mut unclaimed) = connection.unclaimed() else { return };
        // Not held while waiting: a stream ends with the last who has use for it.
        let connection = connection.downgrade();
        let (server, era) = (Arc::clone(self), peer.era);
        let headers = peer.session.as_ref().map(legacy::headers).unwrap_or_default();
        self.tasks.spawn("attend", async move {
            while let Some(message) = unclaimed.recv().await {
                match &message.kind {
                    Request { id, method, .. } if era == Era::Legacy => {
                        answer(&connection, &headers, &legacy::answer(method, id)).await;
                    }
                    // Nobody listening is no fault.
                    Notification { .. } => drop(server.overheard.send(Arc::new(message))),
                    _ => server.violation("unexpected"),
                }
            }
        });
    }

    /// What its connections say from now on.
    pub(super) fn overheard(&self) -> broadcast::Receiver<Arc<Received>> {
        self.overheard.subscribe()
    }
}

/// Answers a request; an answer that cannot be sent has nobody to read it.
async fn answer(connection: &Weak, headers: &HeaderMap, message: &Parts) {
    if let Some(connection) = connection.upgrade() {
        let _ = timeout(ANSWER, connection.send(headers.clone(), message)).await;
    }
}
