//! Changed lists, from modern servers to clients: one stream a server whatever the number of clients, old before
//! told, told once a burst, resynchronised after gaps: S-01..S-13, S-22, S-23, S-30..S-41, L-24; issue 3.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::child::demo;
use crate::support::eventually;
use crate::support::feed::{Feed, Stream, TELLS, declare, listen, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::call;
use crate::support::server::{Held, Offer, Server};
use crate::support::table::{PARAMS, judge, row};

const ALL: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;
const TOOLS: &str = r#"{"toolsListChanged":true}"#;

/// A server that tells of everything, and a gateway whose first walks are done and whose stream is open.
async fn told(setup: Setup) -> (Server, Held, Gateway, Feed) {
    let server = Server::modern("s", offer("zero")).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let gateway = setup.http("s", &server.url(), "").launch().await;
    let feed = Feed::accept(feeds.next().await);
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        server.asked(method, 1).await;
        // Joins the walk, if it still runs.
        names(&mut gateway.connect().await, method).await;
    }
    (server, feeds, gateway, feed)
}

fn offer(name: &str) -> Offer {
    Offer {
        prompts: vec![format!("{{\"name\":\"{name}\"}}")],
        resources: vec![format!("{{\"uri\":\"x://{name}\",\"name\":\"n\"}}")],
        ..Offer::tools(&[name])
    }
}

/// Covers: S-31, S-06, issue 3 "one downstream listen at rest": twenty clients, one stream, all are told.
#[tokio::test(flavor = "multi_thread")]
async fn s_31_one_stream_for_all_clients() {
    let (server, feeds, gateway, feed) = told(Setup::new()).await;
    let mut streams = Vec::new();
    for number in 0..20 {
        streams.push(Stream::open(&gateway, &format!("\"client {number}\""), ALL).await);
    }
    gateway.metric_becomes("gatehouse_listen_streams", &[], 20.0).await;
    for (round, kind) in ["tools", "prompts", "resources"].into_iter().enumerate() {
        server.offer(offer(&format!("round{round}")));
        feed.changed(kind);
        for stream in &mut streams {
            assert_eq!(stream.notice().await, kind);
        }
    }
    assert!(feeds.is_empty());
    assert_eq!(server.requests("subscriptions/listen").len(), 1);
    let asked = server.requests("subscriptions/listen")[0].raw(&["params", "notifications"]).unwrap();
    assert_eq!(crate::support::json::value(&asked), crate::support::json::value(ALL), "S-20");
    drop(streams);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 0.0).await;
    assert!(feeds.is_empty(), "leaving changes nothing either");
    gateway.stop().await;
}

