//! The audit log through the process: one line for every use and every denial, also across a rotation and at the end.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::cast::{ask, caller};
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::inside::Inside;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

const GRANTS: &str = "[[grant]]\nto = { team = \"dev\" }\nservers = [\"s\"]\ntools = [\"*\"]\nresources = [\"x://a\"]\n\
                      [[grant]]\nservers = [\"s\"]\ntools = [\"locked\"]\nscopes = [\"b\", \"a\"]";

fn lines(path: &Path) -> Vec<Value> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn bench(folder: &Path, grants: &str) -> (Server, Gateway) {
    let mut offer = Offer::tools(&["open", "locked"]);
    offer.resources = vec![r#"{"uri":"x://a","name":"a"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let file = folder.join("audit.jsonl");
    let gateway = Setup::new()
        .toml(&format!("[audit]\nfile = \"{}\"", file.display()))
        .toml(grants)
        .http("s", &server.url(), "")
        .start()
        .await;
    (server, gateway)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_use_and_every_denial_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let callers = [caller("ann", "team = \"dev\""), caller("bob", "team = \"hr\"")].concat();
    let (_server, gateway) = bench(folder.path(), &format!("[auth]\n{callers}{GRANTS}")).await;
    let trace = "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"";
    let secret = call("s_open", r#"{"password":"s3cr3t"}"#).meta("traceparent", trace);
    let size = secret.text().len();
    let reply = ask(&gateway, "ann", secret).await;
    let first_id: u64 = reply.header("x-request-id").unwrap().parse().unwrap();
    ask(&gateway, "bob", call("s_open", "{}")).await;
    ask(&gateway, "bob", call("s_locked", "{}")).await;
    ask(&gateway, "bob", call("no_such", "{}")).await;
    ask(&gateway, "ann", mcp("resources/read", r#"{"uri":"x://a"}"#)).await;
    ask(&gateway, "bob", mcp("resources/read", r#"{"uri":"x://a"}"#)).await;
    // Looking around is no use.
    ask(&gateway, "bob", mcp("tools/list", "{}")).await;
    ask(&gateway, "bob", mcp("server/discover", "{}")).await;
    let file = folder.path().join("audit.jsonl");
    assert_eq!(gateway.metric("gatehouse_audit_dropped_total", &[]).await, 0.0);
    gateway.stop().await;
    let found = lines(&file);
    let told = |line: &Value| {
        let keys = ["subject", "method", "server", "tool", "uri", "native", "grant", "scopes", "outcome"];
        Value::from(keys.map(|key| line[key].clone()).to_vec())
    };
    let expected = [
        json!(["ann", "tools/call", "s", "s_open", null, "open", 0, null, "ok"]),
        json!(["bob", "tools/call", "s", "s_open", null, "open", null, null, "denied"]),
        json!(["bob", "tools/call", "s", "s_locked", null, "locked", 1, ["b", "a"], "denied"]),
        json!(["bob", "tools/call", null, "no_such", null, null, null, null, "bad_request"]),
        json!(["ann", "resources/read", "s", null, "x://a", null, 0, null, "ok"]),
        json!(["bob", "resources/read", "s", null, "x://a", null, null, null, "denied"]),
    ];
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expected);
    let first = &found[0];
    assert_eq!(first["principal"], "key:ann");
    assert_eq!(first["client"], "ann");
    assert_eq!(first["endpoint"], "/mcp");
    assert_eq!(first["request"], first_id);
    assert_eq!(first["request_bytes"], size);
    assert_eq!(first["trace"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(
        first["millis"].as_f64().unwrap() > 0.0 && first["result_bytes"].as_u64().unwrap() > 0,
        "{first}"
    );
    assert!(first["time"].as_str().unwrap().ends_with('Z'), "{first}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains("s3cr3t"), "arguments are not kept");
}

/// Covers: A-11, issue 4: somebody known who lacks the scopes everybody needs is named, though nobody read what was asked.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_turned_away_at_the_door_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let people = [caller("ann", "scope = \"mcp:use\""), caller("bob", "scope = \"other\"")].concat();
    let auth = format!(
        "[auth]\nrequired_scopes = [\"mcp:use\", \"a\"]\nscope_implies = {{ \"mcp:use\" = [\"a\"] }}\n{people}"
    );
    let (server, gateway) = bench(folder.path(), &auth).await;
    let id: u64 = {
        let reply = ask(&gateway, "bob", call("s_open", r#"{"password":"s3cr3t"}"#)).await;
        assert_eq!(reply.status(), 403);
        reply.header("x-request-id").unwrap().parse().unwrap()
    };
    assert_eq!(ask(&gateway, "bob", mcp("tools/list", "{}")).await.status(), 403);
    // Of these nobody knows who they are.
    assert_eq!(gateway.send(call("s_open", "{}")).await.status(), 401);
    assert_eq!(ask(&gateway, "eve", call("s_open", "{}")).await.status(), 401);
    assert_eq!(ask(&gateway, "ann", call("s_open", "{}")).await.status(), 200);
    gateway.stop().await;
    let found = lines(&folder.path().join("audit.jsonl"));
    let told = |line: &Value| {
        json!([line["subject"], line["method"], line["outcome"], line["scopes"], line["endpoint"]])
    };
    let denied = json!(["bob", "other", "denied", ["mcp:use", "a"], "/mcp"]);
    let used = json!(["ann", "tools/call", "ok", null, "/mcp"]);
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), [denied.clone(), denied, used]);
    assert_eq!((found[0]["request"].clone(), found[0]["principal"].clone()), (json!(id), json!("key:bob")));
    assert_eq!(server.requests("tools/call").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_log_is_opened_anew_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (server, gateway) = bench(folder.path(), "").await;
    let (file, old) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl.1"));
    gateway.send(call("s_open", "{}")).await;
    eventually("a line", async || lines(&file).len() == 1).await;
    std::fs::rename(&file, &old).unwrap();
    eventually("a line in a new file", async || {
        gateway.send(call("s_open", "{}")).await;
        !lines(&file).is_empty()
    })
    .await;
    gateway.stop().await;
    let both = [lines(&old), lines(&file)].concat();
    assert_eq!(both.len(), server.requests("tools/call").len());
    assert!(both.iter().all(|line| line["subject"] == "anonymous" && line["outcome"] == "ok"), "{both:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_opened_is_no_start() {
    let setup = Setup::new().toml("[audit]\nfile = \"/proc/none/audit.jsonl\"");
    let (code, said) = setup.refused().await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("audit.file"), "{said}");
}

/// A configuration that is taken up may put the log elsewhere, or do without; what cannot be opened changes nothing.
#[tokio::test]
async fn a_log_can_be_put_elsewhere_while_calls_come() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::modern("s", Offer::tools(&["open"])).await;
    let setup = |file: &str| {
        let file = match file {
            "off" => file.to_owned(),
            _ => folder.path().join(file).display().to_string(),
        };
        Setup::new().toml(&format!("[audit]\nfile = \"{file}\"")).http("s", &server.url(), "")
    };
    let gateway = Inside::start(setup("a")).await;
    for (next, fails) in [("a", false), ("b", false), ("none/c", true), ("off", false), ("d", false)] {
        gateway.send(call("s_open", "{}")).await;
        let failed = gateway.reload(&setup(next)).await;
        assert_eq!(failed.is_some(), fails, "{next}: {failed:?}");
        assert!(failed.is_none_or(|why| why.contains("audit.file")));
    }
    gateway.send(call("s_open", "{}")).await;
    gateway.stop().await;
    let count = |file: &str| lines(&folder.path().join(file)).len();
    // Two before it moved to b; one there, and one more after c could not be had; none while it was off; the last in d.
    assert_eq!((count("a"), count("b"), count("d")), (2, 2, 1));
    assert_eq!(server.requests("tools/call").len(), 6);
}
