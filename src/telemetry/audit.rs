//! The audit log: one line of JSON for every call and denial, written on a thread of its own. What it cannot keep up
//! with is dropped and counted; no call waits for it unless it is told to.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};

use prometheus::IntCounter;
use tokio::sync::{mpsc, oneshot};

use super::outcome::Outcome;

mod arguments;
mod line;
mod sink;
#[cfg(test)]
mod tests;

pub use arguments::{Arguments, Keep, Path};
use sink::Sink;

/// Entries that may wait for the writer.
const QUEUE: usize = 8192;
/// Bytes of messages that may wait with them, for what is told of their arguments.
const HELD: usize = 32 * 1024 * 1024;
/// How long a call waits for its line at most.
const SURE: Duration = Duration::from_secs(10);
/// How long lines wait for others, so that not each of them wakes the writer. Those that somebody waits for do not.
const LINGER: Duration = Duration::from_millis(20);
/// Bytes that are written at once.
const BATCH: usize = 64 * 1024;

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file, appended to; opened anew once it has been renamed or removed.
    Path(PathBuf),
}

/// A place that can be written to.
#[derive(Debug)]
pub struct Opened(Sink);

impl Opened {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn new(target: Target) -> std::io::Result<Self> {
        Sink::open(target).map(Self)
    }
}

/// What became of one call.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When it ended.
    pub at: SystemTime,
    /// The number of its HTTP request, as `X-Request-Id` says it.
    pub request: u64,
    /// Its client's address.
    pub address: Option<IpAddr>,
    /// Who made it.
    pub caller: Caller,
    /// The path of its endpoint.
    pub endpoint: Arc<str>,
    /// Its method.
    pub method: &'static str,
    /// Whom it was for.
    pub server: Option<Arc<str>>,
    /// What it was for, by the name the client gave: a key (`tool`, `prompt`, `uri`) and the name.
    pub item: Option<(&'static str, Arc<str>)>,
    /// The name its server uses, where it is another one.
    pub native: Option<String>,
    /// The grant that allowed it, or that would with scopes: its position in file order, from 0.
    pub grant: Option<usize>,
    /// All scopes it needs, if it was denied for want of them.
    pub scopes: Vec<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// From its arrival to its end.
    pub took: Duration,
    /// Size of the message.
    pub request_bytes: usize,
    /// Size of the result, if there was one.
    pub result_bytes: Option<usize>,
    /// The id of the trace it is a part of.
    pub trace: Option<[u8; 16]>,
    /// Its arguments, and what is told of them.
    pub arguments: Option<(Arguments, Arc<Keep>)>,
}

impl Entry {
    /// Bytes that it keeps from being let go.
    fn weight(&self) -> usize {
        self.arguments.as_ref().map_or(0, |(arguments, _)| arguments.body.len())
    }
}

/// A definition that differs from the approved one.
#[derive(Debug, Clone)]
pub struct ContractEntry {
    /// When it was seen.
    pub at: SystemTime,
    /// Whose it is.
    pub server: String,
    /// `tool`, `prompt` or `template`.
    pub kind: &'static str,
    /// Its native name.
    pub item: String,
    /// The worst of what is to be said.
    pub class: &'static str,
    /// Whether it was held back.
    pub held: bool,
    /// The rules that say so.
    pub rules: Vec<String>,
}

/// A caller as the audit log names it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The principal's id.
    pub principal: Arc<str>,
    /// Whose token it was; empty: nobody's.
    pub issuer: Arc<str>,
    /// The token's subject, the key's name, or `anonymous`.
    pub subject: Arc<str>,
    /// The OAuth client.
    pub client: Option<Arc<str>>,
}

/// The way to the writer; cloned freely.
#[derive(Debug, Clone)]
pub struct Audit {
    sender: mpsc::Sender<Message>,
    dropped: IntCounter,
    state: Arc<State>,
}

/// What both ends know.
#[derive(Debug, Default)]
struct State {
    /// Bytes of messages that wait.
    held: AtomicUsize,
    /// The last write failed.
    broken: AtomicBool,
    /// The writer's thread, once it runs.
    writer: OnceLock<Thread>,
}

#[derive(Debug)]
enum Message {
    /// A line, and who waits for it.
    Entry(Box<Entry>, Option<oneshot::Sender<bool>>),
    Contract(Box<ContractEntry>),
    /// Another place to write to from now on.
    Move(Opened, oneshot::Sender<()>),
    Stop(oneshot::Sender<()>),
}

/// What writes; [`Writer::run`] it on a thread.
#[derive(Debug)]
pub struct Writer {
    receiver: mpsc::Receiver<Message>,
    sink: Sink,
    dropped: IntCounter,
    state: Arc<State>,
    linger: Duration,
}

/// Counts a line that is dropped with it.
struct Lost<'a>(Option<&'a IntCounter>);

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|dropped| dropped.inc());
    }
}

