//! Doubts that need what the servers offer.

use super::super::doubts::{Stock, audit_rules};
use super::*;

const TWO: &str = "[[endpoint]]\npath = \"/a\"\n[[endpoint]]\npath = \"/b\"\nservers = [\"wiki\"]\n\
                   [[server]]\nname = \"git\"\ncommand = [\"x\"]\n[[server]]\nname = \"wiki\"\ncommand = [\"x\"]\n";

fn doubts(grants: &str, stocks: &[Stock<'_>]) -> Vec<String> {
    let config = Config::parse(&format!("{AUTH}{TWO}{grants}"), Path::new(""), &|_| None).unwrap();
    let found = audit_rules(&Policy::new(&config.grants), &config.endpoints, stocks);
    found.iter().map(ToString::to_string).collect()
}

fn stocks() -> [Stock<'static>; 2] {
    let git = vec![(Kind::Tools, "get"), (Kind::Tools, "push"), (Kind::Prompts, "review")];
    let wiki = vec![(Kind::Tools, "find"), (Kind::Resources, "wiki://a")];
    [Stock { server: "git", items: Some(git) }, Stock { server: "wiki", items: Some(wiki) }]
}

#[test]
fn patterns_that_match_nothing() {
    let all = "[[grant]]\nservers = [\"*\"]\ntools = [\"*\"]\n";
    let some = "[[grant]]\nservers = [\"git\"]\ntools = [\"get\", \"got_*\"]\nprompts = [\"*\", \"find\"]\n";
    let found = doubts(&format!("{all}{some}"), &stocks());
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("grant[1].tools: \"got_*\" matches nothing"), "{found:#?}");
    assert!(found[1].starts_with("grant[1].prompts: \"find\" matches nothing"), "{found:#?}");
}

#[test]
fn addresses_under_a_template_are_not_missed() {
    let grants = "[[grant]]\nservers = [\"wiki\"]\ntools = [\"*\"]\nresources = [\"wiki://z/9\"]\n\
                  [[grant]]\nservers = [\"git\"]\ntools = [\"*\"]\n";
    assert_eq!(doubts(grants, &stocks()).len(), 1);
    let [git, mut wiki] = stocks();
    wiki.items.as_mut().unwrap().push((Kind::Templates, "wiki://{space}/{page}"));
    assert_eq!(doubts(grants, &[git, wiki]), [""; 0]);
}

#[test]
fn nothing_is_said_of_servers_that_did_not_answer() {
    let [git, _] = stocks();
    let silent = Stock { server: "wiki", items: None };
    let grants = "[[grant]]\nservers = [\"*\"]\ntools = [\"none_such\", \"get\", \"push\"]\n";
    assert_eq!(doubts(grants, &[git, silent]), [""; 0]);
}

#[test]
fn tools_that_nobody_may_use() {
    let grants = "[[grant]]\nservers = [\"git\"]\ntools = [\"get\"]\n\
                  [[grant]]\nservers = [\"git\"]\ntools = [\"push\"]\nendpoints = [\"/b\"]\n\
                  [[grant]]\nservers = [\"wiki\"]\ntools = [\"find\"]\nendpoints = [\"/b\"]\n";
    let found = doubts(grants, &stocks());
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert!(one.contains("nobody may use these tools") && one.ends_with("\"push\""), "{one}");
    assert_eq!(doubts("", &stocks()), [""; 0]);
}
