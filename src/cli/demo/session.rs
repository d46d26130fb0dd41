//! Legacy sessions: what a handshake fixed, and what belongs to it until its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::call::{Call, Fault, Out, Reply, as_text};
use super::{Demo, lock, methods};
use crate::protocol::code;
use crate::protocol::envelope::{Envelope, Id};
use crate::protocol::message;

/// The legacy revisions served, newest first.
pub(super) const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// More sessions than any test opens.
const MAX_SESSIONS: usize = 10_000;

/// One handshake and its state.
pub(super) struct Session {
    /// The `Mcp-Session-Id`; none on stdio.
    pub(super) id: Option<String>,
    pub(super) version: &'static str,
    /// The parameters of `initialize`.
    pub(super) initialize: Value,
    /// The least severe log level wanted, as a rank (G-15).
    pub(super) level: AtomicUsize,
    pub(super) calls: AtomicU64,
    pub(super) counter: AtomicU64,
    /// Cancelled by DELETE and when the process stops.
    pub(super) end: CancellationToken,
    pub(super) running: Running,
    /// The state of the tool list this client knows of (S-51).
    seen: AtomicU64,
    /// Ends the stream that tells of changes when another takes its place (G-32).
    stream: Mutex<CancellationToken>,
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    next_question: AtomicU64,
}

impl Session {
    /// Answers `initialize` (G-10, G-11): the session it opens, and the result.
    pub(super) fn open(
        demo: &Arc<Demo>,
        request: &Envelope,
        id: Option<String>,
    ) -> Result<(Arc<Self>, Reply), Fault> {
        let (out, _) = mpsc::channel(1);
        let initialize = Call::new(demo, request, None, None, out)?.params;
        let Some(asked) = initialize["protocolVersion"].as_str() else {
            return Err(Fault::params("protocolVersion must be a string"));
        };
        let version = VERSIONS.into_iter().find(|v| *v == asked).unwrap_or(VERSIONS[0]);
        let reply = Reply::of(json!({
            "protocolVersion": version,
            "capabilities": methods::capabilities(),
            "serverInfo": demo.info(),
            "instructions": methods::INSTRUCTIONS,
        }));
        let session = Arc::new(Self {
            version,
            initialize,
            level: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            counter: AtomicU64::new(0),
            end: demo.stop.child_token(),
            running: Running::default(),
            seen: AtomicU64::new(*demo.changes.borrow()),
            stream: Mutex::new(CancellationToken::new()),
            asked: Mutex::default(),
            next_question: AtomicU64::new(1),
            id,
        });
        if let Some(id) = &session.id {
            let mut sessions = lock(&demo.sessions);
            if sessions.len() >= MAX_SESSIONS {
                return Err(Fault::new(code::INTERNAL_ERROR, "too many sessions"));
            }
            sessions.insert(id.clone(), Arc::clone(&session));
        }
        Ok((session, reply))
    }

    /// A new unguessable id (G-20).
    pub(super) fn new_id() -> Result<String, Fault> {
        let mut bytes = [0; 16];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| Fault::new(code::INTERNAL_ERROR, "the system gives no random numbers"))?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Tells of changes of the tool list until the session ends or another stream takes over; what changed
    /// while no stream was open is told first (S-51).
    pub(super) async fn tell_changes(self: Arc<Self>, demo: Arc<Demo>, out: mpsc::Sender<Out>) {
        let replaced = self.end.child_token();
        std::mem::replace(&mut *lock(&self.stream), replaced.clone()).cancel();
        let mut changes = demo.changes.subscribe();
        loop {
            let state = tokio::select! {
                biased;
                () = replaced.cancelled() => return,
                () = out.closed() => return,
                state = changes.wait_for(|state| *state != self.seen.load(Ordering::Relaxed)) => {
                    let Ok(state) = state else { return };
                    *state
                }
            };
            let note = as_text(message::request(None, methods::TOOLS_CHANGED, ""));
            if out.send(Out::Note(note)).await.is_err() {
                return;
            }
            self.seen.store(state, Ordering::Relaxed);
        }
    }

    /// Sends a request of ours on the stream of `out` and waits for the answer: its result, or null.
    pub(super) async fn ask(&self, method: &str, params: &Value, out: &mpsc::Sender<Out>) -> Value {
        let question = format!("demo-{}", self.next_question.fetch_add(1, Ordering::Relaxed));
        let (answered, answer) = oneshot::channel();
        {
            let mut asked = lock(&self.asked);
            asked.retain(|_, waiting| !waiting.is_closed());
            asked.insert(question.clone(), answered);
        }
        let text = json!({"jsonrpc": "2.0", "id": question, "method": method, "params": params}).to_string();
        if out.send(Out::Note(text)).await.is_ok() {
            tokio::select! {
                answer = answer => answer.unwrap_or_default(),
                () = self.end.cancelled() => Value::Null,
            }
        } else {
            Value::Null
        }
    }

    /// Takes the client's answer to a request of ours; one that nobody waits for is ignored (G-30).
    pub(super) fn answered(&self, response: &Envelope) {
        let Ok(mut response) = serde_json::from_str::<Value>(response.text()) else { return };
        let waiting = response["id"].as_str().and_then(|id| lock(&self.asked).remove(id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(response["result"].take());
        }
    }
}

/// The requests in flight that `notifications/cancelled` can name.
#[derive(Default)]
pub(super) struct Running(Mutex<HashMap<Bytes, CancellationToken>>);

impl Running {
    /// Notes a request; the token is also cancelled with `parent`.
    pub(super) fn begin(&self, id: &Id, parent: &CancellationToken) -> CancellationToken {
        let token = parent.child_token();
        lock(&self.0).insert(id.raw().clone(), token.clone());
        token
    }

    /// Forgets a request.
    pub(super) fn end(&self, id: &Id) {
        lock(&self.0).remove(id.raw());
    }

    /// Obeys `notifications/cancelled`; an unknown id is ignored (G-75).
    pub(super) fn cancel(&self, notification: &Envelope) {
        let Ok(Some(span)) = notification.param("requestId") else { return };
        let id = span.of(notification.text());
        if let Some(token) = lock(&self.0).remove(id.as_bytes()) {
            token.cancel();
        }
    }
}
