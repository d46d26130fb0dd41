//! Breakers: what opens one, what never does, what is answered meanwhile, and how it closes again (design §3, §6, §8).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::child::Child;
use crate::support::client::{Reply, ok};
use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::tcp::{Gate, Mode};

/// Opens after three, for one second.
const RULES: &str = "breaker = { failures = 3, open = \"1s\" }\ntimeout = \"1s\"";

/// A call's outcome in words: the text of its error result.
fn complaint(reply: &Reply) -> String {
    let result = reply.result();
    assert_eq!(result["isError"], true, "{reply:?}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

async fn state(gateway: &Gateway) -> f64 {
    gateway.metric("gatehouse_breaker_state", &[("server", "s")]).await
}

async fn becomes(gateway: &Gateway, value: f64) {
    gateway.metric_becomes("gatehouse_breaker_state", &[("server", "s")], value).await;
}

/// Covers: issue 6 item 2: a dead server is answered for at once, its list is served on, and it is found again.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_is_left_alone_until_it_is_back() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gate = Gate::new(Mode::Pass(server.address)).await;
    let gateway = Setup::new().http("s", &gate.url(), RULES).start().await;
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    assert_eq!(state(&gateway).await, 0.0);
    gate.set(Mode::Refuse).await;
    for _ in 0..3 {
        let said = complaint(&gateway.send(call("s_t", "{}")).await);
        assert!(said.contains("\"s\" is unavailable"), "{said}");
    }
    assert!(state(&gateway).await > 0.0, "half-open at times, never closed");
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "s")]).await, 0.0);
    // Who would connect now would get no answer at all: the gateway does not.
    gate.set(Mode::Silent).await;
    let began = Instant::now();
    let reply = gateway.send(call("s_t", "{}")).await;
    let said = complaint(&reply);
    assert!(said.contains("\"s\" is unavailable"), "{said}");
    assert!(!said.contains("effects"), "nothing was sent: {said}");
    assert!(began.elapsed() < Duration::from_secs(1), "at once: {:?}", began.elapsed());
    let listed = gateway.send(mcp("tools/list", "{}")).await;
    assert_eq!(listed.result()["tools"][0]["name"], "s_t", "{listed:?}");
    assert!(listed.result()["_meta"].get("dev.gatehouse/missing").is_none(), "{listed:?}");
    let labels = [("server", "s"), ("outcome", "unavailable")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 4.0);
    gate.set(Mode::Pass(server.address)).await;
    becomes(&gateway, 0.0).await;
    gateway.metric_becomes("gatehouse_server_up", &[("server", "s")], 1.0).await;
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
}

/// Covers: issue 6 item 2: what a server says is never held against it.
#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_server_do_not_open_it() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), RULES).start().await;
    let turn = Arc::new(AtomicUsize::new(0));
    let kinds: [fn(&crate::support::exchange::Seen) -> Answer; 6] = [
        |seen| Answer::result(seen, r#"{"content":[],"isError":true}"#),
        |seen| Answer::error(seen, 200, -32603, "broken"),
        |seen| Answer::error(seen, 503, -32000, "busy"),
        |_| Answer::new(404, "text/html", "<p>no</p>"),
        |_| Answer::new(429, "text/plain", "slowly"),
        |_| Answer::new(500, "text/plain", "oops"),
    ];
    let counted = Arc::clone(&turn);
    server
        .on("tools/call", move |seen| kinds[counted.fetch_add(1, Ordering::SeqCst) / 5 % kinds.len()](seen));
    for _ in 0..30 {
        gateway.send(call("s_t", "{}")).await;
        assert_eq!(state(&gateway).await, 0.0, "after {}", turn.load(Ordering::SeqCst));
    }
    assert_eq!(server.requests("tools/call").len(), 30);
}

/// Covers: issue 6 item 2: each of these, three in a row, opens it; the trial is not a caller's call, and closes it.
#[tokio::test(flavor = "multi_thread")]
async fn faults_open_it_whatever_they_are() {
    for fault in ["502", "503", "reset", "cut"] {
        let server = Server::modern("s", Offer::tools(&["t"])).await;
        let gateway = Setup::new().http("s", &server.url(), RULES).start().await;
        let mut held = server.hold("tools/call");
        let faulty = tokio::spawn(async move {
            while let Some(exchange) = held.later().await {
                exchange.spoil(fault);
            }
        });
        for _ in 0..3 {
            complaint(&gateway.send(call("s_t", "{}")).await);
        }
        // It answers what the gateway asks it, so it is soon let in again: but not before a second is over.
        gateway.log.wait("it opens", |line| line.contains("breaker opened")).await;
        gateway.log.wait("it closes", |line| line.contains("breaker closed")).await;
        assert_eq!(server.requests("tools/call").len(), 3, "{fault}: no caller's call was the trial");
        // One more is enough now.
        complaint(&gateway.send(call("s_t", "{}")).await);
        assert!(state(&gateway).await > 0.0, "{fault}");
        server.release("tools/call");
        faulty.abort();
        becomes(&gateway, 0.0).await;
        assert!(ok(&gateway.send(call("s_t", "{}")).await), "{fault}");
    }
}

