//! Silence and its limits, per server and per tool; a time-out is its call's own affair: F-071, H-83, M-46, design §3 and §6.

use std::time::{Duration, Instant};

use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::exchange::Exchange;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

/// What stands in the result of a call that took too long.
fn timed_out(reply: &Reply, server: &str, seconds: &str) {
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    let result = reply.result();
    assert_eq!(result["isError"], true, "{reply:?}");
    assert_eq!(result["resultType"], "complete");
    let text = result["content"][0]["text"].as_str().unwrap();
    for part in [format!("\"{server}\""), format!("{seconds} s"), "timeout".to_owned()] {
        assert!(text.contains(&part), "{part}: {text}");
    }
}

async fn counted(gateway: &Gateway, server: &str, outcome: &str, times: f64) {
    let labels = [("server", server), ("outcome", outcome)];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, times, "{server} {outcome}");
}

fn progress(exchange: &Exchange, count: usize) {
    let token = exchange.seen.raw(&["params", "_meta", "progressToken"]).unwrap();
    exchange.event(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{count}}}}}"#
    ));
}

/// Covers: F-071, H-82, H-83: silence ends a call with words and a cancel, in each dialect; its server stays up.
#[tokio::test(flavor = "multi_thread")]
async fn f_071_silence_ends_the_call_and_nothing_else() {
    let modern = Server::modern("m", Offer::tools(&["t"])).await;
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    let child = Child::python(
        r#"
def called(m, line):
    if m["params"]["arguments"]:
        result(m, '{"content":[]}')
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": called,
       "note": lambda m, line: note("cancelled", json.dumps(m["params"]["requestId"]))})"#,
    );
    let short = "timeout = \"1s\"";
    let gateway = Setup::new()
        .http("m", &modern.url(), short)
        .http("l", &legacy.url(), short)
        .stdio("c", &child.argv(), short)
        .start()
        .await;
    let (mut at_modern, mut at_legacy) = (modern.hold("tools/call"), legacy.hold("tools/call"));
    for name in ["m", "l", "c"] {
        let began = Instant::now();
        let reply = gateway.send(call(&format!("{name}_t"), "{}").id("\"own\"")).await;
        assert!(began.elapsed() >= Duration::from_secs(1), "{name}: {:?}", began.elapsed());
        timed_out(&reply, name, "1");
        assert_eq!(json::value(&reply.last())["id"], "own");
        counted(&gateway, name, "timeout", 1.0).await;
        assert_eq!(gateway.metric("gatehouse_server_up", &[("server", name)]).await, 1.0, "{name}");
        gateway.metric_becomes("gatehouse_inflight", &[("server", name)], 0.0).await;
    }
    at_modern.next().await.gone().await;
    let mut exchange = at_legacy.next().await;
    legacy.asked("notifications/cancelled", 1).await;
    assert_eq!(
        legacy.requests("notifications/cancelled")[0].raw(&["params", "requestId"]),
        exchange.seen.id()
    );
    exchange.gone().await;
    child.wrote("cancelled").await;
    let id = json::raw(&child.requests("tools/call")[0], &["id"]).unwrap();
    assert_eq!(child.read("cancelled"), id);
    // Nothing else was ended with it.
    modern.release("tools/call");
    legacy.release("tools/call");
    for name in ["m_t", "l_t", "c_t"] {
        assert_ne!(gateway.send(call(name, r#"{"n":1}"#)).await.result()["isError"], true, "{name}");
    }
    // Agreed once, and asked once whether it is well.
    modern.asked("server/discover", 2).await;
    assert_eq!(modern.requests("server/discover").len(), 2);
    // One session for lists, one for who calls.
    assert_eq!(legacy.requests("initialize").len(), 2);
    eventually("the child is asked too", async || child.requests("server/discover").len() == 2).await;
    assert!(child.requests("initialize").is_empty());
}

/// Covers: F-071, H-83: two others are served while one waits, also past its limit.
#[tokio::test(flavor = "multi_thread")]
async fn f_071_others_are_served_meanwhile() {
    let server = Server::modern("s", Offer::tools(&["slow", "fast"])).await;
    let more = "timeout = \"10m\"\nmax_timeout = \"10m\"\n[server.tools.override.slow]\ntimeout = \"2s\"";
    let gateway = Setup::new().http("s", &server.url(), more).start().await;
    let mut held = server.hold("tools/call");
    let slow = gateway.connect().await;
    let slow = tokio::spawn(slow.begin(call("s_slow", "{}")));
    let _unanswered = held.next().await;
    server.release("tools/call");
    let mut others = [gateway.connect().await, gateway.connect().await];
    while !slow.is_finished() {
        for other in &mut others {
            assert_ne!(other.send(call("s_fast", "{}")).await.result()["isError"], true);
        }
    }
    let answer = slow.await.unwrap().rest().await;
    timed_out(&answer, "s", "2");
    for other in &mut others {
        assert_ne!(other.send(call("s_fast", "{}")).await.result()["isError"], true);
    }
    counted(&gateway, "s", "timeout", 1.0).await;
}

/// Covers: F-071, H-83: progress keeps a call alive beyond `timeout`; comments do not.
#[tokio::test(flavor = "multi_thread")]
async fn h_83_progress_resets_the_silence() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "timeout = \"5s\"").start().await;
    let mut held = server.hold("tools/call");
    let client = gateway.connect().await;
    let client = tokio::spawn(client.begin(call("s_t", "{}").meta("progressToken", "1")));
    let exchange = held.next().await;
    exchange.open_events();
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < Duration::from_secs(8) {
        count += 1;
        progress(&exchange, count);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    exchange.finish(r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#);
    let reply = client.await.unwrap().rest().await;
    assert_eq!(reply.result()["content"][0]["text"], "done");
    assert!(began.elapsed() > Duration::from_secs(5));

    let client = gateway.connect().await;
    let client = tokio::spawn(async move { client.begin(call("s_t", "{}")).await.rest().await });
    let mut exchange = held.next().await;
    exchange.open_events();
    while !client.is_finished() {
        exchange.chunk(b": still here\n\n");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    timed_out(&client.await.unwrap(), "s", "5");
    exchange.gone().await;
}

/// Covers: F-071, H-83: `max_timeout` holds whatever the progress, over HTTP and at a child.
#[tokio::test(flavor = "multi_thread")]
async fn h_83_endless_progress_ends() {
    let server = Server::modern("h", Offer::tools(&["t"])).await;
    let child = Child::python(
        r#"
import threading
def endless(token):
    n = 0
    while True:
        n += 1
        send('{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}' % (json.dumps(token), n))
        time.sleep(0.1)
def called(m, line):
    threading.Thread(target=endless, args=[m["params"]["_meta"]["progressToken"]], daemon=True).start()
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": called,
       "note": lambda m, line: note("cancelled", line)})"#,
    );
    let more = "timeout = \"10m\"\nmax_timeout = \"3s\"";
    let gateway = Setup::new().http("h", &server.url(), more).stdio("c", &child.argv(), more).start().await;
    let mut held = server.hold("tools/call");
    let began = Instant::now();
    let clients = ["h_t", "c_t"].map(|name| {
        let request = call(name, "{}").meta("progressToken", "\"p\"");
        let gateway = gateway.connect();
        async move { gateway.await.begin(request).await.rest().await }
    });
    let [over_http, at_child] = clients.map(Box::pin);
    let endless = async {
        let mut exchange = held.next().await;
        exchange.open_events();
        for count in 1.. {
            progress(&exchange, count);
            tokio::time::sleep(Duration::from_millis(100)).await;
            if exchange.is_gone() {
                break;
            }
        }
    };
    let (over_http, at_child, ()) = tokio::join!(over_http, at_child, endless);
    assert!(began.elapsed() >= Duration::from_secs(3));
    for (reply, name) in [(over_http, "h"), (at_child, "c")] {
        let result = reply.result();
        assert_eq!(result["isError"], true, "{reply:?}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&format!("\"{name}\"")) && text.contains("timeout"), "{text}");
        assert!(text.contains("3 s"), "the limit that was reached: {text}");
        counted(&gateway, name, "timeout", 1.0).await;
    }
    child.wrote("cancelled").await;
    gateway.metric_becomes("gatehouse_inflight", &[], 0.0).await;
}

