//! One client's session: what it declared, what runs in it, what it is told (G-20..G-27).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use data_encoding::HEXLOWER;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::declared::Declared;
use super::stream::{Purpose, Replay, Stream, place};
use super::ticket::Ticket;
use crate::net::budget::Held;
use crate::protocol::envelope::Id;
use crate::protocol::object::string;
use crate::protocol::version::Revision;

/// Requests that may run in one session at once: calls outlive the connections they came on.
const MOST_RUNNING: usize = 256;
/// Answers that are kept once they are complete: how many, how many bytes, and how long (G-36).
const MOST_KEPT: usize = 16;
const MOST_BYTES: usize = 2 << 20;
const KEPT: Duration = Duration::from_secs(120);

/// A session as this replica knows it.
#[derive(Debug)]
pub(super) struct Session {
    /// What servers and logs know it by; says nothing to anybody else.
    pub(super) name: Arc<str>,
    pub(super) principal: Arc<str>,
    pub(super) revision: Revision,
    pub(super) declared: Declared,
    /// Cancelled when it ends; so is all that runs in it.
    pub(super) end: CancellationToken,
    /// When its id is no longer valid.
    pub(super) expires: Instant,
    /// Distinguishes this record from one of the same session at another replica, or before a restart.
    incarnation: String,
    replay: Arc<Replay>,
    born: Instant,
    /// Milliseconds from `born` to its last use.
    used: AtomicU64,
    uses: AtomicUsize,
    /// The least severe log level wanted, plus one; 0: never set.
    level: AtomicUsize,
    serial: AtomicU64,
    // A std mutex: held to change maps, never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: HashMap<Bytes, Vec<(u64, CancellationToken)>>,
    count: usize,
    /// Answers as events, oldest first.
    streams: VecDeque<Arc<Stream>>,
    /// What is told apart from answers.
    changes: Option<Arc<Stream>>,
    watch: Option<Watch>,
    subscriptions: HashMap<String, Option<DropGuard>>,
    /// Subscriptions that ended with the credential they were made with.
    lapsed: Vec<String>,
    pending: HashMap<Box<str>, oneshot::Sender<Reply>>,
}

/// What watches the lists for a session; dropping it ends that.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) number: u64,
    _end: DropGuard,
}

impl Watch {
    /// One of a session, and the token that fires when it is to end: with the session at the latest.
    pub(super) fn new(session: &Session) -> (Self, CancellationToken) {
        let token = session.end.child_token();
        let number = session.serial.fetch_add(1, Ordering::Relaxed);
        (Self { number, _end: token.clone().drop_guard() }, token)
    }
}

/// A client's answer to a request of ours; `None`: it was an error.
pub(super) type Reply = Option<Said>;

/// A client's result, and the memory of the body that it stands in.
#[derive(Debug)]
pub(super) struct Said {
    /// JSON text.
    pub(super) text: ByteString,
    /// Kept until the answer is passed on.
    pub(super) _held: Arc<Held>,
}

