//! Ready: sockets bound, `required` servers answered once, every other tried once or 5 s passed (design §8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::outbound::Server;
use crate::tasks::Tasks;

/// How long a server that is not `required` may hold readiness back.
const OTHERS: Duration = Duration::from_secs(5);

/// Whether traffic is welcome, and if not why.
#[derive(Debug)]
pub struct Readiness {
    started: Instant,
    draining: AtomicBool,
    /// Nobody once it was ready: servers gate the start only.
    waiting: ArcSwap<Vec<Arc<Waiting>>>,
}

#[derive(Debug)]
struct Waiting {
    server: Arc<Server>,
    /// Answered once.
    answered: AtomicBool,
    /// Tried once.
    tried: AtomicBool,
}

impl Readiness {
    /// Of a gateway that has just been built. Follows the first contact of each server in the background.
    pub fn new(servers: &[Arc<Server>], tasks: &Tasks) -> Self {
        let waiting = ArcSwap::from_pointee(servers.iter().map(|server| watch(server, tasks)).collect());
        Self { started: Instant::now(), draining: AtomicBool::new(false), waiting }
    }

    /// Other servers are configured: where it was not ready yet, those that are there now are waited for.
    pub fn renew(&self, servers: &[Arc<Server>], tasks: &Tasks) {
        let before = self.waiting.load();
        if self.draining.load(Ordering::Relaxed) || before.is_empty() || self.waiting_for().is_none() {
            return self.waiting.store(Arc::default());
        }
        let known = |server: &Arc<Server>| before.iter().find(|known| Arc::ptr_eq(&known.server, server));
        let of = |server| known(server).map_or_else(|| watch(server, tasks), Arc::clone);
        self.waiting.store(Arc::new(servers.iter().map(of).collect()));
    }

    /// From now on not ready.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Why traffic is not welcome yet or any more.
    pub fn waiting_for(&self) -> Option<String> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("draining".to_owned());
        }
        let waiting = self.waiting.load();
        let late = self.started.elapsed() >= OTHERS;
        let holds = |waiting: &&Arc<Waiting>| {
            let answered = waiting.answered.load(Ordering::Relaxed);
            let tried = waiting.tried.load(Ordering::Relaxed);
            let config = &waiting.server.config;
            let required = config.required && !config.credentials.is_per_user();
            !answered && (required || !(tried || late))
        };
        let names: Vec<&str> = waiting.iter().filter(holds).map(|w| &*w.server.name).collect();
        if names.is_empty() {
            // Nothing is asked of them any more, and what is let go is not kept alive.
            self.waiting.store(Arc::default());
            return None;
        }
        Some(format!("waiting for {}", names.join(", ")))
    }
}

/// Follows the first contact of a server for as long as anybody wants to know of it.
fn watch(server: &Arc<Server>, tasks: &Tasks) -> Arc<Waiting> {
    let waiting = Arc::new(Waiting {
        server: Arc::clone(server),
        answered: AtomicBool::new(false),
        tried: AtomicBool::new(false),
    });
    let watched = Arc::downgrade(&waiting);
    // Where each caller is himself, the gateway need not be anybody: one try says whether there is a server.
    let once = server.config.credentials.is_per_user();
    tasks.spawn("readiness", async move {
        while let Some(waiting) = watched.upgrade() {
            let ready = waiting.server.peer().await.is_ok();
            waiting.answered.store(ready, Ordering::Relaxed);
            waiting.tried.store(true, Ordering::Relaxed);
            if ready || once {
                return;
            }
            let pause = waiting.server.retry_in().max(Duration::from_millis(100));
            drop(waiting);
            tokio::time::sleep(pause).await;
        }
    });
    waiting
}
