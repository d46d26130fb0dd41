//! Fifty callers with different grants, ten thousand mixed requests and their streams at once: nobody gets a name, a byte,
//! a notice, a cursor or a state of another; with credentials that all share, and with each caller's own: F-055, A-30, A-46,
//! A-57, A-62, issue 4.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::client::{Connection, Reply};
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::{Feed, Stream, TELLS, declare, listen};
use crate::support::gateway::Gateway;
use crate::support::json as text;
use crate::support::people::{People, with};
use crate::support::request::{Mcp, call, mcp};
use crate::support::server::{Held, Offer, Server, tool};
use crate::support::table::{PARAMS, RESULT};
use crate::support::{eventually, scale};

const CALLERS: usize = 50;
/// Rounds of ten requests at scale 1.
const ROUNDS: usize = 10;

/// What only this caller may see. Longer than what sealed states hold by chance.
fn mark(caller: usize) -> String {
    format!("marked-{caller}-mark")
}

/// The tools, and for each caller a resource; `more` are callers who have a second tool.
fn offer(more: &[usize]) -> Offer {
    offer_to(0..CALLERS, more)
}

/// What of it these callers are shown.
fn offer_to(callers: impl Iterator<Item = usize>, more: &[usize]) -> Offer {
    let mut offer = Offer { tools: vec![tool("common")], ..Offer::default() }.fresh();
    offer.resources.push(r#"{"uri":"x://all/r","name":"all"}"#.to_owned());
    for caller in callers {
        let mark = mark(caller);
        offer.tools.push(tool(&format!("t_{mark}")));
        if more.contains(&caller) {
            offer.tools.push(tool(&format!("u_{mark}")));
        }
        offer.resources.push(format!("{{\"uri\":\"x://{mark}/r\",\"name\":\"{mark}\"}}"));
    }
    offer
}

fn grants() -> String {
    let of = |caller: usize| {
        let mark = mark(caller);
        format!(
            "[[grant]]\nto = {{ n = {caller} }}\nservers = [\"s\"]\ntools = [\"?_{mark}\"]\nresources = [\"x://{mark}/*\"]\n"
        )
    };
    let common = "[[grant]]\nservers = [\"s\"]\ntools = [\"common\"]\nresources = [\"x://all/*\"]\n";
    common.to_owned() + &(0..CALLERS).map(of).collect::<String>()
}

/// A list: who comes as himself is shown only what is his, and the gateway everything.
fn list(seen: &Seen, more: &[usize]) -> Answer {
    let shown = seen.header("authorization").unwrap_or_default();
    let who = (0..CALLERS).find(|caller| shown.starts_with(&format!("Bearer for-{}-", mark(*caller))));
    let offer = who.map_or_else(|| offer(more), |who| offer_to(std::iter::once(who), more));
    let (key, items) = match seen.method().as_str() {
        "tools/list" => ("tools", offer.tools),
        _ => ("resources", offer.resources),
    };
    let items = items.join(",");
    Answer::result(seen, &format!("{{\"{key}\":[{items}],\"ttlMs\":3600000,\"cacheScope\":\"public\"}}"))
}

/// Asks once, with a state of the caller's, and then answers with the name and the credential it was shown. Public, if one
/// believes it.
fn answer(seen: &Seen) -> Answer {
    let shown = text::quoted(&seen.header("authorization").unwrap_or_default());
    let name = text::quoted(&seen.name().unwrap());
    if seen.method() == "resources/read" {
        let result = format!(
            "{{\"contents\":[{{\"uri\":{name},\"text\":{shown}}}],\"ttlMs\":3600000,\"cacheScope\":\"public\"}}"
        );
        return Answer::result(seen, &result);
    }
    let state = text::quoted(&format!("state of {name}"));
    match seen.raw(&["params", "requestState"]) {
        None => Answer::result(
            seen,
            &format!("{{\"resultType\":\"input_required\",\"inputRequests\":{{}},\"requestState\":{state}}}"),
        ),
        Some(given) => {
            let fits = given == state;
            let content = format!("{{\"name\":{name},\"shown\":{shown},\"fits\":{fits}}}");
            Answer::result(seen, &format!("{{\"content\":[],\"structuredContent\":{content}}}"))
        }
    }
}

/// The server's streams, acknowledged as they come.
fn accept(mut held: Held) -> (Arc<Mutex<Vec<Feed>>>, tokio::task::JoinHandle<()>) {
    let feeds = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&feeds);
    let accepting = tokio::spawn(async move {
        while let Some(exchange) = held.later().await {
            shared.lock().unwrap().push(Feed::accept(exchange));
        }
    });
    (feeds, accepting)
}

