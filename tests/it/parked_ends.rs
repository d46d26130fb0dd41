//! How parked calls end without an answer: clients that leave, time that runs out, too many of them, a gateway that
//! stops or is gone; and whose they are: R-26, R-36, R-37, R-40, R-06, F-043.

use std::time::Duration;

use base64::Engine as _;
use serde_json::json;

use crate::support::asking::{ACCEPT, ALL, Asking, Questions, ask, content, elicit, said};
use crate::support::cast::digest;
use crate::support::client::{Answer, Reply};
use crate::support::eventually;
use crate::support::exchange::Exchange;
use crate::support::gateway::{Gateway, Setup};
use crate::support::inside::{Inside, later};
use crate::support::request::{Mcp, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT};

const T: (&str, &str) = ("tools/call", r#"{"name":"s_t","arguments":{"a":1}}"#);
const P: (&str, &str) = ("prompts/get", r#"{"name":"s_p"}"#);

async fn server() -> Server {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    Server::legacy("s", offer).await
}

fn first() -> Mcp {
    mcp(T.0, T.1).capabilities(ALL)
}

/// A request that its server answers with a question, whoever sends it.
async fn parked(
    reply: impl Future<Output = Reply>,
    asking: &mut Asking,
    question: &str,
) -> (Questions, Exchange) {
    let (reply, exchange) = tokio::join!(reply, async {
        let exchange = asking.call().await;
        exchange.event(question);
        exchange
    });
    (Questions::of(&reply), exchange)
}

fn expired(reply: &Reply) {
    assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{reply:?}");
    assert!(reply.text().contains("expired"), "{reply:?}");
}

async fn nothing_is_left(gateway: &Gateway) {
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_inflight", &[("server", "s")], 0.0).await;
}

/// Its connection is closed, whether the head of the answer was there already or not.
async fn leaves(client: tokio::task::JoinHandle<Answer>) {
    client.abort();
    drop(client.await);
}

/// The methods of the messages that ended a call at its server, in order: answers are `POST`.
fn endings(server: &Server) -> Vec<String> {
    let ends = |method: &String| method == "POST" || method == "notifications/cancelled";
    server.seen().iter().map(|seen| seen.method()).filter(ends).collect()
}

/// Covers: R-36, H-80, the cancellation matrix: who was asked may leave; who waits for the call to go on may not.
#[tokio::test(flavor = "multi_thread")]
async fn r_36_a_client_that_leaves() {
    let server = server().await;
    let mut asking = Asking::at(&server, "tools/call");
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    // Its connection ends with the answer.
    let (questions, mut exchange) = parked(gateway.send(first()), &mut asking, &elicit("1")).await;
    let running = gateway.connect().await;
    let client = tokio::spawn(running.begin(questions.answered(T, &[ACCEPT])));
    asking.answers.wait("1").await;
    assert_eq!(endings(&server), ["POST"], "that the connection ended was no cancel");
    assert!(!exchange.is_gone());
    leaves(client).await;
    server.asked("notifications/cancelled", 1).await;
    let told = server.requests("notifications/cancelled").remove(0);
    assert_eq!(told.raw(&["params", "requestId"]), exchange.seen.id());
    assert!(told.header("mcp-session-id").is_some());
    exchange.gone().await;
    nothing_is_left(&gateway).await;
    gateway.metric_becomes("gatehouse_tool_calls_total", &[("outcome", "cancelled")], 1.0).await;
    expired(&gateway.send(questions.answered(T, &[ACCEPT])).await);
    assert_eq!(server.requests("tools/call").len(), 1, "never again");

    // The same before anything was asked.
    let client = tokio::spawn(gateway.connect().await.begin(first()));
    let mut exchange = asking.call().await;
    leaves(client).await;
    exchange.gone().await;
    server.asked("notifications/cancelled", 2).await;
    nothing_is_left(&gateway).await;
}

/// Covers: R-36: nobody answers: a form is cancelled, the rest gets an error, then the call is cancelled and its permit
/// is free.
#[tokio::test(flavor = "multi_thread")]
async fn r_36_nobody_answers() {
    let server = server().await;
    let mut asking = Asking::at(&server, "tools/call");
    let more = "max_concurrency = 1\ntimeout = \"60s\"";
    let setup = Setup::new().gateway("park_timeout = \"2s\"").http("s", &server.url(), more);
    let gateway = setup.start().await;
    let (questions, mut exchange) = parked(gateway.send(first()), &mut asking, &elicit("\"e\"")).await;
    exchange.event(&ask("2", "sampling/createMessage", r#"{"messages":[]}"#));
    exchange.event(&ask("3", "roots/list", "{}"));
    assert_eq!(asking.answers.result("\"e\"").await, r#"{"action":"cancel"}"#);
    assert_eq!(asking.answers.code("2").await, -32603);
    assert_eq!(asking.answers.code("3").await, -32603);
    server.asked("notifications/cancelled", 1).await;
    assert_eq!(endings(&server), ["POST", "POST", "POST", "notifications/cancelled"]);
    assert_eq!(
        server.requests("notifications/cancelled")[0].raw(&["params", "requestId"]),
        exchange.seen.id()
    );
    exchange.gone().await;
    nothing_is_left(&gateway).await;
    expired(&gateway.send(questions.answered(T, &[ACCEPT])).await);
    // The one permit is free.
    let (questions, exchange) = parked(gateway.send(first()), &mut asking, &elicit("4")).await;
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(T, &[ACCEPT])), async {
        asking.answers.wait("4").await;
        exchange.finish(&content("free"));
    });
    assert_eq!(said(&reply), "free");
    gateway.stop().await;
}

/// Covers: R-36: each round has its own time, which asking again does not prolong; R-33: the final answer can be had
/// again for a minute.
#[tokio::test]
async fn r_36_the_time_of_a_round() {
    let server = server().await;
    let mut asking = Asking::at(&server, "tools/call");
    let gateway = Inside::start(Setup::new().http("s", &server.url(), "")).await;
    let (one, exchange) = parked(gateway.send(first()), &mut asking, &elicit("1")).await;
    later(Duration::from_secs(290)).await;
    let again = Questions::of(&gateway.send(one.again(T, "{}")).await);
    let (reply, ()) = tokio::join!(gateway.send(again.answered(T, &[ACCEPT])), async {
        asking.answers.wait("1").await;
        exchange.event(&elicit("2"));
    });
    let two = Questions::of(&reply);
    later(Duration::from_secs(290)).await;
    let (reply, ()) = tokio::join!(gateway.send(two.answered(T, &[ACCEPT])), async {
        asking.answers.wait("2").await;
        exchange.finish(&content("late"));
    });
    assert_eq!(said(&reply), "late");
    later(Duration::from_secs(50)).await;
    assert_eq!(said(&gateway.send(two.answered(T, &[ACCEPT])).await), "late");
    later(Duration::from_secs(11)).await;
    expired(&gateway.send(two.answered(T, &[ACCEPT])).await);

    let (one, mut exchange) = parked(gateway.send(first()), &mut asking, &elicit("3")).await;
    later(Duration::from_secs(200)).await;
    Questions::of(&gateway.send(one.again(T, "{}")).await);
    later(Duration::from_secs(101)).await;
    assert_eq!(asking.answers.result("3").await, r#"{"action":"cancel"}"#);
    exchange.gone().await;
    expired(&gateway.send(one.answered(T, &[ACCEPT])).await);
    gateway.stop().await;
}

/// Covers: R-36, design §6: `max_parked` is a bound that is told, counted and free again.
#[tokio::test(flavor = "multi_thread")]
async fn r_36_too_many_parked_calls() {
    let server = server().await;
    let mut asking = Asking::at(&server, "tools/call");
    let gateway = Setup::new()
        .gateway("max_parked = 2\ndrain_timeout = \"0s\"")
        .http("s", &server.url(), "")
        .start()
        .await;
    let mut kept = Vec::new();
    for id in ["1", "2"] {
        kept.push(parked(gateway.send(first()), &mut asking, &elicit(id)).await);
    }
    let (reply, mut exchange) = tokio::join!(gateway.send(first()), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("3"));
        exchange
    });
    assert_eq!(reply.verdict(), (200, Some(RESULT)));
    assert_eq!(reply.result()["isError"], json!(true));
    assert!(said(&reply).contains("\"s\"") && said(&reply).contains("too many"), "{reply:?}");
    assert_eq!(asking.answers.result("3").await, r#"{"action":"cancel"}"#);
    server.asked("notifications/cancelled", 1).await;
    exchange.gone().await;
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "max_parked")]).await, 1.0);
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &[("outcome", "limited")]).await, 1.0);
    let mut prompts = server.hold("prompts/get");
    let (reply, ()) = tokio::join!(gateway.send(mcp(P.0, P.1).capabilities(ALL)), async {
        let exchange = prompts.next().await;
        exchange.open_events();
        exchange.event(&elicit("4"));
        asking.answers.wait("4").await;
    });
    assert_eq!(reply.verdict(), (200, Some(-32603)), "{reply:?}");
    let (questions, exchange) = kept.pop().unwrap();
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(T, &[ACCEPT])), async {
        asking.answers.wait("2").await;
        exchange.finish(&content("one less"));
    });
    assert_eq!(said(&reply), "one less");
    gateway.metric_becomes("gatehouse_parked_calls", &[], 1.0).await;
    parked(gateway.send(first()), &mut asking, &elicit("5")).await;
}

