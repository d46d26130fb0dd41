//! How a request of a session ended, and the answer of its POST: one JSON message where nothing was said before it,
//! else events that can be taken up again (G-31, G-35..G-38).

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use tokio::time::{Instant, sleep_until};

use super::session::Use;
use super::stream::{News, Stream};
use super::tail::Tail;
use crate::gateway::{Endpoint, GatewayError};
use crate::inbound::accept::Accepts;
use crate::inbound::error::Refusal;
use crate::inbound::layers::authn;
use crate::inbound::respond::{PATIENCE, empty, framed, json, stream};
use crate::inbound::{Door, Response};
use crate::protocol::code;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::Id;
use crate::protocol::items::json_string;
use crate::protocol::message;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, Span};

/// A last word.
#[derive(Debug)]
pub(super) struct Final {
    /// The status where it is the whole answer.
    pub(super) status: StatusCode,
    /// The JSON-RPC message.
    pub(super) message: Parts,
    /// What the caller needs more for what it asked.
    pub(super) challenge: Option<HeaderValue>,
    /// Seconds after which it may ask again.
    pub(super) retry_after: Option<u64>,
}

impl Final {
    /// A result.
    pub(super) fn result(id: &Id, result: impl Into<Parts>) -> Self {
        Self {
            status: StatusCode::OK,
            message: message::result(id, result),
            challenge: None,
            retry_after: None,
        }
    }

    /// A refusal, with its own status.
    pub(super) fn refusal(id: &Id, refusal: &Refusal) -> Self {
        Self {
            status: refusal.status,
            message: refusal.message(Some(id)),
            challenge: None,
            retry_after: refusal.retry_after,
        }
    }

    /// A request that failed, in the words of its era (G-81, R-54).
    pub(super) fn failure(
        (door, endpoint): (&Door, &Endpoint),
        method: Method,
        id: &Id,
        error: &GatewayError,
    ) -> Self {
        if let (GatewayError::Capability(error), Method::ToolsCall) = (error, method) {
            let text = format!("This client cannot do what the tool needs from it: {}", error.message);
            return Self::result(id, tool_error(&text));
        }
        let last = Self::refusal(id, &translated(method, error));
        let challenge = match error {
            GatewayError::Scope(scopes) => authn::step_up(door, endpoint, scopes),
            _ => None,
        };
        Self { challenge, ..last }
    }

    /// As the whole answer.
    pub(super) fn response(self, as_event: bool) -> Response {
        let mut response = if as_event && self.status == StatusCode::OK {
            stream(StatusCode::OK, framed(self.message).into())
        } else {
            json(self.status, self.message)
        };
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// A tool result that says what went wrong on the way.
pub(super) fn tool_error(sentence: &str) -> String {
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"isError\":true}}", json_string(sentence))
}

/// Codes and statuses of the legacy revisions: what is wrong with a request is told with status 200, what is wrong
/// with a message or a caller is not.
fn translated(method: Method, error: &GatewayError) -> Refusal {
    let by_address = matches!(method, Method::ResourcesRead | Method::Subscribe);
    let mut refusal = Refusal::from(error);
    refusal.code = match error {
        GatewayError::UnknownResource(_) if by_address => code::LEGACY_RESOURCE_NOT_FOUND,
        GatewayError::Relayed(error)
            if by_address && error.code == code::INVALID_PARAMS && names_uri(error.data.as_deref()) =>
        {
            code::LEGACY_RESOURCE_NOT_FOUND
        }
        // Codes of the modern revision only.
        GatewayError::Capability(_) | GatewayError::ParamHeader(_) => {
            refusal.data = None;
            code::INTERNAL_ERROR
        }
        _ => refusal.code,
    };
    if !matches!(error, GatewayError::Scope(_) | GatewayError::InvalidRequest(_)) {
        refusal.status = StatusCode::OK;
    }
    refusal
}

/// A modern server says "not found" by naming the URI (M-42).
fn names_uri(data: Option<&str>) -> bool {
    let object = data.and_then(|text| Some((text, Object::parse(text, Span::new(0, text.len())).ok()?)));
    object.is_some_and(|(text, object)| object.get(text, "uri").is_ok_and(|uri| uri.is_some()))
}

/// Waits for what there is to answer. The request runs on by itself, whatever becomes of this.
pub(super) async fn answer(door: &Door, held: Use, events: &Arc<Stream>, accepts: Accepts) -> Response {
    if !accepts.events {
        events.mute();
    }
    let patience = Instant::now() + PATIENCE;
    let patient = async {
        if accepts.events {
            sleep_until(patience).await;
        } else {
            std::future::pending().await
        }
    };
    match events.news(patient).await {
        News::Plain(last) => last.response(!accepts.json),
        // Cancelled: there is no response (H-84).
        News::Nothing if accepts.events => stream(StatusCode::OK, Parts::new().into()),
        News::Nothing => empty(StatusCode::ACCEPTED),
        News::Events => {
            held.session().keep(events);
            let tail = Tail::new(Arc::clone(events), Some(0), held, door.bounds().keepalive, None);
            stream(StatusCode::OK, tail.into())
        }
    }
}
