//! What of a client's request goes along to a server beside its message: chosen headers, who asks, capabilities,
//! the trace.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};

use super::Call;
use crate::config::Server as ServerConfig;
use crate::outbound::{Asks, Context, OnBehalf};
use crate::protocol::meta::{TASKS, UI};
use crate::protocol::object::{Object, Span, string};
use crate::telemetry::trace::{self, TraceContext};

/// The client's headers that the operator lets through; values a header cannot have do not come in.
pub(super) fn forwarded(call: &Call, server: &ServerConfig) -> Vec<(HeaderName, HeaderValue)> {
    let mut found = Vec::new();
    for name in &server.forward_headers {
        found.extend(call.headers.get_all(name).iter().map(|value| (name.clone(), value.clone())));
    }
    found
}

/// For whom a request is made. Where a server sees each caller as himself, also without a token: then there is no
/// call, and never one in the gateway's own name.
pub(super) fn context(call: &Call, server: &ServerConfig) -> Context {
    let principal = &call.principal;
    let per_user = server.credentials.is_per_user();
    Context {
        principal: if per_user { principal.authorization() } else { Arc::clone(&principal.id) },
        session: call.client.session.clone(),
        asks: Asks::read(&call.client.capabilities),
        on_behalf: per_user.then(|| on_behalf(call)),
    }
}

/// The same for what a server that sees each caller as himself shows this one: lists, and changes told of.
pub(super) fn own_context(call: &Call) -> Context {
    Context {
        principal: call.principal.authorization(),
        session: None,
        asks: Asks::NONE,
        on_behalf: Some(on_behalf(call)),
    }
}

fn on_behalf(call: &Call) -> Arc<OnBehalf> {
    let principal = &call.principal;
    Arc::new(OnBehalf {
        principal: Arc::clone(&principal.id),
        issuer: Arc::clone(&principal.issuer),
        expires: principal.expires,
        token: call.token.clone(),
    })
}

/// The capabilities that the gateway can relay between modern hops (M-33): never more than was declared;
/// extensions that it knows, and those the operator lets through to this server.
pub(super) fn relayable(declared: &str, admitted: &[String]) -> String {
    const RELAYED: [&str; 3] = ["roots", "sampling", "elicitation"];
    if declared == "{}" {
        return declared.to_owned();
    }
    let whole = Span::new(0, declared.len());
    let Ok(object) = Object::parse(declared, whole) else { return String::new() };
    let keep = |object: &Object, keys: &[&str]| -> String {
        let wanted = object.members.iter().filter(|m| keys.contains(&m.name(declared)));
        join(wanted.map(|m| Span { start: m.key.start, end: m.value.end }.of(declared)))
    };
    let mut members = keep(&object, &RELAYED);
    if let Ok(Some(extensions)) = object.get(declared, "extensions")
        && let Ok(extensions) = Object::parse(declared, extensions)
    {
        let known = [TASKS, UI].into_iter().chain(admitted.iter().map(String::as_str));
        let kept = keep(&extensions, &known.collect::<Vec<_>>());
        if !kept.is_empty() {
            let comma = if members.is_empty() { "" } else { "," };
            members.extend([comma, "\"extensions\":{", &kept, "}"]);
        }
    }
    format!("{{{members}}}")
}

/// Members of an object, with commas between them.
pub(super) fn join<'t>(members: impl Iterator<Item = &'t str>) -> String {
    let mut joined = String::new();
    for member in members {
        let comma = if joined.is_empty() { "" } else { "," };
        joined.extend([comma, member]);
    }
    joined
}

/// The caller's trace, continued; none is begun here.
pub(super) fn trace(call: &Call) -> Option<TraceContext> {
    if !trusts(call) {
        return None;
    }
    // What is malformed is no reason to refuse: then it is another trace (M-28).
    let (parent, state) = told(call)?;
    Some(TraceContext::continue_from(Some(&parent), state.as_deref()))
}

/// The caller's span, if it is told and trusted. `_meta` wins over the header (M-28).
pub(super) fn told_trace(call: &Call) -> Option<TraceContext> {
    let (parent, state) = told(call).filter(|_| trusts(call))?;
    TraceContext::read(&parent, state.as_deref())
}

/// The span that the header tells, where `_meta` tells this other one.
pub(super) fn other_trace(call: &Call, told: &TraceContext) -> Option<TraceContext> {
    let header = call.headers.get("traceparent")?.to_str().ok()?;
    TraceContext::read(header, None).filter(|other| other.span_id != told.span_id)
}

/// The caller's `baggage`, where it may go on (M-28).
pub(super) fn baggage(call: &Call) -> Option<String> {
    if !call.snapshot.config.telemetry.baggage {
        return None;
    }
    let meta = call.envelope.meta.as_ref().and_then(|meta| meta.baggage);
    let value = match meta {
        Some(span) => string(span.of(call.envelope.text())),
        None => call.headers.get("baggage").and_then(|value| value.to_str().ok()).map(Cow::from),
    };
    value.as_deref().and_then(trace::baggage).map(str::to_owned)
}

fn trusts(call: &Call) -> bool {
    call.snapshot.config.telemetry.trust_trace_context
}

/// `traceparent` and `tracestate` as they came.
fn told(call: &Call) -> Option<(Cow<'_, str>, Option<Cow<'_, str>>)> {
    let text = call.envelope.text();
    let header = |name: &str| call.headers.get(name).and_then(|v| v.to_str().ok()).map(Cow::from);
    let meta = call.envelope.meta.as_ref();
    let in_meta = |span: Option<Span>| span.and_then(|span| string(span.of(text)));
    let parent =
        meta.and_then(|m| in_meta(m.traceparent)).map(|p| (p, meta.and_then(|m| in_meta(m.tracestate))));
    parent.or_else(|| Some((header("traceparent")?, header("tracestate"))))
}
