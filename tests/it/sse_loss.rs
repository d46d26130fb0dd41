//! Streams of the 2024-11-05 transport that end, break, go deaf or are many: G-49, G-70, G-72, F-003, F-054, F-080.

use std::time::Duration;

use crate::support::cast::{by, caller};
use crate::support::client::ok;
use crate::support::gateway::Setup;
use crate::support::inside::{Inside, later};
use crate::support::request::call;
use crate::support::sse_server::{PINNED, SseServer, pinned, session};
use crate::support::{eventually, within};

/// Covers: G-72, F-080: when the stream drops, what runs fails at once as unavailable and is not repeated; the next
/// use opens a stream and shakes hands anew.
#[tokio::test(flavor = "multi_thread")]
async fn g_72_a_lost_stream_fails_its_calls() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "timeout = \"10m\"\nmax_timeout = \"10m\"").await;
    let mut held = server.hold();
    let calls = (0..5).map(|n| gateway.send(call("s_t", "{}").id(n)));
    let cut = async {
        for _ in 0..5 {
            held.next().await;
        }
        server.release();
        server.cut(1);
    };
    let (replies, ()) =
        within("all fail", async { tokio::join!(futures_util::future::join_all(calls), cut) }).await;
    for reply in &replies {
        assert_eq!(reply.result()["isError"], true, "{reply:?}");
        let said = reply.result()["content"][0]["text"].to_string();
        assert!(said.contains("\\\"s\\\"") && said.contains("may have had effects"), "{said}");
    }
    let lost = gateway.metric("gatehouse_tool_calls_total", &[("outcome", "unavailable")]).await;
    assert_eq!(lost, 5.0);
    let works = async || ok(&gateway.send(call("s_t", "{}")).await);
    eventually("it works again", works).await;
    assert_eq!(server.server.requests("initialize").len(), server.streams());
    assert_eq!(gateway.metric("gatehouse_inflight", &[("server", "s")]).await, 0.0);
    gateway.stop().await;
}

/// Covers: G-42, G-72: a POST that is refused because its session is unknown was not carried out: the call is made
/// once more on a new stream, and the old one is closed.
#[tokio::test(flavor = "multi_thread")]
async fn g_72_a_forgotten_session_is_opened_anew() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "").await;
    server.refuse(1);
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    assert_eq!(server.server.requests("tools/call").len(), 2);
    eventually("the old stream is closed", async || server.is_gone(1)).await;
    // Refused for ever: given up, not chased.
    server.refuse(1000);
    let reply = gateway.send(call("s_t", "{}")).await;
    assert!(!ok(&reply) && reply.status() == 200, "{reply:?}");
    gateway.stop().await;
}

/// Covers: F-054: a stream that was lost without a word costs the calls that time out on it, and no more: the server
/// is asked for a sign of life; one that gives it keeps its stream.
#[tokio::test(flavor = "multi_thread")]
async fn f_054_a_stream_that_is_deaf_is_given_up() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "timeout = \"1s\"").await;
    let mut held = server.hold();
    let asked = call("s_t", "{}");
    let (reply, _) = tokio::join!(gateway.send(asked), held.next());
    assert!(reply.result()["content"][0]["text"].to_string().contains("timeout"), "{reply:?}");
    server.server.asked("ping", 1).await;
    assert!(!server.is_gone(1), "it answered");
    server.release();
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    assert_eq!(server.streams(), 1);
    // From now on nothing comes through any more.
    server.mute(1);
    let reply = gateway.send(call("s_t", "{}")).await;
    assert!(reply.result()["content"][0]["text"].to_string().contains("timeout"), "{reply:?}");
    eventually("it is given up", async || server.is_gone(1)).await;
    let works = async || ok(&gateway.send(call("s_t", "{}")).await);
    eventually("it works again", works).await;
    gateway.stop().await;
}

