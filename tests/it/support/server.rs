//! A scripted MCP server over HTTP/1.1, in this process: answers by method, records everything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::exchange::{Answer, Exchange, Seen, Step, head};
use super::wire::Wire;
use super::{eventually, json, within};

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;
type Guard = Arc<dyn Fn(&Seen) -> Option<Answer> + Send + Sync>;

/// What a server offers: each item is the text of its definition.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offer {
    pub(crate) tools: Vec<String>,
    pub(crate) prompts: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) templates: Vec<String>,
    /// Members of `capabilities` beyond those the items imply, as `"key":value`.
    pub(crate) capabilities: Vec<String>,
    /// Members of every list result, as `"ttlMs":0`.
    pub(crate) hints: Vec<String>,
}

impl Offer {
    /// Tools of these names that take any object, listed as fresh for an hour.
    pub(crate) fn tools(names: &[&str]) -> Self {
        Self { tools: names.iter().map(|name| tool(name)).collect(), ..Self::default() }.fresh()
    }

    /// Tools by their definitions, listed as fresh for an hour.
    pub(crate) fn defined(tools: &[&str]) -> Self {
        Self { tools: tools.iter().map(|text| (*text).to_owned()).collect(), ..Self::default() }.fresh()
    }

    /// Lists may be cached for an hour.
    pub(crate) fn fresh(mut self) -> Self {
        self.hints = vec!["\"ttlMs\":3600000".to_owned(), "\"cacheScope\":\"public\"".to_owned()];
        self
    }

    /// Lists may not be cached.
    pub(crate) fn stale(mut self) -> Self {
        self.hints = vec!["\"ttlMs\":0".to_owned()];
        self
    }

    fn capability_text(&self) -> String {
        let mut all = self.capabilities.clone();
        let lists = [
            ("tools", self.tools.is_empty()),
            ("prompts", self.prompts.is_empty()),
            ("resources", self.resources.is_empty() && self.templates.is_empty()),
        ];
        // What is given in full is not implied as well.
        let given = |name: &str| self.capabilities.iter().any(|c| c.starts_with(&format!("\"{name}\"")));
        let implied = lists.iter().filter(|(name, none)| !none && !given(name));
        all.extend(implied.map(|(name, _)| format!("\"{name}\":{{}}")));
        format!("{{{}}}", all.join(","))
    }

    fn list(&self, key: &str, items: &[String]) -> String {
        let mut members = self.hints.clone();
        members.push(format!("\"{key}\":[{}]", items.join(",")));
        format!("{{{}}}", members.join(","))
    }
}

/// A tool that takes any object.
pub(crate) fn tool(name: &str) -> String {
    format!("{{\"name\":{},\"inputSchema\":{{\"type\":\"object\"}}}}", json::quoted(name))
}

