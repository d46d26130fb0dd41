//! Modern clients of legacy servers that ask during a call: asked by `input_required`, answered in the session, and the
//! call goes on: R-30..R-33, R-08, R-05, M-52, design §3.

use serde_json::json;

use crate::support::asking::{ACCEPT, ALL, Asking, FORM, Questions, ask, content, elicit, retry, said};
use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::exchange::Exchange;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Mcp, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT};

const MERGE: (&str, &str) = ("tools/call", r#"{"name":"crm_merge","arguments":{"a":1,"b":2}}"#);

async fn crm(gateway: &str, more: &str) -> (Server, Asking, Gateway) {
    let server = Server::legacy("crm", Offer::tools(&["merge", "split"])).await;
    let asking = Asking::at(&server, "tools/call");
    let gateway = Setup::new().gateway(gateway).http("crm", &server.url(), more).start().await;
    (server, asking, gateway)
}

fn first() -> Mcp {
    mcp(MERGE.0, MERGE.1).id(7).capabilities(ALL)
}

/// A call at rest: what its client was asked, and the server's side of it.
async fn parked(gateway: &Gateway, asking: &mut Asking) -> (Questions, Exchange) {
    let (reply, exchange) = tokio::join!(gateway.send(first()), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("\"e1\""));
        exchange
    });
    (Questions::of(&reply), exchange)
}

async fn nothing_is_left(gateway: &Gateway) {
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_inflight", &[("server", "crm")], 0.0).await;
}

fn refused(reply: &Reply, because: &str) {
    assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{reply:?}");
    let message = reply.message()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(because), "{message}");
}

