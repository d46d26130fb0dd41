//! One event stream of a session: what was said on it, kept a while within bounds, so that a client that lost its
//! connection can go on where it was (G-33..G-38).

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::answer::Final;
use crate::inbound::respond::framed;
use crate::protocol::edit::Parts;

/// Events and bytes that one stream keeps at most. The newest event is always kept.
const MOST_EVENTS: usize = 256;
const MOST_BYTES: usize = 1 << 20;
/// Events that may wait for a client that reads slowly; then its call waits.
const BACKLOG: u64 = 32;
/// Clients that come for a session's own stream: the one before stays open in silence, so that two which come
/// again whenever they are closed do not chase each other (F-030).
const MOST_READERS: usize = 2;

/// Bytes kept for replays in the whole process.
#[derive(Debug)]
pub(super) struct Replay {
    used: AtomicUsize,
    most: usize,
}

impl Replay {
    pub(super) const fn new(most: usize) -> Self {
        Self { used: AtomicUsize::new(0), most }
    }

    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.most
    }
}

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The answer to a POST: it ends.
    Answer,
    /// What a session is told apart from its requests.
    Changes,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// Its part of every event id: unique in the session, also after that was rebuilt.
    pub(super) tag: Box<str>,
    pub(super) purpose: Purpose,
    replay: Arc<Replay>,
    // A std mutex: held to move events, never across an await.
    inner: Mutex<Inner>,
    /// There is room for one more event.
    room: Notify,
    /// Something happened that the responder waits for.
    news: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<Event>,
    /// The number of the first of `events`.
    first: u64,
    /// The number of the next event to be read.
    cursor: u64,
    bytes: usize,
    /// Nothing more will come.
    over: Option<Instant>,
    /// The client reads, or will: the end is an event too.
    opened: bool,
    /// The client reads no events: notices are dropped.
    muted: bool,
    /// It is decided that the caller may have an answer.
    admitted: bool,
    /// How it ended, where that is the whole answer.
    plain: Option<Final>,
    /// Who reads; only the last one gets anything.
    readers: Vec<Reader>,
    next_reader: u64,
}

#[derive(Debug)]
struct Event {
    bytes: Parts,
    /// Said once only while nobody reads (S-51).
    key: Option<Box<str>>,
}

#[derive(Debug)]
struct Reader {
    id: u64,
    waker: Option<Waker>,
}

/// What a responder waits for.
#[derive(Debug)]
pub(super) enum News {
    /// There are events.
    Events,
    /// It is over, and this is all.
    Plain(Final),
    /// It is over without a word.
    Nothing,
}

impl Stream {
    pub(super) fn new(tag: String, purpose: Purpose, replay: &Arc<Replay>) -> Self {
        let inner = Inner { first: 1, cursor: 1, ..Inner::default() };
        Self {
            tag: tag.into(),
            purpose,
            replay: Arc::clone(replay),
            inner: Mutex::new(inner),
            room: Notify::new(),
            news: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something; waits while the client is too far behind.
    pub(super) async fn push(&self, message: Parts) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            {
                let mut inner = self.lock();
                if inner.readers.is_empty() || inner.backlog() < BACKLOG {
                    self.add(&mut inner, message, None);
                    return;
                }
            }
            room.await;
        }
    }

    /// Says something at once; the same thing again only once it was read, or somebody reads.
    pub(super) fn put(&self, key: &str, message: Parts) {
        let mut inner = self.lock();
        if inner.readers.is_empty() && inner.unread().any(|event| event.key.as_deref() == Some(key)) {
            return;
        }
        self.add(&mut inner, message, Some(key.into()));
    }

    /// The last word; `None`: there is none. The first end counts.
    pub(super) fn end(&self, last: Option<Final>) {
        let mut inner = self.lock();
        if inner.over.is_some() {
            return;
        }
        match last {
            Some(last) if inner.opened || !inner.events.is_empty() => {
                inner.muted = false;
                self.add(&mut inner, last.message, None);
            }
            other => inner.plain = other,
        }
        inner.over = Some(Instant::now());
        self.woken(&mut inner);
    }

    /// It is decided that the caller may have an answer.
    pub(super) fn admit(&self) {
        self.lock().admitted = true;
        self.news.notify_waiters();
    }

    /// Drops what would be said before the end.
    pub(super) fn mute(&self) {
        self.lock().muted = true;
    }

    /// When it ended.
    pub(super) fn over(&self) -> Option<Instant> {
        self.lock().over
    }

    /// Whether nothing is left, or will be, behind the event of this number.
    pub(super) fn is_exhausted(&self, number: u64) -> bool {
        let inner = self.lock();
        inner.over.is_some() && number.saturating_add(1) >= inner.end()
    }

    /// Bytes it keeps.
    pub(super) fn kept(&self) -> usize {
        self.lock().bytes
    }

