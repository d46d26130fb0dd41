//! What is known of one server: fresh, stale or missing; asked for once however many want it (L-20..L-28).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use super::Catalogue;
use super::follow;
use super::guard::{self, Guard};
use super::hints::{Hints, Scope};
use super::publish::Published;
use super::reads::Reads;
use super::store::Store;
use super::walk::{self, Walked};
use super::watch::Watch;
use crate::outbound::{Failure, OutboundError, Server};
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

/// One server's part of the catalogue.
#[derive(Debug)]
pub struct Shelf {
    /// Whose it is.
    pub server: Arc<Server>,
    pub(super) rules: Rules,
    slots: [Slot; Kind::ALL.len()],
    /// What it tells of changes.
    pub watch: Watch,
    /// Resources read from it.
    pub reads: Reads,
    /// What was approved of it.
    pub(super) guard: Option<Guard>,
    store: Option<Store>,
    tasks: Tasks,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Slot {
    known: ArcSwapOption<Published>,
    flight: Flight<Result<Arc<Published>, OutboundError>>,
    /// Raised by whatever makes a running walk's result old (L-28).
    generation: AtomicU64,
    /// Changes of this list the server told of.
    announced: AtomicU64,
}

/// A list fetched after this long may be asked for again on suspicion (L-27, H-52).
pub const SUSPICION: Duration = Duration::from_secs(10);
/// How long a list without hints is fresh where its changes are told (`server.ttl`).
const WATCHED_TTL: Duration = Duration::from_secs(60);
/// How long a first walk waits until it is known whether changes are told.
const SETTLE: Duration = Duration::from_millis(500);
/// Faults of one list that the log names one by one; a list may have any number.
const MOST_TOLD: usize = 20;
/// The pause after walks that changes overtook all the time.
const OVERTAKEN: Duration = Duration::from_millis(500);
/// How long "it has no prompts" holds before the server is asked again.
const ABSENT_TTL: Duration = Duration::from_secs(60);

impl Shelf {
    pub(super) fn new(
        server: Arc<Server>,
        rules: Rules,
        watch: Watch,
        shared: &Catalogue,
        state_dir: Option<&Path>,
    ) -> Self {
        shared.metrics.missing(&server.name).set(1);
        let guarding = server.config.contract;
        let shelf = Self {
            guard: Guard::new(&server.name, guarding, shared.contracts.as_ref()),
            store: state_dir.map(|folder| Store::new(folder, &server.config)),
            server,
            rules,
            slots: Default::default(),
            watch,
            reads: Reads::new(),
            tasks: shared.tasks.clone(),
            metrics: Arc::clone(&shared.metrics),
        };
        Kind::ALL.into_iter().for_each(|kind| shelf.restore(kind));
        shelf
    }

    /// What was known before a restart stands in until the server answers.
    fn restore(&self, kind: Kind) {
        let Some(restored) = self.store.as_ref().and_then(|store| store.load(kind)) else { return };
        let hints = self.hints(kind, &restored.walked);
        let left = (hints.ttl + self.rules.stale_if_error).saturating_sub(restored.age);
        if left.is_zero() {
            return;
        }
        let mut published = self.published(kind, restored.walked, hints);
        published.restored = true;
        published.stale_until = Instant::now() + left;
        self.keep_snapshot(kind, published);
    }

    /// Writes a walk to disk, behind everybody's back.
    fn save(&self, kind: Kind, walked: &Walked) {
        let Some(store) = self.store.clone() else { return };
        let Some(content) = store.encode(walked) else { return };
        self.tasks.spawn("save catalogue", async move {
            // A failure is logged where it happens; a cancelled one leaves the old file.
            let _ = tokio::task::spawn_blocking(move || store.save(kind, &content)).await;
        });
    }