/// A scripted server. It ends with the value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    name: String,
    legacy: bool,
    offer: Mutex<Offer>,
    scripts: Mutex<BTreeMap<String, Script>>,
    guard: Mutex<Option<Guard>>,
    seen: Mutex<Vec<Seen>>,
    sessions: Mutex<BTreeSet<String>>,
    minted: AtomicUsize,
    accepted: AtomicUsize,
    open: AtomicUsize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    /// A server of 2026-07-28 and nothing else.
    pub(crate) async fn modern(name: &str, offer: Offer) -> Self {
        Self::start(name, offer, false).await
    }

    /// A server of 2025-11-25 with sessions and nothing else.
    pub(crate) async fn legacy(name: &str, offer: Offer) -> Self {
        Self::start(name, offer, true).await
    }

    async fn start(name: &str, offer: Offer, legacy: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            legacy,
            offer: Mutex::new(offer),
            scripts: Mutex::default(),
            guard: Mutex::default(),
            seen: Mutex::default(),
            sessions: Mutex::default(),
            minted: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    /// Its endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Answers a method from now on; `*` is every method without a script.
    pub(crate) fn on(&self, method: &str, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
        self.shared.scripts.lock().unwrap().insert(method.to_owned(), Arc::new(script));
    }

    /// From now on every request is looked at first: what is given is the answer.
    pub(crate) fn guard(&self, guard: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static) {
        *self.shared.guard.lock().unwrap() = Some(Arc::new(guard));
    }

    /// From now on requests of a method wait for the test.
    pub(crate) fn hold(&self, method: &str) -> Held {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.on(method, move |seen| {
            let (exchange, answer) = Exchange::new(seen.clone());
            // A test that no longer waits lets the exchange fall: the connection closes.
            let _ = sender.send(exchange);
            answer
        });
        Held(receiver)
    }

    /// From now on a method is answered as it was at first.
    pub(crate) fn release(&self, method: &str) {
        self.shared.scripts.lock().unwrap().remove(method);
    }

    /// Offers something else from now on.
    pub(crate) fn offer(&self, offer: Offer) {
        *self.shared.offer.lock().unwrap() = offer;
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Every request of a method so far.
    pub(crate) fn requests(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }

    /// The only call so far since `before` calls.
    pub(crate) fn last_call(&self) -> Seen {
        self.requests("tools/call").pop().expect("a call reached the server")
    }

    /// Forgets every session.
    pub(crate) fn wipe_sessions(&self) {
        self.shared.sessions.lock().unwrap().clear();
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Waits until a method was asked for so many times in all.
    pub(crate) async fn asked(&self, method: &str, times: usize) {
        let what = format!("{times} × {method} at {}", self.shared.name);
        eventually(&what, async || self.requests(method).len() >= times).await;
    }
}

/// Requests that wait for the test, in the order they came.
#[derive(Debug)]
pub(crate) struct Held(mpsc::UnboundedReceiver<Exchange>);

impl Held {
    pub(crate) async fn next(&mut self) -> Exchange {
        within("a held request", self.0.recv()).await.unwrap()
    }

    /// The next one whenever it comes; `None` when none can come any more.
    pub(crate) async fn later(&mut self) -> Option<Exchange> {
        self.0.recv().await
    }

    /// Whether a request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        connections.spawn(serve(stream, Arc::clone(&shared), number));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, number: usize) {
    shared.open.fetch_add(1, Ordering::SeqCst);
    let mut wire = Wire::new(stream);
    while let Ok(Some(head)) = wire.head().await {
        let Ok(body) = wire.body(head.framing(false)).await else { break };
        let seen = Seen { head, body, connection: number };
        shared.seen.lock().unwrap().push(seen.clone());
        match shared.answer(&seen) {
            Answer::Whole { status, fields, body } => {
                let mut bytes = head_of(status, &fields, body.len());
                bytes.extend(body);
                if wire.write(&bytes).await.is_err() {
                    break;
                }
            }
            Answer::Held { steps, gone } => {
                let Some(back) = carry_out(wire, steps, gone).await else { break };
                wire = back;
            }
        }
    }
    shared.open.fetch_sub(1, Ordering::SeqCst);
}

fn head_of(status: u16, fields: &[(String, String)], length: usize) -> Vec<u8> {
    head(status, fields, Some(length))
}

/// Writes as the test says, and tells it when the gateway has gone.
async fn carry_out(
    mut wire: Wire,
    mut steps: mpsc::UnboundedReceiver<Step>,
    gone: oneshot::Sender<()>,
) -> Option<Wire> {
    loop {
        let step = tokio::select! {
            step = steps.recv() => step,
            () = wire.closed() => {
                let _ = gone.send(());
                return None;
            }
        };
        match step {
            Some(Step::Write(bytes)) => {
                if wire.write(&bytes).await.is_err() {
                    let _ = gone.send(());
                    return None;
                }
            }
            Some(Step::Done) => return Some(wire),
            Some(Step::Reset) => {
                wire.reset();
                return None;
            }
            Some(Step::Close) | None => return None,
        }
    }
}

impl Shared {
    fn answer(&self, seen: &Seen) -> Answer {
        let method = seen.method();
        let guard = self.guard.lock().unwrap().clone();
        if let Some(answer) = guard.and_then(|guard| guard(seen)) {
            return answer;
        }
        let script = {
            let scripts = self.scripts.lock().unwrap();
            scripts.get(&method).or_else(|| scripts.get("*")).map(Arc::clone)
        };
        match script {
            Some(script) => script(seen),
            None if self.legacy => self.legacy_answer(seen, &method),
            None => self.modern_answer(seen, &method),
        }
    }

    fn modern_answer(&self, seen: &Seen, method: &str) -> Answer {
        if method == "server/discover" {
            let capabilities = self.offer.lock().unwrap().capability_text();
            let text = format!(
                "{{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{capabilities},\"ttlMs\":0,\"cacheScope\":\"public\"}}"
            );
            return Answer::result(seen, &text);
        }
        self.common_answer(seen, method).unwrap_or_else(|| Answer::error(seen, 404, -32601, "not here"))
    }

    fn legacy_answer(&self, seen: &Seen, method: &str) -> Answer {
        let session = seen.header("mcp-session-id");
        if method == "initialize" {
            let id = {
                let mut sessions = self.sessions.lock().unwrap();
                // Never the same twice, also after all were forgotten.
                let id = format!("session-{}-{}", self.name, self.minted.fetch_add(1, Ordering::SeqCst));
                sessions.insert(id.clone());
                id
            };
            let capabilities = self.offer.lock().unwrap().capability_text();
            let name = json::quoted(&self.name);
            let text = format!(
                "{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{capabilities},\"serverInfo\":{{\"name\":{name},\"version\":\"1\"}}}}"
            );
            return Answer::result(seen, &text).with("Mcp-Session-Id", &id);
        }
        match session {
            None => Answer::new(400, "text/plain", "a session is needed"),
            Some(id) if !self.sessions.lock().unwrap().contains(&id) => Answer::new(404, "", ""),
            Some(_) if method == "GET" => Answer::new(405, "", ""),
            Some(_) if method == "DELETE" => Answer::new(200, "", ""),
            Some(_) if seen.id().is_none() => Answer::new(202, "", ""),
            Some(_) => self
                .common_answer(seen, method)
                .unwrap_or_else(|| Answer::error(seen, 200, -32601, "not here")),
        }
    }

    fn common_answer(&self, seen: &Seen, method: &str) -> Option<Answer> {
        let offer = self.offer.lock().unwrap();
        let text = match method {
            "tools/list" => offer.list("tools", &offer.tools),
            "prompts/list" => offer.list("prompts", &offer.prompts),
            "resources/list" => offer.list("resources", &offer.resources),
            "resources/templates/list" => offer.list("resourceTemplates", &offer.templates),
            "tools/call" => self.echo(seen),
            "prompts/get" => format!("{{\"messages\":[],\"description\":{}}}", json::quoted(&self.who(seen))),
            "resources/read" => {
                let uri = seen.raw(&["params", "uri"])?;
                format!("{{\"contents\":[{{\"uri\":{uri},\"text\":{}}}]}}", json::quoted(&self.who(seen)))
            }
            _ => return None,
        };
        Some(Answer::result(seen, &text))
    }

    /// Who answers, and the native name it was asked for.
    fn who(&self, seen: &Seen) -> String {
        format!("{}:{}", self.name, seen.name().unwrap_or_default())
    }

    /// The default of `tools/call`: the arguments come back byte for byte.
    fn echo(&self, seen: &Seen) -> String {
        let arguments = seen.raw(&["params", "arguments"]).unwrap_or_else(|| "null".to_owned());
        let who = json::quoted(&self.who(seen));
        format!("{{\"content\":[{{\"type\":\"text\",\"text\":{who}}}],\"structuredContent\":{arguments}}}")
    }
}
