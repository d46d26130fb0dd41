//! One request's answers as parsed messages, whatever link they come by.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::error::Failure;
use super::link::http::Answer;
use super::link::{Inbox, Put, connection};
use super::resume::Resume;
use crate::protocol::message::{Received, ReceivedKind};
use crate::protocol::object::{Span, array};

/// Where the answers to one request arrive.
#[derive(Debug)]
pub enum Wire {
    /// The body of an HTTP answer.
    Http(Box<HttpWire>),
    /// A connection of many requests, already sorted by id.
    Inbox(Inbox),
}

/// An HTTP answer in the course of being read.
#[derive(Debug)]
pub struct HttpWire {
    answer: Answer,
    /// Messages that came together: a 2025-03-26 server may put several into one array.
    queue: VecDeque<Bytes>,
    /// Legacy streams: how to go on when it ends early.
    resume: Option<Box<Resume>>,
}

impl Wire {
    /// An HTTP answer's messages.
    pub fn http(answer: Answer) -> Self {
        Self::Http(Box::new(HttpWire { answer, queue: VecDeque::new(), resume: None }))
    }

    /// The same; a stream that ends early is taken up (G-44).
    pub fn resumable(answer: Answer, resume: impl FnOnce() -> Resume) -> Self {
        let resume = answer.is_stream().then(|| Box::new(resume()));
        Self::Http(Box::new(HttpWire { answer, queue: VecDeque::new(), resume }))
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
            Self::Http(http) => Some(http.answer.status.as_u16()),
            Self::Inbox(_) => None,
        }
    }

    /// A stream's wish for the pause before it is opened again.
    pub fn retry(&self) -> Option<Duration> {
        match self {
            Self::Http(http) => http.answer.retry,
            Self::Inbox(_) => None,
        }
    }

    /// When anything was last received, comments included, where that is known.
    pub fn heard(&self) -> Option<Instant> {
        match self {
            Self::Http(http) => Some(http.answer.heard),
            Self::Inbox(_) => None,
        }
    }

    /// The next message. An end before the answer is a failure. Cancel-safe between messages.
    pub async fn next(&mut self) -> Result<Received, Failure> {
        match self {
            Self::Inbox(inbox) => inbox.recv().await.map_err(|error| connection::failure(&error)),
            Self::Http(http) => http.next().await,
        }
    }

    /// The body of a refusal, which [`Wire::next`] then still reads.
    pub async fn peek(&mut self) -> Option<Bytes> {
        let Self::Http(http) = self else { return None };
        let body = http.answer.next().await.ok()??;
        http.queue.push_back(body.clone());
        Some(body)
    }
}

impl HttpWire {
    async fn next(&mut self) -> Result<Received, Failure> {
        let status = self.answer.status.as_u16();
        if matches!(status, 401 | 403) {
            return Err(Failure::Credentials(status));
        }
        let success = self.answer.status.is_success();
        loop {
            let frame = self.frame().await?;
            match Received::parse(frame.clone()) {
                Ok(message) if success || is_error(&message) => return Ok(message),
                Ok(_) => return Err(Failure::Status(status)),
                Err(_) => match split(&frame).filter(|parts| !parts.is_empty()) {
                    Some(parts) if success => self.queue.extend(parts),
                    _ if !success => return Err(Failure::Status(status)),
                    _ => return Err(Failure::Malformed("it is not a JSON-RPC message")),
                },
            }
        }
    }

    async fn frame(&mut self) -> Result<Bytes, Failure> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                return Ok(frame);
            }
            let ended = match self.answer.next().await {
                Ok(Some(frame)) => return Ok(frame),
                // An error page may be of any size and kind: its status says enough (F-073).
                _ if !self.answer.status.is_success() => {
                    return Err(Failure::Status(self.answer.status.as_u16()));
                }
                Ok(None) => Failure::Unavailable("the answer ended early".to_owned()),
                Err(failure) => failure,
            };
            let Some(resume) = self.resume.as_mut().filter(|_| matches!(ended, Failure::Unavailable(_)))
            else {
                return Err(ended);
            };
            // Boxed: rare, and large beside a call's future.
            match Box::pin(resume.take_up(&self.answer)).await {
                Some(answer) => self.answer = answer,
                None => return Err(ended),
            }
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
