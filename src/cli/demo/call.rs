//! One request being answered: what was asked, and the way back to the caller.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Demo;
use super::session::Session;
use crate::protocol::code;
use crate::protocol::envelope::{Envelope, Id};
use crate::protocol::message;
use crate::protocol::meta;
use crate::protocol::version::Era;

/// Messages that may wait for a slow reader.
pub(super) const QUEUE: usize = 32;

/// One message to the caller.
#[derive(Debug)]
pub(super) enum Out {
    /// A notification, or in legacy eras a request of ours.
    Note(String),
    /// The answer; nothing follows. `status` is the HTTP status where it can still be chosen.
    Answer { status: u16, text: String },
}

impl Out {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Note(text) | Self::Answer { text, .. } => text,
        }
    }
}

/// A JSON-RPC error with the HTTP status that modern HTTP gives it (H-14, H-15).
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Fault {
    pub(super) code: i32,
    pub(super) status: u16,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl Fault {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        let status = match code {
            code::INVALID_PARAMS | code::INTERNAL_ERROR => 200,
            code::METHOD_NOT_FOUND => 404,
            _ => 400,
        };
        Self { code, status, message: message.into(), data: None }
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    pub(super) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(super) fn text(&self, id: Option<&Id>) -> String {
        let data = self.data.as_ref().map(Value::to_string);
        as_text(message::error(id, self.code, &self.message, data.as_deref()))
    }
}

/// A result: its members, and at most one that is given as finished text.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) fields: Map<String, Value>,
    pub(super) raw: Option<(&'static str, String)>,
}

impl Reply {
    /// From an object.
    pub(super) fn of(value: Value) -> Self {
        match value {
            Value::Object(fields) => Self { fields, raw: None },
            other => Self { fields: Map::from_iter([("value".to_owned(), other)]), raw: None },
        }
    }

    pub(super) fn with_raw(mut self, key: &'static str, text: impl Into<String>) -> Self {
        self.raw = Some((key, text.into()));
        self
    }

    fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key) || self.raw.as_ref().is_some_and(|(raw, _)| *raw == key)
    }

    /// Adds a member unless it is there.
    pub(super) fn add(&mut self, key: &str, value: impl FnOnce() -> Value) {
        if !self.has(key) {
            self.fields.insert(key.to_owned(), value());
        }
    }

    pub(super) fn text(self) -> String {
        let mut text = Value::Object(self.fields).to_string();
        if let Some((key, raw)) = self.raw {
            text.pop();
            let comma = if text.len() > 1 { "," } else { "" };
            text.push_str(&format!("{comma}\"{key}\":{raw}}}"));
        }
        text
    }
}

/// A request with everything its answer may depend on.
pub(super) struct Call {
    pub(super) demo: Arc<Demo>,
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Value,
    /// `params.arguments` as it was written.
    pub(super) arguments: Option<String>,
    /// The legacy session; without one the request is modern.
    pub(super) session: Option<Arc<Session>>,
    /// The request's headers; none on stdio.
    pub(super) headers: Option<HeaderMap>,
    pub(super) out: mpsc::Sender<Out>,
}

impl Call {
    /// Reads the parameters of `request`, which has an id.
    pub(super) fn new(
        demo: &Arc<Demo>,
        request: &Envelope,
        session: Option<Arc<Session>>,
        headers: Option<HeaderMap>,
        out: mpsc::Sender<Out>,
    ) -> Result<Self, Fault> {
        let id = request.id().ok_or_else(|| Fault::new(code::INVALID_REQUEST, "the request has no id"))?;
        if request.params_malformed {
            return Err(Fault::params("params must be an object"));
        }
        let text = request.text();
        let params = request.params.as_ref().map_or("{}", |object| object.span.of(text));
        let params = serde_json::from_str(params)
            .map_err(|error: serde_json::Error| Fault::params(unreadable(&error)))?;
        let arguments =
            request.param("arguments").map_err(|_| Fault::params("a key of params occurs twice"))?;
        Ok(Self {
            demo: Arc::clone(demo),
            id: id.clone(),
            method: request.method().into_owned(),
            arguments: arguments.map(|span| span.of(text).to_owned()),
            params,
            session,
            headers,
            out,
        })
    }

