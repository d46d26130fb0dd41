//! Findings about one server.

use serde_json::json;

use super::super::live::Listed;
use super::super::report::{ListState, ServerPart, ServerState, Severity};
use super::super::servers::{asked, unasked};
use super::{codes, config, dead, known, listed, published, up, with_tools};
use crate::catalogue::Fault;
use crate::catalogue::bindings::{Invalid, Reason};
use crate::config::Config;

/// A configuration of one server with these keys.
fn one(keys: &str) -> Config {
    config(&format!("[[server]]\nname = \"a\"\nurl = \"https://a.example:8443/p4th?k=s3cr3t\"\n{keys}"))
}

fn messages(part: &ServerPart) -> String {
    part.findings.iter().map(|finding| format!("{} {:?}\n", finding.message, finding.help)).collect()
}

#[test]
fn a_dead_server_is_a_warning_and_a_required_one_an_error() {
    for (keys, severity) in [("", Severity::Warning), ("required = true", Severity::Error)] {
        let part = asked(&one(keys).servers[0], &dead("the process ended"));
        assert_eq!((part.state, part.reason.as_deref()), (ServerState::Dead, Some("the process ended")));
        assert_eq!(codes(&part.findings), [(severity, "dead")]);
        assert!(part.findings[0].message.contains("the process ended"));
    }
}

#[test]
fn what_a_server_says_of_itself_is_shown_and_where_it_is_without_secrets() {
    let part = asked(&one("").servers[0], &with_tools(&["t"]));
    assert_eq!(
        (part.state, part.era, part.version.as_deref()),
        (ServerState::Up, Some("modern"), Some("2026-07-28"))
    );
    let info = part.info.clone().unwrap();
    assert_eq!(
        (info.name.as_deref(), info.version.as_deref(), info.title),
        (Some("a server"), Some("1.2"), None)
    );
    assert_eq!(part.capabilities, Some(json!({"tools": {"listChanged": true, "odd": false}, "logging": {}})));
    assert_eq!((part.target.as_str(), part.took_ms), ("https://a.example:8443", Some(12)));
    let shown = serde_json::to_string(&part).unwrap();
    assert!(!shown.contains("s3cr3t") && !shown.contains("p4th"), "{shown}");

    let stdio = config("[[server]]\nname = \"a\"\ncommand = [\"/bin/prog\", \"--key=s3cr3t\"]\n");
    let part = unasked(&stdio.servers[0]);
    assert_eq!((part.target.as_str(), part.state), ("/bin/prog", ServerState::Unasked));
    assert!(!serde_json::to_string(&part).unwrap().contains("s3cr3t"));
}

#[test]
fn lists_are_counted_as_allowed_denied_and_left_out() {
    let invalid = Invalid { pointer: "/properties/x".to_owned(), reason: Reason::Name };
    let mut tools = published(&["seen", "mended"]);
    tools.hidden = vec!["gone".into(), "away".into(), "off".into()];
    tools.faults = vec![
        Fault::LeftOut { item: "bad".into(), invalid: invalid.clone() },
        Fault::Stripped { item: "mended".into(), invalid },
        Fault::Unreadable { item: "twice".into() },
        Fault::Nameless(4),
        Fault::Cut { reason: "list_max_pages", items: 9 },
    ];
    let mut none = published(&[]);
    none.offered = false;
    let answers = up([known(tools), known(none), Listed::Failed("no answer within 5s".into()), listed(&[])]);
    let part = asked(&one("").servers[0], &answers);
    assert_eq!((part.tools.listed, part.tools.allowed, part.tools.denied), (7, 2, 3));
    let states = [part.tools.state, part.prompts.state, part.resources.state, part.templates.state];
    assert_eq!(states, [ListState::Listed, ListState::None, ListState::Failed, ListState::Listed]);
    let expected = [
        "annotation_left_out",
        "annotation_stripped",
        "item_unreadable",
        "item_nameless",
        "list_cut",
        "list_failed",
    ];
    assert_eq!(codes(&part.findings), expected.map(|code| (Severity::Warning, code)));
    let told = messages(&part);
    for needle in [
        "\"bad\"",
        "\"mended\"",
        "/properties/x",
        "no header name",
        "\"twice\"",
        ": 4",
        "list_max_pages",
        "9",
        "5s",
    ] {
        assert!(told.contains(needle), "{needle} in {told}");
    }
}

#[test]
fn a_list_that_a_required_server_does_not_give_is_an_error() {
    let answers = || up([Listed::Failed("late".into()), listed(&[]), listed(&[]), listed(&[])]);
    let part = asked(&one("required = true").servers[0], &answers());
    assert_eq!(codes(&part.findings), [(Severity::Error, "list_failed")]);
}

#[test]
fn patterns_that_match_nothing_are_told_with_the_nearest_name() {
    let rules = "tools.allow = [\"*\", \"serch\", \"get_*\"]\ntools.deny = [\"del_*\", \"drop\"]\n\
                 tools.override.get_thng.name = \"x\"\ntools.override.search.name = \"y\"\n\
                 prompts.allow = [\"*\"]\nprompts.deny = [\"nope\"]\n\
                 resources.allow = [\"file://*\", \"db://*\", \"web://*\"]\n";
    let mut tools = published(&["search", "get_thing"]);
    tools.hidden = vec!["drop".into()];
    let answers = up([known(tools), listed(&["p"]), listed(&["file:///a"]), listed(&["db://{x}"])]);
    let part = asked(&one(rules).servers[0], &answers);
    let told = messages(&part);
    let expected =
        ["pattern_unused", "pattern_unused", "pattern_unused", "pattern_unused", "override_unused"];
    assert_eq!(codes(&part.findings), expected.map(|code| (Severity::Warning, code)), "{told}");
    for needle in [
        "tools.allow: \"serch\"",
        "nearest name is \\\"search\\\"",
        "tools.deny: \"del_*\"",
        "prompts.deny: \"nope\"",
        "resources.allow: \"web://*\"",
        "tools.override.\"get_thng\"",
        "nearest name is \\\"get_thing\\\"",
    ] {
        assert!(told.contains(needle), "{needle} in {told}");
    }
}

#[test]
fn patterns_are_not_judged_by_lists_that_are_not_whole() {
    let rules = "tools.allow = [\"x\"]\ntools.override.x.name = \"y\"\nresources.deny = [\"z\"]\n";
    let mut cut = published(&["a"]);
    cut.faults = vec![Fault::Cut { reason: "list_max_bytes", items: 1 }];
    let answers = up([known(cut), listed(&[]), listed(&[]), Listed::Failed("late".into())]);
    let part = asked(&one(rules).servers[0], &answers);
    assert_eq!(codes(&part.findings), [(Severity::Warning, "list_cut"), (Severity::Warning, "list_failed")]);
    let part = asked(&one(rules).servers[0], &dead("gone"));
    assert_eq!(codes(&part.findings), [(Severity::Warning, "dead")]);
}