struct Bench {
    people: People,
    server: Server,
    gateway: Gateway,
    feeds: Arc<Mutex<Vec<Feed>>>,
    /// Callers who have a second tool.
    more: Arc<Mutex<Vec<usize>>>,
    accepting: tokio::task::JoinHandle<()>,
    per_user: bool,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn bench(per_user: bool) -> Bench {
    let people = People::new().await;
    let server = Server::modern("s", offer(&[])).await;
    declare(&server, TELLS);
    let more = Arc::new(Mutex::new(Vec::new()));
    for method in ["tools/list", "resources/list"] {
        let more = Arc::clone(&more);
        server.on(method, move |seen| list(seen, &more.lock().unwrap()));
    }
    server.on("tools/call", answer);
    server.on("resources/read", answer);
    let (feeds, accepting) = accept(server.hold("subscriptions/listen"));
    let shared = "[server.credentials]\nkind = \"bearer\"\ntoken = \"shared\"".to_owned();
    let credentials = if per_user { people.exchange("") } else { shared };
    let setup = people.setup().gateway("page_size = 1").toml(&grants());
    let gateway = setup.http("s", &server.url(), &credentials).start().await;
    Bench { people, server, gateway, feeds, more, accepting, per_user }
}

/// One of them, with a token and connection of his own.
struct Caller<'b> {
    bench: &'b Bench,
    own: usize,
    token: String,
    connection: Connection,
}

impl Caller<'_> {
    async fn ask(&mut self, request: Mcp) -> Reply {
        let reply = self.connection.send(with(request, &self.token)).await;
        self.clean(reply.text());
        reply
    }

    /// Nothing of anybody else is in it.
    #[track_caller]
    fn clean(&self, all: &str) {
        let foreign = (0..CALLERS).filter(|at| *at != self.own).find(|at| all.contains(&mark(*at)));
        assert_eq!(foreign, None, "{} got {all}", mark(self.own));
    }

    /// What the server was shown for this caller.
    #[track_caller]
    fn shown(&self, shown: &Value) {
        let shown = shown.as_str().unwrap();
        let fits = if self.bench.per_user {
            shown.starts_with(&format!("Bearer for-{}-", mark(self.own)))
        } else {
            shown == "Bearer shared"
        };
        assert!(fits, "{}: {shown}", mark(self.own));
    }

    /// All rounds, while the server tells of this caller's resource.
    async fn run(mut self, tokens: &[String]) -> Self {
        for _ in 0..ROUNDS * scale() {
            self.round(&tokens[(self.own + 1) % CALLERS]).await;
            let uri = format!("x://{}/r", mark(self.own));
            self.bench.feeds.lock().unwrap().iter().for_each(|feed| feed.updated(&uri));
        }
        self
    }

    /// Ten requests: pages, a call with its retry, and what another may not do with what it gave.
    async fn round(&mut self, other: &str) {
        let who = mark(self.own);
        let name = format!("s_t_{who}");
        let first = self.ask(mcp("tools/list", "{}")).await;
        assert_eq!(first.result()["tools"][0]["name"], "s_common", "{first:?}");
        let cursor = first.result()["nextCursor"].clone();
        let page = mcp("tools/list", json!({ "cursor": cursor }));
        let second = self.ask(page.clone()).await;
        assert_eq!(second.result()["tools"][0]["name"], name.as_str(), "{second:?}");
        let stolen = self.connection.send(with(page, other)).await;
        assert_eq!(stolen.code(), Some(PARAMS), "a cursor of another: {stolen:?}");
        let state = self.ask(call(&name, "{}")).await.result()["requestState"].clone();
        assert!(state.is_string(), "{state}");
        let retry = |name: &str| {
            let params =
                json!({ "name": name, "arguments": {}, "inputResponses": {}, "requestState": state });
            mcp("tools/call", params)
        };
        for name in [name.as_str(), "s_common"] {
            let stolen = self.connection.send(with(retry(name), other)).await;
            assert_eq!(stolen.code(), Some(PARAMS), "a state of another: {stolen:?}");
        }
        let done = self.ask(retry(&name)).await.result()["structuredContent"].clone();
        assert_eq!((&done["name"], &done["fits"]), (&json!(format!("t_{who}")), &json!(true)), "{done}");
        self.shown(&done["shown"]);
        for uri in [format!("x://{who}/r"), "x://all/r".to_owned()] {
            let read = self.ask(mcp("resources/read", json!({ "uri": uri }))).await;
            assert_eq!(read.result()["contents"][0]["uri"], uri.as_str(), "{read:?}");
            self.shown(&read.result()["contents"][0]["text"]);
        }
        let foreign = json!({ "uri": format!("x://{}/r", mark((self.own + 1) % CALLERS)) });
        let read = self.connection.send(with(mcp("resources/read", foreign), &self.token)).await;
        assert_eq!(read.code(), Some(PARAMS), "{read:?}");
    }

    /// A stream for its own resource and that of another, which is not honoured. An acknowledgement waits a moment for the
    /// server only, so streams are opened until the server has agreed, however slow this machine is.
    async fn listen(&self) -> Stream {
        let (own, next) = (format!("x://{}/r", mark(self.own)), mark((self.own + 1) % CALLERS));
        let uris = json!([own, format!("x://{next}/r")]);
        let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": uris }).to_string();
        let mut early = Vec::new();
        eventually("the server agrees", async || {
            let request = with(listen("1", &filter), &self.token);
            let stream = Stream::ask(self.bench.gateway.connect().await, request, "1").await;
            self.clean(&stream.honoured.to_string());
            let agreed = stream.honoured["resourceSubscriptions"] == json!([own]);
            early.push(stream);
            agreed
        })
        .await;
        early.pop().unwrap()
    }
}

