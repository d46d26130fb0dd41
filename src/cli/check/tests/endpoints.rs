//! What endpoints show, and findings about it.

use super::super::endpoints::asked;
use super::super::live::Contact;
use super::super::report::{EndpointPart, Severity};
use super::{TWO, codes, config, dead, listed, up, with_tools};

/// The first endpoint over servers `a` and `b`.
fn endpoint(more: &str, contacts: &[Contact]) -> EndpointPart {
    let config = config(&format!("{more}\n{TWO}"));
    asked(&config, &config.endpoints[0], contacts)
}

/// (exposed, server, native, changed) of the tools.
fn tools(part: &EndpointPart) -> Vec<(&str, &str, &str, Option<&str>)> {
    part.tools.iter().map(|n| (&*n.name, n.server.as_str(), &*n.native, n.changed)).collect()
}

#[test]
fn names_are_listed_with_server_native_name_and_length_in_characters() {
    let part = endpoint("[gateway]\nstrict_names = false", &[with_tools(&["ä_é"]), with_tools(&["t"])]);
    assert_eq!(tools(&part), [("a_ä_é", "a", "ä_é", None), ("b_t", "b", "t", None)]);
    assert_eq!(part.tools.iter().map(|n| n.length).collect::<Vec<_>>(), [5, 3]);
    assert_eq!((part.path.as_str(), part.prefix), ("/mcp", true));
    assert_eq!(part.servers, ["a", "b"]);
    assert!(part.findings.is_empty() && part.missing.is_empty());
}

#[test]
fn a_changed_name_says_why_and_is_no_finding() {
    let long = "l".repeat(70);
    let part = endpoint("", &[with_tools(&["a.b", &long]), with_tools(&[])]);
    let changed: Vec<_> = part.tools.iter().map(|n| n.changed).collect();
    assert_eq!(changed, [Some("characters"), Some("length")]);
    assert_eq!(part.tools[1].length, 64);
    assert!(part.findings.is_empty(), "{:?}", part.findings);
}

#[test]
fn a_name_in_the_space_of_another_server_is_a_clash_also_while_that_one_is_down() {
    let servers = "[[server]]\nname = \"bare\"\nprefix = \"\"\nurl = \"https://c.example/mcp\"\n\
                   [[server]]\nname = \"x\"\nurl = \"https://x.example/mcp\"\n\
                   [server.tools.override]\nnative = { name = \"other\" }\n";
    let config = config(servers);
    let part = asked(&config, &config.endpoints[0], &[with_tools(&["x_t", "t"]), dead("gone")]);
    assert_eq!(part.tools[0].changed, Some("foreign"));
    assert_eq!(codes(&part.findings), [(Severity::Warning, "name_clash")]);
    assert!(part.findings[0].message.contains("\"x_t\" of server \"bare\""), "{:?}", part.findings);
    assert_eq!(part.missing, ["x"]);

    let part = asked(&config, &config.endpoints[0], &[with_tools(&[]), with_tools(&["native", "other"])]);
    assert_eq!(part.tools.iter().map(|n| n.changed).collect::<Vec<_>>(), [None, Some("taken")]);
    assert_eq!(codes(&part.findings), [(Severity::Warning, "name_clash")]);
}

#[test]
fn what_is_dropped_is_named_and_told_once_for_all() {
    let twice = ["t", "t", "u", "u"];
    let uris = |uris: &[&str]| up([listed(&[]), listed(&[]), listed(uris), listed(uris)]);
    let part = endpoint("", &[with_tools(&twice), with_tools(&[])]);
    assert_eq!(tools(&part).len(), 2);
    assert!(part.dropped.iter().all(|d| (d.kind, &*d.server, d.reason) == ("tools", "a", "duplicate")));
    assert_eq!(part.dropped.len(), 2);
    assert_eq!(codes(&part.findings), [(Severity::Warning, "name_duplicate")]);

    let many: Vec<String> = (0..7).map(|n| format!("x:{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let part = endpoint("", &[uris(&many), uris(&many)]);
    assert_eq!((part.resources, part.templates, part.dropped.len()), (7, 7, 14));
    assert!(part.dropped.iter().all(|d| (&*d.server, d.reason) == ("b", "taken")));
    assert_eq!(codes(&part.findings), [(Severity::Warning, "uri_taken"); 2]);
    assert!(part.findings[0].message.contains("\"x:4\" and 2 more"), "{}", part.findings[0].message);
}

#[test]
fn without_prefix_names_are_untouched_doubles_stay_and_long_ones_are_told() {
    let face = "[[endpoint]]\npath = \"/a\"\nservers = [\"a\"]\nprefix = false";
    let long = "l".repeat(65);
    let part = endpoint(face, &[with_tools(&["t.t", "t.t", &long]), with_tools(&["never"])]);
    assert_eq!(part.servers, ["a"]);
    assert_eq!(tools(&part)[..2], [("t.t", "a", "t.t", None); 2]);
    assert_eq!(part.tools.len(), 3);
    assert_eq!(
        codes(&part.findings),
        [(Severity::Warning, "name_duplicate"), (Severity::Warning, "name_long")]
    );
    let message = &part.findings[1].message;
    assert!(message.contains(&long) && message.contains("64"), "{message}");

    let exact = "e".repeat(64);
    let part = endpoint(face, &[with_tools(&[&exact]), with_tools(&[])]);
    assert!(part.findings.is_empty(), "{:?}", part.findings);
}

#[test]
fn more_than_thirty_tools_are_a_hint() {
    let names: Vec<String> = (0..31).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let part = endpoint("", &[with_tools(&names[..30]), with_tools(&[])]);
    assert!(part.findings.is_empty());
    let part = endpoint("", &[with_tools(&names[..30]), with_tools(&["one"])]);
    assert_eq!(codes(&part.findings), [(Severity::Hint, "many_tools")]);
    assert!(part.findings[0].message.contains("31"));
}