impl Audit {
    /// A log and its writer; `dropped` counts lines that are lost.
    pub fn new(opened: Opened, dropped: &IntCounter) -> (Self, Writer) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let state = Arc::<State>::default();
        let (sink, own) = (opened.0, Arc::clone(&state));
        let writer = Writer { receiver, sink, dropped: dropped.clone(), state: own, linger: LINGER };
        (Self { sender, dropped: dropped.clone(), state }, writer)
    }

    /// Hands an entry over; never waits.
    pub fn write(&self, entry: Entry) {
        let weight = entry.weight();
        let held = self.state.held.fetch_add(weight, Ordering::Relaxed);
        // One message alone always has its place.
        let full = weight > 0 && held > 0 && held + weight > HELD;
        if full || self.sender.try_send(Message::Entry(Box::new(entry), None)).is_err() {
            self.state.held.fetch_sub(weight, Ordering::Relaxed);
            self.dropped.inc();
        }
        // Half full: no time to wait for others.
        if is_half_of_held(held + weight) || self.sender.capacity() * 2 <= QUEUE {
            self.hurry();
        }
    }

    /// Hands an entry over and waits until it is written; false if it was not.
    pub async fn write_surely(&self, entry: Entry) -> bool {
        // Whoever gives up while there is no room, or is given up, leaves nothing behind but a lost line.
        let mut lost = Lost(Some(&self.dropped));
        let (sender, written) = oneshot::channel();
        let work = async {
            let Ok(room) = self.sender.reserve().await else { return false };
            self.state.held.fetch_add(entry.weight(), Ordering::Relaxed);
            room.send(Message::Entry(Box::new(entry), Some(sender)));
            lost.0 = None;
            self.hurry();
            written.await.unwrap_or(false)
        };
        tokio::time::timeout(SURE, work).await.unwrap_or(false)
    }

    /// Whether the last line could not be written.
    pub fn is_broken(&self) -> bool {
        self.state.broken.load(Ordering::Relaxed)
    }

    /// Hands over that a definition differs; never waits.
    pub fn write_contract(&self, entry: ContractEntry) {
        if self.sender.try_send(Message::Contract(Box::new(entry))).is_err() {
            self.dropped.inc();
        }
    }

    /// Writes to another place from now on; what was handed over before is in the old one when this returns.
    pub async fn move_to(&self, opened: Opened) {
        self.done(|done| Message::Move(opened, done)).await;
    }

    /// Ends the writer; returns when everything handed over before has been written, or nobody writes any more.
    pub async fn close(&self) {
        self.done(Message::Stop).await;
    }

    /// Has something done behind what was handed over before, and waits for it.
    async fn done(&self, message: impl FnOnce(oneshot::Sender<()>) -> Message) {
        let (sender, done) = oneshot::channel();
        if self.sender.send(message(sender)).await.is_ok() {
            self.hurry();
            let _ = done.await;
        }
    }

    /// Somebody waits.
    fn hurry(&self) {
        self.state.writer.get().iter().for_each(|writer| writer.unpark());
    }
}

/// Whether so many bytes are too many to wait for others with.
const fn is_half_of_held(bytes: usize) -> bool {
    bytes * 2 >= HELD
}

/// Lines that are written at once.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    lines: u64,
    /// Who waits for them.
    waiting: Vec<oneshot::Sender<bool>>,
    /// What comes after them.
    then: Option<Message>,
}

impl Writer {
    /// Writes until it is told to stop, or nobody is left who could.
    pub fn run(mut self) {
        let mut stop = None;
        // Nobody runs it twice.
        let _ = self.state.writer.set(thread::current());
        let mut behind = false;
        while let Some(message) = self.receiver.blocking_recv() {
            let time = !behind && !is_half_of_held(self.state.held.load(Ordering::Relaxed));
            if time && matches!(message, Message::Entry(_, None)) {
                thread::park_timeout(self.linger);
            }
            let batch = self.gather(message);
            behind = batch.bytes.len() >= BATCH;
            let written = self.sink.write(&batch.bytes);
            if !written {
                self.dropped.inc_by(batch.lines);
            }
            if batch.lines > 0 {
                self.state.broken.store(!written, Ordering::Relaxed);
            }
            for waiting in batch.waiting {
                // Who does not wait any more is gone.
                let _ = waiting.send(written);
            }
            match batch.then {
                Some(Message::Move(opened, done)) => {
                    self.sink.finish();
                    self.sink = opened.0;
                    let _ = done.send(());
                }
                Some(Message::Stop(done)) => {
                    self.receiver.close();
                    stop = Some(done);
                }
                _ => {}
            }
        }
        self.sink.finish();
        if let Some(done) = stop {
            let _ = done.send(());
        }
    }

    /// This message and what waits behind it, up to a whole batch or something else than a line.
    fn gather(&mut self, message: Message) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(message);
        while let Some(message) = next.take() {
            match message {
                Message::Entry(entry, waiting) => {
                    self.state.held.fetch_sub(entry.weight(), Ordering::Relaxed);
                    batch.lines += u64::from(line::push(&entry, &mut batch.bytes));
                    batch.waiting.extend(waiting);
                }
                Message::Contract(entry) => {
                    batch.lines += u64::from(line::push_contract(&entry, &mut batch.bytes));
                }
                other => {
                    batch.then = Some(other);
                    return batch;
                }
            }
            if batch.bytes.len() < BATCH {
                next = self.receiver.try_recv().ok();
            }
        }
        batch
    }
}
