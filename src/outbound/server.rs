//! One server: its era, its permits, its health; a request out, an [`Exchange`] back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use prometheus::{IntCounter, IntGauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answering::deliver;
use super::error::{Failure, OutboundError};
use super::exchange::Exchange;
use super::guard::Waiting;
use super::link::Connection;
use super::offer::Offer;
use super::place::Place;
use super::places::{Origin, Places};
use super::replica::{Replica, Ward};
use super::request::Request;
use super::retries::Allowance;
use super::running::Running;
use super::standing::LastFailure;
use super::{legacy, modern};
use crate::config;
use crate::config::files::print_of;
use crate::protocol::edit::Parts;
use crate::protocol::version::Era;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;

/// What was agreed with a server at the last contact.
#[derive(Debug)]
pub struct Peer {
    /// How it speaks.
    pub era: Era,
    /// The revision spoken.
    pub version: String,
    /// Legacy: the session.
    pub session: Option<legacy::Session>,
    /// What it offers.
    pub offer: Offer,
    /// The process or the stream this was agreed with.
    pub connection: Option<Connection>,
    /// Where this was agreed; a session stays there.
    pub replica: Arc<Replica>,
    /// Legacy: the calls that run in it.
    pub running: Arc<Running>,
}

impl Peer {
    /// Whether the process or stream that it was agreed with has ended.
    pub fn is_gone(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_closed)
    }

    /// No new request will be made by it.
    pub(super) fn retire(&self) {
        if let Some(connection) = &self.connection {
            connection.retire();
        }
    }
}

/// One configured server.
#[derive(Debug)]
pub struct Server {
    /// Its configured name.
    pub name: Arc<str>,
    /// Its configuration.
    pub config: config::Server,
    pub(super) client_info: Arc<str>,
    pub(super) tasks: Tasks,
    pub(super) metrics: Arc<Metrics>,
    pub(super) places: Places,
    ids: Arc<AtomicU64>,
    permits: Arc<Semaphore>,
    pub(super) waiting: AtomicUsize,
    pub(super) allowance: Allowance,
    pub(super) ward: Ward,
    pub(super) inflight: IntGauge,
    pub(super) restarts: IntCounter,
    no_discover: AtomicBool,
    /// What the files of its link held when it was made.
    materials: Vec<Option<[u8; 32]>>,
    pub(super) last_failure: LastFailure,
}

/// What every server shares with the others.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Ids of requests to servers: one counter for the process (M-03).
    pub ids: Arc<AtomicU64>,
    /// Spawner.
    pub tasks: Tasks,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Our `clientInfo`, as JSON text.
    pub client_info: Arc<str>,
}

impl Server {
    /// A server that is contacted at its first use.
    pub fn new(config: config::Server, origin: Origin, shared: &Shared) -> Self {
        let (metrics, tasks) = (&shared.metrics, &shared.tasks);
        let (state, up) = (metrics.breaker_state(&config.name), metrics.server_up(&config.name));
        let ward = Ward::new(config.breaker, state, up);
        Self {
            name: config.name.as_str().into(),
            places: Places::new(&config, (origin, ward.clone()), tasks),
            ward,
            allowance: Allowance::default(),
            client_info: Arc::clone(&shared.client_info),
            tasks: tasks.clone(),
            metrics: Arc::clone(metrics),
            ids: Arc::clone(&shared.ids),
            permits: Arc::new(Semaphore::new(permits(&config))),
            waiting: AtomicUsize::new(0),
            inflight: metrics.inflight(&config.name),
            restarts: metrics.child_restarts(&config.name),
            no_discover: AtomicBool::new(false),
            materials: materials(&config),
            last_failure: LastFailure::default(),
            config,
        }
    }

    /// Whether it is what this asks for, down to the files that its link is made of.
    pub(super) fn is_of(&self, wanted: &config::Server) -> bool {
        self.config == *wanted && self.materials == materials(wanted)
    }

    /// Whether no call runs here or waits to.
    pub(super) fn is_free(&self) -> bool {
        self.permits.available_permits() == permits(&self.config) && self.waiting.load(Ordering::Relaxed) == 0
    }

    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn error(&self, failure: Failure, sent: bool) -> OutboundError {
        OutboundError::new(Arc::clone(&self.name), failure, sent)
    }

