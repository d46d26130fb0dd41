//! The end of a gateway: not ready at once, streams end with words over a moment, what runs finishes or is told that it
//! was given up, children are gone, a second signal ends it: F-052, S-41, R-40, H-82, issue 6.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::asking::{ALL, Asking, Questions, elicit};
use crate::support::child::Child;
use crate::support::client::{Connection, ok};
use crate::support::feed::Stream;
use crate::support::gateway::Setup;
use crate::support::legacy::{Session, event};
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::{eventually, within};

const TOOLS: &str = r#"{"toolsListChanged":true}"#;

/// Covers: F-052, S-41, S-09: many streams and calls at the end; nothing is cut, and the streams do not end all at once.
#[tokio::test(flavor = "multi_thread")]
async fn f_052_streams_and_calls_at_the_end() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let child = Child::python(
        r#"note("pids", "%d\n" % os.getpid())
serve({"server/discover": DISCOVER, "tools/list": tools("t")})"#,
    );
    let gateway = Setup::new().http("s", &server.url(), "").stdio("kid", &child.argv(), "").start().await;
    child.wrote("pids").await;
    let mut held = server.hold("tools/call");
    let (mut listens, mut gets) = (Vec::new(), Vec::new());
    for n in 0..25 {
        listens.push(Stream::open(&gateway, &n.to_string(), TOOLS).await);
        let session = Session::open(&gateway, "2025-11-25", "{}").await;
        gets.push(session.stream(&gateway, session.get()).await);
    }
    let (mut calls, mut exchanges) = (Vec::new(), Vec::new());
    for n in 0..10 {
        let mut client = gateway.connect().await;
        calls.push(tokio::spawn(async move { client.send(call("s_t", "{}").id(n)).await }));
        exchanges.push(held.next().await);
    }
    let mut idle = gateway.connect().await;
    assert_eq!(idle.send(mcp("ping", "{}")).await.status(), 404);

    let began = Instant::now();
    gateway.signal(Signal::SIGTERM);
    eventually("it is not ready", async || gateway.admin("/readyz").await.status() == 503).await;
    assert_eq!(gateway.admin("/livez").await.status(), 200);
    eventually("nobody is let in", async || tokio::net::TcpStream::connect(gateway.listen).await.is_err())
        .await;
    idle.closed().await;
    let ends = listens.into_iter().map(|stream| async move {
        stream.end_without_notice().await;
        began.elapsed()
    });
    let mut ends = futures_util::future::join_all(ends).await;
    ends.sort();
    assert!(*ends.last().unwrap() - ends[0] > Duration::from_millis(200), "{ends:?}");
    for get in &mut gets {
        assert_eq!(event(get).await, None, "a session's stream just ends");
    }
    assert!(calls.iter().all(|call| !call.is_finished()), "calls run on");
    for exchange in exchanges {
        exchange.result(r#"{"content":[]}"#);
    }
    for call in calls {
        let reply = within("the answer", call).await.unwrap();
        assert!(ok(&reply), "{reply:?}");
    }
    gateway.log.wait("it stops", |line| line.contains("\"stopped\"")).await;
    assert!(gateway.log.find(|line| line.contains("are cut")).is_empty());
    let pid = Pid::from_raw(child.read("pids").trim().parse().unwrap());
    eventually("the child is gone", async || kill(pid, None).is_err()).await;
}

/// Covers: F-052, H-82: what runs longer than `drain_timeout` is cancelled at its server, and its client is told in the
/// form it reads.
#[tokio::test(flavor = "multi_thread")]
async fn f_052_a_call_that_runs_too_long_is_told() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().gateway("drain_timeout = \"2s\"").http("s", &server.url(), "").start().await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    let mut held = server.hold("tools/call");
    let plain = call("s_t", "{}").request().set("Accept", "application/json");
    let asked: [(&str, Request); 3] = [
        ("events", call("s_t", "{}").request()),
        ("json", plain),
        ("legacy", session.call("1", "s_t", "{}")),
    ];
    let (mut running, mut exchanges) = (Vec::new(), Vec::new());
    for (form, request) in asked {
        let mut client = gateway.connect().await;
        running.push((form, tokio::spawn(async move { client.send(request).await })));
        exchanges.push(held.next().await);
    }
    gateway.signal(Signal::SIGTERM);
    for (form, running) in running {
        let reply = within("an answer", running).await.unwrap();
        assert_eq!(reply.verdict(), (200, Some(-32603)), "{form}: {reply:?}");
        let message = reply.message()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("stopping") && message.contains("effects"), "{form}: {message}");
    }
    for mut exchange in exchanges {
        exchange.gone().await;
    }
    gateway.log.wait("it says so", |line| line.contains("are cut")).await;
    // Before its end another signal would be the second one.
    gateway.log.wait("it stops", |line| line.contains("\"stopped\"")).await;
}

/// Covers: R-40, issue 6: a call whose client was asked something and has left does not hold up the end.
#[tokio::test(flavor = "multi_thread")]
async fn r_40_an_abandoned_call_does_not_hold_up_the_end() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let mut asking = Asking::at(&server, "tools/call");
    let gateway = Setup::new().gateway("drain_timeout = \"15s\"").http("s", &server.url(), "").start().await;
    let first = mcp("tools/call", r#"{"name":"s_t","arguments":{}}"#).capabilities(ALL);
    let (reply, mut exchange) = tokio::join!(gateway.send(first), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("1"));
        exchange
    });
    let _left = Questions::of(&reply);
    gateway.signal(Signal::SIGTERM);
    gateway.log.wait("it stops", |line| line.contains("\"stopped\"")).await;
    let late = |line: &str| line.contains("at the end of drain_timeout");
    assert!(gateway.log.find(late).is_empty(), "given up before: {}", gateway.log.text());
    assert_eq!(asking.answers.result("1").await, r#"{"action":"cancel"}"#);
    server.asked("notifications/cancelled", 1).await;
    exchange.gone().await;
}

/// Covers: F-052, design §9: a second signal ends it at once, whatever runs; its exit code says so.
#[tokio::test(flavor = "multi_thread")]
async fn f_052_a_second_signal_ends_it_at_once() {
    for (first, second) in [(Signal::SIGTERM, Signal::SIGTERM), (Signal::SIGINT, Signal::SIGTERM)] {
        let server = Server::modern("s", Offer::tools(&["t"])).await;
        let gateway =
            Setup::new().gateway("drain_timeout = \"5m\"").http("s", &server.url(), "").start().await;
        let mut held = server.hold("tools/call");
        let mut client: Connection = gateway.connect().await;
        client.ask(call("s_t", json!({}))).await;
        let _running = held.next().await;
        gateway.signal(first);
        gateway.log.wait("it drains", |line| line.contains("draining")).await;
        gateway.signal(second);
        assert_eq!(gateway.exit().await, Some(130));
    }
}
