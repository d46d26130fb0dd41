//! One request of a session, from its message to its last word. It is nobody's but the session's: a connection that
//! breaks does not end it (G-35), `notifications/cancelled` and the end of the session do.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::answer::Final;
use super::session::{Running, Session};
use super::stream::Stream;
use super::{ask, changes};
use crate::auth::Principal;
use crate::config::Secret;
use crate::gateway::{Call, Client, Endpoint, GatewayError, Members, Outlet, Snapshot, Steps};
use crate::inbound::Door;
use crate::inbound::endpoint::{Visitor, note_legacy};
use crate::inbound::error::Refusal;
use crate::inbound::modern::progress_token;
use crate::inbound::respond::{NOTICES, start};
use crate::net::budget::Held;
use crate::protocol::code;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::envelope::{Envelope, Id, Limits};
use crate::protocol::meta::level_rank;
use crate::protocol::method::Method;
use crate::protocol::object::string;
use crate::protocol::shape;
use crate::protocol::version::Era;
use crate::telemetry::Outcome;

/// What all requests of one HTTP request have in common.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) door: Arc<Door>,
    pub(super) session: Arc<Session>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) headers: HeaderMap,
    pub(super) principal: Arc<Principal>,
    pub(super) token: Option<Secret>,
    pub(super) request: u64,
    pub(super) address: Option<IpAddr>,
    pub(super) at: Instant,
    /// Whether the client reads events.
    pub(super) events: bool,
    /// Memory of the body.
    held: Arc<Held>,
}

/// Members of `params` that would be read as what they are not: tasks of 2025-11-25 are not bridged, and only
/// we ask legacy clients for anything.
const NOT_THEIRS: [&str; 3] = ["task", "inputResponses", "requestState"];

impl Origin {
    /// A request of a session.
    pub(super) fn of(
        door: &Arc<Door>,
        session: &Arc<Session>,
        visitor: Visitor,
        events: bool,
        held: Held,
    ) -> Arc<Self> {
        Arc::new(Self {
            door: Arc::clone(door),
            session: Arc::clone(session),
            endpoint: visitor.endpoint,
            snapshot: visitor.snapshot,
            headers: visitor.headers,
            principal: visitor.principal,
            token: visitor.token,
            request: visitor.request,
            address: visitor.address,
            at: visitor.at,
            events,
            held: Arc::new(held),
        })
    }

    /// The same for what outlasts the request: without its headers and the memory of its body.
    pub(super) fn lasting(&self) -> Arc<Self> {
        Arc::new(Self {
            door: Arc::clone(&self.door),
            session: Arc::clone(&self.session),
            endpoint: Arc::clone(&self.endpoint),
            snapshot: Arc::clone(&self.snapshot),
            headers: HeaderMap::new(),
            principal: Arc::clone(&self.principal),
            token: self.token.clone(),
            request: self.request,
            address: self.address,
            at: self.at,
            events: true,
            held: Arc::new(self.door.budget.hold()),
        })
    }

    /// The memory of the body.
    pub(super) const fn held(&self) -> &Arc<Held> {
        &self.held
    }

    pub(super) fn limits(&self) -> Limits {
        let bounds = self.door.bounds();
        Limits { max_depth: bounds.max_depth, max_elements: bounds.max_elements }
    }

    /// The request in modern meaning (G-82).
    pub(super) fn call(&self, method: Method, envelope: Envelope) -> Result<Call, Refusal> {
        let declared = &self.session.declared;
        let meta = envelope.meta.as_ref();
        let progress_token = match meta {
            Some(meta) if self.events => progress_token(&envelope, meta)?,
            _ => None,
        };
        Ok(Call {
            steps: Steps::default(),
            method,
            members: Members::default(),
            client: Client {
                era: Era::Legacy,
                revision: self.session.revision,
                session: Some(Arc::clone(&self.session.name)),
                capabilities: if self.events { declared.text.clone() } else { declared.mute.clone() },
                log_level: self.session.level(),
                hears: Some(self.session.level().unwrap_or(0)),
                progress_token,
            },
            rights: self.snapshot.rights(&self.endpoint, &self.principal),
            request: self.request,
            address: self.address,
            endpoint: Arc::clone(&self.endpoint),
            snapshot: Arc::clone(&self.snapshot),
            headers: self.headers.clone(),
            principal: Arc::clone(&self.principal),
            token: self.token.clone(),
            arrived: self.at,
            envelope,
        })
    }

