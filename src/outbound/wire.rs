//! One request's answers as parsed messages, whatever link they come by.

use std::collections::VecDeque;

use bytes::Bytes;

use super::error::Failure;
use super::link::http::Answer;
use super::link::{Inbox, Put, connection};
use crate::protocol::message::{Received, ReceivedKind};
use crate::protocol::object::{Span, array};

/// Where the answers to one request arrive.
#[derive(Debug)]
pub enum Wire {
    /// The body of an HTTP answer; a 2025-03-26 server may put several messages into one array.
    Http(Box<Answer>, VecDeque<Bytes>),
    /// A connection of many requests, already sorted by id.
    Inbox(Inbox),
}

impl Wire {
    /// An HTTP answer's messages.
    pub fn http(answer: Answer) -> Self {
        Self::Http(Box::new(answer), VecDeque::new())
    }

    /// What came of a request on a connection of many.
    pub fn put(put: Put) -> Self {
        match put {
            Put::Sent(inbox) => Self::Inbox(inbox),
            Put::Refused(answer) => Self::http(*answer),
        }
    }

    /// The HTTP status, where there is one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Http(answer, _) => Some(answer.status.as_u16()),
            Self::Inbox(_) => None,
        }
    }

    /// The next message. An end before the answer is a failure.
    pub async fn next(&mut self) -> Result<Received, Failure> {
        match self {
            Self::Inbox(inbox) => inbox.recv().await.map_err(|error| connection::failure(&error)),
            Self::Http(answer, queue) => next_http(answer, queue).await,
        }
    }
}

async fn next_http(answer: &mut Answer, queue: &mut VecDeque<Bytes>) -> Result<Received, Failure> {
    let status = answer.status.as_u16();
    if matches!(status, 401 | 403) {
        return Err(Failure::Credentials(status));
    }
    loop {
        let frame = match queue.pop_front() {
            Some(frame) => frame,
            None => match answer.next().await {
                Ok(Some(frame)) => frame,
                Ok(None) if !answer.status.is_success() => return Err(Failure::Status(status)),
                Ok(None) => return Err(Failure::Unavailable("the answer ended early".to_owned())),
                // An error page may be of any size and kind: its status says enough (F-073).
                Err(_) if !answer.status.is_success() => return Err(Failure::Status(status)),
                Err(failure) => return Err(failure),
            },
        };
        match Received::parse(frame.clone()) {
            Ok(message) if answer.status.is_success() || is_error(&message) => return Ok(message),
            Ok(_) => return Err(Failure::Status(status)),
            Err(_) => match split(&frame).filter(|parts| !parts.is_empty()) {
                Some(parts) if answer.status.is_success() => queue.extend(parts),
                _ if !answer.status.is_success() => return Err(Failure::Status(status)),
                _ => return Err(Failure::Malformed("it is not a JSON-RPC message")),
            },
        }
    }
}

const fn is_error(message: &Received) -> bool {
    matches!(message.kind, ReceivedKind::Error { .. })
}

/// The messages of an array (2025-03-26 batches, G-48).
fn split(frame: &Bytes) -> Option<Vec<Bytes>> {
    let text = std::str::from_utf8(frame).ok()?;
    if !text.trim_start().starts_with('[') {
        return None;
    }
    let spans = array(text, Span::new(0, text.len())).ok()?;
    Some(spans.into_iter().map(|span| frame.slice(span.range())).collect())
}

impl Wire {
    /// The body of a refusal, which [`Wire::next`] then still reads.
    pub async fn peek(&mut self) -> Option<Bytes> {
        let Self::Http(answer, queue) = self else { return None };
        let body = answer.next().await.ok()??;
        queue.push_back(body.clone());
        Some(body)
    }
}
