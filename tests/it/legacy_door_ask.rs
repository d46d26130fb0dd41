//! Servers that ask legacy clients: real requests on the stream of the call, answers by POST, what cannot be asked is
//! not, what is not answered ends as it should (R-50..R-58).

use serde_json::{Value, json};

use crate::support::client::Answer as Events;
use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::legacy::{Session, event};
use crate::support::server::{Offer, Server};
use crate::support::table::{INVALID, RESULT};

const ALL: &str =
    r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}"#;
const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"string","title":"N"}},"z":1.0}"#;

fn offer() -> Offer {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"t"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"s://t","name":"t"}"#.to_owned()];
    offer
}

async fn asking(questions: &'static str) -> (Server, Gateway) {
    let server = Server::modern("s", offer()).await;
    for method in ["tools/call", "prompts/get", "resources/read"] {
        server.on(method, move |seen| ask_once(seen, questions));
    }
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// Asks, then gives back what it was told.
fn ask_once(seen: &Seen, questions: &str) -> Answer {
    match seen.raw(&["params", "inputResponses"]) {
        None => Answer::result(
            seen,
            &format!(
                "{{\"resultType\":\"input_required\",\"inputRequests\":{questions},\"requestState\":\"native\"}}"
            ),
        ),
        Some(told) => {
            assert_eq!(seen.raw(&["params", "requestState"]).as_deref(), Some("\"native\""));
            let text = json::quoted(&told);
            Answer::result(
                seen,
                &format!(
                    "{{\"resultType\":\"complete\",\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"messages\":[],\"contents\":[{{\"uri\":\"s://t\",\"text\":{text}}}]}}"
                ),
            )
        }
    }
}

/// The next request of the gateway's on a stream.
async fn question(events: &mut Events) -> Value {
    let (_, message) = event(events).await.expect("a question");
    assert!(message["id"].is_string() && message["method"].is_string(), "{message}");
    message
}

async fn answered(gateway: &Gateway, session: &Session, question: &Value, result: Value) {
    let reply = gateway.send(session.answer(question, &result)).await;
    assert_eq!(reply.verdict(), (202, None), "R-51");
}

/// The last word on a stream: a result, then the end.
async fn result(events: &mut Events) -> Value {
    let (_, message) = event(events).await.expect("a last word");
    assert_eq!(event(events).await, None, "G-38");
    message["result"].clone()
}

const FORM: &str = r#"{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"n":{"type":"string","title":"N"}},"z":1.0}}}}"#;

/// Covers: R-50, R-51, R-52, R-20, R-21, R-55: a form, for each method that may ask, as the revision has it; the server gets
/// the answer and its own state back.
#[tokio::test(flavor = "multi_thread")]
async fn r_50_a_form_is_asked_on_the_stream_of_the_call() {
    let (server, gateway) = asking(FORM).await;
    for version in ["2025-06-18", "2025-11-25"] {
        let session = Session::open(&gateway, version, ALL).await;
        for (method, params) in [
            ("tools/call", r#"{"name":"s_t","arguments":{"a":1.0}}"#),
            ("prompts/get", r#"{"name":"s_t"}"#),
            ("resources/read", r#"{"uri":"s://t"}"#),
        ] {
            let mut events = session.stream(&gateway, session.request("\"c\"", method, params)).await;
            let asked = question(&mut events).await;
            assert_eq!(asked["method"], "elicitation/create");
            assert_eq!(asked["params"]["message"], "Who?");
            assert_eq!(asked["params"]["requestedSchema"], json::value(SCHEMA));
            let mode = if version == "2025-06-18" { Value::Null } else { json!("form") };
            assert_eq!(asked["params"]["mode"], mode, "R-55");
            answered(&gateway, &session, &asked, json!({"action": "accept", "content": {"n": "Ada"}})).await;
            let result = result(&mut events).await;
            let told = json!({"who": {"action": "accept", "content": {"n": "Ada"}}});
            let texts = [&result["content"][0]["text"], &result["contents"][0]["text"]];
            let text = texts.into_iter().find_map(Value::as_str).unwrap();
            assert_eq!(json::value(text), told, "{method}");
            assert_eq!((&result["resultType"], &result["requestState"]), (&Value::Null, &Value::Null));
            let seen = server.requests(method);
            let [.., first, retry] = &seen[..] else { panic!("two requests") };
            assert_ne!(first.id(), retry.id(), "R-21");
            assert_eq!(first.raw(&["params", "arguments"]), retry.raw(&["params", "arguments"]));
        }
    }
    let declared = server.last_call().raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]);
    assert_eq!(
        json::value(&declared.unwrap()),
        json!({"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {"tools": {}}})
    );
    gateway.stop().await;
}

/// Covers: R-50, R-03, R-58: several at once and of every kind, answered in any order, each to its own question.
#[tokio::test(flavor = "multi_thread")]
async fn r_50_all_kinds_at_once() {
    let (_server, gateway) = asking(
        r#"{"f":{"method":"elicitation/create","params":{"message":"F","requestedSchema":{"type":"object"}}},
            "u":{"method":"elicitation/create","params":{"mode":"url","message":"U","url":"https://x.example/"}},
            "s":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1.0}},
            "r":{"method":"roots/list"}}"#,
    )
    .await;
    let session = Session::open(&gateway, "2025-11-25", ALL).await;
    let mut events = session.stream(&gateway, session.call("1", "s_t", "{}")).await;
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(question(&mut events).await);
    }
    let ids: std::collections::BTreeSet<&str> =
        asked.iter().map(|asked| asked["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 4, "R-50: unique in the session");
    let of = |method: &str, key: &str| {
        let fits =
            |asked: &&Value| asked["method"] == method && (key.is_empty() || !asked["params"][key].is_null());
        asked.iter().find(fits).unwrap_or_else(|| panic!("{method} {key} in {asked:?}"))
    };
    let url = of("elicitation/create", "url");
    assert!(url["params"]["elicitationId"].is_string(), "R-55: {url}");
    assert_eq!(of("roots/list", "").get("params"), None);
    for (asked, result) in [
        (of("roots/list", ""), json!({"roots": [{"uri": "file:///x"}]})),
        (url, json!({"action": "accept"})),
        (
            of("sampling/createMessage", ""),
            json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}),
        ),
        (of("elicitation/create", "requestedSchema"), json!({"action": "decline"})),
    ] {
        answered(&gateway, &session, asked, result).await;
        // Answered twice: nobody waits for it any more.
        answered(&gateway, &session, asked, json!({"action": "accept", "content": {"late": true}})).await;
    }
    let result = result(&mut events).await;
    let told = json::value(result["content"][0]["text"].as_str().unwrap());
    assert_eq!(told["r"]["roots"][0]["uri"], "file:///x");
    assert_eq!(told["u"], json!({"action": "accept"}));
    assert_eq!(told["s"]["model"], "m");
    assert_eq!(told["f"], json!({"action": "decline"}));
    gateway.stop().await;
}

