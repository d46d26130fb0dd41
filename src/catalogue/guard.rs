//! The contract guard: what a walk brought is held against the approved definitions before anybody sees it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};

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
use crate::telemetry::recent::Differing;

/// How often it is looked whether the lock file is another one.
const LOOK: Duration = Duration::from_secs(2);

/// Definitions that differ, remembered of one server.
const MOST_KNOWN: usize = 10_000;
/// The hash of what is not there.
const GONE: &str = "-";

/// The lock file of a running gateway, and where changes are told.
#[derive(Debug)]
pub struct Contracts {
    path: PathBuf,
    state: ArcSwap<State>,
    metrics: Arc<Metrics>,
    audit: ArcSwapOption<Audit>,
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
        Ok(Self { path: path.to_path_buf(), state, metrics, audit: ArcSwapOption::empty() })
    }

    /// Whether it is this file that is read.
    pub fn is_at(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Changes are told to this log from now on, or to none.
    pub fn set_audit(&self, audit: Option<Arc<Audit>>) {
        self.audit.store(audit);
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
        self.metrics.recent.contract(Differing {
            server: server.to_owned(),
            kind,
            item: item.to_owned(),
            class,
            held,
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        });
        if let Some(audit) = self.audit.load_full() {
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
#[derive(Debug)]
pub(super) struct Kept {
    /// By native name.
    pub(super) held: HashMap<Box<str>, Arc<Held>>,
    /// The number of the approved definitions.
    pub(super) number: u64,
}

/// The guard of one server.
#[derive(Debug)]
pub(super) struct Guard {
    server: String,
    hold: bool,
    contracts: Arc<Contracts>,
    /// What was found of each definition that differs: judged and told once, however often and to whomever it is listed.
    /// A std mutex: held to look at a map, never across an await.
    known: Mutex<HashMap<(Key, String), Known>>,
}

/// One definition that differs, as it was judged.
#[derive(Debug, Clone)]
struct Known {
    /// The number of the approved definitions it was held against.
    number: u64,
    ruling: Ruling,
}

/// What is done with an item.
#[derive(Debug, Clone)]
enum Ruling {
    Shown,
    New,
    Held(Arc<Held>),
}

impl Guard {
    /// `None`: nothing is guarded.
    pub(super) fn new(server: &ServerConfig, contracts: Option<&Arc<Contracts>>) -> Option<Self> {
        let contracts = contracts.filter(|_| server.contract != Guarding::Off)?;
        let (hold, server) = (server.contract == Guarding::Hold, server.name.clone());
        Some(Self { server, hold, contracts: Arc::clone(contracts), known: Mutex::default() })
    }

    /// Whether it is held against these.
    pub(super) fn is_by(&self, contracts: &Arc<Contracts>) -> bool {
        Arc::ptr_eq(&self.contracts, contracts)
    }

    /// The number of the approved definitions in use.
    pub(super) fn number(&self) -> u64 {
        self.contracts.state.load().number
    }

    /// Replaces what is not approved by what is, under `hold`; tells of it in any case, once.
    /// What the operator hides is none of its business.
    pub(super) fn judge(&self, server: &ServerConfig, kind: Kind, walked: &mut Walked) -> Kept {
        let state = self.contracts.state.load_full();
        let mut kept = Kept { held: HashMap::new(), number: state.number };
        let Some(locked) = Locked::of(kind) else { return kept };
        let mut seen: HashSet<Key> = HashSet::new();
        let mut items = Vec::with_capacity(walked.items.len());
        for item in std::mem::take(&mut walked.items) {
            let key = Key { server: self.server.clone(), kind: locked, native: item.native.to_string() };
            // Of names that are listed twice the first counts.
            if !admits(server, kind, &item.native) {
                seen.insert(key);
                items.push(item);
            } else if seen.insert(key.clone()) {
                items.extend(self.one(&state, &key, item, &mut kept));
            }
        }
        if walked.cut.is_none() {
            let mine = state.lock.iter().map(|(key, _)| key);
            let mine = mine.filter(|key| key.server == self.server && key.kind == locked);
            let gone = mine.filter(|key| !seen.contains(*key) && admits(server, kind, &key.native));
            for key in gone {
                items.extend(self.gone(&state, key, &mut kept));
            }
        }
        walked.items = items;
        kept
    }

    /// The item as it may be seen, if it may.
    fn one(&self, state: &State, key: &Key, item: Item, kept: &mut Kept) -> Option<Item> {
        let entry = std::str::from_utf8(&item.json).ok().and_then(|json| Entry::new(json).ok());
        let Some(entry) = entry else {
            // What can be read in several ways is left out for that reason, where it is published.
            return Some(item).filter(|_| !self.hold);
        };
        if state.lock.get(key).is_some_and(|approved| approved.digest == entry.digest) {
            return Some(item);
        }
        let ruling =
            self.ruling(state, key, &entry.digest, || match verdict::judge(&state.lock, key, &entry) {
                Verdict::Same => None,
                Verdict::Shown(change) => Some((change, Ruling::Shown)),
                Verdict::New(change) => Some((change, Ruling::New)),
                Verdict::Held(change, held) => Some((change, Ruling::Held(held))),
            });
        match ruling {
            Some(Ruling::Held(held)) if self.hold => {
                let approved = state.lock.get(key)?.canonical.clone();
                kept.held.insert(item.native.clone(), held);
                Some(Item { native: item.native, json: approved.into() })
            }
            Some(Ruling::New) if self.hold => None,
            _ => Some(item),
        }
    }

    /// What is approved and not offered: told, and under `hold` known as withdrawn.
    fn gone(&self, state: &State, key: &Key, kept: &mut Kept) -> Option<Item> {
        let judged = || verdict::gone(&state.lock, key).map(|(change, held)| (change, Ruling::Held(held)));
        let ruling = self.ruling(state, key, GONE, judged)?;
        let Ruling::Held(held) = ruling else { return None };
        if !self.hold || key.kind != Locked::Tool {
            return None;
        }
        let native: Box<str> = key.native.as_str().into();
        kept.held.insert(native.clone(), held);
        Some(Item { native, json: state.lock.get(key)?.canonical.clone().into() })
    }

    /// What is done with an item that differs: as it was judged before, or judged and told now.
    fn ruling(
        &self,
        state: &State,
        key: &Key,
        digest: &str,
        judge: impl FnOnce() -> Option<(Change, Ruling)>,
    ) -> Option<Ruling> {
        let place = (key.clone(), digest.to_owned());
        let before = self.known().get(&place).cloned();
        if let Some(known) = before.as_ref().filter(|known| known.number == state.number) {
            return Some(known.ruling.clone());
        }
        let (change, ruling) = judge()?;
        if before.is_none() {
            let held = self.hold && !matches!(ruling, Ruling::Shown);
            self.contracts.tell(&change, held);
        }
        let mut known = self.known();
        // A server that never says the same twice is told of more than once.
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(place, Known { number: state.number, ruling: ruling.clone() });
        Some(ruling)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<(Key, String), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the lock file for as long as its shelf is in use; another one makes what all see be asked for again, and what
/// single callers see be old.
pub(super) async fn attend(shelf: Weak<Shelf>, refetch: bool) {
    let began = |own: &Arc<Shelf>| own.guard.as_ref().map(|guard| guard.number());
    let Some(mut number) = shelf.upgrade().as_ref().and_then(began) else { return };
    loop {
        {
            let Some(own) = shelf.upgrade() else { return };
            let Some(guard) = &own.guard else { return };
            // A look at a file's age and size.
            let now = guard.contracts.look();
            if std::mem::replace(&mut number, now) != now && refetch {
                for kind in Kind::ALL {
                    own.invalidate(kind);
                    own.refetch(kind);
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
