//! One bad server costs its own tools only, and is picked up when it recovers: F-011, F-084, F-087, F-094,
//! L-33, design §5 and §8.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::feed::{Stream, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::measure::measured;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::tcp::{Gate, Hole, Mode, dies_after};
use crate::support::{eventually, within};

const BRIEF: &str =
    "list_timeout = \"2s\"\nprobe_timeout = \"2s\"\nconnect_timeout = \"2s\"\ntimeout = \"2s\"";

fn missing(reply: &Reply) -> Vec<String> {
    let list = reply.result()["_meta"]["dev.gatehouse/missing"].clone();
    list.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn tools(reply: &Reply) -> Vec<String> {
    let tools = reply.result()["tools"].clone();
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The answer that `server/discover` gets before its server dies.
async fn dying() -> std::net::SocketAddr {
    // The id is that of the gateway's first requests: any of them fits none, some fit; both are a death.
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    dies_after((head + body).into_bytes()).await
}

/// Covers: F-011, L-33: of six servers five are bad, each in its own way; the sixth does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn f_011_five_bad_servers_and_a_good_one() {
    let refuses = Gate::new(Mode::Refuse).await;
    let silent = Gate::new(Mode::Silent).await;
    let dies = dying().await;
    let hole = Hole::new().await;
    let flood = Server::modern("flood", Offer::tools(&["t"])).await;
    flood.on("tools/list", |_| Answer::new(200, "application/json", vec![b' '; 100 << 20]));
    let malformed = Server::modern("malformed", Offer::tools(&["t"])).await;
    malformed
        .on("tools/list", |seen| Answer::new(200, "application/json", &seen.result("{\"tools\":[")[1..]));
    let good = Server::modern("good", Offer::tools(&["a", "b"])).await;
    let bad = ["refuses", "silent", "dies", "hole", "flood", "malformed"];
    let urls = [
        refuses.url(),
        silent.url(),
        format!("http://{dies}/mcp"),
        format!("http://{}/mcp", hole.address),
        flood.url(),
        malformed.url(),
    ];
    let mut setup = Setup::new();
    for (name, url) in bad.iter().zip(&urls) {
        setup = setup.http(name, url, BRIEF);
    }
    let gateway = setup.http("good", &good.url(), "list_timeout = \"25s\"").launch().await;

    let discovered = gateway.send(mcp("server/discover", "{}")).await;
    assert_eq!(discovered.verdict(), (200, Some(0)));
    let began = Instant::now();
    let list = gateway.send(mcp("tools/list", "{}")).await;
    let took = began.elapsed();
    assert_eq!(list.verdict(), (200, Some(0)));
    assert_eq!(tools(&list), ["good_a", "good_b"]);
    assert_eq!(missing(&list), bad);
    assert!(list.result()["ttlMs"].as_u64().unwrap() <= 5000, "an incomplete list is not kept: {list:?}");
    // Its own deadline, and never the sum of theirs.
    assert!(took < Duration::from_secs(25), "{took:?}");
    measured("a list beside six bad servers took", took);

    let mut connection = gateway.connect().await;
    for _ in 0..100 {
        let reply = connection.send(call("good_a", r#"{"x":1}"#)).await;
        assert_eq!(reply.result()["content"][0]["text"], "good:a", "{reply:?}");
    }
    assert_eq!(
        gateway.metric("gatehouse_tool_calls_total", &[("server", "good"), ("outcome", "ok")]).await,
        100.0
    );
    for name in bad {
        let reply = connection.send(call(&format!("{name}_t"), "{}")).await;
        assert_eq!(reply.verdict(), (200, Some(0)), "{name}: {reply:?}");
        let result = reply.result();
        assert_eq!(result["isError"], true, "{name}: {reply:?}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&format!("\"{name}\"")) && !text.contains("127.0.0.1"), "{name}: {text}");
        assert_eq!(gateway.metric("gatehouse_catalogue_missing", &[("server", name)]).await, 1.0, "{name}");
    }
    for down in ["refuses", "silent", "dies", "hole"] {
        gateway.metric_becomes("gatehouse_server_up", &[("server", down)], 0.0).await;
    }
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "good")]).await, 1.0);
}

