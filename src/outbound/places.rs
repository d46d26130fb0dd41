//! The places of one server: the gateway's own, and one for each context that must not share it (design §7, G-49).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::context::Context;
use super::error::{Failure, OutboundError};
use super::keep::{Keep, held};
use super::link::http::HttpLink;
use super::link::stdio::{StdioLink, StdioOptions};
use super::place::{Key, Place, Transport, Who};
use super::pool::Load;
use super::replica::{Replica, Replicas, Ward};
use super::server::{Peer, Server};
use crate::config;
use crate::protocol::version::Era;
use crate::tasks::Tasks;

/// Sessions kept at one server beside the gateway's own.
const MOST_SESSIONS: usize = 10_000;
/// How long a session or process that nobody uses is kept (G-25).
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Where a server is.
#[derive(Debug)]
pub enum Origin {
    /// At an address.
    Http(Vec<Arc<HttpLink>>),
    /// In processes, each started by this command.
    Stdio(Box<config::Command>, StdioOptions),
}

/// What the transports of its places are made of.
#[derive(Debug)]
enum Source {
    Replicas(Arc<Replicas>),
    Command(Box<config::Command>, StdioOptions, Ward),
}

impl Source {
    fn new(origin: Origin, ward: Ward) -> Self {
        match origin {
            Origin::Http(links) => Self::Replicas(Arc::new(Replicas::new(links, &ward))),
            Origin::Stdio(command, options) => Self::Command(command, options, ward),
        }
    }

    fn transport(&self, key: &Key, tasks: &Tasks) -> Transport {
        match self {
            Self::Replicas(replicas) => Transport::Http(Arc::clone(replicas)),
            Self::Command(command, options, ward) => {
                let mut options = options.clone();
                if !key.at(0).is_service() {
                    // What one context's process leaves at home is not for the next.
                    options.state_dir = None;
                }
                let link = StdioLink::new((**command).clone(), options, tasks.clone());
                Transport::Stdio(link, Arc::new(Replica::new(None, ward)))
            }
        }
    }
}

/// All places of a server.
#[derive(Debug)]
pub(super) struct Places {
    source: Source,
    service: Arc<Place>,
    kept: Keep<Key, Place>,
    /// Whether somebody looks after them.
    swept: AtomicBool,
    stopped: AtomicBool,
    /// How the server spoke last: 0 is not known (G-65).
    era: AtomicU8,
    tally: Arc<Tally>,
}

impl Places {
    pub(super) fn new(config: &config::Server, (origin, ward): (Origin, Ward), tasks: &Tasks) -> Self {
        let tally = Arc::<Tally>::default();
        let source = Source::new(origin, ward);
        let transport = source.transport(&Key::SERVICE, tasks);
        // Each call in its own process holds a permit: more processes could not be busy at once.
        let most = if config.is_stdio() { config.permits() } else { MOST_SESSIONS };
        Self {
            service: Arc::new(Place::new(Key::SERVICE, transport, Arc::clone(&tally), tasks.clone())),
            kept: Keep::new(most, IDLE, held),
            swept: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            era: AtomicU8::new(0),
            source,
            tally,
        }
    }
}

/// What processes did whose places are gone.
#[derive(Debug, Default)]
pub struct Tally {
    restarts: AtomicU64,
    skipped_lines: AtomicU64,
    overflows: AtomicU64,
    /// How many of each the metrics know of. Theirs may be more: another server of this name, of another configuration, has
    /// counted before.
    told: [AtomicU64; 3],
}

impl Tally {
    /// What is new of these totals.
    fn news(&self, totals: [u64; 3]) -> [u64; 3] {
        let mut news = totals;
        for (told, total) in self.told.iter().zip(&mut news) {
            *total = total.saturating_sub(told.fetch_max(*total, Ordering::Relaxed));
        }
        news
    }

    /// Adds what the process of a place did, which is given up.
    pub(super) fn retire(&self, transport: &Transport) {
        let Transport::Stdio(link, _) = transport else { return };
        let counts = link.counts();
        self.restarts.fetch_add(link.restarts(), Ordering::Relaxed);
        self.skipped_lines.fetch_add(counts.skipped_lines, Ordering::Relaxed);
        self.overflows.fetch_add(counts.overflows, Ordering::Relaxed);
    }
}

