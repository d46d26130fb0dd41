//! One stream of changes per server, whatever the number of clients; opened again after every end, never in a loop;
//! what was missed is found out: S-20..S-26, S-31, S-52, S-53, L-24, F-008, design §5.

use std::time::{Duration, Instant};

use crate::support::child::Child;
use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::feed::{Feed, Stream, TELLS, declare, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::call;
use crate::support::server::{Held, Offer, Server};

const ALL: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;
const TOOLS: &str = r#"{"toolsListChanged":true}"#;

/// A server that tells of changes, and its streams as they are opened.
async fn telling(name: &str, tools: &[&str]) -> (Server, Held) {
    let server = Server::modern(name, Offer::tools(tools)).await;
    declare(&server, TELLS);
    let held = server.hold("subscriptions/listen");
    (server, held)
}

/// Calls of `change` add a tool and tell of it; of `end` end the process.
const CHANGING: &str = r#"
names, listens = ["change", "end"], []
def called(m, line):
    if m["params"]["name"] == "end":
        os._exit(0)
    names.append("t%d" % len(names))
    result(m, '{"content":[]}')
    for meta in listens:
        send('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"%s}' % meta)
def listen(m, line):
    meta = ',"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%d}' % m["id"]
    send('{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"%s,"notifications":%s}}' % (meta, json.dumps(m["params"]["notifications"])))
    listens.append(meta + "}")
TELLS = '{"tools":{"listChanged":true}}'
"#;

fn modern_child() -> Child {
    Child::python(&format!(
        r#"{CHANGING}
serve({{"server/discover": DISCOVER.replace('{{"tools":{{}}}}', TELLS), "subscriptions/listen": listen,
       "tools/list": lambda m, line: result(m, tools(*names)), "tools/call": called}})"#
    ))
}

fn legacy_child() -> Child {
    Child::python(&format!(
        r#"{CHANGING}
listens.append("")
serve({{"initialize": INITIALIZE.replace('{{"tools":{{}}}}', TELLS),
       "tools/list": lambda m, line: result(m, tools(*names)), "tools/call": called}})"#
    ))
}

async fn tools(gateway: &Gateway) -> Vec<String> {
    names(&mut gateway.connect().await, "tools/list").await
}

/// Covers: S-20, S-31, S-56, design §5: at rest there is one stream a server; each way of telling reaches every client.
#[tokio::test(flavor = "multi_thread")]
async fn s_31_one_stream_a_server_reaches_every_client() {
    let (modern, mut streams) = telling("m", &["t"]).await;
    let mut offer = Offer::tools(&[]);
    offer.capabilities = vec![r#""tools":{"listChanged":true}"#.to_owned()];
    let legacy = Server::legacy("l", offer).await;
    let mut gets = legacy.hold("GET");
    let (new, old) = (modern_child(), legacy_child());
    let gateway = Setup::new()
        .http("m", &modern.url(), "")
        .http("l", &legacy.url(), "")
        .stdio("new", &new.argv(), "")
        .stdio("old", &old.argv(), "")
        .start()
        .await;
    let feed = Feed::accept(streams.next().await);
    let get = Feed::legacy(gets.next().await);
    assert_eq!(
        feed.asked(),
        serde_json::json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
    );
    let at_start = ["m_t", "new_change", "new_end", "old_change", "old_end"];
    eventually("all lists", async || tools(&gateway).await == at_start).await;
    let mut clients = Vec::new();
    for id in 0..30 {
        clients.push(Stream::open(&gateway, &id.to_string(), ALL).await);
    }
    assert_eq!(gateway.metric("gatehouse_listen_streams", &[]).await, 30.0);

    let everybody = async |clients: &mut Vec<Stream>| {
        for client in clients {
            assert_eq!(client.notice().await, "tools");
        }
    };
    modern.offer(Offer::tools(&["t", "more"]));
    feed.changed("tools");
    everybody(&mut clients).await;
    assert!(tools(&gateway).await.contains(&"m_more".to_owned()));
    legacy.offer(Offer::tools(&["first"]));
    get.changed("tools");
    everybody(&mut clients).await;
    assert!(tools(&gateway).await.contains(&"l_first".to_owned()));
    for (call_of, made) in [("new_change", "new_t2"), ("old_change", "old_t2")] {
        gateway.send(call(call_of, "{}")).await;
        everybody(&mut clients).await;
        assert!(tools(&gateway).await.contains(&made.to_owned()), "{made}");
    }
    assert_eq!(modern.requests("subscriptions/listen").len(), 1);
    assert_eq!(legacy.requests("GET").len(), 1);
    assert_eq!(new.requests("subscriptions/listen").len(), 1);
    for server in ["m", "l", "new", "old"] {
        let labels = [("server", server), ("kind", "tools"), ("direction", "in")];
        assert_eq!(gateway.metric("gatehouse_list_changed_total", &labels).await, 1.0, "{server}");
    }
    assert_eq!(gateway.metric("gatehouse_list_changed_total", &[("direction", "out")]).await, 120.0);
    drop(clients);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 0.0).await;
}

/// Covers: S-22, S-23: the same when a child ends and is started again.
#[tokio::test(flavor = "multi_thread")]
async fn s_22_a_child_is_listened_to_again() {
    let child = modern_child();
    let gateway = Setup::new().stdio("c", &child.argv(), "").start().await;
    eventually("it is listened to", async || child.requests("subscriptions/listen").len() == 1).await;
    let mut client = Stream::open(&gateway, "1", TOOLS).await;
    gateway.send(call("c_change", "{}")).await;
    assert_eq!(client.notice().await, "tools");
    assert_eq!(tools(&gateway).await, ["c_change", "c_end", "c_t2"]);
    gateway.send(call("c_end", "{}")).await;
    // Started again it has forgotten what it had added.
    eventually("it is listened to again", async || child.requests("subscriptions/listen").len() == 2).await;
    assert_eq!(client.notice().await, "tools");
    assert_eq!(tools(&gateway).await, ["c_change", "c_end"]);
    gateway.send(call("c_change", "{}")).await;
    assert_eq!(client.notice().await, "tools");
}

type Refusal = (&'static str, fn() -> Answer);

/// Covers: F-008, S-22, S-53: no stream, a stream that ends at once, and every refusal: no loop, and no notice.
#[tokio::test(flavor = "multi_thread")]
async fn f_008_servers_without_a_stream_cause_no_loop() {
    const REFUSALS: &[Refusal] = &[
        ("a405", || Answer::new(405, "", "")),
        ("a404", || Answer::new(400, "text/plain", "no")),
        ("ok", || Answer::new(200, "application/json", "{}")),
        ("ends", || Answer::new(200, "text/event-stream", ": bye\n\n")),
        ("e500", || Answer::new(500, "", "")),
    ];
    let mut setup = Setup::new();
    let mut servers = Vec::new();
    for (name, answer) in REFUSALS {
        let mut offer = Offer::tools(&[]);
        offer.capabilities = vec![r#""tools":{"listChanged":true}"#.to_owned()];
        let legacy = Server::legacy(name, offer).await;
        legacy.on("GET", |_| answer());
        legacy.on("tools/list", |seen| {
            Answer::result(seen, r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#)
        });
        let modern = Server::modern(name, Offer::tools(&["t"])).await;
        declare(&modern, TELLS);
        modern.on("subscriptions/listen", |_| answer());
        setup =
            setup.http(&format!("l-{name}"), &legacy.url(), "").http(&format!("m-{name}"), &modern.url(), "");
        servers.push((*name, legacy, modern));
    }
    let unknown = Server::modern("unknown", Offer::tools(&["t"])).await;
    declare(&unknown, TELLS);
    let gateway = setup.http("unknown", &unknown.url(), "").start().await;
    eventually("all lists", async || tools(&gateway).await.len() == 2 * REFUSALS.len() + 1).await;
    let client = Stream::open(&gateway, "1", ALL).await;
    let all = tools(&gateway).await;
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        assert_eq!(tools(&gateway).await, all, "they do not flicker");
    }
    // Pauses of 1, 2 and 4 s: four attempts in five seconds at most.
    for (name, legacy, modern) in &servers {
        let attempts = (legacy.requests("GET").len(), modern.requests("subscriptions/listen").len());
        let most = if matches!(*name, "ok" | "ends" | "e500") { 6 } else { 1 };
        assert!((1..=most).contains(&attempts.0) && (1..=most).contains(&attempts.1), "{name}: {attempts:?}");
    }
    assert_eq!(unknown.requests("subscriptions/listen").len(), 1);
    assert_eq!(gateway.metric("gatehouse_list_changed_total", &[]).await, 0.0);
    tokio::join!(gateway.stop(), client.end_without_notice());
}

/// Covers: S-21, S-24, H-67: messages that are not ours, not after an acknowledgement, or no notices at all.
#[tokio::test(flavor = "multi_thread")]
async fn s_24_only_what_is_ours_counts() {
    let (server, mut streams) = telling("m", &["a"]).await;
    let gateway = Setup::new().http("m", &server.url(), "").start().await;
    let feed = Feed::accept(streams.next().await);
    eventually("the list", async || tools(&gateway).await == ["m_a"]).await;
    let mut client = Stream::open(&gateway, "1", ALL).await;
    for foreign in [
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"other"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}"#,
    ] {
        feed.say(foreign);
    }
    feed.notify("no/such", "");
    let lists = server.requests("tools/list").len();
    feed.changed("prompts");
    server.asked("prompts/list", 2).await;
    assert_eq!(server.requests("tools/list").len(), lists, "none of it was a change of tools");
    server.offer(Offer::tools(&["a", "b"]));
    feed.changed("tools");
    assert_eq!(client.notice().await, "tools");
    let labels = [("server", "m"), ("kind", "subscription_id")];
    assert_eq!(gateway.metric("gatehouse_server_violations_total", &labels).await, 4.0);
    let labels = [("server", "m"), ("kind", "request")];
    assert_eq!(gateway.metric("gatehouse_server_violations_total", &labels).await, 1.0);
}

/// Covers: S-36, F-062: a burst is told once or twice, and what is listed after the last notice is the final state.
#[tokio::test(flavor = "multi_thread")]
async fn f_062_bursts_are_coalesced() {
    let mut setup = Setup::new();
    let mut servers = Vec::new();
    for at in 0..8 {
        let name = format!("s{at}");
        let server = Server::modern(&name, Offer::tools(&["t"])).await;
        declare(&server, TELLS);
        let streams = server.hold("subscriptions/listen");
        setup = setup.http(&name, &server.url(), "");
        servers.push((server, streams));
    }
    let gateway = setup.start().await;
    let mut feeds = Vec::new();
    for (_, streams) in &mut servers {
        feeds.push(Feed::accept(streams.next().await));
    }
    eventually("all lists", async || names(&mut gateway.connect().await, "tools/list").await.len() == 8)
        .await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await);
    }
    let began = std::time::Instant::now();
    for round in 0..10 {
        for ((server, _), feed) in servers.iter().zip(&feeds) {
            server.offer(Offer::tools(&[&format!("t{round}"), "t"]));
            feed.changed("tools");
        }
    }
    let end: Vec<String> = (0..8).flat_map(|at| [format!("s{at}_t9"), format!("s{at}_t")]).collect();
    for client in &mut clients {
        client.notice().await;
    }
    let mut connection = gateway.connect().await;
    eventually("the final state", async || names(&mut connection, "tools/list").await == end).await;
    let settled = began.elapsed();
    let labels = [("direction", "out")];
    let told = gateway.metric("gatehouse_list_changed_total", &labels).await / clients.len() as f64;
    // 80 changes: at most one notice in half a second.
    let most = settled.as_secs_f64() / 0.5 + 2.0;
    assert!((1.0..=most).contains(&told), "{told} notices a client in {settled:?}");
    let ends = futures_util::future::join_all(clients.into_iter().map(Stream::end));
    tokio::join!(gateway.stop(), ends);
}
