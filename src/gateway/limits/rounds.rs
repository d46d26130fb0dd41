//! The states with which calls went on: each is a free round once.

use std::time::Duration;

use aws_lc_rs::digest::SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::gateway::state::LIFE;

/// States that are known to have come. Beyond, the oldest would be free once more.
const MOST: u64 = 100_000;

/// A little longer than a state can be used.
const KEPT: Duration = Duration::from_secs(LIFE.as_secs() + 60);

/// States that came already.
#[derive(Debug)]
pub(super) struct Rounds(Cache<String, ()>);

impl Default for Rounds {
    fn default() -> Self {
        let seen = Cache::builder().max_capacity(MOST).eviction_policy(EvictionPolicy::lru());
        Self(seen.time_to_live(KEPT).build())
    }
}

impl Rounds {
    /// Whether a state comes for the first time.
    pub(super) fn is_new(&self, state: &str) -> bool {
        self.0.entry(digest(state.as_bytes())).or_insert(()).is_fresh()
    }
}

/// A short text that stands for a long one.
pub(super) fn digest(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(&aws_lc_rs::digest::digest(&SHA256, bytes).as_ref()[..16])
}