impl Server {
    /// The gateway's own place.
    pub(super) fn service(&self) -> &Arc<Place> {
        &self.places.service
    }

    /// Whether it was told to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.places.stopped.load(Ordering::Acquire)
    }

    /// What was agreed in the service context, if it still holds; does not contact the server.
    pub fn known_peer(&self) -> Option<Arc<Peer>> {
        self.places.service.known_peer()
    }

    /// What was agreed in the service context, agreeing first where necessary: once for all who ask.
    pub async fn peer(self: &Arc<Self>) -> Result<Arc<Peer>, OutboundError> {
        self.places.service.peer(self).await
    }

    /// How long to wait before the next attempt to get ready is worth it.
    pub fn retry_in(&self) -> Duration {
        self.places.service.retry_in()
    }

    /// The same for a context.
    pub fn known_peer_for(&self, context: Option<&Context>) -> Option<Arc<Peer>> {
        let key = Key::new(&self.config, self.era(), context);
        if key.is_service() { self.known_peer() } else { self.places.kept.peek(&key)?.known_peer() }
    }

    /// The same for a context.
    pub async fn peer_for(self: &Arc<Self>, context: Option<&Context>) -> Result<Arc<Peer>, OutboundError> {
        Ok(self.ready(context).await?.1)
    }

    /// The same for a context.
    pub fn retry_in_for(&self, context: Option<&Context>) -> Duration {
        let key = Key::new(&self.config, self.era(), context);
        self.places.kept.peek(&key).unwrap_or_else(|| Arc::clone(&self.places.service)).retry_in()
    }

    /// How it spoke last, if it ever did.
    pub(super) fn era(&self) -> Option<Era> {
        match self.places.era.load(Ordering::Relaxed) {
            1 => Some(Era::Modern),
            2 => Some(Era::Legacy),
            _ => None,
        }
    }

    /// The server does not speak as it did: found out anew.
    pub(super) fn forget_era(&self) {
        self.places.era.store(0, Ordering::Relaxed);
        self.places.service.forget_any();
    }

    /// The place of a context, and what is agreed there. Which place it is depends on how the server speaks: where
    /// that turns out only now, the request moves on to its own.
    pub(super) async fn ready(
        self: &Arc<Self>,
        context: Option<&Context>,
    ) -> Result<(Arc<Place>, Arc<Peer>), OutboundError> {
        let (place, peer, _) = self.agreed(context, false).await?;
        Ok((place, peer))
    }

    /// The same; a call is counted where its context has several processes.
    pub(super) async fn agreed(
        self: &Arc<Self>,
        context: Option<&Context>,
        call: bool,
    ) -> Result<(Arc<Place>, Arc<Peer>, Option<Load>), OutboundError> {
        let mut key = Key::new(&self.config, self.era(), context);
        for _ in 0..3 {
            let (place, load) = match call {
                true => self.occupy(&key, context)?,
                false => (self.place(&key, context)?, None),
            };
            let peer = match place.known_peer() {
                Some(peer) => peer,
                None => Box::pin(place.peer(self)).await?,
            };
            let right = Key::new(&self.config, Some(peer.era), context);
            if right == key {
                return Ok((place, peer, load));
            }
            key = right;
        }
        Err(self.error(Failure::Unavailable("it speaks another dialect each time".into()), false))
    }

    /// The place of a key, if there is one.
    pub(super) fn known_place(&self, key: &Key) -> Option<Arc<Place>> {
        match key.is_service() {
            true => Some(Arc::clone(&self.places.service)),
            false => self.places.kept.peek(key),
        }
    }

    /// The place of a key.
    pub(super) fn place(
        self: &Arc<Self>,
        key: &Key,
        context: Option<&Context>,
    ) -> Result<Arc<Place>, OutboundError> {
        if key.is_service() {
            return Ok(Arc::clone(&self.places.service));
        }
        if self.places.stopped.load(Ordering::Acquire) {
            return Err(self.error(Failure::Unavailable("stopping".into()), false));
        }
        let make = || {
            let transport = self.places.source.transport(key, &self.tasks);
            Place::new(key.clone(), transport, Arc::clone(&self.places.tally), self.tasks.clone())
        };
        let (place, _gone) = self.places.kept.get(key, make);
        let Some(place) = place else {
            self.metrics.limited("sessions");
            return Err(self.error(Failure::Busy, false));
        };
        if !self.places.swept.swap(true, Ordering::Relaxed) {
            self.sweep_places();
        }
        place.present(context.and_then(|context| context.on_behalf.as_ref()));
        Ok(place)
    }

    /// Ends sessions and processes that nobody used for a while.
    fn sweep_places(self: &Arc<Self>) {
        let (server, pause) = (Arc::downgrade(self), self.places.kept.pause());
        self.tasks.spawn("sweep", async move {
            while let Some(server) = server.upgrade() {
                // A place says farewell when it is dropped.
                drop(server.places.kept.sweep());
                drop(server);
                tokio::time::sleep(pause).await;
            }
        });
    }

    /// A client's session ended: what the server keeps for it ends as soon as no call uses it (G-24, G-46).
    pub fn end_session(&self, session: &str) {
        drop(self.places.kept.remove(|key| key.is_of_session(session)));
    }

    /// A place got ready, or did not.
    pub(super) fn established(&self, place: &Place, outcome: &Result<Arc<Peer>, OutboundError>) {
        let key = &place.key;
        let context = match &key.who {
            Who::Service => "service",
            Who::Principal(_) => "principal",
            Who::Session(..) => "session",
        };
        match outcome {
            Ok(peer) => {
                let era = if peer.era == Era::Modern { 1 } else { 2 };
                let before = self.places.era.swap(era, Ordering::Relaxed);
                if !key.is_service() && before != era {
                    // What the gateway itself agreed on is as old as what this context had.
                    self.places.service.forget_any();
                }
                let (era, version) = (peer.era.as_str(), &*peer.version);
                if key.is_service() {
                    tracing::info!(server = %self.name, era, version, "server ready");
                } else {
                    tracing::debug!(server = %self.name, era, version, context, "context ready");
                }
            }
            Err(error) => {
                self.last_failure.note(&error.failure);
                // What is refused to one caller says nothing of the server, nor what is refused to the gateway where
                // each caller is himself.
                let own = key.is_service() && !self.config.credentials.is_per_user();
                let down = error.is_down() || matches!(error.failure, Failure::Timeout(_));
                // At several addresses each was told by itself.
                if (own || (down && key.lane == 0))
                    && let Some(only) = place.only()
                {
                    only.contact(false);
                }
                let (reason, retry_in) = (&error.failure, place.retry_in());
                tracing::warn!(server = %self.name, %reason, ?retry_in, context, "server not ready");
            }
        }
        self.sample();
    }

    /// Brings the counters of what its processes did up to date (F-037, F-040, F-041).
    pub fn sample(&self) {
        if !self.config.is_stdio() {
            return;
        }
        let tally = &self.places.tally;
        let mut restarts = tally.restarts.load(Ordering::Relaxed);
        let mut skipped = tally.skipped_lines.load(Ordering::Relaxed);
        let mut overflows = tally.overflows.load(Ordering::Relaxed);
        for place in self.places.kept.all().iter().chain([&self.places.service]) {
            let Transport::Stdio(link, _) = &place.transport else { continue };
            let counts = link.counts();
            restarts += link.restarts();
            skipped += counts.skipped_lines;
            overflows += counts.overflows;
        }
        let [restarts, skipped, overflows] = tally.news([restarts, skipped, overflows]);
        self.restarts.inc_by(restarts);
        self.metrics.violations(&self.name, "line", skipped);
        self.metrics.violations(&self.name, "overflow", overflows);
    }

    /// Ends all sessions and processes, for good.
    pub async fn stop(&self) {
        self.places.stopped.store(true, Ordering::Release);
        let places = self.places.kept.remove(|_| true);
        let all = places.iter().chain([&self.places.service]).map(|place| place.stop());
        futures_util::future::join_all(all).await;
    }
}