/// Covers: issue 6 item 2, F-071: what may be one slow or bad tool's takes the server away from nobody, as long as it
/// answers when it is asked whether it is well.
#[tokio::test(flavor = "multi_thread")]
async fn one_bad_tool_is_no_dead_server() {
    for fault in ["silent", "504", "garbage"] {
        let server = Server::modern("s", Offer::tools(&["slow", "t"])).await;
        let gateway = Setup::new().http("s", &server.url(), RULES).start().await;
        let mut held = server.hold("tools/call");
        let scripted = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Some(exchange) = held.later().await {
                match (exchange.seen.name().as_deref(), fault) {
                    (Some("t"), _) => exchange.result(r#"{"content":[]}"#),
                    (_, "silent") => kept.push(exchange),
                    _ => exchange.spoil(fault),
                }
            }
        });
        let mut bob = gateway.connect().await;
        for _ in 0..2 {
            let asked = server.requests("server/discover").len();
            let mut alice = Vec::new();
            for _ in 0..6 {
                let connection = gateway.connect().await;
                alice.push(tokio::spawn(connection.begin(call("s_slow", "{}"))));
            }
            while !alice.iter().all(tokio::task::JoinHandle::is_finished) {
                assert!(ok(&bob.send(call("s_t", "{}")).await), "{fault}");
            }
            for call in alice {
                complaint(&call.await.unwrap().rest().await);
            }
            // Asked, but not by each of them, and what it says is believed.
            server.asked("server/discover", asked + 1).await;
            for _ in 0..5 {
                assert!(ok(&bob.send(call("s_t", "{}")).await), "{fault}");
                assert_eq!(state(&gateway).await, 0.0, "{fault}");
            }
            assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "s")]).await, 1.0, "{fault}");
        }
        scripted.abort();
    }
}

/// Covers: issue 6 item 2: a server that says nothing at all any more is left alone after time-outs, also without checks
/// of its health, whether they come at once or one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_hung_server_is_left_alone() {
    let rules = format!("probe_timeout = \"1s\"\n{RULES}");
    for at_once in [true, false] {
        let server = Server::modern("s", Offer::tools(&["t"])).await;
        let gate = Gate::new(Mode::Pass(server.address)).await;
        let gateway = Setup::new().http("s", &gate.url(), &rules).start().await;
        assert!(ok(&gateway.send(call("s_t", "{}")).await));
        gate.set(Mode::Freeze).await;
        let mut calls = Vec::new();
        // One more than has to be: what was on its way when the line went dead may still arrive.
        for _ in 0..7 {
            let call = tokio::spawn(gateway.connect().await.begin(call("s_t", "{}")));
            match at_once {
                true => calls.push(call),
                false => drop(call.await.unwrap().rest().await),
            }
        }
        for call in calls {
            call.await.unwrap().rest().await;
        }
        becomes(&gateway, 2.0).await;
        assert!(complaint(&gateway.send(call("s_t", "{}")).await).contains("unavailable"));
        // Through "refuse", so that what is frozen is not waited for.
        gate.set(Mode::Refuse).await;
        gate.set(Mode::Pass(server.address)).await;
        becomes(&gateway, 0.0).await;
        assert!(ok(&gateway.send(call("s_t", "{}")).await));
    }
}

/// Covers: issue 6 item 2: a legacy server keeps its sessions over the time in which it was left alone.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_outlive_it() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let gate = Gate::new(Mode::Pass(server.address)).await;
    let gateway = Setup::new().http("s", &gate.url(), RULES).start().await;
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    let sessions = server.requests("initialize").len();
    gate.set(Mode::Refuse).await;
    for _ in 0..4 {
        complaint(&gateway.send(call("s_t", "{}")).await);
    }
    gate.set(Mode::Pass(server.address)).await;
    becomes(&gateway, 0.0).await;
    assert!(ok(&gateway.send(call("s_t", "{}")).await));
    assert_eq!(server.requests("initialize").len(), sessions, "G-42: it was not lost");
}

