//! Compiled schemas by definition: each is compiled once, however many callers are shown it and however often it is listed.

use std::sync::Arc;

use bytes::Bytes;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::contract::checker::Checks;

/// Definitions whose schemas are kept.
const MOST: u64 = 5_000;

/// The compiled schemas of all servers.
#[derive(Debug)]
pub(super) struct Checkers(Cache<Bytes, Arc<Checks>>);

impl Default for Checkers {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MOST).eviction_policy(EvictionPolicy::lru()).build())
    }
}

impl Checkers {
    /// What a definition, as calls are held to it, is checked with. Nothing is compiled yet.
    pub(super) fn of(&self, definition: &Bytes) -> Arc<Checks> {
        if let Some(known) = self.0.get(definition) {
            return known;
        }
        // A copy: the definition is a part of the whole list it came in.
        let own = Bytes::copy_from_slice(definition);
        self.0.get_with(own.clone(), || Arc::new(Checks::new(own)))
    }
}
