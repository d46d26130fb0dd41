//! Requests that come back with questions: `requestState` sealed for the client, restored for the server, refused when
//! anything about it is wrong: M-10..M-13, R-01, R-02, R-05, R-20..R-29.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::child::demo;
use crate::support::client::Reply;
use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{Mcp, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT};

const QUESTIONS: &str = r#"{"user_name":{"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","n":1.0}}}}"#;
const ANSWERS: &str = r#"{"user_name":{"action":"accept","content":{"name":"x","n":1.0,"n":2}}}"#;
/// A server's own state: nothing that would survive a careless hand.
const NATIVE: &str = "s-1 ä \u{1F600} \"\\/ \u{0} \t =+&%00";

/// Asks until answered; then gives back what it got.
fn asking(seen: &Seen) -> Answer {
    if seen.raw(&["params", "inputResponses"]).is_some() {
        return Answer::result(seen, r#"{"resultType":"complete","content":[],"messages":[],"contents":[]}"#);
    }
    let state = json::quoted(NATIVE);
    Answer::result(
        seen,
        &format!(
            "{{\"resultType\":\"input_required\",\"inputRequests\":{QUESTIONS},\"requestState\":{state}}}"
        ),
    )
}

fn offer() -> Offer {
    let mut offer = Offer::tools(&["t", "u"]);
    offer.prompts = vec![r#"{"name":"t"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"s://t","name":"t"}"#.to_owned()];
    offer
}

const PATHS: &str = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/also\"\n";

async fn gateway_with(keys: &str) -> (Server, Gateway) {
    let server = Server::modern("s", offer()).await;
    for method in ["tools/call", "prompts/get", "resources/read"] {
        server.on(method, asking);
    }
    let gateway = Setup::new().gateway(keys).toml(PATHS).http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// The state of a reply that asks, as JSON text.
fn state(reply: &Reply) -> String {
    let result = reply.result();
    assert_eq!(result["resultType"], "input_required", "{reply:?}");
    json::quoted(result["requestState"].as_str().expect("there is always a state"))
}

/// A retry of a method with these params (without their closing brace) and this state.
fn retry(method: &str, params: &str, state: &str) -> Mcp {
    let open = params.strip_suffix('}').unwrap();
    mcp(method, format!("{open},\"inputResponses\":{ANSWERS},\"requestState\":{state}}}")).id("\"again\"")
}

const T: &str = r#"{"name":"s_t","arguments":{"a":1,"b":{"c":[true,"x"]}}}"#;

/// Covers: R-20..R-28, M-10, L-11: the whole round, for each method that may ask.
#[tokio::test(flavor = "multi_thread")]
async fn r_25_questions_and_answers_pass_the_state_comes_back() {
    let (server, gateway) = gateway_with("").await;
    for (method, params) in
        [("tools/call", T), ("prompts/get", r#"{"name":"s_t"}"#), ("resources/read", r#"{"uri":"s://t"}"#)]
    {
        let first = gateway.send(mcp(method, params).capabilities(r#"{"elicitation":{}}"#)).await;
        let sealed = state(&first);
        let text = first.result_text();
        assert_eq!(json::raw(&text, &["inputRequests"]).as_deref(), Some(QUESTIONS), "{method}");
        assert!(!sealed.contains("s-1"), "sealed: {sealed}");
        for hint in ["ttlMs", "cacheScope"] {
            assert_eq!(json::raw(&text, &[hint]), None, "{method}");
        }
        let asked = server.requests(method).pop().unwrap();
        let last =
            gateway.send(retry(method, params, &sealed).capabilities(r#"{"elicitation":{"url":{}}}"#)).await;
        assert_eq!(last.verdict(), (200, Some(RESULT)), "{method}: {last:?}");
        assert_eq!(
            (&last.message()["id"], &last.result()["resultType"]),
            (&json!("again"), &json!("complete"))
        );
        let answered = server.requests(method).pop().unwrap();
        let got: String = serde_json::from_str(&answered.raw(&["params", "requestState"]).unwrap()).unwrap();
        assert_eq!(got, NATIVE, "{method}");
        assert_eq!(answered.raw(&["params", "inputResponses"]).as_deref(), Some(ANSWERS), "{method}");
        assert_eq!(answered.raw(&["params", "arguments"]), asked.raw(&["params", "arguments"]), "{method}");
        assert_ne!(answered.id(), asked.id(), "R-21");
        let declared = answered.raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]);
        assert_eq!(declared.as_deref(), Some(r#"{"elicitation":{"url":{}}}"#), "the newest");
    }
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &[("outcome", "input_required")]).await, 1.0);
    gateway.stop().await;
}

/// Covers: R-26, R-20: a server without a state of its own gets none back; a state alone is legal (R-02).
#[tokio::test(flavor = "multi_thread")]
async fn r_20_no_state_stays_no_state() {
    let (server, gateway) = gateway_with("").await;
    server.on("tools/call", |seen| match seen.raw(&["params", "inputResponses"]) {
        Some(_) => Answer::result(seen, r#"{"content":[]}"#),
        None => Answer::result(
            seen,
            &format!("{{\"resultType\":\"input_required\",\"inputRequests\":{QUESTIONS}}}"),
        ),
    });
    let sealed = state(&gateway.send(mcp("tools/call", T)).await);
    assert_eq!(gateway.send(retry("tools/call", T, &sealed)).await.verdict(), (200, Some(RESULT)));
    let seen = server.last_call();
    assert_eq!(seen.raw(&["params", "requestState"]), None);
    assert_eq!(json::keys(&seen.raw(&["params"]).unwrap()), ["_meta", "name", "arguments", "inputResponses"]);

    server.on("tools/call", |seen| match seen.raw(&["params", "requestState"]) {
        Some(_) => Answer::result(seen, r#"{"content":[]}"#),
        None => Answer::result(seen, r#"{"requestState":"","resultType":"input_required"}"#),
    });
    let sealed = state(&gateway.send(mcp("tools/call", T)).await);
    let open = T.strip_suffix('}').unwrap();
    let back = mcp("tools/call", format!("{{\"requestState\":{sealed},{}}}", &open[1..]));
    assert_eq!(gateway.send(back).await.verdict(), (200, Some(RESULT)));
    assert_eq!(
        server.last_call().raw(&["params", "requestState"]).as_deref(),
        Some("\"\""),
        "empty is not absent"
    );
    gateway.stop().await;
}

/// Covers: R-05, R-26, R-28; conformance: sep-2322-reject-tampered-state. Always the same answer, nothing goes on.
#[tokio::test(flavor = "multi_thread")]
async fn r_05_a_state_that_does_not_fit_is_refused() {
    let (server, gateway) = gateway_with("").await;
    let sealed = state(&gateway.send(mcp("tools/call", T)).await);
    let asked = server.requests("tools/call").len();
    let bare = sealed.trim_matches('"').to_owned();
    let mut wrong = vec![
        format!("{bare}x"),
        format!("{bare}="),
        format!(" {bare}"),
        format!("x{bare}"),
        bare.to_uppercase(),
        bare.replacen("1.", "2.", 1),
        bare.replacen("1.", "", 1),
        bare[..bare.len() - 1].to_owned(),
        bare[..bare.len() / 2].to_owned(),
        bare.repeat(2),
        String::new(),
        "1.".to_owned(),
        "1.AAAA".to_owned(),
        NATIVE.to_owned(),
    ];
    for at in (2..bare.len()).step_by(7) {
        let mut changed = bare.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        wrong.push(String::from_utf8(changed).unwrap());
    }
    let mut wrong: Vec<String> = wrong.iter().map(|text| json::quoted(text)).collect();
    wrong.extend(["7", "{}", "[]", "true", "null", "\"\\ud800\""].map(str::to_owned));
    let refusal = gateway.send(retry("tools/call", T, "\"x\"")).await;
    assert_eq!(refusal.verdict(), (200, Some(PARAMS)));
    for state in wrong {
        let reply = gateway.send(retry("tools/call", T, &state)).await;
        assert_eq!(reply.message(), refusal.message(), "{state}");
    }
    // Untouched, but for another request.
    let other = [
        ("other arguments", r#"{"name":"s_t","arguments":{"a":2,"b":{"c":[true,"x"]}}}"#),
        ("one more argument", r#"{"name":"s_t","arguments":{"a":1,"b":{"c":[true,"x"]},"d":null}}"#),
        ("no arguments", r#"{"name":"s_t"}"#),
        ("another tool", r#"{"name":"s_u","arguments":{"a":1,"b":{"c":[true,"x"]}}}"#),
    ];
    for (what, params) in other {
        let reply = gateway.send(retry("tools/call", params, &sealed)).await;
        assert_eq!(reply.message(), refusal.message(), "{what}");
    }
    for (method, params) in [("prompts/get", T), ("resources/read", r#"{"uri":"s://t"}"#)] {
        let reply = gateway.send(retry(method, params, &sealed)).await;
        assert_eq!(reply.message(), refusal.message(), "{method}");
    }
    let elsewhere = retry("tools/call", T, &sealed).request().at("/also");
    assert_eq!(gateway.send(elsewhere).await.message(), refusal.message(), "another endpoint");
    assert_eq!(server.requests("tools/call").len(), asked, "nothing reached the server");
    // The same request written otherwise is the same request.
    let rewritten = "{ \"arguments\" : {\"b\":{\"c\":[ true,\"\\u0078\"]}, \"a\":1}, \"name\":\"s\\u005ft\"}";
    let reply = gateway.send(retry("tools/call", rewritten, &sealed).meta("com.example/new", "1")).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    gateway.stop().await;
}

/// Covers: traps of mrtr.md: answers without a state go to a modern server as they came, and to a legacy one not at all.
#[tokio::test(flavor = "multi_thread")]
async fn answers_without_a_state() {
    let (server, gateway) = gateway_with("").await;
    let params = format!("{{\"name\":\"s_t\",\"inputResponses\":{ANSWERS},\"arguments\":{{}}}}");
    assert_eq!(gateway.send(mcp("tools/call", &params)).await.verdict(), (200, Some(RESULT)));
    let seen = server.last_call();
    assert_eq!(seen.raw(&["params", "inputResponses"]).as_deref(), Some(ANSWERS));
    assert_eq!(seen.raw(&["params", "requestState"]), None);
    gateway.stop().await;
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &legacy.url(), "").start().await;
    assert_eq!(gateway.send(mcp("tools/call", &params)).await.verdict(), (200, Some(RESULT)));
    assert_eq!(json::keys(&legacy.last_call().raw(&["params"]).unwrap()), ["_meta", "name", "arguments"]);
    gateway.stop().await;
}

fn key(byte: u8) -> String {
    base64::engine::general_purpose::STANDARD.encode([byte; 32])
}

/// Covers: R-27, design §7: any gateway with the key serves the retry, after a restart and while keys rotate.
#[tokio::test(flavor = "multi_thread")]
async fn r_27_any_replica_with_the_key_serves_the_retry() {
    let keys = |keys: &[u8]| {
        format!("keys = [{}]", keys.iter().map(|k| format!("\"{}\"", key(*k))).collect::<Vec<_>>().join(","))
    };
    let (_one, first) = gateway_with(&keys(&[1])).await;
    let sealed = state(&first.send(mcp("tools/call", T)).await);
    first.stop().await;
    for (held, fits) in [(vec![1], true), (vec![2, 1], true), (vec![2], false), (vec![2, 3], false)] {
        let (_server, next) = gateway_with(&keys(&held)).await;
        let reply = next.send(retry("tools/call", T, &sealed)).await;
        assert_eq!(reply.verdict(), (200, Some(if fits { RESULT } else { PARAMS })), "{held:?}: {reply:?}");
        next.stop().await;
    }
    let (_server, random) = gateway_with("").await;
    assert_eq!(random.send(retry("tools/call", T, &sealed)).await.verdict(), (200, Some(PARAMS)));
    random.stop().await;
}

/// Covers: M-10, M-12, M-13, R-01, R-02, R-27: what no server may answer.
#[tokio::test(flavor = "multi_thread")]
async fn m_12_results_of_no_known_kind_are_faults_of_the_server() {
    let mut offer = offer();
    offer.capabilities = vec!["\"completions\":{}".to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let large = json::quoted(&"x".repeat(65 * 1024));
    let answers = [
        r#"{"resultType":"task","task":{}}"#.to_owned(),
        r#"{"resultType":"INPUT_REQUIRED","requestState":"x"}"#.to_owned(),
        r#"{"resultType":7}"#.to_owned(),
        r#"{"resultType":"input_required"}"#.to_owned(),
        r#"{"resultType":"input_required","requestState":7}"#.to_owned(),
        r#"{"resultType":"complete","resultType":"complete","content":[]}"#.to_owned(),
        r#"{"content":[],"isError":false,"isError":true}"#.to_owned(),
        format!("{{\"resultType\":\"input_required\",\"requestState\":{large}}}"),
        "[]".to_owned(),
        "null".to_owned(),
        "\"x\"".to_owned(),
    ];
    for text in answers {
        let result = text.clone();
        server.on("tools/call", move |seen| Answer::result(seen, &result));
        let reply = gateway.send(call("s_t", "{}")).await;
        let fault =
            reply.code() == Some(-32603) || (reply.code().is_none() && reply.result()["isError"] == true);
        assert!(fault && reply.status() == 200, "{}: {reply:?}", &text[..text.len().min(60)]);
    }
    let ask = |seen: &Seen| Answer::result(seen, r#"{"resultType":"input_required","requestState":"x"}"#);
    server.on("completion/complete", ask);
    let params = r#"{"ref":{"type":"ref/prompt","name":"s_t"},"argument":{"name":"a","value":""}}"#;
    assert_eq!(gateway.send(mcp("completion/complete", params)).await.verdict(), (200, Some(-32603)));
    server.on("tools/call", |seen| Answer::result(seen, r#"{"content":[]}"#));
    assert_eq!(
        gateway.send(call("s_t", "{}")).await.result()["resultType"],
        "complete",
        "M-11: absent means complete"
    );
    gateway.stop().await;
}

/// The round with a server that seals its own state as well, over HTTP semantics and stdio. Covers: R-04, R-08, R-22.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_asks_twice_and_is_answered() {
    let gateway = Setup::new().stdio("d", &demo(&["--era", "modern"]), "").start().await;
    let able = r#"{"elicitation":{}}"#;
    let params = r#"{"name":"d_ask","arguments":{"greeting":"Ahoy"}}"#;
    let with = |answers: &str, state: &str| {
        let open = params.strip_suffix('}').unwrap();
        mcp("tools/call", format!("{open},\"inputResponses\":{answers},\"requestState\":{state}}}"))
            .capabilities(able)
    };
    let first = state(&gateway.send(mcp("tools/call", params).capabilities(able)).await);
    let second = state(&gateway.send(with("{}", &first)).await);
    let answer = r#"{"name":{"action":"accept","content":{"name":"Ada"}}}"#;
    for sealed in [&second, &first] {
        let reply = gateway.send(with(answer, sealed)).await;
        assert_eq!(reply.result()["content"][0]["text"], Value::from("Ahoy, Ada!"), "{reply:?}");
    }
    gateway.stop().await;
}