/// Covers: issue 6 item 2: a process that says nothing is left alone, and let in again when it speaks.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_process_has_one_too() {
    let child = Child::python(
        r#"
def called(m, line):
    if m["params"]["arguments"]:
        result(m, '{"content":[]}')
def found(m, line):
    if not os.path.exists(os.path.join(HERE, "deaf")):
        result(m, DISCOVER)
serve({"server/discover": found, "tools/list": tools("t"), "tools/call": called})"#,
    );
    let rules = format!("probe_timeout = \"2s\"\n{RULES}");
    let gateway = Setup::new().stdio("s", &child.argv(), &rules).start().await;
    assert!(ok(&gateway.send(call("s_t", r#"{"n":1}"#)).await));
    child.put("deaf", "");
    for _ in 0..3 {
        assert!(complaint(&gateway.send(call("s_t", "{}")).await).contains("timeout"));
    }
    gateway.log.wait("it opens", |line| line.contains("breaker opened")).await;
    std::fs::remove_file(child.path("deaf")).unwrap();
    becomes(&gateway, 0.0).await;
    assert!(ok(&gateway.send(call("s_t", r#"{"n":1}"#)).await));
    // Answers begin the row anew.
    for _ in 0..3 {
        complaint(&gateway.send(call("s_t", "{}")).await);
        assert!(ok(&gateway.send(call("s_t", r#"{"n":1}"#)).await));
    }
    assert_eq!(state(&gateway).await, 0.0);
    assert_eq!(gateway.metric("gatehouse_child_restarts_total", &[]).await, 0.0);
}

/// Covers: issue 6 item 2: with `failures = 0` each call is tried.
#[tokio::test(flavor = "multi_thread")]
async fn with_zero_there_is_none() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "breaker = { failures = 0 }").start().await;
    server.on("tools/call", |_| Answer::new(502, "text/html", ""));
    for _ in 0..20 {
        complaint(&gateway.send(call("s_t", "{}")).await);
    }
    assert_eq!(server.requests("tools/call").len(), 20);
    assert_eq!(state(&gateway).await, 0.0);
}

/// Covers: issue 6 item 2: a server that nobody calls is found dead, and alive again, in both eras and over stdio.
#[tokio::test(flavor = "multi_thread")]
async fn health_checks_find_out_by_themselves() {
    let (modern, legacy) =
        (Server::modern("m", Offer::tools(&["t"])).await, Server::legacy("l", Offer::tools(&["t"])).await);
    let gates = [Gate::new(Mode::Pass(modern.address)).await, Gate::new(Mode::Pass(legacy.address)).await];
    let rules =
        "health_interval = \"200ms\"\nprobe_timeout = \"1s\"\nbreaker = { failures = 3, open = \"1s\" }";
    let gateway =
        Setup::new().http("m", &gates[0].url(), rules).http("l", &gates[1].url(), rules).start().await;
    for name in ["m", "l"] {
        gateway.metric_becomes("gatehouse_server_up", &[("server", name)], 1.0).await;
    }
    modern.asked("server/discover", 4).await;
    legacy.asked("ping", 3).await;
    for mode in [Mode::Refuse, Mode::Freeze] {
        for gate in &gates {
            gate.set(mode).await;
        }
        for name in ["m", "l"] {
            gateway.metric_becomes("gatehouse_server_up", &[("server", name)], 0.0).await;
            gateway.metric_becomes("gatehouse_breaker_state", &[("server", name)], 2.0).await;
        }
        for (gate, server) in gates.iter().zip([&modern, &legacy]) {
            // Through "refuse", so that what is frozen is not waited for.
            gate.set(Mode::Refuse).await;
            gate.set(Mode::Pass(server.address)).await;
        }
        for name in ["m", "l"] {
            gateway.metric_becomes("gatehouse_server_up", &[("server", name)], 1.0).await;
            gateway.metric_becomes("gatehouse_breaker_state", &[("server", name)], 0.0).await;
            assert!(ok(&gateway.send(call(&format!("{name}_t"), "{}")).await), "{name}");
        }
    }
    assert!(modern.requests("tools/call").len() == 2 && legacy.requests("tools/call").len() == 2);
}

/// Covers: design §8, issue 6 item 2: `required` servers gate readiness at the start, and never again.
#[tokio::test(flavor = "multi_thread")]
async fn required_servers_gate_readiness_at_the_start_only() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gate = Gate::new(Mode::Refuse).await;
    let rules = format!("required = true\n{RULES}");
    let gateway = Setup::new().http("s", &gate.url(), &rules).launch().await;
    let ready = async || gateway.admin("/readyz").await;
    // Others would be let off after five seconds.
    let until = Instant::now() + Duration::from_secs(6);
    while Instant::now() < until {
        let reply = ready().await;
        assert_eq!(reply.status(), 503, "{reply:?}");
        assert!(reply.text().contains("waiting for s"), "{reply:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    gate.set(Mode::Pass(server.address)).await;
    eventually("it is ready", async || ready().await.status() == 200).await;
    gate.set(Mode::Refuse).await;
    for _ in 0..5 {
        complaint(&gateway.send(call("s_t", "{}")).await);
        assert_eq!(ready().await.status(), 200, "a restart would help nobody");
    }
}