    /// Waits for the first event or the end; `patient` is polled as well once the caller may have an answer, and
    /// ends the wait.
    pub(super) async fn news(&self, patient: impl Future<Output = ()>) -> News {
        let mut patient = pin!(patient);
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            let admitted = {
                let mut inner = self.lock();
                if let Some(last) = inner.plain.take() {
                    return News::Plain(last);
                }
                if !inner.events.is_empty() {
                    return News::Events;
                }
                if inner.over.is_some() {
                    return News::Nothing;
                }
                inner.admitted
            };
            tokio::select! {
                () = &mut news => {}
                () = &mut patient, if admitted => {
                    let mut inner = self.lock();
                    inner.opened |= inner.plain.is_none();
                    return inner.plain.take().map_or(News::Events, News::Plain);
                }
            }
        }
    }

    /// A new reader, from behind the event of this number, or from where the last one was. Gives its id and the number
    /// of the event before the next one.
    pub(super) fn attach(&self, behind: Option<u64>) -> (u64, u64) {
        let mut inner = self.lock();
        inner.opened = true;
        let most = if self.purpose == Purpose::Answer { 1 } else { MOST_READERS };
        while inner.readers.len() >= most {
            let gone = inner.readers.remove(0);
            gone.waker.into_iter().for_each(Waker::wake);
        }
        let end = inner.first + inner.events.len() as u64;
        if let Some(behind) = behind {
            inner.cursor = behind.saturating_add(1).clamp(inner.first, end);
        }
        let id = inner.next_reader;
        inner.next_reader += 1;
        inner.readers.push(Reader { id, waker: None });
        self.room.notify_waiters();
        (id, inner.cursor - 1)
    }

    /// A reader has gone; the one before it is heard again.
    pub(super) fn detach(&self, id: u64) {
        let mut inner = self.lock();
        inner.readers.retain(|reader| reader.id != id);
        self.woken(&mut inner);
        self.room.notify_waiters();
    }

    /// The next event for a reader; `None`: there will be none.
    pub(super) fn poll(&self, id: u64, context: &mut Context<'_>) -> Poll<Option<Parts>> {
        let mut inner = self.lock();
        let Some(at) = inner.readers.iter().position(|reader| reader.id == id) else {
            return Poll::Ready(None);
        };
        if at + 1 == inner.readers.len() {
            let index = usize::try_from(inner.cursor - inner.first).unwrap_or(usize::MAX);
            if let Some(event) = inner.events.get(index) {
                let bytes = event.bytes.clone();
                inner.cursor += 1;
                self.trim(&mut inner);
                self.room.notify_waiters();
                return Poll::Ready(Some(bytes));
            }
        }
        if inner.over.is_some() {
            return Poll::Ready(None);
        }
        inner.readers[at].waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn add(&self, inner: &mut Inner, message: Parts, key: Option<Box<str>>) {
        if inner.over.is_some() || inner.muted {
            return;
        }
        let number = inner.first + inner.events.len() as u64;
        let mut bytes = Parts::new();
        bytes.push(format!("id: {}-{number}\n", self.tag));
        bytes.extend(framed(message));
        inner.bytes += bytes.len();
        self.replay.used.fetch_add(bytes.len(), Ordering::Relaxed);
        inner.events.push_back(Event { bytes, key });
        self.trim(inner);
        self.woken(inner);
    }

    /// Lets go what is too much: of what was read all, when the process keeps too much, else the oldest.
    fn trim(&self, inner: &mut Inner) {
        while inner.events.len() > 1 {
            let read = inner.first < inner.cursor;
            let over = inner.events.len() > MOST_EVENTS || inner.bytes > MOST_BYTES || self.replay.is_full();
            // Somebody reads: what is not read yet is not lost, and what comes has to wait.
            let kept = !read && !inner.readers.is_empty() && inner.events.len() <= MOST_EVENTS;
            if !over || kept {
                break;
            }
            let Some(gone) = inner.events.pop_front() else { break };
            inner.first += 1;
            inner.cursor = inner.cursor.max(inner.first);
            inner.bytes -= gone.bytes.len();
            self.replay.used.fetch_sub(gone.bytes.len(), Ordering::Relaxed);
        }
    }

    fn woken(&self, inner: &mut Inner) {
        for reader in &mut inner.readers {
            reader.waker.take().into_iter().for_each(Waker::wake);
        }
        self.news.notify_waiters();
        if inner.over.is_some() {
            self.room.notify_waiters();
        }
    }
}

impl Inner {
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn backlog(&self) -> u64 {
        if self.over.is_some() { 0 } else { self.end() - self.cursor }
    }

    fn unread(&self) -> impl Iterator<Item = &Event> {
        let read = usize::try_from(self.cursor - self.first).unwrap_or(usize::MAX);
        self.events.iter().skip(read)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let kept = self.lock().bytes;
        self.replay.used.fetch_sub(kept, Ordering::Relaxed);
    }
}

/// An event that only says where a stream is (G-36, G-37).
pub(super) fn prime(tag: &str, number: u64) -> Bytes {
    format!("id: {tag}-{number}\nretry: {RETRY}\ndata: \n\n").into()
}

/// Milliseconds after which a client comes again.
const RETRY: u32 = 1000;

/// What stands at the end of a stream that ends before its time.
pub(super) fn retry() -> Bytes {
    format!("retry: {RETRY}\n\n").into()
}

/// An event id → the stream's tag and the event's number.
pub(super) fn place(event: &str) -> Option<(&str, u64)> {
    let (tag, number) = event.rsplit_once('-')?;
    Some((tag, number.parse().ok()?))
}

#[cfg(test)]
mod tests;
