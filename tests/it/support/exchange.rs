//! One request at a scripted server: what came, what is answered, and by which steps.

use tokio::sync::{mpsc, oneshot};

use super::wire::Head;
use super::{json, within};

/// A request as it stood on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The request line and the field lines in order.
    pub(crate) head: Head,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// Which connection it came on, counted from 1.
    pub(crate) connection: usize,
}

impl Seen {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the gateway sends UTF-8")
    }

    /// The JSON-RPC method, or the HTTP method where there is no message.
    pub(crate) fn method(&self) -> String {
        let raw = json::raw(self.text(), &["method"]);
        raw.and_then(|raw| serde_json::from_str(&raw).ok())
            .unwrap_or_else(|| self.head.first.split(' ').next().unwrap_or_default().to_owned())
    }

    /// The text of a part of the message.
    pub(crate) fn raw(&self, path: &[&str]) -> Option<String> {
        json::raw(self.text(), path)
    }

    /// The id's text; `None` for notifications.
    pub(crate) fn id(&self) -> Option<String> {
        self.raw(&["id"])
    }

    /// The name a call or a read asks for.
    pub(crate) fn name(&self) -> Option<String> {
        let raw = self.raw(&["params", "name"]).or_else(|| self.raw(&["params", "uri"]))?;
        serde_json::from_str(&raw).ok()
    }

    /// The value of a header that may be there once only.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.one(name)
    }

    /// The JSON-RPC answer with this result.
    pub(crate) fn result(&self, result: &str) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", self.id().unwrap())
    }

    /// The JSON-RPC answer with this error; `data` is JSON text.
    pub(crate) fn error(&self, code: i64, message: &str, data: Option<&str>) -> String {
        let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
        let message = json::quoted(message);
        let id = self.id().unwrap();
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}{data}}}}}"
        )
    }
}

/// What a script answers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// All at once.
    Whole { status: u16, fields: Vec<(String, String)>, body: Vec<u8> },
    /// Step by step, by somebody else.
    Held { steps: mpsc::UnboundedReceiver<Step>, gone: oneshot::Sender<()> },
}

/// One thing a server does while it answers.
#[derive(Debug)]
pub(crate) enum Step {
    /// Writes bytes.
    Write(Vec<u8>),
    /// The answer is complete; the connection serves on.
    Done,
    /// Ends the connection in order.
    Close,
    /// Ends it with a reset.
    Reset,
}

impl Answer {
    /// Any body.
    pub(crate) fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let fields =
            if kind.is_empty() { vec![] } else { vec![("Content-Type".to_owned(), kind.to_owned())] };
        Self::Whole { status, fields, body: body.into() }
    }

    /// 200 and a result.
    pub(crate) fn result(seen: &Seen, result: &str) -> Self {
        Self::new(200, "application/json", seen.result(result))
    }

    /// An error with its status.
    pub(crate) fn error(seen: &Seen, status: u16, code: i64, message: &str) -> Self {
        Self::new(status, "application/json", seen.error(code, message, None))
    }

    /// An event stream of these messages, all at once.
    pub(crate) fn events(messages: &[String]) -> Self {
        let body: String = messages.iter().map(|message| event(message)).collect();
        Self::new(200, "text/event-stream", body)
    }

    /// One header more.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Whole { fields, .. } = &mut self {
            fields.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

/// A message as an event.
pub(crate) fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// The head of an answer; without a length the body is chunked.
pub(crate) fn head(status: u16, fields: &[(String, String)], length: Option<usize>) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in fields {
        text += &format!("{name}: {value}\r\n");
    }
    text += &match length {
        Some(length) => format!("Content-Length: {length}\r\n\r\n"),
        None => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
    };
    text.into_bytes()
}

/// A request that waits for the test to answer it. Dropped unanswered, its connection is closed.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) seen: Seen,
    steps: mpsc::UnboundedSender<Step>,
    gone: oneshot::Receiver<()>,
}

impl Exchange {
    /// An exchange, and the answer that carries it out.
    pub(crate) fn new(seen: Seen) -> (Self, Answer) {
        let (steps, receiver) = mpsc::unbounded_channel();
        let (sender, gone) = oneshot::channel();
        (Self { seen, steps, gone }, Answer::Held { steps: receiver, gone: sender })
    }

    /// The answer to a request that fails in one of the ways of [`Exchange::spoil`].
    pub(crate) fn spoilt(seen: &Seen, how: &str) -> Answer {
        let (exchange, answer) = Self::new(seen.clone());
        exchange.spoil(how);
        answer
    }

    fn step(&self, step: Step) {
        // The gateway may have gone: the test will see it by other means.
        let _ = self.steps.send(step);
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&self, bytes: impl Into<Vec<u8>>) {
        self.step(Step::Write(bytes.into()));
    }

    /// Answers with one JSON message.
    pub(crate) fn reply(self, status: u16, message: &str) {
        let fields = [("Content-Type".to_owned(), "application/json".to_owned())];
        self.write(head(status, &fields, Some(message.len())));
        self.write(message);
        self.step(Step::Done);
    }

    /// Answers with a result.
    pub(crate) fn result(self, result: &str) {
        let message = self.seen.result(result);
        self.reply(200, &message);
    }

    /// Begins an event stream.
    pub(crate) fn open_events(&self) {
        self.write(head(200, &[("Content-Type".to_owned(), "text/event-stream".to_owned())], None));
    }

    /// A piece of a chunked body.
    pub(crate) fn chunk(&self, bytes: &[u8]) {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend(bytes);
        chunk.extend(b"\r\n");
        self.write(chunk);
    }

    /// One message as an event.
    pub(crate) fn event(&self, message: &str) {
        self.chunk(event(message).as_bytes());
    }

    /// The result as the last event, and the end of the stream.
    pub(crate) fn finish(self, result: &str) {
        self.event(&self.seen.result(result));
        self.end();
    }

    /// Ends a chunked body in order.
    pub(crate) fn end(self) {
        self.write("0\r\n\r\n");
        self.step(Step::Done);
    }

    /// Fails: with a status and a page of a proxy, or by "garbage", "reset", or "cut" in the middle of the body.
    pub(crate) fn spoil(self, how: &str) {
        match how {
            "garbage" => self.reply(200, "<html>login</html>"),
            "reset" => self.reset(),
            "cut" => {
                self.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"jsonrpc\"");
                self.close();
            }
            status => self.reply(status.parse().unwrap(), "<html>gateway</html>"),
        }
    }

    /// Closes the connection.
    pub(crate) fn close(self) {
        self.step(Step::Close);
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        self.step(Step::Reset);
    }

    /// Returns once the gateway has closed this request's connection.
    pub(crate) async fn gone(&mut self) {
        within("the gateway gives the request up", &mut self.gone).await.unwrap();
    }

    /// Whether the gateway has closed this request's connection already.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.gone.try_recv().is_ok()
    }
}
