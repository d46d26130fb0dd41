//! `validate`: arguments held against the schema before the call, structured results after it (issue 7).

use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json as raw;
use crate::support::request::call;
use crate::support::server::{Offer, Server};

const COUNT: &str = r#"{"name":"count","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":5},
    "deep":{"type":"object","properties":{"a/b":{"type":"array","items":{"enum":["x","y"]}}}}},
    "required":["n"],"additionalProperties":false},
    "outputSchema":{"type":"object","properties":{"v":{"type":["integer","null","boolean","string"]}},"required":["v"]}}"#;

async fn gateway(how: &str, tools: &[&str]) -> (Server, Gateway) {
    let server = Server::modern("s", Offer::defined(tools)).await;
    let gateway = Setup::new().http("s", &server.url(), &format!("validate = \"{how}\"")).start().await;
    (server, gateway)
}

fn text(reply: &Reply) -> String {
    assert_eq!(reply.result()["isError"], true, "{reply:?}");
    reply.result()["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_are_named_and_mended_before_the_call() {
    let (server, gateway) = gateway("input", &[COUNT]).await;
    for (arguments, place, fix) in [
        ("{}", "the arguments: ", "Give \"n\"."),
        ("null", "the arguments: ", "Give \"n\"."),
        (r#"{"n":6}"#, "the argument /n: ", "Give 5 at most."),
        (r#"{"n":"6"}"#, "the argument /n: ", "Give a value of type integer."),
        (r#"{"n":1,"nn":2}"#, "the arguments: ", "Leave out \"nn\"."),
        (r#"{"n":1,"deep":{"a/b":["x","z"]}}"#, "the argument /deep/a~1b/1: ", "Give one of [\"x\",\"y\"]."),
    ] {
        let said = text(&gateway.send(call("s_count", arguments)).await);
        let opening = format!("The tool \"s_count\" was not called: {place}");
        assert!(said.starts_with(&opening) && said.ends_with(fix), "{arguments}: {said}");
    }
    assert_eq!(server.requests("tools/call").len(), 0);
    let labels = [("tool", "s_count"), ("outcome", "bad_request")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 6.0);
    // What fits goes as it is, and results are not looked at.
    let arguments = r#"{ "n" : 1.0 }"#;
    server.on("tools/call", |seen| Answer::result(seen, r#"{"content":[]}"#));
    let reply = gateway.send(call("s_count", arguments)).await;
    assert_ne!(reply.result()["isError"], true, "{reply:?}");
    assert_eq!(server.last_call().raw(&["params", "arguments"]).as_deref(), Some(arguments));
    gateway.stop().await;
}

/// Issue 7: presence is strict: `null`, `0`, `false` and `""` are values, absent is absent.
#[tokio::test(flavor = "multi_thread")]
async fn structured_results_are_held_against_the_output_schema() {
    let (server, gateway) = gateway("both", &[COUNT]).await;
    let answer = async |result: &str| {
        let result = result.to_owned();
        server.on("tools/call", move |seen| Answer::result(seen, &result));
        gateway.send(call("s_count", r#"{"n":1}"#)).await
    };
    for value in ["null", "0", "false", "\"\""] {
        let result = format!(r#"{{"content":[],"structuredContent":{{"v":{value}}}}}"#);
        let reply = answer(&result).await;
        assert_ne!(reply.result()["isError"], true, "{reply:?}");
        assert_eq!(raw::raw(&reply.result_text(), &["structuredContent", "v"]).as_deref(), Some(value));
    }
    for fine in [r#"{"content":[],"isError":true}"#, r#"{"resultType":"input_required","requestState":"s"}"#]
    {
        let reply = answer(fine).await;
        assert!(!reply.text().contains("Tell its operator"), "nothing was promised of it: {reply:?}");
    }
    let missing = text(&answer(r#"{"content":[]}"#).await);
    assert!(missing.contains("\"s\"") && missing.contains("without the structured result"), "{missing}");
    for (content, place) in [
        ("{}", "structuredContent"),
        ("null", "structuredContent"),
        ("0", "structuredContent"),
        (r#"{"v":1.5}"#, "/v"),
        (r#"{"v":[]}"#, "/v"),
    ] {
        let said = text(&answer(&format!(r#"{{"content":[],"structuredContent":{content}}}"#)).await);
        assert!(said.contains(&format!("at {place}: ")), "{content}: {said}");
    }
    let labels = [("tool", "s_count"), ("outcome", "internal")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 6.0);
    gateway.stop().await;
}

/// Issue 7: work is bounded and nothing is fetched: a schema that doubles with each level, and one that lies elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_schemas_cost_nothing() {
    let doubling = r##"{"name":"twice","inputSchema":{"type":"object","$ref":"#/$defs/t","$defs":{"t":{"anyOf":[
        {"properties":{"a":{"$ref":"#/$defs/t"}},"required":["x"]},
        {"properties":{"a":{"$ref":"#/$defs/t"}},"required":["y"]},{"type":"integer"}]}}}}"##;
    let elsewhere = Server::modern("elsewhere", Offer::default()).await;
    let fetching = format!(
        r#"{{"name":"far","inputSchema":{{"type":"object","$ref":"http://{}/schema"}}}}"#,
        elsewhere.address
    );
    let (server, gateway) = gateway("input", &[doubling, &fetching]).await;
    let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    let said = text(&gateway.send(call("s_twice", deep)).await);
    assert!(said.contains("too large to be held against its schema"), "{said}");
    assert!(text(&gateway.send(call("s_twice", r#"{"a":{"a":"z"}}"#)).await).contains("was not called"));
    let reply = gateway.send(call("s_far", r#"{"any":1}"#)).await;
    assert_ne!(reply.result()["isError"], true, "what cannot be known is not checked: {reply:?}");
    assert_eq!((server.requests("tools/call").len(), elsewhere.connections()), (1, 0));
    gateway.stop().await;
}
