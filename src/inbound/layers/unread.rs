//! A request refused before its body was read: the rest is read away, or the client is told that the
//! connection ends. Else hyper closes it without a word, and a client that keeps connections sends its next
//! request into the void.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Version, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::inbound::Response;

/// What is read away at most: more is not worth a connection.
const MOST: usize = 64 * 1024;
/// How long the rest of a small body may take to come.
const PATIENCE: Duration = Duration::from_secs(1);

/// A request's body, which outlives who reads it.
#[derive(Debug)]
pub(in crate::inbound) struct Payload {
    body: Incoming,
    /// Ended or broken: there is nothing left to read.
    over: bool,
    /// HTTP/2 ends a stream, not a connection.
    alone: bool,
    /// The client waits for a sign to send its body.
    waits: bool,
}

impl Payload {
    pub(in crate::inbound) fn new(head: &Parts, body: Incoming) -> Self {
        let waits = head.headers.contains_key(header::EXPECT);
        Self { body, over: false, alone: head.version <= Version::HTTP_11, waits }
    }

    /// The next piece of it.
    pub(in crate::inbound) async fn frame(&mut self) -> Option<hyper::Result<Frame<Bytes>>> {
        let frame = self.body.frame().await;
        self.over = !matches!(frame, Some(Ok(_)));
        frame
    }

    /// Takes care of what was left unread when the answer was made.
    pub(in crate::inbound) async fn read_away(mut self, response: &mut Response) {
        if self.over || !self.alone || self.body.is_end_stream() {
            return;
        }
        // Who waits is told at once, without one.
        if self.waits || !Box::pin(self.drained()).await {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Whether all that was left came, and was little.
    async fn drained(&mut self) -> bool {
        let read = async {
            let mut left = MOST;
            while let Some(frame) = self.frame().await {
                let length = frame.ok()?.data_ref().map_or(0, Bytes::len);
                left = left.checked_sub(length)?;
            }
            Some(())
        };
        matches!(tokio::time::timeout(PATIENCE, read).await, Ok(Some(())))
    }
}
