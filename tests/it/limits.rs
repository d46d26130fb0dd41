//! `[[limit]]`: how often callers may ask, what they are told, and what counts as one call: design §3, §6.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::cast::{ask, by, caller};
use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::inside::{Inside, later};
use crate::support::json;
use crate::support::legacy::Session;
use crate::support::measure::measured;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

const RETRY: &str = "dev.gatehouse/retryAfterMs";

/// Says so in the result of a call: the seconds in words, in milliseconds, and in the header.
fn limited(reply: &Reply, most: u64) {
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    let result = reply.result();
    assert_eq!((&result["isError"], &result["resultType"]), (&true.into(), &"complete".into()), "{reply:?}");
    told(reply, result["content"][0]["text"].as_str().unwrap(), &result["_meta"][RETRY], most);
}

/// The same in an error, of whatever is no call.
fn refused(reply: &Reply, most: u64) {
    assert_eq!(reply.verdict(), (200, Some(-32603)), "{reply:?}");
    let error = &reply.message()["error"];
    told(reply, error["message"].as_str().unwrap(), &error["data"][RETRY], most);
}

fn told(reply: &Reply, text: &str, millis: &Value, most: u64) {
    let seconds: u64 = reply.header("Retry-After").expect("a header").parse().unwrap();
    assert!((1..=most).contains(&seconds), "{seconds}");
    assert!(text.contains("\"s\"") && text.contains(&format!("{seconds} s")), "{text}");
    let millis = millis.as_u64().unwrap();
    assert!((seconds - 1) * 1000 < millis && millis <= seconds * 1000, "{millis} ms are not {seconds} s");
}

fn passed(reply: &Reply) {
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    assert_ne!(reply.result()["isError"], true, "{reply:?}");
}

fn offer() -> Offer {
    let mut offer = Offer::tools(&["t", "u"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"s://r","name":"r"}"#.to_owned()];
    offer.capabilities = vec!["\"completions\":{}".to_owned()];
    offer
}

async fn server() -> Server {
    let server = Server::modern("s", offer()).await;
    server.on("prompts/get", |seen| Answer::result(seen, r#"{"messages":[]}"#));
    server.on("resources/read", |seen| Answer::result(seen, r#"{"contents":[]}"#));
    server.on("completion/complete", |seen| Answer::result(seen, r#"{"completion":{"values":[]}}"#));
    server
}

async fn gateway(server: &Server, limits: &str) -> Gateway {
    Setup::new().toml(limits).http("s", &server.url(), "").start().await
}

/// Covers: design §6: 200 with `isError` and the seconds, in header and `_meta`; its own outcome; counted by limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_too_many_says_when_to_come_again() {
    let server = server().await;
    let gateway = gateway(&server, "[[limit]]\nper = [\"tool\"]\nrate = \"2/h\"\nburst = 2").await;
    passed(&gateway.send(call("s_t", "{}")).await);
    passed(&gateway.send(call("s_t", "{}")).await);
    limited(&gateway.send(call("s_t", "{}").id("\"x\"")).await, 1800);
    passed(&gateway.send(call("s_u", "{}")).await);
    assert_eq!(server.requests("tools/call").len(), 3, "it did not get there");
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "2/h per tool")]).await, 1.0);
    let outcome = [("tool", "s_t"), ("outcome", "limited")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &outcome).await, 1.0);
    gateway.stop().await;
}

/// Covers: design §6: -32603 for other methods; discover and lists are answered always.
#[tokio::test(flavor = "multi_thread")]
async fn other_methods_count_and_what_clients_need_first_does_not() {
    let server = server().await;
    let gateway = gateway(&server, "[[limit]]\nrate = \"1/h\"").await;
    passed(&gateway.send(mcp("prompts/get", "{\"name\":\"s_p\"}")).await);
    for (method, params) in [
        ("prompts/get", r#"{"name":"s_p"}"#),
        ("resources/read", r#"{"uri":"s://r"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"s_p"},"argument":{"name":"a","value":""}}"#,
        ),
    ] {
        refused(&gateway.send(mcp(method, params)).await, 3600);
    }
    limited(&gateway.send(call("s_t", "{}")).await, 3600);
    for method in ["server/discover", "tools/list", "prompts/list", "resources/list"] {
        passed(&gateway.send(mcp(method, "{}")).await);
    }
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    assert!(!session.tools(&gateway).await.is_empty());
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "1/h")]).await, 4.0);
    gateway.stop().await;
}

/// What grants refuse has no count, and a caller's name is all that tells callers apart.
#[tokio::test(flavor = "multi_thread")]
async fn callers_are_counted_apart_after_their_grants() {
    let server = server().await;
    let limits = "[[grant]]\nto = { team = \"a\" }\nservers = [\"*\"]\ntools = [\"t\"]\n\
                  [[limit]]\nper = [\"subject\"]\nrate = \"1/h\"\n";
    let callers = caller("ada", "team = \"a\"") + &caller("bob", "team = \"a\"");
    let setup = Setup::new().gateway("public_url = \"https://mcp.example.test\"\nallowed_hosts = [\"*\"]");
    let gateway = setup.toml("[auth]").toml(&callers).toml(limits).http("s", &server.url(), "").start().await;
    for _ in 0..3 {
        let hidden = ask(&gateway, "ada", call("s_u", "{}")).await;
        assert_eq!(hidden.code(), Some(-32602), "{hidden:?}");
    }
    for name in ["ada", "bob"] {
        passed(&ask(&gateway, name, call("s_t", "{}")).await);
        limited(&ask(&gateway, name, call("s_t", "{}")).await, 3600);
    }
    gateway.stop().await;
}

