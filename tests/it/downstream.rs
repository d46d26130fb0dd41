//! What a server behind the gateway gets: headers derived from the body sent, `_meta` of its own hop, nothing of the
//! client's: H-40, H-41, H-54, H-57, H-58, H-60, M-03, M-20..M-28, F-048, F-050, F-097.

use serde_json::{Value, json};

use crate::support::child::Child;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{VERSION, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::RESULT;

const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{
    "s":{"type":"string","x-mcp-header":"S"},"n":{"type":"integer","x-mcp-header":"N"},
    "b":{"type":"boolean","x-mcp-header":"B"},"plain":{"type":"string"}}}}"#;

async fn one_server() -> (Server, Gateway) {
    let server = Server::modern("s", Offer::defined(&[TOOL])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    (server, gateway)
}

fn meta_key(key: &str) -> String {
    format!("io.modelcontextprotocol/{key}")
}

/// Covers: H-08, H-58, H-60, M-21, F-050 (the server's own host), A-30: a client that sends whatever it can.
#[tokio::test(flavor = "multi_thread")]
async fn h_58_headers_are_made_for_the_hop() {
    let (server, gateway) = one_server().await;
    let request = call("s_t", r#"{"s":"eu","plain":"p"}"#).request();
    let request = request
        .with("Mcp-Param-S", "eu")
        .with("Mcp-Param-Unknown", "u")
        .with("Mcp-Param-Plain", "other")
        .with("Authorization", "Bearer of-the-client")
        .with("Cookie", "a=b")
        .with("Mcp-Session-Id", "session-of-the-client")
        .with("Last-Event-ID", "7")
        .with("X-Forwarded-For", "10.1.2.3")
        .with("Forwarded", "for=10.1.2.3")
        .with("Origin", "http://localhost:1")
        .with("User-Agent", "client/1")
        .with("Accept-Encoding", "gzip, br");
    let reply = gateway.send(request).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)));
    for of_a_session in ["mcp-session-id", "set-cookie", "last-event-id"] {
        assert_eq!(reply.header(of_a_session), None, "H-08: {of_a_session}");
    }
    let seen = server.last_call();
    assert_eq!(seen.head.first, "POST /mcp HTTP/1.1");
    let address = server.address.to_string();
    for (name, value) in [
        ("host", address.as_str()),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("accept-encoding", "identity"),
        ("mcp-protocol-version", VERSION),
        ("mcp-method", "tools/call"),
        ("mcp-name", "t"),
        ("mcp-param-s", "eu"),
    ] {
        assert_eq!(seen.header(name).as_deref(), Some(value), "{name}");
    }
    let known = [
        "host",
        "accept",
        "content-type",
        "content-length",
        "accept-encoding",
        "user-agent",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-param-s",
    ];
    for (name, value) in &seen.head.fields {
        assert!(known.contains(&name.to_ascii_lowercase().as_str()), "{name} goes on");
        let value = String::from_utf8_lossy(value);
        assert!(!value.contains("client"), "{name}: {value}");
    }
    let own = meta_key("protocolVersion");
    let version = seen.raw(&["params", "_meta", &own]).unwrap();
    assert_eq!(version, json::quoted(&seen.header("mcp-protocol-version").unwrap()));
    for asked in ["server/discover", "tools/list"] {
        let seen = server.requests(asked).pop().unwrap();
        assert_eq!(seen.header("mcp-method").as_deref(), Some(asked));
        assert_eq!(seen.header("mcp-protocol-version").as_deref(), Some(VERSION));
        assert_eq!(seen.header("mcp-name"), None);
        assert_eq!(seen.raw(&["params", "_meta", &own]).unwrap(), json::quoted(VERSION));
        let capabilities = seen.raw(&["params", "_meta", &meta_key("clientCapabilities")]);
        assert_eq!(capabilities.as_deref(), Some("{}"), "the gateway asks for itself");
    }
    gateway.stop().await;
}

