//! Clients' streams of changes: filters, ids, resources, bursts, bounds, ends: S-01..S-13, S-30..S-42, S-52, F-062.

use serde_json::json;

use crate::support::exchange::Answer;
use crate::support::feed::{Feed, Stream, TELLS, declare, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Mcp, mcp};
use crate::support::server::{Held, Offer, Server};
use crate::support::{eventually, json as text};

const ALL: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;

/// What a server with `count` tools, prompts and resources offers.
fn offer(count: usize) -> Offer {
    let each = |of: fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>();
    Offer {
        tools: each(|n| format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#)),
        prompts: each(|n| format!(r#"{{"name":"p{n}"}}"#)),
        resources: each(|n| format!(r#"{{"uri":"x://r/{n}","name":"r{n}"}}"#)),
        ..Offer::default()
    }
    .fresh()
}

/// A server that tells of everything, its first stream, and the next ones.
async fn one(more: &str) -> (Server, Gateway, Feed, Held) {
    let server = Server::modern("s", offer(3)).await;
    declare(&server, TELLS);
    let mut streams = server.hold("subscriptions/listen");
    let gateway = Setup::new().gateway(more).http("s", &server.url(), "").start().await;
    let feed = Feed::accept(streams.next().await);
    for kind in ["tools", "prompts", "resources"] {
        let labels = [("server", "s"), ("kind", kind)];
        gateway.metric_becomes("gatehouse_catalogue_items", &labels, 3.0).await;
    }
    (server, gateway, feed, streams)
}

/// The next stream of the server, acknowledged as asked; the last one ends once it has taken over.
async fn next(streams: &mut Held, last: &mut Feed) -> Feed {
    let exchange = streams.next().await;
    assert!(!last.is_gone(), "no gap: the last one is open while the next one is not acknowledged");
    let feed = Feed::accept(exchange);
    last.gone().await;
    feed
}

fn listen(filter: &str) -> Mcp {
    mcp("subscriptions/listen", format!("{{\"notifications\":{filter}}}"))
}

/// Covers: S-01..S-04, S-06, S-13: acknowledged first, every message under the stream's own id, whatever it is, and
/// nothing that was not asked for.
#[tokio::test(flavor = "multi_thread")]
async fn s_02_filters_are_honoured_and_ids_kept() {
    let (server, gateway, feed, _streams) = one("").await;
    let filters = [
        (r#""""#, r#"{"toolsListChanged":true}"#, json!({"toolsListChanged": true}), Some("tools")),
        (
            "0",
            r#"{"promptsListChanged":true,"toolsListChanged":false}"#,
            json!({"promptsListChanged": true}),
            Some("prompts"),
        ),
        (
            "-7",
            r#"{"resourcesListChanged":true,"unknownThing":{"a":1}}"#,
            json!({"resourcesListChanged": true}),
            Some("resources"),
        ),
        (r#""ä\u0000""#, r#"{"resourceSubscriptions":[]}"#, json!({}), None),
        ("0", "{}", json!({}), None),
    ];
    let mut clients = Vec::new();
    for (id, filter, honoured, _) in &filters {
        let client = Stream::open(&gateway, id, filter).await;
        assert_eq!(client.honoured, *honoured, "{filter}");
        clients.push(client);
    }
    server.offer(offer(4));
    for kind in ["tools", "prompts", "resources"] {
        feed.changed(kind);
    }
    for (client, (.., wanted)) in clients.iter_mut().zip(&filters) {
        if let Some(wanted) = wanted {
            assert_eq!(client.notice().await, *wanted);
        }
    }
    // Nothing else: the next thing that each hears is the end.
    let ends = futures_util::future::join_all(clients.into_iter().map(Stream::end_without_notice));
    tokio::join!(gateway.stop(), ends);
}

/// Covers: S-01, S-12, H-12: what is no filter is refused, with a status.
#[tokio::test(flavor = "multi_thread")]
async fn s_01_what_is_no_filter_is_refused() {
    let (_server, gateway, _feed, _streams) = one("").await;
    for params in ["{}", r#"{"notifications":null}"#, r#"{"notifications":[]}"#, r#"{"notifications":true}"#]
    {
        let reply = gateway.send(mcp("subscriptions/listen", params)).await;
        assert_eq!(reply.code(), Some(-32602), "{params}: {reply:?}");
        assert_eq!(reply.header("content-type").as_deref(), Some("application/json"));
    }
    for filter in [
        r#"{"toolsListChanged":1}"#,
        r#"{"promptsListChanged":"true"}"#,
        r#"{"resourceSubscriptions":"x://r/0"}"#,
        r#"{"resourceSubscriptions":[1]}"#,
        r#"{"resourceSubscriptions":{}}"#,
    ] {
        assert_eq!(gateway.send(listen(filter)).await.code(), Some(-32602), "{filter}");
    }
    let tasks = r#"{"taskIds":["a"]}"#;
    for declared in ["{}", r#"{"extensions":{}}"#, r#"{"extensions":{"x/y":{}}}"#] {
        let reply = gateway.send(listen(tasks).capabilities(declared)).await;
        assert_eq!(reply.verdict(), (400, Some(-32021)), "{reply:?}");
        let required = reply.message()["error"]["data"]["requiredCapabilities"].clone();
        assert_eq!(required, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    }
    assert_eq!(gateway.metric("gatehouse_listen_streams", &[]).await, 0.0);
}

/// Covers: S-31, S-33, S-34, S-35, S-07: subscriptions to resources: the union of all wishes, changed by overlap, told
/// to whom it concerns, under the URI as it was written.
#[tokio::test(flavor = "multi_thread")]
async fn s_31_resources_are_subscribed_by_overlap() {
    let (_server, gateway, mut feed, mut streams) = one("").await;
    let open = async |uris: &str| {
        Stream::open(&gateway, "1", &format!("{{\"resourceSubscriptions\":[{uris}]}}")).await
    };
    let taken = |feed: &Feed| feed.asked()["resourceSubscriptions"].clone();
    let (first, second) = tokio::join!(open(r#""x://r/0","x://unknown""#), next(&mut streams, &mut feed));
    let (mut one, mut feed) = (first, second);
    assert_eq!(one.honoured, json!({"resourceSubscriptions": ["x://r/0"]}), "nobody owns the other");
    assert_eq!(taken(&feed), json!(["x://r/0"]));
    // The same once more needs nothing of the server.
    let mut same = open(r#""x://r/0""#).await;
    let (two, second) = tokio::join!(open(r#""x://r/1","x://r/0""#), next(&mut streams, &mut feed));
    let mut two = two;
    let mut feed = second;
    assert_eq!(two.honoured, json!({"resourceSubscriptions": ["x://r/1", "x://r/0"]}));
    assert_eq!(taken(&feed), json!(["x://r/0", "x://r/1"]));
    feed.updated("x://r/0");
    for client in [&mut one, &mut same, &mut two] {
        assert_eq!(client.notice().await, "x://r/0");
    }
    // A part of what was asked for.
    feed.updated("x://r/1/part");
    let told = two.notice().await;
    assert!(told == "x://r/1" || told == "x://r/1/part", "{told}");
    // One of two users leaves: nothing changes. Both leave: the server is told less.
    drop(same);
    drop(one);
    feed.updated("x://r/1");
    assert_eq!(two.notice().await, "x://r/1");
    drop(two);
    let feed = next(&mut streams, &mut feed).await;
    assert_eq!(taken(&feed), serde_json::Value::Null);
    assert_eq!(feed.asked()["toolsListChanged"], true);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 0.0).await;
}

/// Covers: S-33: what the server does not acknowledge is not promised.
#[tokio::test(flavor = "multi_thread")]
async fn s_33_only_what_the_server_agrees_to_is_acknowledged() {
    let (_server, gateway, _feed, mut streams) = one("").await;
    let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["x://r/0","x://r/1"]}"#;
    let half = async {
        let exchange = streams.next().await;
        Feed::accept_only(exchange, r#"{"toolsListChanged":true,"resourceSubscriptions":["x://r/1"]}"#)
    };
    let (mut client, feed) = tokio::join!(Stream::open(&gateway, "1", filter), half);
    assert_eq!(client.honoured, json!({"toolsListChanged": true, "resourceSubscriptions": ["x://r/1"]}));
    feed.updated("x://r/1");
    assert_eq!(client.notice().await, "x://r/1");
}

/// Covers: S-52: a legacy server's resources are subscribed one by one, once for all users.
#[tokio::test(flavor = "multi_thread")]
async fn s_52_legacy_resources_are_counted() {
    let mut with = offer(3);
    with.tools.clear();
    with.prompts.clear();
    with.resources.clear();
    with.capabilities = vec![r#""resources":{"subscribe":true,"listChanged":true}"#.to_owned()];
    let server = Server::legacy("s", with).await;
    let items = offer(3).resources.join(",");
    server.on("resources/list", move |seen| Answer::result(seen, &format!("{{\"resources\":[{items}]}}")));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        server.on(method, |seen| match seen.name().as_deref() {
            Some("x://r/2") => Answer::error(seen, 200, -32002, "not this one"),
            _ => Answer::result(seen, "{}"),
        });
    }
    let mut gets = server.hold("GET");
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let feed = Feed::legacy(gets.next().await);
    eventually("the resources", async || {
        names(&mut gateway.connect().await, "resources/list").await.len() == 3
    })
    .await;
    let filter = r#"{"resourceSubscriptions":["x://r/0","x://r/2"]}"#;
    let mut first = Stream::open(&gateway, "1", filter).await;
    assert_eq!(first.honoured, json!({"resourceSubscriptions": ["x://r/0"]}));
    let mut second = Stream::open(&gateway, "1", filter).await;
    assert_eq!(second.honoured, first.honoured);
    let asked =
        |method: &str| -> Vec<String> { server.requests(method).iter().map(|s| s.name().unwrap()).collect() };
    let begun = asked("resources/subscribe");
    assert_eq!(begun.iter().filter(|uri| *uri == "x://r/0").count(), 1, "{begun:?}");
    feed.updated("x://r/0");
    assert_eq!((first.notice().await, second.notice().await), ("x://r/0".to_owned(), "x://r/0".to_owned()));
    drop(first);
    drop(second);
    eventually("it is ended", async || asked("resources/unsubscribe").contains(&"x://r/0".to_owned())).await;
    assert_eq!(server.requests("GET").len(), 1);
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

/// Covers: S-42, design §3: `max_streams` bounds what one principal holds open; who leaves makes room.
#[tokio::test(flavor = "multi_thread")]
async fn s_42_streams_are_bounded() {
    let (_server, gateway, _feed, _streams) = one("max_streams = 3").await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Stream::open(&gateway, "1", ALL).await);
    }
    let refused = gateway.send(listen(ALL)).await;
    assert_eq!(refused.verdict(), (200, Some(-32603)), "{refused:?}");
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "max_streams")]).await, 1.0);
    // Calls are not streams.
    assert_eq!(gateway.send(mcp("tools/list", "{}")).await.verdict(), (200, Some(0)));
    clients.pop();
    gateway.metric_becomes("gatehouse_listen_streams", &[], 2.0).await;
    let many: Vec<String> = (0..257).map(|n| text::quoted(&format!("x://r/{n}"))).collect();
    let reply = gateway.send(listen(&format!("{{\"resourceSubscriptions\":[{}]}}", many.join(",")))).await;
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    assert_eq!(
        gateway.metric("gatehouse_limited_total", &[("limit", "max_streams")]).await,
        1.0,
        "for its URIs"
    );
    clients.push(Stream::open(&gateway, "1", ALL).await);
}

/// Covers: S-09, S-41, F-052: every stream ends with its result, then the connection; the gateway with exit code 0.
#[tokio::test(flavor = "multi_thread")]
async fn s_09_streams_end_with_words() {
    let (_server, gateway, mut feed, _streams) = one("").await;
    let mut clients = Vec::new();
    for id in 0..50 {
        clients.push(Stream::open(&gateway, &id.to_string(), ALL).await);
    }
    let ends = futures_util::future::join_all(clients.into_iter().map(Stream::end_without_notice));
    let (log, _) = tokio::join!(gateway.stop(), ends);
    feed.gone().await;
    assert!(log.find(|line| line.contains("\"WARN\"")).is_empty(), "{}", log.text());
}
