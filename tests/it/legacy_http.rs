//! 2025 servers over Streamable HTTP: handshake, sessions and their loss, the server's own requests, the end:
//! G-40..G-48, G-80, F-002, F-005, F-006, F-042 (by rule).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::client::ok;
use crate::support::eventually;
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::{Feed, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::{json as text, within};

fn initialized(seen: &Seen, version: &str) -> Answer {
    Answer::result(
        seen,
        &format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"x","version":"1"}}}}"#
        ),
    )
}

async fn one(server: &Server, more: &str) -> Gateway {
    // One session for all: what is said of it holds for each.
    Setup::new().http("l", &server.url(), &format!("session_scope = \"shared\"\n{more}")).start().await
}

/// Covers: G-40, G-41, F-006: the handshake, and what every later request bears.
#[tokio::test(flavor = "multi_thread")]
async fn g_40_the_handshake_and_what_follows() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let gateway = one(&server, "").await;
    let reply = gateway.send(call("l_t", r#"{"a":1}"#)).await;
    assert!(ok(&reply), "{reply:?}");
    assert_eq!(reply.result()["resultType"], "complete");
    assert!(reply.header("mcp-session-id").is_none(), "F-005: sessions are the hop's own");
    let seen = server.seen();
    let methods: Vec<String> = seen.iter().map(Seen::method).collect();
    assert_eq!(methods[..3], ["server/discover", "initialize", "notifications/initialized"]);
    let hello = &seen[1];
    assert_eq!(hello.header("mcp-session-id"), None);
    assert_eq!(hello.header("mcp-protocol-version"), None);
    assert_eq!(hello.raw(&["params", "protocolVersion"]).as_deref(), Some("\"2025-11-25\""));
    assert_eq!(hello.raw(&["params", "capabilities"]).as_deref(), Some("{}"), "nothing we could not keep");
    assert!(hello.raw(&["params", "clientInfo", "name"]).is_some());
    assert!(hello.raw(&["params", "_meta"]).is_none());
    let session = seen[2].header("mcp-session-id");
    assert!(session.is_some());
    assert_eq!(seen[2].id(), None);
    for later in &seen[2..] {
        assert_eq!(later.header("mcp-session-id"), session, "{}", later.method());
        assert_eq!(later.header("mcp-protocol-version").as_deref(), Some("2025-11-25"), "{}", later.method());
    }
    for posted in &seen[1..] {
        let accept = posted.header("accept").unwrap();
        assert!(accept.contains("application/json") && accept.contains("text/event-stream"), "{accept}");
        assert!(!posted.text().contains("io.modelcontextprotocol/"), "G-83: {}", posted.text());
        assert!(!posted.text().contains("null"), "F-048: {}", posted.text());
    }
}

/// Covers: G-40, G-41: other revisions, servers without sessions, and a revision nobody knows.
#[tokio::test(flavor = "multi_thread")]
async fn g_41_the_negotiated_revision_is_said() {
    let header = |version: &str| (version >= "2025-06-18").then(|| version.to_owned());
    for version in ["2025-06-18", "2025-03-26"] {
        let server = Server::legacy("l", Offer::tools(&["t"])).await;
        server.on("initialize", move |seen| initialized(seen, version));
        server.on("notifications/initialized", |_| Answer::new(204, "", ""));
        server.on("tools/list", |seen| {
            Answer::result(seen, r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#)
        });
        server.on("tools/call", |seen| Answer::result(seen, r#"{"content":[]}"#));
        let gateway = one(&server, "").await;
        assert!(ok(&gateway.send(call("l_t", "{}")).await));
        let sent = server.last_call();
        assert_eq!(
            (sent.header("mcp-session-id"), sent.header("mcp-protocol-version")),
            (None, header(version))
        );
    }
    let odd = Server::legacy("l", Offer::tools(&["t"])).await;
    odd.on("initialize", |seen| initialized(seen, "1999-01-01"));
    let gateway = one(&odd, "").await;
    assert_eq!(gateway.send(call("l_t", "{}")).await.result()["isError"], true);
    odd.asked("initialize", 2).await;
    assert!(odd.requests("notifications/initialized").is_empty() && odd.requests("tools/call").is_empty());
}

/// Twenty calls at once, each of which must come back with its own arguments.
async fn twenty(gateway: &Gateway) {
    let calls = (0..20).map(|n| gateway.send(call("l_t", format!(r#"{{"n":{n}}}"#)).id(n)));
    let replies = within("twenty calls", futures_util::future::join_all(calls)).await;
    for (n, reply) in replies.iter().enumerate() {
        assert_eq!(reply.result()["structuredContent"]["n"], n, "{reply:?}");
    }
}

/// Covers: G-42, F-002: a lost session is opened anew once, whoever asks, and every call is carried out once.
#[tokio::test(flavor = "multi_thread")]
async fn g_42_twenty_calls_open_one_new_session() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let gateway = one(&server, "max_concurrency = 20").await;
    twenty(&gateway).await;
    for round in 1..=3 {
        server.wipe_sessions();
        let (calls, handshakes) = (server.requests("tools/call").len(), server.requests("initialize").len());
        let mut held = server.hold("notifications/initialized");
        // The new session is not ready before all twenty wait for it.
        let ready = async {
            let exchange = held.next().await;
            gateway.metric_becomes("gatehouse_inflight", &[("server", "l")], 20.0).await;
            let session = exchange.seen.header("mcp-session-id");
            exchange.reply(202, "");
            session
        };
        let (session, ()) = tokio::join!(ready, twenty(&gateway));
        assert_eq!(server.requests("initialize").len(), handshakes + 1, "round {round}");
        let made = server.requests("tools/call").split_off(calls);
        let (new, old): (Vec<_>, Vec<_>) =
            made.iter().partition(|seen| seen.header("mcp-session-id") == session);
        assert_eq!(new.len(), 20, "each is carried out once");
        assert!((1..=20).contains(&old.len()), "and refused once at most: {}", old.len());
    }
    server.release("notifications/initialized");
    server.wipe_sessions();
    assert_eq!(names(&mut gateway.connect().await, "tools/list").await, ["l_t"]);
    twenty(&gateway).await;
}

/// Covers: G-42: sessions lost in other words; a session that is lost again and again is given up, not chased.
#[tokio::test(flavor = "multi_thread")]
async fn g_42_a_session_is_lost_in_other_words() {
    const WORDS: &[fn(&Seen) -> Answer] = &[
        |_| Answer::new(400, "text/plain", "Bad Request: No valid session ID provided"),
        |seen| Answer::error(seen, 400, -32000, "Server not initialized: unknown Session"),
        |seen| Answer::error(seen, 404, -32001, "Session not found"),
        |_| Answer::new(404, "text/html", "<h1>gone"),
    ];
    for refusal in WORDS {
        let server = Server::legacy("l", Offer::tools(&["t"])).await;
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        server.on("tools/call", move |seen| match counted.fetch_add(1, Ordering::SeqCst) {
            1 | 3.. => refusal(seen),
            _ => Answer::result(seen, r#"{"content":[]}"#),
        });
        let gateway = one(&server, "").await;
        // Good; refused and then good.
        assert!(ok(&gateway.send(call("l_t", "{}")).await));
        assert!(ok(&gateway.send(call("l_t", "{}")).await));
        assert_eq!((server.requests("initialize").len(), count.load(Ordering::SeqCst)), (2, 3));
        // Refused for ever.
        let reply = gateway.send(call("l_t", "{}")).await;
        assert!(!ok(&reply) && reply.status() == 200, "{reply:?}");
        assert_eq!((server.requests("initialize").len(), count.load(Ordering::SeqCst)), (3, 5));
    }
    // Without a session, 404 is no loss of one.
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    server.on("initialize", |seen| initialized(seen, "2025-11-25"));
    server.on("*", |seen| match seen.id() {
        None => Answer::new(202, "", ""),
        Some(_) => Answer::error(seen, 400, -32601, "not here"),
    });
    server.on("tools/list", |seen| {
        Answer::result(seen, r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#)
    });
    server.on("tools/call", |_| Answer::new(404, "", ""));
    let gateway = one(&server, "").await;
    assert!(!ok(&gateway.send(call("l_t", "{}")).await));
    assert_eq!(server.requests("tools/call").len(), 1);
}

/// Covers: G-45, F-042: what a server asks during a call is answered at once, to it, under its own id; `ping` with
/// `{}`, what nobody declared with an error.
#[tokio::test(flavor = "multi_thread")]
async fn g_45_requests_of_the_server_are_answered_by_rule() {
    let servers =
        [Server::legacy("a", Offer::tools(&["t"])).await, Server::legacy("b", Offer::tools(&["t"])).await];
    let gateway =
        Setup::new().http("a", &servers[0].url(), "").http("b", &servers[1].url(), "").start().await;
    let mut running = Vec::new();
    for (server, name) in servers.iter().zip(["a_t", "b_t"]) {
        let mut held = server.hold("tools/call");
        let client = gateway.connect().await;
        let client = tokio::spawn(client.begin(call(name, "{}").meta("progressToken", "1")));
        let exchange = held.next().await;
        exchange.open_events();
        running.push((client, exchange));
    }
    for (_, exchange) in &running {
        for (id, method) in [("1", "ping"), ("\"1\"", "ping"), ("2", "no/such"), ("3", "tasks/list")] {
            exchange.event(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
        }
    }
    for (server, (_, exchange)) in servers.iter().zip(&running) {
        let answers = || -> Vec<Seen> {
            let posted = server.seen().into_iter().filter(|s| s.method() == "POST");
            posted.filter(|seen| seen.raw(&["method"]).is_none()).collect()
        };
        eventually("four answers", async || answers().len() == 4).await;
        for answer in answers() {
            let id = answer.id().unwrap();
            let result = answer.raw(&["result"]);
            match id.as_str() {
                "1" | "\"1\"" => assert_eq!(result.as_deref(), Some("{}"), "{}", answer.text()),
                _ => assert!(answer.raw(&["error", "code"]).is_some(), "{}", answer.text()),
            }
            assert_eq!(answer.header("mcp-session-id"), exchange.seen.header("mcp-session-id"));
            assert!(answer.header("mcp-session-id").is_some());
        }
    }
    for (client, exchange) in running {
        exchange.finish(r#"{"content":[{"type":"text","text":"done"}]}"#);
        let reply = within("the call", client).await.unwrap().rest().await;
        assert_eq!(reply.result()["content"][0]["text"], "done");
        assert_eq!(reply.texts().len(), 1, "nothing of it reached the client: {reply:?}");
    }
}

/// Covers: G-45, G-43: the same on the stream outside of calls.
#[tokio::test(flavor = "multi_thread")]
async fn g_45_pings_outside_of_calls_are_answered() {
    let mut offer = Offer::tools(&[]);
    offer.capabilities = vec![r#""tools":{"listChanged":true}"#.to_owned()];
    let server = Server::legacy("l", offer).await;
    let mut held = server.hold("GET");
    let gateway = one(&server, "").await;
    let exchange = held.next().await;
    assert_eq!(exchange.seen.header("accept").as_deref(), Some("text/event-stream"));
    assert!(exchange.seen.header("mcp-session-id").is_some());
    assert_eq!(exchange.seen.header("mcp-protocol-version").as_deref(), Some("2025-11-25"));
    let feed = Feed::legacy(exchange);
    feed.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    feed.say(r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}"#);
    let answer = |id: &str| {
        server.seen().into_iter().find(|s| s.raw(&["method"]).is_none() && s.id().as_deref() == Some(id))
    };
    eventually("both are answered", async || answer("\"p\"").is_some() && answer("7").is_some()).await;
    assert_eq!(answer("\"p\"").unwrap().raw(&["result"]).as_deref(), Some("{}"));
    assert!(answer("7").unwrap().raw(&["error", "code"]).is_some(), "nobody's question (R-31)");
    drop(gateway);
}

/// Covers: G-46: the session is ended with the gateway; who does not know how, or never answers, does not hold it up.
#[tokio::test(flavor = "multi_thread")]
async fn g_46_sessions_end_with_delete() {
    let good = Server::legacy("a", Offer::tools(&["t"])).await;
    let unable = Server::legacy("b", Offer::tools(&["t"])).await;
    unable.on("DELETE", |_| Answer::new(405, "", ""));
    let mute = Server::legacy("c", Offer::tools(&["t"])).await;
    let _unanswered = mute.hold("DELETE");
    let none = Server::modern("d", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .http("a", &good.url(), "")
        .http("b", &unable.url(), "")
        .http("c", &mute.url(), "")
        .http("d", &none.url(), "")
        .start()
        .await;
    gateway.stop().await;
    for server in [&good, &unable, &mute] {
        let deletes = server.requests("DELETE");
        assert_eq!(deletes.len(), 1);
        let session = server.requests("notifications/initialized")[0].header("mcp-session-id");
        assert_eq!(deletes[0].header("mcp-session-id"), session);
        assert!(session.is_some() && deletes[0].body.is_empty());
    }
    assert!(none.requests("DELETE").is_empty());
}

/// Covers: G-80, G-48: results and errors in modern form; messages in arrays are read.
#[tokio::test(flavor = "multi_thread")]
async fn g_80_answers_are_told_in_modern_form() {
    let mut offer = Offer::tools(&["t"]);
    offer.resources = vec![r#"{"uri":"x://r","name":"r"}"#.to_owned()];
    let server = Server::legacy("l", offer).await;
    server.on("resources/read", |seen| {
        Answer::new(
            200,
            "application/json",
            seen.error(-32002, "Resource not found", Some(r#"{"uri":"x://r"}"#)),
        )
    });
    let gateway = one(&server, "").await;
    let reply = gateway.send(mcp("resources/read", r#"{"uri":"x://r"}"#)).await;
    assert_eq!(reply.verdict(), (200, Some(-32602)));
    assert_eq!(reply.message()["error"]["data"]["uri"], "x://r");
    server.release("resources/read");
    let read = gateway.send(mcp("resources/read", r#"{"uri":"x://r"}"#)).await.result();
    assert_eq!(read["contents"], json!([{"uri": "x://r", "text": "l:x://r"}]));
    assert_eq!(
        (&read["resultType"], &read["ttlMs"], &read["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    server.on("tools/call", |seen| {
        let log =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
        Answer::new(200, "application/json", format!("[{log},{}]", seen.result(r#"{"content":[]}"#)))
    });
    assert!(ok(&gateway.send(call("l_t", "{}")).await));
    server.on("tools/call", |seen| Answer::events(&[format!("[{}]", seen.result(r#"{"content":[]}"#))]));
    assert!(ok(&gateway.send(call("l_t", "{}")).await));
}

/// Covers: G-44, H-65: a call whose stream breaks off is lost, and never carried out twice.
#[tokio::test(flavor = "multi_thread")]
async fn g_44_a_broken_stream_is_no_reason_to_call_again() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let gateway = one(&server, "").await;
    for with_id in [false, true] {
        let mut held = server.hold("tools/call");
        let client = tokio::spawn(gateway.connect().await.begin(call("l_t", "{}")));
        let exchange = held.next().await;
        exchange.open_events();
        if with_id {
            exchange.chunk(b"id: 1\ndata:\n\n");
        }
        let calls = server.requests("tools/call").len();
        exchange.close();
        let reply = within("an answer", client).await.unwrap().rest().await;
        let said = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(
            reply.result()["isError"] == true && said.contains("\"l\"") && said.contains("effects"),
            "{said}"
        );
        assert_eq!(server.requests("tools/call").len(), calls);
    }
    server.release("tools/call");
    let again = gateway.send(call("l_t", "{}")).await;
    assert!(ok(&again), "{again:?}");
    assert_eq!(text::value(&again.last())["id"], 1);
}