/// The vectors "Raw parameter value" of http.md. Covers: H-40, H-41, H-54; conformance: http-custom-headers.
#[tokio::test(flavor = "multi_thread")]
async fn h_54_annotated_arguments_are_mirrored_as_the_vectors_say() {
    let (server, gateway) = one_server().await;
    // Argument, its JSON text, what the client sent, what the server gets.
    let rows: [(&str, &str, Option<&str>, Option<&str>); 20] = [
        ("s", "\"eu-north\"", Some("eu-north"), Some("eu-north")),
        ("s", "\"eu\"", Some("=?base64?ZXU=?="), Some("eu")),
        ("s", "\"\"", Some(""), Some("")),
        ("s", "\"a b\"", Some("a b"), Some("a b")),
        ("s", "\" a\"", Some("=?base64?IGE=?="), Some("=?base64?IGE=?=")),
        ("s", "\"a \"", Some("=?base64?YSA=?="), Some("=?base64?YSA=?=")),
        ("s", "\"a\\tb\"", Some("=?base64?YQli?="), Some("=?base64?YQli?=")),
        ("s", "\"a\\r\\nEvil: 1\"", Some("=?base64?YQ0KRXZpbDogMQ==?="), Some("=?base64?YQ0KRXZpbDogMQ==?=")),
        ("s", "\"ä\"", Some("=?base64?w6Q=?="), Some("=?base64?w6Q=?=")),
        ("s", "\"\\u00e4\"", Some("=?base64?w6Q=?="), Some("=?base64?w6Q=?=")),
        ("s", "\"=?base64?x?=\"", Some("=?base64?PT9iYXNlNjQ/eD89?="), Some("=?base64?PT9iYXNlNjQ/eD89?=")),
        ("s", "\"=?base64?x\"", Some("=?base64?x"), Some("=?base64?x")),
        ("s", "null", None, None),
        ("plain", "\"p\"", None, None),
        ("n", "-7", Some("-7"), Some("-7")),
        ("n", "42.0", Some("42"), Some("42")),
        ("n", "4.2e1", Some("42.0"), Some("42")),
        ("n", "9007199254740993", Some("9007199254740993"), Some("9007199254740993")),
        ("b", "true", Some("true"), Some("true")),
        ("b", "false", Some("false"), Some("false")),
    ];
    for (argument, value, sent, expected) in rows {
        let mut request = call("s_t", format!("{{\"{argument}\":{value}}}")).request();
        if let Some(sent) = sent {
            request = request.with(&format!("Mcp-Param-{argument}"), sent);
        }
        assert_eq!(gateway.send(request).await.verdict(), (200, Some(RESULT)), "{argument}={value}");
        let seen = server.last_call();
        assert_eq!(seen.header(&format!("mcp-param-{argument}")).as_deref(), expected, "{argument}={value}");
        let params = seen.head.fields.iter().filter(|(n, _)| n.to_ascii_lowercase().starts_with("mcp-param"));
        assert_eq!(params.count(), usize::from(expected.is_some()), "{argument}={value}");
        assert_eq!(
            seen.raw(&["params", "arguments", argument]).as_deref(),
            Some(value),
            "the body is untouched"
        );
    }
    gateway.stop().await;
}

