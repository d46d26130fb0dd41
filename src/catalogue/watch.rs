//! One listen per server, whatever the number of clients: opened at start, opened again with growing pauses,
//! resynchronised after every gap, told to all by counters that cannot overflow (S-22, S-23, S-31, design §5).

use std::collections::{BTreeMap, HashSet};
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::shelf::Shelf;
use crate::outbound::{Filter, Listen, NoListen, Notice, Server};
use crate::protocol::method::Kind;

/// Shortest and longest pause before a stream is opened again (S-22).
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A stream that lived this long was no failure: the next pause is the shortest again.
const GOOD_LIFE: Duration = Duration::from_secs(60);
/// New subscriptions are collected this long before the server is asked (S-31).
const COLLECT: Duration = Duration::from_millis(50);

/// How far the watch of one server is.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Whether it is known if there is a stream.
    pub settled: bool,
    /// Lists whose changes are told.
    pub lists: Vec<Kind>,
    /// Resources whose updates are told.
    pub uris: Arc<HashSet<String>>,
    /// The wishes that this state answers.
    pub wishes: u64,
}

/// What clients want of one server, and what it told.
#[derive(Debug)]
pub struct Watch {
    // A std mutex: held to change a map, never across an await.
    uris: Mutex<BTreeMap<String, Uri>>,
    wishes: watch::Sender<u64>,
    state: watch::Sender<State>,
    /// Raised with every change of anything, for all who listen.
    hub: Arc<watch::Sender<u64>>,
    /// Versions of resources.
    updates: AtomicU64,
}

#[derive(Debug, Default)]
struct Uri {
    users: usize,
    version: u64,
}

/// One client's wish to hear of one resource; withdrawn when dropped.
#[derive(Debug)]
pub struct Wish {
    /// Whose it is.
    pub shelf: Arc<Shelf>,
    /// The resource.
    pub uri: String,
}

impl Wish {
    /// Changes with every update of the resource that was told.
    pub fn version(&self) -> u64 {
        self.shelf.watch.lock().get(&self.uri).map_or(0, |uri| uri.version)
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        let watch = &self.shelf.watch;
        let mut uris = watch.lock();
        if let Some(uri) = uris.get_mut(&self.uri) {
            uri.users -= 1;
            if uri.users == 0 {
                uris.remove(&self.uri);
                watch.wishes.send_modify(|wishes| *wishes += 1);
            }
        }
    }
}

