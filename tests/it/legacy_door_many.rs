//! Many sessions: bounded, told apart, of their principal only, alive at any replica (G-20..G-26, A-60, A-61, F-010, F-027,
//! F-069, issue 5 "session torture").

use std::collections::BTreeSet;

use base64::Engine as _;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::cast::{by, caller, key};
use crate::support::client::{self, Connection};
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, initialize};
use crate::support::request::Request;
use crate::support::scale;
use crate::support::server::{Offer, Server};
use crate::support::table::{INVALID, RESULT};

fn authorized(name: &str) -> Vec<(String, String)> {
    vec![("Authorization".to_owned(), format!("Bearer {}", key(name)))]
}

fn keys(seed: u8) -> String {
    format!("keys = [\"{}\"]", base64::engine::general_purpose::STANDARD.encode([seed; 32]))
}

/// Covers: A-60, A-61, G-23: a session is no credential, and nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_61_a_session_is_its_principals_own() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let auth = format!("[auth]\n{}{}", caller("ann", "team = \"dev\""), caller("bob", "team = \"hr\""));
    let paths = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/also\"";
    let gateway = Setup::new().http("s", &server.url(), "").toml(&auth).toml(paths).start().await;
    let ann = Session::with(&gateway, "2025-06-18", "{}", authorized("ann")).await;
    assert_eq!(ann.ask(&gateway, "tools/list", "{}").await.status(), 200);
    let list = || ann.request("1", "tools/list", "{}").without("Authorization");
    for request in [list(), ann.get().without("Authorization"), ann.delete().without("Authorization")] {
        assert_eq!(gateway.send(request.clone()).await.verdict(), (401, None), "A-60");
        assert_eq!(gateway.send(by("bob", request)).await.verdict(), (404, Some(INVALID)), "A-61");
    }
    let elsewhere = gateway.send(by("ann", list()).at("/also")).await;
    assert_eq!(elsewhere.verdict(), (404, Some(INVALID)), "of one endpoint only");
    assert_eq!(ann.ask(&gateway, "tools/list", "{}").await.status(), 200, "nothing of it did any harm");
    gateway.stop().await;
}

/// Covers: A-11, A-16: who needs more scopes is told so by status and challenge, also in a session.
#[tokio::test(flavor = "multi_thread")]
async fn a_11_a_step_up_in_a_session() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let auth = format!("[auth]\n{}", caller("ann", "scope = \"other\""));
    let grant = "[[grant]]\nservers = [\"s\"]\ntools = [\"*\"]\nscopes = [\"t:use\"]";
    let gateway = Setup::new().http("s", &server.url(), "").toml(&auth).toml(grant).start().await;
    let ann = Session::with(&gateway, "2025-11-25", "{}", authorized("ann")).await;
    let reply = gateway.send(ann.call("\"x\"", "s_t", "{}")).await;
    assert_eq!((reply.status(), &reply.message()["id"]), (403, &json!("x")), "{reply:?}");
    let challenge = reply.header("www-authenticate").expect("a challenge");
    assert!(challenge.contains("insufficient_scope") && challenge.contains("t:use"), "{challenge}");
    assert!(server.requests("tools/call").is_empty());
    gateway.stop().await;
}

/// Covers: G-26, F-069, F-031: any replica with the same keys serves a session, also one that was restarted; another one
/// does not; each time on a new connection.
#[tokio::test(flavor = "multi_thread")]
async fn g_26_any_replica_serves_a_session() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let replica =
        async |seed: u8| Setup::new().gateway(&keys(seed)).http("s", &server.url(), "").start().await;
    let (one, two, stranger) = (replica(1).await, replica(1).await, replica(2).await);
    let session = Session::open(&one, "2025-06-18", r#"{"sampling":{}}"#).await;
    for _ in 0..5 {
        for gateway in [&one, &two] {
            assert_eq!(session.tools(gateway).await, ["s_t"]);
            let reply = gateway.send(session.call("1", "s_t", "{}")).await;
            assert_eq!(reply.verdict(), (200, Some(RESULT)));
            let seen = server.last_call();
            let declared = seen.raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]);
            assert_eq!(declared.as_deref(), Some(r#"{"sampling":{}}"#), "what was declared goes along");
        }
    }
    drop(session.stream(&two, session.get()).await);
    assert_eq!(stranger.send(session.request("1", "tools/list", "{}")).await.verdict(), (404, Some(INVALID)));
    assert_eq!(two.send(session.delete()).await.status(), 200);
    assert_eq!(session.ask(&two, "ping", "{}").await.status(), 404);
    one.stop().await;
    let again = replica(1).await;
    assert_eq!(session.tools(&again).await, ["s_t"], "after a restart");
    for gateway in [two, stranger, again] {
        gateway.stop().await;
    }
}

