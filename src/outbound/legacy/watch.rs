//! What a legacy server says outside of calls: its GET stream, and resources subscribed one by one (G-43, S-52).

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::timeout;

use super::headers as session_headers;
use crate::outbound::error::Failure;
use crate::outbound::listen::{ACK, Agreed, NoListen, Source};
use crate::outbound::place::Place;
use crate::outbound::resume::Resume;
use crate::outbound::server::{Peer, Server};
use crate::outbound::wire::Wire;
use crate::protocol::envelope::Id;
use crate::protocol::items::json_string;
use crate::protocol::message::{ReceivedKind, request};

/// However soon a server wants its stream to be opened again: it is open for good.
const LEAST: Duration = Duration::from_secs(1);

impl Server {
    pub(in crate::outbound) async fn listen_get(
        &self,
        place: &Place,
        peer: &Arc<Peer>,
    ) -> Result<(Source, Agreed), NoListen> {
        let Some(link) = &peer.replica.link else { return Err(self.no_listen(Failure::Exited)) };
        let headers = peer.session.as_ref().map(session_headers).unwrap_or_default();
        let caller = place.on_behalf();
        let answer = match timeout(ACK, link.get_for(caller.as_deref(), headers.clone())).await {
            Ok(Ok(answer)) => answer,
            Ok(Err((failure, _))) => return Err(self.no_listen(failure)),
            // Some servers hold the headers back until there is something to say; those cannot be told from
            // dead ones, so their stream is not counted on.
            Err(_) => return Err(NoListen::NotOffered),
        };
        let has_session = peer.session.as_ref().is_some_and(|session| session.id.is_some());
        match answer.status.as_u16() {
            200 if answer.is_stream() => {
                let wire = Wire::resumable(answer, || Resume::new(link, headers, caller, LEAST));
                Ok((Source::Stream(Box::new(wire), None), Agreed::default()))
            }
            404 if has_session && place.is_current(peer) => {
                place.forget(peer);
                Err(self.no_listen(Failure::Status(404)))
            }
            status @ 500..=599 => Err(self.no_listen(Failure::Status(status))),
            // 405 says so; whatever else it is, it is no stream (F-008).
            _ => Err(NoListen::NotOffered),
        }
    }

    /// Subscribes a legacy server's resources; those it refused are left out.
    pub(in crate::outbound) async fn subscribe(
        self: &Arc<Self>,
        at: (&Arc<Place>, &Arc<Peer>),
        uris: &[String],
    ) -> Vec<String> {
        let mut agreed = Vec::new();
        for uri in uris {
            if self.tell_subscription(at, "resources/subscribe", uri).await {
                agreed.push(uri.clone());
            }
        }
        agreed
    }

    pub(in crate::outbound) async fn tell_subscription(
        self: &Arc<Self>,
        (place, peer): (&Arc<Place>, &Arc<Peer>),
        method: &str,
        uri: &str,
    ) -> bool {
        let id = self.next_id();
        let params = format!("{{\"uri\":{}}}", json_string(uri));
        let body = request(Some(&Id::number(id)), method, params);
        let headers: HeaderMap = peer.session.as_ref().map(session_headers).unwrap_or_default();
        let asked = async {
            let mut wire = match (&peer.connection, &peer.replica.link) {
                (Some(connection), _) => Wire::put(connection.request(id, headers, &body).await.ok()?),
                (None, Some(link)) => {
                    let caller = place.on_behalf();
                    Wire::http(link.post_for(caller.as_deref(), headers, body).await.ok()?)
                }
                (None, None) => return None,
            };
            loop {
                match wire.next().await.ok()?.kind {
                    ReceivedKind::Result { .. } => return Some(()),
                    ReceivedKind::Error { .. } => return None,
                    _ => {}
                }
            }
        };
        matches!(timeout(ACK, asked).await, Ok(Some(())))
    }
}
