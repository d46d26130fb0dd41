//! Client capabilities, request by request: never more than declared goes on, what is missing is said: M-33..M-37, F-097.

use serde_json::{Value, json};

use crate::support::child::demo;
use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Request, call};
use crate::support::server::{Offer, Server};
use crate::support::table::{CAPABILITY, RESULT};

async fn one_server() -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    (server, gateway)
}

fn declared(seen: &Seen) -> String {
    seen.raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]).unwrap()
}

/// JSON only: then the status is never decided before the answer is there (H-16).
fn plain(request: impl Into<Request>) -> Request {
    request.into().set("Accept", "application/json")
}

/// Covers: M-21, M-33, M-38: what was declared and can be relayed, as it was written; nothing else, nothing added.
#[tokio::test(flavor = "multi_thread")]
async fn m_33_a_server_is_told_what_this_client_declared() {
    let (server, gateway) = one_server().await;
    for (said, passed) in [
        ("{}", "{}"),
        (r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
        (r#"{"elicitation":{"form":{},"url":{}}}"#, r#"{"elicitation":{"form":{},"url":{}}}"#),
        (r#"{"sampling":{"tools":{},"context":{}}}"#, r#"{"sampling":{"tools":{},"context":{}}}"#),
        (
            r#"{"roots":{"listChanged":true},"sampling":{}}"#,
            r#"{"roots":{"listChanged":true},"sampling":{}}"#,
        ),
        (r#"{"tasks":{},"experimental":{"x":{}},"unknown":{}}"#, "{}"),
        (r#"{"extensions":{"com.example/unknown":{}}}"#, "{}"),
        (
            r#"{"extensions":{"com.example/u":{},"io.modelcontextprotocol/ui":{"mimeTypes":["a"]}}}"#,
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]}}}"#,
        ),
        (r#"{"el\u0069citation":{}}"#, r#"{"el\u0069citation":{}}"#),
    ] {
        let reply = gateway.send(call("s_t", "{}").capabilities(said)).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{said}");
        assert_eq!(declared(&server.last_call()), passed, "{said}");
    }
    gateway.stop().await;
}

/// Covers: M-27, H-23, F-097: two clients at once, each with its own; the next request of one connection starts anew.
#[tokio::test(flavor = "multi_thread")]
async fn f_097_capabilities_are_never_another_requests() {
    let (server, gateway) = one_server().await;
    let kinds = [r#"{"elicitation":{}}"#, r#"{"sampling":{}}"#, r#"{"roots":{}}"#, "{}"];
    let run = |kind: &'static str| {
        let address = gateway.listen;
        tokio::spawn(async move {
            let mut connection = crate::support::client::Connection::open(address).await;
            for _ in 0..50 {
                let arguments = json!({"mine": kind}).to_string();
                let reply = connection.send(call("s_t", arguments).capabilities(kind)).await;
                assert_eq!(reply.verdict(), (200, Some(RESULT)));
                assert_eq!(reply.result()["structuredContent"]["mine"], kind);
            }
        })
    };
    for client in kinds.map(run) {
        client.await.unwrap();
    }
    let calls = server.requests("tools/call");
    assert_eq!(calls.len(), 200);
    for seen in &calls {
        let mine: String =
            serde_json::from_str(&seen.raw(&["params", "arguments", "mine"]).unwrap()).unwrap();
        assert_eq!(declared(seen), mine);
    }
    // One connection, first with, then without.
    let mut connection = gateway.connect().await;
    connection.send(call("s_t", "{}").capabilities(kinds[0])).await;
    connection.send(call("s_t", "{}")).await;
    assert_eq!(declared(&server.last_call()), "{}");
    gateway.stop().await;
}

/// Covers: M-35, M-36, M-37; conformance: sep-2575-server-rejects-undeclared-capability, missing-capability-http-400.
#[tokio::test(flavor = "multi_thread")]
async fn m_36_what_is_missing_is_said_as_the_server_said_it() {
    let (server, gateway) = one_server().await;
    let needs = |data: &'static str| {
        move |seen: &Seen| {
            let text = seen.error(-32021, "Elicitation (URL) is required", Some(data));
            Answer::new(400, "application/json", text)
        }
    };
    server.on("tools/call", needs(r#"{"requiredCapabilities":{"elicitation":{"url":{}}},"more":1.0}"#));
    for declared in ["{}", r#"{"sampling":{}}"#, r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}}}"#] {
        let reply = gateway.send(plain(call("s_t", "{}").id("\"x\"").capabilities(declared))).await;
        assert_eq!(reply.verdict(), (400, Some(CAPABILITY)), "{declared}");
        assert_eq!(reply.message()["id"], "x");
        let data = crate::support::json::raw(&reply.last(), &["error", "data"]);
        assert_eq!(
            data.as_deref(),
            Some(r#"{"requiredCapabilities":{"elicitation":{"url":{}}},"more":1.0}"#)
        );
    }
    // It was declared, so the gap is ours (M-37): never blame the client.
    let all = r#"{"elicitation":{"form":{},"url":{}}}"#;
    assert_eq!(gateway.send(plain(call("s_t", "{}").capabilities(all))).await.code(), Some(-32603));
    let labels = [("tool", "s_t"), ("outcome", "rpc_error")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 4.0);
    gateway.stop().await;
}

/// The same with a server that means it, over HTTP semantics of a child. Covers: M-35, M-36.
#[tokio::test(flavor = "multi_thread")]
async fn m_35_a_child_that_needs_elicitation() {
    let gateway = Setup::new().stdio("d", &demo(&["--era", "modern"]), "").start().await;
    let without = gateway.send(plain(call("d_ask", "{}"))).await;
    assert_eq!(without.verdict(), (400, Some(CAPABILITY)));
    let required = without.message()["error"]["data"]["requiredCapabilities"].clone();
    assert!(matches!(&required, Value::Object(wanted) if wanted.contains_key("elicitation")), "{required}");
    let with = gateway.send(call("d_ask", "{}").capabilities(r#"{"elicitation":{}}"#)).await;
    assert_eq!(with.result()["resultType"], "input_required");
    gateway.stop().await;
}
