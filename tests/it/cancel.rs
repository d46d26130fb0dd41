//! A client that leaves cancels its call at the server, by that hop's own rule, at once, and nothing is left
//! behind: H-80..H-84, G-47, G-53, G-75, F-019, design §6.9.

use std::time::{Duration, Instant};

use futures_util::future::{Either, select};

use crate::support::child::Child;
use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::exchange::{Answer, Exchange};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::measure::measured;
use crate::support::request::{Request, call};
use crate::support::server::{Held, Offer, Server};

/// A child that keeps calls of `hold` and answers them when it is told that they are cancelled (H-84), others at once.
const CHILD: &str = r#"
def called(m, line):
    if m["params"]["name"] != "hold":
        result(m, '{"content":[{"type":"text","text":"own"}]}')
def note_(m, line):
    note("cancelled", line)
    if m["method"] == "notifications/cancelled":
        send('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"late"}]}}' % m["params"]["requestId"])
serve({"server/discover": DISCOVER, "tools/list": tools("hold", "now"), "tools/call": called, "note": note_})"#;

/// Sends a call and does not wait for anything.
async fn sent(gateway: &Gateway, request: impl Into<Request>) -> Connection {
    let mut connection = gateway.connect().await;
    connection.write(&request.into().bytes(&gateway.listen.to_string())).await;
    connection
}

fn progress(exchange: &Exchange, count: u32) -> String {
    let token = exchange.seen.raw(&["params", "_meta", "progressToken"]).expect("a token of the hop");
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{count}}}}}"#
    )
}

