//! Legacy clients at the door: the era of a request, `initialize`, the session and its rules (H-20, G-01..G-30).

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, initialize, text};
use crate::support::request::{Request, VERSION, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{HEADER, INVALID, METHOD, OTHER_VERSION, PARAMS, RESULT, judge, row};

/// Every revision that is served, oldest first.
const SERVED: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn offer() -> Offer {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"s://r","name":"r"}"#.to_owned()];
    offer
}

/// A modern server `m` and a legacy one `l`, with one tool `t`, one prompt, one resource each.
async fn both() -> (Server, Server, Gateway) {
    let modern = Server::modern("m", offer()).await;
    let mut other = offer();
    other.resources = vec![r#"{"uri":"l://r","name":"r"}"#.to_owned()];
    let legacy = Server::legacy("l", other).await;
    let gateway = Setup::new().http("m", &modern.url(), "").http("l", &legacy.url(), "").start().await;
    (modern, legacy, gateway)
}

/// Covers: G-10, G-11, G-14, G-20, G-21, F-066, F-005: each revision is agreed on, whatever the header says, an unknown one
/// becomes our newest legacy one; one catalogue of servers of both eras is listed and called, nothing modern in it.
#[tokio::test(flavor = "multi_thread")]
async fn g_10_each_revision_is_agreed_on_and_served() {
    let (modern, legacy, gateway) = both().await;
    let asked = SERVED.iter().map(|version| (*version, *version));
    for (asked, agreed) in
        asked.chain([("2026-07-28", SERVED[2]), ("2024-11-05", SERVED[2]), ("x", SERVED[2])])
    {
        for header in [None, Some(asked), Some("2025-12-31"), Some(VERSION)] {
            let mut request = initialize(asked, "{}").with("Mcp-Method", "initialize");
            if let Some(header) = header {
                request = request.with("MCP-Protocol-Version", header);
            }
            let reply = gateway.send(request).await;
            let session = Session::of(&reply, Vec::new());
            assert_eq!(session.version, agreed, "{asked} {header:?}");
        }
        let session = Session::open(&gateway, asked, "{}").await;
        assert_eq!(session.hello["serverInfo"]["name"], "gatehouse");
        let capabilities = &session.hello["capabilities"];
        assert_eq!(capabilities["tools"], json!({"listChanged": true}), "{}", session.hello);
        for only_modern in ["resultType", "ttlMs", "cacheScope", "supportedVersions", "_meta"] {
            assert_eq!(session.hello[only_modern], Value::Null, "{}", session.hello);
        }
        let initialized = gateway.send(session.notification("notifications/initialized", "{}")).await;
        assert_eq!(initialized.verdict(), (202, None));
        assert_eq!(session.tools(&gateway).await, ["m_t", "l_t"]);
        for (tool, who) in [("m_t", "m:t"), ("l_t", "l:t")] {
            let reply = gateway.send(session.call("\"c\"", tool, r#"{"a":1.0}"#)).await;
            assert_eq!(
                (reply.verdict(), &reply.message()["id"]),
                ((200, Some(RESULT)), &json!("c")),
                "{reply:?}"
            );
            assert_eq!(reply.header("mcp-session-id"), None, "G-20: only `initialize` gives it");
            let result = reply.result();
            assert_eq!(result["content"][0]["text"], who);
            assert_eq!(
                (&result["resultType"], &result["_meta"]),
                (&Value::Null, &Value::Null),
                "G-81: {result}"
            );
            let structured = if agreed == "2025-03-26" { Value::Null } else { json!({"a": 1.0}) };
            assert_eq!(result["structuredContent"], structured, "M-85: {agreed}");
        }
    }
    let declared = modern.last_call().raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]);
    assert_eq!(declared.as_deref(), Some("{}"));
    assert!(!legacy.requests("tools/call").is_empty());
    gateway.stop().await;
}

/// Covers: H-20, H-21, H-08, G-02, G-03, G-22, G-23, G-27, G-13, F-009, F-010, F-066: who is of which era, and the answers
/// about sessions.
#[tokio::test(flavor = "multi_thread")]
async fn h_20_the_era_of_a_request() {
    let (_modern, _legacy, gateway) = both().await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let bare = |method: &str| Request::post(text("\"a\"", method, "{}"));
    let list = || bare("tools/list");
    let own = |request: Request| request.with("Mcp-Session-Id", &session.id);
    let long = "a".repeat(4096);
    let mut rows = vec![
        row("modern in a session", own(mcp("tools/list", "{}").request()), 200, RESULT),
        row("modern ping in a session", own(mcp("ping", "{}").request()), 404, METHOD),
        row("initialize with modern _meta", mcp("initialize", "{}"), 404, METHOD),
        row("header modern, no _meta", list().with("MCP-Protocol-Version", VERSION), 400, PARAMS),
        row("the same in a session", own(list()).with("MCP-Protocol-Version", VERSION), 400, PARAMS),
        row(
            "unknown version, no session",
            list().with("MCP-Protocol-Version", "2027-01-01"),
            400,
            OTHER_VERSION,
        ),
        row("no session, no version", list(), 400, INVALID),
        row("no session, legacy version", list().with("MCP-Protocol-Version", "2025-06-18"), 400, INVALID),
        row("ping without session", bare("ping"), 400, INVALID),
        row("no version in a session", own(list()), 200, RESULT),
        row("the agreed version", own(list()).with("MCP-Protocol-Version", "2025-06-18"), 200, RESULT),
        row(
            "another one that is served",
            own(list()).with("MCP-Protocol-Version", "2025-11-25"),
            200,
            RESULT,
        ),
        row("one that is not", own(list()).with("MCP-Protocol-Version", "2024-11-05"), 400, INVALID),
        row("an unknown one", own(list()).with("MCP-Protocol-Version", "2027-01-01"), 400, INVALID),
        row(
            "two versions",
            own(list()).with("MCP-Protocol-Version", "2025-06-18").with("MCP-Protocol-Version", "2025-06-18"),
            400,
            INVALID,
        ),
        row("two sessions", own(own(list())), 400, INVALID),
        row("initialize in a session", session.on(initialize("2025-06-18", "{}")), 400, INVALID),
        row("initialize without version", Request::post(text("1", "initialize", "{}")), 200, PARAMS),
        row(
            "initialize of an odd version",
            Request::post(text("1", "initialize", r#"{"protocolVersion":7}"#)),
            200,
            PARAMS,
        ),
        row("an unknown method", session.request("7", "x/y", "{}"), 200, METHOD),
        row("a modern method", session.request("7", "server/discover", "{}"), 200, METHOD),
        row("params of another type", session.request("7", "tools/list", "[]"), 200, PARAMS),
        row("null as params", session.request("7", "tools/list", "null"), 200, RESULT),
        row("no such tool", session.call("7", "m_none", "{}"), 200, PARAMS),
        row("no such resource", session.request("7", "resources/read", r#"{"uri":"x://none"}"#), 200, -32002),
        row(
            "a header that would be wrong",
            session.call("7", "m_t", "{}").with("Mcp-Name", "other"),
            200,
            RESULT,
        ),
        row(
            "a header name in other case",
            Request::post(text("7", "ping", "{}")).with("MCP-SESSION-ID", &session.id),
            200,
            RESULT,
        ),
    ];
    for foreign in [
        "f3b1c0de-0000-4000-8000-000000000000",
        &session.id[..session.id.len() - 3],
        "a@b/c+d=",
        &long,
        "1.AAAA",
    ] {
        rows.push(row(
            format!("session {foreign:.20}"),
            list().with("Mcp-Session-Id", foreign),
            404,
            INVALID,
        ));
    }
    judge(&gateway, rows).await;
    let foreign = |method: &str| {
        Request::new(method, "/mcp").with("Accept", "text/event-stream").with("Mcp-Session-Id", "x")
    };
    for method in ["GET", "DELETE"] {
        assert_eq!(gateway.send(foreign(method)).await.verdict(), (404, Some(INVALID)), "G-23: {method}");
        let nameless = foreign(method).without("Mcp-Session-Id");
        assert_eq!(gateway.send(nameless).await.verdict(), (400, Some(INVALID)), "G-22: {method}");
    }
    let other = gateway.send(session.get().set("Accept", "application/json")).await;
    assert_eq!(other.verdict(), (406, None), "G-32");
    for method in ["PUT", "PATCH", "HEAD", "OPTIONS"] {
        let reply = gateway.send(Request::new(method, "/mcp")).await;
        assert_eq!(reply.status(), 405, "F-090: {method}");
        assert_eq!(reply.header("allow").as_deref(), Some("POST, GET, DELETE"));
    }
    assert_eq!(gateway.metric("gatehouse_header_rejections_total", &[]).await, 0.0);
    assert!(gateway.metric("gatehouse_requests_total", &[("method", "ping"), ("era", "legacy")]).await > 0.0);
    assert_ne!(HEADER, INVALID);
    gateway.stop().await;
}

/// Covers: G-15, G-24, G-30, F-028, F-042: ping, levels, notifications, answers nobody waits for; the end of a session.
#[tokio::test(flavor = "multi_thread")]
async fn g_24_a_session_ends_and_is_gone() {
    let (_modern, _legacy, gateway) = both().await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    gateway.metric_becomes("gatehouse_sessions", &[], 1.0).await;
    assert_eq!(session.ask(&gateway, "ping", "{}").await.result_text(), "{}");
    assert_eq!(session.ask(&gateway, "logging/setLevel", r#"{"level":"debug"}"#).await.result_text(), "{}");
    for odd in [r#"{"level":"loud"}"#, r#"{"level":1}"#, "{}"] {
        assert_eq!(session.ask(&gateway, "logging/setLevel", odd).await.code(), Some(PARAMS), "{odd}");
    }
    for heard in [
        session.notification("notifications/initialized", "{}"),
        session.notification("notifications/roots/list_changed", "{}"),
        session.notification("notifications/unheard/of", "{}"),
        session.notification("notifications/cancelled", r#"{"requestId":"none"}"#),
        session.notification("notifications/cancelled", r#"{"requestId":{}}"#),
        session.answer(&json!({"id": 5}), &json!({})),
        session.refusal(&json!({"id": "gatehouse-1-1"})),
    ] {
        assert_eq!(gateway.send(heard).await.verdict(), (202, None));
    }
    let ended = gateway.send(session.delete()).await;
    assert_eq!(ended.verdict(), (200, None));
    for again in [
        session.delete(),
        session.get(),
        session.request("1", "tools/list", "{}"),
        session.notification("notifications/initialized", "{}"),
    ] {
        assert_eq!(gateway.send(again).await.verdict(), (404, Some(INVALID)), "G-23");
    }
    gateway.metric_becomes("gatehouse_sessions", &[], 0.0).await;
    Session::open(&gateway, "2025-11-25", "{}").await;
    gateway.stop().await;
}

/// Covers: G-12, F-011, H-22: a dead server takes nothing from the others, and costs `initialize` nothing.
#[tokio::test(flavor = "multi_thread")]
async fn f_011_initialize_waits_for_no_server() {
    let server = Server::modern("s", offer()).await;
    let setup = Setup::new().http("s", &server.url(), "").http(
        "dead",
        "http://127.0.0.1:9/mcp",
        "list_timeout = \"1s\"",
    );
    let gateway = setup.launch().await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let reply = session.ask(&gateway, "tools/list", "{}").await;
    assert_eq!(reply.result()["tools"][0]["name"], "s_t");
    assert_eq!(reply.result()["_meta"], json!({"dev.gatehouse/missing": ["dead"]}));
    let reply = gateway.send(session.call("1", "dead_x", "{}")).await;
    assert_eq!(reply.result()["isError"], true);
    assert!(reply.result()["content"][0]["text"].as_str().unwrap().contains("dead"), "{reply:?}");
    gateway.stop().await;
}

/// Covers: M-83, M-85, G-81: what a revision does not have is neither listed nor answered.
#[tokio::test(flavor = "multi_thread")]
async fn m_85_lists_and_results_as_the_revision_has_them() {
    const TOOL: &str = r#"{"name":"t","title":"T","icons":[{"src":"https://x.example/i"}],"execution":{},"inputSchema":{"type":"object","x":1.0},"outputSchema":{"type":"object"},"annotations":{"title":"A"}}"#;
    const ODD: &str = r#"{"name":"u","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#;
    let server = Server::modern("s", Offer::defined(&[TOOL, ODD])).await;
    server.on("tools/call", |seen| {
        let link = r#"{"type":"resource_link","uri":"s://x","name":"X"}"#;
        let (structured, content) = match seen.raw(&["params", "arguments", "kind"]).as_deref() {
            Some("\"list\"") => ("[1.0]", "[]".to_owned()),
            _ => (r#"{"n":1.0}"#, format!("[{link},{{\"type\":\"strange\"}},{{\"type\":\"text\",\"text\":\"x\"}}]")),
        };
        Answer::result(seen, &format!(
            "{{\"ttlMs\":1,\"resultType\":\"complete\",\"content\":{content},\"structuredContent\":{structured},\"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{{}},\"com.example/k\":1e2}}}}"
        ))
    });
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    for (version, keys, odd) in [
        ("2025-03-26", vec!["name", "inputSchema", "annotations"], vec!["name", "inputSchema"]),
        (
            "2025-06-18",
            vec!["name", "title", "inputSchema", "outputSchema", "annotations"],
            vec!["name", "inputSchema"],
        ),
        (
            "2025-11-25",
            vec!["name", "title", "icons", "execution", "inputSchema", "outputSchema", "annotations"],
            vec!["name", "inputSchema"],
        ),
    ] {
        let session = Session::open(&gateway, version, "{}").await;
        let listed = session.ask(&gateway, "tools/list", "{}").await.result_text();
        let tools: Vec<Box<serde_json::value::RawValue>> =
            serde_json::from_str(&crate::support::json::raw(&listed, &["tools"]).unwrap()).unwrap();
        assert_eq!(crate::support::json::keys(tools[0].get()), keys, "{version}");
        assert_eq!(crate::support::json::keys(tools[1].get()), odd, "{version}");
        assert_eq!(crate::support::json::keys(&listed), ["tools"], "{version}");

        let reply = gateway.send(session.call("1", "s_t", "{}")).await;
        let result = reply.result();
        assert_eq!(
            crate::support::json::raw(&reply.result_text(), &["_meta"]).as_deref(),
            Some(r#"{"com.example/k":1e2}"#)
        );
        assert_eq!((&result["ttlMs"], &result["resultType"]), (&Value::Null, &Value::Null));
        let kinds: Vec<&str> = result["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["type"].as_str().unwrap())
            .collect();
        if version == "2025-03-26" {
            assert_eq!(kinds, ["text", "text", "text"]);
            assert_eq!(result["content"][0]["text"], "X: s://x");
            assert_eq!(result["structuredContent"], Value::Null);
        } else {
            assert_eq!(kinds, ["resource_link", "strange", "text"]);
            assert_eq!(
                crate::support::json::raw(&reply.result_text(), &["structuredContent"]).as_deref(),
                Some(r#"{"n":1.0}"#)
            );
        }
        let reply = gateway.send(session.call("1", "s_t", r#"{"kind":"list"}"#)).await;
        assert_eq!(reply.result()["structuredContent"], Value::Null, "M-83: {version}");
        assert_eq!(
            reply.result()["content"],
            json!([{"type": "text", "text": "[1.0]"}]),
            "M-83: a copy as text"
        );
    }
    gateway.stop().await;
}

/// Covers: G-25, F-027: what nobody uses ends by itself, and its id is gone.
#[tokio::test(flavor = "multi_thread")]
async fn g_25_idle_sessions_end() {
    let server = Server::modern("s", offer()).await;
    let lines = "session_idle = \"400ms\"\nmax_sessions = 3";
    let gateway = Setup::new().gateway(lines).http("s", &server.url(), "").start().await;
    let held = Session::open(&gateway, "2025-06-18", "{}").await;
    let stream = held.stream(&gateway, held.get()).await;
    let idle = Session::open(&gateway, "2025-06-18", "{}").await;
    gateway.metric_becomes("gatehouse_sessions", &[], 1.0).await;
    assert_eq!(idle.ask(&gateway, "ping", "{}").await.status(), 404);
    assert_eq!(held.ask(&gateway, "ping", "{}").await.status(), 200, "somebody reads its stream");
    drop(stream);
    gateway.metric_becomes("gatehouse_sessions", &[], 0.0).await;
    eventually("the held one is gone as well", async || {
        held.ask(&gateway, "ping", "{}").await.status() == 404
    })
    .await;
    assert_eq!(gateway.send(call("s_t", "{}")).await.status(), 200);
    gateway.stop().await;
}
