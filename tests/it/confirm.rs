//! `tools.confirm` and `tools.deny_arguments`: the user's word before a call, and no secrets in arguments.

use serde_json::json;

use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json as raw;
use crate::support::request::{Mcp, call, mcp};
use crate::support::server::{Offer, Server};

const CONFIRM: &str = "tools.confirm = [\"delete_*\"]";
const ASKS: &str = r#"{"elicitation":{"form":{}}}"#;
const DELETE: &str = r#"{"name":"s_delete_repo","arguments":{"repo":"a/b","apiToken":"hush","n":1.0}}"#;

async fn gateway(more: &str) -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["delete_repo", "delete_all", "list"])).await;
    let gateway = Setup::new()
        .toml("[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/found\"\ndiscovery = \"search\"\n")
        .http("s", &server.url(), more)
        .start()
        .await;
    (server, gateway)
}

fn asking(params: &str) -> Mcp {
    mcp("tools/call", params).capabilities(ASKS)
}

fn state(reply: &Reply) -> String {
    let result = reply.result();
    assert_eq!(result["resultType"], "input_required", "{reply:?}");
    raw::quoted(result["requestState"].as_str().expect("a state"))
}

fn answered(params: &str, action: &str, state: &str) -> Mcp {
    let open = params.strip_suffix('}').unwrap();
    let answers = format!("{{\"dev.gatehouse/confirm\":{{\"action\":\"{action}\",\"content\":{{}}}}}}");
    asking(&format!("{open},\"inputResponses\":{answers},\"requestState\":{state}}}"))
}

fn text(reply: &Reply) -> String {
    reply.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_is_asked_before_the_call() {
    let (server, gateway) = gateway(CONFIRM).await;
    let first = gateway.send(asking(DELETE)).await;
    let sealed = state(&first);
    let question = first.result()["inputRequests"]["dev.gatehouse/confirm"].clone();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["mode"], "form");
    assert_eq!(question["params"]["requestedSchema"], json!({"type": "object", "properties": {}}));
    let asked = question["params"]["message"].as_str().unwrap();
    assert_eq!(asked, "Call the tool \"delete_repo\" of the server \"s\"?\nrepo: a/b\napiToken: •••\nn: 1.0");
    assert_eq!(server.requests("tools/call").len(), 0);
    for refusal in ["decline", "cancel"] {
        let reply = gateway.send(answered(DELETE, refusal, &sealed)).await;
        assert_eq!(reply.result()["isError"], true, "{reply:?}");
        assert!(text(&reply).contains("did not confirm"), "{reply:?}");
    }
    assert_eq!(server.requests("tools/call").len(), 0);
    let reply = gateway.send(answered(DELETE, "accept", &sealed)).await;
    assert_eq!(text(&reply), "s:delete_repo");
    let seen = server.last_call();
    let params = seen.raw(&["params"]).unwrap();
    assert!(!params.contains("requestState") && !params.contains("inputResponses"), "{params}");
    assert_eq!(seen.raw(&["params", "arguments"]), raw::raw(DELETE, &["arguments"]));
    // The answer is for this call only, and of this gateway's own making.
    let other = DELETE.replace("a/b", "a/c");
    for (params, token) in [
        (other.as_str(), sealed.as_str()),
        (&DELETE.replace("delete_repo", "delete_all"), &sealed),
        (DELETE, "\"forged\""),
        (DELETE, "null"),
    ] {
        assert_eq!(
            gateway.send(answered(params, "accept", token)).await.verdict(),
            (200, Some(-32602)),
            "{params} {token}"
        );
    }
    // An answer to nothing, and a state without an answer, are asked for again.
    state(&gateway.send(asking(&DELETE.replace("}}", "},\"inputResponses\":{}}"))).await);
    state(&gateway.send(asking(&DELETE.replace("}}", &format!("}},\"requestState\":{sealed}}}")))).await);
    assert_eq!(server.requests("tools/call").len(), 1);
    // Nobody is asked about the others.
    assert_eq!(text(&gateway.send(call("s_list", "{}")).await), "s:list");
    let labels = [("server", "s"), ("tool", "s_delete_repo"), ("outcome", "denied")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 2.0);
    gateway.stop().await;
}

/// Covers: M-35: who takes no questions is told what is needed.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_ask_is_told() {
    let (server, gateway) = gateway(CONFIRM).await;
    for capabilities in ["{}", r#"{"elicitation":{"url":{}}}"#, r#"{"sampling":{}}"#] {
        let reply = gateway.send(mcp("tools/call", DELETE).capabilities(capabilities)).await;
        assert_eq!(reply.code(), Some(-32021), "{reply:?}");
        let error = reply.message()["error"].clone();
        assert_eq!(error["data"], json!({"requiredCapabilities": {"elicitation": {"form": {}}}}));
    }
    assert_eq!(server.requests("tools/call").len(), 0);
    gateway.stop().await;
}

