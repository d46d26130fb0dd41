//! Children and streams outside of calls: whose a request for input is can be known only while one call runs: R-31,
//! R-35, F-043, design §7.

use serde_json::json;

use crate::support::asking::{ACCEPT, ALL, Answers, Questions, ask, content, elicit, said};
use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::feed::Feed;
use crate::support::gateway::Setup;
use crate::support::request::{Mcp, call};
use crate::support::server::{Offer, Server};

/// `ask` asks for a form and answers with what it got; `hold` is never answered; `twice` asks, and once more.
pub(crate) const ASKS: &str = r#"
waiting = {}
def elicit(call, more):
    id = "e%s-%d" % (call["id"], more)
    waiting[id] = (call, more)
    message = json.dumps(call["params"].get("arguments"))
    params = {"message": message, "requestedSchema": {"type": "object", "properties": {}}}
    if call["params"]["name"] == "task":
        params["_meta"] = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
    send(json.dumps({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}))

def called(m, line):
    if m["params"]["name"] == "hold":
        note("held", line)
    else:
        elicit(m, 1 if m["params"]["name"] == "twice" else 0)

def noted(m, line):
    call, more = waiting.pop(m.get("id"), (None, 0))
    if call is None:
        return
    if more:
        return elicit(call, 0)
    text = json.dumps({"for": call["params"].get("arguments"), "got": m.get("result", m.get("error"))})
    result(call, json.dumps({"content": [{"type": "text", "text": text}]}))

serve({"initialize": INITIALIZE, "tools/list": tools("ask", "hold", "twice", "task"), "tools/call": called, "note": noted})"#;

fn by(name: &str, n: usize) -> (String, Mcp) {
    let params = format!("{{\"name\":\"p_{name}\",\"arguments\":{{\"n\":{n}}}}}");
    let request = crate::support::request::mcp("tools/call", &params).capabilities(ALL);
    (params, request)
}

fn got(reply: &Reply) -> serde_json::Value {
    serde_json::from_str(&said(reply)).unwrap()
}

