//! Is it well? Asked of a replica whose breaker is open, and of all at times where that is configured (`health_interval`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::breaker::State;
use super::error::Failure;
use super::legacy;
use super::place::{Place, Transport};
use super::probe::question;
use super::replica::{Replica, is_fault};
use super::server::{Peer, Server};
use super::wire::Wire;

impl Server {
    /// Something failed there. If it was too much, nothing more is sent until a trial went well.
    pub(super) fn strike(self: &Arc<Self>, place: &Arc<Place>, replica: &Arc<Replica>) {
        if !replica.breaker.failed() {
            return;
        }
        let open = self.config.breaker.open;
        tracing::warn!(server = %self.name, ?open, "breaker opened: it is left alone");
        let (server, place, replica) = (Arc::downgrade(self), Arc::downgrade(place), Arc::downgrade(replica));
        self.tasks.spawn("breaker", async move { while trial(open, (&server, &place, &replica)).await {} });
    }

    /// Something failed there that may be one caller's or one tool's only. It is asked whether it is well, by one at a
    /// time: where it is not, all that failed meanwhile counts against it.
    pub(super) fn doubt(self: &Arc<Self>, place: &Arc<Place>, replica: &Arc<Replica>) {
        if replica.link.is_none() && place.known_peer().is_none() {
            // To ask a process that ended would be to start it.
            return self.strike(place, replica);
        }
        if !replica.breaker.is_closed() || !replica.doubt() {
            return;
        }
        let (server, place, replica) = (Arc::clone(self), Arc::clone(place), Arc::clone(replica));
        self.tasks.spawn("doubt", async move {
            // A caller's own credentials or session may be what does not work.
            let place = match replica.link {
                Some(_) if server.service().known_peer().is_some() => server.service(),
                _ => &place,
            };
            let well = server.is_well(place, &replica).await;
            let doubts = replica.settle();
            if well {
                return;
            }
            replica.contact(false);
            for _ in 0..doubts {
                server.strike(place, &replica);
            }
        });
    }

    /// Begins to ask at times, for as long as the server is one of ours.
    pub(super) fn keep_asking(self: &Arc<Self>) {
        let Some(interval) = self.config.health_interval else { return };
        let server = Arc::downgrade(self);
        self.tasks.spawn("health", async move {
            loop {
                sleep(interval).await;
                let Some(server) = server.upgrade().filter(|server| !server.is_stopped()) else { return };
                server.ask_all().await;
            }
        });
    }

    /// One round. What is well shows at `gatehouse_server_up`; what is not counts as a failed call does.
    async fn ask_all(self: &Arc<Self>) {
        let place = self.service();
        let replicas = match &place.transport {
            Transport::Http(replicas) => replicas.all(),
            // A process that does not run yet is started by who needs it.
            Transport::Stdio(..) if place.known_peer().is_none() => return,
            Transport::Stdio(_, child) => std::slice::from_ref(child),
        };
        let asked = replicas.iter().filter(|replica| replica.breaker.is_closed()).map(|replica| async move {
            let well = self.is_well(place, replica).await;
            replica.contact(well);
            if !well {
                self.strike(place, replica);
            }
        });
        futures_util::future::join_all(asked).await;
    }

    /// Asks it something that costs nothing: `server/discover`, or `ping` where it is known to be a legacy one. Any answer
    /// is one, a refusal too; an answer of a proxy before it, or none in time, is not.
    async fn is_well(self: &Arc<Self>, place: &Arc<Place>, replica: &Arc<Replica>) -> bool {
        let peer = place.known_peer();
        let asked = async {
            match (&replica.link, peer) {
                (_, Some(peer)) if peer.connection.is_some() && Arc::ptr_eq(&peer.replica, replica) => {
                    self.ask_connection(&peer).await
                }
                (Some(_), peer) => self.ask_address(place, replica, peer.as_deref()).await,
                // A process that ended: to start it again is to ask it.
                (None, _) => place.peer(self).await.map(drop).map_err(|error| error.failure),
            }
        };
        match timeout(self.config.probe_timeout, asked).await {
            // Without a token nobody knocked: whoever has one will find out.
            Ok(answer) => answer.err().is_none_or(|failure| !is_fault(&failure)),
            Err(_) => false,
        }
    }

    async fn ask_connection(&self, peer: &Peer) -> Result<(), Failure> {
        let Some(connection) = &peer.connection else { return Err(Failure::Exited) };
        let id = self.next_id();
        let (headers, body) = question(self, Some(peer), id);
        let put = connection.request(id, headers, &body).await.map_err(|(failure, _)| failure)?;
        Wire::put(put).next().await.map(drop)
    }

    async fn ask_address(
        &self,
        place: &Place,
        replica: &Arc<Replica>,
        peer: Option<&Peer>,
    ) -> Result<(), Failure> {
        let Some(link) = &replica.link else { return Err(Failure::Exited) };
        let (mut headers, body) = question(self, peer, self.next_id());
        // A session is known where it was opened; a `ping` needs none.
        if let Some(session) =
            peer.filter(|peer| Arc::ptr_eq(&peer.replica, replica)).and_then(|p| p.session.as_ref())
        {
            headers.extend(legacy::headers(session));
        }
        let answer = link.post_for(place.on_behalf().as_deref(), headers, body).await;
        Wire::http(answer.map_err(|(failure, _)| failure)?).next().await.map(drop)
    }
}

/// Waits, then tries it. False when there is nothing left to do.
async fn trial(
    open: Duration,
    (server, place, replica): (&Weak<Server>, &Weak<Place>, &Weak<Replica>),
) -> bool {
    sleep(open).await;
    let Some(server) = server.upgrade().filter(|server| !server.is_stopped()) else { return false };
    let (Some(place), Some(replica)) =
        (place.upgrade().or_else(|| Some(Arc::clone(server.service()))), replica.upgrade())
    else {
        return false;
    };
    if !replica.breaker.half_open() {
        // Somebody else found it well.
        return replica.breaker.state() != State::Closed;
    }
    let well = server.is_well(&place, &replica).await;
    replica.contact(well);
    replica.breaker.tried(well);
    if well {
        tracing::info!(server = %server.name, "breaker closed: it answers again");
        place.clear_trouble();
        server.service().clear_trouble();
    }
    !well
}