/// Covers: R-53, R-23: an error in place of an answer: a cancelled form goes on, anything else is given up, in the words of
/// the method.
#[tokio::test(flavor = "multi_thread")]
async fn r_53_a_client_that_answers_with_an_error() {
    let (server, gateway) = asking(FORM).await;
    let session = Session::open(&gateway, "2025-06-18", ALL).await;
    let mut events = session.stream(&gateway, session.call("1", "s_t", "{}")).await;
    let asked = question(&mut events).await;
    assert_eq!(gateway.send(session.refusal(&asked)).await.verdict(), (202, None));
    let told = result(&mut events).await["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(json::value(&told), json!({"who": {"action": "cancel"}}));

    for method in ["tools/call", "prompts/get"] {
        server.on(method, |seen| {
            ask_once(seen, r#"{"s":{"method":"sampling/createMessage","params":{"messages":[]}}}"#)
        });
    }
    let before = server.requests("tools/call").len();
    let mut events = session.stream(&gateway, session.call("1", "s_t", "{}")).await;
    let asked = question(&mut events).await;
    gateway.send(session.refusal(&asked)).await;
    let given_up = result(&mut events).await;
    assert_eq!(given_up["isError"], true, "{given_up}");
    assert_eq!(server.requests("tools/call").len(), before + 1, "no retry without an answer");
    let mut events = session.stream(&gateway, session.request("2", "prompts/get", r#"{"name":"s_t"}"#)).await;
    let asked = question(&mut events).await;
    gateway.send(session.refusal(&asked)).await;
    assert_eq!(event(&mut events).await.unwrap().1["error"]["code"], -32603);
    gateway.stop().await;
}

/// Covers: R-54, R-57, R-04, M-33: what a client did not declare, or cannot be asked for want of events, is declared to no
/// server; one that asks all the same, or says that it cannot go on, ends in words of the client's era.
#[tokio::test(flavor = "multi_thread")]
async fn r_54_what_was_not_declared_is_not_asked() {
    let (server, gateway) = asking(FORM).await;
    let declared = |server: &Server| {
        server.last_call().raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]).unwrap()
    };
    let none = Session::open(&gateway, "2025-11-25", r#"{"sampling":{}}"#).await;
    let old = Session::open(&gateway, "2025-03-26", ALL).await;
    let mute = Session::open(&gateway, "2025-11-25", ALL).await;
    for (session, accept, expected) in [
        (&none, "application/json, text/event-stream", r#"{"sampling":{}}"#),
        (&old, "application/json, text/event-stream", r#"{"roots":{},"sampling":{}}"#),
        (&mute, "application/json", "{}"),
    ] {
        let reply = gateway.send(session.call("1", "s_t", "{}").set("Accept", accept)).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
        assert_eq!(reply.result()["isError"], true);
        assert_eq!(declared(&server), expected);
    }
    for method in ["tools/call", "prompts/get"] {
        server.on(method, |seen| {
            let data = r#"{"requiredCapabilities":{"elicitation":{}}}"#;
            Answer::new(400, "application/json", seen.error(-32021, "Elicitation is required", Some(data)))
        });
    }
    let reply = gateway.send(none.call("1", "s_t", "{}")).await;
    assert_eq!((reply.verdict(), &reply.result()["isError"]), ((200, Some(RESULT)), &json!(true)));
    assert!(reply.result()["content"][0]["text"].as_str().unwrap().contains("Elicitation is required"));
    let reply = gateway.send(none.request("1", "prompts/get", r#"{"name":"s_t"}"#)).await;
    assert_eq!((reply.verdict(), reply.message()["error"].get("data")), ((200, Some(-32603)), None));
    gateway.stop().await;
}

/// Covers: R-52: round after round, a state alone in between; not for ever.
#[tokio::test(flavor = "multi_thread")]
async fn r_52_rounds_are_bounded() {
    let (server, gateway) = asking(FORM).await;
    server.on("tools/call", |seen| {
        let round: u32 = seen
            .raw(&["params", "requestState"])
            .map_or(0, |raw| json::value(&raw).as_str().unwrap().parse().unwrap());
        let state = format!("\"requestState\":\"{}\"", round + 1);
        match (round, seen.raw(&["params", "arguments"]).as_deref()) {
            (4, Some("{\"few\":true}")) => {
                Answer::result(seen, r#"{"content":[{"type":"text","text":"at last"}]}"#)
            }
            (round, Some("{\"few\":true}")) if round % 2 == 1 => {
                Answer::result(seen, &format!("{{\"resultType\":\"input_required\",{state}}}"))
            }
            _ => Answer::result(
                seen,
                &format!("{{\"resultType\":\"input_required\",\"inputRequests\":{FORM},{state}}}"),
            ),
        }
    });
    let session = Session::open(&gateway, "2025-11-25", ALL).await;
    let mut events = session.stream(&gateway, session.call("1", "s_t", r#"{"few":true}"#)).await;
    for _ in 0..2 {
        let asked = question(&mut events).await;
        answered(&gateway, &session, &asked, json!({"action": "decline"})).await;
    }
    assert_eq!(result(&mut events).await["content"][0]["text"], "at last");
    assert_eq!(server.requests("tools/call").len(), 5);

    let mut events = session.stream(&gateway, session.call("2", "s_t", "{}")).await;
    for _ in 0..10 {
        let asked = question(&mut events).await;
        answered(&gateway, &session, &asked, json!({"action": "decline"})).await;
    }
    assert_eq!(result(&mut events).await["isError"], true);
    gateway.stop().await;
}

/// Covers: F-043, R-51, R-56: calls of two sessions that ask at once: each is asked on its own stream, and only its own
/// session answers; a client that lost its stream finds the question when it takes it up again.
#[tokio::test(flavor = "multi_thread")]
async fn f_043_a_question_is_its_sessions_own() {
    let (_server, gateway) = asking(FORM).await;
    let one = Session::open(&gateway, "2025-06-18", ALL).await;
    let two = Session::open(&gateway, "2025-06-18", ALL).await;
    let mut events = one.stream(&gateway, one.call("1", "s_t", "{}")).await;
    let mut other = two.stream(&gateway, two.call("1", "s_t", "{}")).await;
    let (place, first) = event(&mut events).await.unwrap();
    let second = question(&mut other).await;
    assert_ne!(first["id"], second["id"]);
    answered(&gateway, &two, &first, json!({"action": "accept", "content": {"n": "stolen"}})).await;
    answered(&gateway, &one, &second, json!({"action": "accept", "content": {"n": "stolen"}})).await;
    answered(&gateway, &two, &second, json!({"action": "accept", "content": {"n": "two"}})).await;
    assert!(result(&mut other).await["content"][0]["text"].as_str().unwrap().contains("two"));
    drop((events, other));
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    answered(&gateway, &one, &first, json!({"action": "accept", "content": {"n": "one"}})).await;
    let mut again = one.stream(&gateway, one.resume(&place)).await;
    assert!(result(&mut again).await["content"][0]["text"].as_str().unwrap().contains("one"));
    gateway.stop().await;
}

/// Covers: G-75, R-52, R-05: a call that waits for its client can be cancelled; what a client brings of rounds by itself is
/// not taken for its answers.
#[tokio::test(flavor = "multi_thread")]
async fn g_75_a_waiting_call_is_cancelled() {
    let (server, gateway) = asking(FORM).await;
    let session = Session::open(&gateway, "2025-11-25", ALL).await;
    let params =
        r#"{"name":"s_t","inputResponses":{"who":{"action":"accept"}},"requestState":"x","task":{"ttl":1}}"#;
    let mut events = session.stream(&gateway, session.request("\"c\"", "tools/call", params)).await;
    let asked = question(&mut events).await;
    let first = server.last_call();
    assert_eq!(json::keys(&first.raw(&["params"]).unwrap()), ["name", "_meta"]);
    let cancel = session.notification("notifications/cancelled", r#"{"requestId":"c"}"#);
    assert_eq!(gateway.send(cancel).await.verdict(), (202, None));
    assert_eq!(event(&mut events).await, None, "no response to what was cancelled");
    answered(&gateway, &session, &asked, json!({"action": "accept", "content": {"n": "late"}})).await;
    assert_eq!(server.requests("tools/call").len(), 1);
    assert_eq!(gateway.send(session.delete()).await.status(), 200);
    let late = gateway.send(session.answer(&asked, &json!({"action": "accept"}))).await;
    assert_eq!(late.verdict(), (404, Some(INVALID)));
    gateway.stop().await;
}

/// A call that waits for its client is a parked call whatever its server speaks, and its body and answer are within
/// `max_buffered` for as long as it does.
#[tokio::test(flavor = "multi_thread")]
async fn r_36_calls_that_wait_are_counted_with_their_bytes() {
    let (server, gateway) = asking(FORM).await;
    let session = Session::open(&gateway, "2025-11-25", ALL).await;
    let body = "x".repeat(100_000);
    let arguments = format!("{{\"a\":\"{body}\"}}");
    let mut first = session.stream(&gateway, session.call("1", "s_t", &arguments)).await;
    let asked = question(&mut first).await;
    assert_eq!(gateway.metric("gatehouse_parked_calls", &[]).await, 1.0);
    assert!(gateway.metric("gatehouse_buffered_bytes", &[]).await >= 100_000.0);
    // Now the server works on the answer: the request as it came and the answer are held.
    let mut held = server.hold("tools/call");
    let content = json!({"action": "accept", "content": {"n": body}});
    answered(&gateway, &session, &asked, content).await;
    let exchange = held.next().await;
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    assert!(gateway.metric("gatehouse_buffered_bytes", &[]).await >= 200_000.0);
    exchange.result(r#"{"resultType":"complete","content":[]}"#);
    result(&mut first).await;
    gateway.metric_becomes("gatehouse_buffered_bytes", &[], 0.0).await;
    gateway.stop().await;
}

/// Where there is no room for what a call would have to keep, it is given up with words.
#[tokio::test(flavor = "multi_thread")]
async fn r_36_no_room_for_an_answer() {
    let server = Server::modern("s", offer()).await;
    server.on("tools/call", |seen| ask_once(seen, FORM));
    let bounds = "max_body = \"64KiB\"\nmax_buffered = \"120KiB\"";
    let gateway = Setup::new().gateway(bounds).http("s", &server.url(), "").start().await;
    let session = Session::open(&gateway, "2025-11-25", ALL).await;
    let arguments = format!("{{\"a\":\"{}\"}}", "x".repeat(50_000));
    let mut events = session.stream(&gateway, session.call("1", "s_t", &arguments)).await;
    let asked = question(&mut events).await;
    let content = json!({"action": "accept", "content": {"n": "y".repeat(50_000)}});
    answered(&gateway, &session, &asked, content).await;
    let told = result(&mut events).await;
    assert_eq!(told["isError"], true, "{told}");
    assert!(told["content"][0]["text"].as_str().unwrap().contains("holds too much data"), "{told}");
    assert_eq!(server.requests("tools/call").len(), 1);
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "max_buffered")]).await, 1.0);
    gateway.metric_becomes("gatehouse_buffered_bytes", &[], 0.0).await;
    gateway.stop().await;
}