async fn nothing_is_left(gateway: &Gateway) {
    gateway.metric_becomes("gatehouse_inflight", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_buffered_bytes", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
}

async fn cancelled(gateway: &Gateway, server: &str, calls: f64) {
    let labels = [("server", server), ("outcome", "cancelled")];
    gateway.metric_becomes("gatehouse_tool_calls_total", &labels, calls).await;
    gateway.metric_becomes("gatehouse_requests_total", &labels, calls).await;
}

/// Covers: H-80, H-82: modern HTTP: the stream of exactly that request is closed, before its head and after.
#[tokio::test(flavor = "multi_thread")]
async fn h_82_a_modern_servers_stream_is_closed() {
    let server = Server::modern("m", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("m", &server.url(), "").start().await;
    let mut held = server.hold("tools/call");

    let client = sent(&gateway, call("m_t", "{}")).await;
    let mut before_head = held.next().await;
    let other = sent(&gateway, call("m_t", "{}")).await;
    let mut going_on = held.next().await;
    let left = Instant::now();
    drop(client);
    before_head.gone().await;
    measured("modern HTTP, before the head: cancelled after", left.elapsed());

    let request = call("m_t", "{}").meta("progressToken", "\"p\"");
    let client = sent(&gateway, request).await;
    let mut in_events = held.next().await;
    in_events.open_events();
    in_events.event(&progress(&in_events, 1));
    let mut answer = client.answer().await;
    assert_eq!(answer.message().await.unwrap()["params"]["progressToken"], "p");
    let left = Instant::now();
    drop(answer);
    in_events.gone().await;
    measured("modern HTTP, during events: cancelled after", left.elapsed());
    cancelled(&gateway, "m", 2.0).await;

    // The neighbour's call is another one.
    assert!(!going_on.is_gone());
    going_on.result(r#"{"resultType":"complete","content":[{"type":"text","text":"whole"}]}"#);
    let reply = other.answer().await.rest().await;
    assert_eq!(reply.result()["content"][0]["text"], "whole");
    assert!(server.requests("notifications/cancelled").is_empty(), "closing is the cancel");
    nothing_is_left(&gateway).await;
}

/// Covers: H-82, G-53, G-75, H-84, F-019: a child is told, once, with its own id; what it says late is nobody's.
#[tokio::test(flavor = "multi_thread")]
async fn h_82_a_child_is_told() {
    let (child, other) = (Child::python(CHILD), Child::python(CHILD));
    let gateway = Setup::new().stdio("a", &child.argv(), "").stdio("b", &other.argv(), "").start().await;
    let client = sent(&gateway, call("a_hold", "{}").id(101)).await;
    eventually("the child has the call", async || child.requests("tools/call").len() == 1).await;
    let id = json::raw(&child.requests("tools/call")[0], &["id"]).unwrap();
    assert_ne!(id, "101", "ids are the hop's own");
    let left = Instant::now();
    drop(client);
    child.wrote("cancelled").await;
    measured("a child: cancelled after", left.elapsed());
    cancelled(&gateway, "a", 1.0).await;
    let notices = child.requests("notifications/cancelled");
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(json::raw(&notices[0], &["params", "requestId"]).unwrap(), id);
    assert!(json::raw(&notices[0], &["id"]).is_none());
    for name in ["a_now", "b_now"] {
        let reply = gateway.send(call(name, "{}").id(101)).await;
        assert_eq!(reply.result()["content"][0]["text"], "own", "{reply:?}");
    }
    assert!(other.requests("notifications/cancelled").is_empty(), "the other server is not concerned");
    nothing_is_left(&gateway).await;
}

/// Covers: G-47, H-82: a legacy server is told by a message of the same session; closing would not do.
#[tokio::test(flavor = "multi_thread")]
async fn g_47_a_legacy_server_is_told() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("l", &server.url(), "").start().await;
    let mut held = server.hold("tools/call");
    let client = sent(&gateway, call("l_t", "{}")).await;
    let mut exchange = held.next().await;
    let left = Instant::now();
    drop(client);
    server.asked("notifications/cancelled", 1).await;
    measured("legacy HTTP: cancelled after", left.elapsed());
    exchange.gone().await;
    cancelled(&gateway, "l", 1.0).await;
    let notice = &server.requests("notifications/cancelled")[0];
    assert_eq!(notice.raw(&["params", "requestId"]), exchange.seen.id());
    assert_eq!(notice.id(), None);
    assert!(notice.header("mcp-session-id").is_some());
    assert_eq!(notice.header("mcp-session-id"), exchange.seen.header("mcp-session-id"));
    assert_eq!(notice.header("mcp-protocol-version").as_deref(), Some("2025-11-25"));

    // The same when it answers in events.
    let client = sent(&gateway, call("l_t", "{}").meta("progressToken", "1")).await;
    let mut exchange = held.next().await;
    exchange.open_events();
    exchange.event(&progress(&exchange, 1));
    let mut answer = client.answer().await;
    answer.message().await.unwrap();
    drop(answer);
    server.asked("notifications/cancelled", 2).await;
    exchange.gone().await;
    nothing_is_left(&gateway).await;
}

/// Covers: H-80: a call that waits for a permit leaves the queue, and its server never hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn h_80_a_queued_call_leaves_the_queue() {
    let server = Server::modern("m", Offer::tools(&["t"])).await;
    let more = "max_concurrency = 1\nqueue = 1\ntimeout = \"60s\"";
    let gateway = Setup::new().http("m", &server.url(), more).start().await;
    let mut held = server.hold("tools/call");
    let first = sent(&gateway, call("m_t", r#"{"n":1}"#)).await;
    let running = held.next().await;
    for round in 1..=3 {
        // One place: of two, one is refused; then the other has it.
        let two = [2, 3].map(|n| sent(&gateway, call("m_t", format!(r#"{{"n":{n}}}"#))));
        let [one, other] = two;
        let (one, other) = (Box::pin(one.await.answer()), Box::pin(other.await.answer()));
        let (refused, queued) = match select(one, other).await {
            Either::Left(done) | Either::Right(done) => done,
        };
        let refused = refused.rest().await;
        let text = refused.result()["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("too many calls"), "{text}");
        drop(queued);
        cancelled(&gateway, "m", f64::from(round)).await;
    }
    running.result(r#"{"resultType":"complete","content":[]}"#);
    first.answer().await.rest().await;
    server.release("tools/call");
    let reply = gateway.send(call("m_t", r#"{"n":4}"#)).await;
    assert_eq!(reply.result()["structuredContent"]["n"], 4, "{reply:?}");
    let arrived = server
        .requests("tools/call")
        .into_iter()
        .map(|seen| seen.raw(&["params", "arguments", "n"]).unwrap());
    assert_eq!(arrived.collect::<Vec<_>>(), ["1", "4"]);
    nothing_is_left(&gateway).await;
}

/// Covers: H-81: on modern HTTP the message cancels nothing.
#[tokio::test(flavor = "multi_thread")]
async fn h_81_the_message_is_not_the_cancel() {
    let server = Server::modern("m", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("m", &server.url(), "").start().await;
    let mut held = server.hold("tools/call");
    let client = sent(&gateway, call("m_t", "{}").id(7)).await;
    let mut exchange = held.next().await;
    let ids = [exchange.seen.id().unwrap(), "7".to_owned(), "\"unknown\"".to_owned()];
    for id in ids {
        let body = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        );
        assert_eq!(gateway.send(Request::post(body)).await.verdict(), (202, None));
    }
    assert!(!exchange.is_gone());
    exchange.result(r#"{"resultType":"complete","content":[]}"#);
    assert_eq!(client.answer().await.rest().await.verdict(), (200, Some(0)));
    assert!(server.requests("notifications/cancelled").is_empty());
}

/// Gives up `count` calls of one server once they have arrived there.
async fn give_up(gateway: &Gateway, name: &str, count: usize, arrived: &mut impl AsyncFnMut()) {
    for _ in 0..count {
        let client = sent(gateway, call(name, "{}")).await;
        arrived().await;
        drop(client);
    }
}

async fn arrived(held: &mut Held) {
    let mut exchange = held.next().await;
    tokio::spawn(async move { exchange.gone().await });
}

/// Covers: H-80, F-019: 500 calls given up leave no task, permit, connection, descriptor or id behind.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_cancelled_calls_leave_nothing_behind() {
    let modern = Server::modern("m", Offer::tools(&["t"])).await;
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    let child = Child::python(CHILD);
    // So few permits that a lost one shows at once.
    let more = "max_concurrency = 2\nqueue = 4\ntimeout = \"60s\"";
    let gateway = Setup::new()
        .http("m", &modern.url(), more)
        .http("l", &legacy.url(), more)
        .stdio("p", &child.argv(), more)
        .start()
        .await;
    for name in ["m_t", "l_t", "p_now"] {
        assert_ne!(gateway.send(call(name, "{}")).await.result()["isError"], true);
    }
    nothing_is_left(&gateway).await;
    let idle = async || modern.open() + legacy.open();
    let own = async || gateway.metric("gatehouse_tasks", &[]).await - idle().await as f64;
    let (tasks, files) = (own().await, gateway.metric("process_open_fds", &[]).await - idle().await as f64);

    let mut held = modern.hold("tools/call");
    give_up(&gateway, "m_t", 170, &mut async || arrived(&mut held).await).await;
    let mut held = legacy.hold("tools/call");
    give_up(&gateway, "l_t", 170, &mut async || arrived(&mut held).await).await;
    let mut calls = child.requests("tools/call").len();
    give_up(&gateway, "p_hold", 160, &mut async || {
        calls += 1;
        eventually("the child has the call", async || child.requests("tools/call").len() >= calls).await;
    })
    .await;
    for (server, calls) in [("m", 170.0), ("l", 170.0), ("p", 160.0)] {
        cancelled(&gateway, server, calls).await;
    }
    legacy.asked("notifications/cancelled", 170).await;
    eventually("the child was told", async || child.requests("notifications/cancelled").len() == 160).await;
    assert_eq!(legacy.requests("notifications/cancelled").len(), 170);
    nothing_is_left(&gateway).await;
    eventually("no task is left", async || own().await <= tasks).await;
    eventually("no descriptor is left", async || {
        gateway.metric("process_open_fds", &[]).await - idle().await as f64 <= files + 2.0
    })
    .await;
    modern.release("tools/call");
    legacy.release("tools/call");
    for name in ["m_t", "l_t", "p_now"] {
        assert_ne!(gateway.send(call(name, "{}")).await.result()["isError"], true, "{name}");
    }
}

/// Covers: H-80: reads and prompts are cancelled as calls are.
#[tokio::test(flavor = "multi_thread")]
async fn h_80_reads_and_prompts_are_cancelled_too() {
    let mut offer = Offer::tools(&[]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"x://r","name":"r"}"#.to_owned()];
    let server = Server::modern("m", offer).await;
    server.on("resources/read", |seen| Answer::error(seen, 200, -32603, "not yet"));
    let gateway = Setup::new().http("m", &server.url(), "").start().await;
    let cases = [("prompts/get", r#"{"name":"m_p"}"#), ("resources/read", r#"{"uri":"x://r"}"#)];
    for (method, params) in cases {
        let mut held = server.hold(method);
        let client = sent(&gateway, crate::support::request::mcp(method, params)).await;
        let mut exchange = held.next().await;
        drop(client);
        exchange.gone().await;
        let labels = [("method", method), ("outcome", "cancelled")];
        gateway.metric_becomes("gatehouse_requests_total", &labels, 1.0).await;
    }
    nothing_is_left(&gateway).await;
}

/// Covers: H-82, G-55: what still runs at the end of `drain_timeout` is cut, and its server told.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_takes_too_long_cancels() {
    let server = Server::modern("m", Offer::tools(&["t"])).await;
    let gateway = Setup::new().gateway("drain_timeout = \"1s\"").http("m", &server.url(), "").start().await;
    let mut held = server.hold("tools/call");
    let client = sent(&gateway, call("m_t", "{}")).await;
    let mut exchange = held.next().await;
    let began = Instant::now();
    gateway.stop().await;
    assert!(began.elapsed() >= Duration::from_secs(1), "it waited");
    exchange.gone().await;
    drop(client);
}

/// Covers: F-043, H-82: a call whose connection broke, or that a proxy gave up, may still run at a legacy server: it is
/// cancelled there, and is not forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn f_043_a_call_that_was_lost_is_cancelled() {
    for how in ["reset", "cut", "504"] {
        let server = Server::legacy("l", Offer::tools(&["t"])).await;
        let gateway = Setup::new().http("l", &server.url(), "").start().await;
        let mut held = server.hold("tools/call");
        let client = sent(&gateway, call("l_t", "{}")).await;
        let exchange = held.next().await;
        let id = exchange.seen.id().unwrap();
        exchange.spoil(how);
        server.asked("notifications/cancelled", 1).await;
        let told = server.requests("notifications/cancelled");
        assert_eq!(told[0].raw(&["params", "requestId"]), Some(id), "{how}");
        drop(client);
        nothing_is_left(&gateway).await;
    }
}
