//! Requests of a session that another replica has: sent there; where that one is gone the session goes on here, as its
//! sealed id allows (G-21, G-26).

use bytes::Bytes;
use http::{Method, StatusCode};

use super::answer::{About, lost_answer, passed_on};
use super::{Outward, Peers, Sent};
use crate::cluster::{Claimed, Place};
use crate::inbound::endpoint::{Visitor, note_legacy};
use crate::inbound::respond::empty;
use crate::inbound::{Door, Response, legacy};
use crate::protocol::envelope::{Envelope, Limits, MessageKind};
use crate::protocol::method::Method as McpMethod;
use crate::telemetry::Outcome;

/// Replicas that may turn out gone, one after the other.
const TRIES: usize = 4;

impl Peers {
    /// The answer to a request of a session that is elsewhere; `None`: it is to be answered here.
    pub(in crate::inbound) async fn of_session(
        &self,
        door: &Door,
        visitor: &Visitor,
        method: &Method,
        body: Bytes,
    ) -> Option<Response> {
        // Its token may be wanted, and goes nowhere: such sessions are at every replica that is asked.
        if visitor.token.is_some() {
            return None;
        }
        let ticket = legacy::ticket(door, visitor)?;
        let session = Claimed { name: &ticket.name, owner: ticket.owner.as_ref(), life: ticket.rest() };
        let mut place = self.cluster.place(session).await;
        let mut outward = None;
        for _ in 0..TRIES {
            let replica = match place {
                Place::There(replica) => replica,
                Place::Here => return None,
                Place::Ended => {
                    door.sessions.note_ended(session.name);
                    return None;
                }
            };
            let outward = outward.get_or_insert_with(|| Outward::of_visitor(visitor, method, body.clone()));
            let gone = match self.send(door, &replica, outward).await {
                Sent::Answered(answer) => {
                    let about = request(door, &outward.body);
                    return Some(passed_on(door, answer, about));
                }
                Sent::NotTaken(gone) => gone,
                Sent::Lost => {
                    if let Some(answer) = done_perhaps(door, visitor, &outward.body) {
                        return Some(answer);
                    }
                    false
                }
            };
            place = self.cluster.lost(session, &replica, gone).await;
        }
        None
    }
}

/// The answer to a request that may have been done, and must not be done again (R-37, H-65). `None`: it may be.
fn done_perhaps(door: &Door, visitor: &Visitor, body: &Bytes) -> Option<Response> {
    if legacy::is_batch(body) {
        note_legacy(door, &visitor.principal, None, Outcome::Unavailable);
        return Some(empty(StatusCode::BAD_GATEWAY));
    }
    let about = request(door, body)?;
    if about.method.repeatable() {
        return None;
    }
    note_legacy(door, &visitor.principal, Some(about.method), Outcome::Unavailable);
    Some(lost_answer(&about, !visitor.accepts.json))
}

/// The request in a body, if it is one.
fn request(door: &Door, body: &Bytes) -> Option<About> {
    if body.is_empty() {
        return None;
    }
    let limits = Limits { max_depth: door.bounds().max_depth, max_elements: door.bounds().max_elements };
    let envelope = Envelope::parse(body.clone(), limits).ok()?;
    let MessageKind::Request(id) = envelope.kind.clone() else { return None };
    Some(About { id, method: McpMethod::parse_legacy(&envelope.method())?, modern: false })
}