impl Session {
    /// The session of a ticket; `None` where its revision is not served.
    pub(super) fn new(ticket: &Ticket, principal: Arc<str>, replay: &Arc<Replay>) -> Option<Self> {
        let revision = ticket.revision()?;
        let mut bytes = [0u8; 4];
        aws_lc_rs::rand::fill(&mut bytes).ok()?;
        Some(Self {
            name: ticket.name.as_str().into(),
            principal,
            revision,
            declared: Declared::read(&ticket.capabilities, revision),
            end: CancellationToken::new(),
            expires: Instant::now() + ticket.rest(),
            incarnation: HEXLOWER.encode(&bytes),
            replay: Arc::clone(replay),
            born: Instant::now(),
            used: AtomicU64::new(0),
            uses: AtomicUsize::new(0),
            level: AtomicUsize::new(0),
            serial: AtomicU64::new(1),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is used, now and as long as the value lives.
    pub(super) fn hold(self: &Arc<Self>) -> Use {
        self.uses.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Use(Arc::clone(self))
    }

    fn touch(&self) {
        let millis = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used.store(millis, Ordering::Relaxed);
    }

    /// Since when nobody uses it; `None`: it is in use.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let free = self.uses.load(Ordering::Relaxed) == 0;
        free.then(|| self.born + Duration::from_millis(self.used.load(Ordering::Relaxed)))
    }

    /// Whether a request runs in it; else somebody at most waits for news.
    pub(super) fn is_working(&self) -> bool {
        self.lock().count > 0
    }

    /// The log level its client has set, as a rank (G-15).
    pub(super) fn level(&self) -> Option<usize> {
        self.level.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(super) fn set_level(&self, rank: usize) {
        self.level.store(rank + 1, Ordering::Relaxed);
    }

    fn next(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// A request begins; `None`: too many run already. Several may have one id: some clients have no other (F-042).
    pub(super) fn begin(self: &Arc<Self>, id: &Id) -> Option<Running> {
        let serial = self.next();
        let token = self.end.child_token();
        let key = key(id.raw());
        let mut state = self.lock();
        if state.count >= MOST_RUNNING {
            return None;
        }
        state.count += 1;
        state.running.entry(key.clone()).or_default().push((serial, token.clone()));
        drop(state);
        Some(Running { held: self.hold(), key, serial, token })
    }

    /// Cancels the request of this id, typed as it was sent; the latest one where several have it (G-75).
    pub(super) fn cancel(&self, id: &Bytes) -> bool {
        let state = self.lock();
        let found = state.running.get(&key(id)).and_then(|all| all.last());
        found.inspect(|(_, token)| token.cancel()).is_some()
    }

    /// A stream for an answer. Known to the session once it is kept.
    pub(super) fn stream(&self) -> Arc<Stream> {
        Arc::new(Stream::new(self.tag(), Purpose::Answer, &self.replay))
    }

    fn tag(&self) -> String {
        format!("{}-{}", self.incarnation, self.next())
    }

    /// Keeps a stream for clients that come back for it.
    pub(super) fn keep(&self, stream: &Arc<Stream>) {
        let mut state = self.lock();
        state.streams.push_back(Arc::clone(stream));
        forget(&mut state.streams);
    }

    /// Lets go what was kept long enough.
    pub(super) fn tidy(&self) {
        forget(&mut self.lock().streams);
    }

    /// The stream for what is told apart from answers, made when it is first wanted.
    pub(super) fn changes(&self) -> Arc<Stream> {
        let mut state = self.lock();
        let made = || Arc::new(Stream::new(self.tag(), Purpose::Changes, &self.replay));
        Arc::clone(state.changes.get_or_insert_with(made))
    }

    /// That stream is over: the next one is another.
    pub(super) fn end_changes(&self, stream: &Arc<Stream>) {
        stream.end(None);
        let mut state = self.lock();
        if state.changes.as_ref().is_some_and(|known| Arc::ptr_eq(known, stream)) {
            state.changes = None;
        }
    }

    /// The stream an event id belongs to, and the event's number (G-36).
    pub(super) fn stream_of(&self, event: &str) -> Option<(Arc<Stream>, u64)> {
        let (tag, number) = place(event)?;
        let state = self.lock();
        let mut all = state.streams.iter().chain(&state.changes);
        all.find(|stream| *stream.tag == *tag).map(|stream| (Arc::clone(stream), number))
    }

    /// Watches lists from now on, with what ends the watch before: that ends only now, so that nothing is missed.
    pub(super) fn watch(&self, watch: Watch) {
        let gone = self.lock().watch.replace(watch);
        drop(gone);
    }

    /// Whether lists are watched.
    pub(super) fn is_watching(&self) -> bool {
        self.lock().watch.is_some()
    }

    /// A watch of lists is over, if it is still this one.
    pub(super) fn unwatch(&self, number: u64) {
        let gone = self.lock().watch.take_if(|watch| watch.number == number);
        drop(gone);
    }

    /// A place for a subscription; false when there are too many, `None` when there is this one already.
    pub(super) fn reserve(&self, uri: &str, most: usize) -> Option<bool> {
        let mut state = self.lock();
        if state.subscriptions.contains_key(uri) {
            return None;
        }
        if state.subscriptions.len() >= most {
            return Some(false);
        }
        state.subscriptions.insert(uri.to_owned(), None);
        Some(true)
    }

    /// A subscription stands; its guard ends it.
    pub(super) fn subscribe(&self, uri: &str, guard: DropGuard) {
        if let Some(place) = self.lock().subscriptions.get_mut(uri) {
            *place = Some(guard);
        }
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        let mut state = self.lock();
        let gone = state.subscriptions.remove(uri);
        state.lapsed.retain(|lapsed| lapsed != uri);
        drop(state);
        drop(gone);
    }

    /// A subscription ended with its credential: it goes on with the next one.
    pub(super) fn lapse(&self, uri: String) {
        let mut state = self.lock();
        if state.subscriptions.contains_key(&uri) {
            state.lapsed.push(uri);
        }
    }

    /// Subscriptions that are to go on.
    pub(super) fn lapsed(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().lapsed)
    }

    /// A request of ours to the client: its id, and where its answer comes.
    pub(super) fn ask(&self) -> (Box<str>, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let id: Box<str> = format!("gatehouse-{}-{}", self.incarnation, self.next()).into();
        self.lock().pending.insert(id.clone(), sender);
        (id, receiver)
    }

    /// No longer waits for an answer.
    pub(super) fn forget(&self, id: &str) {
        self.lock().pending.remove(id);
    }

    /// The answer to a request of ours; false when nobody waits for it (G-30).
    pub(super) fn answered(&self, id: &str, reply: Reply) -> bool {
        let waiting = self.lock().pending.remove(id);
        waiting.is_some_and(|waiting| waiting.send(reply).is_ok())
    }

    /// Ends it: what runs is cancelled, streams are over, nothing is watched (G-24).
    pub(super) fn finish(&self) {
        self.end.cancel();
        let mut state = self.lock();
        let changes = state.changes.take();
        let gone = (state.watch.take(), std::mem::take(&mut state.subscriptions));
        state.pending.clear();
        state.streams.clear();
        drop(state);
        drop(gone);
        changes.into_iter().for_each(|stream| stream.end(None));
    }
}

/// Old streams that are over are let go: beyond a number, beyond a size, beyond a time.
fn forget(streams: &mut VecDeque<Arc<Stream>>) {
    let now = Instant::now();
    let old = |stream: &Arc<Stream>| stream.over().is_some_and(|over| now.duration_since(over) > KEPT);
    streams.retain(|stream| !old(stream));
    let mut bytes: usize = streams.iter().map(|stream| stream.kept()).sum();
    let mut count = streams.len();
    streams.retain(|stream| {
        let over = (count > MOST_KEPT || bytes > MOST_BYTES) && stream.over().is_some();
        if over {
            count -= 1;
            bytes = bytes.saturating_sub(stream.kept());
        }
        !over
    });
}

/// An id's text in one spelling: strings may be written with escapes.
fn key(raw: &Bytes) -> Bytes {
    match std::str::from_utf8(raw).ok().filter(|text| text.contains('\\')).and_then(string) {
        Some(text) => crate::protocol::items::json_string(&text).into(),
        None => raw.clone(),
    }
}

/// A use of a session: it is not idle.
#[derive(Debug)]
pub(super) struct Use(Arc<Session>);

impl Use {
    pub(super) const fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.touch();
        self.0.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that runs in a session, until it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    held: Use,
    key: Bytes,
    serial: u64,
    /// Cancelled by the client, or with the session.
    pub(super) token: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.held.session().lock();
        state.count -= 1;
        if let Some(all) = state.running.get_mut(&self.key) {
            all.retain(|(serial, _)| *serial != self.serial);
            if all.is_empty() {
                state.running.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
