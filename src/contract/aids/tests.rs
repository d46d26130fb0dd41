//! Old calls live on: what is mapped, what is refused, what is listed.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Aids, Refused};
use crate::config::Override;
use crate::contract::checker::Checker;
use crate::protocol::object::ObjectError;

fn over(parts: Value) -> Override {
    let map = |key: &str| parts[key].as_object().cloned().unwrap_or_default();
    Override {
        aliases: map("aliases").into_iter().map(|(k, v)| (k, v.as_str().unwrap().to_owned())).collect(),
        defaults: map("defaults").into_iter().collect(),
        values: map("values")
            .into_iter()
            .map(|(k, v)| (k, v.as_object().unwrap().clone().into_iter().collect()))
            .collect(),
        deprecated_since: parts["since"].as_str().map(str::to_owned),
        ..Override::default()
    }
}

fn tool(properties: Value, required: &[&str]) -> Value {
    json!({
        "name": "t", "description": "Does it.",
        "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": false}
    })
}

fn report() -> Value {
    let properties = json!({
        "recipient": {"type": "string", "description": "Whom."},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "format": {"type": "string", "enum": ["pdf", "html"]},
        "limit": {"type": "integer", "maximum": 5}
    });
    tool(properties, &["recipient", "format"])
}

fn aids() -> Aids {
    let parts = json!({
        "aliases": {"to": "recipient", "rcpt": "recipient"},
        "defaults": {"format": "pdf"},
        "values": {"unit": {"C": "celsius", "F": "fahrenheit"}, "limit": {"some": 3, "7": 5}},
        "since": "2026-11-30"
    });
    let (aids, problems) = Aids::new(&over(parts), &report());
    assert_eq!(problems, Vec::<String>::new());
    aids.unwrap()
}

fn mapped(arguments: &str) -> (String, Vec<String>) {
    let aids = aids();
    let mapped = aids.apply(Some(arguments)).unwrap();
    let text =
        mapped.arguments.map_or(arguments.to_owned(), |bytes| String::from_utf8(bytes.to_vec()).unwrap());
    (text, mapped.used.into_iter().map(|at| aids.paths()[at].to_string()).collect())
}

