//! A raw client of the legacy revisions: a handshake, a session, streams by GET.

use serde_json::{Value, json};

use super::client::{Answer, Connection, Event, Reply};
use super::gateway::Gateway;
use super::json;
use super::request::Request;

/// A session of a legacy client.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// The revision agreed on.
    pub(crate) version: String,
    /// The session's id.
    pub(crate) id: String,
    /// What `initialize` said.
    pub(crate) hello: Value,
    target: String,
    /// Header lines of each request.
    fields: Vec<(String, String)>,
}

/// `initialize` of this revision with these capabilities (JSON text).
pub(crate) fn initialize(version: &str, capabilities: &str) -> Request {
    Request::post(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{{\"protocolVersion\":{},\"capabilities\":{capabilities},\"clientInfo\":{{\"name\":\"raw\",\"version\":\"1\"}}}}}}",
        json::quoted(version)
    ))
}

impl Session {
    /// Opens a session at `/mcp`.
    pub(crate) async fn open(gateway: &Gateway, version: &str, capabilities: &str) -> Self {
        Self::with(gateway, version, capabilities, Vec::new()).await
    }

    /// The same with more headers on each request.
    pub(crate) async fn with(
        gateway: &Gateway,
        version: &str,
        capabilities: &str,
        fields: Vec<(String, String)>,
    ) -> Self {
        let mut request = initialize(version, capabilities);
        for (name, value) in &fields {
            request = request.with(name, value);
        }
        let reply = gateway.send(request).await;
        Self::of(&reply, fields)
    }

    /// The session that an answer to `initialize` opened.
    pub(crate) fn of(reply: &Reply, fields: Vec<(String, String)>) -> Self {
        assert_eq!(reply.status(), 200, "{reply:?}");
        let id = reply.header("mcp-session-id").unwrap_or_else(|| panic!("a session id in {:?}", reply.head));
        assert!(id.bytes().all(|b| (0x21..=0x7e).contains(&b)), "G-20: {id}");
        let hello = reply.result();
        let version = hello["protocolVersion"].as_str().unwrap().to_owned();
        Self { version, id, hello, target: "/mcp".to_owned(), fields }
    }

    /// Headers of this session on a request.
    pub(crate) fn on(&self, request: Request) -> Request {
        let mut request = request.at(&self.target).with("Mcp-Session-Id", &self.id);
        // 2025-03-26 had no such header yet.
        if self.version != "2025-03-26" {
            request = request.with("MCP-Protocol-Version", &self.version);
        }
        for (name, value) in &self.fields {
            request = request.with(name, value);
        }
        request
    }

    /// A request; `id` and `params` are JSON text.
    pub(crate) fn request(&self, id: &str, method: &str, params: &str) -> Request {
        self.on(Request::post(text(id, method, params)))
    }

    /// A call of a tool with these arguments (JSON text).
    pub(crate) fn call(&self, id: &str, name: &str, arguments: &str) -> Request {
        let name = json::quoted(name);
        self.request(id, "tools/call", &format!("{{\"name\":{name},\"arguments\":{arguments}}}"))
    }

    /// A notification.
    pub(crate) fn notification(&self, method: &str, params: &str) -> Request {
        let method = json::quoted(method);
        self.on(Request::post(format!("{{\"jsonrpc\":\"2.0\",\"method\":{method},\"params\":{params}}}")))
    }

    /// An answer to a request of the gateway's.
    pub(crate) fn answer(&self, to: &Value, result: &Value) -> Request {
        self.on(Request::post(json!({"jsonrpc": "2.0", "id": to["id"], "result": result}).to_string()))
    }

    /// The same as an error.
    pub(crate) fn refusal(&self, to: &Value) -> Request {
        let error = json!({"code": -1, "message": "no"});
        self.on(Request::post(json!({"jsonrpc": "2.0", "id": to["id"], "error": error}).to_string()))
    }

    /// The GET of the session's stream.
    pub(crate) fn get(&self) -> Request {
        self.on(Request::new("GET", "/mcp").with("Accept", "text/event-stream"))
    }

    /// The same that takes up a stream behind an event.
    pub(crate) fn resume(&self, event: &str) -> Request {
        self.get().with("Last-Event-ID", event)
    }

    /// The DELETE.
    pub(crate) fn delete(&self) -> Request {
        self.on(Request::new("DELETE", "/mcp"))
    }

    /// Sends a request on a connection of its own and gives back its answer.
    pub(crate) async fn ask(&self, gateway: &Gateway, method: &str, params: &str) -> Reply {
        gateway.send(self.request("1", method, params)).await
    }

    /// The names of the tools.
    pub(crate) async fn tools(&self, gateway: &Gateway) -> Vec<String> {
        let reply = self.ask(gateway, "tools/list", "{}").await;
        let result = reply.result();
        let all = result["tools"].as_array().unwrap_or_else(|| panic!("tools in {reply:?}"));
        all.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Opens a stream.
    pub(crate) async fn stream(&self, gateway: &Gateway, request: Request) -> Answer {
        let answer = Connection::open(gateway.listen).await.begin(request).await;
        assert_eq!(answer.status(), 200, "{:?}", answer.head);
        assert_eq!(answer.head.one("content-type").as_deref(), Some("text/event-stream"));
        answer
    }
}

/// A request's text; `id` and `params` are JSON text.
pub(crate) fn text(id: &str, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{},\"params\":{params}}}", json::quoted(method))
}

/// The next event that bears a message, and its id; `None` at the end. Priming events and comments are passed over.
pub(crate) async fn event(answer: &mut Answer) -> Option<(String, Value)> {
    loop {
        let event = answer.next().await?;
        if let Some(data) = event.data.as_deref().filter(|data| !data.is_empty()) {
            return Some((id_of(&event), json::value(data)));
        }
    }
}

/// An event's id.
pub(crate) fn id_of(event: &Event) -> String {
    event.id.clone().unwrap_or_else(|| panic!("an id in {event:?}"))
}
