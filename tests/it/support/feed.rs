//! Streams of changes at both ends: a client's `subscriptions/listen`, and a scripted server's side of it.

use serde_json::Value;

use super::client::{Answer, Connection};
use super::exchange::{Answer as Reply, Exchange};
use super::gateway::Gateway;
use super::request::{Mcp, Request, mcp};
use super::server::{Held, Server};
use super::{json, within};

/// `_meta` key of a subscription's id.
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A client's open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    answer: Answer,
    id: Value,
    /// What the gateway honours of the filter.
    pub(crate) honoured: Value,
}

/// The request that opens a stream; `id` and `filter` are JSON text.
pub(crate) fn listen(id: &str, filter: &str) -> Mcp {
    mcp("subscriptions/listen", format!("{{\"notifications\":{filter}}}")).id(id)
}

impl Stream {
    /// Opens a stream and reads the acknowledgement. `id` and `filter` are JSON text.
    pub(crate) async fn open(gateway: &Gateway, id: &str, filter: &str) -> Self {
        Self::on(gateway.connect().await, id, filter).await
    }

    /// The same on a connection that is open already.
    pub(crate) async fn on(connection: Connection, id: &str, filter: &str) -> Self {
        Self::at(connection, "/mcp", id, filter).await
    }

    /// The same at another endpoint.
    pub(crate) async fn at(connection: Connection, path: &str, id: &str, filter: &str) -> Self {
        Self::ask(connection, listen(id, filter).request().at(path), id).await
    }

    /// The same by any request that opens a stream.
    pub(crate) async fn ask(connection: Connection, request: Request, id: &str) -> Self {
        let answer = connection.begin(request).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert_eq!(answer.head.one("content-type").as_deref(), Some("text/event-stream"));
        let mut stream = Self { answer, id: json::value(id), honoured: Value::Null };
        let ack = stream.next().await.expect("an acknowledgement");
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged", "{ack}");
        stream.honoured = ack["params"]["notifications"].clone();
        stream
    }

    /// The next message, which bears this subscription's id (S-04); `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let message = self.answer.message().await?;
        let member = if message.get("result").is_some() { "result" } else { "params" };
        assert_eq!(message[member]["_meta"][SUBSCRIPTION], self.id, "{message}");
        Some(message)
    }

    /// What the next notice is about: a list's kind, or a resource.
    pub(crate) async fn notice(&mut self) -> String {
        let message = self.next().await.expect("a notice, not the end");
        let method = message["method"].as_str().unwrap_or_else(|| panic!("no notice: {message}"));
        match method.strip_prefix("notifications/").and_then(|m| m.strip_suffix("/list_changed")) {
            Some(kind) => kind.to_owned(),
            None => {
                assert_eq!(method, "notifications/resources/updated", "{message}");
                message["params"]["uri"].as_str().unwrap().to_owned()
            }
        }
    }

    /// Reads to the graceful end: the result that ends it, then nothing more (S-09).
    pub(crate) async fn end(mut self) {
        loop {
            let message = self.next().await.expect("a result before the end");
            if let Some(result) = message.get("result") {
                assert_eq!(message["id"], self.id);
                assert_eq!(result["resultType"], "complete");
                assert!(self.answer.next().await.is_none(), "nothing follows the result");
                return;
            }
        }
    }

    /// The end of the stream, with no notice before it.
    pub(crate) async fn end_without_notice(mut self) {
        let last = self.next().await.expect("a result before the end");
        assert!(last.get("result").is_some(), "nothing was to be told: {last}");
        assert!(self.answer.next().await.is_none(), "nothing follows the result");
    }

    /// Reads to an end of any kind.
    pub(crate) async fn closed(mut self) {
        while self.answer.next().await.is_some() {}
    }
}

/// A client's stream that surely watches resources of a scripted modern server, and the server's new stream for
/// it; `old` is the one it had.
///
/// An acknowledgement waits a moment for the server only. So a first client makes the server agree, and a second
/// one finds that done, however slow this machine is.
pub(crate) async fn watch(
    gateway: &Gateway,
    feeds: &mut Held,
    mut old: Feed,
    id: &str,
    filter: &str,
) -> (Stream, Feed) {
    let next = async {
        let next = Feed::accept(feeds.next().await);
        old.gone().await;
        next
    };
    let (first, next) = tokio::join!(Stream::open(gateway, "\"first\"", filter), next);
    let stream = Stream::open(gateway, id, filter).await;
    assert_eq!(stream.honoured, json::value(filter), "all of it is honoured");
    drop(first);
    (stream, next)
}

