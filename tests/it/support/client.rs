//! A raw HTTP client: one connection, answers whole or event by event.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::net::TcpStream;

use super::request::Request;
use super::wire::{Framing, Head, Wire};
use super::{json, within};

/// One keep-alive connection to a gateway.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    host: String,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = within("connect", TcpStream::connect(address)).await.unwrap();
        Self { wire: Wire::new(stream), host: address.to_string() }
    }

    /// Writes bytes as they are.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        // A refusal can close the connection while the rest is on its way: the answer is what counts.
        let _ = within("write", self.wire.write(bytes)).await;
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&mut self, request: impl Into<Request>) -> Reply {
        let request = request.into();
        let bytes = request.bytes(&self.host);
        self.write(&bytes).await;
        self.reply(&request.method).await
    }

    /// Reads the next answer; `method` is that of its request.
    pub(crate) async fn reply(&mut self, method: &str) -> Reply {
        within("an answer", async {
            let head = self.wire.head().await.unwrap().expect("an answer before the connection ends");
            let framing = if method == "HEAD" { Framing::Length(0) } else { head.framing(true) };
            let body = self.wire.body(framing).await.unwrap();
            Reply { head, body }
        })
        .await
    }

    /// Sends a request and does not wait for anything.
    pub(crate) async fn ask(&mut self, request: impl Into<Request>) {
        let bytes = request.into().bytes(&self.host);
        self.write(&bytes).await;
    }

    /// Sends a request and returns as soon as the head of the answer is there.
    pub(crate) async fn begin(mut self, request: impl Into<Request>) -> Answer {
        let bytes = request.into().bytes(&self.host);
        self.write(&bytes).await;
        self.answer().await
    }

    /// Waits for the head of the answer to what was written.
    pub(crate) async fn answer(mut self) -> Answer {
        let head = within("the head of an answer", self.wire.head()).await.unwrap().expect("an answer");
        let framing = head.framing(true);
        Answer { head, wire: self.wire, framing, text: Vec::new() }
    }

    /// Sends no more.
    pub(crate) async fn end(&mut self) {
        self.wire.end().await;
    }

    /// Everything up to the end of the connection.
    pub(crate) async fn drain(&mut self) -> Vec<u8> {
        self.wire.drain().await
    }

    /// Returns once the gateway has closed the connection.
    pub(crate) async fn closed(&mut self) {
        within("the end of the connection", self.wire.closed()).await;
    }
}

/// Sends a request on a connection of its own.
pub(crate) async fn send(address: SocketAddr, request: impl Into<Request>) -> Reply {
    Connection::open(address).await.send(request).await
}

/// An answer whose body is still arriving. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    wire: Wire,
    framing: Framing,
    text: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        status(&self.head)
    }

    /// The next event, comments included; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        within("an event", async {
            loop {
                if let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                    let block: Vec<u8> = self.text.drain(..end + 2).collect();
                    return Some(Event::parse(&block));
                }
                let piece = self.wire.piece(&mut self.framing).await.unwrap()?;
                self.text.extend(piece);
            }
        })
        .await
    }

    /// The next message; comments are passed over.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.next().await?;
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                return Some(json::value(&data));
            }
        }
    }

    /// The whole answer: what is there and what is still to come.
    pub(crate) async fn rest(mut self) -> Reply {
        let rest = within("the rest of an answer", self.wire.body(self.framing)).await.unwrap();
        self.text.extend(rest);
        Reply { head: self.head, body: self.text }
    }
}

/// One block of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `data` lines joined; `None` for comments.
    pub(crate) data: Option<String>,
    /// The names of its fields, empty for comments.
    pub(crate) fields: Vec<String>,
    /// Its `id`.
    pub(crate) id: Option<String>,
}

impl Event {
    fn parse(block: &[u8]) -> Self {
        let text = std::str::from_utf8(block).expect("events are UTF-8");
        let lines: Vec<(&str, &str)> = text
            .trim_end_matches('\n')
            .split('\n')
            .map(|line| line.split_once(':').unwrap_or((line, "")))
            .map(|(name, value)| (name, value.strip_prefix(' ').unwrap_or(value)))
            .collect();
        let data: Vec<&str> = lines.iter().filter(|(name, _)| *name == "data").map(|(_, v)| *v).collect();
        Self {
            data: (!data.is_empty()).then(|| data.join("\n")),
            fields: lines.iter().map(|(name, _)| (*name).to_owned()).collect(),
            id: lines.iter().find(|(name, _)| *name == "id").map(|(_, id)| (*id).to_owned()),
        }
    }
}

fn status(head: &Head) -> u16 {
    head.first.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line")
}

/// A whole answer.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(2000).collect();
        write!(f, "{} {text}", self.head.first)
    }
}

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        status(&self.head)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.one(name)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("bodies are UTF-8")
    }

    pub(crate) fn is_events(&self) -> bool {
        self.header("content-type").as_deref() == Some("text/event-stream")
    }

    /// Every block of an event stream.
    pub(crate) fn events(&self) -> Vec<Event> {
        let blocks = self.text().split_inclusive("\n\n");
        blocks.map(|block| Event::parse(block.as_bytes())).collect()
    }

    /// The text of every JSON-RPC message in it, whatever its form.
    pub(crate) fn texts(&self) -> Vec<String> {
        if self.is_events() {
            let said = self.events().into_iter().filter_map(|event| event.data);
            return said.filter(|data| !data.is_empty()).collect();
        }
        vec![self.text().to_owned()]
    }

    /// The text of the final message.
    pub(crate) fn last(&self) -> String {
        self.texts().pop().unwrap_or_else(|| panic!("no message in {self:?}"))
    }

    /// The final message.
    pub(crate) fn message(&self) -> Value {
        json::value(&self.last())
    }

    /// The text of its result.
    pub(crate) fn result_text(&self) -> String {
        let last = self.last();
        json::raw(&last, &["result"]).unwrap_or_else(|| panic!("no result in {last}"))
    }

    /// Its result.
    pub(crate) fn result(&self) -> Value {
        json::value(&self.result_text())
    }

    /// The code of its error.
    pub(crate) fn code(&self) -> Option<i64> {
        json::raw(&self.last(), &["error", "code"])?.parse().ok()
    }

    /// Status and error code, for tables; code 0 is a result, no code an empty body.
    pub(crate) fn verdict(&self) -> (u16, Option<i64>) {
        let code = (!self.body.is_empty()).then(|| self.code().unwrap_or(0));
        (self.status(), code)
    }
}

/// Whether a call brought a result that is no error.
pub(crate) fn ok(reply: &Reply) -> bool {
    reply.verdict() == (200, Some(0)) && reply.result()["isError"] != true
}
