//! One running child as its callers see it: messages in, answers by id out.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::counts::Counters;
use crate::outbound::link::error::LinkError;
use crate::outbound::link::mux::{Inbox, Mux, Unclaimed};
use crate::protocol::edit::Parts;

/// Messages that may wait for the child to read its input; more wait in [`Connection::send`].
const WRITE_QUEUE: usize = 64;

/// Why a child is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It failed: exit, closed pipe, overflow. Its uptime decides about the back-off.
    Failure,
    /// Its handshake failed: counts as a failure whatever its uptime.
    Abandoned,
    /// We want no child any more.
    Stop,
}

/// The state that callers, reader, writer and supervisor of one child share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) server: Arc<str>,
    pub(super) generation: u64,
    pub(super) counters: Arc<Counters>,
    /// The longest message, and the most bytes one queue holds.
    pub(super) max_line: usize,
    pub(super) mux: Arc<Mux>,
    writer: mpsc::Sender<Vec<Bytes>>,
    why: OnceLock<Why>,
    /// No message is accepted any more; the kill ladder runs.
    pub(super) stopping: CancellationToken,
    /// The process and its group are gone and reaped.
    pub(super) gone: CancellationToken,
}

impl Shared {
    /// The state of a new child, and the queue its writer reads.
    pub(super) fn new(
        server: Arc<str>,
        generation: u64,
        max_line: usize,
        counters: Arc<Counters>,
    ) -> (Arc<Self>, mpsc::Receiver<Vec<Bytes>>) {
        let (writer, queue) = mpsc::channel(WRITE_QUEUE);
        let shared = Self {
            server,
            generation,
            counters,
            max_line,
            mux: Arc::new(Mux::new(max_line, None)),
            writer,
            why: OnceLock::new(),
            stopping: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        (Arc::new(shared), queue)
    }

    /// Starts the kill ladder; the first reason counts.
    pub(super) fn begin_stop(&self, why: Why) {
        self.why.get_or_init(|| why);
        self.stopping.cancel();
    }

    /// The reason of the stop, or of the exit that nobody asked for.
    pub(super) fn why(&self) -> Why {
        *self.why.get_or_init(|| Why::Failure)
    }

    /// Fails all that wait, at once; the first cause counts.
    pub(super) fn close(&self, cause: LinkError) {
        self.mux.close(cause);
    }

    /// The output ended: all that wait get the fitting error.
    pub(super) fn close_ended(&self) {
        self.close(if self.why() == Why::Failure { LinkError::Exited } else { LinkError::Closed });
    }
}

/// One running child. Clones are the same child; a restarted child is another connection.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

impl Connection {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Which start of the server this is: 1, 2, …
    pub fn generation(&self) -> u64 {
        self.shared.generation
    }

    /// Writes one message as exactly one line (G-50). Returns when it is queued; waits while the child does not
    /// read. An error means that it was not written. Messages keep the order in which `send` returned.
    pub async fn send(&self, message: &Parts) -> Result<(), LinkError> {
        if self.shared.stopping.is_cancelled() {
            return Err(self.shared.mux.cause());
        }
        self.shared.writer.send(one_line(message)).await.map_err(|_| self.shared.mux.cause())
    }

    /// From now on the answer to `id`, and progress whose token is `id`, arrive in this inbox. Call it before
    /// `send`. Ids are ours: never use one twice.
    pub fn open(&self, id: u64) -> Inbox {
        self.shared.mux.open(id)
    }

    /// Everything that belongs to no inbox: other notifications, the server's own requests, errors without id.
    /// Bounded: what finds no room is dropped and counted. `None` when it was taken before.
    pub fn unclaimed(&self) -> Option<Unclaimed> {
        self.shared.mux.unclaimed()
    }

    /// Stops this child because its handshake failed (F-038): what waits fails at once, the kill ladder runs in
    /// the background, and the next start is held back.
    pub fn abandon(&self) {
        self.shared.begin_stop(Why::Abandoned);
        self.shared.close(LinkError::Closed);
    }

    /// Whether no message will come any more.
    pub fn is_closed(&self) -> bool {
        self.shared.mux.is_closed()
    }

    /// Whether it takes messages.
    pub(super) fn is_running(&self) -> bool {
        !self.shared.stopping.is_cancelled() && !self.is_closed()
    }

    /// Waits until no message will come any more; says why.
    pub async fn closed(&self) -> LinkError {
        self.shared.mux.closed().await
    }

    /// Waits until the process and its group are gone and reaped.
    pub async fn gone(&self) {
        self.shared.gone.cancelled().await;
    }

    /// Starts the kill ladder; answers that still come are delivered (F-036).
    pub(super) fn stop(&self) {
        self.shared.begin_stop(Why::Stop);
    }

    /// Ids that somebody waits for (zero when nothing leaks).
    pub fn pending(&self) -> usize {
        self.shared.mux.pending()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { server, generation, .. } = &*self.shared;
        f.debug_struct("Connection").field("server", server).field("generation", generation).finish()
    }
}

/// The message with a newline at its end and nowhere else: raw ones can only be white space between tokens.
fn one_line(message: &Parts) -> Vec<Bytes> {
    let mut line: Vec<Bytes> = Vec::with_capacity(message.pieces().len() + 1);
    for piece in message.pieces() {
        if memchr::memchr2(b'\n', b'\r', piece).is_none() {
            line.push(piece.clone());
        } else {
            let flat = piece.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
            line.push(flat.collect::<Vec<u8>>().into());
        }
    }
    line.push(Bytes::from_static(b"\n"));
    line
}