/// Covers: G-25, F-027: beyond `max_sessions` the one idle for longest ends; never one that works or is listened to.
#[tokio::test(flavor = "multi_thread")]
async fn g_25_the_one_idle_for_longest_makes_room() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().gateway("max_sessions = 3").http("s", &server.url(), "").start().await;
    let open = async || Session::open(&gateway, "2025-06-18", "{}").await;
    let (heard, old, new) = (open().await, open().await, open().await);
    let _stream = heard.stream(&gateway, heard.get()).await;
    assert_eq!(old.ask(&gateway, "ping", "{}").await.status(), 200);
    let fourth = open().await;
    let alive = async |session: &Session| session.ask(&gateway, "ping", "{}").await.status() == 200;
    assert!(!alive(&new).await, "idle for longest");
    assert!(alive(&heard).await && alive(&old).await && alive(&fourth).await);
    assert_eq!(gateway.metric("gatehouse_sessions", &[]).await, 3.0);
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "max_sessions")]).await, 1.0);

    let mut held = server.hold("tools/call");
    let mut calls = Vec::new();
    for session in [&heard, &old, &fourth] {
        calls.push((
            tokio::spawn(client::send(gateway.listen, session.call("1", "s_t", "{}"))),
            held.next().await,
        ));
    }
    let full = gateway.send(initialize("2025-06-18", "{}")).await;
    assert_eq!(full.verdict(), (503, Some(-32603)), "all are at work");
    assert!(full.header("retry-after").is_some());
    for (reply, exchange) in calls {
        exchange.result(r#"{"content":[]}"#);
        assert_eq!(reply.await.unwrap().verdict(), (200, Some(RESULT)));
    }
    open().await;
    gateway.stop().await;
}

/// One of many sessions of the torture: a third says that it is initialized, a third ends it, each has two streams open, and
/// each calls with the same ids as all others.
async fn tortured(gateway: std::net::SocketAddr, number: usize) -> String {
    let hello = client::send(gateway, initialize("2025-06-18", "{}")).await;
    let session = Session::of(&hello, Vec::new());
    if !number.is_multiple_of(3) {
        let reply = client::send(gateway, session.notification("notifications/initialized", "{}")).await;
        assert_eq!(reply.status(), 202);
    }
    let mut streams = Vec::new();
    for _ in 0..2 {
        let answer = Connection::open(gateway).await.begin(session.get()).await;
        assert_eq!(answer.status(), 200);
        streams.push(answer);
    }
    for id in ["1", "\"1\""] {
        let arguments = format!("{{\"mine\":\"{number}-{}\"}}", id.len());
        let reply = client::send(gateway, session.call(id, "s_t", &arguments)).await;
        assert_eq!(
            reply.result()["structuredContent"],
            serde_json::from_str::<serde_json::Value>(&arguments).unwrap()
        );
        assert_eq!(reply.message()["id"], serde_json::from_str::<serde_json::Value>(id).unwrap());
    }
    let guessed = format!(
        "{}{}",
        &session.id[..session.id.len() - 1],
        if session.id.ends_with('A') { 'B' } else { 'A' }
    );
    let guess = Request::post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).with("Mcp-Session-Id", &guessed);
    assert_eq!(client::send(gateway, guess).await.status(), 404, "a guessed id");
    if number % 3 == 2 {
        assert_eq!(client::send(gateway, session.delete()).await.status(), 200);
        assert_eq!(client::send(gateway, session.get()).await.status(), 404);
    }
    session.id
}

