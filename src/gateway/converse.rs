//! One request on its way to its server, and all that is said until there is an answer.

use std::sync::Arc;

use bytestring::ByteString;
use tokio::time::Instant;

use super::cut;
use super::invoke::Errand;
use super::read::keep;
use super::record::Record;
use super::relay::Relay;
use super::state::Bound;
use super::{Call, Gateway, GatewayError, Outlet, relay as wording, told};
use crate::catalogue::reads::Kept;
use crate::outbound::{Failure, Message, OutboundError, Server};
use crate::protocol::code;
use crate::protocol::edit::Parts;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, Span};
use crate::telemetry::Outcome;

/// One conversation with a server for one request of a client.
pub(super) struct Talk<'a> {
    pub(super) errand: Errand<'a>,
    pub(super) relay: Relay<'a>,
    pub(super) outlet: &'a Outlet,
    pub(super) record: &'a mut Record,
    /// Whether the server speaks a revision before the modern one.
    pub(super) legacy: bool,
    last_progress: Option<f64>,
}

/// What a message of the server means for the client.
pub(super) enum Said {
    /// Something to pass on, if anything.
    Notice(Option<Parts>),
    /// The answer.
    Answer(Parts),
}

impl Gateway {
    /// Sends the request and brings back its answer, notices on the way.
    pub(super) async fn converse(
        &self,
        errand: Errand<'_>,
        bound: &Bound<'_>,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        let call = bound.call;
        let (sealer, tasks) = (&self.sealer, self.task_seal(call));
        let relay = Relay { call, bound, sealer, native: errand.native, tasks, kept: None };
        let mut talk = Talk { errand, relay, outlet, record, legacy: false, last_progress: None };
        if let Some(ticket) = self.ticket(&talk)? {
            return Box::pin(self.resume(ticket, talk)).await;
        }
        talk.record.leaves(&mut talk.errand);
        let asked = Instant::now();
        let sent = talk.errand.server.call(&talk.errand.request, talk.errand.timeout).await;
        talk.record.waited(asked.elapsed());
        let mut exchange = sent?;
        if !exchange.offer().allows(call.method) {
            return Err(GatewayError::UnknownItem("item"));
        }
        talk.legacy = exchange.is_legacy();
        talk.record.spoke(exchange.version());
        loop {
            let waiting = Instant::now();
            let message = exchange.next().await;
            talk.record.waited(waiting.elapsed());
            match message? {
                // From here on the call is kept apart from this request: it will outlive it.
                Message::Asked(asked) => return Box::pin(self.park(exchange, asked, talk)).await,
                message => match self.hear(message, &mut talk)? {
                    Said::Notice(None) => {}
                    Said::Notice(Some(notice)) => outlet.send(notice).await,
                    Said::Answer(answer) => return Ok(answer),
                },
            }
        }
    }

    /// What the client is told of a message of its server.
    pub(super) fn hear(&self, message: Message, talk: &mut Talk<'_>) -> Result<Said, GatewayError> {
        let Talk { errand, relay, record, last_progress, .. } = talk;
        match message {
            Message::Progress(message, params) => {
                Ok(Said::Notice(relay.progress(&message, &params, last_progress)))
            }
            Message::Log(message, params) => Ok(Said::Notice(relay.log(&message, &params))),
            Message::Result { body, result, object, .. } => {
                if let Some(said) = errand.checks.and_then(|checks| told::misfit(checks, &body, result)) {
                    record.outcome(Outcome::Internal);
                    let said = format!("The server \"{}\" {said}", errand.server.name);
                    return Ok(Said::Answer(wording::tool_error(
                        &said,
                        relay.call.snapshot.server_info.as_bytes(),
                    )));
                }
                let (body, result, object) = self.fitting(relay, errand, (body, result, object))?;
                let relayed = relay.result(&body, result, object)?;
                record.outcome(relayed.outcome);
                self.note_links(relay.call, errand.server, &body, result);
                if let Some(hints) = relayed.hints {
                    keep(relay.call, errand, Kept { body, result, received: Instant::now(), hints });
                }
                Ok(Said::Answer(relayed.parts))
            }
            Message::Error(error) if talk.legacy && error.code == code::LEGACY_URL_ELICITATION => {
                let answer = relay.url_required(&error)?;
                record.outcome(Outcome::InputRequired);
                Ok(Said::Answer(answer))
            }
            Message::Error(error) => Err(relay.error(error, &errand.server.config)),
            // Those of a call that is kept do not come here; of others they mean nothing.
            Message::Asked(_) | Message::Withdrawn(_) => Ok(Said::Notice(None)),
        }
    }

    /// A result that is not longer than `max_result`: links refuse longer ones themselves, unless they may be cut.
    fn fitting(
        &self,
        relay: &Relay<'_>,
        errand: &Errand<'_>,
        (body, result, object): (ByteString, Span, Option<Object>),
    ) -> Result<(ByteString, Span, Option<Object>), GatewayError> {
        let config = &errand.server.config;
        let most = config.max_result;
        if !config.truncate || (result.end - result.start) as usize <= most {
            return Ok((body, result, object));
        }
        let cut = Some(&object).filter(|_| relay.call.method == Method::ToolsCall).and_then(|object| {
            let read = || Object::parse(&body, result).ok();
            cut::cut(body.as_bytes(), &object.clone().or_else(read)?, most, errand.promises)
        });
        match cut.and_then(|bytes| ByteString::try_from(bytes).ok()) {
            Some(body) => {
                self.metrics.limited("truncate");
                let whole = Span::new(0, body.len());
                Ok((body, whole, None))
            }
            None => {
                let name = Arc::clone(&errand.server.name);
                Err(OutboundError::new(name, Failure::TooLarge(most), true).into())
            }
        }
    }

    /// Resources that a tool or prompt points to become readable for this caller (design §4).
    fn note_links(&self, call: &Call, server: &Server, body: &ByteString, result: Span) {
        let several = call.endpoint.config.prefix;
        if several && matches!(call.method, Method::ToolsCall | Method::PromptsGet) {
            self.links.note(&call.principal.id, &server.name, body, result);
        }
    }
}

/// The outcome of a complete or interim result.
pub(super) const fn outcome_of(asks: bool, is_error: bool) -> Outcome {
    match (asks, is_error) {
        (true, _) => Outcome::InputRequired,
        (false, true) => Outcome::ToolError,
        (false, false) => Outcome::Ok,
    }
}
