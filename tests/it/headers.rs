//! The standard headers against the body, as a client meets them: H-09, H-20, H-25..H-44, F-082.

use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Mcp, Request, VERSION, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{HEADER, INVALID, METHOD, OTHER_VERSION, PARAMS, RESULT, Row, bare, judge, row};

async fn gateway() -> (Server, Gateway) {
    let mut offer = Offer::tools(&["find", "日本語", " padded ", "=?base64?x?=", "=?base64?x"]);
    offer.resources = vec![r#"{"uri":"a://one","name":"one"}"#.to_owned()];
    offer.prompts = vec![r#"{"name":"ask"}"#.to_owned()];
    let server = Server::modern("alpha", offer).await;
    let endpoints = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false";
    let gateway = Setup::new().toml(endpoints).http("a", &server.url(), "").start().await;
    (server, gateway)
}

/// A good call of the one tool.
fn good() -> Mcp {
    call("a_find", "{}")
}

/// A call whose `_meta` is this text; the headers are those of a good one.
fn with_meta(meta: &str) -> Request {
    let params = format!("{{\"name\":\"a_find\",\"arguments\":{{}}{meta}}}");
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}");
    Request { body: body.into_bytes(), ..good().request() }
}

const V: &str = "MCP-Protocol-Version";
const M: &str = "Mcp-Method";
const N: &str = "Mcp-Name";

/// Covers: H-25 (1) to (4), H-20, H-26, H-44; conformance: sep-2575-request-meta-invalid-*, http-server-header-mismatch-400,
/// http-server-unsupported-version-400.
fn version_rows() -> Vec<Row> {
    let own = "\"io.modelcontextprotocol/protocolVersion\"";
    let caps = "\"io.modelcontextprotocol/clientCapabilities\"";
    let r = || good().request();
    let of = |version: &str| with_meta(&format!(",\"_meta\":{{{own}:{version},{caps}:{{}}}}"));
    let caps_of = |value: &str| with_meta(&format!(",\"_meta\":{{{own}:\"{VERSION}\",{caps}:{value}}}"));
    let mut rows = vec![
        row("good", r(), 200, RESULT),
        row(
            "clientInfo given",
            good().meta("io.modelcontextprotocol/clientInfo", "{\"name\":\"x\"}"),
            200,
            RESULT,
        ),
        // (1) before everything about headers.
        row("no _meta, version header", with_meta(""), 400, PARAMS),
        row("empty _meta", with_meta(",\"_meta\":{}"), 400, PARAMS),
        row("no version in _meta", with_meta(&format!(",\"_meta\":{{{caps}:{{}}}}")), 400, PARAMS),
        row("no capabilities", with_meta(&format!(",\"_meta\":{{{own}:\"{VERSION}\"}}")), 400, PARAMS),
        row(
            "no capabilities, no version header",
            with_meta(&format!(",\"_meta\":{{{own}:\"{VERSION}\"}}")).without(V),
            400,
            PARAMS,
        ),
        row(
            "no capabilities, no headers at all",
            with_meta(&format!(",\"_meta\":{{{own}:\"{VERSION}\"}}")).without(V).without(M).without(N),
            400,
            PARAMS,
        ),
        // (2), and H-20 (e).
        row("no version header", r().without(V), 400, HEADER),
        // A message of an older revision, whose rules are others.
        row("neither header nor _meta", with_meta("").without(V), 400, INVALID),
        // (3)
        row("header is legacy", r().set(V, "2025-11-25"), 400, HEADER),
        row("header is unknown", r().set(V, "2031-01-01"), 400, HEADER),
        row("header is empty", r().set(V, ""), 400, HEADER),
        row("body is unknown, header ours", of("\"2031-01-01\""), 400, HEADER),
        row("body is v999, header ours", of("\"v999\""), 400, HEADER),
        row("header twice, equal", r().with(V, VERSION), 400, HEADER),
        row("header twice, different", r().with(V, "2025-11-25"), 400, HEADER),
        row("header lists two", r().set(V, format!("{VERSION}, {VERSION}")), 400, HEADER),
        row("header with white space", r().set(V, format!("  {VERSION} \t")), 200, RESULT),
        row("header in base64 is literal", r().set(V, "=?base64?MjAyNi0wNy0yOA==?="), 400, HEADER),
        row("header not ASCII", r().set(V, b"2026-07-28\xe4"), 400, HEADER),
        // (4)
        row("both unknown", of("\"2031-01-01\"").set(V, "2031-01-01"), 400, OTHER_VERSION),
        row("both empty", of("\"\"").set(V, ""), 400, OTHER_VERSION),
        row("both legacy, modern shape", of("\"2025-11-25\"").set(V, "2025-11-25"), 400, OTHER_VERSION),
        row(
            "unknown version, no method header",
            of("\"2031-01-01\"").set(V, "2031-01-01").without(M),
            400,
            OTHER_VERSION,
        ),
        row("no _meta, header unknown", with_meta("").set(V, "2031-01-01"), 400, OTHER_VERSION),
        row("no _meta, header legacy", with_meta("").set(V, "2025-11-25"), 400, INVALID),
    ];
    for wrong in ["null", "[]", "\"x\"", "7", "true"] {
        rows.push(row(format!("_meta is {wrong}"), with_meta(&format!(",\"_meta\":{wrong}")), 400, PARAMS));
        rows.push(row(format!("capabilities are {wrong}"), caps_of(wrong), 400, PARAMS));
    }
    for wrong in ["null", "[]", "20260728", "{}", "true"] {
        rows.push(row(format!("version is {wrong}"), of(wrong), 400, PARAMS));
    }
    rows
}

/// Covers: H-25 (5) and (7), H-30, H-32, H-35, H-44, H-09; F-082.
fn method_rows() -> Vec<Row> {
    let r = || good().request();
    let other = || mcp("tools/delete", "{}").request();
    vec![
        row("no method header", r().without(M), 400, HEADER),
        row("another method", r().set(M, "tools/list"), 400, HEADER),
        row("the method in upper case", r().set(M, "TOOLS/CALL"), 400, HEADER),
        row("empty", r().set(M, ""), 400, HEADER),
        row("twice, equal", r().with(M, "tools/call"), 400, HEADER),
        row("twice, different", r().with(M, "tools/list"), 400, HEADER),
        row("two in one", r().set(M, "tools/call,tools/call"), 400, HEADER),
        row("in base64 is literal", r().set(M, "=?base64?dG9vbHMvY2FsbA==?="), 400, HEADER),
        row("white space around", r().set(M, "\t tools/call  "), 200, RESULT),
        row("not ASCII", r().set(M, "tools/call\u{e4}"), 400, HEADER),
        row(
            "names in odd case",
            r().without(M)
                .without(N)
                .without(V)
                .with("mCP-mETHOD", "tools/call")
                .with("MCP-NAME", "a_find")
                .with("mcp-protocol-version", VERSION),
            200,
            RESULT,
        ),
        row("cheap in the header, dear in the body", r().set(M, "tools/list").without(N), 400, HEADER),
        row("unknown method", other(), 404, METHOD),
        row("unknown method, header missing", other().without(M), 400, HEADER),
        row("unknown method, header of a known one", other().set(M, "tools/list"), 400, HEADER),
        row("method in other case", mcp("Tools/List", "{}"), 404, METHOD),
        row("method with a slash", mcp("tools/list/", "{}"), 404, METHOD),
    ]
}

/// Covers: H-25 (6), H-30, H-32..H-35, H-41..H-43, H-57, H-09 and the vectors "Header received"; F-082.
fn name_rows() -> Vec<Row> {
    let r = || good().request();
    let n = |value: &[u8]| good().request().set(N, value);
    vec![
        row("no name header", r().without(N), 400, HEADER),
        row("another name", n(b"a_other"), 400, HEADER),
        row("the server's own name (H-57)", n(b"find"), 400, HEADER),
        row("other case", n(b"a_Find"), 400, HEADER),
        row("empty", n(b""), 400, HEADER),
        row("white space around", n(b"   a_find \t "), 200, RESULT),
        row("twice, equal", r().with(N, "a_find"), 400, HEADER),
        row("twice, different", r().with(N, "a_other"), 400, HEADER),
        row("two in one", n(b"a_find, a_find"), 400, HEADER),
        row("base64", n(b"=?base64?YV9maW5k?="), 200, RESULT),
        row("base64, white space around", n(b"  =?base64?YV9maW5k?= "), 200, RESULT),
        row("base64 of another", n(b"=?base64?ZmluZA==?="), 400, HEADER),
        row("base64, marker in upper case", n(b"=?BASE64?YV9maW5k?="), 400, HEADER),
        row("base64, no end", n(b"=?base64?YV9maW5k"), 400, HEADER),
        row("base64, no beginning", n(b"YV9maW5k?="), 400, HEADER),
        row("base64 with a space", n(b"=?base64?YV9m aW5k?="), 400, HEADER),
        row("base64 with a foreign character", n(b"=?base64?YV9maW5k!?="), 400, HEADER),
        row("base64 with too much padding", n(b"=?base64?YV9maW5k====?="), 400, HEADER),
        row("base64 of no UTF-8", n(b"=?base64?/w==?="), 400, HEADER),
        row("base64 twice over", n(b"=?base64?PT9iYXNlNjQ/WVY5bWFXNWs/PQ==?="), 400, HEADER),
        row("empty base64", n(b"=?base64??="), 400, HEADER),
        row("raw UTF-8", n("a_fìnd".as_bytes()), 400, HEADER),
        row("a byte above 0x7f", n(b"a_find\xff"), 400, HEADER),
        row("a tab inside", n(b"a_\tfind"), 400, HEADER),
        row("mismatch before unknown", call("a_none", "{}").request().set(N, "a_find"), 400, HEADER),
        row("header without a body's name", mcp("tools/call", "{}").request().set(N, "a_find"), 400, HEADER),
        row("neither header nor name", mcp("tools/call", "{}"), 200, PARAMS),
        row("name is no string", mcp("tools/call", "{\"name\":7}"), 200, PARAMS),
        row(
            "ignored where it means nothing (H-34)",
            mcp("tools/list", "{}").request().with(N, "x"),
            200,
            RESULT,
        ),
        row(
            "ignored there even twice",
            mcp("tools/list", "{}").request().with(N, "x").with(N, "y"),
            200,
            RESULT,
        ),
        row("a read", mcp("resources/read", "{\"uri\":\"a://one\"}"), 200, RESULT),
        row(
            "a read without it",
            mcp("resources/read", "{\"uri\":\"a://one\"}").request().without(N),
            400,
            HEADER,
        ),
        row(
            "a read of another",
            mcp("resources/read", "{\"uri\":\"a://one\"}").request().set(N, "a://two"),
            400,
            HEADER,
        ),
        row("a prompt", mcp("prompts/get", "{\"name\":\"a_ask\"}"), 200, RESULT),
        row(
            "a prompt without it",
            mcp("prompts/get", "{\"name\":\"a_ask\"}").request().without(N),
            400,
            HEADER,
        ),
        row(
            "a prompt of another",
            mcp("prompts/get", "{\"name\":\"a_ask\"}").request().set(N, "ask"),
            400,
            HEADER,
        ),
        // An escape in the body is the same name.
        row(
            "an escaped body",
            mcp("tools/call", r#"{"n\u0061me":"a\u005ffind"}"#).request().set(N, "a_find"),
            200,
            RESULT,
        ),
    ]
}

/// Names that need coding, at an endpoint that shows them as they are. Covers: H-41, H-42, H-43.
fn coded_rows() -> Vec<Row> {
    let at = |name: &str, header: &str| call(name, "{}").request().at("/raw").set(N, header);
    vec![
        row("not ASCII", at("日本語", "=?base64?5pel5pys6Kqe?="), 200, RESULT),
        row("not ASCII, plain", at("日本語", "日本語"), 400, HEADER),
        row("spaces around", at(" padded ", "=?base64?IHBhZGRlZCA=?="), 200, RESULT),
        row("spaces around, plain", at(" padded ", " padded "), 400, HEADER),
        row("looks coded", at("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="), 200, RESULT),
        row("looks coded, plain", at("=?base64?x?=", "=?base64?x?="), 400, HEADER),
        row("padded base64", at("find", "=?base64?ZmluZA==?="), 200, RESULT),
        row("base64 without its padding", at("find", "=?base64?ZmluZA?="), 400, HEADER),
        row("base64 with half its padding", at("find", "=?base64?ZmluZA=?="), 400, HEADER),
        row("base64 with bits left over", at("find", "=?base64?ZmluZB==?="), 400, HEADER),
        row("marker in upper case", at("find", "=?BASE64?ZmluZA==?="), 400, HEADER),
        row("other case", at("find", "Find"), 400, HEADER),
        row("half a marker is literal", at("=?base64?x", "=?base64?x"), 200, RESULT),
    ]
}

/// Covers: H-11, H-34, H-81, M-06: a notification is never answered, whatever its headers.
fn notification_rows() -> Vec<Row> {
    let text = |method: &str| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{}}}}");
    let note = |method: &str| Request::post(text(method)).with(V, VERSION);
    vec![
        bare("without Mcp-Method", note("notifications/cancelled"), 202),
        bare("with Mcp-Method", note("notifications/cancelled").with(M, "notifications/cancelled"), 202),
        bare("of an unknown method", note("notifications/nobody/knows"), 202),
        bare("without any MCP header", Request::post(text("notifications/initialized")), 202),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn h_25_the_headers_say_what_the_body_says() {
    let (server, gateway) = gateway().await;
    judge(&gateway, version_rows()).await;
    judge(&gateway, method_rows()).await;
    judge(&gateway, name_rows()).await;
    judge(&gateway, coded_rows()).await;
    judge(&gateway, notification_rows()).await;
    // F-082: nothing that was refused went on.
    let names = server.requests("tools/call").iter().filter_map(|seen| seen.name()).collect::<Vec<_>>();
    assert!(names.iter().all(|name| !name.contains("other") && !name.contains("none")), "{names:?}");
    gateway.stop().await;
}

/// Covers: design §8: a rejection is counted by the header that was wrong, and as an outcome.
#[tokio::test(flavor = "multi_thread")]
async fn header_rejections_are_counted_by_header() {
    let (server, gateway) = gateway().await;
    let rejected =
        async |label: &str| gateway.metric("gatehouse_header_rejections_total", &[("header", label)]).await;
    gateway.send(good().request().without(V)).await;
    gateway.send(good().request().without(M)).await;
    gateway.send(good().request().without(N)).await;
    gateway.send(good().request().set(N, "x")).await;
    assert_eq!(rejected("version").await, 1.0);
    assert_eq!(rejected("method").await, 1.0);
    assert_eq!(rejected("name").await, 2.0);
    let labels = [("method", "tools/call"), ("outcome", "header_mismatch")];
    assert_eq!(gateway.metric("gatehouse_requests_total", &labels).await, 4.0);
    assert!(server.requests("tools/call").is_empty());
    gateway.stop().await;
}

/// Covers: M-41: the refusal of a version says what is spoken and what was asked, never the asked one as spoken.
#[tokio::test(flavor = "multi_thread")]
async fn m_41_a_refused_version_is_told_what_is_spoken() {
    let (_server, gateway) = gateway().await;
    let meta = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let reply = gateway.send(with_meta(meta).set(V, "2031-01-01")).await;
    let data = reply.message()["error"]["data"].clone();
    assert_eq!(data, serde_json::json!({"supported": [VERSION], "requested": "2031-01-01"}));
    let discover = gateway.send(mcp("server/discover", "{}")).await;
    assert_eq!(discover.result()["supportedVersions"], data["supported"]);
    gateway.stop().await;
}