/// Covers: issue 5 "session torture", F-027, F-028, F-086, A-61: hundreds of sessions at once: no cross-talk, bounded, 404
/// where due, and the gauge comes back to zero. `GH_SCALE` times 500.
#[tokio::test(flavor = "multi_thread")]
async fn torture_of_sessions() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let count = 500 * scale();
    let most = count / 2;
    let setup = Setup::new()
        .gateway(&format!("max_sessions = {most}\nmax_streams = 500\nsession_idle = \"5s\""))
        .gateway(&keys(3));
    let gateway = setup.http("s", &server.url(), "").start().await;
    let mut work = JoinSet::new();
    let mut ids = BTreeSet::new();
    for number in 0..count {
        work.spawn(tortured(gateway.listen, number));
        // So many at a time, for the sake of the machine's sockets.
        while work.len() >= 32 {
            ids.insert(work.join_next().await.unwrap().unwrap());
        }
    }
    while let Some(done) = work.join_next().await {
        ids.insert(done.unwrap());
    }
    assert_eq!(ids.len(), count, "no id twice");
    assert!(gateway.metric("gatehouse_sessions", &[]).await <= most as f64);
    gateway.metric_becomes("gatehouse_sessions", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_inflight", &[], 0.0).await;
    for id in ids.iter().take(20) {
        let ping = Request::post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).with("Mcp-Session-Id", id);
        assert_eq!(gateway.send(ping).await.status(), 404, "it ended");
    }
    assert_eq!(server.requests("tools/call").len(), 2 * count);
    gateway.stop().await;
}

/// Covers: F-009, F-044, G-82, M-60, G-15: what a session said goes along: its level, its tokens, foreign keys of `_meta`; logs
/// come as the level says, without one as the server sends them.
#[tokio::test(flavor = "multi_thread")]
async fn g_82_levels_tokens_and_foreign_keys() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.on("tools/call", |seen| {
        let log = |level: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":"{level}"}}}}"#)
        };
        Answer::events(&[log("debug"), log("error"), seen.result(r#"{"content":[]}"#)])
    });
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let logs = async |gateway: &Gateway| -> Vec<String> {
        let params = r#"{"name":"s_t","_meta":{"com.example/k":[1.0],"io.modelcontextprotocol/related-task":{"taskId":"x"}}}"#;
        let reply = gateway.send(session.request("1", "tools/call", params)).await;
        let all = reply.texts();
        let logged = all.iter().filter_map(|text| crate::support::json::raw(text, &["params", "data"]));
        logged.map(|raw| raw.trim_matches('"').to_owned()).collect()
    };
    assert_eq!(logs(&gateway).await, ["debug", "error"], "G-15: no level, no filter");
    let meta = server.last_call().raw(&["params", "_meta"]).unwrap();
    let keys = crate::support::json::keys(&meta);
    assert!(keys.contains(&"com.example/k".to_owned()), "{meta}");
    for gone in ["io.modelcontextprotocol/related-task", "io.modelcontextprotocol/logLevel", "progressToken"]
    {
        assert!(!keys.contains(&gone.to_owned()), "{meta}");
    }
    session.ask(&gateway, "logging/setLevel", r#"{"level":"warning"}"#).await;
    assert_eq!(logs(&gateway).await, ["error"]);
    let level = server.last_call().raw(&["params", "_meta", "io.modelcontextprotocol/logLevel"]);
    assert_eq!(level.as_deref(), Some("\"warning\""));
    gateway.stop().await;
}

/// Covers: G-15, M-62, M-60: a legacy server is asked for the level its session's callers want, more verbose on demand and
/// never twice; one that has no levels is not asked.
#[tokio::test(flavor = "multi_thread")]
async fn m_62_a_level_takes_effect_at_a_legacy_server() {
    let with = Offer { capabilities: vec!["\"logging\":{}".to_owned()], ..Offer::tools(&["t"]) };
    let (logs, mute) = (Server::legacy("l", with).await, Server::legacy("m", Offer::tools(&["t"])).await);
    logs.on("logging/setLevel", |seen| Answer::result(seen, "{}"));
    let gateway = Setup::new().http("l", &logs.url(), "").http("m", &mute.url(), "").start().await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    let call = async |tool: &str| {
        assert_eq!(gateway.send(session.call("1", tool, "{}")).await.verdict(), (200, Some(RESULT)));
    };
    let asked = || -> Vec<String> {
        let all = logs.requests("logging/setLevel");
        all.iter().map(|seen| seen.raw(&["params", "level"]).unwrap().trim_matches('"').to_owned()).collect()
    };
    call("l_t").await;
    assert!(asked().is_empty(), "nobody has said anything");
    for (level, expected) in [
        ("warning", vec!["warning"]),
        ("debug", vec!["warning", "debug"]),
        ("error", vec!["warning", "debug"]),
    ] {
        let set = session.ask(&gateway, "logging/setLevel", &format!("{{\"level\":\"{level}\"}}")).await;
        assert_eq!(set.result_text(), "{}");
        for tool in ["l_t", "l_t", "m_t"] {
            call(tool).await;
        }
        assert_eq!(asked(), expected);
    }
    assert!(mute.requests("logging/setLevel").is_empty());
    gateway.stop().await;
}