/// Covers: R-30, R-31, G-50: one call runs: its child's questions are its own.
#[tokio::test(flavor = "multi_thread")]
async fn r_31_a_child_with_one_call() {
    let child = Child::python(ASKS);
    let gateway = Setup::new().stdio("p", &child.argv(), "").start().await;
    let (params, request) = by("ask", 1);
    let first = ("tools/call", params.as_str());
    let questions = Questions::of(&gateway.send(request).await);
    let question = serde_json::from_str::<serde_json::Value>(&questions.text).unwrap();
    assert_eq!(question[&questions.keys[0]]["params"]["message"], r#"{"n": 1}"#);
    let reply = gateway.send(questions.answered(first, &[ACCEPT])).await;
    assert_eq!(
        got(&reply),
        json!({"for": {"n": 1}, "got": {"action": "accept", "content": {"name": "x", "n": 2}}})
    );
    // Byte for byte, on one line.
    let received = child.received();
    assert!(received.iter().any(|line| line.ends_with(&format!("\"result\":{ACCEPT}}}"))), "{received:?}");

    let (params, request) = by("twice", 2);
    let first = ("tools/call", params.as_str());
    let one = Questions::of(&gateway.send(request).await);
    let two = Questions::of(&gateway.send(one.answered(first, &[ACCEPT])).await);
    let reply = gateway.send(two.answered(first, &[r#"{"action":"decline"}"#])).await;
    assert_eq!(got(&reply)["got"], json!({"action": "decline"}));
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.stop().await;
}

/// Covers: R-31, R-35, F-043: two calls run: nobody can say whose a question is, so nobody is asked; the calls go on.
#[tokio::test(flavor = "multi_thread")]
async fn r_31_a_child_with_two_calls() {
    let child = Child::python(ASKS);
    let gateway = Setup::new().stdio("p", &child.argv(), "timeout = \"60s\"").start().await;
    let holding = tokio::spawn(gateway.connect().await.begin(by("hold", 1).1));
    child.wrote("held").await;
    let reply = gateway.send(by("ask", 2).1).await;
    assert_eq!(got(&reply)["got"]["code"], -32601, "{reply:?}");
    // The first is given up. Should its child still ask for it, then it asks the same caller.
    holding.abort();
    drop(holding.await);
    eventually("the child is told", async || child.requests("notifications/cancelled").len() == 1).await;
    let (params, request) = by("ask", 3);
    let questions = Questions::of(&gateway.send(request).await);
    let reply = gateway.send(questions.answered(("tools/call", &params), &[ACCEPT])).await;
    assert_eq!(got(&reply)["for"]["n"], 3);
    // What names a task is none of a call's.
    assert_eq!(got(&gateway.send(by("task", 4).1).await)["got"]["code"], -32601);
}

/// Covers: design §7: with one call at a time every question has its owner: the next call waits for the permit.
#[tokio::test(flavor = "multi_thread")]
async fn max_concurrency_one_makes_questions_attributable() {
    let child = Child::python(ASKS);
    let more = "max_concurrency = 1\nqueue = 16\ntimeout = \"60s\"\nmax_timeout = \"10m\"";
    let gateway = Setup::new().stdio("p", &child.argv(), more).start().await;
    let users = (0..8).map(async |n| {
        let (params, request) = by("ask", n);
        let questions = Questions::of(&gateway.send(request).await);
        assert!(questions.text.contains(&format!("{n}}}\"")), "asked for its own call: {}", questions.text);
        let answer = format!("{{\"action\":\"accept\",\"content\":{{\"user\":{n}}}}}");
        let reply = gateway.send(questions.answered(("tools/call", &params), &[&answer])).await;
        assert_eq!(
            got(&reply),
            json!({"for": {"n": n}, "got": {"action": "accept", "content": {"user": n}}})
        );
    });
    futures_util::future::join_all(users).await;
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_inflight", &[("server", "p")], 0.0).await;
}

/// Covers: R-37, F-037: the child dies while its question is open: the call has failed, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_dies_while_its_call_is_parked() {
    let child = Child::python(&format!("note(\"pids\", \"%d\\n\" % os.getpid())\n{ASKS}"));
    let gateway = Setup::new().stdio("p", &child.argv(), "").start().await;
    let (params, request) = by("ask", 1);
    let questions = Questions::of(&gateway.send(request).await);
    // One serves the lists, one this client.
    for pid in child.read("pids").lines() {
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    gateway.metric_becomes("gatehouse_inflight", &[("server", "p")], 0.0).await;
    let reply = gateway.send(questions.answered(("tools/call", &params), &[ACCEPT])).await;
    assert_eq!(reply.result()["isError"], json!(true), "{reply:?}");
    assert!(said(&reply).contains("\"p\""), "{reply:?}");
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
}

/// Covers: R-31, G-43: the same on the stream outside of calls: 2025-03-26 and 2025-06-18 servers ask there.
#[tokio::test(flavor = "multi_thread")]
async fn r_31_the_stream_outside_of_calls() {
    let mut offer = Offer::tools(&["t"]);
    offer.capabilities = vec![r#""tools":{"listChanged":true}"#.to_owned()];
    let server = Server::legacy("l", offer).await;
    let answers = Answers::of(&server);
    let mut gets = server.hold("GET");
    let mut calls = server.hold("tools/call");
    // One session for all: that of the stream.
    let gateway = Setup::new().http("l", &server.url(), "session_scope = \"shared\"").start().await;
    let feed = Feed::legacy(gets.next().await);
    let send = async || gateway.send(call("l_t", "{}")).await;
    // Nobody runs.
    feed.say(&ask("1", "roots/list", "{}"));
    assert_eq!(answers.code("1").await, -32601);
    // One runs, whose client declared nothing: it is its question, and it cannot answer.
    let (reply, exchange) = tokio::join!(send(), async {
        let exchange = calls.next().await;
        exchange.open_events();
        feed.say(&elicit("2"));
        exchange
    });
    assert_eq!(answers.code("2").await, -32602);
    assert_eq!(reply.code(), Some(-32021), "{reply:?}");
    drop(exchange);
    // Two run.
    let (one, two, ()) = tokio::join!(send(), send(), async {
        let (first, second) = (calls.next().await, calls.next().await);
        feed.say(&elicit("3"));
        assert_eq!(answers.code("3").await, -32601);
        first.result(&content("one"));
        second.result(&content("two"));
    });
    for reply in [one, two] {
        assert!(["one", "two"].contains(&said(&reply).as_str()), "{reply:?}");
    }
}

/// Covers: R-31, G-43, G-45: a session whose client can be asked has a stream of its own, and what comes there while one
/// call runs is that call's; opened again when it ends; gone with the session.
#[tokio::test(flavor = "multi_thread")]
async fn r_31_the_stream_of_a_session() {
    let server = Server::legacy("l", Offer::tools(&["t"])).await;
    let answers = Answers::of(&server);
    let (mut gets, mut calls) = (server.hold("GET"), server.hold("tools/call"));
    let gateway = Setup::new().http("l", &server.url(), "").start().await;
    let params = r#"{"name":"l_t","arguments":{}}"#;
    let first = ("tools/call", params);
    let send =
        async || gateway.send(crate::support::request::mcp("tools/call", params).capabilities(ALL)).await;
    let (reply, (feed, exchange)) = tokio::join!(send(), async {
        let get = gets.next().await;
        let session = get.seen.header("mcp-session-id");
        let feed = Feed::legacy(get);
        let exchange = calls.next().await;
        exchange.open_events();
        assert_eq!(exchange.seen.header("mcp-session-id"), session);
        feed.say(&elicit("1"));
        (feed, exchange)
    });
    let questions = Questions::of(&reply);
    let (reply, feed) = tokio::join!(gateway.send(questions.answered(first, &[ACCEPT])), async {
        assert_eq!(answers.result("1").await, ACCEPT);
        // While it runs on, the stream is taken up again.
        feed.cut();
        let feed = Feed::legacy(gets.next().await);
        feed.say(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
        assert_eq!(answers.result("2").await, "{}");
        feed.say(&ask("3", "roots/list", "{}"));
        feed
    });
    let questions = Questions::of(&reply);
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(first, &[r#"{"roots":[]}"#])), async {
        assert_eq!(answers.result("3").await, r#"{"roots":[]}"#);
        exchange.finish(&content("done"));
    });
    assert_eq!(said(&reply), "done");
    feed.say(&ask("4", "roots/list", "{}"));
    assert_eq!(answers.code("4").await, -32601, "nobody runs");
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.stop().await;
}
