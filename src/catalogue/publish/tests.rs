//! What of a list may be seen, and what is said about the rest.

use std::path::Path;

use super::Published;
use crate::catalogue::Fault;
use crate::catalogue::bindings::Reason;
use crate::catalogue::hints::Hints;
use crate::catalogue::walk::Walked;
use crate::config::{Config, Server};
use crate::protocol::items::Item;
use crate::protocol::method::Kind;

const HTTP: &str = "url = \"https://a.example/mcp\"";
const STDIO: &str = "command = [\"prog\"]";

fn server(keys: &str) -> Server {
    let text = format!("[[server]]\nname = \"a\"\n{keys}\n");
    Config::parse(&text, Path::new(""), &|_| None).unwrap_or_else(|e| panic!("{e}")).servers.remove(0)
}

fn walked(modern: bool, items: &[(&str, &str)]) -> Walked {
    let item = |(native, rest): &(&str, &str)| Item {
        native: (*native).into(),
        json: format!("{{\"name\":\"{native}\"{rest}}}").into(),
    };
    Walked { items: items.iter().map(item).collect(), modern, ..Walked::default() }
}

fn published(server: &Server, walked: Walked) -> Published {
    Published::from_walk(server, Kind::Tools, walked, Hints::NONE)
}

/// Annotated with a header name that has a space in it.
const BAD: &str =
    r#","inputSchema":{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"a b"}}}"#;

#[test]
fn h49_an_invalid_annotation_of_a_modern_http_server_costs_the_tool_and_is_a_fault() {
    let known = published(&server(HTTP), walked(true, &[("bad", BAD), ("good", "")]));
    assert_eq!(known.natives(), ["good"]);
    let [Fault::LeftOut { item, invalid }] = known.faults.as_slice() else { panic!("{:?}", known.faults) };
    assert_eq!((&**item, invalid.pointer.as_str(), invalid.reason), ("bad", "/properties/x", Reason::Name));
    let mut all: Vec<&str> = known.listed().collect();
    all.sort_unstable();
    assert_eq!(all, ["bad", "good"]);
}

#[test]
fn h50_elsewhere_the_annotation_is_removed_the_tool_stays_and_it_is_a_fault() {
    for (keys, modern) in [(HTTP, false), (STDIO, true), (STDIO, false)] {
        let known = published(&server(keys), walked(modern, &[("bad", BAD)]));
        assert_eq!(known.natives(), ["bad"]);
        assert!(!String::from_utf8_lossy(&known.items[0].json).contains("x-mcp-header"));
        let [Fault::Stripped { item, invalid }] = known.faults.as_slice() else {
            panic!("{:?}", known.faults)
        };
        assert_eq!((&**item, invalid.reason), ("bad", Reason::Name));
        assert_eq!(known.listed().collect::<Vec<_>>(), ["bad"], "listed once");
    }
}

#[test]
fn what_the_operator_hides_is_kept_by_name_and_never_looked_into() {
    let rules = format!(
        "{HTTP}\ntools.allow = [\"*_x\", \"off\"]\ntools.deny = [\"b_x\"]\ntools.override.off.enabled = false"
    );
    let known =
        published(&server(&rules), walked(true, &[("a_x", ""), ("b_x", BAD), ("c", BAD), ("off", "")]));
    assert_eq!(known.natives(), ["a_x"]);
    assert_eq!(known.hidden.iter().map(|name| &**name).collect::<Vec<_>>(), ["b_x", "c", "off"]);
    assert!(known.faults.is_empty() && known.is_whole());
    let prompts =
        Published::from_walk(&server(&rules), Kind::Prompts, walked(true, &[("off", "")]), Hints::NONE);
    assert_eq!(prompts.natives(), ["off"], "overrides are for tools");
}

#[test]
fn faults_of_the_list_itself_are_kept() {
    let walk = Walked { skipped: 3, cut: Some("list_max_pages"), ..walked(true, &[("t", "")]) };
    let known = published(&server(HTTP), walk);
    assert_eq!(known.faults, [Fault::Nameless(3), Fault::Cut { reason: "list_max_pages", items: 1 }]);
    assert!(!known.is_whole());
    let twice = published(&server(HTTP), walked(true, &[("t", r#","inputSchema":{},"inputSchema":{}"#)]));
    assert_eq!(twice.faults, [Fault::Unreadable { item: "t".into() }]);
}
