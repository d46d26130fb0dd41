//! Verdicts by the file alone; the servers' answers are for the process tests.

use std::path::Path;

use serde_json::json;

use super::*;

const FILE: &str = r#"
[auth]
required_scopes = ["use"]
scope_implies = { all = ["use"] }
[[auth.issuer]]
issuer = "https://id.example"
[[server]]
name = "git"
command = ["x"]
tools.deny = ["secret"]
[[server]]
name = "wiki"
command = ["x"]
[[endpoint]]
path = "/mcp"
[[endpoint]]
path = "/git"
servers = ["git"]
[[grant]]
to = { groups = ["dev"] }
servers = ["git"]
tools = ["*"]
[[grant]]
servers = ["wiki"]
tools = ["put"]
scopes = ["wiki:write"]
[[grant]]
to = { groups = ["ask"] }
servers = ["wiki"]
prompts = ["ask*"]
resources = ["wiki://open/**"]
"#;

fn config(text: &str) -> Config {
    Config::parse(text, Path::new(""), &|_| None).unwrap()
}

/// The answer to a question about an endpoint of the file.
fn told(claims: serde_json::Value, path: &str, tool: Option<&str>) -> Answer {
    about(claims, path, tool.map(|name| Item { kind: Kind::Tools, name }))
}

/// The same for an item of any kind.
fn about(claims: serde_json::Value, path: &str, item: Option<Item<'_>>) -> Answer {
    let config = config(FILE);
    let auth = config.auth.as_ref().unwrap();
    let caller = Principal::supposed(claims.as_object().unwrap().clone(), auth);
    let endpoint = endpoint(&config, Some(path)).unwrap();
    let case = Case { policy: Policy::new(&config.grants), caller: Some(&caller), endpoint };
    offline(&case, &config, item)
}

#[track_caller]
fn says(answer: &Answer, exit: u8, parts: &[&str]) {
    assert_eq!(answer.exit, exit, "{}", answer.text);
    for part in parts {
        assert!(answer.text.contains(part), "{:?} is not in\n{}", part, answer.text);
    }
    assert!(!answer.text.contains("s3cr3t"), "{}", answer.text);
}

#[test]
fn a_tool_and_the_grant_that_gives_it() {
    let answer = told(json!({ "groups": ["dev"] }), "/mcp", Some("git/push"));
    says(&answer, 0, &["allowed: tool \"push\" of server \"git\" on /mcp", "by grant[0] (gatehouse.toml:"]);
}

#[test]
fn what_the_nearest_grant_lacks() {
    let answer = told(json!({ "groups": ["s3cr3t"] }), "/mcp", Some("git/push"));
    says(
        &answer,
        1,
        &["denied: ", "the nearest is grant[0]", "- the claim `groups` must be \"dev\", and is not"],
    );
    let answer = told(json!({}), "/mcp", Some("wiki/put"));
    says(&answer, 1, &["denied, shown in lists: ", "grant[1]", "- the scope wiki:write is not held"]);
    let answer = told(json!({ "scope": "wiki:write" }), "/mcp", Some("wiki/put"));
    says(&answer, 0, &["by grant[1]"]);
}

#[test]
fn what_no_grant_could_give() {
    let dev = || json!({ "groups": "dev" });
    says(&told(dev(), "/mcp", Some("git/secret")), 1, &["hides \"secret\" from all"]);
    says(&told(dev(), "/mcp", Some("none/x")), 1, &["there is no server \"none\""]);
    says(&told(dev(), "/git", Some("wiki/put")), 1, &["/git does not show server \"wiki\""]);
    says(&told(dev(), "/mcp", Some("git_push")), 2, &["SERVER/NAME"]);
}

#[test]
fn without_a_tool_whether_there_is_anything() {
    says(&told(json!({ "groups": "dev" }), "/mcp", None), 0, &["allowed: something on /mcp", "grant[0]"]);
    says(&told(json!({}), "/mcp", None), 1, &["denied, shown in lists: something", "grant[1]"]);
}

#[test]
fn without_auth_or_grants_everything_is_allowed() {
    let config = config("[[server]]\nname = \"git\"\ncommand = [\"x\"]\n");
    let endpoint = endpoint(&config, None).unwrap();
    let case = Case { policy: Policy::new(&[]), caller: None, endpoint };
    says(
        &offline(&case, &config, Some(Item { kind: Kind::Tools, name: "git/x" })),
        0,
        &["without [auth] nobody is asked"],
    );
    let auth = crate::config::Auth { issuers: Vec::new(), ..config_auth() };
    let caller = Principal::supposed(serde_json::Map::new(), &auth);
    let case = Case { caller: Some(&caller), ..case };
    says(
        &offline(&case, &config, Some(Item { kind: Kind::Tools, name: "git/x" })),
        0,
        &["there is no [[grant]]"],
    );
}

fn config_auth() -> crate::config::Auth {
    config(FILE).auth.unwrap()
}

#[test]
fn an_endpoint_is_named_unless_there_is_one_only() {
    let two = config(FILE);
    assert!(endpoint(&two, None).is_none() && endpoint(&two, Some("/nowhere")).is_none());
    assert_eq!(&*endpoint(&two, Some("/git")).unwrap().path, "/git");
    assert_eq!(&*endpoint(&config(""), None).unwrap().path, "/mcp");
}

#[test]
fn prompts_and_resources() {
    let of = |kind, name| about(json!({ "groups": "ask" }), "/mcp", Some(Item { kind, name }));
    says(
        &of(Kind::Prompts, "wiki/ask-me"),
        0,
        &["allowed: prompt \"ask-me\" of server \"wiki\"", "grant[2]"],
    );
    says(&of(Kind::Prompts, "wiki/other"), 1, &["denied", "its `prompts` do not name it"]);
    says(&of(Kind::Resources, "wiki/wiki://open/a/b"), 0, &["resource \"wiki://open/a/b\""]);
    says(&of(Kind::Resources, "wiki/wiki://shut"), 1, &["denied", "its `resources` do not name it"]);
    says(&of(Kind::Resources, "wiki"), 2, &["--resource is SERVER/NAME"]);
}