/// Covers: R-37: the process that kept a call is gone: said so, and never done again in silence.
#[tokio::test(flavor = "multi_thread")]
async fn r_37_the_owner_is_gone() {
    let server = server().await;
    let keys = base64::engine::general_purpose::STANDARD.encode([7; 32]);
    let start = async || {
        let gateway = format!("keys = [\"{keys}\"]\ndrain_timeout = \"0s\"");
        Setup::new().gateway(&gateway).http("s", &server.url(), "").start().await
    };
    let one = start().await;
    let mut asking = Asking::at(&server, "tools/call");
    let (tool, mut exchange) = parked(one.send(first()), &mut asking, &elicit("1")).await;
    let mut asking = Asking::at(&server, "prompts/get");
    let (prompt, _prompt) =
        parked(one.send(mcp(P.0, P.1).capabilities(ALL)), &mut asking, &elicit("2")).await;
    one.stop().await;
    exchange.gone().await;
    let two = start().await;
    let calls = async || server.requests("tools/call").len() + server.requests("prompts/get").len();
    let before = calls().await;
    for _ in 0..2 {
        let reply = two.send(tool.answered(T, &[ACCEPT])).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
        assert_eq!(reply.result()["isError"], json!(true));
        let text = said(&reply);
        assert!(text.contains("lost") && text.contains("effects") && text.contains("\"s\""), "{text}");
        let reply = two.send(prompt.answered(P, &[ACCEPT])).await;
        assert_eq!(reply.verdict(), (200, Some(-32603)), "{reply:?}");
    }
    assert_eq!(calls().await, before, "nothing is done again");
    let unfit = ("tools/call", r#"{"name":"s_t","arguments":{"a":2}}"#);
    assert_eq!(two.send(tool.answered(unfit, &[ACCEPT])).await.verdict(), (200, Some(PARAMS)));
    assert_eq!(two.metric("gatehouse_tool_calls_total", &[("outcome", "unavailable")]).await, 2.0);
}

/// Covers: R-40: a gateway that stops waits for its parked calls, and is there for who comes back.
#[tokio::test(flavor = "multi_thread")]
async fn r_40_a_drain_waits_for_answers() {
    let server = server().await;
    let mut asking = Asking::at(&server, "tools/call");
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let (questions, exchange) = parked(gateway.send(first()), &mut asking, &elicit("1")).await;
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    gateway.log.wait("it drains", |line| line.contains("draining")).await;
    eventually("it is not ready", async || gateway.admin("/readyz").await.status() == 503).await;
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(T, &[ACCEPT])), async {
        asking.answers.wait("1").await;
        exchange.finish(&content("still here"));
    });
    assert_eq!(said(&reply), "still here");
    // Its exit is judged where it falls.
    gateway.log.wait("it stops", |line| line.contains("\"stopped\"")).await;
    assert!(server.requests("notifications/cancelled").is_empty());
}

