//! A scripted server of the 2024-11-05 transport: a stream that names an endpoint, answers on the stream.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::exchange::{Answer, Exchange, Seen};
use super::feed;
use super::gateway::{Gateway, Setup};
use super::server::{Offer, Server, tool};
use super::{eventually, within};

type Endpoint = Arc<dyn Fn(usize) -> Vec<u8> + Send + Sync>;
type Answered = Arc<dyn Fn(&Seen) -> Option<String> + Send + Sync>;

/// One stream for everything, so that streams can be counted.
pub(crate) const PINNED: &str = "protocol = \"sse\"\nsession_scope = \"shared\"";

/// A gateway before this server, whose one tool it has listed.
pub(crate) async fn pinned(server: &SseServer, more: &str) -> Gateway {
    let gateway = Setup::new().http("s", &server.url(), &format!("{PINNED}\n{more}")).start().await;
    assert_eq!(feed::names(&mut gateway.connect().await, "tools/list").await, ["s_t"]);
    gateway
}

/// A server at `/sse` whose streams are numbered from 1. It ends with the value.
#[derive(Debug)]
pub(crate) struct SseServer {
    pub(crate) server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    streams: Mutex<Vec<Option<Exchange>>>,
    endpoint: Mutex<Endpoint>,
    answered: Mutex<Answered>,
    held: Mutex<Option<mpsc::UnboundedSender<Seen>>>,
    refused: AtomicUsize,
    muted: AtomicUsize,
    version: Mutex<String>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Calls that wait for the test.
#[derive(Debug)]
pub(crate) struct Calls(mpsc::UnboundedReceiver<Seen>);

impl Calls {
    pub(crate) async fn next(&mut self) -> Seen {
        within("a call at the server", self.0.recv()).await.unwrap()
    }
}

/// The bytes by which a stream names its endpoint.
pub(crate) fn names(endpoint: &str) -> Vec<u8> {
    format!("event: endpoint\ndata: {endpoint}\n\n").into_bytes()
}

/// Which stream a POST belongs to, by the endpoint it came to.
pub(crate) fn session(seen: &Seen) -> Option<usize> {
    let path = seen.head.first.split(' ').nth(1)?;
    path.split_once("/messages?s=")?.1.parse().ok()
}

impl SseServer {
    /// A server of one tool, `t`.
    pub(crate) async fn new(name: &str) -> Self {
        let server = Server::legacy(name, Offer::tools(&[])).await;
        let shared = Arc::new(Shared {
            streams: Mutex::default(),
            endpoint: Mutex::new(Arc::new(|number| names(&format!("/messages?s={number}")))),
            answered: Mutex::new(Arc::new(|_| None)),
            held: Mutex::default(),
            refused: AtomicUsize::new(0),
            muted: AtomicUsize::new(0),
            version: Mutex::new("2024-11-05".to_owned()),
        });
        let own = Arc::clone(&shared);
        server.on("GET", move |seen| own.get(seen));
        let own = Arc::clone(&shared);
        server.on("*", move |seen| own.post(seen));
        Self { server, shared }
    }

    /// Where its stream is.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/sse", self.server.address)
    }

    /// From now on streams begin with these bytes; the argument is the stream's number.
    pub(crate) fn begin(&self, bytes: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) {
        *self.shared.endpoint.lock().unwrap() = Arc::new(bytes);
    }

    /// From now on requests for which this gives a result get that one.
    pub(crate) fn answer(&self, result: impl Fn(&Seen) -> Option<String> + Send + Sync + 'static) {
        *self.shared.answered.lock().unwrap() = Arc::new(result);
    }

    /// From now on `initialize` is answered with this revision.
    pub(crate) fn version(&self, version: &str) {
        version.clone_into(&mut self.shared.version.lock().unwrap());
    }

    /// From now on calls are accepted and left to the test.
    pub(crate) fn hold(&self) -> Calls {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.shared.held.lock().unwrap() = Some(sender);
        Calls(receiver)
    }

