//! The contract guard: what a walk brought is held against the approved definitions before anybody sees it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;

use super::publish::admits;
use super::shelf::Shelf;
use super::walk::Walked;
use crate::config::{Guarding, Server as ServerConfig};
use crate::contract::lock::{Change, Entry, Key, Lock, Locked};
use crate::contract::verdict::{self, Held, Verdict};
use crate::protocol::items::Item;
use crate::protocol::method::Kind;
use crate::telemetry::Metrics;
use crate::telemetry::audit::{Audit, ContractEntry};

/// How often it is looked whether the lock file is another one.
const LOOK: Duration = Duration::from_secs(2);

/// The lock file of a running gateway, and where changes are told.
#[derive(Debug)]
pub struct Contracts {
    path: PathBuf,
    state: ArcSwap<State>,
    metrics: Arc<Metrics>,
    audit: OnceLock<Audit>,
}

#[derive(Debug)]
struct State {
    lock: Lock,
    /// Raised with every other file.
    number: u64,
    /// What tells one file from another without reading it.
    stamp: Option<(SystemTime, u64)>,
}

impl Contracts {
    /// Reads the lock file. The error says why it cannot be used.
    pub fn open(path: &Path, metrics: Arc<Metrics>) -> Result<Self, String> {
        let stamp = stamp(path);
        let lock = read(path)?;
        let state = ArcSwap::from_pointee(State { lock, number: 0, stamp });
        Ok(Self { path: path.to_path_buf(), state, metrics, audit: OnceLock::new() })
    }

    /// Changes are told to this log, too.
    pub fn set_audit(&self, audit: Audit) {
        // It is set once, before anybody calls.
        let _ = self.audit.set(audit);
    }

    /// Reads the file again if it is another one; one that cannot be used changes nothing. The number of what is in use.
    fn look(&self) -> u64 {
        let state = self.state.load();
        let now = stamp(&self.path);
        if now == state.stamp || now.is_none() {
            return state.number;
        }
        let (lock, number) = match read(&self.path) {
            Ok(lock) => {
                tracing::info!(lock = %self.path.display(), "approved definitions read again");
                (lock, state.number + 1)
            }
            Err(problem) => {
                tracing::error!(%problem, "the lock file cannot be used: what was approved before stays in use");
                (state.lock.clone(), state.number)
            }
        };
        self.state.store(Arc::new(State { lock, number, stamp: now }));
        number
    }

    fn tell(&self, change: &Change, held: bool) {
        let (server, class) = (change.key.server.as_str(), change.class.as_str());
        let mut rules: Vec<&str> = change.findings.iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let (kind, item) = (change.key.kind.as_str(), change.key.native.as_str());
        tracing::warn!(server, kind, item, class, held, ?rules, "a definition differs from the approved one");
        self.metrics.contract_change(server, class);
        if let Some(audit) = self.audit.get() {
            audit.write_contract(ContractEntry {
                at: SystemTime::now(),
                server: server.to_owned(),
                kind,
                item: item.to_owned(),
                class,
                held,
                rules: rules.into_iter().map(str::to_owned).collect(),
            });
        }
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn read(path: &Path) -> Result<Lock, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {}", path.display(), error.kind()))?;
    Lock::parse(&text).map_err(|error| format!("{} {error}", path.display()))
}

/// What was held back of one list.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By native name.
    pub(super) held: HashMap<Box<str>, Arc<Held>>,
}

/// The guard of one server.
#[derive(Debug)]
pub(super) struct Guard {
    server: String,
    hold: bool,
    contracts: Arc<Contracts>,
    /// The number of the approved definitions when it began.
    began: u64,
    /// What was told of each item, so that it is told once. A std mutex: held to look at a map, never across an await.
    told: Mutex<BTreeMap<Key, String>>,
}

impl Guard {
    /// `None`: nothing is guarded.
    pub(super) fn new(server: &str, guarding: Guarding, contracts: Option<&Arc<Contracts>>) -> Option<Self> {
        let contracts = contracts.filter(|_| guarding != Guarding::Off)?;
        let hold = guarding == Guarding::Hold;
        let (server, began) = (server.to_owned(), contracts.state.load().number);
        Some(Self { server, hold, contracts: Arc::clone(contracts), began, told: Mutex::default() })
    }

