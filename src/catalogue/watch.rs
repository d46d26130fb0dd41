//! What clients want to hear of one server, and what it told: counters that cannot overflow (S-31, S-35, S-39).

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use super::follow;
use super::shelf::Shelf;
use crate::outbound::{Agreed, Filter, Peer};
use crate::protocol::meta::TASKS;
use crate::protocol::method::Kind;

/// How far the watch of one server is.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Whether it is known if there is a stream.
    pub settled: bool,
    /// Lists whose changes are told.
    pub lists: Vec<Kind>,
    /// Resources and tasks of which it is told.
    pub topics: Arc<HashSet<Topic>>,
    /// The wishes that this state answers.
    pub wishes: u64,
}

/// A single thing that clients want to hear of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// A resource, by URI.
    Resource(String),
    /// A task, by native id.
    Task(String),
}

/// What clients want of one server, and what it told.
#[derive(Debug)]
pub struct Watch {
    // A std mutex: held to change a map, never across an await.
    topics: Mutex<BTreeMap<Topic, Told>>,
    pub(super) wishes: watch::Sender<u64>,
    state: watch::Sender<State>,
    /// Who listens, where the stream is open only for those who do.
    pub(super) heard: watch::Sender<Heard>,
    /// Raised with every change of anything, for all who listen.
    hub: Arc<watch::Sender<u64>>,
    /// Versions of resources.
    updates: AtomicU64,
}

/// Who listens to what only one caller is shown.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) listeners: usize,
    /// Whether somebody keeps the stream open.
    watched: bool,
}

/// One client that listens; dropped when it leaves.
#[derive(Debug)]
pub struct Listener {
    shelf: Arc<Shelf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shelf.watch.heard.send_modify(|heard| heard.listeners -= 1);
    }
}

#[derive(Debug, Default)]
struct Told {
    users: usize,
    version: u64,
    /// Tasks: the last notice's `params`.
    last: Option<Bytes>,
}

/// One client's wish to hear of one thing; withdrawn when dropped.
#[derive(Debug)]
pub struct Wish {
    shelf: Arc<Shelf>,
    /// What it is about.
    pub topic: Topic,
}

impl Wish {
    /// Of whom it is wished.
    pub const fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// Changes with every notice about it.
    pub fn version(&self) -> u64 {
        self.shelf.watch.lock().get(&self.topic).map_or(0, |told| told.version)
    }

    /// Whether its server agreed to tell of it.
    pub fn is_agreed(&self) -> bool {
        self.shelf.watch.state.borrow().topics.contains(&self.topic)
    }

    /// Tasks: the last notice's `params`.
    pub fn last(&self) -> Option<Bytes> {
        self.shelf.watch.lock().get(&self.topic)?.last.clone()
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        let watch = &self.shelf.watch;
        let mut topics = watch.lock();
        if let Some(told) = topics.get_mut(&self.topic) {
            told.users -= 1;
            if told.users == 0 {
                topics.remove(&self.topic);
                watch.wishes.send_modify(|wishes| *wishes += 1);
            }
        }
    }
}

impl Watch {
    pub(super) fn new(hub: Arc<watch::Sender<u64>>) -> Self {
        let state = watch::Sender::new(State::default());
        Self {
            topics: Mutex::default(),
            wishes: watch::Sender::new(0),
            state,
            heard: watch::Sender::default(),
            hub,
            updates: AtomicU64::new(0),
        }
    }

    /// One that nobody opens yet: so it is known that nothing is told.
    pub(super) fn unwatched(hub: Arc<watch::Sender<u64>>) -> Self {
        let new = Self::new(hub);
        new.state.send_replace(State { settled: true, ..State::default() });
        new
    }

    /// No stream is opened for it.
    pub(super) fn stay_closed(&self) {
        self.heard.send_modify(|heard| heard.watched = true);
    }

    /// Whether anybody listens, or did a moment ago.
    pub(super) fn is_heard(&self) -> bool {
        let heard = self.heard.borrow();
        heard.watched || heard.listeners > 0
    }