    /// From now on calls are answered again.
    pub(crate) fn release(&self) {
        *self.shared.held.lock().unwrap() = None;
    }

    /// Refuses the next POSTs to endpoints with 404: it has forgotten their sessions.
    pub(crate) fn refuse(&self, times: usize) {
        self.shared.refused.store(times, Ordering::SeqCst);
    }

    /// From now on nothing of a stream arrives, while it stays open.
    pub(crate) fn mute(&self, stream: usize) {
        self.shared.muted.store(stream, Ordering::SeqCst);
    }

    /// Streams opened so far.
    pub(crate) fn streams(&self) -> usize {
        self.shared.streams.lock().unwrap().len()
    }

    /// Waits until so many streams were opened in all.
    pub(crate) async fn opened(&self, count: usize) {
        eventually("a stream is opened", async || self.streams() >= count).await;
    }

    /// Writes bytes to a stream, by its number.
    pub(crate) fn write(&self, stream: usize, bytes: &[u8]) {
        self.shared.on(stream, |exchange| exchange.chunk(bytes));
    }

    /// A message on a stream.
    pub(crate) fn say(&self, stream: usize, message: &str) {
        self.shared.on(stream, |exchange| exchange.event(message));
    }

    /// Closes a stream.
    pub(crate) fn cut(&self, stream: usize) {
        let exchange = self.shared.streams.lock().unwrap()[stream - 1].take();
        exchange.expect("the stream is open").close();
    }

    /// Whether the gateway has closed a stream.
    pub(crate) fn is_gone(&self, stream: usize) -> bool {
        self.shared.streams.lock().unwrap()[stream - 1].as_mut().is_none_or(Exchange::is_gone)
    }
}

impl Shared {
    fn on(&self, stream: usize, act: impl FnOnce(&Exchange)) {
        if self.muted.load(Ordering::SeqCst) == stream {
            return;
        }
        if let Some(exchange) = &self.streams.lock().unwrap()[stream - 1] {
            act(exchange);
        }
    }

    fn get(&self, seen: &Seen) -> Answer {
        let (exchange, answer) = Exchange::new(seen.clone());
        let mut streams = self.streams.lock().unwrap();
        exchange.open_events();
        let begin = Arc::clone(&*self.endpoint.lock().unwrap());
        exchange.chunk(&begin(streams.len() + 1));
        streams.push(Some(exchange));
        answer
    }

    fn post(&self, seen: &Seen) -> Answer {
        let Some(stream) = session(seen) else {
            return Answer::new(405, "text/plain", "Method Not Allowed");
        };
        let refuse = |left: usize| left.checked_sub(1);
        if self.refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok() {
            return Answer::new(404, "text/plain", "Could not find session");
        }
        if seen.id().is_some() && seen.raw(&["method"]).is_some() {
            let held = self.held.lock().unwrap();
            match held.as_ref().filter(|_| seen.method() == "tools/call") {
                Some(held) => drop(held.send(seen.clone())),
                None => self.on(stream, |exchange| exchange.event(&self.reply(seen))),
            }
        }
        Answer::new(202, "text/plain", "Accepted")
    }

    fn reply(&self, seen: &Seen) -> String {
        let answered = Arc::clone(&*self.answered.lock().unwrap());
        if let Some(result) = answered(seen) {
            return seen.result(&result);
        }
        match seen.method().as_str() {
            "initialize" => seen.result(&format!(
                r#"{{"protocolVersion":"{}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#,
                self.version.lock().unwrap()
            )),
            "tools/list" => seen.result(&format!(r#"{{"tools":[{}]}}"#, tool("t"))),
            "tools/call" => {
                let arguments = seen.raw(&["params", "arguments"]).unwrap_or_else(|| "null".to_owned());
                seen.result(&format!(r#"{{"content":[],"structuredContent":{arguments}}}"#))
            }
            _ => seen.error(-32601, "Method not found", None),
        }
    }
}
