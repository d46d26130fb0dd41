//! Tables of requests and what must come back: exact status, exact code, the id as it was sent.

use super::client::{Reply, send};
use super::gateway::Gateway;
use super::json;
use super::request::Request;

/// Parse error.
pub(crate) const PARSE: i64 = -32700;
/// Invalid request.
pub(crate) const INVALID: i64 = -32600;
/// Method not found.
pub(crate) const METHOD: i64 = -32601;
/// Invalid params.
pub(crate) const PARAMS: i64 = -32602;
/// Header mismatch.
pub(crate) const HEADER: i64 = -32020;
/// Missing client capability.
pub(crate) const CAPABILITY: i64 = -32021;
/// Unsupported protocol version.
pub(crate) const OTHER_VERSION: i64 = -32022;
/// In place of a code: there is a result.
pub(crate) const RESULT: i64 = 0;

/// One line of a table.
#[derive(Debug)]
pub(crate) struct Row {
    what: String,
    request: Request,
    status: u16,
    /// `None`: an empty body.
    code: Option<i64>,
    /// The id that the answer must bear, as text; `None`: no `id` at all.
    id: Option<String>,
}

/// A row whose answer has a JSON-RPC body; the id is the request's own.
pub(crate) fn row(what: impl ToString, request: impl Into<Request>, status: u16, code: i64) -> Row {
    let request = request.into();
    let id = std::str::from_utf8(&request.body).ok().and_then(|text| json::raw(text, &["id"]));
    Row { what: what.to_string(), request, status, code: Some(code), id }
}

/// A row whose answer has no body.
pub(crate) fn bare(what: impl ToString, request: impl Into<Request>, status: u16) -> Row {
    Row { what: what.to_string(), request: request.into(), status, code: None, id: None }
}

impl Row {
    /// The answer bears no id: it cannot be read, or is none.
    pub(crate) fn nameless(mut self) -> Self {
        self.id = None;
        self
    }

    /// The answer bears this id, as text.
    pub(crate) fn named(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Whether the request is one that gets a result.
    pub(crate) fn passes(&self) -> bool {
        self.code == Some(RESULT)
    }

    /// What is wrong with an answer, if anything.
    fn fault(&self, reply: &Reply) -> Option<String> {
        let wanted = (self.status, self.code);
        if reply.verdict() != wanted {
            return Some(format!("{:?} instead of {wanted:?}", reply.verdict()));
        }
        self.code?;
        let message = reply.last();
        let id = json::raw(&message, &["id"]);
        if id != self.id {
            return Some(format!("id {id:?} instead of {:?}", self.id));
        }
        let kind = reply.header("content-type");
        if !reply.is_events() && kind.as_deref() != Some("application/json") {
            return Some(format!("its content type is {kind:?}"));
        }
        if json::raw(&message, &["jsonrpc"]).as_deref() != Some("\"2.0\"") {
            return Some("it is not JSON-RPC 2.0".to_owned());
        }
        let error = self.code != Some(RESULT);
        let text = json::raw(&message, &["error", "message"]);
        // What took longer than the gateway's patience is the last event of a stream, with status 200 (H-16).
        let form = !reply.is_events() || self.status == 200;
        if error && (!form || text.is_none_or(|text| text.len() < 4)) {
            return Some("an error is JSON with a message".to_owned());
        }
        None
    }
}

/// Sends every row on a connection of its own; fails with all rows that came out otherwise.
pub(crate) async fn judge(gateway: &Gateway, rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for row in &rows {
        let reply = send(gateway.listen, row.request.clone()).await;
        if let Some(fault) = row.fault(&reply) {
            let body = String::from_utf8_lossy(&reply.body);
            wrong.push(format!("{}: {fault}\n    {body}", row.what));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
