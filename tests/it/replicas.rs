//! One server at several addresses (`urls`): the least loaded is next, a session stays where it is, and what may be
//! asked elsewhere is (H-65, design §3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::client::{Reply, ok};
use crate::support::exchange::{Answer, Exchange};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::Session;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::tcp::{Gate, Mode};

const RULES: &str = "breaker = { failures = 3, open = \"1s\" }\n";

fn setup(urls: &[String], more: &str) -> Setup {
    let urls = serde_json::to_string(urls).unwrap();
    Setup::new().toml(&format!("[[server]]\nname = \"s\"\nurls = {urls}\n{RULES}{more}"))
}

fn rich() -> Offer {
    Offer {
        tools: Offer::tools(&["t"]).tools,
        prompts: vec![r#"{"name":"p"}"#.to_owned()],
        resources: vec![r#"{"uri":"r://1","name":"r"}"#.to_owned()],
        ..Offer::default()
    }
    .fresh()
}

async fn two(offer: &Offer) -> [Server; 2] {
    [Server::modern("a", offer.clone()).await, Server::modern("b", offer.clone()).await]
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

async fn breaker(gateway: &Gateway) -> f64 {
    gateway.metric("gatehouse_breaker_state", &[("server", "s")]).await
}

/// Who answered: the servers say their name.
fn who(reply: &Reply) -> String {
    assert!(ok(reply), "{reply:?}");
    reply.result()["content"][0]["text"].as_str().unwrap().split(':').next().unwrap().to_owned()
}

/// Covers: issue 6 item 2: calls that run at once are spread; one address gives lists to all.
#[tokio::test(flavor = "multi_thread")]
async fn the_one_with_the_fewest_calls_is_next() {
    let servers = two(&rich()).await;
    let gateway = setup(&urls(&servers), "").start().await;
    let mut held = servers.each_ref().map(|server| server.hold("tools/call"));
    let mut clients = Vec::new();
    for n in 1..=10 {
        let client = gateway.connect().await;
        clients.push(tokio::spawn(client.begin(call("s_t", "{}"))));
        // One after the other, so that each is counted before the next comes.
        crate::support::eventually("it is under way", async || {
            servers.iter().map(|server| server.requests("tools/call").len()).sum::<usize>() == n
        })
        .await;
    }
    for server in &servers {
        assert_eq!(server.requests("tools/call").len(), 5);
    }
    // One of them gets rid of its calls: the next ones are its.
    for _ in 0..5 {
        held[0].next().await.result(r#"{"content":[]}"#);
    }
    gateway.metric_becomes("gatehouse_inflight", &[("server", "s")], 5.0).await;
    for n in 1..=5 {
        let client = gateway.connect().await;
        clients.push(tokio::spawn(client.begin(call("s_t", "{}"))));
        servers[0].asked("tools/call", 5 + n).await;
    }
    assert_eq!(servers[1].requests("tools/call").len(), 5);
    for held in &mut held {
        while !held.is_empty() {
            held.next().await.result(r#"{"content":[]}"#);
        }
    }
    for client in clients {
        assert!(ok(&client.await.unwrap().rest().await));
    }
    let lists: usize = servers.iter().map(|server| server.requests("tools/list").len()).sum();
    assert_eq!(lists, 1, "they are one server");
}

/// Covers: issue 6 item 2, H-65: a dead replica costs no call, is left alone, and gets calls again when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_replica_costs_no_call() {
    let servers = two(&rich()).await;
    let gate = Gate::new(Mode::Pass(servers[0].address)).await;
    let gateway = setup(&[gate.url(), servers[1].url()], "").start().await;
    for _ in 0..10 {
        who(&gateway.send(call("s_t", "{}")).await);
    }
    gate.set(Mode::Refuse).await;
    for _ in 0..20 {
        assert_eq!(who(&gateway.send(call("s_t", "{}")).await), "b");
    }
    assert_eq!(breaker(&gateway).await, 0.0, "the server answers");
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "s")]).await, 1.0);
    gateway.log.wait("it is left alone", |line| line.contains("breaker opened")).await;
    gate.set(Mode::Pass(servers[0].address)).await;
    gateway.log.wait("it is back", |line| line.contains("breaker closed")).await;
    let before = servers[0].requests("tools/call").len();
    for _ in 0..10 {
        who(&gateway.send(call("s_t", "{}")).await);
    }
    assert_eq!(servers[0].requests("tools/call").len(), before + 5, "in turn");
    let failed = [("server", "s"), ("outcome", "unavailable")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &failed).await, 0.0);
}

/// Covers: issue 6 item 2: a replica that never answered is no reason to wait: also the first contact goes on.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_contact_goes_on_to_the_next() {
    let server = Server::modern("b", rich()).await;
    let gate = Gate::new(Mode::Refuse).await;
    let gateway = setup(&[gate.url(), server.url()], "required = true").start().await;
    for _ in 0..5 {
        assert_eq!(who(&gateway.send(call("s_t", "{}")).await), "b");
    }
}