    const fn slot(&self, kind: Kind) -> &Slot {
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

    /// What the server offers: from memory while fresh, else asked for, waiting at most `list_timeout`.
    pub async fn look_up(self: &Arc<Self>, kind: Kind) -> Lookup {
        let known = self.known(kind);
        if let Some(known) = known.as_ref().filter(|k| self.is_fresh(kind, k)) {
            self.metrics.cache(kind.as_str(), "hit");
            return Lookup::Fresh(Arc::clone(known));
        }
        let asked = tokio::time::timeout(self.server.config.list_timeout, self.refresh(kind));
        if let Ok(Some(Ok(fresh))) = asked.await {
            self.metrics.cache(kind.as_str(), "miss");
            return Lookup::Fresh(fresh);
        }
        let usable = |known: &Arc<Published>| known.stale_until > Instant::now();
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
        !known.restored && known.generation == self.generation(kind) && known.is_fresh(Instant::now())
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

    /// Reads of a resource, and of its parts, are old.
    pub(super) fn forget_reads(&self, uri: &str) {
        self.reads.forget(uri);
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

    async fn fetch(&self, kind: Kind) -> Result<Arc<Published>, OutboundError> {
        let slot = self.slot(kind);
        let peer = self.server.peer().await?;
        if slot.known.load().as_ref().is_none_or(|known| known.restored) {
            // Walked after its changes are told, one walk is enough.
            self.watch.settled(SETTLE).await;
        }
        // Endless changes do not make a walk endless: the last one is kept as what it is, old.
        for last in [false, false, true] {
            let generation = slot.generation.load(Ordering::Acquire);
            let announced = slot.announced.load(Ordering::Acquire);
            let mut published = if peer.offer.lists(kind) {
                let walked = walk::walk(&self.server, kind).await?;
                let hints = self.hints(kind, &walked);
                self.save(kind, &walked);
                let published = self.published(kind, walked, hints);
                self.report(kind, &published);
                published
            } else {
                Published::new(Hints { ttl: ABSENT_TTL, scope: Scope::Public }, false)
            };
            published.generation = generation;
            published.announced = announced;
            published.stale_until += self.rules.stale_if_error;
            if last || slot.generation.load(Ordering::Acquire) == generation {
                return Ok(self.keep_snapshot(kind, published));
            }
        }
        Err(OutboundError::new(Arc::clone(&self.server.name), Failure::Malformed("lists"), true))
    }

    /// What of a walk may be seen: first what was approved of it, then what the operator allows.
    fn published(&self, kind: Kind, mut walked: Walked, hints: Hints) -> Published {
        let kept = self
            .guard
            .as_ref()
            .map(|guard| guard.judge(&self.server.config, kind, &mut walked))
            .unwrap_or_default();
        let mut published = Published::from_walk(&self.server.config, kind, walked, hints);
        for item in published.items.iter_mut().filter(|_| !kept.held.is_empty()) {
            item.held = kept.held.get(&item.native).cloned();
        }
        published
    }

    /// Stores a snapshot; one that says the same as the last keeps its number, so views stay built.
    fn keep_snapshot(&self, kind: Kind, mut published: Published) -> Arc<Published> {
        let slot = self.slot(kind);
        if let Some(old) = slot.known.load().as_ref().filter(|old| old.looks_like(&published)) {
            published.looks = old.looks;
            if old.acts_like(&published) {
                published.id = old.id;
            }
        }
        let name = &*self.server.name;
        self.metrics.catalogue(name, kind.as_str(), distinct(&published));
        if kind == Kind::Tools && !published.restored {
            self.metrics.missing(name).set(0);
        }
        let published = Arc::new(published);
        let old = slot.known.swap(Some(Arc::clone(&published)));
        if old.is_none_or(|old| old.id != published.id || old.announced != published.announced) {
            self.watch.tell();
        }
        published
    }

    fn hints(&self, kind: Kind, walked: &Walked) -> Hints {
        let config = &self.server.config;
        let unsaid = if self.watch.tells(kind) { WATCHED_TTL } else { Duration::ZERO };
        let fallback = Hints {
            ttl: config.ttl.unwrap_or(unsaid),
            scope: if config.cache_public { Scope::Public } else { Scope::Private },
        };
        let read = |(ttl, scope): &(Option<Box<str>>, Option<Box<str>>)| {
            Hints::read(ttl.as_deref(), scope.as_deref(), fallback, self.rules.max_ttl)
        };
        let pages = walked.hints.iter().map(read);
        pages.reduce(Hints::merge).unwrap_or(fallback)
    }

    fn report(&self, kind: Kind, published: &Published) {
        let server = &*self.server.name;
        published.faults.iter().take(MOST_TOLD).for_each(|fault| fault.log(server, kind));
        if published.faults.len() > MOST_TOLD {
            tracing::warn!(
                server,
                kind = kind.as_str(),
                faults = published.faults.len(),
                "a list with many faults"
            );
        }
        for fault in &published.faults {
            if let Some(label) = fault.violation() {
                self.metrics.violation(server, label);
            }
        }
    }

    /// Watches the server from now on; the first thing done is a walk of everything.
    pub(super) fn keep(self: &Arc<Self>) {
        self.tasks.spawn("watch", follow::keep(Arc::downgrade(self)));
        if self.guard.is_some() {
            self.tasks.spawn("contract", guard::attend(Arc::downgrade(self)));
        }
    }
}

/// Items by their name: a server may repeat itself.
fn distinct(published: &Published) -> usize {
    let shown = published.items.iter().filter(|item| item.withdrawn().is_none());
    shown.map(|item| &item.native).collect::<HashSet<_>>().len()
}
