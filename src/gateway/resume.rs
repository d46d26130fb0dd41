//! From a call whose legacy server asks something to its `input_required` reply, and back with the answers
//! (R-30..R-37).

use std::sync::Arc;

use bytestring::ByteString;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::converse::{Said, Talk};
use super::error::NotParked;
use super::parked::{Event, Found, Keeper, Last, Listener, NoPlace, Refused, Resume, Ticket, decline};
use super::state::EXPIRED;
use super::{Call, Gateway, GatewayError};
use crate::outbound::{Asked, Exchange};
use crate::protocol::edit::Parts;
use crate::protocol::object::{Object, ObjectError};
use crate::telemetry::Outcome;

/// Events that may wait for a client that reads slowly.
const EVENTS: usize = 16;

const RUNNING: GatewayError =
    GatewayError::InvalidParams("requestState was used already; its call is running");
const MALFORMED: GatewayError = GatewayError::InvalidParams("inputResponses are malformed");

impl Gateway {
    /// The kept call that a retry is for. One whose state is not good was refused when its request was made.
    pub(super) fn ticket(&self, talk: &Talk<'_>) -> Result<Option<Ticket>, GatewayError> {
        let retry = &talk.errand.request.retry;
        // Only a state that holds nothing of its server's own can hold a ticket.
        let Some(at) = retry.state_at.filter(|_| retry.state.is_none()) else { return Ok(None) };
        let call = talk.relay.call;
        let value = talk.errand.request.params.members[at].value;
        talk.relay.bound.ticket(&self.sealer, value.of(call.envelope.text()))
    }

    /// Keeps a call whose server has asked for something, and asks the client.
    pub(super) async fn park(
        &self,
        exchange: Exchange,
        asked: Box<Asked>,
        talk: Talk<'_>,
    ) -> Result<Parts, GatewayError> {
        let call = talk.relay.call;
        let limits = &call.snapshot.config.gateway;
        let (listener, events) = listener(call);
        let place = match self.parked.enter(&call.principal.id, limits.max_parked) {
            Ok(place) => place,
            Err(why) => {
                decline(exchange, &asked).await;
                let why = match why {
                    NoPlace::Full => {
                        self.metrics.limited("max_parked");
                        NotParked::Full
                    }
                    NoPlace::Closing => NotParked::Lost,
                };
                return Err(GatewayError::Parked(Arc::clone(&talk.errand.server.name), why));
            }
        };
        let keeper = Keeper::new(place, exchange, *asked, listener, limits.park_timeout);
        self.servers.tasks().spawn("parked call", keeper.run());
        self.attend(events, None, talk).await
    }

    /// Goes on with a kept call.
    pub(super) async fn resume(&self, ticket: Ticket, talk: Talk<'_>) -> Result<Parts, GatewayError> {
        let call = talk.relay.call;
        let answers = answers(call)?;
        let found = self.parked.find(&ticket, &call.principal.id);
        let resumes = match found {
            Some(Found::Live(resumes)) => resumes,
            Some(Found::Ended(last)) => return self.again(*last, talk),
            Some(Found::Gone) => return Err(EXPIRED),
            // Only its owner has it, and it is not here. Never done again in silence.
            None => {
                return Err(GatewayError::Parked(Arc::clone(&talk.errand.server.name), NotParked::Lost));
            }
        };
        let (listener, events) = listener(call);
        let resume = Resume { round: ticket.round, answers, listener };
        // If it has ended in between, nobody holds the other end of the events any more.
        let _ = resumes.send(resume).await;
        self.attend(events, Some(ticket), talk).await
    }

    /// What became of a kept call that says nothing any more: the answer that another request was given, or none.
    fn gone(&self, ticket: Option<Ticket>, talk: Talk<'_>) -> Result<Parts, GatewayError> {
        let found = ticket.and_then(|ticket| self.parked.find(&ticket, &talk.relay.call.principal.id));
        match found {
            Some(Found::Ended(last)) => self.again(*last, talk),
            Some(_) if !self.parked.is_closing() => Err(EXPIRED),
            _ => Err(GatewayError::Parked(Arc::clone(&talk.errand.server.name), NotParked::Lost)),
        }
    }

    /// Passes on what a kept call says, up to its answer or its next questions.
    async fn attend(
        &self,
        mut events: mpsc::Receiver<Event>,
        ticket: Option<Ticket>,
        mut talk: Talk<'_>,
    ) -> Result<Parts, GatewayError> {
        talk.legacy = true;
        loop {
            let waiting = Instant::now();
            let event = events.recv().await;
            talk.record.waited(waiting.elapsed());
            match event {
                Some(Event::Said(message)) => match self.hear(message, &mut talk)? {
                    Said::Notice(None) => {}
                    Said::Notice(Some(notice)) => talk.outlet.send(notice).await,
                    Said::Answer(answer) => return Ok(answer),
                },
                Some(Event::Ended(last)) => return self.again(last, talk),
                Some(Event::Asks(round)) => {
                    let ticket = self.parked.ticket(round.park, round.number);
                    let answer = talk.relay.asks(&round, ticket)?;
                    talk.record.outcome(Outcome::InputRequired);
                    return Ok(answer);
                }
                Some(Event::Lacks(lacks)) => return Err(super::questions::lacking(lacks)),
                Some(Event::Refused(Refused::Running)) => return Err(RUNNING),
                Some(Event::Refused(Refused::Expired)) => return Err(EXPIRED),
                Some(Event::Refused(Refused::Malformed)) => return Err(MALFORMED),
                None => return self.gone(ticket, talk),
            }
        }
    }

    /// The end of a kept call as this request is told it.
    fn again(&self, last: Last, mut talk: Talk<'_>) -> Result<Parts, GatewayError> {
        talk.legacy = true;
        match last {
            Last::Failed(error) => Err(error.into()),
            Last::Said(message) => match self.hear(message, &mut talk)? {
                Said::Answer(answer) => Ok(answer),
                Said::Notice(_) => Err(GatewayError::Internal("a call ended without an answer")),
            },
        }
    }
}

/// Somebody who waits for a kept call with this request.
fn listener(call: &Call) -> (Listener, mpsc::Receiver<Event>) {
    let (events, receiver) = mpsc::channel(EVENTS);
    (Listener { events, capabilities: call.client.capabilities.clone() }, receiver)
}

/// The answers a retry brings, by their keys.
fn answers(call: &Call) -> Result<Vec<(String, ByteString)>, GatewayError> {
    let text = call.envelope.text();
    let Some(span) = call.envelope.param("inputResponses")? else { return Ok(Vec::new()) };
    let object = Object::parse(text, span).map_err(|error| match error {
        ObjectError::NotObject => MALFORMED,
        other => other.into(),
    })?;
    let mut answers: Vec<(String, ByteString)> = Vec::with_capacity(object.members.len());
    for member in &object.members {
        let key = member.name(text);
        if answers.iter().any(|(other, _)| other == key) {
            return Err(ObjectError::Duplicate.into());
        }
        let raw = call.envelope.body().slice(member.value.range());
        answers.push((key.to_owned(), ByteString::try_from(raw).map_err(|_| MALFORMED)?));
    }
    Ok(answers)
}
