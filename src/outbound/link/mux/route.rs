//! Whose message is it? Answers by id, progress by token, everything else to the queue of the unclaimed.

use bytes::Bytes;

use super::{LinkError, Mux};
use crate::protocol::message::{Received, ReceivedKind, broken_answer};
use crate::protocol::object::{Span, array};

const PROGRESS: &str = "notifications/progress";

/// Not a JSON-RPC message.
#[derive(Debug)]
pub(in crate::outbound::link) struct Garbage;

/// What became of messages that reached nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::outbound::link) struct Tally {
    /// Dropped because a queue was full.
    pub(in crate::outbound::link) dropped: u64,
    /// For ids nobody waits for any more (H-84).
    pub(in crate::outbound::link) late: u64,
    /// Elements of an array that are no messages.
    pub(in crate::outbound::link) garbage: u64,
}

impl Mux {
    /// Delivers a message, or an array of them (2025-03-26, G-48).
    pub(in crate::outbound::link) fn deliver(&self, text: &Bytes) -> Result<Tally, Garbage> {
        let mut tally = Tally::default();
        match text.first() {
            Some(b'[') => self.batch(text, &mut tally)?,
            Some(b'{') => self.message(text.clone(), &mut tally)?,
            _ => return Err(Garbage),
        }
        Ok(tally)
    }

    fn batch(&self, line: &Bytes, tally: &mut Tally) -> Result<(), Garbage> {
        let text = std::str::from_utf8(line).map_err(|_| Garbage)?;
        let elements = array(text, Span::new(0, text.len())).map_err(|_| Garbage)?;
        for element in elements {
            if self.message(line.slice(element.range()), tally).is_err() {
                tally.garbage += 1;
            }
        }
        Ok(())
    }

    fn message(&self, body: Bytes, tally: &mut Tally) -> Result<(), Garbage> {
        let message = match Received::parse(body.clone()) {
            Ok(message) => message,
            Err(_) => return self.malformed(&body),
        };
        if let ReceivedKind::Error { id: None, .. } = &message.kind
            && let Some(only) = self.claim_only()
        {
            // It could not read our request (M-05): there is one, so it is that.
            only.finish(message);
            return Ok(());
        }
        let Some(id) = belongs_to(&message) else {
            tally.dropped += u64::from(!self.unclaimed.offer(message));
            return Ok(());
        };
        let progress = matches!(message.kind, ReceivedKind::Notification { .. });
        let waiter = number(&id).and_then(|id| match progress {
            true => self.waiter(id),
            false => self.claim(id),
        });
        match waiter {
            Some(waiter) if progress => tally.dropped += u64::from(!waiter.offer(message)),
            Some(waiter) => waiter.finish(message),
            None => tally.late += 1,
        }
        Ok(())
    }

    /// An object that is no message. Where it names ids that are waited for, their wait is over.
    fn malformed(&self, body: &Bytes) -> Result<(), Garbage> {
        let ids = broken_answer(body);
        let mut waiters = ids.iter().filter_map(|id| self.claim(number(id)?)).peekable();
        if waiters.peek().is_none() {
            return Err(Garbage);
        }
        waiters.for_each(|waiter| waiter.fail(LinkError::Malformed));
        Ok(())
    }
}

/// The text of the id or progress token that decides whose message this is.
fn belongs_to(message: &Received) -> Option<Bytes> {
    match &message.kind {
        ReceivedKind::Result { id, .. } | ReceivedKind::Error { id: Some(id), .. } => Some(id.clone()),
        ReceivedKind::Notification { method, params: Some(params) } if &**method == PROGRESS => {
            let token = params.get(message.text(), "progressToken").ok()??;
            Some(message.body.as_bytes().slice(token.range()))
        }
        _ => None,
    }
}

/// One of our ids. A server that keeps numbers as doubles may write `5.0`; it is the same number.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}