impl Watch {
    pub(super) fn new(hub: Arc<watch::Sender<u64>>) -> Self {
        let state = watch::Sender::new(State::default());
        Self { uris: Mutex::default(), wishes: watch::Sender::new(0), state, hub, updates: AtomicU64::new(0) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Uri>> {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everybody who listens.
    pub(super) fn tell(&self) {
        self.hub.send_modify(|changes| *changes += 1);
    }

    /// Whether changes of this list are told.
    pub fn tells(&self, kind: Kind) -> bool {
        let of = if kind == Kind::Templates { Kind::Resources } else { kind };
        self.state.borrow().lists.contains(&of)
    }

    /// The state, once it is known whether there is a stream and all wishes so far are answered; or as it is
    /// after `limit`.
    pub async fn settled(&self, limit: Duration) -> State {
        let wishes = *self.wishes.borrow();
        let mut state = self.state.subscribe();
        let ready = state.wait_for(|state| state.settled && state.wishes >= wishes);
        match timeout(limit, ready).await {
            Ok(Ok(state)) => state.clone(),
            _ => self.state.borrow().clone(),
        }
    }

    /// A resource changed: it, and the wanted ones it is a part of (S-07, S-35).
    fn updated(&self, changed: &str) {
        let version = self.updates.fetch_add(1, Ordering::Relaxed) + 1;
        for (uri, entry) in self.lock().iter_mut() {
            let part = || changed.strip_prefix(uri.as_str()).is_some_and(|rest| rest.starts_with('/'));
            if uri == changed || part() {
                entry.version = version;
            }
        }
        self.tell();
    }

    /// Everything wanted may have changed unseen (S-23).
    fn all_updated(&self) {
        let version = self.updates.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().values_mut().for_each(|uri| uri.version = version);
        self.tell();
    }

    fn filter(&self, server: &Server) -> (Filter, u64) {
        let wishes = *self.wishes.borrow();
        let Some(peer) = server.known_peer() else { return (Filter::default(), wishes) };
        let lists = [Kind::Tools, Kind::Prompts, Kind::Resources];
        let lists = lists.into_iter().filter(|kind| peer.offer.tells_changes(*kind)).collect();
        let uris =
            if peer.offer.tells_updates() { self.lock().keys().cloned().collect() } else { Vec::new() };
        (Filter { lists, uris }, wishes)
    }

    fn publish(&self, lists: &[Kind], uris: &[String], wishes: u64) {
        let uris = Arc::new(uris.iter().cloned().collect());
        self.state.send_replace(State { settled: true, lists: lists.to_vec(), uris, wishes });
    }
}

impl Shelf {
    /// Says that a client wants to hear of a resource.
    pub fn wish(self: &Arc<Self>, uri: &str) -> Wish {
        self.watch.lock().entry(uri.to_owned()).or_default().users += 1;
        self.watch.wishes.send_modify(|wishes| *wishes += 1);
        Wish { shelf: Arc::clone(self), uri: uri.to_owned() }
    }
}

/// Keeps the stream of one server open for as long as its shelf is in use.
pub(super) async fn keep(shelf: Weak<Shelf>) {
    let mut pause = FIRST_PAUSE;
    let mut first = true;
    loop {
        let Some(own) = shelf.upgrade() else { return };
        let opened_at = Instant::now();
        let mut wished = own.watch.wishes.subscribe();
        let end = attend(&own, &mut first).await;
        // Not held while waiting: a server that left the configuration is let go.
        drop(own);
        let wait = match end {
            End::NotOffered => {
                // Nothing to open: look again when somebody wants something, or after a while.
                let _ = timeout(LONGEST_PAUSE, wished.changed()).await;
                continue;
            }
            End::Unreachable(wait) => wait,
            End::Closed(retry) => {
                pause = if opened_at.elapsed() >= GOOD_LIFE { FIRST_PAUSE } else { pause };
                let wait = jittered(pause).max(retry.unwrap_or_default());
                pause = (pause * 2).min(LONGEST_PAUSE);
                wait
            }
        };
        sleep(wait).await;
    }
}

enum End {
    /// The server has no stream, or none is needed.
    NotOffered,
    /// The server cannot be reached.
    Unreachable(Duration),
    /// The stream ended; its own wish for the pause.
    Closed(Option<Duration>),
}

/// One life of the stream.
async fn attend(shelf: &Arc<Shelf>, first: &mut bool) -> End {
    let server = &shelf.server;
    if server.peer().await.is_err() {
        shelf.watch.publish(&[], &[], *shelf.watch.wishes.borrow());
        return End::Unreachable(server.retry_in().max(Duration::from_millis(100)));
    }
    let (filter, wishes) = shelf.watch.filter(server);
    let opened = match filter == Filter::default() {
        true => Err(NoListen::NotOffered),
        false => server.listen(&filter).await,
    };
    match opened {
        Ok(listen) => {
            shelf.watch.publish(&filter.lists, &listen.uris, wishes);
            resync(shelf, first);
            let retry = follow(shelf, listen, filter, wishes).await;
            // What is known may be old from now on; it stays in use until something newer is.
            shelf.watch.publish(&[], &[], *shelf.watch.wishes.borrow());
            End::Closed(retry)
        }
        Err(NoListen::NotOffered) => {
            shelf.watch.publish(&[], &[], wishes);
            resync(shelf, first);
            End::NotOffered
        }
        Err(NoListen::Failed(error)) => {
            tracing::info!(server = %server.name, reason = %error.failure, "no stream of changes");
            shelf.watch.publish(&[], &[], wishes);
            resync(shelf, first);
            End::Closed(None)
        }
    }
}

/// After a gap everything that is known is asked for again; the first time it is just the first walk.
fn resync(shelf: &Arc<Shelf>, first: &mut bool) {
    for kind in Kind::ALL {
        if !*first {
            shelf.invalidate(kind);
        }
        shelf.refetch(kind);
    }
    if !*first {
        shelf.watch.all_updated();
    }
    *first = false;
}

/// Reads the stream until it ends, and changes it when wishes do; gives the server's wish for the pause.
async fn follow(
    shelf: &Arc<Shelf>,
    mut listen: Listen,
    mut filter: Filter,
    mut answered: u64,
) -> Option<Duration> {
    let mut wished = shelf.watch.wishes.subscribe();
    loop {
        let behind = *wished.borrow_and_update() > answered;
        let changed = async {
            if !behind && wished.changed().await.is_err() {
                pending::<()>().await;
            }
            sleep(COLLECT).await;
        };
        let notice = tokio::select! {
            notice = listen.notice() => notice,
            () = changed => {
                let (wanted, wishes) = shelf.watch.filter(&shelf.server);
                if wanted.uris != filter.uris {
                    listen = match change(shelf, listen, &wanted).await {
                        Ok(listen) => listen,
                        Err(retry) => return retry,
                    };
                    filter = wanted;
                }
                answered = wishes;
                shelf.watch.publish(&filter.lists, &listen.uris, wishes);
                continue;
            }
        };
        match notice {
            Ok(notice) => heard(shelf, notice),
            Err(error) => {
                tracing::info!(server = %shelf.server.name, reason = %error.failure, "stream of changes ended");
                return listen.retry;
            }
        }
    }
}

/// The stream with other resources: one by one where the dialect can, else a second stream that takes over once
/// it is acknowledged, so that nothing is missed between (S-31).
async fn change(shelf: &Arc<Shelf>, mut listen: Listen, wanted: &Filter) -> Result<Listen, Option<Duration>> {
    if !listen.subscribes_singly() {
        return match shelf.server.listen(wanted).await {
            Ok(next) => Ok(next),
            Err(_) => Err(listen.retry),
        };
    }
    let gone: Vec<String> = listen.uris.iter().filter(|uri| !wanted.uris.contains(uri)).cloned().collect();
    let new: Vec<String> = wanted.uris.iter().filter(|uri| !listen.uris.contains(uri)).cloned().collect();
    for uri in gone {
        listen.subscribe(&uri, false).await;
        listen.uris.retain(|kept| *kept != uri);
    }
    for uri in new {
        if listen.subscribe(&uri, true).await {
            listen.uris.push(uri);
        }
    }
    Ok(listen)
}

fn heard(shelf: &Arc<Shelf>, notice: Notice) {
    match notice {
        Notice::Changed(kind) => {
            shelf.count_change(kind);
            // Invalid before anybody is told, so that nobody who is told reads the old list (L-24).
            let kinds = if kind == Kind::Resources { vec![kind, Kind::Templates] } else { vec![kind] };
            for kind in kinds {
                shelf.invalidate(kind);
                shelf.refetch(kind);
            }
        }
        Notice::Updated(uri) => {
            shelf.forget_reads(&uri);
            shelf.watch.updated(&uri);
        }
    }
}

/// Between three quarters and five quarters of `pause`, so that many gateways do not come back at once.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [128u8];
    // Without entropy the pause is just not spread.
    let _ = rand::fill(&mut byte);
    pause.mul_f64(0.75 + f64::from(byte[0]) / 510.0)
}
