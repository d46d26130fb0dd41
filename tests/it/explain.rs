//! `gatehouse explain` as a process: by claims and by credential, live and by the file alone.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::support::cast::{caller, key};

const CONFIG: &str = r#"
[gateway]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
[[server]]
name = "demo"
command = ["gatehouse", "demo", "--stdio"]
[[grant]]
to = { team = "dev" }
servers = ["demo"]
tools = ["add", "echo"]
[[grant]]
servers = ["demo"]
tools = ["sleep*", "fail*"]
scopes = ["demo:slow"]
"#;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{CONFIG}[auth]\n{}", caller("ci", "team = [\"dev\"]"));
    std::fs::write(folder.path().join("gatehouse.toml"), config).unwrap();
    folder
}

/// Exit code and standard output.
fn explain(folder: &Path, options: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_gatehouse"))
        .current_dir(folder)
        .arg("explain")
        .args(options)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8_lossy(&stderr));
    for said in [&*out, &*err] {
        assert!(!said.contains("s3cr3t") && !said.contains("key-of-"), "{said}");
    }
    (status.code().unwrap_or_else(|| panic!("ended by a signal: {err}")), out + &err)
}

#[track_caller]
fn says(answer: &(i32, String), code: i32, parts: &[&str]) {
    assert_eq!(answer.0, code, "{}", answer.1);
    for part in parts {
        assert!(answer.1.contains(part), "{part:?} is not in\n{}", answer.1);
    }
}

#[test]
fn by_claims_against_the_servers() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("dev.json"), r#"{"team":"dev"}"#).unwrap();
    std::fs::write(folder.join("hr.json"), r#"{"team":"s3cr3t","sub":"s3cr3t"}"#).unwrap();
    let ask = |options: &[&str]| explain(folder, options);
    let answer = ask(&["--claims", "dev.json", "--tool", "demo_add"]);
    says(
        &answer,
        0,
        &[
            "allowed: tool \"demo_add\" (server \"demo\", there \"add\") on /mcp",
            "by grant[0] (gatehouse.toml:",
        ],
    );
    let answer = ask(&["--claims", "hr.json", "--tool", "demo_add"]);
    says(&answer, 1, &["denied: ", "the claim `team` must be \"dev\", and is not"]);
    let answer = ask(&["--claims", "dev.json", "--tool", "demo_none"]);
    says(&answer, 1, &["denied: /mcp has no tool \"demo_none\""]);
    let answer = ask(&["--claims", "dev.json"]);
    says(&answer, 0, &["allowed: something on /mcp", "  demo_add by grant[0]"]);
    assert!(!answer.1.contains("no answer"), "{}", answer.1);
}

#[test]
fn by_a_credential_that_is_verified() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("good"), key("ci") + "\n").unwrap();
    std::fs::write(folder.join("bad"), "s3cr3t").unwrap();
    let ask = |file: &str, tool: &str| explain(folder, &["--offline", "--token-file", file, "--tool", tool]);
    says(&ask("good", "demo/echo"), 0, &["by grant[0]"]);
    says(
        &ask("good", "demo/sleep"),
        1,
        &["denied, shown in lists", "grant[1]", "the scope demo:slow is not held"],
    );
    says(&ask("bad", "demo/echo"), 1, &["denied at the door of /mcp", "reason `unknown`"]);
}

#[test]
fn usage_is_exit_code_2() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("dev.json"), r#"{"team":"dev"}"#).unwrap();
    std::fs::write(folder.join("odd.json"), "[\"s3cr3t\"]").unwrap();
    let ask = |options: &[&str]| explain(folder, options);
    says(&ask(&["--offline"]), 2, &["--claims", "--token-file"]);
    says(&ask(&["--offline", "--claims", "dev.json", "--token-file", "x"]), 2, &[]);
    says(&ask(&["--offline", "--claims", "none.json"]), 2, &["none.json cannot be read"]);
    says(&ask(&["--offline", "--claims", "odd.json"]), 2, &["must be a JSON object"]);
    says(&ask(&["--offline", "--claims", "dev.json", "--endpoint", "/x"]), 2, &["must be one of /mcp"]);
    says(&ask(&["--config", "none.toml", "--claims", "dev.json"]), 2, &["none.toml"]);
}
