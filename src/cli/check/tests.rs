//! Tests of the check: what is found, and how it is told.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::live::{Contact, Listed};
use super::report::{Finding, Report, Severity};
use super::{exit_code, fill};
use crate::catalogue::hints::Hints;
use crate::catalogue::{Published, PublishedItem};
use crate::config::{Config, Problem};
use crate::outbound::Peer;
use crate::outbound::offer::Offer;
use crate::outbound::replica::{Replica, Ward};
use crate::protocol::version::{Era, MODERN};

mod endpoints;
mod servers;
mod text;

fn config(text: &str) -> Config {
    Config::parse(text, Path::new(""), &|_| None).unwrap_or_else(|problems| panic!("{problems}\nin:\n{text}"))
}

/// A list of which everything may be seen.
fn published(natives: &[&str]) -> Published {
    let item = |native: &&str| PublishedItem {
        native: (*native).into(),
        json: "{}".into(),
        said: "{}".into(),
        bindings: Arc::default(),
        timeout: None,
        ui: None,
        held: None,
        aids: None,
        checks: None,
    };
    let mut list = Published::new(Hints::NONE, true);
    list.items = natives.iter().map(item).collect();
    list
}

fn known(published: Published) -> Listed {
    Listed::Known(Arc::new(published))
}

fn listed(natives: &[&str]) -> Listed {
    known(published(natives))
}

/// A modern server that answered with these lists.
fn up(lists: [Listed; 4]) -> Contact {
    let offer = Offer {
        capabilities: json!({"tools": {"listChanged": true, "odd": false}, "logging": {}}),
        server_info: json!({"name": "a server", "version": "1.2", "title": 7}),
        ..Offer::default()
    };
    let breaker = crate::config::Breaker { failures: 0, open: Duration::ZERO };
    let gauge = |name| prometheus::IntGauge::new(name, "of nothing").unwrap();
    let peer = Peer {
        era: Era::Modern,
        version: MODERN.to_owned(),
        session: None,
        offer,
        connection: None,
        replica: Arc::new(Replica::new(None, &Ward::new(breaker, gauge("state"), gauge("up")))),
        running: Arc::default(),
    };
    Contact { peer: Ok(Arc::new(peer)), lists, took: Duration::from_millis(12) }
}

/// One that has tools only.
fn with_tools(natives: &[&str]) -> Contact {
    up([listed(natives), listed(&[]), listed(&[]), listed(&[])])
}

fn dead(reason: &str) -> Contact {
    let lists = std::array::from_fn(|_| Listed::Unasked);
    Contact { peer: Err(reason.to_owned()), lists, took: Duration::from_millis(3) }
}

/// The closed report of these answers.
fn report(config: &Config, contacts: &[Contact], strict: bool) -> Report {
    let mut report = Report::new("gatehouse.toml".into(), strict, false);
    fill(&mut report, config, Some(contacts));
    report.close();
    report
}

/// (severity, code) of each.
fn codes(findings: &[Finding]) -> Vec<(Severity, &'static str)> {
    findings.iter().map(|finding| (finding.severity, finding.code)).collect()
}

const TWO: &str = "[[server]]\nname = \"a\"\nurl = \"https://a.example/mcp\"\n\
                   [[server]]\nname = \"b\"\nurl = \"https://b.example/mcp\"\n";

#[test]
fn design9_exit_codes() {
    let config = config(TWO);
    let clean = || [with_tools(&["t"]), with_tools(&["t"])];
    let fine = report(&config, &clean(), false);
    assert_eq!((fine.summary.errors, fine.summary.warnings, exit_code(&fine)), (0, 0, 0));

    let answers = [with_tools(&["t"]), dead("gone")];
    let lenient = report(&config, &answers, false);
    assert_eq!((lenient.summary.errors, lenient.summary.warnings, exit_code(&lenient)), (0, 1, 0));
    let strict = report(&config, &answers, true);
    assert_eq!((strict.summary.errors, strict.summary.warnings, exit_code(&strict)), (1, 0, 1));

    let mut failed = report(&config, &clean(), false);
    failed.failure = Some("no".to_owned());
    failed.close();
    assert_eq!((failed.summary.errors, exit_code(&failed)), (1, 3));

    let mut wrong = Report::new("f".into(), false, false);
    let problem = Problem { file: "f".into(), line: 1, key: "k".into(), message: "m".into(), help: None };
    wrong.config.problems.push(problem);
    wrong.close();
    assert_eq!((wrong.summary.errors, exit_code(&wrong)), (1, 2));
}

#[test]
fn warnings_of_the_file_count_as_findings_do() {
    let config = config(&format!("{TWO}[gateway]\nallowed_hosts = [\"*\"]\n"));
    for (strict, errors, warnings) in [(false, 0, 1), (true, 1, 0)] {
        let mut report = Report::new("f".into(), strict, true);
        report.config.warnings = config.warnings();
        fill(&mut report, &config, None);
        report.close();
        assert_eq!((report.summary.errors, report.summary.warnings), (errors, warnings), "{strict}");
    }
}

#[test]
fn hints_are_no_errors_even_for_the_strict() {
    let names: Vec<String> = (0..31).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let report = report(&config(TWO), &[with_tools(&names), with_tools(&[])], true);
    assert_eq!((report.summary.hints, exit_code(&report)), (1, 0));
}

#[test]
fn the_document_has_the_members_it_is_documented_with() {
    let answers = [with_tools(&["t", "t"]), dead("gone")];
    let document = serde_json::to_value(report(&config(TWO), &answers, false)).unwrap();
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(keys(&document), "config endpoints failure servers summary");
    assert_eq!(keys(&document["config"]), "file problems warnings");
    assert_eq!(keys(&document["summary"]), "errors hints offline strict warnings");
    let server = &document["servers"][0];
    assert_eq!(
        keys(server),
        "capabilities era findings info name owner prompts reason required resources state target templates \
         took_ms tools version"
    );
    assert_eq!(keys(&server["tools"]), "allowed denied listed state");
    assert_eq!(keys(&server["info"]), "name title version");
    let endpoint = &document["endpoints"][0];
    assert_eq!(
        keys(endpoint),
        "dropped findings missing path prefix prompts resources servers templates tools"
    );
    assert_eq!(keys(&endpoint["tools"][0]), "changed length name native server");
    assert_eq!(keys(&endpoint["dropped"][0]), "kind native reason server");
    assert_eq!(keys(&endpoint["findings"][0]), "code message severity");
    assert_eq!(document["servers"][1]["state"], "dead");
    assert_eq!(document["endpoints"][0]["findings"][0]["severity"], "warning");
}
