//! Resources read from one server, kept for as long as their own hints say (L-20..L-24, L-44).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;
use moka::sync::Cache;
use tokio::time::Instant;

use super::hints::{Hints, Scope};
use super::watch::is_part;
use crate::protocol::object::Span;

/// Bytes of results one server may have in memory.
const MOST_BYTES: u64 = 16 << 20;

/// What was read, and until when it may be told again.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The server's whole message.
    pub body: ByteString,
    /// The result in it.
    pub result: Span,
    /// When it was received.
    pub received: Instant,
    /// How long it is fresh, and for whom.
    pub hints: Hints,
}

/// One server's reads. Key: the principal or authorization context (empty for public results) and the URI.
#[derive(Debug)]
pub struct Reads {
    cache: Cache<Key, Arc<Kept>>,
    /// Raised with every change: a read that a change overtook is not kept (L-28).
    epoch: AtomicU64,
}

type Key = (Arc<str>, Arc<str>);

impl Reads {
    pub(super) fn new() -> Self {
        let weigh = |(who, uri): &Key, kept: &Arc<Kept>| {
            u32::try_from(kept.body.len() + who.len() + uri.len() + 128).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().max_capacity(MOST_BYTES).weigher(weigh).support_invalidation_closures();
        Self { cache: cache.build(), epoch: AtomicU64::new(0) }
    }

    /// A fresh read of this URI that this principal may see.
    pub fn get(&self, principal: &str, uri: &str) -> Option<Arc<Kept>> {
        let now = Instant::now();
        [principal, ""].into_iter().find_map(|who| {
            let kept = self.cache.get(&(Arc::from(who), Arc::from(uri)))?;
            (now < kept.received + kept.hints.ttl).then_some(kept)
        })
    }

    /// The epoch; take it before reading.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Keeps a read begun in `epoch`; a private one for this principal only (L-22).
    pub fn keep(&self, principal: &str, uri: &str, epoch: u64, kept: Kept) {
        if kept.hints.ttl.is_zero() || epoch != self.epoch() {
            return;
        }
        let who = if kept.hints.scope == Scope::Public { "" } else { principal };
        self.cache.insert((Arc::from(who), Arc::from(uri)), Arc::new(kept));
    }

    /// A resource changed: it and its parts are read anew (L-24).
    pub fn forget(&self, uri: &str) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        let uri = uri.to_owned();
        let _ = self.cache.invalidate_entries_if(move |(_, kept), _| is_part(kept, &uri));
    }

    /// Nobody knows what changed of what this one reads.
    pub(super) fn forget_of(&self, principal: &Arc<str>) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        let principal = Arc::clone(principal);
        let _ = self.cache.invalidate_entries_if(move |(who, _), _| *who == principal);
    }

    /// Nobody knows what changed: everything is read anew (S-23).
    pub(super) fn forget_all(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.cache.invalidate_all();
    }
}
