//! One request to a server, in modern meaning, before a dialect writes it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::credentials::OnBehalf;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::items::json_string;
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
    /// The native name or URI for `Mcp-Name`.
    pub name: Option<String>,
    /// `Mcp-Param-*`, derived from the arguments sent (H-54).
    pub param_headers: Vec<(HeaderName, HeaderValue)>,
    /// Headers of the client's that go along (`forward_headers`).
    pub forwarded: Vec<(HeaderName, HeaderValue)>,
    /// For whom it is, where servers see each caller as himself; `None`: it is the gateway's own.
    pub caller: Option<Arc<OnBehalf>>,
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
            caller: None,
        })
    }

    /// `params` with this `_meta` and, where the dialect knows them, the answers of a retry.
    pub fn params_with(&self, meta: &str, keep_retry: bool) -> Parts {
        let mut edits = self.edits.clone();
        match self.meta {
            Some(span) => edits.replace(span, meta.to_owned()),
            None => edits.append(&self.params, &format!("\"_meta\":{meta}")),
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
        edits.apply(&self.body, self.params.span)
    }
}

impl Hop {
    /// The members common to both dialects: foreign keys, trace context, our progress token.
    pub fn members(&self, id: u64) -> Vec<String> {
        let mut members = Vec::with_capacity(8);
        if self.progress {
            members.push(format!("\"progressToken\":{id}"));
        }
        if let Some(trace) = &self.trace {
            members.push(format!("\"traceparent\":\"{}\"", trace.traceparent()));
            members
                .extend(trace.state.as_ref().map(|state| format!("\"tracestate\":{}", json_string(state))));
        }
        if !self.foreign.is_empty() {
            members.push(self.foreign.clone());
        }
        members
    }
}
