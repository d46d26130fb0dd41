//! The keys of one issuer: fetched when first needed, kept through outages, fetched anew for an unknown `kid` and
//! when they grow old; one fetch at a time, and for keys that are not there one an interval.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use super::jwk::Key;
use super::rejection::Reason;
use crate::tasks::{Flight, Tasks};

/// After a fetch that did not bring the key it was for. One that did is followed by another whenever one is
/// needed: only the issuer can cause those, and a quick second rotation must not cost valid tokens.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);
/// After a fetch that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How long callers wait for keys, discovery included.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long keys count as new, when their server does not say.
const FRESH: Duration = Duration::from_secs(600);
/// Bounds of what it may say.
const FRESH_BOUNDS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// How long keys are used while no newer ones are to be had.
const USABLE: Duration = Duration::from_secs(24 * 3600);
/// Keys of one issuer.
const MOST: usize = 100;

/// A set of keys as fetched.
#[derive(Debug)]
pub(super) struct Document {
    /// The members of `keys`.
    pub(super) keys: Vec<Map<String, Value>>,
    /// How long it may be kept.
    pub(super) max_age: Option<Duration>,
}

/// Where keys come from: a server, or a script in tests. The error is for the operator.
pub(super) type Source =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Document, String>> + Send>> + Send + Sync>;

/// What a look at the keys found.
pub(super) enum Look<T> {
    /// What was looked for.
    Found(T),
    /// The key is there, and it is not its signature.
    Refused(Reason),
    /// No such key.
    Unknown,
}

/// The keys at one time.
#[derive(Debug)]
struct Set {
    keys: Vec<Arc<Key>>,
    fresh: Instant,
    usable: Instant,
}

/// The keys of one issuer.
pub(super) struct Keys {
    shared: Arc<Shared>,
    flight: Flight<()>,
    tasks: Tasks,
}

struct Shared {
    issuer: String,
    source: Source,
    set: ArcSwapOption<Set>,
    // Held for a look at an instant, never across an await.
    paused: Mutex<Option<Instant>>,
    /// The last fetch failed.
    failed: AtomicBool,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("issuer", &self.shared.issuer).finish_non_exhaustive()
    }
}

impl Keys {
    /// Nothing is fetched yet.
    pub(super) fn new(issuer: &str, source: Source, tasks: &Tasks) -> Self {
        let shared = Shared {
            issuer: issuer.to_owned(),
            source,
            set: ArcSwapOption::empty(),
            paused: Mutex::new(None),
            failed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), flight: Flight::default(), tasks: tasks.clone() }
    }

    /// Fetches them behind the scenes, unless there are some.
    pub(super) fn warm(&self) {
        if self.shared.usable().is_none() {
            let shared = Arc::clone(&self.shared);
            self.flight.start(&self.tasks, "issuer keys", || async move { shared.fetch(None).await });
        }
    }

    /// Looks for something among the keys, fetching them where that may help. `wanted` is the `kid` that is looked
    /// for.
    ///
    /// # Errors
    ///
    /// What the look refuses; [`Reason::Key`] when there is no such key; [`Reason::KeysUnavailable`] when that is
    /// not known.
    pub(super) async fn find<T>(
        &self,
        wanted: Option<&str>,
        look: impl Fn(&[Arc<Key>]) -> Look<T>,
    ) -> Result<T, Reason> {
        if let Some(found) = self.look(&look) {
            return found;
        }
        // A fetch that was under way when the token came may have missed its key, hence a second.
        for _ in 0..2 {
            if self.shared.is_paused() {
                break;
            }
            let mut own = false;
            let (shared, kid) = (Arc::clone(&self.shared), wanted.map(str::to_owned));
            let fetch = || {
                own = true;
                async move { shared.fetch(Some(kid)).await }
            };
            // None: the process ends, or the fetch panicked; then the look finds what was there before.
            self.flight.join(&self.tasks, "issuer keys", fetch).await;
            if let Some(found) = self.look(&look) {
                return found;
            }
            if own {
                break;
            }
        }
        let unknown = self.shared.usable().is_some() && !self.shared.failed.load(Ordering::Relaxed);
        Err(if unknown { Reason::Key } else { Reason::KeysUnavailable })
    }

    /// Whether a key of this print is among the keys now. Withdrawn keys take what they have signed with them.
    pub(super) fn hold(&self, print: &[u8; 32]) -> bool {
        let Some(set) = self.shared.usable() else { return false };
        self.renew(&set);
        set.keys.iter().any(|key| key.print == *print)
    }

    fn look<T>(&self, look: &impl Fn(&[Arc<Key>]) -> Look<T>) -> Option<Result<T, Reason>> {
        let set = self.shared.usable()?;
        match look(&set.keys) {
            Look::Found(found) => {
                self.renew(&set);
                Some(Ok(found))
            }
            Look::Refused(reason) => Some(Err(reason)),
            Look::Unknown => None,
        }
    }

    /// Fetches old keys anew behind the scenes; nobody waits for it.
    fn renew(&self, set: &Set) {
        if set.fresh <= Instant::now() && !self.shared.is_paused() {
            let shared = Arc::clone(&self.shared);
            self.flight.start(&self.tasks, "issuer keys", || async move { shared.fetch(None).await });
        }
    }
}

impl Shared {
    fn usable(&self) -> Option<Arc<Set>> {
        self.set.load_full().filter(|set| set.usable > Instant::now())
    }

    fn is_paused(&self) -> bool {
        let paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        paused.is_some_and(|until| until > Instant::now())
    }

    fn pause(&self, time: Duration) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + time);
    }

    /// `wanted`: whom it is for, a `kid` or a token without one; `None`: only the clock asked.
    async fn fetch(self: Arc<Self>, wanted: Option<Option<String>>) {
        let fetched = timeout(PATIENCE, (self.source)()).await;
        let document = match fetched.unwrap_or_else(|_| Err(format!("not within {PATIENCE:?}"))) {
            Ok(document) => document,
            Err(error) => {
                tracing::warn!(
                    issuer = self.issuer,
                    error,
                    "the issuer's keys could not be fetched; known ones stay"
                );
                self.failed.store(true, Ordering::Relaxed);
                self.pause(AFTER_FAILURE);
                return;
            }
        };
        let keys: Vec<Arc<Key>> =
            document.keys.iter().take(MOST).filter_map(Key::parse).map(Arc::new).collect();
        tracing::debug!(issuer = self.issuer, keys = keys.len(), "fetched the issuer's keys");
        let brought = match &wanted {
            None => true,
            // Of a token without a `kid` nobody knows; the very first keys are there for everybody.
            Some(None) => self.set.load().is_none(),
            Some(kid) => keys.iter().any(|key| key.id == *kid),
        };
        let now = Instant::now();
        let fresh = document.max_age.unwrap_or(FRESH).clamp(FRESH_BOUNDS.0, FRESH_BOUNDS.1);
        self.set.store(Some(Arc::new(Set { keys, fresh: now + fresh, usable: now + USABLE })));
        self.failed.store(false, Ordering::Relaxed);
        if !brought {
            // Before anybody hears of it, so that those who asked together do not ask again.
            self.pause(INTERVAL);
        }
    }
}
