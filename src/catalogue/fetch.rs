//! A shelf is filled: from its server by a walk, after a restart from disk (L-20, L-28, design §5).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::hints::{Hints, Scope};
use super::publish::Published;
use super::shelf::Shelf;
use super::walk::{self, Walked};
use crate::config::Validating;
use crate::outbound::{Failure, OutboundError};
use crate::protocol::method::Kind;

/// How long a list without hints is fresh where its changes are told (`server.ttl`).
const WATCHED_TTL: Duration = Duration::from_secs(60);
/// How long a first walk waits until it is known whether changes are told.
const SETTLE: Duration = Duration::from_millis(500);
/// Faults of one list that the log names one by one; a list may have any number.
const MOST_TOLD: usize = 20;
/// How long "it has no prompts" holds before the server is asked again.
const ABSENT_TTL: Duration = Duration::from_secs(60);

impl Shelf {
    /// What was known before a restart stands in until the server answers.
    pub(super) fn restore(&self, kind: Kind) {
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

    /// Asks the server, until nothing changes meanwhile.
    pub(super) async fn fetch(&self, kind: Kind) -> Result<Arc<Published>, OutboundError> {
        let slot = self.slot(kind);
        let peer = self.peer().await?;
        if slot.known.load().as_ref().is_none_or(|known| known.restored) {
            // Walked after its changes are told, one walk is enough.
            self.watch.settled(SETTLE).await;
        }
        // Endless changes do not make a walk endless: the last one is kept as what it is, old.
        for last in [false, false, true] {
            let generation = slot.generation.load(Ordering::Acquire);
            let announced = slot.announced.load(Ordering::Acquire);
            let mut published = if peer.offer.lists(kind) {
                let walked = walk::walk(&self.server, self.context(), kind).await?;
                let hints = self.hints(kind, &walked);
                self.save(kind, &walked);
                let published = self.published(kind, walked, hints);
                self.report(kind, &published);
                published
            } else {
                let mut none = Published::new(Hints { ttl: ABSENT_TTL, scope: Scope::Public }, false);
                none.approved = self.guard.as_ref().map_or(0, |guard| guard.number());
                none
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
        let kept = self.guard.as_ref().map(|guard| guard.judge(&self.server.config, kind, &mut walked));
        let mut published = Published::from_walk(&self.server.config, kind, walked, hints);
        if let Some(kept) = kept {
            published.approved = kept.number;
            for item in &mut published.items {
                item.held = kept.held.get(&item.native).cloned();
            }
        }
        if kind == Kind::Tools && self.server.config.validate != Validating::Off {
            for item in &mut published.items {
                item.checks = Some(self.checkers.of(&item.said));
            }
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
        if self.gauged {
            self.metrics.catalogue(name, kind.as_str(), distinct(&published));
        }
        if kind == Kind::Tools && !published.restored {
            self.metrics.missing(name).set(0);
        }
        let published = Arc::new(published);
        let old = slot.known.swap(Some(Arc::clone(&published)));
        super::note_placed();
        if self.gauged {
            self.tell_operators(kind, old.as_deref(), &published);
        }
        self.bytes.fetch_add(published.bytes(), Ordering::Relaxed);
        self.bytes.fetch_sub(old.as_ref().map_or(0, |old| old.bytes()), Ordering::Relaxed);
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
        let told = if self.loud { MOST_TOLD } else { 0 };
        published.faults.iter().take(told).for_each(|fault| fault.log(server, kind));
        if self.loud && published.faults.len() > MOST_TOLD {
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
}

/// Items by their name: a server may repeat itself.
fn distinct(published: &Published) -> usize {
    let shown = published.items.iter().filter(|item| item.withdrawn().is_none());
    shown.map(|item| &item.native).collect::<HashSet<_>>().len()
}
