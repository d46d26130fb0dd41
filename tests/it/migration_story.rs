//! One tool from its first change to the day its old form can go, by the commands that an operator has (issue 7).

use serde_json::{Value, json};

use crate::migration::AIDS;
use crate::support::command::Folder;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::people::{KEY_DIGEST, with};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

/// The tool as it was, and as its server changes it one day: renamed, required, and with other words for a unit.
const YESTERDAY: &str = r#"{"name":"send_report","description":"Sends a report.","inputSchema":{"type":"object","properties":{
    "to":{"type":"string"},"unit":{"type":"string","enum":["C","F"]}},"required":["to"]}}"#;
const TODAY: &str = r#"{"name":"send_report","description":"Sends a report.","inputSchema":{"type":"object","properties":{
    "recipient":{"type":"string"},"format":{"type":"string","enum":["pdf","html"]},
    "unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["recipient","format"]}}"#;

const KEY: &str = "a-long-and-random-key";

/// What every configuration of the story has, for the commands and for the gateway.
fn rest(folder: &Folder, server: &Server, aids: &str) -> String {
    let lock = folder.path("gatehouse.lock").display().to_string();
    format!(
        "[contract]\nlock = {lock:?}\n[auth]\n[[auth.key]]\nname = \"nightly\"\nsha256 = \"{KEY_DIGEST}\"\n[[server]]\n\
         name = \"s\"\nurl = \"{}\"\ncontract = \"hold\"\nvalidate = \"input\"\n{aids}",
        server.url()
    )
}

fn gateway_lines(folder: &Folder) -> String {
    format!("state_dir = {:?}", folder.path("state").display().to_string())
}

/// The operator's file; nobody listens where it says, so the commands go by what is kept in `state_dir`.
fn configure(folder: &Folder, server: &Server, aids: &str) {
    let own = format!("[gateway]\nadmin_listen = \"127.0.0.1:1\"\n{}\n", gateway_lines(folder));
    folder.write("gatehouse.toml", &(own + &rest(folder, server, aids)));
}

async fn serve(folder: &Folder, server: &Server, aids: &str) -> Gateway {
    Setup::new().gateway(&gateway_lines(folder)).toml(&rest(folder, server, aids)).start().await
}

