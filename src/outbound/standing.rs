//! How a server stands: what operators are shown of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;

use super::error::Failure;
use super::server::Server;

/// How a server stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// How it speaks, if it ever did.
    pub era: Option<&'static str>,
    /// The revision that was agreed on, while that holds.
    pub version: Option<String>,
    /// Whether the last contact succeeded.
    pub up: bool,
    /// Requests it is at work on.
    pub inflight: i64,
    /// Calls that wait for a permit.
    pub waiting: usize,
    /// Its breaker, where it has one: closed, half-open or open.
    pub breaker: Option<&'static str>,
    /// The last failure and when it was; it may have been up again since.
    pub failure: Option<(String, SystemTime)>,
    /// While it is down: how long until it is tried again.
    pub retry_in: Option<Duration>,
    /// Starts of its processes after the first.
    pub restarts: u64,
}

/// The last failure of a server. Noted by what fails only.
#[derive(Debug, Default)]
pub(super) struct LastFailure(ArcSwapOption<(Failure, SystemTime)>);

impl LastFailure {
    pub(super) fn note(&self, failure: &Failure) {
        self.0.store(Some(Arc::new((failure.clone(), SystemTime::now()))));
    }
}

impl Server {
    /// How it stands now. Nobody is contacted.
    pub fn standing(&self) -> Standing {
        let up = self.ward.is_up();
        let failure = self.last_failure.0.load();
        Standing {
            era: self.era().map(|era| era.as_str()),
            version: self.known_peer().map(|peer| peer.version.clone()),
            up,
            inflight: self.metrics.inflight(&self.name).get(),
            waiting: self.waiting.load(Ordering::Relaxed),
            breaker: self.ward.breaker(),
            failure: failure.as_deref().map(|(failure, at)| (failure.to_string(), *at)),
            retry_in: (!up && failure.is_some()).then(|| self.retry_in()),
            restarts: self.metrics.child_restarts(&self.name).get(),
        }
    }
}
