//! One context's place at a server: its own session or process, what was agreed there, and its trouble (G-49, G-57).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::context::{Asks, Context};
use super::credentials::OnBehalf;
use super::error::{Failure, OutboundError};
use super::link::sse::Record;
use super::link::stdio::StdioLink;
use super::places::Tally;
use super::replica::{Replica, Replicas};
use super::server::{Peer, Server};
use super::{legacy, probe};
use crate::config::{self, SessionScope};
use crate::protocol::message::Received;
use crate::protocol::version::Era;
use crate::tasks::{Flight, Tasks};

/// Which place a request belongs to. Two contexts with different keys share nothing at the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub(super) who: Who,
    /// Legacy: what was declared there.
    pub(super) asks: Asks,
    /// Which of the context's processes (`processes`); 0 where there is one.
    pub(super) lane: usize,
}

/// Whose a place is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Who {
    /// The gateway's own: lists and watches, and whatever is shared.
    Service,
    /// One principal's.
    Principal(Arc<str>),
    /// One client session's, of one principal.
    Session(Arc<str>, Arc<str>),
}

impl Key {
    /// The gateway's own place, which declares nothing.
    pub(super) const SERVICE: Self = Self { who: Who::Service, asks: Asks::NONE, lane: 0 };

    /// Where a context belongs at a server that speaks like this (design §7).
    pub(super) fn new(server: &config::Server, era: Option<Era>, context: Option<&Context>) -> Self {
        let Some(context) = context else { return Self::SERVICE };
        let legacy = era == Some(Era::Legacy);
        let principal = || Who::Principal(Arc::clone(&context.principal));
        let session = || match &context.session {
            Some(session) => Who::Session(Arc::clone(&context.principal), Arc::clone(session)),
            // Modern clients have none.
            None => principal(),
        };
        let per_user = server.credentials.is_per_user();
        let who = match (server.is_stdio(), server.session_scope) {
            (true, SessionScope::Auto | SessionScope::Shared) => Who::Service,
            (true, SessionScope::Principal) => principal(),
            (true, SessionScope::Session) => session(),
            // Stateless: only what is presented tells callers apart.
            (false, _) if !legacy && per_user => principal(),
            (false, _) if !legacy => Who::Service,
            (false, SessionScope::Shared) if !per_user => Who::Service,
            (false, SessionScope::Principal | SessionScope::Shared) => principal(),
            (false, SessionScope::Auto | SessionScope::Session) => session(),
        };
        Self { who, asks: if legacy { context.asks } else { Asks::NONE }, lane: 0 }
    }

    /// The same context's place in another process.
    pub(super) fn at(&self, lane: usize) -> Self {
        Self { lane, ..self.clone() }
    }

    pub(super) fn is_service(&self) -> bool {
        *self == Self::SERVICE
    }

    pub(super) fn is_of_session(&self, id: &str) -> bool {
        matches!(&self.who, Who::Session(_, session) if **session == *id)
    }
}

/// How messages of one place get there.
#[derive(Debug)]
pub enum Transport {
    /// Streamable HTTP, or the transport before it: the same replicas for all places.
    Http(Arc<Replicas>),
    /// A child process of the place's own.
    Stdio(StdioLink, Arc<Replica>),
}

/// A place. Dropping the last handle of it ends its session or process, so never while a call uses it (G-46).
#[derive(Debug)]
pub struct Place {
    pub(super) key: Key,
    pub(super) transport: Transport,
    /// What a child says outside of calls.
    pub(super) overheard: broadcast::Sender<Arc<Received>>,
    /// Who is presented: what the last request here brought.
    on_behalf: ArcSwapOption<OnBehalf>,
    peer: ArcSwapOption<Peer>,
    /// How its streams of the 2024-11-05 transport ended.
    pub(super) streams: Record,
    /// Calls at work here, where that is counted.
    calls: AtomicUsize,
    establishing: Flight<Result<Arc<Peer>, OutboundError>>,
    // A std mutex: held to read or write three words.
    trouble: Mutex<Option<Trouble>>,
    /// The least severe log level asked for, and with whom that was.
    // A std mutex: held to read or write two words.
    pub(super) level: Mutex<(Weak<Peer>, usize)>,
    tally: Arc<Tally>,
    tasks: Tasks,
}

/// The last failure to get ready, and when to try again.
#[derive(Debug, Clone)]
struct Trouble {
    error: OutboundError,
    until: Instant,
    step: Duration,
}

/// First and longest pause between attempts to reach a server that failed to get ready.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(10);

/// What a child said outside of calls and nobody has looked at yet; beyond it, listeners are told they missed some.
const OVERHEARD: usize = 256;

/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(1);

impl Place {
    pub(super) fn new(key: Key, transport: Transport, tally: Arc<Tally>, tasks: Tasks) -> Self {
        Self {
            key,
            transport,
            overheard: broadcast::channel(OVERHEARD).0,
            on_behalf: ArcSwapOption::empty(),
            peer: ArcSwapOption::empty(),
            streams: Record::default(),
            calls: AtomicUsize::new(0),
            establishing: Flight::default(),
            trouble: Mutex::new(None),
            level: Mutex::default(),
            tally,
            tasks,
        }
    }

    /// Who is presented from now on: always the same caller, whose tokens change.
    pub(super) fn present(&self, on_behalf: Option<&Arc<OnBehalf>>) {
        if on_behalf.is_some() {
            self.on_behalf.store(on_behalf.map(Arc::clone));
        }
    }

