//! What is known of one server: fresh, stale or missing; asked for once however many want it (L-20..L-28).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::checkers::Checkers;
use super::follow;
use super::guard::Guard;
use super::publish::Published;
use super::reads::Reads;
use super::store::Store;
use super::watch::Watch;
use crate::cluster::news::What;
use crate::cluster::{Change, Cluster};
use crate::outbound::{Context, OutboundError, Peer, Server};
use crate::protocol::method::Kind;
use crate::tasks::{Flight, Tasks};
use crate::telemetry::Metrics;

/// The gateway's rules for what is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// `gateway.max_ttl`
    pub max_ttl: Duration,
    /// `gateway.stale_if_error`
    pub stale_if_error: Duration,
}

/// The answer to "what does this server offer?".
#[derive(Debug, Clone)]
pub enum Lookup {
    /// Known and fresh.
    Fresh(Arc<Published>),
    /// Known, expired, and not to be had anew (L-26): written with `ttlMs: 0`.
    Stale(Arc<Published>),
    /// Nothing is known.
    Missing,
}

impl Lookup {
    /// What is known.
    pub const fn published(&self) -> Option<&Arc<Published>> {
        match self {
            Self::Fresh(known) | Self::Stale(known) => Some(known),
            Self::Missing => None,
        }
    }
}

/// One server's part of the catalogue, as the gateway or one caller is shown it.
#[derive(Debug)]
pub struct Shelf {
    /// Whose it is.
    pub server: Arc<Server>,
    pub(super) rules: Rules,
    /// Whom it is shown to, with the newest token; `None`: the gateway.
    context: ArcSwapOption<Context>,
    slots: [Slot; Kind::ALL.len()],
    /// What it tells of changes.
    pub watch: Watch,
    reads: Arc<Reads>,
    /// What was approved of it.
    pub(super) guard: Option<Arc<Guard>>,
    /// Who else is to hear of its changes.
    cluster: Option<Arc<Cluster>>,
    /// What calls are held against (`validate`).
    pub(super) checkers: Arc<Checkers>,
    pub(super) store: Option<Store>,
    /// Whether gauges tell of it.
    pub(super) gauged: bool,
    /// Whether the log tells of its faults.
    pub(super) loud: bool,
    pub(super) bytes: AtomicUsize,
    pub(super) tasks: Tasks,
    pub(super) metrics: Arc<Metrics>,
    /// Cancelled when its server left the configuration: nothing is watched any more.
    pub(super) retired: CancellationToken,
}

/// What all shelves are made with.
#[derive(Debug, Clone)]
pub(super) struct Maker {
    pub(super) tasks: Tasks,
    pub(super) metrics: Arc<Metrics>,
    /// Of the server they are of.
    pub(super) guard: Option<Arc<Guard>>,
    pub(super) cluster: Option<Arc<Cluster>>,
    /// As in [`Shelf`].
    pub(super) retired: CancellationToken,
    pub(super) checkers: Arc<Checkers>,
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) known: ArcSwapOption<Published>,
    flight: Flight<Result<Arc<Published>, OutboundError>>,
    /// Raised by whatever makes a running walk's result old (L-28).
    pub(super) generation: AtomicU64,
    /// Changes of this list the server told of.
    pub(super) announced: AtomicU64,
}

/// A list fetched after this long may be asked for again on suspicion (L-27, H-52).
pub const SUSPICION: Duration = Duration::from_secs(10);
/// The pause after walks that changes overtook all the time.
const OVERTAKEN: Duration = Duration::from_millis(500);

impl Shelf {
    /// What the gateway is shown of a server, where that stands aside from what callers see.
    pub(super) fn aside(maker: &Maker, (server, rules): (Arc<Server>, Rules), watch: Watch) -> Self {
        Self {
            store: None,
            guard: maker.guard.clone(),
            cluster: None,
            checkers: Arc::clone(&maker.checkers),
            server,
            rules,
            context: ArcSwapOption::empty(),
            slots: Default::default(),
            watch,
            reads: Arc::new(Reads::new()),
            gauged: false,
            loud: true,
            bytes: AtomicUsize::new(0),
            tasks: maker.tasks.clone(),
            metrics: Arc::clone(&maker.metrics),
            retired: maker.retired.clone(),
        }
    }