    /// Replaces what is not approved by what is, under `hold`; tells of it in any case, once.
    /// What the operator hides is none of its business.
    pub(super) fn judge(&self, server: &ServerConfig, kind: Kind, walked: &mut Walked) -> Kept {
        let mut kept = Kept::default();
        let Some(locked) = Locked::of(kind) else { return kept };
        let state = self.contracts.state.load_full();
        let mut seen: HashSet<Key> = HashSet::new();
        let mut items = Vec::with_capacity(walked.items.len());
        for item in std::mem::take(&mut walked.items) {
            let key = Key { server: self.server.clone(), kind: locked, native: item.native.to_string() };
            // Of names that are listed twice the first counts.
            if !admits(server, kind, &item.native) {
                seen.insert(key);
                items.push(item);
            } else if seen.insert(key.clone()) {
                items.extend(self.one(&state.lock, &key, item, &mut kept));
            }
        }
        if walked.cut.is_none() {
            let mine = state.lock.iter().map(|(key, _)| key);
            let mine = mine.filter(|key| key.server == self.server && key.kind == locked);
            let gone = mine.filter(|key| !seen.contains(*key) && admits(server, kind, &key.native));
            for key in gone {
                items.extend(self.gone(&state.lock, key, &mut kept));
            }
        }
        walked.items = items;
        kept
    }

    /// The item as it may be seen, if it may.
    fn one(&self, lock: &Lock, key: &Key, item: Item, kept: &mut Kept) -> Option<Item> {
        let entry = std::str::from_utf8(&item.json).ok().and_then(|json| Entry::new(json).ok());
        let Some(entry) = entry else {
            // What can be read in several ways is left out for that reason, where it is published.
            return Some(item).filter(|_| !self.hold);
        };
        match verdict::judge(lock, key, &entry) {
            Verdict::Same => {
                self.told().remove(key);
                Some(item)
            }
            Verdict::Shown(change) => {
                self.tell(&change, &entry.digest, false);
                Some(item)
            }
            Verdict::New(change) => {
                self.tell(&change, &entry.digest, self.hold);
                Some(item).filter(|_| !self.hold)
            }
            Verdict::Held(change, held) => {
                self.tell(&change, &entry.digest, self.hold);
                if !self.hold {
                    return Some(item);
                }
                let approved = lock.get(key)?.canonical.clone();
                kept.held.insert(item.native.clone(), held);
                Some(Item { native: item.native, json: approved.into() })
            }
        }
    }

    /// What is approved and not offered: told, and under `hold` known as withdrawn.
    fn gone(&self, lock: &Lock, key: &Key, kept: &mut Kept) -> Option<Item> {
        let (change, held) = verdict::gone(lock, key)?;
        self.tell(&change, "-", self.hold);
        if !self.hold || key.kind != Locked::Tool {
            return None;
        }
        let native: Box<str> = key.native.as_str().into();
        kept.held.insert(native.clone(), held);
        Some(Item { native, json: lock.get(key)?.canonical.clone().into() })
    }

    fn tell(&self, change: &Change, digest: &str, held: bool) {
        let before = self.told().insert(change.key.clone(), digest.to_owned());
        if before.as_deref() != Some(digest) {
            self.contracts.tell(change, held);
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the lock file for as long as its shelf is in use; another one makes everything be asked for again.
pub(super) async fn attend(shelf: Weak<Shelf>) {
    let began = |own: &Arc<Shelf>| own.guard.as_ref().map(|guard| guard.began);
    let Some(mut number) = shelf.upgrade().as_ref().and_then(began) else { return };
    loop {
        {
            let Some(own) = shelf.upgrade() else { return };
            let Some(guard) = &own.guard else { return };
            // A look at a file's age and size.
            let now = guard.contracts.look();
            if std::mem::replace(&mut number, now) != now {
                for kind in Kind::ALL {
                    own.invalidate(kind);
                    own.refetch(kind);
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
