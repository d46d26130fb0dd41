//! How a report is told to people.

use serde_json::json;

use super::super::report::Report;
use super::super::text::{Style, harmless_json, render};
use super::{TWO, config, dead, listed, published, report, up, with_tools};
use crate::config::Problem;

const PLAIN: Style = Style { colour: false };

#[test]
fn a_table_is_aligned_and_says_why_names_changed() {
    let answers = [with_tools(&["a.b", "long_name"]), with_tools(&["t"])];
    let text = render(&report(&config(TWO), &answers, false), PLAIN);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  tool ")).collect();
    assert_eq!(rows.len(), 3, "{text}");
    // The length ends in the same column everywhere, and the server stands right of it.
    let columns = rows.iter().map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let end = |word: &str| row.find(&format!(" {word}  ")).map(|at| at + 1 + word.len());
        (end(words[2]), row.find(&format!("  {}  ", words[3])))
    });
    let columns: Vec<_> = columns.collect();
    assert!(columns[0].0.is_some() && columns.iter().all(|column| *column == columns[0]), "{text}");
    assert!(rows[0].contains("hash: characters") && rows[1].ends_with("long_name"), "{text}");
    assert!(text.ends_with("gatehouse.toml: 0 errors, 0 warnings\n"), "{text}");
}

#[test]
fn servers_and_lists_are_summed_up() {
    let mut tools = published(&["t"]);
    tools.hidden = vec!["u".into(), "v".into()];
    let answers = [
        up([super::known(tools), listed(&["p"]), listed(&[]), super::Listed::Failed("late".into())]),
        dead("gone"),
    ];
    let text = render(&report(&config(TWO), &answers, false), PLAIN);
    for line in [
        "server a: up, modern 2026-07-28, a server 1.2, https://a.example, 12 ms",
        "  offers     logging, tools (listChanged)",
        "  tools      3, 1 allowed, 2 denied",
        "  prompts    1",
        "  templates  failed: late",
        "server b: dead, https://b.example, 3 ms",
        "endpoint /mcp: 1 tool, 1 prompt, 0 resources, 0 templates; missing: a, b",
        "warning: server \"a\": templates: the list is not to be had: late",
        "warning: server \"b\": does not answer: gone",
        "gatehouse.toml: 0 errors, 2 warnings",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nin:\n{text}");
    }
}

#[test]
fn colour_is_for_terminals_and_changes_nothing_else() {
    let report = report(&config(TWO), &[with_tools(&["t"]), dead("gone")], true);
    let (plain, coloured) = (render(&report, PLAIN), render(&report, Style { colour: true }));
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}[1;31merror\u{1b}[0m"), "{coloured}");
    let mut bare = coloured.clone();
    for code in ["0", "1", "32", "31", "1;31", "1;33", "1;36"] {
        bare = bare.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(bare, plain);
    assert!(plain.contains("1 error, 0 warnings"), "{plain}");
}

#[test]
fn nothing_a_server_says_reaches_the_terminal_as_a_command() {
    let evil = "x\u{1b}[2J\u{9b}\u{202e}\r\nerror: forged";
    let face =
        "[gateway]\nstrict_names = false\n[[endpoint]]\npath = \"/a\"\nservers = [\"a\"]\nprefix = false";
    let mut contact = with_tools(&[evil, evil]);
    if let Ok(peer) = &mut contact.peer {
        let peer = std::sync::Arc::get_mut(peer).unwrap();
        peer.offer.server_info = json!({"name": evil, "version": evil});
        peer.offer.capabilities = json!({evil: {evil: true}});
        peer.version = evil.to_owned();
    }
    let report = report(&config(&format!("{face}\n{TWO}")), &[contact, dead(evil)], false);
    let text = render(&report, PLAIN);
    let forbidden = |text: &str| text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r']);
    assert!(!forbidden(&text), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("error: forged")), "{text}");

    let json = serde_json::to_string_pretty(&report).unwrap();
    let harmless = harmless_json(&json);
    assert!(forbidden(&json) && !forbidden(&harmless), "{harmless:?}");
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&harmless), value(&json));
}

#[test]
fn problems_of_the_file_and_a_failed_start_are_told() {
    let mut wrong = Report::new("f.toml".into(), false, false);
    for line in [3, 7] {
        let problem = Problem {
            file: "f.toml".into(),
            line,
            key: "gateway.listn".into(),
            message: "is unknown".into(),
            help: Some("did you mean `listen`?".into()),
        };
        wrong.config.problems.push(problem);
    }
    wrong.close();
    assert_eq!(
        render(&wrong, PLAIN),
        "error: f.toml:3: gateway.listn: is unknown (did you mean `listen`?)\n\
         error: f.toml:7: gateway.listn: is unknown (did you mean `listen`?)\n\
         f.toml: 2 errors, 0 warnings\n"
    );
    let mut failed = Report::new("f.toml".into(), false, false);
    failed.failure = Some("no certificate".to_owned());
    failed.close();
    assert_eq!(
        render(&failed, PLAIN),
        "error: could not start: no certificate\nf.toml: 1 error, 0 warnings\n"
    );
}
