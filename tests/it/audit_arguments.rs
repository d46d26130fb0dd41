//! What the audit log tells of arguments, and calls that wait for their lines (`audit.arguments`, `show`, `strict`).

use std::path::Path;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::Session;
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};

/// `region` is mirrored in a header.
const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},"note":{"type":"string"}}}}"#;

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn lines(path: &Path) -> Vec<Value> {
    text(path).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn bench(file: &Path, audit: &str, more: &str) -> (Server, Gateway) {
    let mut offer = Offer::defined(&[TOOL]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new()
        .toml(&format!("[audit]\nfile = \"{}\"\n{audit}\n{more}", file.display()))
        .http("s", &server.url(), "")
        .start()
        .await;
    (server, gateway)
}

#[tokio::test(flavor = "multi_thread")]
async fn masked_tells_shapes_and_only_chosen_values() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let audit = "arguments = \"masked\"\nshow = [\"note\", \"deep.*.id\"]";
    let (server, gateway) = bench(&file, audit, "").await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let arguments = r#"{"region":"hidden-eu","note":"seen","list":["hidden-1",2],"deep":{"a":{"id":1.0,"x":"hidden-2"}}}"#;
    let mirrored = |value: &str| call("s_t", arguments).request().with("Mcp-Param-Region", value);
    assert_eq!(gateway.send(mirrored("hidden-eu")).await.status(), 200);
    // Refused, and its header as well says what is masked.
    assert_eq!(gateway.send(mirrored("hidden-us")).await.status(), 400);
    assert_eq!(gateway.send(call("no_such", r#"{"hidden":false}"#)).await.code(), Some(-32602));
    gateway.send(mcp("prompts/get", r#"{"name":"s_p","arguments":{"note":"seen"}}"#)).await;
    gateway.send(session.call("2", "s_t", arguments)).await;
    gateway.send(mcp("tools/call", r#"{"name":"s_t"}"#)).await;
    let log = gateway.stop().await;
    let told = |line: &Value| {
        let keys = ["outcome", "tool", "prompt", "shape", "shown", "arguments", "arguments_cut"];
        Value::from(keys.map(|key| line[key].clone()).to_vec())
    };
    let shape = json!({"region": "string", "note": "string", "list": ["string", "number"],
                       "deep": {"a": {"id": "number", "x": "string"}}});
    let shown = json!({"note": "seen", "deep.a.id": 1.0});
    let expected = [
        json!(["ok", "s_t", null, shape, shown, null, null]),
        json!(["header_mismatch", "s_t", null, shape, shown, null, null]),
        json!(["bad_request", "no_such", null, {"hidden": "boolean"}, null, null, null]),
        json!(["ok", null, "s_p", {"note": "string"}, {"note": "seen"}, null, null]),
        json!(["ok", "s_t", null, shape, shown, null, null]),
        json!(["ok", "s_t", null, null, null, null, null]),
    ];
    let found = lines(&file);
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expected);
    assert!(found.iter().all(|line| line["request"].is_u64()), "{found:?}");
    assert!(!text(&file).contains("hidden-") && !log.text().contains("hidden-"), "{}", text(&file));
    assert_eq!(server.requests("tools/call").len(), 3);
}

/// What came inside a `call_tool` is told as what it is.
#[tokio::test(flavor = "multi_thread")]
async fn masked_sees_the_call_inside_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let search = "[[endpoint]]\npath = \"/mcp\"\ndiscovery = \"search\"";
    let (_server, gateway) = bench(&file, "arguments = \"masked\"\nshow = [\"note\"]", search).await;
    let inner = r#"{"name":"s_t","arguments":{"note":"seen"}}"#;
    assert_eq!(gateway.send(call("call_tool", inner)).await.status(), 200);
    gateway.send(call("search_tools", r#"{"query":"hidden"}"#)).await;
    gateway.stop().await;
    let found = lines(&file);
    assert_eq!((&found[0]["tool"], &found[0]["shape"]), (&json!("s_t"), &json!({"note": "string"})));
    assert_eq!(found[0]["shown"], json!({"note": "seen"}));
    assert_eq!(
        (&found[1]["tool"], &found[1]["shape"]),
        (&json!("search_tools"), &json!({"query": "string"}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn full_is_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let (_server, gateway) = bench(&file, "arguments = \"full\"", "").await;
    let arguments = "{\"n\": 1.0, \"big\":1152921504606846977,\n \"s\":\"a\\nb\\u0041\",\"dup\":1,\"dup\":2}";
    gateway.send(call("s_t", arguments)).await;
    let large = format!("{{\"note\":\"{}\"}}", "x".repeat(100_000));
    gateway.send(call("s_t", &large)).await;
    gateway.stop().await;
    let log = text(&file);
    let [first, second] = &log.lines().collect::<Vec<_>>()[..] else { panic!("{log}") };
    assert!(first.contains(&format!("\"arguments\":{}", arguments.replace('\n', " "))), "{first}");
    let second: Value = serde_json::from_str(second).unwrap();
    assert_eq!(second["shape"], json!({"note": "string"}));
    assert_eq!((&second["arguments"], &second["arguments_cut"]), (&Value::Null, &json!(true)));
}

/// When the answer is there, so is the line.
#[tokio::test(flavor = "multi_thread")]
async fn strict_answers_when_the_line_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let (_server, gateway) = bench(&file, "strict = true", "").await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    for number in 1..=20 {
        let request: Request = match number % 2 {
            0 => session.call(&number.to_string(), "s_t", "{}"),
            _ => call("s_t", "{}").into(),
        };
        assert_eq!(gateway.send(request).await.status(), 200);
        assert_eq!(lines(&file).len(), number);
    }
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &[("outcome", "ok")]).await, 20.0);
    gateway.stop().await;
    assert_eq!(lines(&file).len(), 20);
}

/// What cannot be told is not answered, and from then on not done, until it can be told again.
#[tokio::test(flavor = "multi_thread")]
async fn strict_refuses_what_cannot_be_told() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let file = inner.join("audit.jsonl");
    let (server, gateway) = bench(&file, "strict = true", "").await;
    let send = async || gateway.send(call("s_t", "{}")).await;
    assert_eq!(send().await.code(), None);
    std::fs::remove_dir_all(&inner).unwrap();
    eventually("a call is refused", async || send().await.code() == Some(-32603)).await;
    let (made, refused) = (server.requests("tools/call").len(), send().await);
    assert_eq!(refused.code(), Some(-32603), "{refused:?}");
    assert!(refused.text().contains("audit log"), "{refused:?}");
    assert_eq!(server.requests("tools/call").len(), made, "it was not done");
    assert!(gateway.metric("gatehouse_tool_calls_total", &[("outcome", "internal")]).await >= 2.0);
    assert!(gateway.metric("gatehouse_audit_dropped_total", &[]).await >= 2.0);
    // What says nothing of anybody's use is served.
    assert_eq!(gateway.send(mcp("tools/list", "{}")).await.status(), 200);
    std::fs::create_dir(&inner).unwrap();
    eventually("calls are answered again", async || send().await.code().is_none()).await;
    let outcomes: Vec<Value> = lines(&file).iter().map(|line| line["outcome"].clone()).collect();
    assert!(outcomes.contains(&json!("ok")), "{outcomes:?}");
    gateway.stop().await;
}

/// Without `strict` a disk that is full costs lines, which are counted, and no call.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_lines_and_no_call() {
    let (_server, gateway) = bench(Path::new("/dev/full"), "", "").await;
    for _ in 0..3 {
        assert_eq!(gateway.send(call("s_t", "{}")).await.status(), 200);
    }
    gateway.metric_becomes("gatehouse_audit_dropped_total", &[], 3.0).await;
    let log = gateway.stop().await;
    assert_eq!(log.find(|line| line.contains("audit log cannot be written")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_nothing_are_refused() {
    for (audit, says) in [
        ("file = \"a\"\nshow = [\"a\"]", "audit.show"),
        ("file = \"a\"\narguments = \"masked\"\nshow = [\"a..b\"]", "audit.show"),
        ("strict = true", "audit.strict"),
        ("file = \"a\"\narguments = \"some\"", "audit.arguments"),
    ] {
        let (code, said) = Setup::new().toml(&format!("[audit]\n{audit}")).refused().await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(says), "{audit}: {said}");
    }
}