/// Covers: H-65: what changes nothing is asked once more, elsewhere; a call that was sent never is.
#[tokio::test(flavor = "multi_thread")]
async fn h_65_a_lost_answer_is_asked_for_again_unless_it_is_a_calls() {
    for fault in ["reset", "cut", "502", "503"] {
        let servers = two(&rich()).await;
        let gateway = setup(&urls(&servers), "").start().await;
        // Whoever is asked first fails; the other does not.
        let failed = Arc::new(AtomicBool::new(false));
        for server in &servers {
            let failed = Arc::clone(&failed);
            server.guard(move |seen| {
                let own = ["resources/read", "prompts/get", "tools/call"].contains(&&*seen.method());
                let first = own && !failed.swap(true, Ordering::SeqCst);
                first.then(|| Exchange::spoilt(seen, fault))
            });
        }
        let sum = |method: &str| servers.iter().map(|server| server.requests(method).len()).sum::<usize>();
        for (method, params) in
            [("resources/read", r#"{"uri":"r://1"}"#), ("prompts/get", r#"{"name":"s_p"}"#)]
        {
            failed.store(false, Ordering::SeqCst);
            let reply = gateway.send(mcp(method, params)).await;
            assert_eq!(reply.verdict(), (200, Some(0)), "{fault} {method}: {reply:?}");
            assert_eq!(sum(method), 2, "{fault} {method}");
            assert!(servers.iter().all(|server| server.requests(method).len() == 1), "{fault}: elsewhere");
        }
        failed.store(false, Ordering::SeqCst);
        let reply = gateway.send(call("s_t", "{}")).await;
        assert_eq!(reply.result()["isError"], true, "{fault}: {reply:?}");
        assert_eq!(sum("tools/call"), 1, "{fault}: never twice");
    }
}

/// Covers: H-65: without another replica too, but for what said "not now".
#[tokio::test(flavor = "multi_thread")]
async fn h_65_a_single_server_is_asked_once_more() {
    let server = Server::modern("a", rich()).await;
    let gateway = Setup::new().http("s", &server.url(), "breaker = { failures = 0 }").start().await;
    let failed = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&failed);
    server.guard(move |seen| {
        if seen.method() != "prompts/get" || once.swap(true, Ordering::SeqCst) {
            return None;
        }
        Some(Exchange::spoilt(seen, "reset"))
    });
    let reply = gateway.send(mcp("prompts/get", r#"{"name":"s_p"}"#)).await;
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    assert_eq!(server.requests("prompts/get").len(), 2);
    server.guard(|seen| (seen.method() == "prompts/get").then(|| Answer::new(503, "text/plain", "later")));
    let reply = gateway.send(mcp("prompts/get", r#"{"name":"s_p"}"#)).await;
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    assert_eq!(server.requests("prompts/get").len(), 3, "it was told not now");
    // All the time: the budget ends it.
    server.guard(|seen| (seen.method() == "prompts/get").then(|| Exchange::spoilt(seen, "reset")));
    let before = server.requests("prompts/get").len();
    let mut connection = gateway.connect().await;
    for _ in 0..100 {
        assert_eq!(connection.send(mcp("prompts/get", r#"{"name":"s_p"}"#)).await.code(), Some(-32603));
    }
    let asked = server.requests("prompts/get").len() - before;
    // A fifth and the floor; and one a second while the floor is not full.
    assert!((110..=160).contains(&asked), "{asked}");
}

/// Covers: G-41, G-42: a legacy session stays at its replica; when that is lost, there is a new one elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn g_42_a_session_stays_where_it_is_as_long_as_that_is() {
    let servers = [Server::legacy("a", rich()).await, Server::legacy("b", rich()).await];
    let gates =
        [Gate::new(Mode::Pass(servers[0].address)).await, Gate::new(Mode::Pass(servers[1].address)).await];
    let gateway = setup(&[gates[0].url(), gates[1].url()], "").start().await;
    let mut sessions = Vec::new();
    for _ in 0..6 {
        sessions.push(Session::open(&gateway, "2025-11-25", "{}").await);
    }
    let mut owners = Vec::new();
    for session in &sessions {
        owners.push(who(&gateway.send(session.call("1", "s_t", "{}")).await));
    }
    assert!(owners.contains(&"a".to_owned()) && owners.contains(&"b".to_owned()), "{owners:?}");
    for _ in 0..3 {
        for (session, owner) in sessions.iter().zip(&owners) {
            assert_eq!(who(&gateway.send(session.call("2", "s_t", "{}")).await), *owner);
        }
    }
    for server in &servers {
        for seen in server.requests("tools/call") {
            let id = seen.header("mcp-session-id").unwrap();
            assert!(
                id.contains(&format!("-{}-", if server.url() == servers[0].url() { "a" } else { "b" })),
                "{id}"
            );
        }
    }
    gates[0].set(Mode::Refuse).await;
    for session in &sessions {
        assert_eq!(who(&gateway.send(session.call("3", "s_t", "{}")).await), "b");
    }
    gates[0].set(Mode::Pass(servers[0].address)).await;
    gateway.log.wait("it is back", |line| line.contains("breaker closed")).await;
    for session in &sessions {
        assert_eq!(who(&gateway.send(session.call("4", "s_t", "{}")).await), "b", "where it is now");
    }
}