async fn caller(bench: &Bench, own: usize) -> Caller<'_> {
    let token = bench.people.token_of(&mark(own), json!({ "n": own }));
    Caller { bench, own, token, connection: bench.gateway.connect().await }
}

/// Everybody at once, while the server tells of everybody's resource again and again.
async fn storm(per_user: bool) {
    let bench = &bench(per_user).await;
    let tokens: Vec<String> =
        (0..CALLERS).map(|n| bench.people.token_of(&mark(n), json!({ "n": n, "jti": "other" }))).collect();
    let tokens = &tokens;
    let callers = join_all((0..CALLERS).map(|own| caller(bench, own))).await;
    let streams = join_all(callers.iter().map(Caller::listen)).await;
    // Acknowledged or not yet: every wish is told to the server in the end.
    let wanted = (0..CALLERS).map(|own| format!("x://{}/r", mark(own))).collect::<Vec<_>>();
    eventually("the server is asked about every resource", async || {
        let feeds = bench.feeds.lock().unwrap();
        // One stream for all, or one for each: then it is asked about its caller's own only.
        let newest = if per_user { 0 } else { feeds.len().saturating_sub(1) };
        let asked = feeds[newest..].iter().map(|feed| feed.asked()["resourceSubscriptions"].to_string());
        let asked: String = asked.collect();
        wanted.iter().all(|uri| asked.contains(uri.as_str()))
    })
    .await;
    let callers = join_all(callers.into_iter().map(|caller| caller.run(tokens))).await;
    // Every second one gets a tool more.
    let more: Vec<usize> = (0..CALLERS).step_by(2).collect();
    *bench.more.lock().unwrap() = more;
    bench.feeds.lock().unwrap().iter().for_each(|feed| feed.changed("tools"));
    let heard = callers.iter().zip(streams).map(|(caller, mut stream)| async move {
        let own = format!("x://{}/r", mark(caller.own));
        let mut told = 0;
        // Updates of its own, and if it gains a tool, that.
        loop {
            let notice = stream.notice().await;
            caller.clean(&notice);
            told += 1;
            match notice.as_str() {
                "tools" => break assert!(caller.own % 2 == 0, "{} gained nothing", mark(caller.own)),
                uri => assert_eq!(uri, own),
            }
            if caller.own % 2 == 1 {
                break;
            }
        }
        (stream, told)
    });
    let streams = join_all(heard).await;
    for mut caller in callers {
        let tools = caller.ask(mcp("tools/list", "{}")).await.result()["nextCursor"].clone();
        let page = caller.ask(mcp("tools/list", json!({ "cursor": tools }))).await;
        assert_eq!(page.verdict(), (200, Some(RESULT)));
        assert_eq!(page.result().get("nextCursor").is_some(), caller.own % 2 == 0, "{page:?}");
    }
    // To their ends: nobody hears of a list that did not change for him.
    bench.gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let ends = streams.into_iter().enumerate().map(|(own, (mut stream, _))| async move {
        while let Some(message) = stream.next().await {
            let gained = message["method"] == "notifications/tools/list_changed";
            assert!(!gained || own % 2 == 0, "{own} gained nothing: {message}");
            if message.get("result").is_some() {
                break;
            }
            let all = message.to_string();
            assert!((0..CALLERS).all(|at| at == own || !all.contains(&mark(at))), "{own} got {all}");
        }
    });
    join_all(ends).await;
    let heads: Vec<String> = bench.server.seen().iter().map(|seen| format!("{:?}", seen.head)).collect();
    let heads = heads.concat();
    for (own, token) in tokens.iter().enumerate() {
        assert!(!heads.contains(token), "the token of {own} stays here");
    }
}

/// Covers: F-055, F-043 (a state of another is refused), A-57, A-62, L-44.
#[tokio::test(flavor = "multi_thread")]
async fn f_055_fifty_callers_behind_one_credential() {
    storm(false).await;
}

/// Covers: F-055, F-043, A-30, A-44, A-46, A-57, A-62, L-44.
#[tokio::test(flavor = "multi_thread")]
async fn f_055_fifty_callers_each_as_himself() {
    storm(true).await;
}