/// A server's own questions come after the user's word, which is asked for once.
#[tokio::test(flavor = "multi_thread")]
async fn a_servers_own_rounds_follow() {
    let (server, gateway) = gateway(CONFIRM).await;
    server.on("tools/call", |seen| {
        if seen.raw(&["params", "inputResponses"]).is_some() {
            return Answer::result(seen, r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#);
        }
        let asks = r#"{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}"#;
        Answer::result(seen, &format!("{{\"resultType\":\"input_required\",\"inputRequests\":{asks},\"requestState\":\"mine\"}}"))
    });
    let first = gateway.send(asking(DELETE)).await;
    let second = gateway.send(answered(DELETE, "accept", &state(&first))).await;
    assert!(second.result()["inputRequests"]["q"].is_object(), "{second:?}");
    let open = DELETE.strip_suffix('}').unwrap();
    let token = state(&second);
    let third = format!(
        "{open},\"inputResponses\":{{\"q\":{{\"action\":\"accept\",\"content\":{{}}}}}},\"requestState\":{token}}}"
    );
    assert_eq!(text(&gateway.send(asking(&third)).await), "done");
    assert_eq!(server.last_call().raw(&["params", "requestState"]).as_deref(), Some("\"mine\""));
    gateway.stop().await;
}

/// The same through `call_tool`.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_inside_is_confirmed_as_well() {
    let (server, gateway) = gateway(CONFIRM).await;
    let inside = format!("{{\"name\":\"call_tool\",\"arguments\":{DELETE}}}");
    let first = gateway.send(asking(&inside).request().at("/found")).await;
    let sealed = state(&first);
    assert!(first.text().contains("of the server"), "{first:?}");
    let reply = gateway.send(answered(&inside, "accept", &sealed).request().at("/found")).await;
    assert_eq!(text(&reply), "s:delete_repo");
    assert_eq!(server.last_call().raw(&["params", "arguments"]), raw::raw(DELETE, &["arguments"]));
    // A state is for its endpoint.
    assert_eq!(gateway.send(answered(DELETE, "accept", &sealed)).await.code(), Some(-32602));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_arguments_stop_a_call() {
    let (server, gateway) = gateway("tools.deny_arguments = [\"secrets\"]").await;
    let token = format!("ghp_{}", "aB3dE5".repeat(6));
    for (arguments, place) in [
        (format!("{{\"a\":\"{token}\"}}"), "a"),
        (format!("{{\"q\":\"x\",\"list\":[1,{{\"deep\":\"with {token} inside\"}}]}}"), "list[1].deep"),
        (format!("{{\"a\":\"\\u0067{}\"}}", &token[1..]), "a"),
    ] {
        let reply = gateway.send(call("s_list", arguments)).await;
        assert_eq!(reply.result()["isError"], true, "{reply:?}");
        assert!(
            text(&reply).contains(&format!("`{place}`")) && !reply.text().contains("aB3dE5"),
            "{reply:?}"
        );
    }
    assert_eq!(server.requests("tools/call").len(), 0);
    assert_eq!(text(&gateway.send(call("s_list", r#"{"a":"ghp_ is a prefix"}"#)).await), "s:list");
    let labels = [("server", "s"), ("tool", "s_list"), ("outcome", "denied")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 3.0);
    gateway.stop().await;
}

/// What a question leaves out it counts: the user must know that there is more.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_counts_what_it_leaves_out() {
    let (_server, gateway) = gateway(CONFIRM).await;
    let many: Vec<String> = (0..23).map(|n| format!("\"a{n:02}\":{n}")).collect();
    let long = format!("\"a00\":\"{}\"", "z".repeat(260));
    let arguments = format!("{{{},{}}}", long, many[1..].join(","));
    let asked =
        gateway.send(asking(&format!("{{\"name\":\"s_delete_repo\",\"arguments\":{arguments}}}"))).await;
    let question = asked.result()["inputRequests"]["dev.gatehouse/confirm"]["params"]["message"].clone();
    let question = question.as_str().unwrap_or_else(|| panic!("{asked:?}"));
    let lines: Vec<&str> = question.lines().collect();
    assert_eq!(lines.len(), 1 + 20 + 1, "{question}");
    assert_eq!(lines[1], format!("a00: {}… (60 more characters)", "z".repeat(200)));
    assert_eq!((lines[20], lines[21]), ("a19: 19", "… and 3 more values that are not shown"));
    gateway.stop().await;
}
