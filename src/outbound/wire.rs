//! One request's answers as parsed messages, whatever link they come by.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::error::Failure;
use super::link::http::Answer;
use super::link::{Inbox, Put, connection};
use super::resume::Resume;
use crate::protocol::message::{Received, ReceivedKind, broken_answer};
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
    /// Frames that were no messages.
    junk: u64,
    /// Legacy streams: how to go on when it ends early.
    resume: Option<Box<Resume>>,
}

impl Wire {
    /// An HTTP answer's messages.
    pub fn http(answer: Answer) -> Self {
        Self::Http(Box::new(HttpWire { answer, queue: VecDeque::new(), junk: 0, resume: None }))
    }

    /// The same; a stream that ends early is taken up (G-44).
    pub fn resumable(answer: Answer, resume: impl FnOnce() -> Resume) -> Self {
        let resume = answer.is_stream().then(|| Box::new(resume()));
        Self::Http(Box::new(HttpWire { answer, queue: VecDeque::new(), junk: 0, resume }))
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

    /// What came since the last look that was no message, where nobody else counts that.
    pub fn take_junk(&mut self) -> u64 {
        match self {
            Self::Http(http) => std::mem::take(&mut http.junk),
            Self::Inbox(_) => 0,
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
        let not_one = Failure::Malformed("it is not a JSON-RPC message");
        let mut junk = false;
        loop {
            let frame = match self.frame().await {
                Err(Failure::Unavailable(_)) if junk => return Err(not_one),
                frame => frame?,
            };
            match Received::parse(frame.clone()) {
                Ok(message) if success || is_error(&message) => return Ok(message),
                Err(_) if success => match split(&frame).filter(|parts| !parts.is_empty()) {
                    Some(parts) => self.queue.extend(parts),
                    // On every link: what was to be the answer ends the wait, other junk does not (F-041).
                    None if !broken_answer(&frame).is_empty() => return Err(not_one),
                    None => {
                        self.junk += 1;
                        junk = true;
                    }
                },
                _ => return Err(Failure::Status(status)),
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
