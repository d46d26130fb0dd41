//! Changes at servers of 2025-11-25: their GET stream, their child's output, their subscriptions; servers that
//! refuse or close the stream: S-22, S-23, S-50..S-53, G-43, F-008.

use std::time::Duration;

use serde_json::json;

use crate::support::child::Child;
use crate::support::eventually;
use crate::support::exchange::{Answer, Exchange};
use crate::support::feed::{Feed, Stream, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::inside::{Inside, later};
use crate::support::json;
use crate::support::request::{call, mcp};
use crate::support::server::{Held, Offer, Server};

const ALL: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;

fn offer(name: &str) -> Offer {
    Offer {
        capabilities: vec![
            r#""tools":{"listChanged":true}"#.to_owned(),
            r#""resources":{"listChanged":true,"subscribe":true}"#.to_owned(),
        ],
        resources: ["x://a", "x://b"].map(|uri| format!(r#"{{"uri":"{uri}","name":"n"}}"#)).to_vec(),
        hints: vec![],
        ..Offer::tools(&[name])
    }
}

async fn server() -> (Server, Held) {
    let server = Server::legacy("s", offer("zero")).await;
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        server.on(method, |seen| Answer::result(seen, "{}"));
    }
    let gets = server.hold("GET");
    (server, gets)
}

/// The next GET stream.
async fn feed(gets: &mut Held) -> Feed {
    let exchange: Exchange = gets.next().await;
    assert_eq!(exchange.seen.header("accept").as_deref(), Some("text/event-stream"));
    assert!(exchange.seen.header("mcp-session-id").is_some());
    Feed::legacy(exchange)
}

async fn ready(gateway: &Gateway) {
    let listed = async || names(&mut gateway.connect().await, "tools/list").await == ["s_zero"];
    eventually("the first list", listed).await;
    // A list that becomes known after a stream was opened is told as changed.
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        names(&mut gateway.connect().await, method).await;
    }
}

/// Covers: S-52, G-43, L-24: one GET stream for twenty clients; rounds of change, notice, list.
#[tokio::test(flavor = "multi_thread")]
async fn s_52_one_get_stream_for_all_clients() {
    let (server, mut gets) = server().await;
    let gateway = Setup::new().http("s", &server.url(), "").launch().await;
    let feed = feed(&mut gets).await;
    ready(&gateway).await;
    let mut streams = Vec::new();
    for id in 0..20 {
        streams.push(Stream::open(&gateway, &id.to_string(), ALL).await);
    }
    server.offer(offer("one"));
    feed.changed("tools");
    for stream in &mut streams {
        assert_eq!(stream.notice().await, "tools");
    }
    let mut client = gateway.connect().await;
    for round in 0..100 {
        let mut stream = Stream::open(&gateway, "\"r\"", ALL).await;
        let name = format!("tool{round}");
        server.offer(offer(&name));
        feed.changed("tools");
        assert_eq!(stream.notice().await, "tools", "round {round}");
        assert_eq!(names(&mut client, "tools/list").await, [format!("s_{name}")], "round {round}");
    }
    assert_eq!(server.requests("GET").len(), 1);
    gateway.stop().await;
}

/// Covers: S-52, S-55: subscriptions are counted: one at the server, ended with the last client's; made again in a
/// new session, with S-23.
#[tokio::test(flavor = "multi_thread")]
async fn s_52_subscriptions_are_counted_and_made_again() {
    let (server, mut gets) = server().await;
    let gateway = Setup::new().http("s", &server.url(), "").launch().await;
    let stream = feed(&mut gets).await;
    ready(&gateway).await;
    let filter = r#"{"resourceSubscriptions":["x://a"]}"#;
    // The first one's acknowledgement may be too early; the second one finds the subscription made.
    let early = Stream::open(&gateway, "0", filter).await;
    server.asked("resources/subscribe", 1).await;
    let agreed = async || {
        Stream::open(&gateway, "1", filter).await.honoured == json!({"resourceSubscriptions": ["x://a"]})
    };
    eventually("the subscription is made", agreed).await;
    let mut client = Stream::open(&gateway, "1", filter).await;
    drop(early);
    stream.updated("x://b");
    stream.updated("x://a");
    assert_eq!(client.notice().await, "x://a");
    assert_eq!(server.requests("resources/subscribe").len(), 1);

    server.wipe_sessions();
    stream.cut();
    // The first thing that is asked for after the cut finds out that the session is gone.
    let exchange = gets.next().await;
    let old = exchange.seen.header("mcp-session-id");
    exchange.reply(404, "");
    let exchange = gets.next().await;
    assert_ne!(exchange.seen.header("mcp-session-id"), old);
    let stream = Feed::legacy(exchange);
    server.asked("resources/subscribe", 2).await;
    assert_eq!(client.notice().await, "x://a", "it may have changed unseen");
    drop(client);
    server.asked("resources/unsubscribe", 1).await;
    let uri = server.requests("resources/unsubscribe")[0].raw(&["params", "uri"]);
    assert_eq!(uri.as_deref(), Some("\"x://a\""));
    drop(stream);
    gateway.stop().await;
}

/// Covers: F-008, S-53: a server that refuses its stream, or ends it at once, is asked for it now and then; clients
/// are told nothing, lists stay as they are.
#[tokio::test]
async fn f_008_no_stream_is_no_change() {
    let healthy = Server::modern("healthy", Offer::tools(&["t"])).await;
    for (what, answer) in [
        ("405", Answer::new(405, "", "")),
        ("400", Answer::new(400, "text/plain", "no")),
        ("an answer that is no stream", Answer::new(200, "application/json", "{}")),
        ("closes at once", Answer::events(&[])),
        ("500", Answer::new(500, "", "")),
    ] {
        let (server, _gets) = server().await;
        let Answer::Whole { status, fields, body } = answer else { unreachable!() };
        server.on("GET", move |_| Answer::Whole { status, fields: fields.clone(), body: body.clone() });
        let setup = Setup::new().http("s", &server.url(), "").http("healthy", &healthy.url(), "");
        let gateway = Inside::start(setup).await;
        let list = async || {
            let mut client = gateway.connect().await;
            (names(&mut client, "tools/list").await, names(&mut client, "resources/list").await)
        };
        let first = list().await;
        assert_eq!(first.0, ["s_zero", "healthy_t"]);
        let mut stream = Stream::on(gateway.connect().await, "1", ALL).await;
        const STEPS: usize = 30;
        for _ in 0..STEPS {
            later(Duration::from_secs(2)).await;
            assert_eq!(list().await, first, "{what}");
        }
        let asked = server.requests("GET").len();
        // Pauses that do not grow, or none at all, would be more than one a step of two seconds.
        assert!((1..=STEPS).contains(&asked), "{what}: {asked} GETs");
        let end = async {
            let message = stream.next().await.expect("a result");
            assert_eq!(message["result"]["resultType"], "complete", "{what}: clients were told {message}");
        };
        tokio::join!(gateway.stop(), end);
    }
}

/// Covers: G-43, S-56, L-24: notices on a child's output.
#[tokio::test(flavor = "multi_thread")]
async fn s_56_notices_of_a_child() {
    let child = Child::python(
        r#"
INITIALIZE = INITIALIZE.replace('"tools":{}', '"tools":{"listChanged":true},"resources":{"subscribe":true}')
state = {"n": 0}
def call(message, line):
    state["n"] += 1
    send('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    send('{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://a"}}')
    result(message, '{"content":[]}')
def listed(message, line):
    result(message, tools("tool", "tool%d" % state["n"]))
serve({
    "initialize": INITIALIZE, "tools/list": listed, "tools/call": call,
    "resources/list": '{"resources":[{"uri":"x://a","name":"a"}]}', "resources/templates/list": '{"resourceTemplates":[]}',
    "resources/subscribe": "{}", "resources/unsubscribe": "{}",
})
"#,
    );
    let gateway = Setup::new().stdio("s", &child.argv(), "").start().await;
    let mut client = gateway.connect().await;
    let heard = [("server", "s"), ("kind", "tools"), ("direction", "in")];
    eventually("its notices are heard", async || {
        gateway.send(call("s_tool", "{}")).await;
        gateway.metric("gatehouse_list_changed_total", &heard).await > 0.0
    })
    .await;
    for round in 0..50 {
        let mut stream = Stream::open(&gateway, "\"\"", ALL).await;
        let calls = child.requests("tools/call").len() + 1;
        gateway.send(call("s_tool", "{}")).await;
        let now = vec!["s_tool".to_owned(), format!("s_tool{calls}")];
        loop {
            assert_eq!(stream.notice().await, "tools");
            if names(&mut client, "tools/list").await == now {
                break;
            }
            assert_eq!(round, 0, "an old list after a notice");
        }
    }
    let filter = r#"{"resourceSubscriptions":["x://a"]}"#;
    let agreed = async || Stream::open(&gateway, "1", filter).await.honoured == json::value(filter);
    let _keep = Stream::open(&gateway, "0", filter).await;
    eventually("the subscription is made", agreed).await;
    let mut stream = Stream::open(&gateway, "1", filter).await;
    gateway.send(call("s_tool", "{}")).await;
    assert_eq!(stream.notice().await, "x://a");
    assert_eq!(gateway.send(mcp("tools/list", "{}")).await.status(), 200);
    assert_eq!(child.requests("resources/subscribe").len(), 1);
    gateway.stop().await;
}