/// Covers: design §6, M-43: what is no tool call says it with -32603 and the server's name.
#[tokio::test(flavor = "multi_thread")]
async fn other_methods_say_it_with_an_error() {
    let mut offer = Offer::tools(&[]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"x://r","name":"r"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().http("s", &server.url(), "timeout = \"500ms\"").start().await;
    for (method, params) in [("prompts/get", r#"{"name":"s_p"}"#), ("resources/read", r#"{"uri":"x://r"}"#)] {
        let _unanswered = server.hold(method);
        let reply = gateway.send(mcp(method, params)).await;
        assert_eq!(reply.verdict(), (200, Some(-32603)), "{method}");
        let text = reply.message()["error"]["message"].as_str().unwrap().to_owned();
        assert!(text.contains("\"s\"") && text.contains("timeout"), "{method}: {text}");
        server.release(method);
        assert_eq!(gateway.send(mcp(method, params)).await.verdict(), (200, Some(0)), "{method}");
        let labels = [("method", method), ("outcome", "timeout")];
        assert_eq!(gateway.metric("gatehouse_requests_total", &labels).await, 1.0);
    }
}

/// Covers: design §6: who waits for a permit too long, or finds the queue full, is told so, and nothing was sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_said_to_be_busy() {
    let server = Server::modern("s", Offer::tools(&["long", "t"])).await;
    let more =
        "max_concurrency = 1\nqueue = 1\ntimeout = \"5s\"\n[server.tools.override.long]\ntimeout = \"4m\"";
    let gateway = Setup::new().http("s", &server.url(), more).start().await;
    let mut held = server.hold("tools/call");
    let long = gateway.connect().await;
    let long = tokio::spawn(async move { long.begin(call("s_long", "{}")).await.rest().await });
    let exchange = held.next().await;
    // Of two, one has the place in the queue until its time is over; the other finds none.
    let (one, two) = tokio::join!(gateway.send(call("s_t", "{}")), gateway.send(call("s_t", "{}")));
    for reply in [one, two] {
        assert_eq!(reply.verdict(), (200, Some(0)));
        let text = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(
            reply.result()["isError"] == true && text.contains("\"s\"") && text.contains("too many"),
            "{text}"
        );
        assert!(!text.contains("effects"), "nothing was sent: {text}");
    }
    counted(&gateway, "s", "limited", 2.0).await;
    for limit in ["queue", "concurrency"] {
        assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", limit)]).await, 1.0, "{limit}");
    }
    // Lists need no permit.
    assert_eq!(gateway.send(mcp("tools/list", "{}")).await.result()["tools"].as_array().unwrap().len(), 2);
    exchange.result(r#"{"resultType":"complete","content":[]}"#);
    assert_ne!(long.await.unwrap().result()["isError"], true);
    assert_eq!(server.requests("tools/call").len(), 1);
    server.release("tools/call");
    eventually("served again", async || gateway.send(call("s_t", "{}")).await.result()["isError"] != true)
        .await;
}
