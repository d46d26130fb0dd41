//! A server that sees each caller as himself: one shelf for each authorization context, kept while it is used (L-22,
//! design §5). Never on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch as watch_channel;

use super::reads::Reads;
use super::shelf::{Maker, Rules, Shelf};
use super::watch::Watch;
use crate::outbound::keep::Keep;
use crate::outbound::{Context, Server};
use crate::tasks::Tasks;

/// Callers of one server whose catalogues are kept, how long for those who do not come back, and bytes of all.
const MOST: usize = 2000;
const IDLE: Duration = Duration::from_secs(15 * 60);
const MOST_BYTES: usize = 256 << 20;

/// The shelves of one server by authorization context.
#[derive(Debug)]
pub(super) struct Users {
    server: Arc<Server>,
    rules: Rules,
    maker: Maker,
    hub: Arc<watch_channel::Sender<u64>>,
    /// One memory for all: it keeps callers apart by itself.
    reads: Arc<Reads>,
    kept: Keep<Arc<str>, Shelf>,
    /// Whether somebody looks after them.
    swept: AtomicBool,
    /// Whether somebody's lists are spoken of in the log: one caller's are enough to find a server's faults.
    told: AtomicBool,
    tasks: Tasks,
}

impl Users {
    pub(super) fn new(
        server: Arc<Server>,
        rules: Rules,
        maker: Maker,
        hub: Arc<watch_channel::Sender<u64>>,
    ) -> Self {
        let tasks = maker.tasks.clone();
        Self {
            server,
            rules,
            maker,
            hub,
            reads: Arc::new(Reads::new()),
            kept: Keep::new(MOST, IDLE, Shelf::is_heard),
            swept: AtomicBool::new(false),
            told: AtomicBool::new(false),
            tasks,
        }
    }

    /// The shelf of a context, which brings the caller's newest token.
    pub(super) fn shelf(self: &Arc<Self>, context: Arc<Context>) -> Arc<Shelf> {
        let mut made = false;
        let make = || {
            made = true;
            self.make(Arc::clone(&context))
        };
        let (shelf, _gone) = self.kept.get(&context.principal, make);
        // No room: all are listened to. This one lives as long as its request, and is not watched.
        let shelf = shelf.unwrap_or_else(|| {
            let shelf = self.make(Arc::clone(&context));
            shelf.watch.stay_closed();
            Arc::new(shelf)
        });
        if made {
            drop(self.kept.shrink(|shelf| shelf.bytes(), MOST_BYTES));
            if !self.swept.swap(true, Ordering::Relaxed) {
                self.sweep();
            }
        } else if context.has_token() {
            // A request that another replica sent on has none.
            shelf.present(context);
        }
        shelf
    }

    fn make(&self, context: Arc<Context>) -> Shelf {
        let loud = !self.told.swap(true, Ordering::Relaxed);
        let watch = Watch::unwatched(Arc::clone(&self.hub));
        Shelf::of_caller(&self.maker, (Arc::clone(&self.server), self.rules), watch, (context, loud))
            .with_reads(Arc::clone(&self.reads))
    }

    fn sweep(self: &Arc<Self>) {
        let (users, pause) = (Arc::downgrade(self), self.kept.pause());
        self.tasks.spawn("sweep", async move {
            while let Some(users) = users.upgrade() {
                drop(users.kept.sweep());
                drop(users.kept.shrink(|shelf| shelf.bytes(), MOST_BYTES));
                drop(users);
                tokio::time::sleep(pause).await;
            }
        });
    }
}
