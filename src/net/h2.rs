//! HTTP/2 connections: one task drives each and tells the pool how many streams the server allows.

use std::error::Error as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::client::conn::http2;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioTimer;
use tokio::sync::oneshot;

use super::body::Body;
use super::error::{ClientError, Stage, chain};
use super::gate::{Gate, Gated};
use super::lease::{Counted, H2, MAX_STREAMS};
use crate::tasks::Tasks;

/// What a server may send on one stream before we have read it.
const STREAM_WINDOW: u32 = 512 * 1024;

/// As much as all streams together may hold: a stream nobody reads then never starves the others (F-075).
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MAX_STREAMS as u32;

/// The server's response headers in bytes.
const MAX_HEADERS: u32 = 64 * 1024;

/// Runs what hyper wants to have run beside a connection: the first future is the connection's input and output,
/// kept for the driver; the others are one a stream.
#[derive(Clone)]
struct Beside {
    tasks: Tasks,
    has_io: Arc<AtomicBool>,
    io: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
}

impl<F> hyper::rt::Executor<F> for Beside
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        if self.has_io.swap(true, Ordering::Relaxed) {
            self.tasks.spawn("http stream", work);
        } else {
            *self.io.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(work));
        }
    }
}

/// Starts HTTP/2 on a connected stream and waits until the server said how many streams it allows. `ping`: how
/// often a silent server is asked for a sign of life, and how long it may take for it.
pub(super) async fn start<T>(
    io: T,
    ping: Duration,
    tasks: &Tasks,
    counted: Option<Counted>,
) -> Result<Arc<H2>, ClientError>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let slot = Arc::new(Mutex::new(None));
    let beside = Beside { tasks: tasks.clone(), has_io: Arc::default(), io: Arc::clone(&slot) };
    let (sender, connection) = http2::Builder::new(beside)
        .timer(TokioTimer::new())
        .keep_alive_interval(ping)
        .keep_alive_timeout(ping)
        // An idle connection that died must be gone before the next call picks it.
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADERS)
        // None before the server's SETTINGS: what it does not allow it would refuse.
        .initial_max_send_streams(0)
        .handshake(io)
        .await
        .map_err(|error| ClientError::unsent(Stage::Connect, chain(&error)))?;
    let gate = Gate::default();
    let connection = Gated::new(connection, &gate);
    let h2 = Arc::new(H2::new(sender, gate));
    let io = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (ready, settings) = oneshot::channel();
    let driver = Driver { connection, io, h2: Arc::downgrade(&h2), ready: Some(ready), counted, max: 0 };
    tasks.spawn("http connection", driver.run());
    let ended = "the server agreed on HTTP/2 and closed the connection without a word of it";
    settings.await.map_err(|_| ClientError::unsent(Stage::Connect, ended))?;
    Ok(h2)
}

struct Driver<T: Read + Write + Unpin + Send + 'static> {
    connection: Gated<http2::Connection<T, Body, Beside>>,
    io: Option<BoxFuture<'static, ()>>,
    /// Weak: the connection ends when the pool and all calls have let go of it.
    h2: std::sync::Weak<H2>,
    ready: Option<oneshot::Sender<()>>,
    counted: Option<Counted>,
    max: usize,
}

impl<T: Read + Write + Unpin + Send + 'static> Driver<T> {
    /// Runs requests and input/output in one task, so that a change of SETTINGS is seen as it comes.
    async fn run(mut self) {
        let Some(mut io) = self.io.take() else { return };
        let ended_early = poll_fn(|cx| {
            if io.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            if let Poll::Ready(ended) = Pin::new(&mut self.connection).poll(cx) {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an HTTP/2 connection ended");
                }
                return Poll::Ready(false);
            }
            self.note_settings();
            Poll::Pending
        })
        .await;
        if let Some(h2) = self.h2.upgrade() {
            h2.closed.store(true, Ordering::Relaxed);
        }
        let counted = self.counted.take();
        if let Some(counted) = &counted {
            counted.changed();
        }
        // Gives back the requests that were not sent, and lets hyper finish the streams that still run.
        drop(self);
        if !ended_early {
            io.await;
        }
    }

    fn note_settings(&mut self) {
        let max = self.connection.get().map_or(0, http2::Connection::current_max_send_streams);
        if max == self.max {
            return;
        }
        self.max = max;
        if let Some(h2) = self.h2.upgrade() {
            h2.max.store(max, Ordering::Relaxed);
        }
        if let Some(ready) = self.ready.take() {
            // Nobody waits any more when the dial was given up.
            let _ = ready.send(());
        } else if let Some(counted) = &self.counted {
            counted.changed();
        }
    }
}

/// Whether the server said that it did not look at the request: RST_STREAM with REFUSED_STREAM, or GOAWAY for a
/// stream above its last one (RFC 9113, 8.7). hyper reports a GOAWAY only to such streams.
pub(super) fn unprocessed(error: &hyper::Error) -> bool {
    let Some(h2) = error.source().and_then(|cause| cause.downcast_ref::<::h2::Error>()) else {
        return false;
    };
    let refused = h2.is_reset() && h2.reason() == Some(::h2::Reason::REFUSED_STREAM);
    h2.is_remote() && (refused || h2.is_go_away())
}

/// Whether the server announced the connection's end.
pub(super) fn is_go_away(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<::h2::Error>());
    cause.is_some_and(::h2::Error::is_go_away)
}