/// Covers: S-01..S-04, S-06, S-34, M-03: the acknowledgement first, only what was asked for, the id as it was sent:
/// strings, 0, "" and the same id twice.
#[tokio::test(flavor = "multi_thread")]
async fn s_02_filters_and_ids() {
    let (server, _feeds, gateway, feed) = told(Setup::new()).await;
    let prompts = r#"{"promptsListChanged":true,"toolsListChanged":false}"#;
    for (round, id) in [r#""id""#, "0", r#""""#, r#""""#, "-7", r#""\u00e4 \"x\"""#].into_iter().enumerate() {
        let mut both =
            Stream::open(&gateway, id, r#"{"toolsListChanged":true,"promptsListChanged":true}"#).await;
        let mut one = Stream::open(&gateway, id, prompts).await;
        let none = Stream::open(&gateway, id, "{}").await;
        let strange =
            Stream::open(&gateway, id, r#"{"com.example/other":true,"resourceSubscriptions":[]}"#).await;
        assert_eq!(both.honoured, json!({"toolsListChanged": true, "promptsListChanged": true}));
        assert_eq!(one.honoured, json!({"promptsListChanged": true}));
        assert_eq!((&none.honoured, &strange.honoured), (&json!({}), &json!({})));
        server.offer(offer(&format!("r{round}")));
        feed.changed("tools");
        assert_eq!(both.notice().await, "tools");
        feed.changed("prompts");
        assert_eq!(both.notice().await, "prompts");
        assert_eq!(one.notice().await, "prompts", "never told of tools");
    }
    let wrong = |filter: &str| listen("1", filter);
    judge(
        &gateway,
        vec![
            row("no object", wrong("[]"), 200, PARAMS),
            row("null", wrong("null"), 200, PARAMS),
            row("no flag", wrong(r#"{"toolsListChanged":"yes"}"#), 200, PARAMS),
            row("no list", wrong(r#"{"resourceSubscriptions":"x://a"}"#), 200, PARAMS),
            row("no URIs", wrong(r#"{"resourceSubscriptions":[1]}"#), 200, PARAMS),
            row("nothing", crate::support::request::mcp("subscriptions/listen", "{}"), 200, PARAMS),
        ],
    )
    .await;
    gateway.stop().await;
}

/// Covers: L-24, S-36, issue 3: 200 rounds of change, notice, list: never an old list.
#[tokio::test(flavor = "multi_thread")]
async fn l_24_a_list_after_its_notice_is_never_old() {
    let (server, _feeds, gateway, feed) = told(Setup::new()).await;
    let mut client = gateway.connect().await;
    let mut lasting = Stream::open(&gateway, "\"lasting\"", TOOLS).await;
    for round in 0..200 {
        // A new stream has nothing to wait for: notices of one stream are half a second apart.
        let mut stream = Stream::open(&gateway, &round.to_string(), TOOLS).await;
        let name = format!("tool{round}");
        server.offer(offer(&name));
        feed.changed("tools");
        assert_eq!(stream.notice().await, "tools", "round {round}");
        assert_eq!(names(&mut client, "tools/list").await, [format!("s_{name}")], "round {round}");
        if round % 40 == 0 {
            assert_eq!(lasting.notice().await, "tools");
        }
    }
    gateway.stop().await;
}

/// Covers: the same over stdio, with the demo server.
#[tokio::test(flavor = "multi_thread")]
async fn l_24_over_stdio() {
    let gateway = Setup::new().stdio("d", &demo(&[]), "").start().await;
    let heard = [("server", "d"), ("kind", "tools"), ("direction", "in")];
    // Until its stream is open, a change is found out by nobody.
    eventually("the demo's notices arrive", async || {
        gateway.send(call("d_toggle", "{}")).await;
        gateway.metric("gatehouse_list_changed_total", &heard).await > 0.0
    })
    .await;
    let mut client = gateway.connect().await;
    for round in 0..100 {
        let mut stream = Stream::open(&gateway, &round.to_string(), TOOLS).await;
        let result = gateway.send(call("d_toggle", "{}")).await.result();
        let shown = result["content"][0]["text"] == "hidden_gem is there";
        loop {
            assert_eq!(stream.notice().await, "tools");
            if names(&mut client, "tools/list").await.contains(&"d_hidden_gem".to_owned()) == shown {
                break;
            }
            // Only before the rounds may something have been told late.
            assert_eq!(round, 0, "an old list after a notice");
        }
    }
    gateway.stop().await;
}

/// Covers: S-36: a burst is told a few times, at most once in half a second, and once after its end.
#[tokio::test(flavor = "multi_thread")]
async fn s_36_bursts() {
    let (server, _feeds, gateway, feed) = told(Setup::new()).await;
    let mut client = gateway.connect().await;
    let mut stream = Stream::open(&gateway, "1", TOOLS).await;
    let began = Instant::now();
    for number in 0..50 {
        server.offer(offer(&format!("v{number}")));
        feed.changed("tools");
    }
    let mut notices = 0;
    loop {
        assert_eq!(stream.notice().await, "tools");
        notices += 1;
        if names(&mut client, "tools/list").await == ["s_v49"] {
            break;
        }
    }
    let room = began.elapsed().as_millis() / Duration::from_millis(500).as_millis() + 2;
    assert!(notices <= room, "{notices} notices in {:?}", began.elapsed());
    gateway.stop().await;
}

/// Covers: S-22, S-23, S-40: after a gap lists are compared: told where they differ, silent where they do not;
/// clients' streams outlast it.
#[tokio::test(flavor = "multi_thread")]
async fn s_23_gaps() {
    let (server, mut feeds, gateway, feed) = told(Setup::new()).await;
    let mut stream = Stream::open(&gateway, "1", ALL).await;
    let before = server.requests("tools/list").len();
    feed.cut();
    let feed = Feed::accept(feeds.next().await);
    server.asked("tools/list", before + 1).await;
    server.offer(Offer { tools: offer("zero").tools, ..offer("new") });
    feed.end();
    let mut feed = Feed::accept(feeds.next().await);
    // The first that is told of at all: nothing was told after the first gap, nor of tools after the second.
    let mut seen = [stream.notice().await, stream.notice().await];
    seen.sort();
    assert_eq!(seen, ["prompts", "resources"]);
    let mut client = gateway.connect().await;
    assert_eq!(names(&mut client, "prompts/list").await, ["s_new"]);
    assert!(!feed.is_gone(), "a stream said to be over is opened anew, once");
    server.offer(offer("new"));
    feed.changed("tools");
    assert_eq!(stream.notice().await, "tools");
    gateway.stop().await;
}

/// Covers: S-36, design §5: who mirrors a server passes its notices on, also where nothing differs; who merges
/// tells what is seen to change.
#[tokio::test(flavor = "multi_thread")]
async fn s_36_mirrors_and_merged_views() {
    let setup =
        Setup::new().toml("[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false");
    let (server, _feeds, gateway, feed) = told(setup).await;
    let mut merged = Stream::open(&gateway, "1", ALL).await;
    let mut mirror = Stream::at(gateway.connect().await, "/raw", "1", ALL).await;
    assert_eq!(
        (&merged.honoured, &mirror.honoured),
        (&json!(crate::support::json::value(ALL)), &merged.honoured)
    );
    for kind in ["tools", "resources"] {
        feed.changed(kind);
        assert_eq!(mirror.notice().await, kind);
    }
    server.offer(offer("new"));
    feed.changed("prompts");
    assert_eq!(mirror.notice().await, "prompts");
    assert_eq!(merged.notice().await, "prompts", "what did not change was not told");
    gateway.stop().await;
}

/// Covers: S-09, S-41, H-90: every stream ends with its result; then nothing, and exit code 0.
#[tokio::test(flavor = "multi_thread")]
async fn s_09_the_end_is_said() {
    let (_server, _feeds, gateway, mut feed) = told(Setup::new()).await;
    let mut streams = Vec::new();
    for id in ["0", "\"\"", "\"a\"", "7", "7"] {
        streams.push(Stream::open(&gateway, id, ALL).await);
    }
    let ends = async {
        for stream in streams {
            stream.end().await;
        }
    };
    tokio::join!(gateway.stop(), ends, feed.gone());
}

/// Covers: S-42: `max_streams` is a bound that is told, counted and free again.
#[tokio::test(flavor = "multi_thread")]
async fn s_42_too_many_streams() {
    let (_server, _feeds, gateway, _feed) = told(Setup::new().gateway("max_streams = 2")).await;
    let one = Stream::open(&gateway, "1", ALL).await;
    let two = Stream::open(&gateway, "2", ALL).await;
    let reply = gateway.send(listen("3", ALL)).await;
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    assert!(!reply.is_events());
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "max_streams")]).await, 1.0);
    drop(one);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 1.0).await;
    Stream::open(&gateway, "3", ALL).await;
    drop(two);
    gateway.stop().await;
}