/// A scripted server's side of one stream.
#[derive(Debug)]
pub(crate) struct Feed {
    exchange: Exchange,
    /// The id of the request, which tags everything; `None` on a legacy server's stream.
    tag: Option<String>,
}

impl Feed {
    /// Acknowledges what was asked for.
    pub(crate) fn accept(exchange: Exchange) -> Self {
        let asked = exchange.seen.raw(&["params", "notifications"]).unwrap();
        Self::accept_only(exchange, &asked)
    }

    /// Acknowledges this.
    pub(crate) fn accept_only(exchange: Exchange, honoured: &str) -> Self {
        let feed = Self { tag: exchange.seen.id(), exchange };
        feed.exchange.open_events();
        feed.notify("subscriptions/acknowledged", &format!("\"notifications\":{honoured}"));
        feed
    }

    /// Opens a legacy server's stream.
    pub(crate) fn legacy(exchange: Exchange) -> Self {
        exchange.open_events();
        Self { exchange, tag: None }
    }

    /// What was asked for.
    pub(crate) fn asked(&self) -> Value {
        self.exchange.seen.raw(&["params", "notifications"]).map_or(Value::Null, |raw| json::value(&raw))
    }

    /// A notification; `members` are those of its params.
    pub(crate) fn notify(&self, method: &str, members: &str) {
        let tag = self.tag.as_ref().map(|id| format!("\"_meta\":{{\"{SUBSCRIPTION}\":{id}}}"));
        let params: Vec<&str> =
            [members].into_iter().chain(tag.as_deref()).filter(|m| !m.is_empty()).collect();
        self.exchange.event(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{{}}}}}",
            params.join(",")
        ));
    }

    /// Any message.
    pub(crate) fn say(&self, message: &str) {
        self.exchange.event(message);
    }

    /// A list of this kind changed.
    pub(crate) fn changed(&self, kind: &str) {
        self.notify(&format!("{kind}/list_changed"), "");
    }

    /// A resource changed.
    pub(crate) fn updated(&self, uri: &str) {
        self.notify("resources/updated", &format!("\"uri\":{}", json::quoted(uri)));
    }

    /// Ends with words.
    pub(crate) fn end(self) {
        self.exchange.finish("{\"resultType\":\"complete\"}");
    }

    /// Ends without.
    pub(crate) fn cut(self) {
        self.exchange.close();
    }

    /// The `Authorization` it was asked for with.
    pub(crate) fn shown(&self) -> String {
        self.exchange.seen.header("authorization").unwrap_or_default()
    }

    /// Returns once the gateway has closed it.
    pub(crate) async fn gone(&mut self) {
        self.exchange.gone().await;
    }

    /// Whether the gateway has closed it.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.exchange.is_gone()
    }
}

/// All that a server can declare that tells of changes.
pub(crate) const TELLS: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}"#;

/// From now on the server declares these capabilities.
pub(crate) fn declare(server: &Server, capabilities: &str) {
    let capabilities = capabilities.to_owned();
    let modern = format!(
        r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities},"ttlMs":0,"cacheScope":"public"}}"#
    );
    server.on("server/discover", move |seen| Reply::result(seen, &modern));
}

/// The names of a list as a client sees it now.
pub(crate) async fn names(connection: &mut Connection, method: &str) -> Vec<String> {
    let reply = within(method, connection.send(mcp(method, "{}"))).await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    let result = reply.result();
    let key =
        ["tools", "prompts", "resources", "resourceTemplates"].into_iter().find(|k| result.get(k).is_some());
    let items = result[key.unwrap_or_else(|| panic!("no list in {result}"))].as_array().unwrap();
    let name = |item: &Value| item["name"].as_str().or(item["uri"].as_str()).unwrap_or_default().to_owned();
    items.iter().map(name).collect()
}
