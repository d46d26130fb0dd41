//! A server's questions to a legacy client: real requests on the stream of the POST that they belong to; the answers
//! go into a retry, until the server is content (R-50..R-57).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use futures_util::future::join_all;
use memchr::memmem;
use prometheus::IntGauge;
use tokio::time::{Instant, sleep, timeout_at};

use super::perform::{Origin, converse, respelled};
use super::questions::{Question, Questions};
use super::session::{Reply, Session};
use super::stream::Stream;
use crate::gateway::GatewayError;
use crate::gateway::quota::Taken;
use crate::inbound::error::Refusal;
use crate::net::budget::Held;
use crate::protocol::edit::Edits;
use crate::protocol::envelope::{Envelope, Id};
use crate::protocol::items::json_string;
use crate::protocol::message;
use crate::protocol::method::Method;

/// Rounds of questions for one request.
const MOST_ROUNDS: usize = 10;
/// How long all rounds of a request may take together; each has `park_timeout`.
const ALL: Duration = Duration::from_secs(15 * 60);
/// Before the server is asked again that only wants to be asked again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

const TOO_OFTEN: &str = "The server asked this client too many times. The call was given up.";
const TOO_MANY: &str = "Too many calls of this caller wait for answers (gateway.max_parked). Answer or cancel some, then try again.";
const NO_ROOM: &str =
    "The gateway holds too much data to keep this call while the client is asked. Try again shortly.";
const NOT_ABLE: &str = "The server asked this client for something it cannot do. The call was given up.";
const REFUSED: &str =
    "The client did not answer what the server asked it for. The call was given up; it may have had effects.";
const ODD: GatewayError = GatewayError::Internal("the server's questions are malformed");

