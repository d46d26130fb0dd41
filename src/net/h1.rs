//! HTTP/1.1 connections: driven by the call that uses them, so that no task stands between a call and its socket.
//!
//! A task for each connection would cost every call two wake-ups of another thread, and every piece of an answer two
//! more. An idle connection is looked at when it is taken: only then does it matter whether the server has closed it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::body::Body;
use super::error::{ClientError, Stage, chain};
use super::lanes;
use super::lease::Counted;
use super::stream::Stream;

/// How long a connection may take from the end of its answer until it can take another request.
const SETTLE: Duration = Duration::from_secs(5);

/// A connection that belongs to nobody else. Dropping it closes the socket.
pub(super) struct H1 {
    sender: http1::SendRequest<Body>,
    /// `None` once it has ended.
    io: Option<Io>,
    /// The lane at which its socket is registered.
    pub(super) lane: usize,
    /// Its place in the pool's count.
    _counted: Option<Counted>,
}

enum Io {
    /// Boxed: connections are handed around.
    Real(Box<http1::Connection<TokioIo<Stream>, Body>>),
    #[cfg(test)]
    Scripted(Pin<Box<dyn Future<Output = hyper::Result<()>> + Send + Sync>>),
}

impl fmt::Debug for H1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("H1").field("open", &self.io.is_some()).finish_non_exhaustive()
    }
}

impl H1 {
    fn over(sender: http1::SendRequest<Body>, io: Io, counted: Option<Counted>) -> Self {
        Self { sender, io: Some(io), lane: lanes::current(), _counted: counted }
    }

    /// Begins HTTP/1.1 on a connected socket.
    pub(super) async fn begin(io: Stream, counted: Option<Counted>) -> Result<Self, ClientError> {
        let (sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(failed)?;
        Ok(Self::over(sender, Io::Real(Box::new(connection)), counted))
    }

    /// A connection over anything.
    #[cfg(test)]
    pub(super) async fn scripted<T>(io: T) -> Self
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + Sync + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(io)).await.expect("no byte is read yet");
        Self::over(sender, Io::Scripted(Box::pin(connection)), None)
    }

    /// Sends a request and waits for the head of its answer; an error gives the request back if it was not sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let io = &mut self.io;
        poll_fn(|cx| {
            drive(io, cx);
            // An end of the connection has answered this as well.
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Reads and writes what can be; whoever reads an answer calls this.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.io, cx);
    }

    /// Whether it can take a request now: idle, and not closed by the server as far as can be seen.
    pub(super) fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.io.is_some() && self.sender.is_ready()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.io.is_none() || self.sender.is_closed()
    }

    /// Waits, for a while, until it can take a request.
    pub(super) async fn settled(mut self) -> Option<Self> {
        let ready = poll_fn(|cx| {
            self.drive(cx);
            if self.io.is_none() { Poll::Ready(false) } else { self.sender.poll_ready(cx).map(|r| r.is_ok()) }
        });
        timeout(SETTLE, ready).await.unwrap_or(false).then_some(self)
    }
}

fn drive(io: &mut Option<Io>, cx: &mut Context<'_>) {
    let ended = match io {
        Some(Io::Real(connection)) => Pin::new(&mut **connection).poll(cx),
        #[cfg(test)]
        Some(Io::Scripted(connection)) => connection.as_mut().poll(cx),
        None => return,
    };
    if let Poll::Ready(ended) = ended {
        *io = None;
        if let Err(error) = ended {
            tracing::debug!(%error, "an HTTP/1.1 connection ended");
        }
    }
}

fn failed(error: hyper::Error) -> ClientError {
    ClientError::unsent(Stage::Connect, chain(&error))
}