    /// Nobody keeps the stream open any more, unless somebody listens: then false.
    pub(super) fn close(&self) -> bool {
        let mut closed = false;
        self.heard.send_modify(|heard| {
            closed = heard.listeners == 0;
            heard.watched = !closed;
            if closed {
                self.publish(&[], &Agreed::default(), *self.wishes.borrow());
            }
        });
        closed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Topic, Told>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(super) fn updated(&self, changed: &str) {
        let version = self.updates.fetch_add(1, Ordering::Relaxed) + 1;
        for (topic, told) in self.lock().iter_mut() {
            let Topic::Resource(uri) = topic else { continue };
            if is_part(changed, uri) {
                told.version = version;
            }
        }
        self.tell();
    }

    /// A task changed.
    pub(super) fn task(&self, id: String, params: Bytes) {
        let version = self.updates.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(told) = self.lock().get_mut(&Topic::Task(id)) {
            told.version = version;
            told.last = Some(params);
        }
        self.tell();
    }

    /// Everything wanted may have changed unseen (S-23).
    pub(super) fn all_updated(&self) {
        let version = self.updates.fetch_add(1, Ordering::Relaxed) + 1;
        for (topic, told) in self.lock().iter_mut() {
            // The state of a task is asked for by those who care; there is nothing to tell of it.
            if matches!(topic, Topic::Resource(_)) {
                told.version = version;
            }
        }
        self.tell();
    }

    pub(super) fn filter(&self, peer: Option<Arc<Peer>>) -> (Filter, u64) {
        let wishes = *self.wishes.borrow();
        let Some(peer) = peer else { return (Filter::default(), wishes) };
        let lists = [Kind::Tools, Kind::Prompts, Kind::Resources];
        let lists = lists.into_iter().filter(|kind| peer.offer.tells_changes(*kind)).collect();
        let mut filter = Filter { lists, ..Filter::default() };
        for topic in self.lock().keys() {
            match topic {
                Topic::Resource(uri) if peer.offer.tells_updates() => filter.uris.push(uri.clone()),
                Topic::Task(id) if peer.offer.extension(TASKS).is_some() => filter.tasks.push(id.clone()),
                _ => {}
            }
        }
        (filter, wishes)
    }

    pub(super) fn publish(&self, lists: &[Kind], agreed: &Agreed, wishes: u64) {
        let uris = agreed.uris.iter().cloned().map(Topic::Resource);
        let topics = Arc::new(uris.chain(agreed.tasks.iter().cloned().map(Topic::Task)).collect());
        self.state.send_replace(State { settled: true, lists: lists.to_vec(), topics, wishes });
    }
}

/// Whether a resource is another one or, by its path, a part of it (S-07).
pub(super) fn is_part(uri: &str, of: &str) -> bool {
    uri.strip_prefix(of).is_some_and(|rest| rest.is_empty() || of.ends_with('/') || rest.starts_with('/'))
}

impl Shelf {
    /// Says that a client listens: what only one caller is shown is watched while somebody does (design §5).
    pub fn listen(self: &Arc<Self>) -> Listener {
        let mut begins = false;
        self.watch.heard.send_modify(|heard| {
            begins = self.is_private() && !heard.watched;
            heard.watched |= begins;
            heard.listeners += 1;
            if begins {
                self.watch.state.send_modify(|state| state.settled = false);
            }
        });
        if begins {
            self.watched("watch of a caller", follow::keep_while_heard(Arc::downgrade(self)));
        }
        Listener { shelf: Arc::clone(self) }
    }

    /// Says that a client wants to hear of something.
    pub fn wish(self: &Arc<Self>, topic: Topic) -> Wish {
        self.watch.lock().entry(topic.clone()).or_default().users += 1;
        self.watch.wishes.send_modify(|wishes| *wishes += 1);
        Wish { shelf: Arc::clone(self), topic }
    }
}
