//! What a legacy server may ask of a modern client, by kind: forms, addresses, sampling, roots; in calls, prompts and
//! reads; and what a client cannot be asked for: R-34, R-38, R-39, M-34..M-36, G-80, R-64.

use serde_json::json;

use crate::support::asking::{ACCEPT, ALL, Asking, FORM, Questions, ask, content, elicit, said};
use crate::support::client::Reply;
use crate::support::exchange::{Answer, Exchange};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{CAPABILITY, RESULT};

const URL: &str = r#"{"mode":"url","elicitationId":"e-7","message":"pay","url":"https://pay.example/x"}"#;
const T: (&str, &str) = ("tools/call", r#"{"name":"s_t","arguments":{}}"#);

fn offer() -> Offer {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"s://r","name":"r"}"#.to_owned()];
    offer
}

async fn legacy() -> (Server, Gateway) {
    let server = Server::legacy("s", offer()).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// Sends a call whose server asks this.
async fn asked(
    gateway: &Gateway,
    asking: &mut Asking,
    capabilities: &str,
    question: &str,
) -> (Reply, Exchange) {
    tokio::join!(gateway.send(mcp(T.0, T.1).capabilities(capabilities)), async {
        let exchange = asking.call().await;
        exchange.event(question);
        exchange
    })
}

/// Covers: R-01, R-30, R-32, R-34: each method that may ask, with each kind of request; what a client declared is
/// declared to its server.
#[tokio::test(flavor = "multi_thread")]
async fn r_30_every_kind_in_every_method() {
    const MESSAGE: &str = r#"{"role":"assistant","content":{"type":"text","text":"m","n":1.0},"model":"x","stopReason":"endTurn"}"#;
    let (server, gateway) = legacy().await;
    let methods = [T, ("prompts/get", r#"{"name":"s_p"}"#), ("resources/read", r#"{"uri":"s://r"}"#)];
    let kinds = [
        ("elicitation/create", Some(FORM), ACCEPT),
        ("elicitation/create", Some(r#"{"mode":"form","message":"?"}"#), r#"{"action":"decline"}"#),
        ("sampling/createMessage", Some(r#"{"messages":[],"maxTokens":1.0,"tools":[]}"#), MESSAGE),
        ("roots/list", None, r#"{"roots":[{"uri":"file:///w","name":"w"}]}"#),
        ("roots/list", Some(r#"{"_meta":{"com.example/a":null}}"#), r#"{"roots":[]}"#),
    ];
    for first in methods {
        let mut asking = Asking::at(&server, first.0);
        for (at, (kind, params, answer)) in kinds.iter().enumerate() {
            let id = format!("\"{at}\"");
            let question = match params {
                Some(params) => ask(&id, kind, params),
                None => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{kind}"}}"#),
            };
            let (reply, exchange) =
                tokio::join!(gateway.send(mcp(first.0, first.1).capabilities(ALL)), async {
                    let exchange = asking.call().await;
                    exchange.event(&question);
                    exchange
                });
            let questions = Questions::of(&reply);
            let key = questions.keys[0].as_str();
            assert_eq!(questions.raw(&[key, "method"]), Some(format!("\"{kind}\"")));
            assert_eq!(questions.raw(&[key, "params"]).as_deref(), *params, "{first:?}");
            for hint in ["ttlMs", "cacheScope"] {
                assert_eq!(reply.result().get(hint), None, "L-11");
            }
            let (reply, ()) = tokio::join!(gateway.send(questions.answered(first, &[answer])), async {
                assert_eq!(asking.answers.result(&id).await, *answer);
                exchange.finish(r#"{"content":[],"messages":[],"contents":[{"uri":"s://r","text":"x"}]}"#);
            });
            assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
            assert_eq!(reply.result()["resultType"], "complete");
        }
        assert_eq!(server.requests(first.0).len(), kinds.len());
        server.release(first.0);
    }
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    let session = server.requests("tools/call")[0].header("mcp-session-id");
    let declared: Vec<_> = server
        .requests("initialize")
        .iter()
        .map(|seen| seen.raw(&["params", "capabilities"]).unwrap())
        .collect();
    assert!(session.is_some());
    assert!(
        declared.iter().any(|text| json::value(text)
            == json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})),
        "{declared:?}"
    );
}

/// Covers: R-34, M-34..M-36, F-042: a request that the client cannot serve ends the call: an error to the server at
/// once, a cancel after it, and to the client what it would have to declare.
#[tokio::test(flavor = "multi_thread")]
async fn r_34_what_a_client_cannot_be_asked() {
    let (server, gateway) = legacy().await;
    let mut asking = Asking::at(&server, "tools/call");
    let tools = r#"{"messages":[],"maxTokens":1,"tools":[]}"#;
    let cases = [
        ("{}", "elicitation/create", FORM, -32602, json!({"elicitation": {}})),
        (
            r#"{"elicitation":{"url":{}}}"#,
            "elicitation/create",
            FORM,
            -32602,
            json!({"elicitation": {"form": {}}}),
        ),
        (r#"{"elicitation":{}}"#, "elicitation/create", URL, -32602, json!({"elicitation": {"url": {}}})),
        (r#"{"elicitation":{}}"#, "sampling/createMessage", tools, -32601, json!({"sampling": {}})),
        (r#"{"sampling":{}}"#, "sampling/createMessage", tools, -32601, json!({"sampling": {"tools": {}}})),
        (r#"{"sampling":{}}"#, "roots/list", "{}", -32601, json!({"roots": {}})),
    ];
    for (at, (declared, method, params, code, missing)) in cases.iter().enumerate() {
        let id = format!("{at}");
        let (reply, mut exchange) = asked(&gateway, &mut asking, declared, &ask(&id, method, params)).await;
        assert_eq!(reply.verdict(), (400, Some(CAPABILITY)), "{declared} {method}: {reply:?}");
        assert_eq!(reply.message()["error"]["data"], json!({"requiredCapabilities": missing}), "{declared}");
        assert_eq!(asking.answers.code(&id).await, *code);
        server.asked("notifications/cancelled", at + 1).await;
        let told = server.requests("notifications/cancelled").pop().unwrap();
        assert_eq!(told.raw(&["params", "requestId"]), exchange.seen.id());
        exchange.gone().await;
    }
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_inflight", &[("server", "s")], 0.0).await;
    // The answer went first.
    let order: Vec<String> = server.seen().iter().map(|seen| seen.method()).collect();
    let (answer, cancel) = ("POST".to_owned(), "notifications/cancelled".to_owned());
    let at = |what: &String| order.iter().position(|method| method == what).unwrap();
    assert!(at(&answer) < at(&cancel));
}

/// Covers: R-34, mrtr.md's traps: the capabilities of the retry count, not those of the first request.
#[tokio::test(flavor = "multi_thread")]
async fn r_34_the_newest_capabilities_count() {
    let server = Server::legacy("s", offer()).await;
    let setup = Setup::new().gateway("drain_timeout = \"0s\"").http("s", &server.url(), "");
    let gateway = setup.start().await;
    let mut asking = Asking::at(&server, "tools/call");
    let (reply, exchange) = asked(&gateway, &mut asking, r#"{"elicitation":{}}"#, &elicit("1")).await;
    let questions = Questions::of(&reply);
    let retry = questions.answered(T, &[ACCEPT]).capabilities(r#"{"elicitation":{}}"#);
    let (reply, ()) = tokio::join!(gateway.send(retry), async {
        asking.answers.wait("1").await;
        exchange.event(&ask("2", "roots/list", "{}"));
    });
    assert_eq!(reply.verdict(), (400, Some(CAPABILITY)), "{reply:?}");
    assert_eq!(asking.answers.code("2").await, -32601);
    server.asked("notifications/cancelled", 1).await;

    let (reply, exchange) = asked(&gateway, &mut asking, r#"{"elicitation":{}}"#, &elicit("3")).await;
    let questions = Questions::of(&reply);
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(T, &[ACCEPT]).capabilities(ALL)), async {
        asking.answers.wait("3").await;
        exchange.event(&ask("4", "roots/list", "{}"));
    });
    assert_eq!(Questions::of(&reply).keys.len(), 1);
    gateway.metric_becomes("gatehouse_parked_calls", &[], 1.0).await;
}

/// Covers: R-31, R-35: what is no request a client could be shown is refused; the call goes on.
#[tokio::test(flavor = "multi_thread")]
async fn r_35_requests_that_are_none() {
    let (server, gateway) = legacy().await;
    let mut asking = Asking::at(&server, "tools/call");
    let (reply, ()) = tokio::join!(gateway.send(mcp(T.0, T.1).capabilities(ALL)), async {
        let exchange = asking.call().await;
        let odd = [
            ask("1", "elicitation/create", r#"{"mode":"voice","message":"?"}"#),
            ask("2", "elicitation/create", "[]"),
            ask("3", "sampling/createMessage", "7"),
            r#"{"jsonrpc":"2.0","id":4,"method":"elicitation/create"}"#.to_owned(),
        ];
        odd.iter().for_each(|question| exchange.event(question));
        for id in ["1", "2", "3", "4"] {
            assert_eq!(asking.answers.code(id).await, -32602, "{id}");
        }
        exchange.finish(&content("went on"));
    });
    assert_eq!(said(&reply), "went on");
}

/// Covers: R-39: an address to visit: the id of the visit stays on its hop, the answer passes, and that the user is done
/// there is told to nobody.
#[tokio::test(flavor = "multi_thread")]
async fn r_39_addresses() {
    let (server, gateway) = legacy().await;
    let mut asking = Asking::at(&server, "tools/call");
    let (reply, exchange) = asked(&gateway, &mut asking, ALL, &ask("\"u\"", "elicitation/create", URL)).await;
    let questions = Questions::of(&reply);
    let key = questions.keys[0].as_str();
    assert_eq!(
        questions.raw(&[key, "params"]).as_deref(),
        Some(r#"{"mode":"url","message":"pay","url":"https://pay.example/x"}"#)
    );
    assert!(!reply.text().contains("e-7"));
    let complete =
        r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e-7"}}"#;
    exchange.event(complete);
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(T, &[r#"{"action":"accept"}"#])), async {
        assert_eq!(asking.answers.result("\"u\"").await, r#"{"action":"accept"}"#);
        exchange.event(complete);
        exchange.finish(&content("paid"));
    });
    assert_eq!(said(&reply), "paid");
    assert_eq!(reply.texts().len(), 1, "nothing but the answer: {reply:?}");
}

/// Covers: R-38: -32042 is asked as addresses; nothing is kept, the retry makes the call again.
#[tokio::test(flavor = "multi_thread")]
async fn r_38_url_elicitation_required() {
    const DATA: &str = r#"{"elicitations":[{"mode":"url","elicitationId":"a","url":"https://a.example/","message":"first ä"},{"elicitationId":"b","url":"https://b.example/","message":"second","mode":"url"}]}"#;
    let (server, gateway) = legacy().await;
    let refusal = |data: Option<&'static str>| {
        move |seen: &crate::support::exchange::Seen| {
            Answer::new(200, "application/json", seen.error(-32042, "first visit", data))
        }
    };
    server.on("tools/call", refusal(Some(DATA)));
    let send = async |capabilities: &str| gateway.send(mcp(T.0, T.1).capabilities(capabilities)).await;
    let reply = send(r#"{"elicitation":{"url":{}}}"#).await;
    let questions = Questions::of(&reply);
    let all: Vec<_> = questions.keys.iter().map(|key| questions.raw(&[key]).unwrap()).collect();
    let one = |message: &str, url: &str| {
        format!(
            r#"{{"method":"elicitation/create","params":{{"mode":"url","message":"{message}","url":"{url}"}}}}"#
        )
    };
    assert_eq!(all, [one("first ä", "https://a.example/"), one("second", "https://b.example/")]);
    assert_eq!(gateway.metric("gatehouse_parked_calls", &[]).await, 0.0, "nothing is kept");
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &[("outcome", "input_required")]).await, 1.0);
    let accept = r#"{"action":"accept"}"#;
    let again = Questions::of(&gateway.send(questions.answered(T, &[accept, accept])).await);
    server.on("tools/call", |seen| Answer::result(seen, &content("visited")));
    assert_eq!(said(&gateway.send(again.answered(T, &[accept, accept])).await), "visited");
    let sent = server.last_call();
    assert_eq!(json::keys(&sent.raw(&["params"]).unwrap()), ["_meta", "name", "arguments"], "G-83");
    let other = ("tools/call", r#"{"name":"s_t","arguments":{"a":1}}"#);
    assert_eq!(gateway.send(again.answered(other, &[accept])).await.code(), Some(-32602));

    server.on("tools/call", refusal(Some(DATA)));
    let reply = send(r#"{"elicitation":{}}"#).await;
    assert_eq!(reply.verdict(), (400, Some(CAPABILITY)));
    assert_eq!(
        reply.message()["error"]["data"],
        json!({"requiredCapabilities": {"elicitation": {"url": {}}}})
    );
    for odd in [None, Some("{}"), Some(r#"{"elicitations":[]}"#), Some(r#"{"elicitations":[{"url":7}]}"#)] {
        server.on("tools/call", refusal(odd));
        assert_eq!(send(ALL).await.verdict(), (200, Some(-32603)), "{odd:?}");
    }
    let modern = Server::modern("m", Offer::tools(&["t"])).await;
    modern.on("tools/call", refusal(Some(DATA)));
    let gateway = Setup::new().http("s", &modern.url(), "").start().await;
    let reply = gateway.send(mcp(T.0, T.1).capabilities(ALL)).await;
    assert_eq!(reply.verdict(), (200, Some(-32603)), "no modern server may say it: {reply:?}");
}

/// Covers: G-80, R-64: what ties a message to a task of 2025-11-25 stays on its hop.
#[tokio::test(flavor = "multi_thread")]
async fn r_64_related_tasks_are_of_no_other_hop() {
    const RELATED: &str = r#""io.modelcontextprotocol/related-task":{"taskId":"t-1"}"#;
    let (server, gateway) = legacy().await;
    let mut asking = Asking::at(&server, "tools/call");
    let question = ask("1", "elicitation/create", &format!(r#"{{"_meta":{{{RELATED}}},"message":"?"}}"#));
    let (reply, exchange) = asked(&gateway, &mut asking, ALL, &question).await;
    let questions = Questions::of(&reply);
    assert!(!reply.text().contains("related-task"), "{reply:?}");
    let (reply, ()) = tokio::join!(gateway.send(questions.answered(T, &[ACCEPT])), async {
        asking.answers.wait("1").await;
        exchange.finish(&format!(r#"{{"content":[],"_meta":{{{RELATED}}}}}"#));
    });
    assert_eq!(reply.verdict(), (200, Some(RESULT)));
    assert!(!reply.text().contains("related-task"), "{reply:?}");
    server.on("tools/call", |seen| {
        Answer::result(seen, &format!(r#"{{"content":[],"_meta":{{"a":1,{RELATED},"b":2}}}}"#))
    });
    let reply = gateway.send(call("s_t", "{}")).await;
    assert!(!reply.text().contains("related-task"), "{reply:?}");
    assert_eq!((&reply.result()["_meta"]["a"], &reply.result()["_meta"]["b"]), (&json!(1), &json!(2)));
}

/// Covers: R-64, G-80: a tool that runs as a task of 2025-11-25 only is not shown; the others are plain tools.
#[tokio::test(flavor = "multi_thread")]
async fn r_64_tools_that_run_as_tasks() {
    let tool = |name: &str, support: &str| {
        format!(
            r#"{{"name":"{name}","execution":{{"taskSupport":"{support}"}},"inputSchema":{{"type":"object"}}}}"#
        )
    };
    let tools = [tool("a", "optional"), tool("b", "required"), tool("c", "forbidden")];
    let server = Server::legacy("s", Offer::defined(&tools.each_ref().map(String::as_str))).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let list = gateway.send(mcp("tools/list", "{}")).await;
    let tools = list.result()["tools"].clone();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["s_a", "s_c"]);
    assert!(!list.text().contains("execution"), "{list:?}");
    assert_eq!(gateway.send(call("s_b", "{}")).await.code(), Some(-32602));
}
