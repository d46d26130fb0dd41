//! How problems are told: all of them, with file, line, key and a suggestion.

use std::path::Path;

use super::super::Config;
use super::{http, problem, problems, refuses};

#[test]
fn f_011_a_misspelt_key_names_key_line_and_the_nearest_known_one() {
    let text = http("github", "timeuot = \"3s\"");
    let found = problem(&text);
    assert_eq!(
        found.to_string(),
        "gatehouse.toml:4: server \"github\".timeuot: unknown key (did you mean `timeout`?)"
    );
    refuses("[gatway]\nlisten = \"1\"", 1, "gatway", "did you mean `gateway`?");
    refuses("[gateway]\nname = \"x\"\nlisten_on = \"y\"", 3, "gateway.listen_on", "`listen`");
    refuses("[[endpoint]]\npath = \"/a\"\nserver = [\"*\"]", 3, "endpoint \"/a\".server", "`servers`");
    refuses(&http("a", "tools.alow = []"), 4, "server \"a\".tools.alow", "`allow`");
    refuses(
        &http("a", "[server.tools.override.x]\ntimeot = \"1s\""),
        5,
        "server \"a\".tools.override.x.timeot",
        "`timeout`",
    );
    refuses(&http("a", "[server.credentials]\nkid = \"none\""), 5, "server \"a\".credentials.kid", "`kind`");
    refuses("[telemetry]\nlogs = \"info\"", 2, "telemetry.logs", "`log`");
    refuses("[gateway]\n\"odd key\\n\" = 1", 2, "gateway.\"odd key\\n\"", "unknown key");
}

#[test]
fn all_problems_come_in_one_report_with_their_lines() {
    let text = r#"[gateway]
listen = "localhost"
max_body = "4MB"
colour = "red"

[[server]]
name = "GitHub"
url = "ftp://a"
timeout = 15

[[server]]
name = "files"
command = "npx files"
tools.allow = ["a[", "b", 3]

[[server]]
name = "files"

[[endpoint]]
path = "mcp/"

[telemetry]
log_format = "yaml"
"#;
    let found = problems(text);
    let places: Vec<(usize, &str)> =
        found.iter().map(|problem| (problem.line, problem.key.as_str())).collect();
    let expected = [
        (2, "gateway.listen"),
        (3, "gateway.max_body"),
        (4, "gateway.colour"),
        (7, "server \"GitHub\".name"),
        (8, "server \"GitHub\".url"),
        (9, "server \"GitHub\".timeout"),
        (13, "server \"files\".command"),
        (14, "server \"files\".tools.allow[0]"),
        (14, "server \"files\".tools.allow[2]"),
        (16, "server \"files\""),
        (17, "server \"files\".name"),
        (20, "endpoint \"mcp/\".path"),
        (23, "telemetry.log_format"),
    ];
    assert_eq!(places, expected, "{found:#?}");
}

#[test]
fn the_report_is_one_line_a_problem_and_an_error() {
    let text = "[gateway]\nmax_depth = -1\nlisten = \"a\\nb\"\n\"x\\ny\" = 1";
    let problems = super::parse(text).unwrap_err();
    let report = problems.to_string();
    assert_eq!(report.lines().count(), 3, "{report}");
    assert_eq!(problems.len(), 3);
    assert_eq!(problems.iter().count(), (&problems).into_iter().count());
    assert!(
        report.starts_with("gatehouse.toml:2: gateway.max_depth: must be a whole number from 0\n"),
        "{report}"
    );
    let error: &dyn std::error::Error = &problems;
    assert_eq!(error.to_string(), report);
    let json = serde_json::to_value(&problems).unwrap();
    assert_eq!(json[0]["line"], 2);
    assert_eq!(json[0]["key"], "gateway.max_depth");
    assert_eq!(json[0]["file"], "gatehouse.toml");
}

#[test]
fn wrong_types_say_what_is_wanted_and_what_is_there() {
    refuses("gateway = 3", 1, "gateway", "must be a table, not an integer");
    refuses("[server]\nname = \"a\"", 1, "server", "must be an array of tables, [[server]], not a table");
    refuses("server = [3]", 1, "server[0]", "must be a table, not an integer");
    super::gateway_refuses("name", "1.5", "must be a string, not a float");
    super::gateway_refuses("strict_names", "\"yes\"", "must be true or false, not a string");
    super::gateway_refuses("max_depth", "\"10\"", "must be a whole number, not a string");
    super::gateway_refuses("max_body", "true", "must be a size, not a boolean");
    super::gateway_refuses("max_ttl", "15", "must be a duration in quotes, not an integer");
    super::gateway_refuses("allowed_hosts", "\"a\"", "must be an array of strings, not a string");
    super::gateway_refuses("keys", "{}", "must be an array of strings, not a table");
    super::gateway_refuses("state_dir", "2020-01-01", "must be a string, not a datetime");
    super::http_refuses("tools", "[]", "must be a table, not an array");
    super::http_refuses("tools.override", "3", "must be a table, not an integer");
    super::http_refuses("tools.override.x", "3", "must be a table, not an integer");
    super::stdio_refuses("env", "[]", "must be a table, not an array");
    let one_string = "[[server]]\nname = \"a\"\ncommand = \"npx -y x\"";
    refuses(one_string, 3, "server \"a\".command", "there is no shell");
}

#[test]
fn what_is_not_toml_is_told_with_its_lines() {
    refuses("[gateway]\nname = \n", 2, "", "is not TOML");
    let twice = problems("[gateway]\nname = \"a\"\nname = \"b\"\n");
    assert_eq!((twice[0].line, twice[0].key.as_str()), (3, "name"), "{twice:?}");
    let secret = problems("[gateway]\nkeys = [\"s3cr3t\nname = s3cr3t s3cr3t\n");
    assert!(secret.iter().all(|problem| problem.message.starts_with("is not TOML")), "{secret:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_one_problem() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.toml");
    let report = Config::load(&path).unwrap_err().to_string();
    assert_eq!(report, format!("{}: cannot be read: entity not found", path.display()));
    std::fs::write(&path, b"[gateway]\nname = \"\xff\"").unwrap();
    let report = Config::load(&path).unwrap_err().to_string();
    assert_eq!(report, format!("{}: is not UTF-8 in line 2", path.display()));
    assert!(Config::load(Path::new(dir.path())).is_err());
}

#[test]
fn load_reads_the_environment_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g.toml");
    std::fs::write(&path, "[gateway]\ntitle = \"${PATH}\"").unwrap();
    let config = Config::load(&path).unwrap();
    assert_eq!(config.gateway.title, std::env::var("PATH").ok());
}
