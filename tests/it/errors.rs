//! What is refused, with which status and code, and whose id it bears: H-10..H-15, H-20..H-22, M-01..M-08, M-41..M-44,
//! F-007, F-009, F-088.

use serde_json::json;

use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Mcp, Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{HEADER, INVALID, METHOD, PARAMS, PARSE, RESULT, Row, bare, judge, row};
use crate::support::{json as text, within};

async fn one_server() -> (Server, Gateway) {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"s://r","name":"r"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// This body under the headers of a good call.
fn raw(body: impl Into<Vec<u8>>) -> Request {
    Request { body: body.into(), ..call("s_t", "{}").request() }
}

/// A good call's body with a piece replaced.
fn changed(from: &str, to: &str) -> Request {
    let body = call("s_t", "{}").text();
    assert!(body.contains(from), "{from} in {body}");
    raw(body.replacen(from, to, 1))
}

/// Covers: H-10, H-15, M-02, M-05, F-088: what is no message at all has no id.
fn no_message_rows() -> Vec<Row> {
    let good = call("s_t", "{}").text();
    let broken = |what: &str, body: Vec<u8>| row(what, raw(body), 400, PARSE).nameless();
    let invalid = |what: &str, body: &str| row(what, raw(body), 400, INVALID).nameless();
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut rows = vec![
        broken("empty", vec![]),
        broken("white space", b" \n ".to_vec()),
        broken("half a brace", b"{".to_vec()),
        broken("cut short", good.as_bytes()[..good.len() - 1].to_vec()),
        broken("something behind it", format!("{good}x").into_bytes()),
        broken("two of them", format!("{good}{good}").into_bytes()),
        broken(
            "no UTF-8",
            good.replace("s_t", "s_\u{1}")
                .into_bytes()
                .iter()
                .map(|b| if *b == 1 { 0xff } else { *b })
                .collect(),
        ),
        broken("a raw control character", good.replace("s_t", "s_\u{0}t").into_bytes()),
        broken("a BOM", format!("\u{feff}{good}").into_bytes()),
        broken("UTF-16", utf16),
        broken("single quotes", good.replace('"', "'").into_bytes()),
        broken("a trailing comma", good.replacen("}}", ",}}", 1).into_bytes()),
        broken("not a number", b"{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"tools/list\"}".to_vec()),
        broken("a form", b"jsonrpc=2.0&id=1".to_vec()),
        invalid("an empty batch", "[]"),
        invalid("a batch", &format!("[{good},{good}]")),
        invalid("a response", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        invalid("an error response", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#),
        invalid("an error response without id", r#"{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}"#),
        row("white space around", raw(format!(" \r\n\t{good}\n ")), 200, RESULT),
    ];
    for (depth, broken) in [(10_000, true), (1_000_000, true), (129, true), (127, false)] {
        // Two levels are the message's own, the innermost is a string.
        let nested = format!("{}0{}", "[".repeat(depth - 3), "]".repeat(depth - 3));
        let request = call("s_t", format!("{{\"deep\":{nested}}}"));
        rows.push(match broken {
            true => row(format!("{depth} levels"), request, 400, PARSE).nameless(),
            false => row(format!("{depth} levels"), request, 200, RESULT),
        });
    }
    for other in ["\"x\"", "7", "null", "true"] {
        rows.push(invalid(other, other));
    }
    rows
}

/// Covers: M-01, M-02, M-04, M-05, F-088, design §2 (duplicates, escaped keys).
fn envelope_rows() -> Vec<Row> {
    let id = "\"id\":1";
    let invalid = |what: &str, from: &str, to: &str| row(what, changed(from, to), 400, INVALID);
    let mut rows = vec![
        invalid("jsonrpc 1.0", "\"2.0\"", "\"1.0\""),
        invalid("jsonrpc a number", "\"2.0\"", "2.0"),
        invalid("no jsonrpc", "\"jsonrpc\":\"2.0\",", ""),
        invalid("jsonrpc twice", "\"jsonrpc\":\"2.0\"", "\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\""),
        invalid("method a number", "\"tools/call\"", "7"),
        invalid("method null", "\"tools/call\"", "null"),
        invalid("method a lone surrogate", "\"tools/call\"", "\"\\ud800\""),
        invalid("no method", "\"method\":\"tools/call\",", ""),
        invalid("method twice", "\"method\"", "\"method\":\"tools/list\",\"method\""),
        invalid("method twice, once escaped", "\"method\"", "\"m\\u0065thod\":\"tools/list\",\"method\""),
        invalid("a result as well", "\"method\"", "\"result\":{},\"method\""),
        invalid("params twice", "\"params\"", "\"params\":{},\"params\""),
        invalid("_meta twice", "\"_meta\"", "\"_meta\":{},\"_meta\""),
        invalid("_meta twice, once escaped", "\"_meta\"", "\"_m\\u0065ta\":{},\"_meta\""),
        invalid("name twice", "\"name\":\"s_t\"", "\"name\":\"s_t\",\"name\":\"s_other\""),
        invalid("arguments twice", "\"arguments\":{}", "\"arguments\":{},\"arguments\":{}"),
        invalid("a key that is no text", "\"jsonrpc\"", "\"\\ud800\":1,\"jsonrpc\"").named("1"),
        invalid("id twice", id, "\"id\":1,\"id\":2").nameless(),
        invalid("id twice, once escaped", id, "\"id\":1,\"\\u0069d\":1").nameless(),
        row("an unknown key twice", changed(id, "\"id\":1,\"x\":1,\"x\":2"), 200, RESULT),
        bare("no id is a notification", changed("\"id\":1,", ""), 202),
    ];
    for bad in ["null", "{}", "[]", "1.5", "1.0", "1e2", "true", "-"] {
        let code = if bad == "-" { PARSE } else { INVALID };
        rows.push(row(format!("id {bad}"), changed(id, &format!("\"id\":{bad}")), 400, code).nameless());
    }
    let long = format!("\"{}\"", "x".repeat(200));
    let digits = "9".repeat(60);
    for good in [
        "0",
        "-1",
        "9007199254740993",
        "18446744073709551616",
        &digits,
        "\"\"",
        "\"1\"",
        &long,
        "\"\\u0061\\\"\"",
        "\"\\ud800\"",
        "\"日本\"",
    ] {
        rows.push(row(format!("id {good}"), call("s_t", "{}").id(good), 200, RESULT));
        // Refusals echo it just the same, whatever refuses.
        rows.push(row(format!("id {good}, refused"), call("s_none", "{}").id(good), 200, PARAMS));
        rows.push(row(
            format!("id {good}, header"),
            call("s_t", "{}").id(good).request().without("Mcp-Name"),
            400,
            HEADER,
        ));
        rows.push(row(format!("id {good}, method"), mcp("no/such", "{}").id(good), 404, METHOD));
    }
    rows
}

/// Covers: H-14, H-15, M-42, M-43, M-61, F-088: parameters.
fn params_rows() -> Vec<Row> {
    let mut rows = vec![
        row("no name", mcp("tools/call", "{}"), 200, PARAMS),
        row("unknown tool", call("s_x", "{}"), 200, PARAMS),
        row("unknown prompt", mcp("prompts/get", r#"{"name":"s_x"}"#), 200, PARAMS),
        row("unknown resource", mcp("resources/read", r#"{"uri":"s://x"}"#), 200, PARAMS),
        row("no uri", mcp("resources/read", "{}"), 200, PARAMS),
        row("no ref", mcp("completion/complete", "{}"), 200, PARAMS),
        row("ref of an unknown type", mcp("completion/complete", r#"{"ref":{"type":"x"}}"#), 200, PARAMS),
        row("ref is no object", mcp("completion/complete", r#"{"ref":7}"#), 200, PARAMS),
        row(
            "unknown log level",
            call("s_t", "{}").meta("io.modelcontextprotocol/logLevel", "\"loud\""),
            400,
            PARAMS,
        ),
        row(
            "log level is a number",
            call("s_t", "{}").meta("io.modelcontextprotocol/logLevel", "3"),
            400,
            PARAMS,
        ),
        row("a fractional token", call("s_t", "{}").meta("progressToken", "1.5"), 400, PARAMS),
        row("a token that is an object", call("s_t", "{}").meta("progressToken", "{}"), 400, PARAMS),
        row("null arguments are the server's affair", call("s_t", "null"), 200, RESULT),
        row("a name with an escape is that name", mcp("tools/call", r#"{"name":"s\u005ft"}"#), 200, RESULT),
    ];
    for wrong in ["\"x\"", "[]", "7", "true"] {
        rows.push(row(format!("arguments {wrong}"), call("s_t", wrong), 200, PARAMS));
    }
    for wrong in ["[]", "\"x\"", "7", "null", "true"] {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{wrong}}}");
        rows.push(row(format!("params {wrong}"), raw(body), 400, PARAMS));
    }
    rows
}

/// Covers: H-21, M-30, M-31; conformance: sep-2575-http-server-method-not-found-404-*.
fn method_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for gone in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
        "tasks/get",
        "tasks/cancel",
        "sampling/createMessage",
        "elicitation/create",
        "roots/list",
        "rpc.discover",
        "tools",
        "tools/",
        "tools/call/x",
        "",
        "notifications/initialized",
        "日本",
    ] {
        // A name that is no header text cannot be mirrored, so it is the header that fails.
        let (status, code) = if gone.is_ascii() { (404, METHOD) } else { (400, HEADER) };
        rows.push(row(format!("{gone:?}"), mcp(gone, "{}").id("\"id of it\""), status, code));
    }
    let version =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#;
    rows.push(row("initialize with both", mcp("initialize", version), 404, METHOD));
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn f_088_every_malformed_envelope_has_its_answer() {
    let (_server, gateway) = one_server().await;
    for rows in [no_message_rows(), envelope_rows(), params_rows(), method_rows()] {
        judge(&gateway, rows).await;
    }
    gateway.stop().await;
}

/// A legacy message: no `_meta`, no `Mcp-*` headers.
fn legacy(method: &str, params: &str) -> Request {
    Request::post(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"{method}\",\"params\":{params}}}"))
}

/// Covers: F-007: a probe whose header contradicts its body is refused, and the connection goes on.
#[tokio::test(flavor = "multi_thread")]
async fn f_007_a_refused_probe_does_not_poison_the_connection() {
    let (_server, gateway) = one_server().await;
    let mut connection = gateway.connect().await;
    let probe = mcp("server/discover", "{}").id("\"p-1\"").request().set("Mcp-Method", "initialize");
    let reply = connection.send(probe).await;
    assert_eq!((reply.verdict(), &reply.message()["id"]), ((400, Some(HEADER)), &json!("p-1")));
    assert_eq!(connection.send(legacy("initialize", "{}")).await.verdict(), (200, Some(PARAMS)));
    for good in [mcp("server/discover", "{}"), mcp("tools/list", "{}"), call("s_t", "{}")] {
        assert_eq!(connection.send(good).await.verdict(), (200, Some(RESULT)));
    }
    assert_eq!(gateway.metric("gatehouse_header_rejections_total", &[("header", "method")]).await, 1.0);
    gateway.stop().await;
}

/// Covers: M-42: whose URI it was, as the client wrote it.
#[tokio::test(flavor = "multi_thread")]
async fn m_42_an_unknown_resource_is_named() {
    let (server, gateway) = one_server().await;
    let reply = gateway.send(mcp("resources/read", r#"{"uri":"s://none/ä?x=1"}"#)).await;
    assert_eq!(reply.verdict(), (200, Some(PARAMS)));
    assert_eq!(reply.message()["error"]["data"], json!({"uri": "s://none/ä?x=1"}));
    // A server of the old code that says so itself.
    server.on("resources/read", |seen| Answer::error(seen, 200, -32002, "not found"));
    let reply = gateway.send(mcp("resources/read", r#"{"uri":"s://r"}"#)).await;
    assert_eq!(reply.verdict(), (200, Some(PARAMS)));
    assert_eq!(reply.message()["error"]["data"], json!({"uri": "s://r"}));
    gateway.stop().await;
}

/// Covers: M-40, M-44, M-45, H-15, H-63: a server's errors, as the client may see them.
#[tokio::test(flavor = "multi_thread")]
async fn m_44_errors_of_a_server_are_relayed_when_they_are_the_clients() {
    let (server, gateway) = one_server().await;
    let ask = async |code: i64, message: &'static str, data: Option<&'static str>| {
        server.on("tools/call", move |seen: &Seen| {
            Answer::new(200, "application/json", seen.error(code, message, data))
        });
        within("an answer", gateway.send(call("s_t", "{}").id("\"q\""))).await
    };
    for (code, data) in
        [(PARAMS, r#"{"why":[1.0,null]}"#), (-32001, "1e400"), (7, "\"\\ud800\""), (-1, "null")]
    {
        let reply = ask(code, "t is not there, says http://internal:1", Some(data)).await;
        assert_eq!(reply.verdict(), (200, Some(code)));
        let last = reply.last();
        assert_eq!(text::raw(&last, &["error", "data"]).as_deref(), Some(data));
        assert_eq!(text::raw(&last, &["id"]).as_deref(), Some("\"q\""));
        assert!(last.contains("\"s_t is not there, says"), "under the name the client knows: {last}");
    }
    for (code, name) in [(-32603, "internal"), (-32700, "parse"), (-32600, "invalid")] {
        let reply = ask(code, "stack trace at 10.0.0.7: secret", Some("{\"trace\":1}")).await;
        assert_eq!(reply.verdict(), (200, Some(-32603)), "{name}");
        assert!(!reply.text().contains("secret") && !reply.text().contains("trace"), "{}", reply.text());
        assert!(reply.text().contains("\\\"s\\\""), "it names the server: {}", reply.text());
    }
    for code in [-32601, -32022, -32042] {
        let reply = ask(code, "about our own hop", None).await;
        assert!(reply.code() == Some(-32603) || reply.result()["isError"] == true, "{code}: {reply:?}");
        assert_eq!(reply.status(), 200);
    }
    let expose = Setup::new().http("s", &server.url(), "expose_errors = true").start().await;
    server.on("tools/call", |seen| Answer::error(seen, 200, -32603, "what went wrong"));
    let reply = expose.send(call("s_t", "{}")).await;
    assert!(reply.text().contains("what went wrong"), "{}", reply.text());
    expose.stop().await;
    gateway.stop().await;
}

/// Covers: M-43: an error of the tool is a result, and comes as it is.
#[tokio::test(flavor = "multi_thread")]
async fn m_43_a_tools_own_error_is_its_result() {
    let (server, gateway) = one_server().await;
    let result = r#"{"content":[{"type":"text","text":"no"}],"isError":true,"x":1.0}"#;
    server.on("tools/call", move |seen| Answer::result(seen, result));
    let request: Mcp = call("s_t", "{}");
    let reply = gateway.send(request).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)));
    assert!(reply.result_text().starts_with(&result[..result.len() - 1]), "{}", reply.result_text());
    let labels = [("tool", "s_t"), ("outcome", "tool_error")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 1.0);
    gateway.stop().await;
}