/// Covers: G-49, F-003: callers have streams of their own, the gateway another one; none sees another's messages.
#[tokio::test(flavor = "multi_thread")]
async fn g_49_callers_have_streams_of_their_own() {
    let server = SseServer::new("s").await;
    let callers = ["ann", "bob"].map(|name| caller(name, ""));
    let setup = Setup::new().toml(&callers.concat()).http("s", &server.url(), "protocol = \"sse\"");
    let gateway = setup.start().await;
    let mut held = server.hold();
    let mut running = Vec::new();
    for name in ["ann", "bob", "ann"] {
        let client = gateway.connect().await;
        let asked = by(name, call("s_t", "{}").meta("progressToken", "7"));
        running.push(tokio::spawn(async move { client.begin(asked).await.rest().await }));
        let seen = held.next().await;
        let stream = session(&seen).unwrap();
        server
            .say(stream, &seen.result(&format!(r#"{{"content":[],"structuredContent":{{"at":{stream}}}}}"#)));
    }
    let mut streams = Vec::new();
    for reply in running {
        streams.push(within("an answer", reply).await.unwrap().result()["structuredContent"]["at"].clone());
    }
    assert_eq!(streams[0], streams[2], "the same for the same caller");
    assert_ne!(streams[0], streams[1]);
    assert_eq!(server.streams(), 3, "and one of the gateway's own, for lists and notices");
    gateway.stop().await;
    eventually("all are closed", async || (1..=3).all(|stream| server.is_gone(stream))).await;
}

/// Covers: bounds on the stream (F-040 over HTTP): a message beyond `max_result` costs the stream, not the gateway.
#[tokio::test(flavor = "multi_thread")]
async fn f_080_a_message_that_is_too_long_ends_the_stream() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "max_result = \"64KiB\"").await;
    let big = "x".repeat(70 << 10);
    server.answer(move |seen| {
        let text = format!(r#"{{"content":[{{"type":"text","text":"{big}"}}]}}"#);
        (seen.raw(&["params", "arguments", "big"]).is_some()).then_some(text)
    });
    let reply = gateway.send(call("s_t", r#"{"big":1}"#)).await;
    assert_eq!(reply.result()["isError"], true);
    assert!(reply.result()["content"][0]["text"].to_string().contains("too large"), "{reply:?}");
    let works = async || ok(&gateway.send(call("s_t", "{}")).await);
    eventually("it works again", works).await;
    gateway.stop().await;
}

/// Covers: G-72, F-080: a server that ends each stream as soon as hands are shaken is not hammered.
#[tokio::test]
async fn f_080_streams_that_end_at_once_are_opened_with_growing_pauses() {
    let server = SseServer::new("s").await;
    let gateway = Inside::start(Setup::new().http("s", &server.url(), PINNED)).await;
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    const STEPS: usize = 30;
    for _ in 0..STEPS {
        let last = server.streams();
        if !server.is_gone(last) {
            server.cut(last);
        }
        later(Duration::from_secs(2)).await;
        let reply = gateway.send(call("s_t", "{}")).await;
        assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    }
    // One a step would be none at all; with pauses of 1 s doubling to 60 s it is six or seven in a minute.
    let streams = server.streams();
    assert!((3..=12).contains(&streams), "{streams} streams in a minute");
    gateway.stop().await;
}

/// Covers: G-70: a stream that names no endpoint is given up after 10 s; the session ends with the gateway.
#[tokio::test]
async fn g_70_an_endpoint_has_ten_seconds() {
    let mute = SseServer::new("mute").await;
    mute.begin(|_| b": nothing\n\n".to_vec());
    let good = SseServer::new("good").await;
    let setup = Setup::new().http("mute", &mute.url(), PINNED).http("good", &good.url(), PINNED);
    let gateway = Inside::start(setup).await;
    mute.opened(1).await;
    later(Duration::from_secs(11)).await;
    eventually("it is given up", async || mute.is_gone(1)).await;
    assert!(ok(&gateway.send(call("good_t", "{}")).await));
    assert!(!good.is_gone(1));
    gateway.stop().await;
    eventually("the stream is closed", async || good.is_gone(1)).await;
}

/// Covers: F-086, F-087: streams are not counted among the connections for calls: more callers than those still get
/// theirs carried out.
#[tokio::test(flavor = "multi_thread")]
async fn f_087_many_streams_leave_room_for_calls() {
    const CALLERS: usize = 24;
    let server = SseServer::new("s").await;
    let names: Vec<String> = (0..CALLERS).map(|n| format!("c{n}")).collect();
    let keys: String = names.iter().map(|name| caller(name, "")).collect();
    // Room for 17 connections: fewer than there are streams.
    let more = "protocol = \"sse\"\nmax_concurrency = 1";
    let gateway = Setup::new().toml(&keys).http("s", &server.url(), more).start().await;
    for round in 0..2 {
        for name in &names {
            let reply = gateway.send(by(name, call("s_t", "{}"))).await;
            assert!(ok(&reply), "round {round}, {name}: {reply:?}");
        }
    }
    assert_eq!(server.streams(), CALLERS + 1);
    gateway.stop().await;
}