/// Covers: R-40, R-36: at the end of the drain what is parked is given up in order, and whoever waits is told.
#[tokio::test(flavor = "multi_thread")]
async fn r_40_a_drain_ends() {
    let server = server().await;
    let mut asking = Asking::at(&server, "tools/call");
    let gateway = Setup::new().gateway("drain_timeout = \"2s\"").http("s", &server.url(), "").start().await;
    let (_asked, mut at_rest) = parked(gateway.send(first()), &mut asking, &elicit("1")).await;
    let (questions, mut running) = parked(gateway.send(first()), &mut asking, &elicit("2")).await;
    let client = tokio::spawn(gateway.connect().await.begin(questions.answered(T, &[ACCEPT])));
    asking.answers.wait("2").await;
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let reply = client.await.unwrap().rest().await;
    assert_eq!(reply.result()["isError"], json!(true), "{reply:?}");
    assert!(said(&reply).contains("lost"), "{reply:?}");
    assert_eq!(asking.answers.result("1").await, r#"{"action":"cancel"}"#);
    server.asked("notifications/cancelled", 2).await;
    at_rest.gone().await;
    running.gone().await;
    let delete = async || !server.requests("DELETE").is_empty();
    eventually("the session is ended after them", delete).await;
    gateway.log.wait("it stops", |line| line.contains("\"stopped\"")).await;
}

/// Covers: R-06, R-26, R-32, F-043: a state is good for the one it was given to.
#[tokio::test(flavor = "multi_thread")]
async fn r_32_another_principal() {
    let server = server().await;
    let mut asking = Asking::at(&server, "tools/call");
    let mut setup = Setup::new().http("s", &server.url(), "");
    for name in ["alice", "mallory"] {
        let key = format!("key-of-{name}-long-enough");
        setup = setup.toml(&format!("[[auth.key]]\nname = \"{name}\"\nsha256 = \"{}\"", digest(&key)));
    }
    let gateway = setup.start().await;
    let by = |name: &str, call: Mcp| {
        call.request().with("Authorization", format!("Bearer key-of-{name}-long-enough"))
    };
    let (questions, exchange) = parked(gateway.send(by("alice", first())), &mut asking, &elicit("1")).await;
    let answered = || questions.answered(T, &[ACCEPT]);
    let stolen = gateway.send(by("mallory", answered())).await;
    assert_eq!(stolen.verdict(), (200, Some(PARAMS)), "{stolen:?}");
    assert!(stolen.text().contains("not valid"));
    assert_eq!(asking.answers.count(), 0);
    let (reply, ()) = tokio::join!(gateway.send(by("alice", answered())), async {
        asking.answers.wait("1").await;
        exchange.finish(&content("for alice"));
    });
    assert_eq!(said(&reply), "for alice");
    let stolen = gateway.send(by("mallory", answered())).await;
    assert_eq!(stolen.verdict(), (200, Some(PARAMS)), "nor afterwards: {stolen:?}");
    nothing_is_left(&gateway).await;
}
