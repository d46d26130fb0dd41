//! Ready: sockets bound, `required` servers answered once, every other tried once or 5 s passed (design §8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::outbound::Server;
use crate::tasks::Tasks;

/// How long a server that is not `required` may hold readiness back.
const OTHERS: Duration = Duration::from_secs(5);

/// Whether traffic is welcome, and if not why.
#[derive(Debug)]
pub struct Readiness {
    started: Instant,
    draining: AtomicBool,
    servers: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    server: Arc<Server>,
    /// Answered once.
    answered: Arc<AtomicBool>,
    /// Tried once.
    tried: Arc<AtomicBool>,
}

impl Readiness {
    /// Of a gateway that has just been built.
    pub fn new(gateway: &Gateway) -> Self {
        let waiting = |server: &Arc<Server>| Waiting {
            server: Arc::clone(server),
            answered: Arc::default(),
            tried: Arc::default(),
        };
        let servers = gateway.servers.all().iter().map(waiting).collect();
        Self { started: Instant::now(), draining: AtomicBool::new(false), servers }
    }

    /// Follows the first contact of each server in the background.
    pub fn watch(&self, tasks: &Tasks) {
        for waiting in &self.servers {
            let server = Arc::clone(&waiting.server);
            let (answered, tried) = (Arc::clone(&waiting.answered), Arc::clone(&waiting.tried));
            // Where each caller is himself, the gateway need not be anybody: one try says whether there is a server.
            let once = server.config.credentials.is_per_user();
            tasks.spawn("readiness", async move {
                let mut ready = server.peer().await.is_ok();
                tried.store(true, Ordering::Relaxed);
                while !ready && !once {
                    tokio::time::sleep(server.retry_in().max(Duration::from_millis(100))).await;
                    ready = server.peer().await.is_ok();
                }
                answered.store(ready, Ordering::Relaxed);
            });
        }
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
        let late = self.started.elapsed() >= OTHERS;
        let holds = |waiting: &&Waiting| {
            let answered = waiting.answered.load(Ordering::Relaxed);
            let tried = waiting.tried.load(Ordering::Relaxed);
            let config = &waiting.server.config;
            let required = config.required && !config.credentials.is_per_user();
            !answered && (required || !(tried || late))
        };
        let names: Vec<&str> = self.servers.iter().filter(holds).map(|w| &*w.server.name).collect();
        (!names.is_empty()).then(|| format!("waiting for {}", names.join(", ")))
    }
}
