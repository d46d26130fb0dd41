//! A connection that many requests share: a child's pipes, or an event stream with the endpoint it named.

use http::HeaderMap;

use super::error::LinkError;
use super::http::Answer;
use super::mux::{Inbox, Unclaimed};
use super::{sse, stdio};
use crate::outbound::error::Failure;
use crate::protocol::edit::Parts;

/// One such connection. Clones are the same one; a new child or stream is another.
#[derive(Debug, Clone)]
pub enum Connection {
    /// A child process.
    Child(stdio::Connection),
    /// An event stream of the 2024-11-05 transport.
    Stream(sse::Stream),
}

/// A connection that may be gone; holding it keeps no stream open.
#[derive(Debug)]
pub enum Weak {
    /// Its link keeps a child, whoever holds the connection.
    Child(stdio::Connection),
    /// A stream ends with its last holder.
    Stream(sse::WeakStream),
}

/// What became of a request that was put on a connection.
#[derive(Debug)]
pub enum Put {
    /// Its answer arrives here.
    Sent(Inbox),
    /// It was refused by the HTTP answer to its POST.
    Refused(Box<Answer>),
}

impl Connection {
    /// Puts a request with this id on the connection. `extra` are headers, where there are any. The error says
    /// whether the server may have seen it.
    pub async fn request(&self, id: u64, extra: HeaderMap, message: &Parts) -> Result<Put, (Failure, bool)> {
        match self {
            Self::Child(child) => {
                let inbox = child.open(id);
                child.send(message).await.map_err(unsent)?;
                Ok(Put::Sent(inbox))
            }
            // Boxed: large, and carried along by the calls of every link.
            Self::Stream(stream) => Box::pin(stream.request(id, extra, message.clone())).await,
        }
    }

    /// Sends a message that has no answer. An HTTP refusal is a failure.
    pub async fn send(&self, extra: HeaderMap, message: &Parts) -> Result<(), Failure> {
        match self {
            Self::Child(child) => child.send(message).await.map_err(|error| failure(&error)),
            Self::Stream(stream) => stream.send(extra, message.clone()).await,
        }
    }

    /// What belongs to no request; `None` when it was taken before.
    pub fn unclaimed(&self) -> Option<Unclaimed> {
        match self {
            Self::Child(child) => child.unclaimed(),
            Self::Stream(stream) => stream.unclaimed(),
        }
    }

    /// A request got no answer in time. A stream may have been lost without a word: unless this question, whose id is
    /// `id`, is answered soon, it is taken for lost. A child's end is always noticed.
    pub fn doubt(&self, id: u64, extra: HeaderMap, question: Parts) {
        if let Self::Stream(stream) = self {
            stream.doubt(id, extra, question);
        }
    }

    /// Ends a connection whose handshake failed. The next child is held back (F-038).
    pub fn abandon(&self) {
        match self {
            Self::Child(child) => child.abandon(),
            Self::Stream(stream) => stream.end(),
        }
    }

    /// No new request will be put on it. A stream ends once those that wait have their answers; a child stays.
    pub fn retire(&self) {
        if let Self::Stream(stream) = self {
            stream.retire();
        }
    }

    /// Ends the session that a stream is (G-72). A child is ended by its link.
    pub fn end(&self) {
        if let Self::Stream(stream) = self {
            stream.end();
        }
    }

    /// Whether no message will come any more.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Child(child) => child.is_closed(),
            Self::Stream(stream) => stream.is_closed(),
        }
    }

    /// Waits until no message will come any more.
    pub async fn closed(&self) {
        match self {
            Self::Child(child) => drop(child.closed().await),
            Self::Stream(stream) => stream.closed().await,
        }
    }

    /// Ids that somebody waits for.
    pub fn pending(&self) -> usize {
        match self {
            Self::Child(child) => child.pending(),
            Self::Stream(stream) => stream.pending(),
        }
    }

    /// For who only answers what comes.
    pub fn downgrade(&self) -> Weak {
        match self {
            Self::Child(child) => Weak::Child(child.clone()),
            Self::Stream(stream) => Weak::Stream(stream.downgrade()),
        }
    }
}

impl Weak {
    /// The connection, if it still is one.
    pub fn upgrade(&self) -> Option<Connection> {
        match self {
            Self::Child(child) => Some(Connection::Child(child.clone())),
            Self::Stream(stream) => stream.upgrade().map(Connection::Stream),
        }
    }
}

fn unsent(error: LinkError) -> (Failure, bool) {
    (failure(&error), false)
}

/// A process that is gone, by whatever end, is the same to a caller; an answer that was too long is not.
pub(in crate::outbound) fn failure(error: &LinkError) -> Failure {
    match error {
        LinkError::Overflow(most) => Failure::Overflow(*most),
        LinkError::Malformed => Failure::Malformed("it is not a JSON-RPC message"),
        LinkError::Buffered => Failure::Buffered,
        LinkError::Lost => Failure::Unavailable("the stream ended".to_owned()),
        _ => Failure::Exited,
    }
}
