//! Streams of 2025 servers that close before their time are taken up behind their last event, after the pause the
//! server asks for, and nothing is ever carried out twice: G-43, G-44, F-054.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::client::{Connection, Reply};
use crate::support::exchange::{Answer, Exchange};
use crate::support::feed::{Feed, Stream, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::inside::{Inside, later};
use crate::support::request::{Mcp, call};
use crate::support::server::{Offer, Server};
use crate::support::{eventually, within};

/// An event with an id; `data` may be empty.
fn event(id: &str, data: &str) -> String {
    format!("id: {id}\ndata: {data}\n\n")
}

fn progress(exchange: &Exchange, n: u32) -> String {
    let token = exchange.seen.raw(&["params", "_meta", "progressToken"]).unwrap();
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}}}}}"#
    )
}

fn done(exchange: &Exchange) -> String {
    exchange.seen.result(r#"{"content":[{"type":"text","text":"done"}]}"#)
}

async fn one(server: &Server, more: &str) -> Gateway {
    Setup::new().http("l", &server.url(), more).start().await
}

fn lost(reply: &Reply) -> bool {
    let text = reply.result()["content"][0]["text"].to_string();
    reply.result()["isError"] == true && text.contains("may have had effects")
}

/// Covers: G-44: the resumed stream has session, revision, credential and the last event; what the client gets is
/// whole and in order, and the call was made once.
#[tokio::test(flavor = "multi_thread")]
async fn g_44_a_stream_is_taken_up_behind_its_last_event() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let (mut calls, mut gets) = (server.hold("tools/call"), server.hold("GET"));
    let gateway = one(&server, "[server.credentials]\nkind = \"bearer\"\ntoken = \"sesame\"").await;
    let client = gateway.connect().await;
    let client = tokio::spawn(client.begin(call("l_t", "{}").meta("progressToken", "1")));
    let first = calls.next().await;
    first.open_events();
    // Priming as 2025-11-25 servers do it, then an event, then the end in order.
    first.chunk(format!("retry: 50\n{}", event("prime/1", "")).as_bytes());
    first.chunk(event("e/2 é", &progress(&first, 1)).as_bytes());
    let (second_part, last_part) = (progress(&first, 2), done(&first));
    let session = first.seen.header("mcp-session-id");
    first.end();
    let second = gets.next().await;
    assert_eq!(second.seen.header("last-event-id").as_deref(), Some("e/2 é"));
    assert_eq!(second.seen.header("mcp-session-id"), session);
    assert_eq!(second.seen.header("mcp-protocol-version").as_deref(), Some("2025-11-25"));
    assert_eq!(second.seen.header("accept").as_deref(), Some("text/event-stream"));
    assert_eq!(second.seen.header("authorization").as_deref(), Some("Bearer sesame"));
    // Cut off without an end, behind an event of its own.
    second.open_events();
    second.chunk(event("e3", &second_part).as_bytes());
    second.close();
    let third = gets.next().await;
    assert_eq!(third.seen.header("last-event-id").as_deref(), Some("e3"));
    third.open_events();
    third.chunk(event("e4", &last_part).as_bytes());
    third.end();
    let reply = within("the call", client).await.unwrap().rest().await;
    let messages = reply.texts();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].contains("\"progress\":1") && messages[1].contains("\"progress\":2"), "{messages:?}");
    assert_eq!(reply.result()["content"][0]["text"], "done");
    assert_eq!(server.requests("tools/call").len(), 1);
    assert!(session.is_some());
    gateway.stop().await;
}

/// Covers: G-44: a server that has to be polled: each stream brings an event of its own and closes, however often.
#[tokio::test(flavor = "multi_thread")]
async fn g_44_polling_servers_are_polled() {
    const ROUNDS: usize = 12;
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let (mut calls, mut gets) = (server.hold("tools/call"), server.hold("GET"));
    let gateway = one(&server, "timeout = \"5m\"").await;
    let client = gateway.connect().await;
    let client = tokio::spawn(client.begin(call("l_t", "{}")));
    let first = calls.next().await;
    let result = done(&first);
    first.open_events();
    first.chunk(format!("retry: 20\n{}", event("0", "")).as_bytes());
    first.end();
    for round in 1..=ROUNDS {
        let exchange = gets.next().await;
        assert_eq!(exchange.seen.header("last-event-id"), Some((round - 1).to_string()));
        exchange.open_events();
        let data = if round == ROUNDS { result.as_str() } else { "" };
        exchange.chunk(event(&round.to_string(), data).as_bytes());
        exchange.end();
    }
    let reply = within("the call", client).await.unwrap().rest().await;
    assert_eq!(reply.result()["content"][0]["text"], "done");
    assert_eq!(server.requests("tools/call").len(), 1);
    gateway.stop().await;
}