    /// What the gateway, and with it everybody, is shown of a server.
    pub(super) fn of_service(
        maker: &Maker,
        (server, rules): (Arc<Server>, Rules),
        watch: Watch,
        state_dir: Option<&Path>,
    ) -> Self {
        let store = state_dir.map(|folder| Store::new(folder, &server.config));
        // A child process is this replica's own: what it says concerns no other.
        let cluster = maker.cluster.clone().filter(|_| !server.config.is_stdio());
        let shelf = Self { store, cluster, gauged: true, ..Self::aside(maker, (server, rules), watch) };
        Kind::ALL.into_iter().for_each(|kind| shelf.restore(kind));
        shelf
    }

    /// What one caller is shown of a server.
    pub(super) fn of_caller(
        maker: &Maker,
        (server, rules): (Arc<Server>, Rules),
        watch: Watch,
        (context, loud): (Arc<Context>, bool),
    ) -> Self {
        let context = ArcSwapOption::new(Some(context));
        Self { context, loud, ..Self::aside(maker, (server, rules), watch) }
    }

    /// The same, with a memory of reads shared with others that are kept apart in it.
    pub(super) fn with_reads(self, reads: Arc<Reads>) -> Self {
        Self { reads, ..self }
    }

    /// Whom it is shown to; `None`: the gateway.
    pub fn context(&self) -> Option<Arc<Context>> {
        self.context.load_full()
    }

    /// The same caller came with another token.
    pub(super) fn present(&self, context: Arc<Context>) {
        self.context.store(Some(context));
    }

    /// Whether it is shown to one caller only.
    pub fn is_private(&self) -> bool {
        self.context.load().is_some()
    }

    /// Bytes of what is known.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What was agreed with the server, if it still holds; does not contact it.
    pub fn known_peer(&self) -> Option<Arc<Peer>> {
        self.server.known_peer_for(self.context.load().as_deref())
    }

    /// What was agreed with the server, agreeing first where necessary.
    pub async fn peer(&self) -> Result<Arc<Peer>, OutboundError> {
        self.server.peer_for(self.context().as_deref()).await
    }

    /// Reads of it, and under whose name they are kept for this principal: where each caller is shown his own, that is
    /// the whole of what may change it.
    pub fn reads(&self, principal: &Arc<str>) -> (&Reads, Arc<str>) {
        let context = self.context.load();
        (&self.reads, Arc::clone(context.as_ref().map_or(principal, |context| &context.principal)))
    }

    pub(super) const fn slot(&self, kind: Kind) -> &Slot {
        &self.slots[kind as usize]
    }

    /// The number of what is known.
    pub fn known_id(&self, kind: Kind) -> Option<u64> {
        self.slot(kind).known.load().as_ref().map(|known| known.id)
    }

    /// What is known, fresh or not; nobody is asked.
    pub fn known(&self, kind: Kind) -> Option<Arc<Published>> {
        self.slot(kind).known.load_full()
    }

    /// Whether what is known was held against the approved definitions in use, if any are; without it there is nothing
    /// to use.
    pub fn is_approved(&self, kind: Kind) -> bool {
        let Some(guard) = &self.guard else { return true };
        self.slot(kind).known.load().as_ref().is_some_and(|known| known.approved == guard.number())
    }

    /// What is known, fresh or not, if it was held against the approved definitions in use.
    pub fn approved(&self, kind: Kind) -> Option<Arc<Published>> {
        let approved = self.approval();
        self.known(kind).filter(|known| known.approved == approved)
    }

    fn approval(&self) -> u64 {
        self.guard.as_ref().map_or(0, |guard| guard.number())
    }

    /// What the server offers: from memory while fresh, else asked for, waiting at most `list_timeout`.
    pub async fn look_up(self: &Arc<Self>, kind: Kind) -> Lookup {
        let known = self.approved(kind);
        if let Some(known) = known.as_ref().filter(|k| self.is_fresh(kind, k)) {
            self.metrics.cache(kind.as_str(), "hit");
            return Lookup::Fresh(Arc::clone(known));
        }
        let asked = tokio::time::timeout(self.server.config.list_timeout, self.refresh(kind)).await;
        if let Ok(Some(Ok(fresh))) = asked {
            self.metrics.cache(kind.as_str(), "miss");
            return Lookup::Fresh(fresh);
        }
        // What a caller was shown is no answer any more once he is turned away.
        let turned_away = self.is_private() && matches!(&asked, Ok(Some(Err(error))) if error.is_refusal());
        let usable = |known: &Arc<Published>| known.stale_until > Instant::now() && !turned_away;
        match known.filter(usable) {
            Some(stale) => {
                self.metrics.cache(kind.as_str(), "stale");
                Lookup::Stale(stale)
            }
            None => {
                self.metrics.cache(kind.as_str(), "miss");
                Lookup::Missing
            }
        }
    }

