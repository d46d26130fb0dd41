//! Tests of the configuration room.

use std::path::Path;

use super::{Config, Problem, Problems};

mod admin;
mod auth;
mod cluster;
mod credentials;
mod expansion;
mod files;
mod generated;
mod grants;
mod include;
mod limits;
mod reports;
mod rules;
mod servers;
mod typed;
mod warnings;

/// The environment of the tests.
fn env(name: &str) -> Option<String> {
    let value = match name {
        "TOKEN" => "s3cr3t-t0ken",
        "EMPTY" => "",
        "LINES" => "s3cr3t\nInjected: yes",
        "ODD" => r#"s3cr3t"'}$ ${TOKEN} \ #"#,
        "BAD" => "s3cr3t [ not anything",
        _ => return None,
    };
    Some(value.to_owned())
}

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse(text, Path::new(""), &env)
}

/// The configuration, which must be right.
fn config(text: &str) -> Config {
    parse(text).unwrap_or_else(|problems| panic!("{problems}\nin:\n{text}"))
}

/// The problems, of which there must be some. None of them ever shows the environment's secrets.
fn problems(text: &str) -> Vec<Problem> {
    let problems = parse(text).expect_err(text);
    assert!(!problems.to_string().contains("s3cr3t"), "{problems}");
    problems.iter().cloned().collect()
}

/// The only problem.
fn problem(text: &str) -> Problem {
    let mut all = problems(text);
    assert_eq!(all.len(), 1, "{all:#?}\nin:\n{text}");
    all.remove(0)
}

/// The only problem is about this key, on this line, and says so.
#[track_caller]
fn refuses(text: &str, line: usize, key: &str, says: &str) {
    let found = problem(text);
    let place = (found.line, found.key.as_str());
    assert_eq!(place, (line, key), "{found}\nin:\n{text}");
    assert!(found.to_string().contains(says), "{found}\ndoes not say {says:?}");
}

/// A key of `[gateway]` with this value is refused.
#[track_caller]
fn gateway_refuses(key: &str, value: &str, says: &str) {
    refuses(&format!("[gateway]\n\n{key} = {value}"), 3, &format!("gateway.{key}"), says);
}

/// A key of an HTTP server with this value is refused.
#[track_caller]
fn http_refuses(key: &str, value: &str, says: &str) {
    let text = format!("[[server]]\nname = \"a\"\nurl = \"https://a/mcp\"\n{key} = {value}");
    refuses(&text, 4, &format!("server \"a\".{key}"), says);
}

/// A key of a child process with this value is refused.
#[track_caller]
fn stdio_refuses(key: &str, value: &str, says: &str) {
    let text = format!("[[server]]\nname = \"a\"\ncommand = [\"x\"]\n{key} = {value}");
    refuses(&text, 4, &format!("server \"a\".{key}"), says);
}

/// An HTTP server of this name with more lines.
fn http(name: &str, more: &str) -> String {
    format!("[[server]]\nname = \"{name}\"\nurl = \"https://{name}/mcp\"\n{more}\n")
}