/// Why there is no result.
#[derive(Debug)]
pub(super) enum Failed {
    /// The core says so.
    Gateway(GatewayError),
    /// The client could not or would not go on.
    GivenUp(&'static str),
}

impl From<GatewayError> for Failed {
    fn from(error: GatewayError) -> Self {
        Self::Gateway(error)
    }
}

/// The complete result of a request, whatever has to be asked for it.
pub(super) async fn to_the_end(
    origin: &Arc<Origin>,
    method: Method,
    mut envelope: Envelope,
    events: &Arc<Stream>,
) -> Result<Result<Bytes, Failed>, Refusal> {
    let until = Instant::now() + ALL;
    let (mut rounds, mut pause) = (0, PAUSE.0);
    // What stands in for the first body from the second round on: that one's memory is held as long as anything runs.
    let mut _grown: Option<Held> = None;
    loop {
        let call = origin.call(method, envelope.clone())?;
        let result = match converse(origin, call, events).await {
            Ok(result) => result.to_bytes(),
            Err(error) => return Ok(Err(error.into())),
        };
        if !method.may_ask() || memmem::find(&result, b"input_required").is_none() {
            return Ok(Ok(result));
        }
        let questions = match Questions::read(&result) {
            Ok(Some(questions)) => questions,
            Ok(None) => return Ok(Ok(result)),
            Err(_) => return Ok(Err(ODD.into())),
        };
        let answers = if questions.list.is_empty() {
            if Instant::now() + pause > until {
                return Ok(Err(Failed::GivenUp(TOO_OFTEN)));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
            None
        } else {
            rounds += 1;
            pause = PAUSE.0;
            if rounds > MOST_ROUNDS || Instant::now() > until {
                return Ok(Err(Failed::GivenUp(TOO_OFTEN)));
            }
            match answers(origin, &questions.list, events).await {
                Ok(answers) => {
                    // The request as it came, and these answers: they are kept for as long as the server works.
                    let mut held = origin.door.budget.hold();
                    if !held.grow(answers.len() + envelope.text().len()) {
                        origin.door.metrics.limited("max_buffered");
                        return Ok(Err(Failed::GivenUp(NO_ROOM)));
                    }
                    _grown = Some(held);
                    Some(answers)
                }
                Err(sentence) => return Ok(Err(Failed::GivenUp(sentence))),
            }
        };
        envelope = match retry(origin, &envelope, answers, questions.state)? {
            Some(envelope) => envelope,
            None => return Ok(Err(ODD.into())),
        };
    }
}

/// Asks everything of one round at once; `inputResponses` as JSON text, or why there is none.
async fn answers(
    origin: &Origin,
    questions: &[Question],
    events: &Arc<Stream>,
) -> Result<String, &'static str> {
    let (session, declared) = (&origin.session, &origin.session.declared);
    if !origin.events || questions.iter().any(|question| !question.fits(declared)) {
        return Err(NOT_ABLE);
    }
    let gateway = &origin.snapshot.config.gateway;
    let Some(_place) = Waiting::take(origin, gateway.max_parked) else {
        origin.door.metrics.limited("max_parked");
        return Err(TOO_MANY);
    };
    let until = Instant::now() + gateway.park_timeout;
    let mut asked = Vec::with_capacity(questions.len());
    for question in questions {
        let (id, receiver) = session.ask();
        let pending = Pending { session, id };
        let text = ByteString::from(json_string(&pending.id));
        let number = Id::parse(&text, &text);
        let params = question.shaped(session.revision);
        events.push(message::request(number.as_ref(), question.method(), params)).await;
        asked.push(async move {
            let reply = timeout_at(until, receiver).await;
            if reply.is_err() {
                let reason = format!("{{\"requestId\":{},\"reason\":\"timeout\"}}", json_string(&pending.id));
                events.push(message::request(None, "notifications/cancelled", reason)).await;
            }
            drop(pending);
            reply.ok().and_then(Result::ok).flatten()
        });
    }
    let mut all = String::from("{");
    for (question, reply) in questions.iter().zip(join_all(asked).await) {
        let comma = if all.len() > 1 { "," } else { "" };
        let answer = answer(question, &reply).ok_or(REFUSED)?;
        all.extend([comma, &question.key, ":", answer]);
    }
    all.push('}');
    Ok(all)
}

/// What the server is told; a question that was not answered has no wire form but for elicitation.
fn answer<'r>(question: &Question, reply: &'r Reply) -> Option<&'r str> {
    match reply {
        Some(said) => Some(&said.text),
        None => question.is_elicitation().then_some("{\"action\":\"cancel\"}"),
    }
}

/// A call that waits for its client, counted among all that do.
struct Waiting {
    _taken: Taken,
    gauge: IntGauge,
}

impl Waiting {
    fn take(origin: &Origin, most: usize) -> Option<Self> {
        let taken = origin.door.sessions.waiting.take(&origin.principal.id, most)?;
        let gauge = origin.door.metrics.parked_calls().clone();
        gauge.inc();
        Some(Self { _taken: taken, gauge })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// The request again, with the answers and the state.
fn retry(
    origin: &Origin,
    envelope: &Envelope,
    answers: Option<String>,
    state: Option<String>,
) -> Result<Option<Envelope>, Refusal> {
    let Some(params) = &envelope.params else { return Ok(None) };
    let text = envelope.text();
    let ours = |at: &usize| matches!(params.members[*at].name(text), "inputResponses" | "requestState");
    let gone: Vec<usize> = (0..params.members.len()).filter(ours).collect();
    let mut members = Vec::new();
    members.extend(answers.map(|answers| format!("\"inputResponses\":{answers}")));
    members.extend(state.map(|state| format!("\"requestState\":{state}")));
    let mut edits = Edits::new();
    edits.remove(params, &gone);
    if !members.is_empty() {
        edits.append(params, members.join(","));
    }
    respelled(origin, envelope, edits).map(Some)
}

/// A question that waits for its answer; forgotten with the value.
struct Pending<'s> {
    session: &'s Session,
    id: Box<str>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.session.forget(&self.id);
    }
}