    /// Whether nothing newer is to be expected: in time, and no change told since it was walked.
    fn is_fresh(&self, kind: Kind, known: &Published) -> bool {
        !known.restored
            && known.approved == self.approval()
            && known.generation == self.generation(kind)
            && known.is_fresh(Instant::now())
    }

    /// What is known is old from now on, and so is what a running walk brings (L-24, L-28).
    pub(super) fn invalidate(&self, kind: Kind) {
        self.slot(kind).generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Asks the server in the background: a few times, if it fails; until nothing overtook the walk, or the last
    /// of many changes would never be told.
    pub(super) fn refetch(self: &Arc<Self>, kind: Kind) {
        let shelf = Arc::clone(self);
        self.tasks.spawn("refetch", async move {
            let mut pauses = [1, 5].into_iter();
            while let Some(walked) = shelf.refresh(kind).await {
                match walked {
                    Ok(known) if known.generation == shelf.generation(kind) => return,
                    Ok(_) => tokio::time::sleep(OVERTAKEN).await,
                    Err(_) => match pauses.next() {
                        Some(pause) => tokio::time::sleep(Duration::from_secs(pause)).await,
                        None => return,
                    },
                }
            }
        });
    }

    fn generation(&self, kind: Kind) -> u64 {
        self.slot(kind).generation.load(Ordering::Acquire)
    }

    /// A notice of this server came in.
    pub(super) fn count_change(&self, kind: Kind) {
        self.slot(kind).announced.fetch_add(1, Ordering::AcqRel);
        self.metrics.list_changed(&self.server.name, kind.as_str(), "in");
    }

    /// Other replicas hear of a change; nothing waits for that.
    pub(super) fn tell_replicas(&self, what: impl FnOnce() -> What) {
        if let Some(cluster) = &self.cluster {
            cluster.changed(Change { server: self.server.name.to_string(), what: what() });
        }
    }

    /// Reads of a resource, and of its parts, are old.
    pub(super) fn forget_reads(&self, uri: &str) {
        self.reads.forget(uri);
    }

    /// All reads are old.
    pub(super) fn forget_all_reads(&self) {
        match &*self.context.load() {
            None => self.reads.forget_all(),
            Some(context) => self.reads.forget_of(&context.principal),
        }
    }

    /// Asks the server, once for all who want to know. `None` while stopping.
    pub async fn refresh(self: &Arc<Self>, kind: Kind) -> Option<Result<Arc<Published>, OutboundError>> {
        let shelf = Arc::clone(self);
        let work = move || async move { shelf.fetch(kind).await };
        self.slot(kind).flight.join(&self.tasks, "walk", work).await
    }

    /// Asks again on suspicion that what is known is old: only when it was fetched a while ago.
    /// True when something newer than `seen` is known afterwards.
    pub async fn refresh_if_older(self: &Arc<Self>, kind: Kind, seen: Option<u64>) -> bool {
        let current = self.known(kind);
        if current.as_ref().map(|k| k.id) != seen {
            return current.is_some();
        }
        let recent = current.is_some_and(|k| !k.restored && k.received + SUSPICION > Instant::now());
        if recent {
            return false;
        }
        let asked = tokio::time::timeout(self.server.config.list_timeout, self.refresh(kind));
        matches!(asked.await, Ok(Some(Ok(_))))
    }

    /// Watches the server from now on; the first thing done is a walk of everything.
    pub(super) fn keep(self: &Arc<Self>) {
        self.watched("watch", follow::keep(Arc::downgrade(self)));
    }

    /// Runs what watches the server, until it leaves the configuration.
    pub(super) fn watched(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let retired = self.retired.clone();
        self.tasks.spawn(name, async move {
            retired.run_until_cancelled(work).await;
        });
    }

    /// Whether anybody listens to what only this caller is shown.
    pub(super) fn is_heard(self: &Arc<Self>) -> bool {
        self.watch.is_heard()
    }
}
