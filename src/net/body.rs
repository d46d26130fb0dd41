//! The one body type: byte parts of exact length, hyper's incoming body, a pooled stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::error::{ClientError, Stage};
use super::lease::Lease;
use crate::protocol::edit::Parts;

/// A request or response body. Nothing in it is copied.
#[derive(Debug)]
pub enum Body {
    /// Pieces whose total length is known; hyper writes them vectored.
    Parts(Pieces),
    /// A body as it comes from a connection that hyper owns (the upstream side).
    Incoming(Incoming),
    /// A server's answer: gives its connection back at its end, ends it when dropped before.
    Pooled(Pooled),
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
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Parts::new().into()
    }

    /// The pieces not read yet, of a body made of pieces.
    pub(super) fn into_unread(self) -> Option<Parts> {
        let Self::Parts(pieces) = self else { return None };
        let mut parts = Parts::new();
        pieces.rest.for_each(|piece| parts.push(piece));
        Some(parts)
    }

    /// A body that holds `lease` until it has been read.
    pub(super) fn pooled(incoming: Incoming, lease: Lease) -> Self {
        let mut pooled = Pooled { incoming, lease: Some(lease) };
        pooled.release_at_end();
        Self::Pooled(pooled)
    }
}

impl From<Parts> for Body {
    fn from(parts: Parts) -> Self {
        let left = parts.len();
        Self::Parts(Pieces { rest: parts.into_pieces().into_iter(), left })
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Parts::from(bytes).into()
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
        let mut frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if frame.is_pending()
            && let Some(Lease::H1(h1, _)) = &mut self.lease
        {
            h1.drive(cx);
            frame = Pin::new(&mut self.incoming).poll_frame(cx);
        }
        let frame = ready!(frame);
        match frame {
            Some(Ok(frame)) => {
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
            Self::Parts(pieces) => Poll::Ready(pieces.rest.next().map(|piece| {
                pieces.left -= piece.len();
                Ok(Frame::data(piece))
            })),
            Self::Incoming(incoming) => Pin::new(incoming)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|e| ClientError::sent(Stage::Body, &e)))),
            Self::Pooled(pooled) => pooled.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Parts(pieces) => pieces.left == 0,
            Self::Incoming(incoming) => incoming.is_end_stream(),
            Self::Pooled(pooled) => pooled.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Parts(pieces) => SizeHint::with_exact(pieces.left as u64),
            Self::Incoming(incoming) => incoming.size_hint(),
            Self::Pooled(pooled) => pooled.incoming.size_hint(),
        }
    }
}
