//! One server: its era, its permits, its health; a request out, an [`Exchange`] back.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use prometheus::{IntCounter, IntGauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::{Instant, timeout_at};

use super::error::{Failure, OutboundError};
use super::exchange::{CancelGuard, Exchange, Slot, Waiting};
use super::link::Connection;
use super::link::http::HttpLink;
use super::link::stdio::StdioLink;
use super::offer::Offer;
use super::request::Request;
use super::wire::Wire;
use super::{legacy, modern, probe};
use crate::config;
use crate::protocol::edit::Parts;
use crate::protocol::message::Received;
use crate::protocol::version::Era;
use crate::tasks::{Flight, Tasks};
use crate::telemetry::Metrics;

/// How messages get there.
#[derive(Debug)]
pub enum Transport {
    /// Streamable HTTP, or the transport before it.
    Http(Arc<HttpLink>),
    /// A child process.
    Stdio(StdioLink),
}

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
}

impl Peer {
    /// Whether the process or stream that it was agreed with has ended.
    pub fn is_gone(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_closed)
    }
}

/// One configured server.
#[derive(Debug)]
pub struct Server {
    /// Its configured name.
    pub name: Arc<str>,
    /// Its configuration.
    pub config: config::Server,
    pub(super) transport: Transport,
    pub(super) client_info: Arc<str>,
    pub(super) tasks: Tasks,
    pub(super) overheard: broadcast::Sender<Arc<Received>>,
    metrics: Arc<Metrics>,
    peer: ArcSwapOption<Peer>,
    establishing: Flight<Result<Arc<Peer>, OutboundError>>,
    // A std mutex: held to read or write three words.
    trouble: Mutex<Option<Trouble>>,
    ids: Arc<AtomicU64>,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    up: IntGauge,
    inflight: IntGauge,
    restarts: IntCounter,
    no_discover: AtomicBool,
}

/// The last failure to get ready, and when to try again.
#[derive(Debug, Clone)]
struct Trouble {
    error: OutboundError,
    until: Instant,
    step: Duration,
}

/// First and longest pause between attempts to reach a server that failed to get ready.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(10);