/// Covers: F-082: what counts is what the body says; a header that says another tool is no way around.
#[tokio::test(flavor = "multi_thread")]
async fn f_082_the_body_decides_what_counts() {
    let server = server().await;
    let gateway = gateway(&server, "[[limit]]\ntools = [\"t\"]\nrate = \"1/h\"").await;
    let cheap = call("s_t", "{}").request().set("Mcp-Name", "s_u");
    assert_eq!(gateway.send(cheap).await.verdict(), (400, Some(-32020)));
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let named = |id: &str| session.call(id, "s_t", "{}").set("Mcp-Name", "s_u");
    passed(&gateway.send(named("1")).await);
    assert_eq!(gateway.send(named("2")).await.result()["isError"], true);
    limited(&gateway.send(call("s_t", "{}")).await, 3600);
    gateway.stop().await;
}

/// Inside `call_tool` it is the tool that counts, and what is said is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_inside_call_tool_counts_as_its_tool() {
    let server = server().await;
    let limits = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/found\"\ndiscovery = \"search\"\n\
                  [[limit]]\ntools = [\"t\"]\nrate = \"1/h\"";
    let gateway = gateway(&server, limits).await;
    let found = |name: &str| {
        let inner = format!("{{\"name\":\"{name}\",\"arguments\":{{}}}}");
        call("call_tool", inner).request().at("/found")
    };
    passed(&gateway.send(call("s_t", "{}")).await);
    limited(&gateway.send(found("s_t")).await, 3600);
    passed(&gateway.send(found("s_u")).await);
    gateway.stop().await;
}