/// Covers: F-011, F-094 (a, b): nobody is there at start; each is picked up, and told of once.
#[tokio::test(flavor = "multi_thread")]
async fn f_094_servers_that_come_later_appear_without_a_restart() {
    let (a, b) =
        (Server::modern("a", Offer::tools(&["t"])).await, Server::legacy("b", Offer::tools(&["t"])).await);
    let gates = [Gate::new(Mode::Refuse).await, Gate::new(Mode::Silent).await];
    let gateway =
        Setup::new().http("a", &gates[0].url(), BRIEF).http("b", &gates[1].url(), BRIEF).start().await;
    let mut connection = gateway.connect().await;
    let list = connection.send(mcp("tools/list", "{}")).await;
    assert_eq!((tools(&list).len(), missing(&list)), (0, vec!["a".to_owned(), "b".to_owned()]));
    let mut stream = Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    assert_eq!(stream.honoured, serde_json::json!({"toolsListChanged": true}));

    gates[0].set(Mode::Pass(a.address)).await;
    assert_eq!(stream.notice().await, "tools");
    let list = connection.send(mcp("tools/list", "{}")).await;
    assert_eq!((tools(&list), missing(&list)), (vec!["a_t".to_owned()], vec!["b".to_owned()]));
    gates[1].set(Mode::Pass(b.address)).await;
    assert_eq!(stream.notice().await, "tools");
    let list = connection.send(mcp("tools/list", "{}")).await;
    assert_eq!((tools(&list), missing(&list).len()), (vec!["a_t".to_owned(), "b_t".to_owned()], 0));
    for name in ["a_t", "b_t"] {
        assert_ne!(connection.send(call(name, "{}")).await.result()["isError"], true);
    }
    drop(connection);
    // Losing them again is no change of what they offer.
    for gate in &gates {
        gate.set(Mode::Refuse).await;
    }
    let lost = gateway.send(call("a_t", "{}")).await;
    assert_eq!(lost.result()["isError"], true);
    tokio::join!(gateway.stop(), stream.end_without_notice());
}

/// Covers: F-094 (c): a first list that fails is no empty list.
#[tokio::test(flavor = "multi_thread")]
async fn f_094_a_first_list_that_fails_is_not_an_empty_one() {
    let refused = Server::legacy("refused", Offer::tools(&["t"])).await;
    refused.on("tools/list", |seen| Answer::error(seen, 200, -32603, "database is starting"));
    let late = Server::modern("late", Offer::tools(&["t"])).await;
    let _unanswered = late.hold("tools/list");
    let odd = Server::modern("odd", Offer::tools(&["t"])).await;
    odd.on("tools/list", |seen| Answer::result(seen, r#"{"resultType":"complete"}"#));
    let gateway = Setup::new()
        .http("refused", &refused.url(), BRIEF)
        .http("late", &late.url(), BRIEF)
        .http("odd", &odd.url(), BRIEF)
        .start()
        .await;
    let list = gateway.send(mcp("tools/list", "{}")).await;
    assert_eq!(
        (tools(&list).len(), missing(&list)),
        (0, ["refused", "late", "odd"].map(str::to_owned).to_vec())
    );
    for server in [&refused, &late, &odd] {
        server.release("tools/list");
    }
    let mut connection = gateway.connect().await;
    eventually("all of them", async || {
        names(&mut connection, "tools/list").await == ["refused_t", "late_t", "odd_t"]
    })
    .await;
    assert_eq!(gateway.metric("gatehouse_catalogue_missing", &[]).await, 0.0);
}

/// Covers: F-094 (e): without servers there is nothing to show, and nothing to wait for.
#[tokio::test(flavor = "multi_thread")]
async fn f_094_a_gateway_without_servers_serves_empty_lists() {
    let gateway = Setup::new().start().await;
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        assert!(names(&mut gateway.connect().await, method).await.is_empty());
    }
    let unknown = gateway.send(call("a_t", "{}")).await;
    assert_eq!(unknown.verdict(), (200, Some(-32602)));
}

async fn ready(gateway: &Gateway) -> (u16, String) {
    let reply = gateway.admin("/readyz").await;
    (reply.status(), reply.text().to_owned())
}

/// Covers: design §8: ready means that `required` servers answered once; others hold nothing up for long.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_waits_for_required_servers_only() {
    let server = Server::modern("must", Offer::tools(&["t"])).await;
    let gate = Gate::new(Mode::Refuse).await;
    let other = Gate::new(Mode::Silent).await;
    let gateway = Setup::new()
        .http("must", &gate.url(), "required = true")
        .http("may", &other.url(), "probe_timeout = \"20s\"")
        .launch()
        .await;
    let (status, text) = ready(&gateway).await;
    assert!(status == 503 && text.contains("must"), "{status} {text}");
    eventually("only the required one is waited for", async || {
        let (status, text) = ready(&gateway).await;
        assert_eq!(status, 503, "{text}");
        text.contains("must") && !text.contains("may")
    })
    .await;
    assert_eq!(gateway.admin("/livez").await.status(), 200);
    gate.set(Mode::Pass(server.address)).await;
    eventually("ready", async || ready(&gateway).await.0 == 200).await;
    // A server that is lost later does not take the gateway out of service.
    gate.set(Mode::Refuse).await;
    assert_eq!(gateway.send(call("must_t", "{}")).await.result()["isError"], true);
    assert_eq!(ready(&gateway).await.0, 200);
}