/// Covers: G-44: without an id the call is lost and nothing is asked; nor is it after a refusal, or for ever.
#[tokio::test(flavor = "multi_thread")]
async fn g_44_what_cannot_be_taken_up_is_lost() {
    let refusal: fn() -> Answer = || Answer::new(405, "", "");
    let gone: fn() -> Answer = || Answer::new(404, "", "");
    let json: fn() -> Answer = || Answer::new(200, "application/json", "{}");
    let busy: fn() -> Answer = || Answer::new(503, "", "");
    let empty: fn() -> Answer = || Answer::events(&[]);
    let rows = [
        ("no id", "retry: 1\ndata:\n\n", refusal, 0),
        ("an empty id", "retry: 1\nid: 5\ndata:\n\nid:\ndata:\n\n", refusal, 0),
        ("405", "retry: 1\nid: 5\ndata:\n\n", refusal, 1),
        ("404", "retry: 1\nid: 5\ndata:\n\n", gone, 1),
        ("no stream", "retry: 1\nid: 5\ndata:\n\n", json, 1),
        ("503 for ever", "retry: 1\nid: 5\ndata:\n\n", busy, 5),
        ("nothing new for ever", "retry: 1\nid: 5\ndata:\n\n", empty, 5),
    ];
    for (what, events, answer, asked) in rows {
        let server = Server::legacy("l", Offer::tools(&["t"])).await;
        server.on("tools/call", move |_| Answer::new(200, "text/event-stream", events));
        server.on("GET", move |_| answer());
        let gateway = one(&server, "timeout = \"5m\"").await;
        let reply = within(what, gateway.send(call("l_t", "{}"))).await;
        assert!(lost(&reply), "{what}: {reply:?}");
        assert_eq!(server.requests("GET").len(), asked, "{what}");
        assert_eq!(server.requests("tools/call").len(), 1, "{what}");
        let unavailable = gateway.metric("gatehouse_tool_calls_total", &[("outcome", "unavailable")]).await;
        assert_eq!(unavailable, 1.0, "{what}");
        gateway.stop().await;
    }
}

/// Covers: G-43, G-44: nothing is asked before `retry` is over; a call's deadline ends the wait.
#[tokio::test]
async fn g_44_retry_is_honoured_within_the_deadline() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let (mut calls, mut gets) = (server.hold("tools/call"), server.hold("GET"));
    let setup = Setup::new().http("l", &server.url(), "timeout = \"30m\"\nmax_timeout = \"30m\"");
    let gateway = Inside::start(setup).await;
    let mut client = patient(&gateway, call("l_t", "{}")).await;
    let first = calls.next().await;
    let result = done(&first);
    first.open_events();
    first.chunk(format!("retry: 600000\n{}", event("1", "")).as_bytes());
    first.end();
    let ended = Instant::now();
    pass(&gateway, async || !gets.is_empty()).await;
    assert!(ended.elapsed() >= Duration::from_secs(600), "not before its time: {:?}", ended.elapsed());
    let second = gets.next().await;
    second.open_events();
    second.chunk(event("2", &result).as_bytes());
    second.end();
    assert!(told(&mut client).await.contains("done"));

    // The same, and the deadline comes first.
    let mut client = patient(&gateway, call("l_t", "{}")).await;
    let first = calls.next().await;
    let id = first.seen.id();
    first.open_events();
    first.chunk(format!("retry: 3600000\n{}", event("1", "")).as_bytes());
    first.end();
    pass(&gateway, async || !server.requests("notifications/cancelled").is_empty()).await;
    let text = told(&mut client).await;
    assert!(text.contains("timeout"), "{text}");
    assert_eq!(server.requests("notifications/cancelled")[0].raw(&["params", "requestId"]), id);
    assert!(gets.is_empty());
    gateway.stop().await;
}

/// A call by a client without deadlines of its own: those go by the clock that is moved.
async fn patient(gateway: &Inside, asked: Mcp) -> Connection {
    let mut client = gateway.connect().await;
    client.ask(asked.request().with("Connection", "close")).await;
    client
}

