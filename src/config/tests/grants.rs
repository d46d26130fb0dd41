//! `[[grant]]` and `[audit]` (design §3, §7).

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::super::grant::Test;
use super::super::{AuditArguments, AuditFile, Grant};
use super::{config, http, problem, refuses};

/// `[auth]` and a server, then a grant whose lines begin in line 8.
fn with(grant: &str) -> String {
    let auth = "[auth]\n[[auth.issuer]]\nissuer = \"https://id.example\"\n";
    format!("{auth}{}[[grant]]\n{grant}", http("a", "").trim_end().to_owned() + "\n")
}

fn grant(lines: &str) -> Grant {
    let mut config = config(&with(lines));
    assert_eq!(config.grants.len(), 1);
    config.grants.remove(0)
}

const ALL: &str = "servers = [\"*\"]\ntools = [\"*\"]";

#[test]
fn defaults() {
    let grant = grant(ALL);
    assert!(grant.to.is_none() && grant.scopes.is_empty() && grant.valid_until.is_none());
    assert!(grant.endpoints.is_match("/any") && grant.servers.is_match("any") && grant.tools.is_match("any"));
    assert!(!grant.prompts.is_match("any") && !grant.resources.is_match("any"));
    assert!(!grant.hide_without_scopes);
    assert_eq!(grant.place, "gatehouse.toml:7");
    assert_eq!(config("").grants, []);
}

#[test]
fn claims_are_paths_with_values() {
    let text = format!(
        "{ALL}\nto = {{ groups = [\"a\", \"b-*\"], realm_access.roles = \"dev\", \"https://x.y/z\" = true, level = 3 }}"
    );
    let rules = grant(&text).to.unwrap();
    let by_path = |path: &str| &rules.iter().find(|rule| rule.path == path).unwrap().wanted;
    assert_eq!(rules.len(), 4);
    assert_eq!(by_path("groups")[0].test, Test::Is(json!("a")));
    assert!(matches!(&by_path("groups")[1].test, Test::Like(globs) if globs.patterns() == ["b-*"]));
    assert_eq!(by_path("realm_access.roles")[0].test, Test::Is(json!("dev")));
    assert_eq!(by_path("https://x.y/z")[0].test, Test::Is(json!(true)));
    assert_eq!(by_path("level")[0].test, Test::Is(json!(3)));
}

#[test]
fn values_fit_exactly_unless_they_hold_a_star() {
    let test = |value: &str| {
        let to = grant(&format!("{ALL}\nto = {{ c = {value} }}")).to.unwrap();
        to[0].wanted[0].test.clone()
    };
    for (wanted, claim, fits) in [
        ("'a'", json!("a"), true),
        ("'a'", json!("A"), false),
        ("'a'", json!("ab"), false),
        ("'a'", json!(["x", "a"]), true),
        ("'a'", json!([]), false),
        ("'a'", json!([["a"]]), false),
        ("'a'", json!({ "a": 1 }), false),
        ("'a'", json!(null), false),
        ("'a?[b]'", json!("a?[b]"), true),
        ("'a?[b]'", json!("axb"), false),
        ("'team-*'", json!("team-x/y"), true),
        ("'team-*'", json!("my-team-x"), false),
        ("'*'", json!(""), true),
        ("'*'", json!(5), false),
        ("5", json!(5), true),
        ("5", json!("5"), false),
        ("'5'", json!(5), false),
        ("true", json!(true), true),
        ("true", json!("true"), false),
    ] {
        assert_eq!(test(wanted).fits(&claim), fits, "{wanted} {claim}");
    }
}

#[test]
fn what_came_from_the_environment_is_not_shown() {
    let to = grant(&format!("{ALL}\nto = {{ c = [\"${{TOKEN}}\", \"plain\"] }}")).to.unwrap();
    let shown: Vec<&str> = to[0].wanted.iter().map(|one| one.shown.as_str()).collect();
    assert_eq!(shown, ["a configured value", "\"plain\""]);
}

#[test]
fn a_grant_that_gives_nothing_is_a_mistake() {
    refuses(&with("servers = [\"*\"]"), 7, "grant[0]", "grants nothing");
    refuses(&with("tools = [\"*\"]"), 7, "grant[0].servers", "is missing");
    refuses(&with("servers = []\ntools = [\"*\"]"), 8, "grant[0].servers", "is empty");
    refuses(&with(&format!("{ALL}\nendpoints = []")), 10, "grant[0].endpoints", "is empty");
    refuses(&with(&format!("{ALL}\nto = {{}}")), 10, "grant[0].to", "names no claim");
    refuses(&with(&format!("{ALL}\nto = {{ a = [] }}")), 10, "grant[0].to.a", "no caller could fit");
    for wrong in ["1979-05-27", "[['x']]", "[{ b = 'x' }]"] {
        let found = problem(&with(&format!("{ALL}\nto = {{ a = {wrong} }}")));
        assert!(found.key.starts_with("grant[0].to.a"), "{found}");
    }
    refuses(&with(&format!("{ALL}\nto = \"all\"")), 10, "grant[0].to", "must be a table");
    refuses(&with(&format!("{ALL}\nscopes = [\"a b\"]")), 10, "grant[0].scopes[0]", "is not a scope");
    refuses(&with(&format!("{ALL}\nserver = []")), 10, "grant[0].server", "did you mean `servers`?");
}

#[test]
fn grants_need_auth() {
    refuses(&format!("[[grant]]\n{ALL}"), 1, "grant[0]", "grants need [auth]");
}

