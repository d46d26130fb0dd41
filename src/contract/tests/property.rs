//! Whatever is called compatible is: held against a validator that is not ours, on generated schemas and instances.

use serde_json::Value;

use super::dice::Dice;
use super::{all_schema_pairs, pairs};
use crate::contract::{Class, Side, classify_schema, worst};

/// Changes judged; instances tried of each.
const CHANGES: u64 = 2500;
const INSTANCES: usize = 60;

struct Judged {
    compatible: usize,
    held: usize,
}

/// Instances of the one schema that must be instances of the other, if the change is compatible.
fn hold(old: &Value, new: &Value, side: Side, dice: &mut Dice, judged: &mut Judged) {
    let found = classify_schema(old, new, side, "");
    assert_eq!(found.is_empty(), old == new, "silent about {old} and {new}");
    if worst(&found) > Class::Compatible {
        return;
    }
    let (from, to) = if side == Side::Input { (old, new) } else { (new, old) };
    let (Ok(valid), Ok(wanted)) = (jsonschema::validator_for(from), jsonschema::validator_for(to)) else {
        return;
    };
    judged.compatible += 1;
    for _ in 0..INSTANCES {
        let instance = dice.instance(from, from, 0);
        if !valid.is_valid(&instance) {
            continue;
        }
        judged.held += 1;
        assert!(
            wanted.is_valid(&instance),
            "called compatible for {side:?}, but {instance} is no longer valid\nold {old}\nnew {new}\n{found:#?}"
        );
    }
}

fn changes(side: Side, offset: u64) {
    let mut judged = Judged { compatible: 0, held: 0 };
    for seed in 0..CHANGES {
        let mut dice = Dice::new(seed + offset);
        let old = dice.root();
        let new = dice.changed(&old);
        hold(&old, &new, side, &mut dice, &mut judged);
    }
    // A judge who calls everything dangerous would pass, and be useless.
    assert!(judged.compatible > CHANGES as usize / 20, "{} of {CHANGES} compatible", judged.compatible);
    assert!(judged.held > judged.compatible * 5, "{} instances of {}", judged.held, judged.compatible);
}

#[test]
fn no_instance_valid_before_is_invalid_after_a_compatible_change_of_input() {
    changes(Side::Input, 0);
}

#[test]
fn no_result_possible_after_a_compatible_change_of_output_was_impossible_before() {
    changes(Side::Output, 1 << 32);
}

#[test]
fn unrelated_schemas_are_judged_soundly_too() {
    let mut judged = Judged { compatible: 0, held: 0 };
    for seed in 0..CHANGES {
        let mut dice = Dice::new(seed + (2 << 32));
        let (old, new) = (dice.schema(2), dice.schema(2));
        hold(&old, &new, Side::Input, &mut dice, &mut judged);
        hold(&old, &new, Side::Output, &mut dice, &mut judged);
    }
    assert!(judged.held > 100, "{} instances", judged.held);
}

#[test]
fn the_compatible_pairs_of_the_corpus_hold() {
    let mut judged = Judged { compatible: 0, held: 0 };
    let mut dice = Dice::new(7);
    for (side, pair) in all_schema_pairs() {
        hold(&pair.old, &pair.new, side, &mut dice, &mut judged);
    }
    assert!(judged.compatible > 30, "{}", judged.compatible);
    let definitions = pairs(include_str!("../../../tests/fixtures/contract/definitions.json"));
    assert!(!definitions.is_empty());
}

#[test]
fn huge_and_deep_schemas_end_in_bounded_time_and_are_never_compatible_by_exhaustion() {
    // Each definition refers to the next one twice, in two ways: without bounds that is 2^40 pairs.
    let level = |n: usize, bound: usize| {
        let next = format!("#/$defs/L{}", n + 1);
        serde_json::json!({"type": "object", "properties": {"a": {"$ref": next}, "b": {"anyOf": [{"$ref": next}, {"type": "null"}]}},
            "maxProperties": bound})
    };
    let build = |bound: usize| {
        let mut defs: serde_json::Map<String, Value> =
            (0..40).map(|n| (format!("L{n}"), level(n, bound + n % 3))).collect();
        defs.insert("L40".to_owned(), serde_json::json!({"type": "string"}));
        serde_json::json!({"$ref": "#/$defs/L0", "$defs": defs})
    };
    let found = classify_schema(&build(5), &build(4), Side::Input, "");
    assert!(worst(&found) > Class::Compatible, "{found:?}");
    let mut deep = serde_json::json!({"type": "string"});
    let mut narrower = serde_json::json!({"type": "string", "maxLength": 3});
    for _ in 0..90 {
        deep = serde_json::json!({"type": "array", "items": deep});
        narrower = serde_json::json!({"type": "array", "items": narrower});
    }
    let found = classify_schema(&deep, &narrower, Side::Input, "");
    assert!(worst(&found) > Class::Compatible, "{found:?}");
}
