//! Old callers live on while a tool changes (`tools.override`): former names of tools and arguments, defaults, former
//! values, and who still uses them (issue 7).

use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json as raw;
use crate::support::legacy::Session;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

/// What the server offers today: it once took `to` and no format, in degrees of `C` and `F`, and was `send_report`.
const TODAY: &str = r#"{"name":"send_report","description":"Sends a report.","inputSchema":{"type":"object","properties":{
    "recipient":{"type":"string","x-mcp-header":"Recipient"},
    "format":{"type":"string","enum":["pdf","html"],"x-mcp-header":"Format"},
    "unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["recipient","format"]}}"#;

/// What its operator says of it.
pub(crate) const AIDS: &str = r#"
[server.tools.override.send_report]
name = "deliver_report"
aliases = { to = "recipient" }
defaults = { format = "pdf" }
values = { unit = { C = "celsius", F = "fahrenheit" } }
deprecated_since = 2026-11-30
"#;

async fn server() -> Server {
    Server::modern("s", Offer::defined(&[TODAY])).await
}

async fn gateway(server: &Server, more: &str) -> Gateway {
    Setup::new().toml(more).http("s", &server.url(), AIDS).start().await
}

fn text(reply: &Reply) -> String {
    reply.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

/// What the server got last.
fn sent(server: &Server) -> String {
    server.last_call().raw(&["params", "arguments"]).unwrap()
}

async fn used(gateway: &Gateway, tool: &str, path: &str) -> f64 {
    gateway.metric("gatehouse_deprecated_use_total", &[("tool", tool), ("path", path)]).await
}

/// Issue 7: rename, requiredness, default and unit: the old call still works, the new one works, both together conflict.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_call_works_the_new_one_works_both_together_conflict() {
    let server = server().await;
    let gateway = gateway(&server, "").await;
    let old = gateway.send(call("s_send_report", r#"{ "to":"ann", "unit":"F", "n":1.0 }"#)).await;
    assert_eq!(text(&old), "s:send_report");
    let expected = r#"{ "recipient":"ann", "unit":"fahrenheit", "n":1.0 ,"format":"pdf"}"#;
    assert_eq!(sent(&server), expected, "spliced: every other byte is the caller's");
    let seen = server.last_call();
    assert_eq!(seen.header("mcp-param-recipient").as_deref(), Some("ann"), "headers are derived after it");
    assert_eq!(seen.header("mcp-param-format").as_deref(), Some("pdf"));
    let today = r#"{"recipient":"bob","format":"html","unit":"celsius"}"#;
    let new = call("s_deliver_report", today).request();
    let new = gateway.send(new.with("Mcp-Param-Recipient", "bob").with("Mcp-Param-Format", "html")).await;
    assert_eq!((text(&new), sent(&server)), ("s:send_report".to_owned(), today.to_owned()));
    let calls = server.requests("tools/call").len();
    let both = call("s_deliver_report", r#"{"to":"ann","recipient":"bob"}"#).request();
    let both = gateway.send(both.with("Mcp-Param-Recipient", "bob")).await;
    assert_eq!(both.result()["isError"], true, "{both:?}");
    assert_eq!(
        text(&both),
        "The tool \"s_deliver_report\" was not called: the arguments \"to\" and \"recipient\" are two names of the \
         same thing and hold different values. Give \"recipient\" only."
    );
    assert_eq!(server.requests("tools/call").len(), calls, "nothing reached the server");
    let agreed = call("s_deliver_report", r#"{"to":"ann","recipient":"ann"}"#).request();
    gateway.send(agreed.with("Mcp-Param-Recipient", "ann")).await;
    assert_eq!(sent(&server), r#"{"recipient":"ann","format":"pdf"}"#);
    assert_eq!(used(&gateway, "s_send_report", "/name").await, 1.0);
    assert_eq!(used(&gateway, "s_send_report", "/arguments/to").await, 1.0);
    assert_eq!(used(&gateway, "s_send_report", "/arguments/unit#value").await, 1.0);
    assert_eq!(used(&gateway, "s_deliver_report", "/name").await, 0.0);
    assert_eq!(used(&gateway, "s_deliver_report", "/arguments/to").await, 1.0, "the conflict was no use");
    assert_eq!(used(&gateway, "s_deliver_report", "/arguments/format#default").await, 1.0);
    let labels = [("tool", "s_deliver_report"), ("outcome", "bad_request")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 1.0);
    gateway.stop().await;
}

/// Issue 7, H-52: a client that knows the former schema mirrors the former argument; a header that says something else is
/// refused as ever.
#[tokio::test(flavor = "multi_thread")]
async fn h_52_headers_say_what_came_or_what_goes_on() {
    let server = server().await;
    let gateway = gateway(&server, "").await;
    let old = call("s_send_report", r#"{"to":"ann","unit":"F"}"#).request();
    for headers in [&[][..], &[("Recipient", "ann")], &[("Recipient", "ann"), ("Format", "pdf")]] {
        let request = headers
            .iter()
            .fold(old.clone(), |request, (name, value)| request.with(&format!("Mcp-Param-{name}"), value));
        assert_eq!(text(&gateway.send(request).await), "s:send_report", "{headers:?}");
    }
    let calls = server.requests("tools/call").len();
    for (name, value) in [("Recipient", "bob"), ("Format", "html")] {
        let odd = gateway.send(old.clone().with(&format!("Mcp-Param-{name}"), value)).await;
        assert_eq!(odd.verdict(), (400, Some(-32020)), "{name}: {odd:?}");
    }
    let bare = gateway.send(call("s_deliver_report", r#"{"recipient":"ann"}"#)).await;
    assert_eq!(bare.verdict(), (400, Some(-32020)), "a name of today has its header: {bare:?}");
    assert_eq!(server.requests("tools/call").len(), calls);
    gateway.stop().await;
}

/// Issue 7: both names of tool and argument are listed, the former ones marked.
#[tokio::test(flavor = "multi_thread")]
async fn both_names_are_listed_during_the_period() {
    let server = server().await;
    let gateway = gateway(&server, "").await;
    let tools = gateway.send(mcp("tools/list", "{}")).await.result()["tools"].clone();
    let names: Vec<&Value> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["s_deliver_report", "s_send_report"]);
    assert_eq!(tools[0]["description"], "Sends a report.");
    assert_eq!(
        tools[1]["description"],
        "Deprecated since 2026-11-30: use \"s_deliver_report\". Sends a report."
    );
    let schema = &tools[0]["inputSchema"];
    assert_eq!(schema, &tools[1]["inputSchema"]);
    let to = json!({"type": "string", "deprecated": true, "description": "Deprecated since 2026-11-30: use \"recipient\"."});
    assert_eq!(schema["properties"]["to"], to);
    assert_eq!(schema["properties"]["recipient"]["x-mcp-header"], "Recipient");
    assert_eq!(
        (&schema["required"], &schema["properties"]["format"]["default"]),
        (&json!([]), &json!("pdf"))
    );
    gateway.stop().await;
}

/// Issue 7: a former name is neither found nor described by the search, and still leads where it led; inside `call_tool`
/// and for legacy clients everything is the same.
#[tokio::test(flavor = "multi_thread")]
async fn former_names_hold_in_both_eras_and_inside_call_tool() {
    let server = server().await;
    let found = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/found\"\ndiscovery = \"search\"\npinned = [\"*\"]";
    let gateway = gateway(&server, found).await;
    let expected = r#"{"recipient":"ann","format":"pdf"}"#;
    let inside = r#"{"name":"s_send_report","arguments":{"to":"ann"}}"#;
    let reply = gateway.send(call("call_tool", inside).request().at("/found")).await;
    assert_eq!((text(&reply), sent(&server)), ("s:send_report".to_owned(), expected.to_owned()));
    assert_eq!(server.last_call().header("mcp-param-recipient").as_deref(), Some("ann"));
    let listed = gateway.send(mcp("tools/list", "{}").request().at("/found")).await.result_text();
    assert!(listed.contains("s_deliver_report") && !listed.contains("\"s_send_report\""), "{listed}");
    let search =
        gateway.send(call("search_tools", r#"{"query":"send report"}"#).request().at("/found")).await;
    let hits: Vec<String> =
        text(&search).lines().map(|line| line.split('(').next().unwrap().to_owned()).collect();
    assert_eq!(hits, ["s_deliver_report"]);

    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    assert_eq!(session.tools(&gateway).await, ["s_deliver_report", "s_send_report"]);
    let reply = gateway.send(session.call("1", "s_send_report", r#"{"to":"ann"}"#)).await;
    assert_eq!((text(&reply), sent(&server)), ("s:send_report".to_owned(), expected.to_owned()));
    assert_eq!(used(&gateway, "s_send_report", "/arguments/to").await, 2.0);
    // Without arguments at all the defaults are still sent.
    let bare = gateway.send(session.request("2", "tools/call", r#"{"name":"s_send_report"}"#)).await;
    assert_eq!((text(&bare), sent(&server)), ("s:send_report".to_owned(), r#"{"format":"pdf"}"#.to_owned()));
    gateway.stop().await;
}

/// Issue 7, R-28: a retry is bound to what the client sent, and is mapped again.
#[tokio::test(flavor = "multi_thread")]
async fn r_28_a_retry_is_bound_to_what_the_client_sent() {
    let server = server().await;
    server.on("tools/call", |seen| match seen.raw(&["params", "inputResponses"]) {
        Some(_) => Answer::result(seen, r#"{"content":[{"type":"text","text":"done"}]}"#),
        None => Answer::result(
            seen,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}}"#,
        ),
    });
    let gateway =
        Setup::new().http("s", &server.url(), &format!("tools.confirm = [\"send_*\"]\n{AIDS}")).start().await;
    let asks = r#"{"elicitation":{"form":{}}}"#;
    let send = async |params: String| gateway.send(mcp("tools/call", params).capabilities(asks)).await;
    let params = r#"{"name":"s_send_report","arguments":{"to":"ann"}"#;
    let state = |reply: &Reply| raw::quoted(reply.result()["requestState"].as_str().unwrap());
    let answered = |key: &str, state: &str| {
        let answer = "{\"action\":\"accept\",\"content\":{}}";
        format!("{params},\"inputResponses\":{{\"{key}\":{answer}}},\"requestState\":{state}}}")
    };
    let asked = send(format!("{params}}}")).await;
    let question = asked.result()["inputRequests"]["dev.gatehouse/confirm"]["params"]["message"].clone();
    assert_eq!(
        question, "Call the tool \"send_report\" of the server \"s\"?\nrecipient: ann\nformat: pdf",
        "the user sees what will be sent"
    );
    let confirmed = send(answered("dev.gatehouse/confirm", &state(&asked))).await;
    assert!(confirmed.result()["inputRequests"]["q"].is_object(), "{confirmed:?}");
    let sealed = state(&confirmed);
    assert_eq!(text(&send(answered("q", &sealed)).await), "done");
    assert_eq!(sent(&server), r#"{"recipient":"ann","format":"pdf"}"#);
    let other = answered("q", &sealed).replace(r#""to":"ann""#, r#""recipient":"ann","format":"pdf""#);
    let other = mcp("tools/call", other).capabilities(asks).request();
    let other = other.with("Mcp-Param-Recipient", "ann").with("Mcp-Param-Format", "pdf");
    let refused = gateway.send(other).await;
    assert_eq!(
        refused.code(),
        Some(-32602),
        "the same for the server, and not what the client sent: {refused:?}"
    );
    gateway.stop().await;
}

/// Issue 7: version pairs: a tool that is left names its newest version.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_pair_names_the_new_one() {
    let tool = |name: &str| {
        format!(r#"{{"name":"{name}","description":"Sends.","inputSchema":{{"type":"object"}}}}"#)
    };
    let all = [tool("send_v2"), tool("send"), tool("send_v10"), tool("other"), tool("send_version")];
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let server = Server::modern("s", Offer::defined(&all)).await;
    let retired = "tools.override.send.deprecated_since = 2026-11-30\ntools.override.send_v2.deprecated_since = 2026-12-01\n\
                   tools.override.other.deprecated_since = 2026-12-01";
    let gateway = Setup::new().http("s", &server.url(), retired).start().await;
    let tools = gateway.send(mcp("tools/list", "{}")).await.result()["tools"].clone();
    let said: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["description"].as_str().unwrap()).collect();
    assert_eq!(
        said,
        [
            "Deprecated since 2026-12-01: use \"s_send_v10\". Sends.",
            "Deprecated since 2026-11-30: use \"s_send_v10\". Sends.",
            "Sends.",
            "Deprecated since 2026-12-01. Sends.",
            "Sends."
        ]
    );
    for name in ["s_send", "s_send", "s_send_v10"] {
        gateway.send(call(name, r#"{"a":1}"#)).await;
    }
    assert_eq!(used(&gateway, "s_send", "/name").await, 2.0);
    assert_eq!(gateway.metric("gatehouse_deprecated_use_total", &[]).await, 2.0);
    assert_eq!(sent(&server), r#"{"a":1}"#);
    gateway.stop().await;
}