    /// Nothing is sent to it for a while.
    pub(super) fn left_alone(&self) -> OutboundError {
        self.error(Failure::Unavailable("too much of it failed lately".into()), false)
    }

    /// No answer within the limit that came first: that of silence, or `max_timeout`.
    pub(super) fn timed_out(&self, silence: Duration, at_most: bool) -> OutboundError {
        let failure = Failure::Timeout(if at_most { self.config.max_timeout } else { silence });
        self.last_failure.note(&failure);
        self.error(failure, true)
    }

    /// Whether the next contact begins with the handshake (G-64).
    pub(super) fn skip_discover(&self, skip: bool) {
        self.no_discover.store(skip, Ordering::Relaxed);
    }

    pub(super) fn skips_discover(&self) -> bool {
        self.no_discover.load(Ordering::Relaxed)
    }

    /// A message of this server broke the protocol and was dropped.
    pub fn violation(&self, kind: &'static str) {
        self.metrics.violation(&self.name, kind);
        tracing::debug!(server = %self.name, kind, "dropped a message");
    }

    /// Sends a call that needs a permit; waits for one in a bounded queue. `silence` overrides `timeout`.
    pub async fn call(
        self: &Arc<Self>,
        request: &Request,
        silence: Option<Duration>,
    ) -> Result<Exchange, OutboundError> {
        let silence = silence.unwrap_or(self.config.timeout);
        let permit = self.admit(silence).await?;
        self.dispatch(request, silence, Some(permit)).await
    }

    /// Sends a request of the gateway's own, outside of the permits.
    pub async fn ask(self: &Arc<Self>, request: &Request) -> Result<Exchange, OutboundError> {
        self.dispatch(request, self.config.timeout, None).await
    }

    async fn admit(&self, limit: Duration) -> Result<OwnedSemaphorePermit, OutboundError> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        Box::pin(self.queue(limit)).await
    }

    /// Waits for a permit, if there is room to wait.
    async fn queue(&self, limit: Duration) -> Result<OwnedSemaphorePermit, OutboundError> {
        let Some(_place) = Waiting::enter(&self.waiting, self.config.queue) else {
            self.metrics.limited("queue");
            return Err(self.error(Failure::Busy, false));
        };
        match tokio::time::timeout(limit, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => {
                self.metrics.limited("concurrency");
                Err(self.error(Failure::Busy, false))
            }
        }
    }

    /// The gauge of its running requests.
    pub(super) fn inflight(&self) -> IntGauge {
        self.inflight.clone()
    }

    /// The headers and bytes of a request in the peer's dialect.
    pub(super) fn in_dialect(&self, peer: &Peer, request: &Request, id: u64) -> (HeaderMap, Parts) {
        let (mut headers, body) = match &peer.session {
            Some(session) => (legacy::headers(session), legacy::body(request, id)),
            None => (
                modern::headers(request, &peer.version),
                modern::body(request, id, &peer.version, &self.client_info),
            ),
        };
        request.trace_headers(&mut headers);
        for (name, value) in &request.forwarded {
            headers.append(name.clone(), value.clone());
        }
        (headers, body)
    }

    /// Sends a message that expects no answer, or whose answer does not matter, in the background.
    pub(super) fn post_later(
        self: &Arc<Self>,
        (place, peer): (&Arc<Place>, &Arc<Peer>),
        what: &'static str,
        message: Parts,
    ) {
        let (place, peer, limit) = (Arc::clone(place), Arc::clone(peer), self.config.connect_timeout);
        self.tasks.spawn(what, async move {
            // Nobody is there to be told that it did not arrive.
            let _ = deliver(&place, &peer, message, limit).await;
        });
    }
}

fn permits(config: &config::Server) -> usize {
    config.permits().min(Semaphore::MAX_PERMITS)
}

fn materials(config: &config::Server) -> Vec<Option<[u8; 32]>> {
    config.materials().into_iter().map(print_of).collect()
}
