//! `Mcp-Param-*` against the arguments, and which annotations are taken at their word: H-45..H-55, F-034, F-098.

use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{HEADER, INVALID, PARAMS, RESULT, Row, judge, row};

/// A string, an integer, a boolean and a nested string are mirrored, `note` and `Method` are not what they seem.
const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "count":{"type":"integer","x-mcp-header":"N"},
    "dry":{"type":"boolean","x-mcp-header":"Dry"},
    "deep":{"type":"object","properties":{"key":{"type":"string","x-mcp-header":"Method"}}},
    "maybe":{"type":["string","null"],"x-mcp-header":"Maybe"},
    "note":{"type":"string"}}}}"#;

async fn gateway() -> (Server, Gateway) {
    let server = Server::modern("s", Offer::defined(&[TOOL])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// A call with these arguments and `Mcp-Param-*` headers.
fn with(arguments: &str, headers: &[(&str, &str)]) -> Request {
    let request = call("s_t", arguments).request();
    headers.iter().fold(request, |request, (name, value)| request.with(&format!("Mcp-Param-{name}"), value))
}

/// One value of one argument against one header, or none.
fn one(argument: &str, value: &str, name: &str, header: Option<&str>) -> Request {
    let headers: Vec<(&str, &str)> = header.iter().map(|header| (name, *header)).collect();
    with(&format!("{{\"{argument}\":{value}}}"), &headers)
}

/// Covers: H-41..H-43, H-52 and the vectors of values, strings.
fn string_rows() -> Vec<Row> {
    let region = |value: &str, header: &str| one("region", value, "Region", Some(header));
    let mut rows = vec![
        row("not sent, no header", with("{}", &[]), 200, RESULT),
        row("no arguments at all", mcp("tools/call", r#"{"name":"s_t"}"#), 200, RESULT),
        row("missing", one("region", "\"eu\"", "Region", None), 400, HEADER),
        row("null, no header", one("region", "null", "Region", None), 200, RESULT),
        row("null, header", region("null", "null"), 400, HEADER),
        row("null, empty header", region("null", ""), 400, HEADER),
        row("absent, header", with("{}", &[("Region", "eu")]), 400, HEADER),
        row(
            "absent arguments, header",
            mcp("tools/call", r#"{"name":"s_t"}"#).request().with("Mcp-Param-Region", "eu"),
            400,
            HEADER,
        ),
        row("another value", region("\"eu\"", "us"), 400, HEADER),
        row("other case of the value", region("\"eu\"", "EU"), 400, HEADER),
        row("other case of the name", with(r#"{"region":"eu"}"#, &[("rEGION", "eu")]), 200, RESULT),
        row("twice, equal", with(r#"{"region":"eu"}"#, &[("Region", "eu"), ("Region", "eu")]), 400, HEADER),
        row(
            "twice, different",
            with(r#"{"region":"eu"}"#, &[("Region", "eu"), ("region", "us")]),
            400,
            HEADER,
        ),
        row("raw UTF-8", region("\"ä\"", "ä"), 400, HEADER),
        row("escaped in the body", region(r#""\u0065u""#, "eu"), 200, RESULT),
        row("a key escaped in the body", with(r#"{"r\u0065gion":"eu"}"#, &[("Region", "eu")]), 200, RESULT),
        row("a key escaped in the body, no header", with(r#"{"r\u0065gion":"eu"}"#, &[]), 400, HEADER),
        row("a key twice", with(r#"{"region":"eu","region":"us"}"#, &[("Region", "eu")]), 400, INVALID),
        row(
            "a key twice, once escaped",
            with(r#"{"region":"eu","r\u0065gion":"us"}"#, &[("Region", "us")]),
            400,
            INVALID,
        ),
        row("lone surrogate, header", region(r#""\ud800""#, "=?base64?77+9?="), 400, HEADER),
        row("lone surrogate, no header", one("region", r#""\ud800""#, "Region", None), 400, HEADER),
        row("a pair of surrogates", region(r#""\ud83d\ude00""#, "=?base64?8J+YgA==?="), 200, RESULT),
        row("invalid base64", region("\"Hello\"", "=?base64?SGVsbG8?="), 400, HEADER),
        row("base64 of no UTF-8", region(r#""\ufffd""#, "=?base64?/w==?="), 400, HEADER),
        row("two kinds of null", one("maybe", "null", "Maybe", None), 200, RESULT),
        row("the union's string", one("maybe", "\"x\"", "Maybe", Some("x")), 200, RESULT),
        row("the union's string, no header", one("maybe", "\"x\"", "Maybe", None), 400, HEADER),
    ];
    for (value, header) in [
        ("\"eu-north\"", "eu-north"),
        ("\"\"", ""),
        ("\"a b\"", "a b"),
        ("\" a\"", "=?base64?IGE=?="),
        ("\"a\\tb\"", "=?base64?YQli?="),
        ("\"ä\"", "=?base64?w6Q=?="),
        ("\"日本語\"", "=?base64?5pel5pys6Kqe?="),
        ("\"=?base64?x?=\"", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("\"=?base64?x\"", "=?base64?x"),
        ("\"eu\"", "=?base64?ZXU=?="),
        ("\"eu\"", "  eu\t"),
        // The value contradicts its type: compared as what it is (policy).
        ("7", "7"),
        ("true", "true"),
    ] {
        rows.push(row(format!("{value} as {header:?}"), region(value, header), 200, RESULT));
    }
    rows
}

/// Covers: H-40, H-53, F-034: integers and booleans.
fn number_rows() -> Vec<Row> {
    let mut rows = vec![
        row("missing", one("count", "42", "N", None), 400, HEADER),
        row("twice", with("{\"count\":42}", &[("N", "42"), ("N", "42")]), 400, HEADER),
        row("null without", one("count", "null", "N", None), 200, RESULT),
        row("null with", one("count", "null", "N", Some("null")), 400, HEADER),
        row("an object has no header", one("count", "{}", "N", None), 200, RESULT),
        row("an array has no header", one("count", "[1]", "N", None), 200, RESULT),
        row("an object, a header", one("count", "{}", "N", Some("{}")), 400, HEADER),
    ];
    for (value, header, fits) in [
        ("42", "42", true),
        ("42", "42.0", true),
        ("42.0", "42", true),
        ("42", "4.2e1", true),
        ("4.2e1", "42", true),
        ("-7", "-7", true),
        ("0", "-0", true),
        ("42", "=?base64?NDI=?=", true),
        ("42", "43", false),
        ("42", "42.5", false),
        ("42", "\"42\"", false),
        ("42", "forty-two", false),
        ("42", "", false),
        ("42", "0x2a", false),
        ("-7", "7", false),
        // Outside of what a double holds exactly: compared as written, never rounded.
        ("9007199254740993", "9007199254740993", true),
        ("9007199254740993", "9007199254740992", false),
        ("1152921504606846977", "1152921504606846976", false),
        ("1e400", "1e400", true),
        ("1e400", "1e401", false),
    ] {
        let (status, code) = if fits { (200, RESULT) } else { (400, HEADER) };
        rows.push(row(format!("{value} as {header}"), one("count", value, "N", Some(header)), status, code));
    }
    for (value, header, fits) in [
        ("true", "true", true),
        ("false", "false", true),
        ("true", "True", false),
        ("true", "1", false),
        ("false", "", false),
        ("true", "false", false),
        ("true", "=?base64?dHJ1ZQ==?=", true),
    ] {
        let (status, code) = if fits { (200, RESULT) } else { (400, HEADER) };
        rows.push(row(format!("{value} as {header}"), one("dry", value, "Dry", Some(header)), status, code));
    }
    rows
}

/// Covers: H-46, H-48, H-55, F-034: nested values, headers of nobody, names like those of the protocol.
fn other_rows() -> Vec<Row> {
    let deep = r#"{"deep":{"key":"v"}}"#;
    vec![
        row("nested", with(deep, &[("Method", "v")]), 200, RESULT),
        row("nested, missing", with(deep, &[]), 400, HEADER),
        row("nested, another", with(deep, &[("Method", "w")]), 400, HEADER),
        row("nested object absent", with("{}", &[("Method", "v")]), 400, HEADER),
        row("nested object is a string", with(r#"{"deep":"key"}"#, &[]), 200, RESULT),
        row("a header of nobody", with("{}", &[("Unknown", "1")]), 200, RESULT),
        row(
            "a header of nobody, twice and not ASCII",
            with("{}", &[("Unknown", "1"), ("Unknown", "ä")]),
            200,
            RESULT,
        ),
        row("an argument without annotation", with(r#"{"note":"x"}"#, &[("Note", "y")]), 200, RESULT),
        row(
            "all of them",
            with(
                r#"{"region":"eu","count":1,"dry":true,"deep":{"key":"k"}}"#,
                &[("Region", "eu"), ("N", "1"), ("Dry", "true"), ("Method", "k")],
            ),
            200,
            RESULT,
        ),
        row(
            "all but one",
            with(
                r#"{"region":"eu","count":1,"dry":true,"deep":{"key":"k"}}"#,
                &[("Region", "eu"), ("N", "1"), ("Dry", "true")],
            ),
            400,
            HEADER,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn h_52_annotated_arguments_are_what_their_headers_say() {
    let (server, gateway) = gateway().await;
    let rows: Vec<Row> = [string_rows(), number_rows(), other_rows()].into_iter().flatten().collect();
    let passed = rows.iter().filter(|row| row.passes()).count();
    judge(&gateway, rows).await;
    assert_eq!(server.requests("tools/call").len(), passed, "what was refused went no further");
    let rejected = gateway.metric("gatehouse_header_rejections_total", &[("header", "param")]).await;
    assert!(rejected > 0.0, "refusals by a parameter are counted");
    gateway.stop().await;
}

/// The rows of http.md's table of schemas: property, and whether the tool is valid.
const SCHEMAS: [(&str, &str, bool); 26] = [
    ("string", r#""a":{"type":"string","x-mcp-header":"A"}"#, true),
    ("nested", r#""o":{"type":"object","properties":{"a":{"type":"boolean","x-mcp-header":"A"}}}"#, true),
    ("nullable", r#""a":{"type":["integer","null"],"x-mcp-header":"A"}"#, true),
    ("all_tchars", r#""a":{"type":"string","x-mcp-header":"!#$%&'*+-.^_`|~09azAZ"}"#, true),
    ("no_annotation", r#""x-mcp-header":{"type":"string"}"#, true),
    ("default", r#""a":{"type":"object","default":{"x-mcp-header":"Z"}}"#, true),
    ("example", r#""a":{"type":"object","examples":[{"x-mcp-header":""}]}"#, true),
    ("constant", r#""a":{"const":{"x-mcp-header":""}},"b":{"enum":[{"x-mcp-header":1}]}"#, true),
    ("number", r#""a":{"type":"number","x-mcp-header":"A"}"#, false),
    ("array", r#""a":{"type":"array","x-mcp-header":"A"}"#, false),
    ("object", r#""a":{"type":"object","x-mcp-header":"A"}"#, false),
    ("null", r#""a":{"type":"null","x-mcp-header":"A"}"#, false),
    ("untyped", r#""a":{"x-mcp-header":"A"}"#, false),
    ("union", r#""a":{"type":["string","integer"],"x-mcp-header":"A"}"#, false),
    ("items", r#""a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#, false),
    ("any_of", r#""a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}"#, false),
    (
        "additional",
        r#""a":{"type":"object","additionalProperties":{"type":"string","x-mcp-header":"A"}}"#,
        false,
    ),
    (
        "twice",
        r#""a":{"type":"string","x-mcp-header":"Id"},"b":{"type":"string","x-mcp-header":"ID"}"#,
        false,
    ),
    ("empty", r#""a":{"type":"string","x-mcp-header":""}"#, false),
    ("space", r#""a":{"type":"string","x-mcp-header":"A B"}"#, false),
    ("colon", r#""a":{"type":"string","x-mcp-header":"A:B"}"#, false),
    ("not_ascii", r#""a":{"type":"string","x-mcp-header":"Über"}"#, false),
    ("tab", r#""a":{"type":"string","x-mcp-header":"A\t"}"#, false),
    ("slash", r#""a":{"type":"string","x-mcp-header":"A/B"}"#, false),
    ("no_string", r#""a":{"type":"string","x-mcp-header":7}"#, false),
    ("injection", r#""a":{"type":"string","x-mcp-header":"X\r\nEvil: 1"}"#, false),
];

fn schema_tool(name: &str, properties: &str, more: &str) -> String {
    format!(
        "{{\"name\":\"{name}\",\"inputSchema\":{{\"type\":\"object\",\"properties\":{{{properties}}}{more}}}}}"
    )
}

fn schema_tools() -> Vec<String> {
    let mut tools: Vec<String> = SCHEMAS.iter().map(|(name, text, _)| schema_tool(name, text, "")).collect();
    let defs = r#","$defs":{"X":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#;
    tools.push(schema_tool("defs", "", defs));
    tools.push(schema_tool("root", "", r#","x-mcp-header":"A""#));
    tools.push(schema_tool("authorization", r#""a":{"type":"string","x-mcp-header":"Authorization"}"#, ""));
    tools
}

fn names(list: &serde_json::Value) -> Vec<String> {
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Covers: H-45..H-51, F-098; conformance: sep-2243-x-mcp-header-*, sep-2243-client-reject-invalid-tool. One bad
/// tool costs itself only, and calls of it do not leave the gateway; a legacy server's keeps the tool (H-50).
#[tokio::test(flavor = "multi_thread")]
async fn h_49_tools_with_invalid_annotations_are_left_out() {
    let offer = Offer { tools: schema_tools(), ..Offer::default() }.fresh();
    let modern = Server::modern("m", offer.clone()).await;
    let legacy = Server::legacy("l", offer).await;
    let gateway = Setup::new().http("m", &modern.url(), "").http("l", &legacy.url(), "").start().await;
    let list = gateway.send(mcp("tools/list", "{}")).await.result();
    let shown = names(&list);
    let valid =
        SCHEMAS.iter().filter(|(_, _, valid)| *valid).map(|(name, ..)| *name).chain(["authorization"]);
    let valid: Vec<String> = valid.map(|name| format!("m_{name}")).collect();
    let of = |prefix: &str| shown.iter().filter(|name| name.starts_with(prefix)).cloned().collect::<Vec<_>>();
    assert_eq!(of("m_"), valid);
    assert_eq!(of("l_").len(), schema_tools().len(), "annotations mean nothing to a legacy server");
    let text = gateway.send(mcp("tools/list", "{}")).await.result_text();
    for word in ["Über", "Evil", "\"A B\"", "\"ID\""] {
        assert!(!text.contains(word), "an invalid annotation is shown: {word}");
    }
    for (name, _, valid) in SCHEMAS {
        let expected = if valid { RESULT } else { PARAMS };
        let reply = gateway.send(call(&format!("m_{name}"), "{}")).await;
        assert_eq!(reply.verdict(), (200, Some(expected)), "{name}");
    }
    // "Authorization" is a name like any other: it becomes Mcp-Param-Authorization.
    let secret = call("m_authorization", r#"{"a":"x"}"#).request().with("Mcp-Param-Authorization", "x");
    assert_eq!(gateway.send(secret).await.verdict(), (200, Some(RESULT)));
    let seen = modern.last_call();
    assert_eq!(
        (seen.header("mcp-param-authorization").as_deref(), seen.header("authorization")),
        (Some("x"), None)
    );
    gateway
        .log
        .wait("why a tool is left out", |line| line.contains("x-mcp-header") && line.contains("injection"))
        .await;
    gateway.stop().await;
}

/// Covers: F-098: nobody has listed yet, and yet the call is held against the schema.
#[tokio::test(flavor = "multi_thread")]
async fn f_098_a_call_without_a_list_before_is_checked() {
    let server = Server::modern("s", Offer::defined(&[TOOL])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    // JSON only, so that a slow first walk does not decide the status (H-16).
    let missing = call("s_t", r#"{"region":"eu"}"#).request().set("Accept", "application/json");
    assert_eq!(gateway.send(missing.clone()).await.verdict(), (400, Some(HEADER)));
    assert_eq!(gateway.send(missing.with("Mcp-Param-Region", "eu")).await.verdict(), (200, Some(RESULT)));
    gateway.stop().await;
}

/// Covers: H-52 policy, F-098: the annotation was renamed and nobody was told. A mismatch against a schema that is
/// not recent makes the list be fetched once; after that the schema is recent, and mismatches are refused.
#[tokio::test(flavor = "multi_thread")]
async fn h_52_a_mismatch_against_an_old_schema_refetches_it_once() {
    let server = Server::modern("s", Offer::defined(&[TOOL])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let lists = async || server.requests("tools/list").len();
    eventually("the first walk", async || lists().await == 1).await;
    server.offer(Offer::defined(&[&TOOL.replace("\"Region\"", "\"Zone\"")]));
    let of = |header: &str| one("region", "\"eu\"", header, Some("eu"));
    assert_eq!(gateway.send(of("Zone")).await.verdict(), (400, Some(HEADER)), "the schema is recent");
    assert_eq!(lists().await, 1);
    let age = async || gateway.metric("gatehouse_catalogue_age_seconds", &[("kind", "tools")]).await;
    eventually("the schema is 11 s old", async || age().await >= 11.0).await;
    assert_eq!(gateway.send(of("Region")).await.verdict(), (200, Some(RESULT)), "what fits asks nobody");
    assert_eq!(lists().await, 1);
    assert_eq!(gateway.send(of("Zone")).await.verdict(), (200, Some(RESULT)), "the new schema is found");
    assert_eq!(server.last_call().header("mcp-param-zone").as_deref(), Some("eu"));
    for _ in 0..3 {
        assert_eq!(gateway.send(of("Region")).await.verdict(), (400, Some(HEADER)), "the old one is over");
    }
    assert_eq!(lists().await, 2);
    gateway.stop().await;
}

/// Covers: H-63: the server refuses our headers, because its schema changed: its list is fetched anew and the call
/// repeated once with the headers of the new schema, under a new id. A second refusal is a result that says so.
#[tokio::test(flavor = "multi_thread")]
async fn h_63_a_server_that_refuses_our_headers_is_asked_for_its_list() {
    let server = Server::modern("s", Offer::defined(&[TOOL])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let renamed = TOOL.replace("\"Region\"", "\"Zone\"");
    let changed = Offer::defined(&[&renamed]);
    server.offer(changed);
    server.on("tools/call", |seen| match seen.header("mcp-param-zone") {
        Some(zone) => Answer::result(seen, &format!("{{\"content\":[],\"structuredContent\":\"{zone}\"}}")),
        None => Answer::error(seen, 400, -32020, "header mismatch"),
    });
    let lists = server.requests("tools/list").len();
    let request = call("s_t", r#"{"region":"eu"}"#).request().with("Mcp-Param-Region", "eu");
    let reply = gateway.send(request.clone()).await;
    assert_eq!(reply.result()["structuredContent"], "eu", "{reply:?}");
    assert_eq!(server.requests("tools/list").len(), lists + 1);
    let calls = server.requests("tools/call");
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].id(), calls[1].id());

    server.on("tools/call", |seen| Answer::error(seen, 400, -32020, "header mismatch"));
    let reply = gateway.send(request.set("Mcp-Param-Zone", "eu")).await;
    assert_eq!(reply.result()["isError"], true, "-32020 describes our hop and is not relayed: {reply:?}");
    assert_eq!(server.requests("tools/call").len(), 4);
    let labels = [("server", "s"), ("outcome", "internal")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 1.0);
    gateway.stop().await;
}