/// Covers: R-30, R-32, R-20, M-10, M-22: the worked example.
#[tokio::test(flavor = "multi_thread")]
async fn r_30_the_worked_example() {
    let (server, mut asking, gateway) = crm("", "").await;
    let (reply, exchange) = tokio::join!(gateway.send(first()), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("\"e1\""));
        exchange
    });
    let questions = Questions::of(&reply);
    assert_eq!(reply.message()["id"], 7);
    assert_eq!(reply.result()["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "gatehouse");
    assert_eq!(questions.keys.len(), 1);
    let key = questions.keys[0].as_str();
    assert_eq!(questions.raw(&[key, "method"]).as_deref(), Some("\"elicitation/create\""));
    assert_eq!(questions.raw(&[key, "params"]).as_deref(), Some(FORM), "byte for byte");
    assert_eq!(gateway.metric("gatehouse_parked_calls", &[]).await, 1.0);
    assert_eq!(gateway.metric("gatehouse_inflight", &[("server", "crm")]).await, 1.0, "its permit is held");
    assert_eq!(asking.answers.count(), 0, "the server waits");

    let retry = questions.answered(MERGE, &[ACCEPT]).id(8);
    let (reply, ()) = tokio::join!(gateway.send(retry), async {
        assert_eq!(asking.answers.result("\"e1\"").await, ACCEPT, "byte for byte");
        exchange.finish(&content("merged"));
    });
    assert_eq!((said(&reply).as_str(), &reply.message()["id"]), ("merged", &json!(8)));
    let answer = &asking.answers.to("\"e1\"")[0];
    let called = server.last_call();
    assert_eq!(answer.header("mcp-session-id"), called.header("mcp-session-id"));
    assert_eq!(answer.header("mcp-protocol-version").as_deref(), Some("2025-11-25"));
    assert!(called.header("mcp-session-id").is_some());
    assert_eq!((server.requests("tools/call").len(), asking.answers.count()), (1, 1), "once");
    assert!(server.requests("notifications/cancelled").is_empty());
    nothing_is_left(&gateway).await;
    let outcome = async |outcome| {
        gateway.metric("gatehouse_tool_calls_total", &[("tool", "crm_merge"), ("outcome", outcome)]).await
    };
    assert_eq!((outcome("input_required").await, outcome("ok").await), (1.0, 1.0));
    let log = gateway.stop().await;
    for secret in ["who?", "accept", "\"x\""] {
        assert!(!log.text().contains(secret), "what users answer is not logged: {secret}");
    }
}

/// Covers: R-07, R-31, R-33: a second elicitation is a second round; the first state is then good for being told of it.
#[tokio::test(flavor = "multi_thread")]
async fn r_33_a_second_round() {
    let (_server, mut asking, gateway) = crm("", "").await;
    let (one, exchange) = parked(&gateway, &mut asking).await;
    let (reply, ()) = tokio::join!(gateway.send(one.answered(MERGE, &[ACCEPT])), async {
        asking.answers.wait("\"e1\"").await;
        exchange.event(&elicit("2"));
    });
    let two = Questions::of(&reply);
    assert_ne!(one.keys, two.keys, "a key is used once");
    // The client did not see the answer, and asks again: it is asked the same, and nothing is done twice.
    let lost = Questions::of(&gateway.send(one.answered(MERGE, &[ACCEPT])).await);
    assert_eq!(lost.text, two.text);
    assert_eq!(asking.answers.count(), 1);
    let (reply, ()) = tokio::join!(gateway.send(lost.answered(MERGE, &[r#"{"action":"decline"}"#])), async {
        assert_eq!(asking.answers.result("2").await, r#"{"action":"decline"}"#);
        exchange.finish(&content("done"));
    });
    assert_eq!(said(&reply), "done");
    refused(&gateway.send(one.answered(MERGE, &[ACCEPT])).await, "expired");
    assert_eq!(said(&gateway.send(two.answered(MERGE, &[ACCEPT])).await), "done", "told again");
    assert_eq!(asking.answers.count(), 2);
    nothing_is_left(&gateway).await;
}

/// Covers: R-31: what is asked in parallel is asked at once; what is asked later, in the next round.
#[tokio::test(flavor = "multi_thread")]
async fn r_31_questions_in_parallel() {
    let (_server, mut asking, gateway) = crm("", "").await;
    let (reply, exchange) = tokio::join!(gateway.send(first()), async {
        let exchange = asking.call().await;
        let both = ask("1", "sampling/createMessage", r#"{"messages":[],"maxTokens":5}"#);
        // In one piece: they cannot come apart.
        let events = [elicit("\"1\""), both, ask("2", "roots/list", "{}")];
        let bytes: String = events.iter().map(|message| crate::support::exchange::event(message)).collect();
        exchange.chunk(bytes.as_bytes());
        exchange
    });
    let questions = Questions::of(&reply);
    assert_eq!(questions.keys.len(), 3);
    let methods: Vec<_> = questions.keys.iter().map(|key| questions.raw(&[key, "method"]).unwrap()).collect();
    assert_eq!(methods, ["\"elicitation/create\"", "\"sampling/createMessage\"", "\"roots/list\""]);
    // Asked while the client is at it.
    exchange.event(&elicit("9"));
    let message = r#"{"role":"assistant","content":{"type":"text","text":"m"},"model":"x"}"#;
    let roots = r#"{"roots":[{"uri":"file:///x"}]}"#;
    let reply = gateway.send(questions.answered(MERGE, &[ACCEPT, message, roots])).await;
    for (id, answer) in [("\"1\"", ACCEPT), ("1", message), ("2", roots)] {
        assert_eq!(asking.answers.result(id).await, answer, "each under its own id and type");
    }
    let next = Questions::of(&reply);
    assert_eq!(next.keys.len(), 1);
    assert!(!questions.keys.contains(&next.keys[0]));
    let (reply, ()) = tokio::join!(gateway.send(next.answered(MERGE, &[ACCEPT])), async {
        asking.answers.wait("9").await;
        exchange.finish(&content("all"));
    });
    assert_eq!(said(&reply), "all");
    nothing_is_left(&gateway).await;
}

/// Covers: R-08: missing answers are asked for again, unknown ones ignored, malformed ones refused; the server hears
/// of none of it, and the call still can be ended well.
#[tokio::test(flavor = "multi_thread")]
async fn r_08_answers_that_are_none() {
    let (_server, mut asking, gateway) = crm("", "").await;
    let (questions, exchange) = parked(&gateway, &mut asking).await;
    let key = questions.keys[0].clone();
    let with = |answer: &str| format!("{{\"{key}\":{answer}}}");
    for none in ["{}".to_owned(), r#"{"other":{"action":"accept"},"q99":null}"#.to_owned()] {
        let again = Questions::of(&gateway.send(questions.again(MERGE, &none)).await);
        assert_eq!(again.text, questions.text, "{none}");
    }
    let again = Questions::of(&gateway.send(retry(MERGE, &questions.state, None)).await);
    assert_eq!(again.text, questions.text, "no inputResponses");
    for malformed in [
        "null".to_owned(),
        "[]".to_owned(),
        "7".to_owned(),
        "\"x\"".to_owned(),
        with("null"),
        with("\"accept\""),
        with("[]"),
        with("{}"),
        with(r#"{"action":"maybe"}"#),
        with(r#"{"action":7}"#),
    ] {
        refused(&gateway.send(questions.again(MERGE, &malformed)).await, "inputResponses");
    }
    let twice = format!("{{\"{key}\":{ACCEPT},\"{key}\":{ACCEPT}}}");
    assert_eq!(gateway.send(questions.again(MERGE, &twice)).await.verdict(), (400, Some(-32600)));
    assert_eq!(asking.answers.count(), 0, "the server does not hear of it");
    let more = format!("{{\"x\":1,\"{key}\":{ACCEPT}}}");
    let (reply, ()) = tokio::join!(gateway.send(again.again(MERGE, &more)), async {
        asking.answers.wait("\"e1\"").await;
        exchange.finish(&content("in the end"));
    });
    assert_eq!(said(&reply), "in the end");
    assert_eq!(asking.answers.count(), 1);
    nothing_is_left(&gateway).await;
}

/// Covers: R-08: of two, one is answered: only the other is asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn r_08_only_what_is_missing_is_asked_again() {
    let (_server, mut asking, gateway) = crm("", "").await;
    let (reply, exchange) = tokio::join!(gateway.send(first()), async {
        let exchange = asking.call().await;
        let bytes: String =
            ["1", "2"].iter().map(|id| crate::support::exchange::event(&elicit(id))).collect();
        exchange.chunk(bytes.as_bytes());
        exchange
    });
    let both = Questions::of(&reply);
    let rest = Questions::of(&gateway.send(both.answered(MERGE, &[r#"{"action":"cancel"}"#])).await);
    assert_eq!(rest.keys, both.keys[1..]);
    assert_eq!(asking.answers.count(), 0, "the server gets them together");
    let (reply, ()) = tokio::join!(gateway.send(rest.answered(MERGE, &[ACCEPT])), async {
        assert_eq!(asking.answers.result("1").await, r#"{"action":"cancel"}"#);
        assert_eq!(asking.answers.result("2").await, ACCEPT);
        exchange.finish(&content("both"));
    });
    assert_eq!(said(&reply), "both");
}

/// Covers: R-05, R-28: a state that was changed, or comes with another request, is refused; the call stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn r_05_a_state_that_does_not_fit_is_refused() {
    let (server, mut asking, gateway) = crm("", "").await;
    let (questions, exchange) = parked(&gateway, &mut asking).await;
    let bare = questions.state.trim_matches('"').to_owned();
    let mut wrong = vec![format!("{bare}x"), bare[..bare.len() - 1].to_owned(), String::new()];
    for at in (2..bare.len()).step_by(11) {
        let mut changed = bare.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        wrong.push(String::from_utf8(changed).unwrap());
    }
    let responses = format!("{{\"{}\":{ACCEPT}}}", questions.keys[0]);
    for state in wrong {
        let reply = gateway.send(retry(MERGE, &format!("\"{state}\""), Some(&responses))).await;
        refused(&reply, "not valid");
    }
    for other in [
        ("tools/call", r#"{"name":"crm_merge","arguments":{"a":1,"b":3}}"#),
        ("tools/call", r#"{"name":"crm_merge"}"#),
        ("tools/call", r#"{"name":"crm_split","arguments":{"a":1,"b":2}}"#),
    ] {
        refused(&gateway.send(questions.answered(other, &[ACCEPT])).await, "not valid");
    }
    assert_eq!((asking.answers.count(), server.requests("tools/call").len()), (0, 1));
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(MERGE, &[ACCEPT])), async {
        asking.answers.wait("\"e1\"").await;
        exchange.finish(&content("the right one"));
    });
    assert_eq!(said(&reply), "the right one");
    nothing_is_left(&gateway).await;
}

/// Covers: R-33: while the first retry runs, a second is refused; afterwards it is told the same.
#[tokio::test(flavor = "multi_thread")]
async fn r_33_the_same_state_twice() {
    let (server, mut asking, gateway) = crm("", "").await;
    let (questions, exchange) = parked(&gateway, &mut asking).await;
    let answered = || questions.answered(MERGE, &[ACCEPT]);
    let running = gateway.connect().await;
    let running = tokio::spawn(running.begin(answered()));
    asking.answers.wait("\"e1\"").await;
    refused(&gateway.send(answered()).await, "running");
    exchange.finish(&content("once"));
    assert_eq!(said(&running.await.unwrap().rest().await), "once");
    for _ in 0..2 {
        assert_eq!(said(&gateway.send(answered()).await), "once");
    }
    let malformed = questions.again(MERGE, "null");
    refused(&gateway.send(malformed).await, "inputResponses");
    assert_eq!((asking.answers.count(), server.requests("tools/call").len()), (1, 1));
    nothing_is_left(&gateway).await;
}

/// Covers: M-52, M-51: what the server says meanwhile goes to the retry, under its own token; pings are answered while
/// nobody is there.
#[tokio::test(flavor = "multi_thread")]
async fn m_52_notices_of_a_parked_call() {
    let (_server, mut asking, gateway) = crm("", "").await;
    let token = |call: Mcp, token: &str| {
        call.meta("progressToken", token).meta("io.modelcontextprotocol/logLevel", "\"info\"")
    };
    let (reply, exchange) = tokio::join!(gateway.send(token(first(), "\"one\"")), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("1"));
        exchange
    });
    let questions = Questions::of(&reply);
    let ours = exchange.seen.raw(&["params", "_meta", "progressToken"]).unwrap();
    let progress = |n: u32| {
        let params = format!(r#"{{"progressToken":{ours},"progress":{n}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
    };
    for n in 1..=3 {
        exchange.event(&progress(n));
    }
    exchange.event(
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"meanwhile"}}"#,
    );
    exchange.event(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    // It came last: all before it has been seen.
    assert_eq!(asking.answers.result("\"p\"").await, "{}");
    let (reply, ()) =
        tokio::join!(gateway.send(token(questions.answered(MERGE, &[ACCEPT]), "\"two\"")), async {
            asking.answers.wait("1").await;
            exchange.event(&progress(4));
            exchange.finish(&content("done"));
        });
    let messages: Vec<serde_json::Value> =
        reply.texts().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let seen: Vec<_> = messages
        .iter()
        .filter_map(|m| Some((m["params"]["progressToken"].as_str()?, m["params"]["progress"].as_u64()?)))
        .collect();
    assert_eq!(seen, [("two", 3), ("two", 4)], "of the old ones the last");
    assert_eq!(messages.iter().filter(|m| m["params"]["data"] == "meanwhile").count(), 1);
    assert_eq!(said(&reply), "done");
}

/// Covers: R-32: the server's answer comes before the client's: it is told when it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn r_32_a_server_that_does_not_wait() {
    let (_server, mut asking, gateway) = crm("", "").await;
    let (questions, exchange) = parked(&gateway, &mut asking).await;
    exchange.finish(&content("went on without"));
    gateway.metric_becomes("gatehouse_inflight", &[("server", "crm")], 0.0).await;
    for _ in 0..2 {
        assert_eq!(said(&gateway.send(questions.answered(MERGE, &[ACCEPT])).await), "went on without");
    }
    assert_eq!(asking.answers.count(), 0);
    // The same when it dies.
    let (questions, exchange) = parked(&gateway, &mut asking).await;
    exchange.reset();
    gateway.metric_becomes("gatehouse_inflight", &[("server", "crm")], 0.0).await;
    let reply = gateway.send(questions.answered(MERGE, &[ACCEPT])).await;
    assert_eq!((reply.verdict(), &reply.result()["isError"]), ((200, Some(RESULT)), &json!(true)));
    assert!(said(&reply).contains("\"crm\""), "{reply:?}");
    nothing_is_left(&gateway).await;
}

/// Covers: design §3: time that the server waits for the client counts neither as silence nor as running.
#[tokio::test(flavor = "multi_thread")]
async fn parked_time_is_no_silence() {
    let (server, mut asking, gateway) = crm("", "timeout = \"1s\"\nmax_timeout = \"1s\"").await;
    let (questions, exchange) = parked(&gateway, &mut asking).await;
    let asked = std::time::Instant::now();
    eventually("much more than the time-out", async || asked.elapsed().as_millis() > 2500).await;
    assert!(server.requests("notifications/cancelled").is_empty());
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(MERGE, &[ACCEPT])), async {
        asking.answers.wait("\"e1\"").await;
        exchange.finish(&content("in time"));
    });
    assert_eq!(said(&reply), "in time");
    // Once it goes on, it counts.
    let (questions, _exchange) = parked(&gateway, &mut asking).await;
    let reply = gateway.send(questions.answered(MERGE, &[ACCEPT])).await;
    assert!(said(&reply).contains("timeout"), "{reply:?}");
    server.asked("notifications/cancelled", 1).await;
    nothing_is_left(&gateway).await;
}