/// All it is told, to the end of its connection.
async fn told(client: &mut Connection) -> String {
    String::from_utf8(client.drain().await).unwrap()
}

/// Moves the clock in small steps, with a call in between so that everything else keeps up, until `done`.
async fn pass(gateway: &Inside, mut done: impl AsyncFnMut() -> bool) {
    // Not by `within`: its clock is the one that is moved.
    for _ in 0..1000 {
        if done().await {
            return;
        }
        later(Duration::from_secs(10)).await;
        names(&mut gateway.connect().await, "tools/list").await;
    }
    panic!("nothing came of it in ten thousand seconds");
}

/// Covers: G-44, G-47: a client that leaves during the pause ends it: the server is told, and not asked any more.
#[tokio::test(flavor = "multi_thread")]
async fn g_47_leaving_during_the_pause_cancels() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let (mut calls, gets) = (server.hold("tools/call"), server.hold("GET"));
    let gateway = one(&server, "timeout = \"5m\"").await;
    let client = tokio::spawn(gateway.connect().await.begin(call("l_t", "{}")));
    let first = calls.next().await;
    let id = first.seen.id();
    first.open_events();
    first.chunk(format!("retry: 3600000\n{}", event("1", "")).as_bytes());
    first.end();
    client.abort();
    server.asked("notifications/cancelled", 1).await;
    assert_eq!(server.requests("notifications/cancelled")[0].raw(&["params", "requestId"]), id);
    gateway.metric_becomes("gatehouse_inflight", &[("server", "l")], 0.0).await;
    assert!(gets.is_empty());
    gateway.stop().await;
}

/// Covers: G-43, S-52, R-35: the stream outside of calls is taken up as well: what was said meanwhile is heard, and
/// since nothing was missed nothing is asked for again. What the server asks there is answered by rule.
#[tokio::test(flavor = "multi_thread")]
async fn g_43_the_stream_outside_of_calls_is_taken_up() {
    let offer = |name: &str| Offer {
        capabilities: vec![r#""tools":{"listChanged":true}"#.to_owned()],
        ..Offer::tools(&[name])
    };
    let server = Server::legacy("l", offer("zero")).await;
    let mut gets = server.hold("GET");
    let gateway = Setup::new().http("l", &server.url(), "").launch().await;
    let first = gets.next().await;
    assert_eq!(first.seen.header("last-event-id"), None);
    first.open_events();
    let listed = async || names(&mut gateway.connect().await, "tools/list").await == ["l_zero"];
    eventually("the first list", listed).await;
    let mut client = Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    first.chunk(b"retry: 1100\nid: a\n\n");
    server.offer(offer("one"));
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    first.chunk(event("b", changed).as_bytes());
    assert_eq!(within("a notice", client.notice()).await, "tools");
    assert_eq!(names(&mut gateway.connect().await, "tools/list").await, ["l_one"]);
    let lists = server.requests("tools/list").len();
    first.end();
    let second = gets.next().await;
    assert_eq!(second.seen.header("last-event-id").as_deref(), Some("b"));
    second.open_events();
    for (id, method) in [("\"p\"", "ping"), ("1", "roots/list"), ("2", "elicitation/create")] {
        second.chunk(event("c", &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)).as_bytes());
    }
    let answers = || {
        let seen = server.seen().into_iter();
        seen.filter(|seen| seen.id().is_some() && seen.raw(&["method"]).is_none()).collect::<Vec<_>>()
    };
    eventually("three answers", async || answers().len() == 3).await;
    for answer in answers() {
        let code = answer.raw(&["error", "code"]);
        assert_eq!(code.is_none(), answer.id().as_deref() == Some("\"p\""), "{}", answer.text());
    }
    assert_eq!(server.requests("tools/list").len(), lists, "no gap, nothing to ask for");
    server.offer(offer("two"));
    second.chunk(event("d", changed).as_bytes());
    assert_eq!(within("a notice", client.notice()).await, "tools");
    assert_eq!(names(&mut gateway.connect().await, "tools/list").await, ["l_two"]);
    // A stream without ids is opened anew, and what is known is asked for again.
    let lists = server.requests("tools/list").len();
    second.chunk(b"id:\ndata:\n\n");
    second.end();
    let third = gets.next().await;
    assert_eq!(third.seen.header("last-event-id"), None);
    let feed = Feed::legacy(third);
    server.asked("tools/list", lists + 1).await;
    drop(feed);
    gateway.stop().await;
}
