//! What becomes of items that differ: shown, held, withdrawn; and calls held against what was approved.

use serde_json::{Value, json};

use crate::contract::Class;
use crate::contract::checker::Checker;
use crate::contract::lock::{Entry, Key, Lock, Locked};
use crate::contract::verdict::{Verdict, gone, judge};

fn key() -> Key {
    Key { server: "s".to_owned(), kind: Locked::Tool, native: "t".to_owned() }
}

fn tool(properties: Value, required: Value) -> Value {
    json!({"name": "t", "inputSchema": {"type": "object", "properties": properties, "required": required}})
}

fn verdict(approved: &Value, now: &Value) -> Verdict {
    let mut lock = Lock::default();
    lock.insert(key(), Entry::new(&approved.to_string()).unwrap());
    judge(&lock, &key(), &Entry::new(&now.to_string()).unwrap())
}

/// The class, and why it is withdrawn, of what must be held.
fn held(approved: &Value, now: &Value) -> (Class, Option<String>) {
    match verdict(approved, now) {
        Verdict::Held(change, held) => (change.class, held.withdrawn.clone()),
        other => panic!("not held: {other:?}"),
    }
}

#[test]
fn what_is_compatible_is_shown_and_what_is_the_same_is_nothing() {
    let one = tool(json!({"a": {"type": "string"}}), json!(["a"]));
    let wider = tool(json!({"a": {"type": "string"}, "b": {"type": "string"}}), json!(["a"]));
    assert!(matches!(verdict(&one, &one), Verdict::Same));
    assert!(matches!(verdict(&one, &wider), Verdict::Shown(_)));
    let lock = Lock::default();
    let entry = Entry::new(&one.to_string()).unwrap();
    assert!(matches!(judge(&lock, &key(), &entry), Verdict::New(_)));
}

#[test]
fn withdrawn_is_only_what_no_approved_call_can_reach() {
    let before = tool(json!({"a": {"type": "string"}, "b": {"type": "integer"}}), json!(["a"]));
    // Callers can still give `b`, and shorter texts.
    for after in [
        tool(json!({"a": {"type": "string"}, "b": {"type": "integer"}}), json!(["a", "b"])),
        tool(json!({"a": {"type": "string", "maxLength": 3}, "b": {"type": "integer"}}), json!(["a"])),
        tool(json!({"a": {"type": "string"}, "b": {"type": "string"}}), json!(["a"])),
    ] {
        assert_eq!(held(&before, &after), (Class::Breaking, None), "{after}");
    }
    // Nobody can know `c`, and `a` must be given.
    let unknown = tool(json!({"a": {"type": "string"}, "c": {"type": "string"}}), json!(["a", "c"]));
    let (class, why) = held(&before, &unknown);
    assert!(class == Class::Breaking && why.unwrap().contains("\"c\""));
    let retyped = tool(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}), json!(["a"]));
    let (class, why) = held(&before, &retyped);
    assert!(class == Class::Breaking && why.unwrap().contains("\"a\""));
}

#[test]
fn what_is_gone_is_withdrawn() {
    let mut lock = Lock::default();
    lock.insert(key(), Entry::new(r#"{"name":"t"}"#).unwrap());
    let (change, held) = gone(&lock, &key()).unwrap();
    assert!(change.class == Class::Breaking && held.withdrawn.is_some());
    assert!(gone(&Lock::default(), &key()).is_none());
}

#[test]
fn arguments_are_held_against_the_schema_and_the_place_is_named() {
    let checker = Checker::new(&tool(json!({"a": {"type": "string"}, "n": {"maximum": 5}}), json!(["a"])));
    assert_eq!(checker.fault(Some(r#"{"a":"x","n":5}"#)), None);
    assert!(checker.fault(Some(r#"{"a":"x","n":6}"#)).unwrap().contains("/n"));
    assert!(checker.fault(None).unwrap().contains("\"a\""), "what is absent is an empty object");
    assert!(checker.fault(Some("null")).is_some());
    // Nothing is fetched: what would need that checks nothing.
    let remote = json!({"inputSchema": {"$ref": "https://example.com/schema.json"}});
    assert_eq!(Checker::new(&remote).fault(Some("{}")), None);
    // What cannot be held against a schema does not pass for what fits it.
    for odd in [r#"{"a":"x","n":1e99999}"#, r#"{"a":"\ud800","n":1}"#] {
        assert!(checker.fault(Some(odd)).is_some_and(|fault| fault.contains("too large")), "{odd}");
    }
    assert_eq!(Checker::new(&json!({})).fault(Some("{}")), None);
}
