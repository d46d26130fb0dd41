//! The one body type: bytes or byte parts of exact length, hyper's incoming body, a pooled stream, what is made while it
//! is read.

use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::poll_fn;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Incoming;
use tokio::task::yield_now;

use super::error::{ClientError, Stage};
use super::lease::Lease;
use crate::protocol::edit::Parts;

/// Messages up to so many bytes are put together before they are written: each piece costs hyper more than copying
/// them all.
const JOINED: usize = 8 * 1024;

/// Bytes of an answer that are read in one go. A server may send faster than anybody reads: then all others of the same
/// thread have their turn in between, and their sockets are looked at. Less, and sixteen results of 1 MB at once take turns at
/// the cache as well: they cost half as much again.
const TURN: usize = 2 * 1024 * 1024;
/// What reading a piece costs besides its bytes, as bytes.
const PIECE: usize = 4 * 1024;

/// A request or response body. Nothing long in it is copied.
#[derive(Debug)]
pub enum Body {
    /// All of it in one piece; empty once it has been read.
    Whole(Bytes),
    /// Pieces whose total length is known; hyper writes them vectored.
    Parts(Pieces),
    /// A body as it comes from a connection that hyper owns (the upstream side).
    Incoming(Incoming),
    /// A server's answer: gives its connection back at its end, ends it when dropped before.
    Pooled(Pooled),
    /// What is made while it is read: events, pages.
    Made(Made),
}

/// What is left of [`Body::Parts`].
#[derive(Debug)]
pub struct Pieces {
    rest: std::vec::IntoIter<Bytes>,
    left: usize,
}

/// An answer that still holds its connection or stream.
#[derive(Debug)]
pub struct Pooled {
    // Before `lease`: an HTTP/2 stream must be reset before its slot is given to another call.
    incoming: Incoming,
    lease: Option<Lease>,
    /// Bytes since the reader last had to wait.
    at_once: usize,
}

/// A body that is made while it is read.
#[derive(Debug)]
pub struct Made(
    // A std mutex for what one task at a time reads: only so that it may be seen by others.
    Mutex<UnsyncBoxBody<Bytes, ClientError>>,
);

impl Made {
    fn new(body: impl HttpBody<Data = Bytes, Error = ClientError> + Send + 'static) -> Self {
        Self(Mutex::new(body.boxed_unsync()))
    }

    fn seen(&self) -> MutexGuard<'_, UnsyncBoxBody<Bytes, ClientError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    /// Piece after piece, as `next` has them.
    pub fn pieces<F>(mut next: F) -> Self
    where
        F: FnMut(&mut Context<'_>) -> Poll<Option<Bytes>> + Send + 'static,
    {
        let frames = poll_fn(move |cx| next(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece)))));
        Self::Made(Made::new(StreamBody::new(frames)))
    }

    /// A body of another make.
    pub fn made<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes, Error: Error> + Send + 'static,
    {
        Self::Made(Made::new(body.map_err(|error| ClientError::sent(Stage::Body, &error))))
    }

    /// What was not read yet, of a body of ours.
    pub(super) fn into_unread(self) -> Option<Parts> {
        match self {
            Self::Whole(bytes) => Some(bytes.into()),
            Self::Parts(pieces) => {
                let mut parts = Parts::new();
                pieces.rest.for_each(|piece| parts.push(piece));
                Some(parts)
            }
            Self::Incoming(_) | Self::Pooled(_) | Self::Made(_) => None,
        }
    }

    /// A body that holds `lease` until it has been read.
    pub(super) fn pooled(incoming: Incoming, lease: Lease) -> Self {
        let mut pooled = Pooled { incoming, lease: Some(lease), at_once: 0 };
        pooled.release_at_end();
        Self::Pooled(pooled)
    }
}

impl From<Parts> for Body {
    fn from(parts: Parts) -> Self {
        let left = parts.len();
        if left <= JOINED {
            return Self::Whole(parts.to_bytes());
        }
        Self::Parts(Pieces { rest: parts.into_pieces().into_iter(), left })
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl Pooled {
    fn release_at_end(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.release();
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        if self.at_once >= TURN {
            self.at_once = 0;
            // Polled once it has left word to be woken after the others.
            return pin!(yield_now()).poll(cx).map(|()| None);
        }
        let mut frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if frame.is_pending()
            && let Some(Lease::H1(h1, _)) = &mut self.lease
        {
            h1.drive(cx);
            frame = Pin::new(&mut self.incoming).poll_frame(cx);
        }
        if frame.is_pending() {
            self.at_once = 0;
        }
        let frame = ready!(frame);
        match frame {
            Some(Ok(frame)) => {
                self.at_once += PIECE + frame.data_ref().map_or(0, Bytes::len);
                // With a known length the end shows here, one poll before `None`.
                self.release_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                self.lease = None;
                Poll::Ready(Some(Err(ClientError::sent(Stage::Body, &error))))
            }
            None => {
                if let Some(lease) = self.lease.take() {
                    lease.release();
                }
                Poll::Ready(None)
            }
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = ClientError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => {
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(std::mem::take(bytes)))))
            }
            Self::Parts(pieces) => Poll::Ready(pieces.rest.next().map(|piece| {
                pieces.left -= piece.len();
                Ok(Frame::data(piece))
            })),
            Self::Incoming(incoming) => Pin::new(incoming)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|e| ClientError::sent(Stage::Body, &e)))),
            Self::Pooled(pooled) => pooled.poll_frame(cx),
            Self::Made(Made(body)) => {
                Pin::new(body.get_mut().unwrap_or_else(PoisonError::into_inner)).poll_frame(cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Parts(pieces) => pieces.left == 0,
            Self::Incoming(incoming) => incoming.is_end_stream(),
            Self::Pooled(pooled) => pooled.incoming.is_end_stream(),
            Self::Made(made) => made.seen().is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Parts(pieces) => SizeHint::with_exact(pieces.left as u64),
            Self::Incoming(incoming) => incoming.size_hint(),
            Self::Pooled(pooled) => pooled.incoming.size_hint(),
            Self::Made(made) => made.seen().size_hint(),
        }
    }
}