/// Covers: M-20, M-21, M-23, M-25, M-28, F-097: every key of `_meta`.
#[tokio::test(flavor = "multi_thread")]
async fn m_23_meta_is_that_of_the_hop_and_foreign_keys_go_on() {
    let (server, gateway) = one_server().await;
    let foreign = [
        ("com.example/k", r#"{"a":[1,null],"n":1.0,"big":1152921504606846977}"#),
        ("com.example.mcp/y", r#""\ud800""#),
        ("unprefixed", "null"),
        ("not a/valid key", "[ 1 , 2 ]"),
        ("x", r#"{"dup":1,"dup":2}"#),
    ];
    let mut request = call("s_t", "{}")
        .capabilities(r#"{"elicitation":{"form":{}}}"#)
        .meta(&meta_key("clientInfo"), r#"{"name":"secret-client","version":"9"}"#)
        .meta("traceparent", "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"")
        .meta("tracestate", "\"v=1\"")
        .meta("baggage", "\"user=alice\"")
        .meta("progressToken", "\"p-1\"");
    for (key, value) in foreign {
        request = request.meta(key, value);
    }
    assert_eq!(gateway.send(request).await.verdict(), (200, Some(RESULT)));
    let seen = server.last_call();
    let meta = seen.raw(&["params", "_meta"]).unwrap();
    for (key, value) in foreign {
        assert_eq!(json::raw(&meta, &[key]).as_deref(), Some(value), "{key}");
    }
    let order: Vec<String> =
        json::keys(&meta).into_iter().filter(|key| foreign.iter().any(|(f, _)| f == key)).collect();
    assert_eq!(order, foreign.map(|(key, _)| key));
    let read = |key: &str| json::raw(&meta, &[key]).map(|raw| json::value(&raw));
    assert_eq!(read(&meta_key("clientInfo")).unwrap()["name"], "gatehouse");
    assert_eq!(read(&meta_key("clientCapabilities")).unwrap(), json!({"elicitation": {"form": {}}}));
    assert_eq!(read(&meta_key("logLevel")), None);
    assert_eq!(read("baggage"), None, "it is dropped at the boundary");
    assert_eq!(read("tracestate"), Some(json!("v=1")));
    let parent = read("traceparent").unwrap().as_str().unwrap().to_owned();
    assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "the trace goes on: {parent}");
    assert!(!parent.contains("00f067aa0ba902b7"), "with a span of our own: {parent}");
    assert_eq!(seen.header("traceparent"), Some(parent));
    let token = read("progressToken").unwrap();
    assert!(token != "p-1" && (token.is_string() || token.is_number()), "a token of our own: {token}");
    gateway.stop().await;
}

/// Covers: M-28: a malformed trace is no reason to refuse, and is not passed on.
#[tokio::test(flavor = "multi_thread")]
async fn m_28_a_malformed_trace_is_not_passed_on() {
    let (server, gateway) = one_server().await;
    for bad in ["\"\"", "\"00-zz-1-01\"", "7", "null", "{}"] {
        assert_eq!(
            gateway.send(call("s_t", "{}").meta("traceparent", bad)).await.verdict(),
            (200, Some(RESULT)),
            "{bad}"
        );
        let sent = server.last_call().raw(&["params", "_meta", "traceparent"]);
        assert_ne!(sent.as_deref(), Some(bad));
    }
    let header = call("s_t", "{}")
        .request()
        .with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(gateway.send(header).await.verdict(), (200, Some(RESULT)));
    let sent = server.last_call().raw(&["params", "_meta", "traceparent"]).unwrap();
    assert!(sent.contains("0af7651916cd43dd8448eb211c80319c"), "the header's trace goes on as well: {sent}");
    gateway.stop().await;
}

/// Covers: F-048: a strict server that takes no `null` sees none the client did not send; what is absent stays so.
#[tokio::test(flavor = "multi_thread")]
async fn f_048_no_null_is_invented() {
    let (server, gateway) = one_server().await;
    for (params, arguments) in [
        (r#"{"name":"s_t"}"#, None),
        (r#"{"name":"s_t","arguments":{}}"#, Some("{}")),
        (r#"{"name":"s_t","arguments":null}"#, Some("null")),
        (r#"{"name":"s_t","arguments":{"s":null}}"#, Some(r#"{"s":null}"#)),
    ] {
        assert_eq!(gateway.send(mcp("tools/call", params)).await.verdict(), (200, Some(RESULT)), "{params}");
        let seen = server.last_call();
        assert_eq!(seen.raw(&["params", "arguments"]).as_deref(), arguments, "{params}");
        let keys = json::keys(&seen.raw(&["params"]).unwrap());
        let expected =
            if arguments.is_some() { vec!["_meta", "name", "arguments"] } else { vec!["_meta", "name"] };
        assert_eq!(keys, expected, "{params}");
    }
    for list in ["tools/list", "server/discover"] {
        let seen = server.requests(list).pop().unwrap();
        assert_eq!(json::keys(&seen.raw(&["params"]).unwrap()), ["_meta"], "{list}");
        assert!(!seen.text().contains("null"), "{}", seen.text());
    }
    gateway.stop().await;
}

/// Covers: M-03, M-04: clients may all use one id; towards a server each request has its own.
#[tokio::test(flavor = "multi_thread")]
async fn m_03_ids_are_the_hops_own() {
    let (server, gateway) = one_server().await;
    for id in ["1", "1", "\"1\"", "\"a-1\"", "-3", "18446744073709551616"] {
        let reply = gateway.send(call("s_t", "{}").id(id)).await;
        assert_eq!(json::raw(&reply.last(), &["id"]).as_deref(), Some(id), "echoed as it was");
    }
    let mut ids: Vec<Value> =
        server.seen().iter().filter_map(|seen| seen.id()).map(|id| json::value(&id)).collect();
    let all = ids.len();
    assert!(ids.iter().all(Value::is_u64), "{ids:?}");
    ids.sort_by_key(Value::as_u64);
    ids.dedup();
    assert_eq!(ids.len(), all, "each once");
    gateway.stop().await;
}

/// Covers: H-58 for stdio, F-041: one line a message, whatever its white space; modern `_meta`, no headers to derive.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_gets_one_line_a_message() {
    let child = Child::python(
        r#"serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": '{"content":[]}'})"#,
    );
    let gateway = Setup::new().stdio("p", &child.argv(), "").start().await;
    let arguments = "{\n\t\"a\" :\r\n \"line\\n\\u2028break\" ,\"u\":\"\u{2028}\"\n}";
    let reply = gateway.send(call("p_t", arguments).meta("com.example/k", "[\n1\n]")).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    let line = child.requests("tools/call").pop().unwrap();
    let message = json::value(&line);
    assert_eq!(message["params"]["name"], "t");
    assert_eq!(message["params"]["arguments"], json!({"a": "line\n\u{2028}break", "u": "\u{2028}"}));
    assert_eq!(message["params"]["_meta"]["com.example/k"], json!([1]));
    assert_eq!(message["params"]["_meta"][meta_key("protocolVersion")], VERSION);
    assert!(child.received().iter().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    gateway.stop().await;
}
