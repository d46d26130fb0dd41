//! Questions: what fits whom, in whose words.

use super::Questions;
use crate::inbound::legacy::declared::Declared;
use crate::protocol::version::Revision::{V20250618, V20251125};
use serde_json::{Value, json};

fn one(method: &str, params: &Value) -> super::Question {
    let result = json!({
        "resultType": "input_required", "requestState": "s",
        "inputRequests": {"k\"1": {"method": method, "params": params}},
    });
    let mut questions = Questions::read(&result.to_string().into()).unwrap().unwrap();
    assert_eq!(questions.state.as_deref(), Some("\"s\""));
    let question = questions.list.remove(0);
    assert_eq!(question.key, r#""k\"1""#);
    question
}

fn shaped(method: &str, params: &Value, revision: super::Revision) -> Value {
    serde_json::from_str(&one(method, params).shaped(revision)).unwrap()
}

/// Covers: R-04, M-34: each kind needs its own declaration.
#[test]
fn r_04_what_is_not_declared_is_not_asked() {
    let url = one("elicitation/create", &json!({"mode": "url", "url": "https://x.example/"}));
    let form = one("elicitation/create", &json!({"message": "m"}));
    let sampling = one("sampling/createMessage", &json!({"messages": []}));
    let tools = one("sampling/createMessage", &json!({"messages": [], "tools": []}));
    let roots = one("roots/list", &json!({}));
    let unknown = one("other/kind", &json!({}));
    let all = [&url, &form, &sampling, &tools, &roots, &unknown];
    let fits = |text: &str| {
        let declared = Declared::read(text, V20251125);
        all.map(|question| question.fits(&declared))
    };
    assert_eq!(fits("{}"), [false; 6]);
    assert_eq!(fits(r#"{"elicitation":{}}"#), [false, true, false, false, false, false]);
    assert_eq!(fits(r#"{"elicitation":{"url":{}}}"#), [true, false, false, false, false, false]);
    assert_eq!(fits(r#"{"sampling":{}}"#), [false, false, true, false, false, false]);
    assert_eq!(fits(r#"{"sampling":{"tools":{}}}"#), [false, false, true, true, false, false]);
    assert_eq!(fits(r#"{"roots":{}}"#), [false, false, false, false, true, false]);
}

/// Covers: R-55: what 2025-06-18 does not have in a form is said in its own words.
#[test]
fn r_55_forms_of_2025_06_18() {
    let params = json!({"mode": "form", "message": "m", "requestedSchema": {"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string", "oneOf": [{"const": "x", "title": "X"}, {"const": "y", "title": "Y"}], "default": "x"},
        "b": {"type": "boolean", "default": true},
        "c": {"type": "array", "title": "C", "items": {"type": "string", "enum": ["p"]}, "minItems": 1, "default": ["p"]},
        "d": {"type": "integer", "minimum": 1, "default": 2},
        "e": {"type": "string", "enum": ["q"], "enumNames": ["Q"]},
    }}});
    assert_eq!(
        shaped("elicitation/create", &params, V20250618),
        json!({"message": "m", "requestedSchema": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "enum": ["x", "y"], "enumNames": ["X", "Y"]},
            "b": {"type": "boolean", "default": true},
            "c": {"type": "string", "title": "C"},
            "d": {"type": "integer", "minimum": 1},
            "e": {"type": "string", "enum": ["q"], "enumNames": ["Q"]},
        }}})
    );
}

/// Covers: R-58, R-55: at 2025-11-25 nothing is touched; an address gets the id that it must have there.
#[test]
fn r_58_newest_forms_pass_byte_for_byte() {
    let text = r#"{ "message":"m",  "requestedSchema":{"z":1.0,"a":1e2} }"#;
    let result = format!(
        r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"elicitation/create","params":{text}}}}}}}"#
    );
    let questions = Questions::read(&result.into()).unwrap().unwrap();
    assert_eq!(questions.list[0].shaped(V20251125), text);
    assert_eq!(questions.state, None);

    let url = json!({"mode": "url", "message": "m", "url": "https://x.example/"});
    let first = shaped("elicitation/create", &url, V20251125);
    let second = shaped("elicitation/create", &url, V20251125);
    assert!(first["elicitationId"].as_str().is_some_and(|id| !id.is_empty()));
    assert_ne!(first["elicitationId"], second["elicitationId"]);
    assert_eq!(first["url"], url["url"]);
    let named = json!({"mode": "url", "message": "m", "url": "https://x.example/", "elicitationId": "e"});
    assert_eq!(shaped("elicitation/create", &named, V20251125), named);
}

/// Covers: R-02, R-03: no questions in a complete result; malformed ones are an error.
#[test]
fn r_02_what_is_no_question() {
    let read = |text: &'static str| Questions::read(&bytes::Bytes::from_static(text.as_bytes()));
    assert!(read(r#"{"resultType":"complete"}"#).unwrap().is_none());
    assert!(read(r#"{"content":[]}"#).unwrap().is_none());
    assert!(read(r#"{"resultType":"input_required","requestState":"x"}"#).unwrap().unwrap().list.is_empty());
    for bad in [
        r#"{"resultType":"input_required","inputRequests":[]}"#,
        r#"{"resultType":"input_required","inputRequests":{"a":1}}"#,
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":[]}}}"#,
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}
