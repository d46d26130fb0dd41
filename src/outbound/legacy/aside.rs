//! What a legacy server asks outside of its calls' own streams: in sessions whose clients can be asked, its GET stream
//! is kept open for that (R-31, G-43).

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::answer;
use crate::outbound::context::Asks;
use crate::outbound::listen::{NoListen, Source};
use crate::outbound::place::{Place, Who};
use crate::outbound::server::{Peer, Server};
use crate::outbound::wire::Wire;
use crate::protocol::message::ReceivedKind::{Notification, Request};
use crate::protocol::version::Era;

/// How long the first call of a session waits for the stream: what it asks is lost where nobody listens.
const FIRST: Duration = Duration::from_millis(500);
/// First and longest pause before a stream that ended is opened again.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a silent stream's session is looked for.
const LOOK: Duration = Duration::from_secs(30);

impl Server {
    /// Listens to a new session for as long as it lasts, where its client can be asked for anything.
    pub(in crate::outbound) async fn hear_aside(self: &Arc<Self>, place: &Arc<Place>, peer: &Arc<Peer>) {
        let over_http = peer.replica.link.is_some() && peer.connection.is_none();
        if peer.era != Era::Legacy || !over_http || place.key.asks == Asks::NONE {
            return;
        }
        let (opened, wait) = oneshot::channel();
        // The place itself is not held: a session that nobody uses is given up.
        let (server, weak, peer) = (Arc::clone(self), Arc::downgrade(place), Arc::clone(peer));
        self.tasks.spawn("hear aside", async move { listen(&server, &weak, &peer, opened).await });
        // Dropped when it is open, or will not be.
        let _ = timeout(FIRST, wait).await;
    }
}

async fn listen(server: &Arc<Server>, place: &Weak<Place>, peer: &Arc<Peer>, opened: oneshot::Sender<()>) {
    let (mut opened, mut pause) = (Some(opened), PAUSE);
    while let Some(held) = place.upgrade().filter(|place| place.is_current(peer)) {
        let source = server.listen_get(&held, peer).await;
        drop(opened.take());
        drop(held);
        match source {
            Ok((Source::Stream(wire, _), _)) => {
                pause = PAUSE;
                hear(server, place, peer, *wire).await;
            }
            // It does not offer one: then it asks on its calls' own streams.
            Ok(_) | Err(NoListen::NotOffered) => return,
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Hears one stream to its end.
async fn hear(server: &Arc<Server>, place: &Weak<Place>, peer: &Arc<Peer>, mut wire: Wire) {
    loop {
        let message = match timeout(LOOK, wire.next()).await {
            Ok(Ok(message)) => message,
            Err(_) if place.strong_count() > 0 => continue,
            Ok(Err(_)) | Err(_) => return,
        };
        match &message.kind {
            Request { .. } => {
                let by_rule = peer.running.ask(message).zip(place.upgrade());
                if let Some(((id, method), place)) = by_rule {
                    server.post_later((&place, peer), "answer", answer(&method, &id));
                }
            }
            Notification { method, .. } if &**method == "notifications/cancelled" => {
                drop(peer.running.give(message));
            }
            // Where all that is said is one caller's, also what is said on the way; else nobody knows whose it is (M-62).
            Notification { method, .. } if &**method == "notifications/message" => {
                let one_callers = |place: Arc<Place>| !matches!(place.key.who, Who::Service);
                if place.upgrade().is_some_and(one_callers) {
                    drop(peer.running.give(message));
                }
            }
            // Changes are told to the gateway's own session.
            _ => {}
        }
    }
}
