//! Servers of the 2024-11-05 transport: found by probing or pinned, their endpoint, their answers:
//! G-60 step 4, G-70..G-72, F-080, A-30 (credentials on GET and POST alike).

use serde_json::json;

use crate::support::client::ok;
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::{Stream, names};
use crate::support::gateway::Setup;
use crate::support::request::call;
use crate::support::server::{Offer, Server};
use crate::support::sse_server::{PINNED, SseServer, names as endpoint, pinned};
use crate::support::{eventually, json as text};

/// The request lines' beginnings of what a server saw.
fn lines(seen: &[Seen]) -> Vec<String> {
    let line = |seen: &Seen| {
        let mut words = seen.head.first.split(' ');
        format!("{} {} {}", words.next().unwrap(), words.next().unwrap(), seen.method())
    };
    seen.iter().map(line).collect()
}

/// Covers: G-60 (4), G-65, G-70, G-71, G-72: what is asked until the stream is found, and never again.
#[tokio::test(flavor = "multi_thread")]
async fn g_60_the_older_transport_is_found_by_probing() {
    let server = SseServer::new("s").await;
    let gateway = Setup::new().http("s", &server.url(), "session_scope = \"shared\"").start().await;
    assert_eq!(names(&mut gateway.connect().await, "tools/list").await, ["s_t"]);
    let reply = gateway.send(call("s_t", r#"{"a":1.0}"#)).await;
    assert!(ok(&reply), "{reply:?}");
    assert_eq!(text::raw(&reply.result_text(), &["structuredContent"]).as_deref(), Some(r#"{"a":1.0}"#));
    assert_eq!(reply.result()["resultType"], "complete");
    let seen = server.server.seen();
    assert_eq!(
        lines(&seen)[..5],
        [
            "POST /sse server/discover",
            "POST /sse initialize",
            "GET /sse GET",
            "POST /messages?s=1 initialize",
            "POST /messages?s=1 notifications/initialized",
        ]
    );
    assert_eq!(seen[2].header("accept").as_deref(), Some("text/event-stream"));
    assert!(seen[5..].iter().all(|seen| seen.head.first.starts_with("POST /messages?s=1 ")));
    let sent = server.server.last_call();
    assert!(!sent.text().contains("io.modelcontextprotocol/"), "G-83: {}", sent.text());
    assert_eq!(sent.header("content-type").as_deref(), Some("application/json"));
    // What was found out is remembered: the next stream is opened at once.
    server.cut(1);
    let works = async || ok(&gateway.send(call("s_t", "{}")).await);
    eventually("it works again", works).await;
    assert_eq!(server.server.requests("server/discover").len(), 1);
    let hello = server.server.requests("initialize").pop().unwrap();
    assert!(hello.head.first.starts_with("POST /messages?s=2 "), "{:?}", hello.head);
    gateway.stop().await;
}

/// Covers: G-60 (4): an error body of the modern revision, or other statuses, are no sign of the older transport;
/// and a server that has neither is not ready.
#[tokio::test(flavor = "multi_thread")]
async fn g_60_not_every_refusal_leads_to_a_get() {
    let modern: fn(&Seen) -> Answer = |seen| Answer::error(seen, 400, -32022, "no");
    let wrong: fn(&Seen) -> Answer = |_| Answer::new(406, "", "");
    let broken: fn(&Seen) -> Answer = |_| Answer::new(500, "", "");
    let absent: fn(&Seen) -> Answer = |_| Answer::new(404, "text/plain", "nothing here");
    for (answer, gets) in [(modern, 0), (wrong, 0), (broken, 0), (absent, 1)] {
        let server = Server::legacy("l", Offer::tools(&["t"])).await;
        server.on("server/discover", |_| Answer::new(404, "", ""));
        server.on("initialize", answer);
        server.on("GET", |_| Answer::new(404, "", ""));
        let gateway = Setup::new().http("l", &server.url(), "").start().await;
        server.asked("initialize", 1).await;
        server.asked("GET", gets).await;
        assert_eq!(gateway.send(call("l_t", "{}")).await.result()["isError"], true);
        if gets == 0 {
            assert!(server.requests("GET").is_empty());
        }
    }
}

/// Covers: G-70: pinned, nothing is asked but the stream; the credential is on the GET and on every POST, and goes
/// nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn g_70_credentials_on_the_stream_and_at_the_endpoint() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "[server.credentials]\nkind = \"bearer\"\ntoken = \"sesame\"").await;
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    let seen = server.server.seen();
    assert_eq!(lines(&seen)[0], "GET /sse GET");
    assert_eq!(server.server.requests("server/discover").len(), 0);
    for request in &seen {
        assert_eq!(request.header("authorization").as_deref(), Some("Bearer sesame"), "{request:?}");
    }
    gateway.stop().await;
}

/// Covers: G-70, F-080: endpoints by the rules of links; another origin gets neither a connection nor a credential.
#[tokio::test(flavor = "multi_thread")]
async fn f_080_endpoints_are_resolved_or_refused() {
    let thief = Server::modern("thief", Offer::tools(&["t"])).await;
    let stolen = thief.address;
    for (spelling, good) in [("/messages?s=1", true), ("messages?s=1", true), ("ABS", true), ("THIEF", false)]
    {
        let server = SseServer::new("s").await;
        let own = server.server.address;
        server.begin(move |_| match spelling {
            "ABS" => endpoint(&format!("http://{own}/messages?s=1")),
            "THIEF" => endpoint(&format!("http://{stolen}/messages?s=1")),
            relative => endpoint(relative),
        });
        let gateway = Setup::new().http("s", &server.url(), PINNED).start().await;
        server.opened(1).await;
        let reply = gateway.send(call("s_t", "{}")).await;
        assert_eq!(reply.verdict(), (200, Some(0)), "{spelling}");
        assert_eq!(ok(&reply), good, "{spelling}: {reply:?}");
        if !good {
            gateway.log.wait("the reason is said", |line| line.contains("another origin")).await;
        }
        gateway.stop().await;
    }
    assert_eq!(thief.connections(), 0);
}

/// Covers: F-080: streams in every spelling, cut into single bytes; events of other kinds mean nothing.
#[tokio::test(flavor = "multi_thread")]
async fn f_080_streams_in_every_spelling() {
    for line_end in ["\n", "\r", "\r\n"] {
        let server = SseServer::new("s").await;
        let bytes = [": hello", "retry: 100", "id: 1", "event:endpoint", "data:/messages?s=1", "", ""];
        let bytes = bytes.join(line_end);
        server.begin(move |_| bytes.clone().into_bytes());
        let gateway = pinned(&server, "").await;
        let mut calls = server.hold();
        let asked = call("s_t", "{}");
        let (reply, ()) = tokio::join!(gateway.send(asked), async {
            let seen = calls.next().await;
            let id = seen.id().unwrap();
            let lines = [
                "event: ping",
                "data: {\"jsonrpc\":\"2.0\"}",
                "",
                ": still there",
                "",
                "event: endpoint",
                "data: /elsewhere",
                "",
                "id: 2",
                "data:{\"jsonrpc\":\"2.0\",",
                &format!("data: \"id\":{id},"),
                "data: \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"é😀\"}]}}",
                "",
                "",
            ];
            for byte in lines.join(line_end).as_bytes() {
                server.write(1, &[*byte]);
            }
        });
        assert_eq!(reply.result()["content"][0]["text"], "é😀", "{line_end:?}");
        server.release();
        assert!(ok(&gateway.send(call("s_t", "{}")).await), "the endpoint is the first one");
        gateway.stop().await;
    }
}

/// Covers: G-71: answers come in any order and find their calls; an answer may come before the POST is done; a
/// progress notice reaches its caller only.
#[tokio::test(flavor = "multi_thread")]
async fn g_71_answers_are_matched_by_id() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "max_concurrency = 20").await;
    let mut held = server.hold();
    let running = (0..20).map(|n| {
        let client = gateway.connect();
        async move { client.await.begin(call("s_t", "{}").id(n).meta("progressToken", n)).await.rest().await }
    });
    let answering = async {
        let mut waiting = Vec::new();
        for _ in 0..20 {
            waiting.push(held.next().await);
        }
        for seen in &waiting {
            let token = seen.raw(&["params", "_meta", "progressToken"]).unwrap();
            assert_eq!(Some(&token), seen.id().as_ref(), "ids and tokens are the hop's own");
            server.say(1, &format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"message":"for {token}"}}}}"#
            ));
        }
        for seen in waiting.iter().rev() {
            let id = seen.id().unwrap();
            let text = format!(r#"{{"content":[{{"type":"text","text":"for {id}"}}]}}"#);
            server.say(1, &seen.result(&text));
        }
    };
    let (replies, ()) = tokio::join!(futures_util::future::join_all(running), answering);
    let mut told: Vec<String> = Vec::new();
    for (n, reply) in replies.iter().enumerate() {
        let messages = reply.texts();
        let (progress, last) = (text::value(&messages[0]), text::value(&messages[1]));
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert_eq!((&last["id"], &progress["params"]["progressToken"]), (&json!(n), &json!(n)));
        assert_eq!(last["result"]["content"][0]["text"], progress["params"]["message"]);
        told.push(progress["params"]["message"].to_string());
    }
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 20, "each got its own");
    gateway.stop().await;
}

