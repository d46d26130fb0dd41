//! What is known of one server: fresh, stale or missing; asked for once however many want it (L-20..L-28).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use super::hints::{Hints, Scope};
use super::publish::Published;
use super::walk::{self, Walked};
use crate::outbound::{OutboundError, Server};
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
    tasks: Tasks,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Slot {
    known: ArcSwapOption<Published>,
    flight: Flight<Result<Arc<Published>, OutboundError>>,
    /// Raised by whatever makes a running walk's result old (L-28).
    generation: AtomicU64,
}

/// A list fetched after this long may be asked for again on suspicion (L-27, H-52).
pub const SUSPICION: Duration = Duration::from_secs(10);
/// How long "it has no prompts" holds before the server is asked again.
const ABSENT_TTL: Duration = Duration::from_secs(60);

impl Shelf {
    pub(super) fn new(server: Arc<Server>, rules: Rules, tasks: Tasks, metrics: Arc<Metrics>) -> Self {
        metrics.missing(&server.name).set(1);
        Self { server, rules, slots: Default::default(), tasks, metrics }
    }

    const fn slot(&self, kind: Kind) -> &Slot {
        &self.slots[kind as usize]
    }

    /// What is known, fresh or not; nobody is asked.
    pub fn known(&self, kind: Kind) -> Option<Arc<Published>> {
        self.slot(kind).known.load_full()
    }

    /// What the server offers: from memory while fresh, else asked for, waiting at most `list_timeout`.
    pub async fn look_up(self: &Arc<Self>, kind: Kind) -> Lookup {
        let known = self.known(kind);
        if let Some(known) = known.as_ref().filter(|k| k.is_fresh(Instant::now())) {
            self.metrics.cache(kind.as_str(), "hit");
            return Lookup::Fresh(Arc::clone(known));
        }
        let asked = tokio::time::timeout(self.server.config.list_timeout, self.refresh(kind));
        if let Ok(Some(Ok(fresh))) = asked.await {
            self.metrics.cache(kind.as_str(), "miss");
            return Lookup::Fresh(fresh);
        }
        let usable = |known: &Arc<Published>| {
            known.received + known.hints.ttl + self.rules.stale_if_error > Instant::now()
        };
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
        let recent = current.is_some_and(|k| k.received + SUSPICION > Instant::now());
        if recent {
            return false;
        }
        let asked = tokio::time::timeout(self.server.config.list_timeout, self.refresh(kind));
        matches!(asked.await, Ok(Some(Ok(_))))
    }

    async fn fetch(&self, kind: Kind) -> Result<Arc<Published>, OutboundError> {
        let slot = self.slot(kind);
        loop {
            let generation = slot.generation.load(Ordering::Acquire);
            let peer = self.server.peer().await?;
            let published = if peer.offer.lists(kind) {
                let walked = walk::walk(&self.server, kind).await?;
                let hints = self.hints(&walked);
                let published = Published::from_walk(&self.server.config, kind, walked, hints);
                self.report(kind, &published);
                published
            } else {
                Published::new(Hints { ttl: ABSENT_TTL, scope: Scope::Public }, false)
            };
            if slot.generation.load(Ordering::Acquire) != generation {
                // Overtaken by a change: what was walked may be the state before it.
                continue;
            }
            return Ok(self.keep_snapshot(kind, published));
        }
    }

    /// Stores a snapshot; one that says the same as the last keeps its number, so views stay built.
    fn keep_snapshot(&self, kind: Kind, mut published: Published) -> Arc<Published> {
        let slot = self.slot(kind);
        let same = |old: &Published| {
            old.items.len() == published.items.len()
                && old.items.iter().zip(&published.items).all(|(a, b)| a.json == b.json)
        };
        if let Some(old) = slot.known.load().as_ref().filter(|old| same(old)) {
            published.id = old.id;
        }
        let name = &*self.server.name;
        self.metrics.catalogue(name, kind.as_str(), published.items.len());
        if kind == Kind::Tools {
            self.metrics.missing(name).set(0);
        }
        let published = Arc::new(published);
        slot.known.store(Some(Arc::clone(&published)));
        published
    }

    fn hints(&self, walked: &Walked) -> Hints {
        let config = &self.server.config;
        let fallback = Hints {
            ttl: config.ttl.unwrap_or_default(),
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
        for fault in &published.faults {
            fault.log(server, kind);
            if let Some(label) = fault.violation() {
                self.metrics.violation(server, label);
            }
        }
    }

    /// Walks what nobody asked for yet in the background, again and again until the server was reached.
    pub(super) fn keep(self: &Arc<Self>) {
        let shelf = Arc::clone(self);
        self.tasks.spawn("first walk", async move {
            while !shelf.walk_unknown().await && Arc::strong_count(&shelf) > 1 {
                tokio::time::sleep(shelf.server.retry_in().max(Duration::from_millis(100))).await;
            }
        });
    }

    /// Walks each kind of which nothing is known; false when one is not to be had.
    async fn walk_unknown(self: &Arc<Self>) -> bool {
        for kind in Kind::ALL {
            let known = self.known(kind).is_some() || matches!(self.refresh(kind).await, Some(Ok(_)));
            if !known {
                return false;
            }
        }
        true
    }
}
