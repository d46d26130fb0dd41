//! Asks every server what the gateway would ask, at once, each within its own deadlines.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use crate::app::Core;
use crate::catalogue::{Published, Shelf};
use crate::outbound::{Failure, Peer, Server};
use crate::protocol::method::Kind;

/// What one server answered.
#[derive(Debug)]
pub(in crate::cli) struct Contact {
    /// What was agreed, or why nothing was.
    pub(in crate::cli) peer: Result<Arc<Peer>, String>,
    /// Its lists, as [`Kind::ALL`].
    pub(in crate::cli) lists: [Listed; Kind::ALL.len()],
    /// How long all of it took.
    pub(in crate::cli) took: Duration,
}

/// One list.
#[derive(Debug)]
pub(in crate::cli) enum Listed {
    /// What may be seen of it, and its faults.
    Known(Arc<Published>),
    /// Why it is not known.
    Failed(String),
    /// The server is dead.
    Unasked,
}

impl Listed {
    /// What is known.
    pub(in crate::cli) const fn known(&self) -> Option<&Arc<Published>> {
        match self {
            Self::Known(published) => Some(published),
            Self::Failed(_) | Self::Unasked => None,
        }
    }
}

/// Asks every server; in file order.
pub(in crate::cli) async fn contact_all(core: &Core) -> Vec<Contact> {
    let shelves = core.gateway.catalogue.shelves();
    join_all(shelves.iter().map(contact)).await
}

async fn contact(shelf: &Arc<Shelf>) -> Contact {
    let start = Instant::now();
    let peer = reach(&shelf.server).await;
    let lists = if peer.is_ok() {
        let [tools, prompts, resources, templates] = Kind::ALL.map(|kind| list(shelf, kind));
        tokio::join!(tools, prompts, resources, templates).into()
    } else {
        Kind::ALL.map(|_| Listed::Unasked)
    };
    Contact { peer, lists, took: start.elapsed() }
}

async fn reach(server: &Arc<Server>) -> Result<Arc<Peer>, String> {
    match attempt(server).await {
        // A process may end itself on the modern greeting; then the handshake comes first (G-64).
        Err(Failure::Exited) => {
            tokio::time::sleep(server.retry_in()).await;
            attempt(server).await
        }
        other => other,
    }
    .map_err(|failure| failure.to_string())
}

async fn attempt(server: &Arc<Server>) -> Result<Arc<Peer>, Failure> {
    let config = &server.config;
    // `discover`, `initialize` and `initialized` have each their own; this is for what comes before them.
    let most = config.connect_timeout + config.probe_timeout * 3;
    match timeout(most, server.peer()).await {
        Ok(answer) => answer.map_err(|error| error.failure),
        Err(_) => Err(Failure::Timeout(most)),
    }
}

async fn list(shelf: &Arc<Shelf>, kind: Kind) -> Listed {
    // The catalogue walks by itself, and may have done so already.
    if let Some(known) = shelf.known(kind) {
        return Listed::Known(known);
    }
    let limit = shelf.server.config.list_timeout;
    match timeout(limit, shelf.refresh(kind)).await {
        Ok(Some(Ok(published))) => Listed::Known(published),
        Ok(Some(Err(error))) => Listed::Failed(error.failure.to_string()),
        Ok(None) => Listed::Failed("the walk was cancelled".to_owned()),
        Err(_) => Listed::Failed(format!("not whole within {limit:?} (`list_timeout`)")),
    }
}