/// What a child said outside of calls and nobody has looked at yet; beyond it, listeners are told they missed some.
const OVERHEARD: usize = 256;

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
    pub fn new(config: config::Server, transport: Transport, shared: &Shared) -> Self {
        let metrics = &shared.metrics;
        Self {
            name: config.name.as_str().into(),
            transport,
            client_info: Arc::clone(&shared.client_info),
            tasks: shared.tasks.clone(),
            metrics: Arc::clone(metrics),
            overheard: broadcast::channel(OVERHEARD).0,
            peer: ArcSwapOption::empty(),
            establishing: Flight::default(),
            trouble: Mutex::new(None),
            ids: Arc::clone(&shared.ids),
            permits: Arc::new(Semaphore::new(config.max_concurrency)),
            waiting: AtomicUsize::new(0),
            up: metrics.server_up(&config.name),
            inflight: metrics.inflight(&config.name),
            restarts: metrics.child_restarts(&config.name),
            no_discover: AtomicBool::new(false),
            config,
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn error(&self, failure: Failure, sent: bool) -> OutboundError {
        OutboundError::new(Arc::clone(&self.name), failure, sent)
    }

    /// No answer within the limit that came first: that of silence, or `max_timeout`.
    pub(super) fn timed_out(&self, silence: Duration, at_most: bool) -> OutboundError {
        self.error(Failure::Timeout(if at_most { self.config.max_timeout } else { silence }), true)
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

    /// What was agreed, if it still holds; does not contact the server.
    pub fn known_peer(&self) -> Option<Arc<Peer>> {
        self.peer.load_full().filter(|peer| !peer.is_gone())
    }

    /// What was agreed with the server, agreeing first where necessary: once for all who ask.
    pub async fn peer(self: &Arc<Self>) -> Result<Arc<Peer>, OutboundError> {
        if let Some(peer) = self.known_peer() {
            return Ok(peer);
        }
        if let Some(trouble) = self.trouble().filter(|t| Instant::now() < t.until) {
            return Err(trouble.error);
        }
        let server = Arc::clone(self);
        let ready = self.establishing.join(&self.tasks, "establish", || async move {
            if let Some(peer) = server.known_peer() {
                return Ok(peer);
            }
            let outcome = probe::establish(&server).await.map(Arc::new);
            server.note(&outcome);
            outcome
        });
        ready.await.unwrap_or_else(|| Err(self.error(Failure::Unavailable("stopping".into()), false)))
    }

    fn note(self: &Arc<Self>, outcome: &Result<Arc<Peer>, OutboundError>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(peer) => {
                *trouble = None;
                self.up.set(1);
                tracing::info!(server = %self.name, era = peer.era.as_str(), version = %peer.version, "server ready");
                self.peer.store(Some(Arc::clone(peer)));
                self.attend(peer);
            }
            Err(error) => {
                let step = trouble.as_ref().map_or(RETRY_FIRST, |t| (t.step * 2).min(RETRY_MOST));
                self.up.set(0);
                tracing::warn!(server = %self.name, reason = %error.failure, retry_in = ?step, "server not ready");
                *trouble = Some(Trouble { error: error.clone(), until: Instant::now() + step, step });
            }
        }
        self.sample();
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long to wait before the next attempt to get ready is worth it.
    pub fn retry_in(&self) -> Duration {
        self.trouble().map_or(RETRY_FIRST, |t| t.until.saturating_duration_since(Instant::now()))
    }

    /// Brings the counters of what its processes did up to date (F-037, F-040, F-041).
    pub fn sample(&self) {
        if let Transport::Stdio(link) = &self.transport {
            self.restarts.inc_by(link.restarts().saturating_sub(self.restarts.get()));
            let counts = link.counts();
            self.metrics.violations(&self.name, "line", counts.skipped_lines);
            self.metrics.violations(&self.name, "overflow", counts.overflows);
        }
    }

    /// Whether this is what was agreed last.
    pub(super) fn is_current(&self, peer: &Arc<Peer>) -> bool {
        self.peer.load().as_ref().is_some_and(|p| Arc::ptr_eq(p, peer))
    }

    /// Forgets what was agreed, if it is still `peer`: the next request agrees anew.
    pub(super) fn forget(&self, peer: &Arc<Peer>) {
        let current = self.peer.load();
        if current.as_ref().is_some_and(|p| Arc::ptr_eq(p, peer)) {
            self.peer.compare_and_swap(&*current, None);
            if let Some(connection) = &peer.connection {
                connection.retire();
            }
        }
    }

    /// One contact succeeded or failed.
    pub(super) fn contact(&self, reached: bool) {
        self.up.set(i64::from(reached));
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

    async fn dispatch(
        self: &Arc<Self>,
        request: &Request,
        silence: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Exchange, OutboundError> {
        let slot = Slot::new(permit, self.inflight.clone());
        let hard = Instant::now() + self.config.max_timeout;
        let mut peer = match self.known_peer() {
            Some(peer) => peer,
            None => Box::pin(self.peer()).await?,
        };
        for attempt in 0.. {
            let id = self.next_id();
            let guard = CancelGuard::new(Arc::clone(self), Arc::clone(&peer), id);
            let until = (Instant::now() + silence).min(hard);
            let sent = match timeout_at(until, self.transmit(&peer, request, id)).await {
                Ok(sent) => sent,
                Err(_) => return Err(self.timed_out(silence, until == hard)),
            };
            let mut wire = match sent {
                Ok(wire) => wire,
                // It ended before this request was put on it: as if it had never been agreed.
                Err((_, false)) if attempt == 0 && peer.is_gone() => {
                    guard.disarm();
                    peer = Box::pin(self.peer()).await?;
                    continue;
                }
                Err((failure, sent)) => {
                    guard.disarm();
                    // Without a token nobody knocked.
                    if !matches!(failure, Failure::NoToken(_)) {
                        self.contact(false);
                    }
                    return Err(self.error(failure, sent));
                }
            };
            if attempt == 0
                && peer.session.is_some()
                && Box::pin(legacy::session_lost(&peer, &mut wire)).await
            {
                guard.disarm();
                self.forget(&peer);
                peer = Box::pin(self.peer()).await?;
                continue;
            }
            return Ok(Exchange::new(wire, guard, slot, silence, hard));
        }
        unreachable!("the loop returns at its second turn")
    }

    /// Puts the request on the link in the peer's dialect.
    async fn transmit(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        request: &Request,
        id: u64,
    ) -> Result<Wire, (Failure, bool)> {
        let (mut headers, body): (HeaderMap, Parts) = match &peer.session {
            Some(session) => (legacy::headers(session), legacy::body(request, id)),
            None => (
                modern::headers(request, &peer.version),
                modern::body(request, id, &peer.version, &self.client_info),
            ),
        };
        for (name, value) in &request.forwarded {
            headers.append(name.clone(), value.clone());
        }
        match (&peer.connection, &self.transport) {
            (Some(connection), _) => connection.request(id, headers, &body).await.map(Wire::put),
            (None, Transport::Http(link)) => {
                link.post_for(request.caller.as_deref(), headers, body).await.map(Wire::http)
            }
            (None, Transport::Stdio(_)) => Err((Failure::Exited, false)),
        }
    }

    /// Sends a message that expects no answer, or whose answer does not matter, in the background.
    pub(super) fn post_later(self: &Arc<Self>, peer: &Arc<Peer>, what: &'static str, message: Parts) {
        let (server, peer) = (Arc::clone(self), Arc::clone(peer));
        self.tasks.spawn(what, async move {
            let limit = server.config.connect_timeout;
            let sent = async {
                let headers = peer.session.as_ref().map(legacy::headers).unwrap_or_default();
                match (&peer.connection, &server.transport) {
                    (Some(connection), _) => drop(connection.send(headers, &message).await),
                    (None, Transport::Http(link)) if peer.session.is_some() => {
                        drop(link.post(headers, message).await);
                    }
                    _ => {}
                }
            };
            let _ = tokio::time::timeout(limit, sent).await;
        });
    }

    /// Ends the session and the process, for good.
    pub async fn stop(&self) {
        let peer = self.peer.swap(None);
        match &self.transport {
            Transport::Stdio(link) => link.stop().await,
            Transport::Http(link) => {
                if let Some(connection) = peer.as_ref().and_then(|peer| peer.connection.as_ref()) {
                    return connection.end();
                }
                let session = peer.as_ref().and_then(|p| p.session.as_ref()).filter(|s| s.id.is_some());
                if let Some(session) = session {
                    let ended = link.delete(legacy::headers(session));
                    let _ = tokio::time::timeout(Duration::from_secs(1), ended).await;
                }
            }
        }
    }
}