#[test]
fn arguments_are_spliced_and_every_other_byte_stays() {
    let whole = |text: &str| mapped(text).0;
    assert_eq!(
        whole(r#"{ "to" : "ann" , "n":1.0, "big":1152921504606846976,"format":"html"}"#),
        r#"{ "recipient" : "ann" , "n":1.0, "big":1152921504606846976,"format":"html"}"#
    );
    assert_eq!(whole(r#"{"t\u006f":"ann","format":"pdf"}"#), r#"{"recipient":"ann","format":"pdf"}"#);
    assert_eq!(whole(r#"{"recipient":"ann"}"#), r#"{"recipient":"ann","format":"pdf"}"#);
    assert_eq!(whole("{}"), r#"{"format":"pdf"}"#);
    let (text, used) = mapped(r#"{"unit":"F","limit":7,"format":"pdf","recipient":"a"}"#);
    assert_eq!(text, r#"{"unit":"fahrenheit","limit":5,"format":"pdf","recipient":"a"}"#);
    assert_eq!(used, ["/arguments/limit#value", "/arguments/unit#value"]);
    assert_eq!(whole(r#"{"limit":"some","format":"pdf"}"#), r#"{"limit":3,"format":"pdf"}"#);
    let aids = aids();
    assert_eq!(aids.apply(None).unwrap().arguments.unwrap(), r#"{"format":"pdf"}"#);
    assert_eq!(aids.apply(Some("null")).unwrap().arguments.unwrap(), r#"{"format":"pdf"}"#);
}

#[test]
fn absent_is_what_is_not_there() {
    for value in ["null", "0", "false", "\"\""] {
        let text = format!(r#"{{"recipient":"a","format":{value}}}"#);
        assert_eq!(mapped(&text), (text.clone(), Vec::new()), "a value is kept as it is");
    }
}

#[test]
fn what_is_of_today_is_not_touched() {
    let text = r#"{"recipient":"ann","format":"pdf","unit":"celsius","limit":3}"#;
    assert_eq!(aids().apply(Some(text)).unwrap(), super::Mapped::default());
}

#[test]
fn two_names_of_one_thing_agree_or_are_refused() {
    let kept = |text: &str| mapped(text).0;
    assert_eq!(
        kept(r#"{"to":"a","recipient":"\u0061","format":"pdf"}"#),
        r#"{"recipient":"\u0061","format":"pdf"}"#
    );
    assert_eq!(kept(r#"{"recipient":"a","format":"pdf","to":"a"}"#), r#"{"recipient":"a","format":"pdf"}"#);
    assert_eq!(kept(r#"{"to":"a","rcpt":"a","recipient":"a"}"#), r#"{"recipient":"a","format":"pdf"}"#);
    for (text, old, new) in [
        (r#"{"to":"a","recipient":"b"}"#, "to", "recipient"),
        (r#"{"to":null,"recipient":"b"}"#, "to", "recipient"),
        (r#"{"to":{"x":[1]},"recipient":{"x":[2]}}"#, "to", "recipient"),
        (r#"{"rcpt":"a","to":"b"}"#, "to", "rcpt"),
    ] {
        let refused = aids().apply(Some(text)).unwrap_err();
        assert_eq!(refused, Refused::Conflict { old: old.into(), new: new.into() }, "{text}");
    }
    let parts = json!({"aliases": {"u": "unit"}, "values": {"unit": {"C": "celsius"}}});
    let aids = Aids::new(&over(parts), &report()).0.unwrap();
    let same = aids.apply(Some(r#"{"u":"C","unit":"celsius"}"#)).unwrap();
    assert_eq!(same.arguments.unwrap(), r#"{"unit":"celsius"}"#, "former values are what they are now");
    let alone = aids.apply(Some(r#"{"u":"C"}"#)).unwrap();
    assert_eq!(alone.arguments.unwrap(), r#"{"unit":"celsius"}"#);
}

#[test]
fn design_2_a_key_that_decides_and_occurs_twice_is_refused() {
    for text in [r#"{"to":1,"to":1}"#, r#"{"format":1,"form\u0061t":1}"#, r#"{"unit":1,"unit":1}"#] {
        assert_eq!(
            aids().apply(Some(text)).unwrap_err(),
            Refused::Arguments(ObjectError::Duplicate),
            "{text}"
        );
    }
}

#[test]
fn what_has_no_place_in_the_definition_is_told_and_not_applied() {
    let problems = |parts: Value| {
        let (aids, problems) = Aids::new(&over(parts), &report());
        assert!(aids.is_none());
        let [one] = problems.try_into().unwrap();
        one
    };
    let no = "there is no such argument";
    assert!(problems(json!({"aliases": {"to": "whom"}})).contains(no));
    assert!(problems(json!({"aliases": {"unit": "format"}})).contains("of its own"));
    assert!(problems(json!({"defaults": {"whom": 1}})).contains("no argument \"whom\""));
    assert!(problems(json!({"values": {"whom": {"a": "b"}}})).contains("no argument \"whom\""));
    let misfit = problems(json!({"defaults": {"limit": 6}}));
    assert!(misfit.contains("\"limit\"") && misfit.contains("/limit") && misfit.contains('5'), "{misfit}");
    assert!(problems(json!({"defaults": {"limit": "3"}})).contains("integer"));
    assert!(problems(json!({"values": {"unit": {"K": "kelvin"}}})).contains("\"K\""));
    let open = json!({"name": "t", "inputSchema": {"type": "object"}});
    let (aids, none) = Aids::new(&over(json!({"aliases": {"a": "b"}, "defaults": {"c": 1}})), &open);
    assert!(none.is_empty() && aids.unwrap().paths().len() == 2, "where any argument may come, these may");
}

#[test]
fn both_names_are_listed_and_every_call_of_both_times_is_valid() {
    let before = Bytes::from(report().to_string());
    let shown: Value = serde_json::from_slice(&aids().publish(&before).unwrap()).unwrap();
    let schema = &shown["inputSchema"];
    for old in ["to", "rcpt"] {
        let words = "Deprecated since 2026-11-30: use \"recipient\".";
        assert_eq!(
            schema["properties"][old],
            json!({"type": "string", "description": words, "deprecated": true})
        );
    }
    assert_eq!(schema["properties"]["recipient"], report()["inputSchema"]["properties"]["recipient"]);
    assert_eq!(schema["properties"]["format"]["default"], "pdf");
    assert_eq!(schema["required"], json!([]));
    assert_eq!(schema["properties"]["unit"]["enum"], json!(["celsius", "fahrenheit", "C", "F"]));
    assert_eq!(schema["properties"]["limit"]["type"], json!(["integer", "string"]));
    let words = schema["properties"]["unit"]["description"].as_str().unwrap();
    assert!(words.contains("\"C\" (now \"celsius\")"), "{words}");
    let checker = Checker::new(&shown);
    for call in [
        json!({"to": "a"}),
        json!({"rcpt": "a", "unit": "F"}),
        json!({"recipient": "a", "format": "html", "limit": 3}),
        json!({"to": "a", "limit": "some"}),
    ] {
        assert_eq!(checker.fault(Some(&call.to_string())), None, "{call}");
    }
    assert!(checker.fault(Some(r#"{"whom":"a"}"#)).is_some());
}

#[test]
fn what_is_not_concerned_stays_byte_for_byte() {
    let text = r#"{ "inputSchema" : {"properties":{ "b":{"type":"string","x-mcp-header":"B"},"c":{"maximum":1.0} },"x":1e2}, "_meta":{"k":[1 ,2]}, "name":"t"}"#;
    let (aids, _) = Aids::new(&over(json!({"aliases": {"a": "b"}})), &serde_json::from_str(text).unwrap());
    let shown = aids.unwrap().publish(&Bytes::from(text)).unwrap();
    let added = r#" ,"a":{"type":"string","deprecated":true,"description":"Deprecated: use \"b\"."}}"#;
    let expected = text.replace(r#"{"maximum":1.0} }"#, &format!(r#"{{"maximum":1.0}}{added}"#));
    assert_eq!(std::str::from_utf8(&shown).unwrap(), expected, "one place mirrors one header");
}

#[test]
fn a_tool_that_is_left_says_so_first() {
    let words = |json: &str, since, by| -> String {
        let shown = super::retired(&Bytes::from(json.to_owned()), since, by);
        serde_json::from_slice::<Value>(&shown).unwrap()["description"].as_str().unwrap().to_owned()
    };
    let day = Some("2026-11-30");
    assert_eq!(
        words(r#"{"description":"Old."}"#, day, Some("t_v2")),
        "Deprecated since 2026-11-30: use \"t_v2\". Old."
    );
    assert_eq!(words(r#"{"name":"t"}"#, day, None), "Deprecated since 2026-11-30.");
}
