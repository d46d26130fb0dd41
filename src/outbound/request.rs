//! One request to a server, in modern meaning, before a dialect writes it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::context::Context;
use super::credentials::OnBehalf;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::envelope::Id;
use crate::protocol::header;
use crate::protocol::items::push_json_string;
use crate::protocol::message;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectError, Span};
use crate::telemetry::trace::TraceContext;

/// What is asked, as edits over the bytes it came in.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The bytes that `params` is a part of.
    pub body: Bytes,
    /// The `params` object.
    pub params: Object,
    /// The value of `params._meta`, if there is one.
    pub meta: Option<Span>,
    /// Replacements in `params` that hold in every dialect (names).
    pub edits: Edits,
    /// `requestState` and `inputResponses`.
    pub retry: Retry,
    /// What goes into `_meta`.
    pub hop: Hop,
    /// `Mcp-Name`: the native name or URI, see [`Request::name_value`].
    pub name: Option<HeaderValue>,
    /// `Mcp-Param-*`, derived from the arguments sent (H-54).
    pub param_headers: Vec<(HeaderName, HeaderValue)>,
    /// Headers of the client's that go along (`forward_headers`).
    pub forwarded: Vec<(HeaderName, HeaderValue)>,
    /// For whom it is; `None`: it is the gateway's own.
    pub context: Option<Arc<Context>>,
}

/// The members of a retry of a multi round-trip request.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    /// The position of `requestState` among the members of `params`.
    pub state_at: Option<usize>,
    /// The server's own state as JSON text; `None`: it gave none, so it gets none.
    pub state: Option<String>,
    /// The position of `inputResponses`.
    pub answers_at: Option<usize>,
}

/// What `_meta` says on the next hop.
#[derive(Debug, Clone, Default)]
pub struct Hop {
    /// Foreign members, verbatim: `"key":value` joined by commas.
    pub foreign: String,
    /// The capabilities declared, a JSON object; empty means `{}` (M-33).
    pub capabilities: String,
    /// The level of log messages wanted, if any.
    pub log_level: Option<&'static str>,
    /// Whether progress is wanted: then a token of our own is sent.
    pub progress: bool,
    /// The trace to continue.
    pub trace: Option<TraceContext>,
    /// `baggage`, where it may go on.
    pub baggage: Option<String>,
}

impl Request {
    /// A request of the gateway's own; `params` is an object without `_meta`.
    pub fn own(method: Method, params: String) -> Result<Self, ObjectError> {
        let params_object = Object::parse(&params, Span::new(0, params.len()))?;
        Ok(Self {
            method,
            body: params.into(),
            params: params_object,
            meta: None,
            edits: Edits::new(),
            retry: Retry::default(),
            hop: Hop::default(),
            name: None,
            param_headers: Vec::new(),
            forwarded: Vec::new(),
            context: None,
        })
    }

    /// Who is presented, where servers see each caller as himself.
    pub(super) fn on_behalf(&self) -> Option<&OnBehalf> {
        self.context.as_ref()?.on_behalf.as_deref()
    }

    /// What `Mcp-Name` says for a native name or URI (H-41).
    pub fn name_value(native: &str) -> Option<HeaderValue> {
        // Encoded it is always a header value.
        HeaderValue::from_str(&header::encode(native)).ok()
    }

    /// The message with this `_meta` and, where the dialect knows them, the answers of a retry.
    pub fn message(&self, id: u64, meta: String, keep_retry: bool) -> Parts {
        let mut edits = self.edits.copy_for(4);
        match self.meta {
            Some(span) => edits.replace(span, meta),
            None => edits.append(&self.params, format!("\"_meta\":{meta}")),
        }
        let mut gone = Vec::new();
        if let Some(at) = self.retry.state_at {
            match (&self.retry.state, keep_retry) {
                (Some(state), true) => edits.replace(self.params.members[at].value, state.clone()),
                _ => gone.push(at),
            }
        }
        gone.extend(self.retry.answers_at.filter(|_| !keep_retry));
        gone.sort_unstable();
        edits.remove(&self.params, &gone);
        let (id, method) = (Id::number(id), self.method.as_str());
        message::edited_request(&id, method, edits, &self.body, self.params.span)
    }
}

impl Hop {
    /// Appends the members common to both dialects, a comma behind each: foreign keys, trace context, our
    /// progress token.
    pub fn write(&self, out: &mut String, id: u64) {
        if self.progress {
            out.extend(["\"progressToken\":", &id.to_string(), ","]);
        }
        if let Some(trace) = &self.trace {
            out.extend(["\"traceparent\":\"", &trace.traceparent(), "\","]);
            if let Some(state) = &trace.state {
                out.push_str("\"tracestate\":");
                push_json_string(out, state);
                out.push(',');
            }
        }
        if let Some(baggage) = &self.baggage {
            out.push_str("\"baggage\":");
            push_json_string(out, baggage);
            out.push(',');
        }
        if !self.foreign.is_empty() {
            out.extend([&self.foreign, ","]);
        }
    }
}

impl Request {
    /// The trace as headers say it: for what stands between us and the server, and servers that look there (M-28).
    pub(super) fn trace_headers(&self, headers: &mut HeaderMap) {
        let mut insert = |name, value: &str| {
            // All of it was held against what a header can say.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        if let Some(trace) = &self.hop.trace {
            insert("traceparent", &trace.traceparent());
            if let Some(state) = &trace.state {
                insert("tracestate", state);
            }
        }
        if let Some(baggage) = &self.hop.baggage {
            insert("baggage", baggage);
        }
    }
}

/// Closes an object whose members have a comma behind each.
pub(super) fn close(object: &mut String) {
    if object.ends_with(',') {
        object.pop();
    }
    object.push('}');
}