    pub(super) fn failure(&self, method: Method, id: &Id, error: &GatewayError) -> Final {
        Final::failure((&self.door, &self.endpoint), method, id, error)
    }

    pub(super) fn note(&self, method: Option<Method>, outcome: Outcome) {
        note_legacy(&self.door, &self.principal, method, outcome);
    }
}

/// Runs a request; what it says on the way goes to `events`. `None`: it was cancelled, and nothing is to be said.
pub(super) async fn perform(
    origin: Arc<Origin>,
    envelope: Envelope,
    running: Running,
    events: Arc<Stream>,
) -> Option<Final> {
    let id = envelope.id().cloned()?;
    let token = running.token.clone();
    let work = Box::pin(async {
        match serve(&origin, envelope, &id, &events).await {
            Ok(last) => last,
            Err(refusal) => Final::refusal(&id, &refusal),
        }
    });
    tokio::select! {
        last = work => Some(last),
        () = token.cancelled() => match origin.door.gateway.is_cut().is_cancelled() {
            true => Some(origin.failure(Method::Ping, &id, &GatewayError::STOPPED)),
            false => origin.session.end.is_cancelled().then(|| over(&id)),
        },
    }
}

/// What is said to a request whose session has ended under it (F-028).
fn over(id: &Id) -> Final {
    Final::refusal(id, &Refusal::rpc(StatusCode::OK, code::INTERNAL_ERROR, "the session has ended"))
}

async fn serve(
    origin: &Arc<Origin>,
    envelope: Envelope,
    id: &Id,
    events: &Arc<Stream>,
) -> Result<Final, Refusal> {
    let Some(method) = Method::parse_legacy(&envelope.method()) else {
        origin.note(None, Outcome::BadRequest);
        return Ok(origin.failure(Method::Ping, id, &GatewayError::UnknownMethod));
    };
    if envelope.params_malformed && !envelope.params_null {
        origin.note(Some(method), Outcome::BadRequest);
        return Err(Refusal::rpc(StatusCode::OK, code::INVALID_PARAMS, "params must be an object"));
    }
    match method {
        Method::Initialize => {
            origin.note(Some(method), Outcome::BadRequest);
            Err(Refusal::invalid("this session is initialized; begin another without its id"))
        }
        Method::Ping => {
            events.admit();
            origin.note(Some(method), Outcome::Ok);
            Ok(Final::result(id, "{}"))
        }
        Method::SetLevel => {
            let set = set_level(origin, &envelope);
            origin.note(Some(method), if set.is_ok() { Outcome::Ok } else { Outcome::BadRequest });
            set.map(|()| Final::result(id, "{}"))
        }
        Method::Subscribe => Ok(changes::subscribe(origin, envelope, id).await),
        Method::Unsubscribe => {
            let gone = changes::unsubscribe(origin, &envelope);
            origin.note(Some(method), if gone.is_ok() { Outcome::Ok } else { Outcome::BadRequest });
            Ok(match gone {
                Ok(()) => Final::result(id, "{}"),
                Err(error) => origin.failure(method, id, &error),
            })
        }
        _ if method.lists().is_some() => {
            let call = origin.call(method, envelope)?;
            Ok(match converse(origin, call, events).await {
                Ok(list) => Final::result(id, list),
                Err(error) => origin.failure(method, id, &error),
            })
        }
        _ => use_item(origin, method, envelope, events).await,
    }
}

