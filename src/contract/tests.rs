//! Tests of the room: the corpus of changes, the corpus of descriptions, and what must hold of any schema.

use serde::Deserialize;
use serde_json::Value;

use super::{Class, Finding, Side, classify, classify_schema, worst};

mod descriptions;
mod dice;
mod lock;
mod property;
mod verdict;

/// One pair of the corpus, written by hand.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    name: String,
    /// Which side; files of one side leave it out.
    side: Option<String>,
    class: String,
    /// The rule that must be among the findings of that class; `*`: any.
    rule: String,
    /// Why that is the class.
    why: String,
    old: Value,
    new: Value,
}

fn pairs(text: &str) -> Vec<Pair> {
    serde_json::from_str(text).unwrap()
}

/// What is wrong about a judgement, if anything.
fn wrong(pair: &Pair, found: &[Finding]) -> Option<String> {
    assert!(!pair.why.is_empty());
    let class = worst(found);
    let rule = pair.rule == "*" || found.iter().any(|one| one.class == class && one.rule == pair.rule);
    (class.as_str() != pair.class || !rule || found.is_empty())
        .then(|| format!("{}: wanted {} by {}, got {class}: {found:#?}", pair.name, pair.class, pair.rule))
}

fn all_schema_pairs() -> Vec<(Side, Pair)> {
    let input = pairs(include_str!("../../tests/fixtures/contract/input.json"));
    let output = pairs(include_str!("../../tests/fixtures/contract/output.json"));
    let composed = pairs(include_str!("../../tests/fixtures/contract/composition.json"));
    let side = |pair: &Pair| if pair.side.as_deref() == Some("output") { Side::Output } else { Side::Input };
    let input = input.into_iter().map(|pair| (Side::Input, pair));
    let output = output.into_iter().map(|pair| (Side::Output, pair));
    input.chain(output).chain(composed.into_iter().map(|pair| (side(&pair), pair))).collect()
}

#[test]
fn the_corpus_of_schemas_is_classified_as_json_schema_means_it() {
    let all = all_schema_pairs();
    assert!(all.len() >= 120, "{} pairs", all.len());
    let judged = |(side, pair): &(Side, Pair)| {
        wrong(pair, &classify_schema(&pair.old, &pair.new, *side, "/inputSchema"))
    };
    let wrong: Vec<String> = all.iter().filter_map(judged).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn the_corpus_of_definitions_is_classified() {
    let all = pairs(include_str!("../../tests/fixtures/contract/definitions.json"));
    let wrong: Vec<String> =
        all.iter().filter_map(|pair| wrong(pair, &classify(&pair.old, &pair.new))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn nothing_changed_is_no_finding_and_every_change_is_one() {
    for (side, pair) in all_schema_pairs() {
        assert!(classify_schema(&pair.old, &pair.old, side, "").is_empty(), "{}", pair.name);
        let found = classify_schema(&pair.new, &pair.old, side, "");
        assert!(!found.is_empty(), "{} backwards", pair.name);
        for one in found {
            assert!(!one.message.is_empty() && !one.rule.is_empty());
        }
    }
}

#[test]
fn classes_are_ordered_from_harmless_to_worst() {
    let all = [Class::Compatible, Class::Conditional, Class::Undecidable, Class::Breaking, Class::Suspicious];
    assert!(all.is_sorted());
}