/// Covers: G-45, R-35, S-52: the server's own requests are answered at the endpoint; its notices reach listeners.
#[tokio::test(flavor = "multi_thread")]
async fn r_35_requests_and_notices_on_the_stream() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "").await;
    for (id, method) in [("\"p\"", "ping"), ("1", "roots/list"), ("2", "sampling/createMessage")] {
        server.say(1, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
    }
    let answers = || -> Vec<Seen> {
        let seen = server.server.seen().into_iter();
        seen.filter(|seen| seen.id().is_some() && seen.raw(&["method"]).is_none()).collect()
    };
    eventually("three answers", async || answers().len() == 3).await;
    for answer in answers() {
        assert!(answer.head.first.starts_with("POST /messages?s=1 "), "{answer:?}");
        match answer.id().unwrap().as_str() {
            "\"p\"" => assert_eq!(answer.raw(&["result"]).as_deref(), Some("{}")),
            _ => assert_eq!(answer.raw(&["error", "code"]).as_deref(), Some("-32601")),
        }
    }
    let mut stream = Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    server.answer(|seen| {
        let fresh = r#"{"tools":[{"name":"fresh","inputSchema":{"type":"object"}}]}"#;
        (seen.method() == "tools/list").then(|| fresh.to_owned())
    });
    server.say(1, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert_eq!(stream.notice().await, "tools");
    assert_eq!(names(&mut gateway.connect().await, "tools/list").await, ["s_fresh"]);
    assert_eq!(server.streams(), 1, "one stream for calls, lists and notices");
    gateway.stop().await;
}

/// Covers: the cancellation matrix, H-82: a client that leaves cancels by a message at the endpoint, under the hop's
/// own id; what still comes for it is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn h_82_a_client_that_leaves_is_told() {
    let server = SseServer::new("s").await;
    let gateway = pinned(&server, "").await;
    let mut held = server.hold();
    let client = gateway.connect().await;
    let client = tokio::spawn(client.begin(call("s_t", "{}")));
    let seen = held.next().await;
    client.abort();
    server.server.asked("notifications/cancelled", 1).await;
    let cancelled = server.server.requests("notifications/cancelled").remove(0);
    assert_eq!(cancelled.raw(&["params", "requestId"]), seen.id());
    server.say(1, &seen.result(r#"{"content":[]}"#));
    server.release();
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    assert_eq!(server.streams(), 1);
    gateway.stop().await;
}
