//! Batches of 2025-03-26 (G-31).

use serde_json::Value;

use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::legacy::{Session, text};
use crate::support::request::Request;
use crate::support::server::{Offer, Server};
use crate::support::table::{INVALID, METHOD};

async fn one() -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// Covers: G-31, F-088: batches where the revision has them: each message by itself, in either form; not elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn g_31_batches_are_of_2025_03_26() {
    let (_server, gateway) = one().await;
    let session = Session::open(&gateway, "2025-03-26", "{}").await;
    let batch = |messages: &[String]| session.on(Request::post(format!(" [{}]", messages.join(" ,"))));
    let mixed = [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        text("1", "ping", "{}"),
        text("\"1\"", "tools/call", r#"{"name":"s_t","arguments":{"a":1.0}}"#),
        text("2", "x/y", "{}"),
        text("3", "initialize", r#"{"protocolVersion":"2025-03-26","capabilities":{}}"#),
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#.to_owned(),
        "7".to_owned(),
    ];
    let expected = [("1", 0), ("\"1\"", 0), ("2", METHOD), ("3", INVALID), ("4", INVALID), ("", INVALID)];
    for accept in ["application/json, text/event-stream", "application/json", "text/event-stream"] {
        let reply = gateway.send(batch(&mixed).set("Accept", accept)).await;
        assert_eq!((reply.status(), reply.is_events()), (200, accept.contains("event")), "{reply:?}");
        let messages: Vec<Value> = if reply.is_events() {
            reply.texts().iter().map(|text| json::value(text)).collect()
        } else {
            serde_json::from_slice(&reply.body).unwrap()
        };
        assert_eq!(messages.len(), expected.len(), "{reply:?}");
        for (id, code) in expected {
            let id = if id.is_empty() { Value::Null } else { json::value(id) };
            let message = messages
                .iter()
                .find(|message| message["id"] == id)
                .unwrap_or_else(|| panic!("{id} in {reply:?}"));
            assert_eq!(message["error"]["code"].as_i64().unwrap_or(0), code, "{message}");
        }
    }
    let notes = [mixed[0].clone(), mixed[5].clone()];
    assert_eq!(gateway.send(batch(&notes)).await.verdict(), (202, None));
    let many: Vec<String> = (0..51).map(|id| text(&id.to_string(), "ping", "{}")).collect();
    assert_eq!(gateway.send(batch(&many)).await.verdict(), (400, Some(INVALID)));
    assert_eq!(gateway.send(batch(&many[..50])).await.texts().len(), 50);
    assert_eq!(gateway.send(batch(&[])).await.verdict(), (400, Some(INVALID)));
    assert_eq!(gateway.send(session.on(Request::post("[{]"))).await.verdict(), (400, Some(-32700)));
    for version in ["2025-06-18", "2025-11-25"] {
        let later = Session::open(&gateway, version, "{}").await;
        let reply = gateway.send(later.on(Request::post(format!("[{}]", many[0])))).await;
        assert_eq!(reply.verdict(), (400, Some(INVALID)), "{version}");
    }
    gateway.stop().await;
}

/// Covers: G-31, G-75: a cancel in a batch is for a request before it.
#[tokio::test(flavor = "multi_thread")]
async fn g_31_a_batch_cancels_its_own() {
    let (server, gateway) = one().await;
    let _held = server.hold("tools/call");
    let session = Session::open(&gateway, "2025-03-26", "{}").await;
    let messages = [
        text("5", "tools/call", r#"{"name":"s_t"}"#),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#.to_owned(),
        text("6", "ping", "{}"),
    ];
    for accept in ["application/json, text/event-stream", "application/json"] {
        let request = session.on(Request::post(format!("[{}]", messages.join(",")))).set("Accept", accept);
        let reply = gateway.send(request).await;
        assert_eq!(reply.text().matches("\"result\":{}").count(), 1, "{reply:?}");
        assert!(!reply.text().contains("\"id\":5"), "{reply:?}");
    }
    gateway.metric_becomes("gatehouse_inflight", &[], 0.0).await;
    gateway.stop().await;
}
