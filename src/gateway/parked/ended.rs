//! Final answers of calls that were kept, for clients that lost them: for a minute, and bounded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Ticket;
use crate::outbound::{Message, OutboundError};

/// Bytes of answers kept, of all callers together.
const MOST_BYTES: usize = 64 << 20;
/// Answers kept.
const MOST: usize = 10_000;

/// How a call ended.
#[derive(Debug, Clone)]
pub(in crate::gateway) enum Last {
    /// With the server's final message.
    Said(Message),
    /// Without.
    Failed(OutboundError),
}

impl Last {
    fn bytes(&self) -> usize {
        match self {
            Self::Said(Message::Result { body, .. }) => body.len(),
            Self::Said(Message::Error(error)) => {
                error.message.len() + error.data.as_ref().map_or(0, String::len)
            }
            _ => 0,
        }
    }
}

/// The answers, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ended {
    all: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    principal: Arc<str>,
    last: Last,
    until: Instant,
}

impl Ended {
    /// Keeps an answer for `grace`, or for less where more answers come than there is room for.
    pub(super) fn put(&mut self, ticket: Ticket, principal: &Arc<str>, last: Last, grace: Duration) {
        let now = Instant::now();
        self.bytes += last.bytes();
        self.all.push_back(Entry { ticket, principal: Arc::clone(principal), last, until: now + grace });
        let full = |ended: &Self| ended.all.len() > MOST || ended.bytes > MOST_BYTES;
        while self.all.front().is_some_and(|first| first.until <= now || full(self)) {
            let Some(gone) = self.all.pop_front() else { break };
            self.bytes -= gone.last.bytes();
        }
    }

    /// The answer to the questions of this ticket.
    pub(super) fn get(&self, ticket: &Ticket, principal: &str) -> Option<Last> {
        let now = Instant::now();
        let mine = |entry: &&Entry| entry.ticket == *ticket && *entry.principal == *principal;
        // The newest are asked for most.
        self.all.iter().rev().find(mine).filter(|entry| entry.until > now).map(|entry| entry.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Ended, Last, MOST, MOST_BYTES};
    use crate::gateway::parked::Ticket;
    use crate::outbound::Message;
    use crate::protocol::object::Span;

    const GRACE: Duration = Duration::from_secs(60);

    fn ticket(park: u64, round: u32) -> Ticket {
        Ticket { owner: "o".to_owned(), at: None, park, round }
    }

    fn said(text: &str) -> Last {
        let body = text.to_owned().into();
        Last::Said(Message::Result { body, result: Span::new(0, text.len()), object: None, modern: false })
    }

    fn text(last: Option<Last>) -> Option<String> {
        match last? {
            Last::Said(Message::Result { body, .. }) => Some(body.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r_33_an_answer_is_there_for_a_minute_for_its_caller_and_round() {
        let (mut ended, alice) = (Ended::default(), Arc::from("alice"));
        ended.put(ticket(1, 2), &alice, said("one"), GRACE);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(text(ended.get(&ticket(1, 2), "alice")).as_deref(), Some("one"));
        assert_eq!(text(ended.get(&ticket(1, 1), "alice")), None, "an earlier round");
        assert_eq!(text(ended.get(&ticket(2, 2), "alice")), None);
        assert_eq!(text(ended.get(&ticket(1, 2), "bob")), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(text(ended.get(&ticket(1, 2), "alice")), None);
        ended.put(ticket(3, 1), &alice, said("next"), GRACE);
        assert_eq!((ended.all.len(), ended.bytes), (1, 4), "what is over is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded() {
        let (mut ended, alice) = (Ended::default(), Arc::from("alice"));
        let large = "x".repeat(MOST_BYTES / 2);
        for park in 0..5 {
            ended.put(ticket(park, 1), &alice, said(&large), GRACE);
        }
        assert!(ended.bytes <= MOST_BYTES);
        assert!(ended.get(&ticket(4, 1), "alice").is_some() && ended.get(&ticket(0, 1), "alice").is_none());
        for park in 0..MOST as u64 + 5 {
            ended.put(ticket(park, 9), &alice, said("x"), GRACE);
        }
        assert_eq!(ended.all.len(), MOST);
    }
}