/// Calls, gets, reads, completions: what a server answers, shaped for the revision (G-81).
async fn use_item(
    origin: &Arc<Origin>,
    method: Method,
    envelope: Envelope,
    events: &Arc<Stream>,
) -> Result<Final, Refusal> {
    let envelope = plain(origin, envelope)?;
    let Some(id) = envelope.id().cloned() else { return Err(Refusal::invalid("a request needs an id")) };
    let mut retry_after = None;
    let result = match ask::to_the_end(origin, method, envelope, events).await? {
        Ok(result) => result,
        Err(ask::Failed::Gateway(GatewayError::Limited(ref limited)))
            if let Some(result) = &limited.result =>
        {
            retry_after = Some(limited.seconds());
            result.to_bytes()
        }
        Err(ask::Failed::Gateway(error)) => return Ok(origin.failure(method, &id, &error)),
        Err(ask::Failed::GivenUp(sentence)) if method == Method::ToolsCall => {
            return Ok(Final::result(&id, super::answer::tool_error(sentence)));
        }
        Err(ask::Failed::GivenUp(sentence)) => {
            return Ok(origin.failure(method, &id, &GatewayError::Internal(sentence)));
        }
    };
    Ok(match shape::result(method, &result, origin.session.revision) {
        Ok(result) => Final { retry_after, ..Final::result(&id, result) },
        Err(_) => origin.failure(method, &id, &GatewayError::Internal("the server's result is malformed")),
    })
}

/// One exchange with the core: notices go to the stream, the result comes back.
pub(super) async fn converse(
    origin: &Arc<Origin>,
    call: Call,
    events: &Arc<Stream>,
) -> Result<Parts, GatewayError> {
    let (outlet, mut notices) = Outlet::new(NOTICES);
    let (outlet, admission) = outlet.gated(&call);
    let mut admission = pin!(admission);
    let mut admitted = false;
    // The body's memory is held by the origin, as long as anything of it runs.
    let mut running = start(&origin.door, call, outlet, origin.door.budget.hold());
    loop {
        tokio::select! {
            biased;
            Some(notice) = notices.recv() => events.push(notice).await,
            () = &mut admission, if !admitted => {
                admitted = true;
                events.admit();
            }
            result = &mut running => {
                while let Ok(notice) = notices.try_recv() {
                    events.push(notice).await;
                }
                return result;
            }
        }
    }
}

/// The message without what is not a legacy client's to say.
fn plain(origin: &Origin, envelope: Envelope) -> Result<Envelope, Refusal> {
    let Some(params) = &envelope.params else { return Ok(envelope) };
    let text = envelope.text();
    let named = |at: &usize| NOT_THEIRS.contains(&params.members[*at].name(text));
    let gone: Vec<usize> = (0..params.members.len()).filter(named).collect();
    if gone.is_empty() {
        return Ok(envelope);
    }
    let mut edits = Edits::new();
    edits.remove(params, &gone);
    respelled(origin, &envelope, edits)
}

/// The message with edits, read anew.
pub(super) fn respelled(origin: &Origin, envelope: &Envelope, edits: Edits) -> Result<Envelope, Refusal> {
    let whole = crate::protocol::object::Span::new(0, envelope.text().len());
    let body = edits.apply(envelope.body(), whole).to_bytes();
    Envelope::parse(body, origin.limits()).map_err(|error| Refusal::from(&error))
}

fn set_level(origin: &Origin, envelope: &Envelope) -> Result<(), Refusal> {
    const UNKNOWN: &str = "params.level must be a log level";
    let unknown = || Refusal::rpc(StatusCode::OK, code::INVALID_PARAMS, UNKNOWN);
    let span = envelope.param("level").map_err(|_| unknown())?.ok_or_else(unknown)?;
    let rank = string(span.of(envelope.text())).and_then(|level| level_rank(&level)).ok_or_else(unknown)?;
    origin.session.set_level(rank);
    Ok(())
}
