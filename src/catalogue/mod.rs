//! What the servers offer: Offered (as said) → Published (allowed, overridden), kept per server and kind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::watch as watch_channel;
use tokio::time::Instant;

pub mod bindings;
pub mod fault;
mod follow;
pub mod hints;
pub mod publish;
pub mod reads;
pub mod shelf;
mod store;
mod walk;
pub mod watch;

pub use fault::Fault;
pub use publish::{Published, PublishedItem};
pub use shelf::{Lookup, Shelf};

use crate::outbound::Server;
use crate::protocol::method::Kind;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;

/// The shelves of all servers, in file order.
#[derive(Debug)]
pub struct Catalogue {
    shelves: ArcSwap<Vec<Arc<Shelf>>>,
    /// Raised with every change of anything.
    hub: Arc<watch_channel::Sender<u64>>,
    tasks: Tasks,
    metrics: Arc<Metrics>,
}

/// Numbers snapshots: two with the same number hold the same.
static SNAPSHOTS: AtomicU64 = AtomicU64::new(1);

pub(super) fn next_snapshot() -> u64 {
    SNAPSHOTS.fetch_add(1, Ordering::Relaxed)
}

impl Catalogue {
    /// An empty catalogue.
    pub fn new(tasks: Tasks, metrics: Arc<Metrics>) -> Self {
        Self { shelves: ArcSwap::default(), hub: Arc::new(watch_channel::Sender::new(0)), tasks, metrics }
    }

    /// Makes the shelves those of `servers`; servers that are the same object keep what is known of them.
    /// New ones are walked at once, in the background.
    pub fn reconcile(
        &self,
        servers: &[Arc<Server>],
        rules: shelf::Rules,
        state_dir: Option<&Path>,
    ) -> Arc<Vec<Arc<Shelf>>> {
        let old = self.shelves.load_full();
        let kept = |server: &Arc<Server>| {
            old.iter().find(|s| Arc::ptr_eq(&s.server, server) && s.rules == rules).map(Arc::clone)
        };
        let list: Vec<Arc<Shelf>> = servers
            .iter()
            .map(|server| {
                kept(server).unwrap_or_else(|| {
                    let watch = watch::Watch::new(Arc::clone(&self.hub));
                    let shelf = Arc::new(Shelf::new(Arc::clone(server), rules, watch, self, state_dir));
                    shelf.keep();
                    shelf
                })
            })
            .collect();
        let list = Arc::new(list);
        self.shelves.store(Arc::clone(&list));
        list
    }

    /// Wakes when anything may have changed: a list, a resource, a configuration.
    pub fn changes(&self) -> watch_channel::Receiver<u64> {
        self.hub.subscribe()
    }

    /// Says that something else changed that lists are made of.
    pub fn nudge(&self) {
        self.hub.send_modify(|version| *version += 1);
    }

    /// The shelves now, in file order.
    pub fn shelves(&self) -> Arc<Vec<Arc<Shelf>>> {
        self.shelves.load_full()
    }

    /// Brings the gauges that depend on time up to date.
    pub fn sample(&self) {
        let now = Instant::now();
        for shelf in self.shelves.load().iter() {
            shelf.server.sample();
            for kind in Kind::ALL {
                if let Some(known) = shelf.known(kind) {
                    let age = now.saturating_duration_since(known.received);
                    self.metrics.catalogue_age(&shelf.server.name, kind.as_str(), age);
                }
            }
        }
    }
}