    /// Who is presented with what belongs to no single request.
    pub(super) fn on_behalf(&self) -> Option<Arc<OnBehalf>> {
        self.on_behalf.load_full()
    }

    /// Calls at work here.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// One call more than `calls`, if that is still how many there are.
    pub(super) fn enter(&self, calls: usize) -> bool {
        self.calls.compare_exchange(calls, calls + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// One call less.
    pub(super) fn leave(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether it failed lately, so that a call here would fail at once.
    pub(super) fn is_held_back(&self) -> bool {
        let troubled = self.trouble().is_some_and(|trouble| Instant::now() < trouble.until);
        let held = |link: &StdioLink, child: &Replica| link.is_held_back() || !child.breaker.is_closed();
        troubled || matches!(&self.transport, Transport::Stdio(link, child) if held(link, child))
    }

    /// What was agreed, if it still holds; does not contact the server.
    pub(super) fn known_peer(&self) -> Option<Arc<Peer>> {
        self.peer.load_full().filter(|peer| !peer.is_gone())
    }

    /// What was agreed here, agreeing first where necessary: once for all who ask.
    pub(super) async fn peer(self: &Arc<Self>, server: &Arc<Server>) -> Result<Arc<Peer>, OutboundError> {
        if let Some(peer) = self.known_peer() {
            return Ok(peer);
        }
        if let Some(trouble) = self.trouble().filter(|t| Instant::now() < t.until) {
            return Err(trouble.error);
        }
        // The gateway's own attempts have their own pauses, and show that it is back.
        if !self.key.is_service() && matches!(&self.transport, Transport::Http(all) if !all.are_open()) {
            return Err(server.left_alone());
        }
        let (owner, place) = (Arc::clone(server), Arc::clone(self));
        let ready = self.establishing.join(&self.tasks, "establish", || async move {
            if let Some(peer) = place.known_peer() {
                return Ok(peer);
            }
            let outcome = probe::establish(&owner, &place).await.map(Arc::new);
            place.note(&owner, &outcome);
            if let Ok(peer) = &outcome {
                owner.hear_aside(&place, peer).await;
            }
            outcome
        });
        ready.await.unwrap_or_else(|| Err(server.error(Failure::Unavailable("stopping".into()), false)))
    }

    fn note(self: &Arc<Self>, server: &Arc<Server>, outcome: &Result<Arc<Peer>, OutboundError>) {
        {
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            *trouble = outcome.as_ref().err().map(|error| {
                let step = trouble.as_ref().map_or(RETRY_FIRST, |t| (t.step * 2).min(RETRY_MOST));
                Trouble { error: error.clone(), until: Instant::now() + step, step }
            });
        }
        if let Ok(peer) = outcome {
            peer.replica.contact(true);
            peer.replica.breaker.recovered();
            self.peer.store(Some(Arc::clone(peer)));
            server.attend(self, peer);
        }
        server.established(self, outcome);
    }

    /// It is back: whoever comes next need not wait for the pause to end.
    pub(super) fn clear_trouble(&self) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long to wait before the next attempt to get ready is worth it.
    pub(super) fn retry_in(&self) -> Duration {
        self.trouble().map_or(RETRY_FIRST, |t| t.until.saturating_duration_since(Instant::now()))
    }

    /// Whether this is what was agreed last.
    pub(super) fn is_current(&self, peer: &Arc<Peer>) -> bool {
        self.peer.load().as_ref().is_some_and(|p| Arc::ptr_eq(p, peer))
    }

    /// Forgets what was agreed, if it is still `peer`: the next request agrees anew.
    pub(super) fn forget(&self, peer: &Arc<Peer>) {
        let current = self.peer.load();
        if current.as_ref().is_some_and(|p| Arc::ptr_eq(p, peer)) {
            self.peer.compare_and_swap(&*current, None);
            peer.retire();
        }
    }

    /// Forgets what was agreed, whatever it is.
    pub(super) fn forget_any(&self) {
        if let Some(peer) = self.peer.swap(None) {
            peer.retire();
        }
    }

    /// Ends the session and the process, for good.
    pub(super) async fn stop(&self) {
        let peer = self.peer.swap(None);
        match &self.transport {
            Transport::Stdio(link, _) => link.stop().await,
            Transport::Http(_) => {
                if let Some(connection) = peer.as_ref().and_then(|peer| peer.connection.as_ref()) {
                    connection.end();
                }
                if let Some(farewell) = self.farewell(peer) {
                    farewell.await;
                }
            }
        }
    }

    /// The DELETE that ends a session, where there is one (G-46). Whether it is understood does not matter.
    fn farewell(&self, peer: Option<Arc<Peer>>) -> Option<impl Future<Output = ()> + Send + use<>> {
        let peer = peer?;
        let link = Arc::clone(peer.replica.link.as_ref()?);
        let headers = legacy::headers(peer.session.as_ref().filter(|session| session.id.is_some())?);
        let caller = self.on_behalf();
        Some(async move {
            let _ = tokio::time::timeout(FAREWELL, link.delete_for(caller.as_deref(), headers)).await;
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.tally.retire(&self.transport);
        // A process without a runtime is one that ends.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let farewell = self.farewell(self.peer.swap(None));
        match (&self.transport, farewell) {
            (_, Some(farewell)) => drop(self.tasks.spawn("end session", farewell)),
            (Transport::Stdio(link, _), None) => {
                let link = link.clone();
                self.tasks.spawn("end process", async move { link.stop().await });
            }
            (Transport::Http(_), None) => {}
        }
    }
}