async fn said(gateway: &Gateway, tool: &str, arguments: &str) -> (bool, String) {
    let result = gateway.send(with(call(tool, arguments), KEY)).await.result();
    (result["isError"] == true, result["content"][0]["text"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_changes_and_nobody_who_calls_it_is_lost() {
    let server = Server::modern("s", Offer::defined(&[YESTERDAY]).stale()).await;
    let folder = Folder::new("");
    configure(&folder, &server, "");
    assert_eq!(folder.run(&["lock"]).await.0, 0);
    let gateway = serve(&folder, &server, "").await;
    let old = r#"{"to":"ann","unit":"F"}"#;
    assert_eq!(said(&gateway, "s_send_report", old).await, (false, "s:send_report".to_owned()));

    // The server changes. What was approved cannot be done any more, and nothing else was approved.
    server.offer(Offer::defined(&[TODAY]).stale());
    let (code, diff) = folder.json(&["diff"]).await;
    assert_eq!((code, &diff["worst"]), (1, &json!("breaking")), "{diff}");
    gateway.send(with(mcp("tools/list", "{}"), KEY)).await;
    let withdrawn = async || said(&gateway, "s_send_report", old).await.1.contains("withdrawn");
    eventually("the tool is withdrawn", withdrawn).await;
    gateway.stop().await;

    // The operator says what became of what, has it tested, and approves.
    configure(&folder, &server, AIDS);
    assert_eq!(folder.run(&["approve", "s/send_report"]).await.0, 0);
    let fixture = |arguments: &str, expect: Value| {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        json!({"arguments": arguments, "expect": expect}).to_string()
    };
    let now = json!({"recipient": "ann", "unit": "fahrenheit", "format": "pdf"});
    let counted = ["/name", "/arguments/to", "/arguments/unit#value", "/arguments/format#default"];
    folder.write(
        "contracts/s_send_report/old.json",
        &fixture(old, json!({"arguments": now, "deprecated": counted})),
    );
    folder.write(
        "contracts/s_deliver_report/new.json",
        &fixture(&now.to_string(), json!({"arguments": now, "deprecated": []})),
    );
    let both = json!({"error": {"text": "two names of the same thing"}, "deprecated": []});
    folder.write("contracts/s_deliver_report/both.json", &fixture(r#"{"to":"ann","recipient":"bob"}"#, both));
    let contracts = folder.path("contracts").display().to_string();
    let (code, tested) = folder.run(&["contract", "test", &contracts]).await;
    assert_eq!((code, tested.lines().last()), (0, Some("3 passed, 0 failed")), "{tested}");

    let gateway = serve(&folder, &server, AIDS).await;
    let sent =
        || serde_json::from_str::<Value>(&server.last_call().raw(&["params", "arguments"]).unwrap()).unwrap();
    assert!(!said(&gateway, "s_send_report", old).await.0);
    assert_eq!(sent(), now, "the old call works");
    let new = r#"{"recipient":"bob","format":"html"}"#;
    assert!(!said(&gateway, "s_deliver_report", new).await.0);
    assert_eq!(
        sent().to_string(),
        serde_json::from_str::<Value>(new).unwrap().to_string(),
        "the new one works"
    );
    let (refused, why) = said(&gateway, "s_deliver_report", r#"{"to":"ann","recipient":"bob"}"#).await;
    assert!(refused && why.contains("two names of the same thing"), "{why}");
    let (refused, why) = said(&gateway, "s_deliver_report", r#"{"format":"html"}"#).await;
    assert!(refused && why.contains("Give \"recipient\"."), "who gives neither is told by validation: {why}");

    // Somebody still uses it: it cannot go. The running gateway says so, and after its end its state does.
    let running = format!("http://{}/usage", gateway.admin);
    let (code, usage) = folder.json(&["diff", "--usage", "--from", &running]).await;
    assert_eq!((code, &usage["safe"]), (1, &json!(false)), "{usage}");
    let used = |usage: &Value| -> Vec<(String, Value)> {
        let paths = usage["paths"].as_array().unwrap().iter();
        let told =
            |path: &Value| (path["path"].as_str().unwrap().to_owned(), path["uses"][0]["client"].clone());
        paths.map(told).collect()
    };
    let nightly = |path: &str| (path.to_owned(), json!("nightly"));
    let mut expected: Vec<_> = counted.iter().map(|path| nightly(path)).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(used(&usage), expected);
    assert!(!usage.to_string().contains("ann") && !usage.to_string().contains("fahrenheit"), "never a value");
    gateway.stop().await;
    let (code, text) = folder.run(&["diff", "--usage"]).await;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("s/send_report /arguments/to: still used") && text.contains("1 × nightly"),
        "{text}"
    );

    // Counts go on after a restart; who was the last to use it has moved on for a year.
    let gateway = serve(&folder, &server, AIDS).await;
    said(&gateway, "s_send_report", old).await;
    gateway.stop().await;
    let kept = std::fs::read_to_string(folder.path("state/usage.json")).unwrap();
    let mut kept: Value = serde_json::from_str(&kept).unwrap();
    assert!(kept["uses"].as_array().unwrap().iter().all(|one| one["count"] == 2), "{kept}");
    let year = 365 * 24 * 60 * 60;
    kept["since"] = json!(kept["since"].as_u64().unwrap() - year);
    for one in kept["uses"].as_array_mut().unwrap() {
        one["last"] = json!(one["last"].as_u64().unwrap() - year);
    }
    folder.write("state/usage.json", &kept.to_string());
    assert_eq!(folder.run(&["diff", "--usage"]).await.0, 1, "used once is used");
    assert_eq!(folder.run(&["diff", "--usage", "--days", "400"]).await.0, 1, "not counted for so long");
    let (code, usage) = folder.json(&["diff", "--usage", "--days", "30"]).await;
    assert_eq!((code, &usage["safe"]), (0, &json!(true)), "{usage}");

    // So it goes; what a configuration no longer has and somebody used is told, too.
    configure(&folder, &server, "");
    assert_eq!(folder.run(&["diff", "--usage", "--days", "30"]).await.0, 0);
    let (code, usage) = folder.json(&["diff", "--usage"]).await;
    assert_eq!((code, &usage["paths"][0]["configured"]), (1, &json!(false)), "{usage}");
    let (code, tested) = folder.run(&["contract", "test", &contracts]).await;
    assert_eq!((code, tested.lines().last()), (1, Some("0 passed, 3 failed")), "{tested}");
}

/// `/usage` names clients: with `admin.token` it is for who has that, as the command has by its configuration.
#[tokio::test(flavor = "multi_thread")]
async fn uses_are_told_to_operators_only() {
    let token = "[admin]\ntoken = \"0123456789abcdef0123456789abcdef\"\n";
    let gateway = Setup::new().toml(token).start().await;
    assert_eq!(gateway.admin("/usage").await.status(), 401);
    let from = format!("http://{}/usage", gateway.admin);
    let folder = Folder::new("");
    let (code, said) = folder.run(&["diff", "--usage", "--from", &from]).await;
    assert!(code == 2 && said.contains("401"), "{said}");
    folder.write("gatehouse.toml", token);
    let (code, said) = folder.run(&["diff", "--usage", "--from", &from]).await;
    assert!(code == 0 && said.starts_with("0 of 0 deprecated paths are still used"), "{said}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_who_could_say_is_an_error_and_no_safety() {
    let folder = Folder::new("[gateway]\nadmin_listen = \"127.0.0.1:1\"\n");
    let (code, said) = folder.run(&["diff", "--usage"]).await;
    assert!(code == 2 && said.contains("--from"), "{said}");
    folder.write("odd.json", "{}");
    for source in ["odd.json", "none.json"] {
        let path = folder.path(source).display().to_string();
        assert_eq!(folder.run(&["diff", "--usage", "--from", &path]).await.0, 2);
    }
    let of = |since: u64, count: u64| {
        let one =
            json!({"server": "s", "tool": "t", "path": "/name", "client": "c", "count": count, "last": 5});
        json!({"since": since, "uses": [one]}).to_string()
    };
    folder.write("a.json", &of(3, 1));
    folder.write("b.json", &of(4, 2));
    let both = [folder.path("a.json").display().to_string(), folder.path("b.json").display().to_string()];
    let (code, usage) = folder.json(&["diff", "--usage", "--from", &both[0], "--from", &both[1]]).await;
    assert_eq!(
        (code, &usage["since"]),
        (1, &json!("1970-01-01T00:00:04Z")),
        "replicas are added up: {usage}"
    );
    assert_eq!(usage["paths"][0]["uses"][0]["count"], 3);
}