#[test]
fn valid_until_is_a_point_in_time() {
    let at = |text: &str| grant(&format!("{ALL}\nvalid_until = {text}")).valid_until.unwrap();
    let epoch = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    assert_eq!(at("1970-01-02T00:00:00Z"), epoch(86_400));
    assert_eq!(at("1970-01-02 01:00:00+01:00"), epoch(86_400));
    assert_eq!(at("2027-03-31T18:00:00Z"), epoch(1_806_516_000));
    for wrong in ["1979-05-27", "1979-05-27T07:32:00", "07:32:00"] {
        refuses(
            &with(&format!("{ALL}\nvalid_until = {wrong}")),
            10,
            "grant[0].valid_until",
            "is not a point in time",
        );
    }
    let text = with(&format!("{ALL}\nvalid_until = \"1979-05-27T07:32:00Z\""));
    refuses(&text, 10, "grant[0].valid_until", "without quotes");
}

/// The warnings about these lines of a grant, and of a second server.
fn doubts(lines: &str) -> Vec<String> {
    config(&with(lines)).warnings().iter().map(ToString::to_string).collect()
}

#[test]
fn doubts_about_grants() {
    let narrow = "servers = [\"a\"]\ntools = [\"get_*\"]";
    assert_eq!(doubts(narrow), [""; 0]);
    for (lines, says) in [
        (
            format!("{narrow}\nendpoints = [\"/x\", \"/mcp\"]"),
            "grant[0].endpoints: \"/x\" matches no endpoint",
        ),
        ("servers = [\"a\", \"b*\"]\ntools = [\"get_*\"]".to_owned(), "grant[0].servers: \"b*\" matches no"),
        (format!("{narrow}\nhide_without_scopes = true"), "grant[0].hide_without_scopes: has no effect"),
        (format!("{narrow}\nvalid_until = 1979-05-27T07:32:00Z"), "grant[0].valid_until: is over"),
        (
            "servers = [\"a\"]\ntools = [\"*\"]\nprompts = [\"*\"]".to_owned(),
            "server \"a\": every caller who gets in may use all its tools and prompts, by grant[0]",
        ),
    ] {
        let all = doubts(&lines);
        let [one] = &all[..] else { panic!("{all:#?}") };
        assert!(one.starts_with(says) && one.contains("gatehouse.toml:7"), "{one}");
    }
    for closed in ["to = { groups = \"x\" }", "scopes = [\"x\"]"] {
        assert_eq!(doubts(&format!("{ALL}\n{closed}")), [""; 0], "{closed}");
    }
}

#[test]
fn a_grant_whose_servers_are_elsewhere() {
    let text = with("servers = [\"a\"]\ntools = [\"get_*\"]\nendpoints = [\"/b\"]")
        + "\n[[endpoint]]\npath = \"/a\"\n[[endpoint]]\npath = \"/b\"\nservers = [\"b\"]\n"
        + &http("b", "");
    let all = config(&text).warnings();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(all[0].message.starts_with("none of these servers is shown"), "{all:#?}");
}

#[test]
fn a_subject_is_a_person_of_one_issuer() {
    let second = "[[auth.issuer]]\nissuer = \"https://other.example\"\n";
    let narrow = "servers = [\"a\"]\ntools = [\"get_*\"]\nto = { sub = \"alice\" }\n";
    assert_eq!(doubts(narrow), [""; 0]);
    let text = with(narrow) + second;
    let all = config(&text).warnings();
    assert_eq!((all.len(), all[0].key.as_str()), (1, "grant[0].to"), "{all:#?}");
    let text = text.replace("sub = \"alice\"", "sub = \"alice\", iss = \"https://id.example\"");
    assert_eq!(config(&text).warnings(), []);
}

#[test]
fn auth_without_grants_lets_everybody_do_everything() {
    let text = with("").replace("[[grant]]\n", "");
    let all = config(&text).warnings();
    assert_eq!((all.len(), all[0].key.as_str()), (1, "grant"), "{all:#?}");
}

#[test]
fn audit_goes_nowhere_to_a_file_or_to_standard_output() {
    let file = |text: &str| config(&format!("[audit]\nfile = {text}")).audit.file;
    assert_eq!(config("").audit.file, AuditFile::Off);
    assert_eq!(file("\"off\""), AuditFile::Off);
    assert_eq!(file("\"-\""), AuditFile::Stdout);
    assert_eq!(file("\"/var/log/a.jsonl\""), AuditFile::Path(PathBuf::from("/var/log/a.jsonl")));
    refuses("[audit]\nfile = \"\"", 2, "audit.file", "is empty");
    refuses("[audit]\narguments = \"some\"", 2, "audit.arguments", "must be one of \"none\"");
    refuses("[audit]\nstrict = true", 2, "audit.strict", "no log to wait for");
    refuses("[audit]\nshow = [\"a\"]", 2, "audit.show", "shows nothing");
    refuses("[audit]\narguments = \"masked\"\nshow = [\"a..b\"]", 3, "audit.show[0]", "no path of keys");
    let audit = config(
        "[audit]\nfile = \"a\"\narguments = \"masked\"\nshow = [\"path\", \"items.*.id\"]\nstrict = true",
    );
    assert_eq!((audit.audit.arguments, audit.audit.strict), (AuditArguments::Masked, true));
    assert_eq!(audit.audit.show, ["path", "items.*.id"]);
}
