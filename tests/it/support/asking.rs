//! Legacy servers that ask their client for something during a call, and modern clients that come back with answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::client::Reply;
use super::exchange::{Answer, Exchange, Seen};
use super::request::{Mcp, mcp};
use super::server::{Held, Server};
use super::{eventually, json};

/// All that a client can be asked for.
pub(crate) const ALL: &str =
    r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}"#;
/// The params of a form; nothing that would survive a careless hand.
pub(crate) const FORM: &str = r#"{"message":"who? \u00e4", "requestedSchema":{"type":"object","n":1.0,"properties":{"name":{"type":"string"}}}}"#;
/// A user's answer to it.
pub(crate) const ACCEPT: &str = r#"{"action":"accept","content":{"name":"x","n":1.0,"n":2}}"#;

/// A server whose calls wait for the test, and the answers that it was given to its own requests.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) calls: Held,
    pub(crate) answers: Answers,
}

/// Answers by the id of what they answer, as JSON text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<HashMap<String, Vec<Seen>>>>);

impl Asking {
    /// From now on calls of this server are held, and answers kept.
    pub(crate) fn at(server: &Server, method: &str) -> Self {
        Self { calls: server.hold(method), answers: Answers::of(server) }
    }

    /// The next call, its stream open.
    pub(crate) async fn call(&mut self) -> Exchange {
        let exchange = self.calls.next().await;
        exchange.open_events();
        exchange
    }
}

impl Answers {
    /// Keeps what a server is answered.
    pub(crate) fn of(server: &Server) -> Self {
        let answers = Self::default();
        let kept = answers.clone();
        server.on("POST", move |seen| {
            kept.0.lock().unwrap().entry(seen.id().unwrap_or_default()).or_default().push(seen.clone());
            Answer::new(202, "", "")
        });
        answers
    }

    /// Every answer so far to a request of this id.
    pub(crate) fn to(&self, id: &str) -> Vec<Seen> {
        self.0.lock().unwrap().get(id).cloned().unwrap_or_default()
    }

    /// Waits for the answer.
    pub(crate) async fn wait(&self, id: &str) -> Seen {
        eventually(&format!("an answer to {id}"), async || !self.to(id).is_empty()).await;
        self.to(id).remove(0)
    }

    /// The text of the result that a request was answered with.
    pub(crate) async fn result(&self, id: &str) -> String {
        let seen = self.wait(id).await;
        seen.raw(&["result"]).unwrap_or_else(|| panic!("an error: {}", seen.text()))
    }

    /// The code of the error that a request was answered with.
    pub(crate) async fn code(&self, id: &str) -> i64 {
        let seen = self.wait(id).await;
        let code = seen.raw(&["error", "code"]).unwrap_or_else(|| panic!("a result: {}", seen.text()));
        code.parse().unwrap()
    }

    /// How many there were.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }
}

/// The text of a server's request; `id` and `params` are JSON text.
pub(crate) fn ask(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// The text of the request for a form.
pub(crate) fn elicit(id: &str) -> String {
    ask(id, "elicitation/create", FORM)
}

/// What a reply asks, and its state as JSON text.
#[derive(Debug)]
pub(crate) struct Questions {
    /// `inputRequests`, as text.
    pub(crate) text: String,
    /// The keys in order.
    pub(crate) keys: Vec<String>,
    pub(crate) state: String,
}

impl Questions {
    pub(crate) fn of(reply: &Reply) -> Self {
        assert_eq!(reply.status(), 200, "{reply:?}");
        let result = reply.result();
        assert_eq!(result["resultType"], "input_required", "{reply:?}");
        let text = json::raw(&reply.result_text(), &["inputRequests"]).unwrap();
        let state = json::quoted(result["requestState"].as_str().expect("there is always a state"));
        Self { keys: json::keys(&text), text, state }
    }

    /// A part of a question, as text.
    pub(crate) fn raw(&self, path: &[&str]) -> Option<String> {
        json::raw(&self.text, path)
    }

    /// The request once more with these answers, as text by the order of the keys.
    pub(crate) fn answered(&self, first: (&str, &str), answers: &[&str]) -> Mcp {
        let pairs = self.keys.iter().zip(answers);
        let members: Vec<String> =
            pairs.map(|(key, answer)| format!("{}:{answer}", json::quoted(key))).collect();
        self.again(first, &format!("{{{}}}", members.join(",")))
    }

    /// The same with `inputResponses` as given.
    pub(crate) fn again(&self, first: (&str, &str), responses: &str) -> Mcp {
        retry(first, &self.state, Some(responses))
    }
}

/// A request (method and params) once more with this state and these answers, all JSON text.
pub(crate) fn retry((method, params): (&str, &str), state: &str, responses: Option<&str>) -> Mcp {
    let open = params.trim_end().strip_suffix('}').unwrap();
    let responses = responses.map(|text| format!("\"inputResponses\":{text},")).unwrap_or_default();
    mcp(method, format!("{open},{responses}\"requestState\":{state}}}")).id("\"again\"").capabilities(ALL)
}

/// The text of the first content block of a reply.
pub(crate) fn said(reply: &Reply) -> String {
    let result: Value = reply.result();
    assert_eq!(result["resultType"], "complete", "{reply:?}");
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

/// A result with this text.
pub(crate) fn content(text: &str) -> String {
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}]}}", json::quoted(text))
}
