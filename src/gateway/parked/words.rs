//! What is said between a call that is kept and those who wait for it.

use std::time::SystemTime;

use bytes::Bytes;
use bytestring::ByteString;
use tokio::sync::mpsc;

use super::Last;
use crate::outbound::{Asked, Exchange, Message};
use crate::protocol::code;
use crate::protocol::input::{Input, Lacks};

/// One question, as it came.
#[derive(Debug, Clone)]
pub(in crate::gateway) struct Question {
    /// Its key towards the client, never used again for this call.
    pub(in crate::gateway) key: String,
    /// What is asked for.
    pub(in crate::gateway) input: Input,
    /// Its params; those of a URL keep the `elicitationId` here that modern clients do not see.
    pub(in crate::gateway) params: Option<ByteString>,
}

/// What a client is asked at once.
#[derive(Debug)]
pub(in crate::gateway) struct Round {
    pub(in crate::gateway) park: u64,
    pub(in crate::gateway) number: u32,
    pub(in crate::gateway) questions: Vec<Question>,
    /// When the answers are not waited for any longer.
    pub(in crate::gateway) until: SystemTime,
}

/// What whoever waits for a call is told.
#[derive(Debug)]
pub(in crate::gateway) enum Event {
    /// A notice.
    Said(Message),
    /// The end.
    Ended(Last),
    /// The client must answer first.
    Asks(Round),
    /// The client cannot answer, by what it declared: the call was given up.
    Lacks(Lacks),
    /// The answers were not taken.
    Refused(Refused),
}

/// Why answers were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Refused {
    /// Others are at work already.
    Running,
    /// They are for questions of long ago.
    Expired,
    /// One is none.
    Malformed,
}

/// Whoever waits for a call.
#[derive(Debug)]
pub(in crate::gateway) struct Listener {
    pub(in crate::gateway) events: mpsc::Sender<Event>,
    /// What its client declared: the newest counts.
    pub(in crate::gateway) capabilities: String,
}

/// A client comes back with answers.
#[derive(Debug)]
pub(in crate::gateway) struct Resume {
    pub(in crate::gateway) round: u32,
    /// Answers by key, as JSON text.
    pub(in crate::gateway) answers: Vec<(String, ByteString)>,
    pub(in crate::gateway) listener: Listener,
}

/// Answers a question that nobody can be asked any more, and gives its call up.
pub(in crate::gateway) async fn decline(exchange: Exchange, asked: &Asked) {
    // A server that is not there needs not be told.
    let _ = exchange.answer(&asked.id, unanswered(asked.input)).await;
    exchange.cancel().await;
}

/// The answer of a client that gave none.
pub(super) fn unanswered(input: Input) -> Result<Bytes, (i32, &'static str)> {
    match input {
        Input::Elicitation => Ok(Bytes::from_static(b"{\"action\":\"cancel\"}")),
        Input::Sampling | Input::Roots => Err((code::INTERNAL_ERROR, "The client gave no answer")),
    }
}
