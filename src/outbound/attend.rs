//! What a child says outside of calls: its requests answered by rule, its notices passed to who listens.

use std::sync::Arc;

use super::legacy;
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
        self.tasks.spawn("attend", async move {
            while let Some(message) = unclaimed.recv().await {
                match &message.kind {
                    // An answer that cannot be sent has nobody to read it.
                    Request { id, method, .. } if era == Era::Legacy => {
                        drop(connection.send(&legacy::answer(method, id)).await);
                    }
                    // Nobody listening is no fault.
                    Notification { .. } => drop(overheard.send(Arc::new(message))),
                    _ => server.violation("unexpected"),
                }
            }
        });
    }
}