/// Covers: F-084: what a tool says of itself says nothing of its server; only the transport does.
#[tokio::test(flavor = "multi_thread")]
async fn f_084_failing_tools_do_not_take_their_server_down() {
    let server = Server::modern("s", Offer::tools(&["bad", "good"])).await;
    server.on("tools/call", |seen| match seen.name().as_deref() {
        Some("good") => Answer::result(seen, r#"{"resultType":"complete","content":[]}"#),
        _ => match seen.id().unwrap().parse::<u64>().unwrap() % 4 {
            0 => Answer::result(seen, r#"{"resultType":"complete","content":[],"isError":true}"#),
            1 => Answer::error(seen, 200, -32603, "boom"),
            2 => Answer::new(500, "text/plain", "boom"),
            _ => Answer::error(seen, 200, -32000, "boom"),
        },
    });
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let mut connection = gateway.connect().await;
    for _ in 0..40 {
        let reply = connection.send(call("s_bad", "{}")).await;
        assert_eq!(reply.status(), 200, "{reply:?}");
        assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "s")]).await, 1.0);
    }
    assert_ne!(connection.send(call("s_good", "{}")).await.result()["isError"], true);
    assert_eq!(names(&mut connection, "tools/list").await, ["s_bad", "s_good"]);
    // No probe of the gateway's own was needed for that, and none that the revision does not know.
    assert_eq!(server.requests("ping").len(), 0);
    assert_eq!(server.requests("server/discover").len(), 1);
}

/// Covers: F-087: a slow call holds nobody up, neither over HTTP nor at a child.
#[tokio::test(flavor = "multi_thread")]
async fn f_087_a_slow_call_holds_nobody_up() {
    let server = Server::legacy("h", Offer::tools(&["slow", "fast"])).await;
    server.on("tools/call", |seen| Answer::result(seen, r#"{"content":[{"type":"text","text":"fast"}]}"#));
    let child = Child::python(
        r#"
slow = []
def called(m, line):
    if m["params"]["name"] == "slow":
        slow.append(m)
    elif m["params"]["name"] == "end":
        result(slow.pop(), '{"content":[]}')
        result(m, '{"content":[]}')
    else:
        result(m, '{"content":[{"type":"text","text":"fast"}]}')
serve({"server/discover": DISCOVER, "tools/list": tools("slow", "fast", "end"), "tools/call": called})"#,
    );
    let gateway = Setup::new().http("h", &server.url(), "").stdio("c", &child.argv(), "").start().await;
    let mut held = server.hold("tools/call");
    let slow = [gateway.connect().await, gateway.connect().await];
    let [over_http, at_child] = slow;
    let over_http = tokio::spawn(over_http.begin(call("h_slow", "{}")));
    let at_child = tokio::spawn(at_child.begin(call("c_slow", "{}")));
    let exchange = held.next().await;
    eventually("the child has the call", async || child.requests("tools/call").len() == 1).await;
    server.release("tools/call");
    let mut connection = gateway.connect().await;
    for name in ["h_fast", "c_fast"] {
        for _ in 0..20 {
            let reply = connection.send(call(name, "{}")).await;
            assert_ne!(reply.result()["isError"], true, "{reply:?}");
        }
        assert_eq!(names(&mut connection, "tools/list").await.len(), 5);
    }
    assert!(gateway.metric("gatehouse_inflight", &[("server", "h")]).await >= 1.0, "still running");
    exchange.result(r#"{"content":[]}"#);
    connection.send(call("c_end", "{}")).await;
    for running in [over_http, at_child] {
        let reply = within("the slow call", running).await.unwrap().rest().await;
        assert_eq!(reply.result()["content"], Value::Array(vec![]), "{reply:?}");
    }
}