/// Clients of the older revisions are told the same, in their words.
#[tokio::test(flavor = "multi_thread")]
async fn legacy_clients_are_told_too() {
    let server = server().await;
    let gateway = gateway(&server, "[[limit]]\nrate = \"1/h\"").await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    passed(&gateway.send(session.call("1", "s_t", "{}")).await);
    let reply = gateway.send(session.call("2", "s_t", "{}")).await;
    let result = reply.result();
    assert_eq!((&result["isError"], result.get("resultType")), (&true.into(), None), "{reply:?}");
    told(&reply, result["content"][0]["text"].as_str().unwrap(), &result["_meta"][RETRY], 3600);
    refused(&session.ask(&gateway, "prompts/get", r#"{"name":"s_p"}"#).await, 3600);
    gateway.stop().await;
}

/// All rounds of a call are one call, and a state that comes again is another: it is no way around the limit.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_a_call_are_one_call() {
    const QUESTIONS: &str = r#"{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}"#;
    let server = server().await;
    server.on("tools/call", |seen| match seen.raw(&["params", "inputResponses"]) {
        Some(_) => Answer::result(seen, r#"{"resultType":"complete","content":[]}"#),
        None => Answer::result(
            seen,
            &format!(
                "{{\"resultType\":\"input_required\",\"inputRequests\":{QUESTIONS},\"requestState\":\"s\"}}"
            ),
        ),
    });
    let gateway = gateway(&server, "[[limit]]\nrate = \"1/h\"").await;
    let asking = |params: &str| mcp("tools/call", params).capabilities(r#"{"elicitation":{}}"#);
    let first = gateway.send(asking(r#"{"name":"s_t","arguments":{}}"#)).await;
    let state = json::quoted(first.result()["requestState"].as_str().expect("a state"));
    let again = format!(
        r#"{{"name":"s_t","arguments":{{}},"inputResponses":{{"k":{{"action":"decline"}}}},"requestState":{state}}}"#
    );
    passed(&gateway.send(asking(&again)).await);
    for _ in 0..3 {
        limited(&gateway.send(asking(&again)).await, 3600);
    }
    assert_eq!(server.requests("tools/call").len(), 2);
    // A state that is none is refused as such, and opens nothing.
    let forged = again.replace(&state, "\"forged\"");
    assert_eq!(gateway.send(asking(&forged)).await.code(), Some(-32602));
    gateway.stop().await;
}

/// The user's word costs nothing; the call after it counts, each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_call_counts_when_it_is_made() {
    let server = server().await;
    let gateway = Setup::new()
        .toml("[[limit]]\nrate = \"1/h\"")
        .http("s", &server.url(), "tools.confirm = [\"t\"]")
        .start()
        .await;
    let asking = |params: &str| mcp("tools/call", params).capabilities(r#"{"elicitation":{}}"#);
    let mut states = Vec::new();
    for _ in 0..3 {
        let asked = gateway.send(asking(r#"{"name":"s_t","arguments":{}}"#)).await;
        assert_eq!(asked.result()["resultType"], "input_required", "{asked:?}");
        states.push(json::quoted(asked.result()["requestState"].as_str().unwrap()));
    }
    let yes = |state: &str| {
        asking(&format!(
            r#"{{"name":"s_t","arguments":{{}},"inputResponses":{{"dev.gatehouse/confirm":{{"action":"accept","content":{{}}}}}},"requestState":{state}}}"#
        ))
    };
    passed(&gateway.send(yes(&states[0])).await);
    limited(&gateway.send(yes(&states[0])).await, 3600);
    limited(&gateway.send(yes(&states[1])).await, 3600);
    gateway.stop().await;
}

/// What polls a task is no call of its tool, and what cancels one is never refused.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_polled_beside_the_limits_of_their_tool() {
    const TASKS: &str = "io.modelcontextprotocol/tasks";
    let capabilities = vec![format!("\"extensions\":{{\"{TASKS}\":{{}}}}")];
    let server = Server::modern("s", Offer { capabilities, ..Offer::tools(&["t"]) }).await;
    let task = |kind: &str| {
        format!(
            r#"{{"resultType":"{kind}","taskId":"n","status":"working","createdAt":"2026-07-28T00:00:00Z","ttlMs":60000}}"#
        )
    };
    server.on("tools/call", move |seen| Answer::result(seen, &task("task")));
    server.on("tasks/get", move |seen| Answer::result(seen, &task("complete")));
    server.on("tasks/cancel", |seen| Answer::result(seen, r#"{"resultType":"complete"}"#));
    let of_tool = "[[limit]]\ntools = [\"t\"]\nrate = \"1/h\"\n[[limit]]\nrate = \"4/d\"";
    let gateway = gateway(&server, of_tool).await;
    let declared = format!("{{\"extensions\":{{\"{TASKS}\":{{}}}}}}");
    let begun = gateway.send(call("s_t", "{}").capabilities(&declared)).await;
    let id = json::quoted(begun.result()["taskId"].as_str().unwrap_or_else(|| panic!("{begun:?}")));
    let about = |method: &str| mcp(method, format!("{{\"taskId\":{id}}}")).capabilities(&declared);
    for _ in 0..3 {
        passed(&gateway.send(about("tasks/get")).await);
    }
    refused(&gateway.send(about("tasks/get")).await, 24 * 3600);
    passed(&gateway.send(about("tasks/cancel")).await);
    limited(&gateway.send(call("s_t", "{}").capabilities(&declared)).await, 24 * 3600);
    gateway.stop().await;
}

/// The promise, through the whole gateway: 60/min with burst 1 at 50 times the load, for five minutes of its clock. Never
/// more than that, and who asks a second after the last call that passed passes: so what is lost of the rate is only the
/// time until the next attempt. What another caller waits beside it is printed.
#[tokio::test]
async fn a_rate_holds_through_the_whole_gateway() {
    const SECOND: Duration = Duration::from_secs(1);
    let server = server().await;
    let callers = caller("greedy", "") + &caller("modest", "");
    let setup = Setup::new().gateway("public_url = \"https://mcp.example.test\"\nallowed_hosts = [\"*\"]");
    let limit = "[[limit]]\nper = [\"subject\"]\nrate = \"60/min\"\nburst = 1";
    let setup = setup.toml("[auth]").toml(&callers).toml(limit).http("s", &server.url(), "");
    let gateway = Inside::start(setup).await;
    let (mut greedy, mut modest) = (gateway.connect().await, gateway.connect().await);
    let now = tokio::time::Instant::now;
    let begin = now();
    let (mut through, mut last) = (0_u32, None);
    let mut waited = Vec::new();
    for turn in 0..300 * 50_u32 {
        let asked = now();
        let reply = greedy.send(by("greedy", call("s_t", "{}"))).await;
        if reply.result()["isError"] == true {
            assert!(last.is_some_and(|last| asked < last + SECOND), "turn {turn}: {reply:?}");
        } else {
            through += 1;
            last = Some(now());
        }
        // Every other second, so that it keeps to the limit whatever these calls take.
        if turn % 100 == 7 {
            let began = Instant::now();
            let reply = modest.send(by("modest", call("s_t", "{}"))).await;
            waited.push(began.elapsed());
            passed(&reply);
        }
        let next = begin + Duration::from_millis(20) * (turn + 1);
        later(next.saturating_duration_since(now())).await;
    }
    let due = begin.elapsed().as_secs_f64();
    waited.sort_unstable();
    measured("calls that passed at 60/min, asked at 50 times that for so many seconds", (through, due));
    measured("what another caller waits beside it, p50 and p99", (waited[75], waited[148]));
    assert!(f64::from(through) <= due * 1.02, "{through} in {due} s");
    let limited = gateway.metric("gatehouse_limited_total{limit=\"60/min per subject\"}").await;
    assert_eq!(limited, f64::from(15_000 - through));
    gateway.stop().await;
}
