//! A client reading one stream of its session: the body of an answer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::session::Use;
use super::stream::{Purpose, Stream, prime, retry};
use crate::gateway::Counted;
use crate::net::Body;
use crate::protocol::sse;
use crate::protocol::version::Revision;

/// The reader of a stream; dropped with its connection, which ends nothing but the reading (G-35).
pub(super) struct Tail {
    stream: Arc<Stream>,
    reader: u64,
    next: VecDeque<Bytes>,
    quiet: Pin<Box<Sleep>>,
    keepalive: Duration,
    /// When it ends by itself: no stream outlives the caller's credential (S-38).
    until: Option<Pin<Box<Sleep>>>,
    over: bool,
    /// The session is not idle while somebody reads.
    _use: Use,
    /// Its place among the streams that its caller holds open, if it is one of those.
    counted: Option<Counted>,
}

impl From<Tail> for Body {
    fn from(mut tail: Tail) -> Self {
        Self::pieces(move |cx| tail.poll_next(cx))
    }
}

impl Tail {
    /// Reads on behind the event of this number; `None`: from where the last reader was.
    pub(super) fn new(
        stream: Arc<Stream>,
        behind: Option<u64>,
        held: Use,
        keepalive: Duration,
        until: Option<Instant>,
    ) -> Self {
        let (reader, before) = stream.attach(behind);
        let mut next = VecDeque::new();
        if held.session().revision >= Revision::V20251125 {
            next.push_back(prime(&stream.tag, before));
        } else if stream.purpose == Purpose::Changes {
            // Some proxies hold back the head of an answer until there is a body (F-054).
            next.push_back(Bytes::from_static(sse::KEEP_ALIVE));
        }
        Self {
            stream,
            reader,
            next,
            quiet: Box::pin(sleep(keepalive)),
            keepalive,
            until: until.map(|until| Box::pin(sleep_until(until))),
            over: false,
            _use: held,
            counted: None,
        }
    }

    /// The same, with its place among the streams of its caller.
    pub(super) fn counted(mut self, place: Counted) -> Self {
        self.counted = Some(place);
        self
    }

    /// The next bytes.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(piece) = self.next.pop_front() {
                return Poll::Ready(Some(piece));
            }
            if self.over {
                return Poll::Ready(None);
            }
            if self.until.as_mut().is_some_and(|until| until.as_mut().poll(context).is_ready()) {
                self.close();
                continue;
            }
            match self.stream.poll(self.reader, context) {
                Poll::Ready(Some(event)) => {
                    self.next.extend(event.into_pieces());
                    self.quiet.as_mut().reset(Instant::now() + self.keepalive);
                }
                Poll::Ready(None) => self.close(),
                Poll::Pending if self.quiet.as_mut().poll(context).is_ready() => {
                    self.next.push_back(Bytes::from_static(sse::KEEP_ALIVE));
                    self.quiet.as_mut().reset(Instant::now() + self.keepalive);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn close(&mut self) {
        self.over = true;
        self.counted = None;
        if self.stream.purpose == Purpose::Changes {
            self.next.push_back(retry());
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.stream.detach(self.reader);
    }
}
