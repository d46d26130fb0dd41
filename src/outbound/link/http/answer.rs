//! Reading the answer to one POST: a whole object, or events one by one.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{Answer, AnswerBody, SLICE, encoded, unavailable};
use crate::outbound::error::Failure;
use crate::protocol::sse;

impl Answer {
    /// Whether the body is an event stream.
    pub const fn is_stream(&self) -> bool {
        matches!(self.body, AnswerBody::Events(..))
    }

    /// The next JSON-RPC message; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.body {
            AnswerBody::Done => Ok(None),
            AnswerBody::Whole(..) if encoded(&self.headers) => {
                self.body = AnswerBody::Done;
                Err(Failure::Malformed("a compressed body that was not asked for"))
            }
            AnswerBody::Whole(..) => {
                let whole = self.whole().await;
                self.body = AnswerBody::Done;
                whole
            }
            AnswerBody::Events(..) => self.event().await,
        }
    }

    async fn whole(&mut self) -> Result<Option<Bytes>, Failure> {
        let AnswerBody::Whole(body, first, rest) = &mut self.body else { return Ok(None) };
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|e| unavailable(&e))?.into_data() else { continue };
            let total = first.as_ref().map_or(0, Bytes::len).max(rest.len()) + data.len();
            if total > self.max_result {
                return Err(Failure::TooLarge(self.max_result));
            }
            if !self.held.grow(data.len()) {
                return Err(Failure::Buffered);
            }
            match (&*first, rest.is_empty()) {
                (None, true) => *first = Some(data),
                (Some(one), true) => {
                    // What is still to come, where that is known: a large answer is copied once, not again and again.
                    let declared = body.size_hint().exact().unwrap_or(0).min(self.max_result as u64);
                    rest.reserve(total + declared as usize);
                    rest.extend_from_slice(one);
                    rest.extend_from_slice(&data);
                }
                _ => rest.extend_from_slice(&data),
            }
        }
        let whole =
            if rest.is_empty() { first.take().unwrap_or_default() } else { std::mem::take(rest).freeze() };
        Ok((!whole.is_empty()).then_some(whole))
    }

    async fn event(&mut self) -> Result<Option<Bytes>, Failure> {
        while let Some(event) = self.next_event().await? {
            if !event.data.is_empty() {
                return Ok(Some(event.data));
            }
        }
        Ok(None)
    }

    /// The next event of a stream, of whatever kind; `None` at the end. Cancel-safe between events.
    pub async fn next_event(&mut self) -> Result<Option<sse::Event>, Failure> {
        loop {
            let AnswerBody::Events(body, parser) = &mut self.body else { return Ok(None) };
            match parser.next_event() {
                Ok(Some(event)) => {
                    if event.id.is_some() {
                        self.last_event_id.clone_from(&event.id);
                    }
                    self.retry = event.retry.map(Duration::from_millis).or(self.retry);
                    return Ok(Some(event));
                }
                Ok(None) => {}
                Err(sse::TooLarge) => return Err(Failure::TooLarge(self.max_result)),
            }
            if !self.unread.is_empty() {
                parser.push(&slice(&mut self.unread));
                // Thousands of events may stand in one piece: others have their turn meanwhile. Behind the step, so that
                // who gives up here and comes again gets on.
                yield_now().await;
                continue;
            }
            match body.frame().await {
                Some(frame) => {
                    self.heard = Instant::now();
                    if let Ok(mut data) = frame.map_err(|e| unavailable(&e))?.into_data() {
                        parser.push(&slice(&mut data));
                        self.unread = data;
                    }
                }
                None => {
                    self.body = AnswerBody::Done;
                    return Ok(None);
                }
            }
        }
    }
}

/// What of this is looked at next.
fn slice(unread: &mut Bytes) -> Bytes {
    unread.split_to(SLICE.min(unread.len()))
}