    pub(super) const fn era(&self) -> Era {
        if self.session.is_some() { Era::Legacy } else { Era::Modern }
    }

    pub(super) fn argument(&self, name: &str) -> &Value {
        &self.params["arguments"][name]
    }

    pub(super) fn meta(&self, key: &str) -> &Value {
        &self.params["_meta"][key]
    }

    /// What the client declared: with this request, or when its session began (H-23).
    pub(super) fn capabilities(&self) -> &Value {
        match &self.session {
            Some(session) => &session.initialize["capabilities"],
            None => self.meta(meta::CLIENT_CAPABILITIES),
        }
    }

    /// Sends a message on this request's stream. A reader that is gone is no error: either the call is
    /// about to be dropped, or (legacy) it is meant to go on (G-35).
    pub(super) async fn send(&self, method: &str, params: &str) {
        let text = as_text(message::request(None, method, params.to_owned()));
        let _ = self.out.send(Out::Note(text)).await;
    }

    /// Reports progress, if the caller gave a token (M-50, M-51).
    pub(super) async fn progress(&self, done: u64, total: u64) {
        let token = self.meta(meta::PROGRESS_TOKEN);
        if !token.is_null() {
            let params = json!({"progressToken": token, "progress": done, "total": total,
                "message": format!("step {done} of {total}")});
            self.send("notifications/progress", &params.to_string()).await;
        }
    }

    /// Answers, unless `cancel` comes first: then nothing more is sent (H-80, G-47).
    pub(super) async fn run(self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            answer = super::methods::answer(&self) => {
                let answer = match answer {
                    Ok(reply) => Out::Answer { status: 200, text: answer_text(&self.id, reply) },
                    Err(fault) => {
                        // Errors of legacy requests have no status of their own.
                        let status = if self.session.is_some() { 200 } else { fault.status };
                        Out::Answer { status, text: fault.text(Some(&self.id)) }
                    }
                };
                let _ = self.out.send(answer).await;
            }
        }
    }
}

pub(super) fn answer_text(id: &Id, reply: Reply) -> String {
    as_text(message::result(id, reply.text()))
}

/// Every message here is built from text, so nothing is replaced.
pub(super) fn as_text(parts: crate::protocol::edit::Parts) -> String {
    String::from_utf8_lossy(&parts.to_bytes()).into_owned()
}

/// The messages of one request. It drives the work itself when it owns it: dropped with the response, the
/// work is dropped as well, which is how modern HTTP cancels (H-80).
pub(super) struct Exchange {
    work: Option<BoxFuture<'static, ()>>,
    out: mpsc::Receiver<Out>,
}

impl Exchange {
    /// Messages of work that goes on elsewhere.
    pub(super) const fn of(out: mpsc::Receiver<Out>) -> Self {
        Self { work: None, out }
    }

    /// Messages of work that lives and dies with this.
    pub(super) fn owning(work: BoxFuture<'static, ()>, out: mpsc::Receiver<Out>) -> Self {
        Self { work: Some(work), out }
    }
}

impl Stream for Exchange {
    type Item = Out;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Out>> {
        if let Some(work) = &mut self.work
            && work.as_mut().poll(cx).is_ready()
        {
            self.work = None;
        }
        self.out.poll_recv(cx)
    }
}

/// Why JSON that is well formed cannot be turned into values.
fn unreadable(error: &serde_json::Error) -> &'static str {
    if error.to_string().starts_with("number out of range") {
        "params hold a number that is too large"
    } else {
        "params hold text that is not Unicode"
    }
}
