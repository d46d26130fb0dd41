//! What the servers offer: Offered (as said) → Published (allowed, overridden), kept per server and kind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::join_all;
use tokio::sync::watch as watch_channel;
use tokio::time::{Instant, timeout};

pub mod bindings;
mod changed;
mod checkers;
mod execution;
pub mod fault;
mod fetch;
mod follow;
pub mod guard;
pub mod hints;
pub mod member;
pub mod publish;
pub mod reads;
pub mod shelf;
pub mod store;
mod users;
mod walk;
pub mod watch;

pub use fault::Fault;
pub use guard::Contracts;
pub use member::Member;
pub use publish::{Published, PublishedItem};
pub use shelf::{Lookup, Shelf};

use crate::cluster::news::What;
use crate::cluster::{Change, Cluster};
use crate::outbound::Server;
use crate::protocol::method::Kind;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;

/// What there is of all servers, in file order.
#[derive(Debug)]
pub struct Catalogue {
    members: ArcSwap<Vec<Arc<Member>>>,
    /// Raised with every change of anything.
    hub: Arc<watch_channel::Sender<u64>>,
    tasks: Tasks,
    metrics: Arc<Metrics>,
    /// The approved definitions, where any server is guarded.
    contracts: ArcSwapOption<Contracts>,
    /// Compiled schemas, where calls are held against them.
    checkers: Arc<checkers::Checkers>,
    /// The other replicas, if there are any.
    cluster: Option<Arc<Cluster>>,
}

/// How long another configuration waits for what new servers offer, so that callers see it whole.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Numbers snapshots: two with the same number hold the same.
static SNAPSHOTS: AtomicU64 = AtomicU64::new(1);

/// Counts lists that were put in place: as long as it stands still, nothing is known that was not known before.
/// Beside [`Catalogue::changes`], which is a lock that every call would touch.
static PLACED: AtomicU64 = AtomicU64::new(1);

/// How often any list of any server was put in place; ask before looking at what is known.
pub fn lists_placed() -> u64 {
    PLACED.load(Ordering::Acquire)
}

fn note_placed() {
    PLACED.fetch_add(1, Ordering::AcqRel);
}

pub(super) fn next_snapshot() -> u64 {
    SNAPSHOTS.fetch_add(1, Ordering::Relaxed)
}

impl Catalogue {
    /// An empty catalogue.
    pub fn new(tasks: Tasks, metrics: Arc<Metrics>) -> Self {
        let hub = Arc::new(watch_channel::Sender::new(0));
        let contracts = ArcSwapOption::empty();
        let checkers = Arc::default();
        Self { members: ArcSwap::default(), hub, tasks, metrics, contracts, checkers, cluster: None }
    }

    /// Servers planned from now on are guarded by these approved definitions.
    pub fn guard_by(&self, contracts: Option<Arc<Contracts>>) {
        self.contracts.store(contracts);
    }

    /// The same, as one of several replicas.
    #[must_use]
    pub fn with_cluster(self, cluster: Option<Arc<Cluster>>) -> Self {
        Self { cluster, ..self }
    }

    /// Another replica was told of a change.
    pub fn changed_elsewhere(&self, change: &Change) {
        for member in self.members.load().iter().filter(|member| member.server.name.as_ref() == change.server)
        {
            follow::told_elsewhere(&member.service, &change.what);
        }
    }

    /// Nobody knows what other replicas were told of.
    pub fn all_changed_elsewhere(&self) {
        for member in self.members.load().iter() {
            What::ALL.iter().for_each(|what| follow::told_elsewhere(&member.service, what));
        }
    }

    /// What the approved definitions are, where any server is guarded.
    pub fn contracts(&self) -> Option<Arc<Contracts>> {
        self.contracts.load_full()
    }

    /// The members of `servers`: of those that are the same object what is known is kept, the others are walked at once,
    /// in the background. Callers see none of it before [`Catalogue::adopt`].
    pub fn plan(
        &self,
        servers: &[Arc<Server>],
        rules: shelf::Rules,
        state_dir: Option<&Path>,
    ) -> Arc<Vec<Arc<Member>>> {
        let (old, contracts) = (self.members.load(), self.contracts());
        let kept = |server: &Arc<Server>| {
            old.iter().find(|member| member.is_of(server, rules, contracts.as_ref())).map(Arc::clone)
        };
        let made = |server: &Arc<Server>| Arc::new(Member::new(server, rules, self, state_dir));
        let list = servers.iter().map(|server| kept(server).unwrap_or_else(|| made(server)));
        Arc::new(list.collect())
    }

    /// Returns once the first walks of those of `planned` that are new have ended, or took as long as a list would wait.
    pub async fn settle(&self, planned: &[Arc<Member>]) {
        let old = self.members.load_full();
        let is_new = |member: &&Arc<Member>| !old.iter().any(|known| Arc::ptr_eq(known, member));
        let shelves = planned.iter().filter(is_new).filter(|member| !member.is_per_user());
        let walks = shelves.flat_map(|member| {
            let (shelf, limit) = (&member.service, member.server.config.list_timeout.min(LONGEST_WAIT));
            Kind::ALL.map(|kind| timeout(limit, shelf.refresh(kind)))
        });
        // What does not answer is missing, as it would be at a start.
        join_all(walks).await;
    }

    /// Makes these the members; what watched the others ends.
    pub fn adopt(&self, members: &Arc<Vec<Arc<Member>>>) {
        let old = self.members.swap(Arc::clone(members));
        let gone = old.iter().filter(|member| !members.iter().any(|kept| Arc::ptr_eq(kept, member)));
        gone.for_each(|member| member.retire());
    }

    /// Wakes when anything may have changed: a list, a resource, a configuration.
    pub fn changes(&self) -> watch_channel::Receiver<u64> {
        self.hub.subscribe()
    }

    /// Says that something else changed that lists are made of.
    pub fn nudge(&self) {
        self.hub.send_modify(|version| *version += 1);
    }

    /// What there is of each server, in file order.
    pub fn members(&self) -> Arc<Vec<Arc<Member>>> {
        self.members.load_full()
    }

    /// What the gateway itself is shown of each server, in file order.
    pub fn shelves(&self) -> Vec<Arc<Shelf>> {
        self.members.load().iter().map(|member| Arc::clone(&member.service)).collect()
    }

    /// Brings the gauges that depend on time up to date. Of a server that shows each caller his own there are none:
    /// one caller's list says nothing of the next one's, and a gauge that jumps between them even less.
    pub fn sample(&self) {
        let now = Instant::now();
        for member in self.members.load().iter() {
            member.server.sample();
            let Some(shelf) = Some(&member.service).filter(|_| !member.is_per_user()) else { continue };
            for kind in Kind::ALL {
                if let Some(known) = shelf.known(kind) {
                    let age = now.saturating_duration_since(known.received);
                    self.metrics.catalogue_age(&shelf.server.name, kind.as_str(), age);
                }
            }
        }
    }
}
