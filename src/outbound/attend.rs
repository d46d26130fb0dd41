//! What a child says outside of calls: its requests answered by rule, its notices passed to who listens.

use std::sync::Arc;

use bytes::Bytes;

use super::legacy;
use super::link::stdio::Connection;
use super::place::Place;
use super::server::{Peer, Server};
use crate::protocol::message::ReceivedKind::{Notification, Request};
use crate::protocol::version::Era;

impl Server {
    /// Reads a new child's unclaimed messages until it ends.
    pub(super) fn attend(self: &Arc<Self>, place: &Arc<Place>, peer: &Arc<Peer>) {
        let Some(connection) = peer.connection.clone() else { return };
        let Some(mut unclaimed) = connection.unclaimed() else { return };
        // The place itself is not held: a process that nobody uses is given up.
        let (server, overheard, era) = (Arc::clone(self), place.overheard.clone(), peer.era);
        let running = Arc::clone(&peer.running);
        self.tasks.spawn("attend", async move {
            while let Some(message) = unclaimed.recv().await {
                match &message.kind {
                    Request { .. } if era == Era::Legacy => {
                        answer(&connection, running.ask(message)).await;
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

/// Answers by rule, where there is something to answer. What cannot be sent has nobody to read it.
async fn answer(connection: &Connection, asked: Option<(Bytes, Box<str>)>) {
    if let Some((id, method)) = asked {
        drop(connection.send(&legacy::answer(&method, &id)).await);
    }
}
