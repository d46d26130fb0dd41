//! Which annotations are valid: the tables of the rules and F-098.

use super::{Bindings, Primitive, Reason};
use bytes::Bytes;
use serde_json::{Value, json};

mod params;
mod walk;

fn read(schema: &Value) -> Result<Bindings, Reason> {
    Bindings::read(&schema.to_string()).map_err(|invalid| invalid.reason)
}

/// A schema with one annotated property `a`.
fn annotated(name: &Value, kind: &Value) -> Value {
    json!({"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": name}}})
}

fn strip(schema: &str) -> (String, usize, usize) {
    let stripped = Bindings::strip(&Bytes::copy_from_slice(schema.as_bytes()));
    let text = String::from_utf8(stripped.schema.to_bytes().to_vec()).unwrap();
    (text, stripped.bindings.iter().count(), stripped.removed.len())
}

#[test]
fn h45_header_names() {
    for name in ["A", "Region", "Method", "Authorization", "9", "!#$%&'*+-.^_`|~", &"x".repeat(200)] {
        let bindings = read(&annotated(&name.into(), &"string".into())).unwrap();
        let binding = bindings.iter().next().unwrap();
        assert_eq!(binding.header.as_str(), format!("mcp-param-{}", name.to_ascii_lowercase()));
        assert_eq!((&*binding.path, binding.primitive), (&["a".into()][..], Primitive::String));
    }
    let bad = [
        "",
        " ",
        "A B",
        "A:B",
        "Ä",
        "A\t",
        "A/B",
        "Über",
        "X\r\nEvil: 1",
        "A\0",
        "A\u{7f}",
        "(",
        "\"",
        "{",
        "a,b",
    ];
    let bad = bad.map(Value::from).into_iter();
    for name in bad.chain([json!(5), json!(null), json!(true), json!(["A"]), json!({"a": "A"})]) {
        assert_eq!(read(&annotated(&name, &"string".into())), Err(Reason::Name), "{name}");
    }
}

#[test]
fn h46_unique_whatever_the_case() {
    let two = |a: &str, b: &str| {
        json!({"properties": {
            "x": {"type": "string", "x-mcp-header": a},
            "o": {"properties": {"y": {"type": "string", "x-mcp-header": b}}},
        }})
    };
    assert_eq!(read(&two("Id", "ID")), Err(Reason::NotUnique));
    assert_eq!(read(&two("Id", "Id")), Err(Reason::NotUnique));
    assert_eq!(read(&two("Id", "Ie")).map(|b| b.iter().count()), Ok(2));
}

#[test]
fn h47_types() {
    let name = json!("A");
    for (kind, primitive) in [
        (json!("string"), Primitive::String),
        (json!("integer"), Primitive::Integer),
        (json!("boolean"), Primitive::Boolean),
        (json!(["string", "null"]), Primitive::String),
        (json!(["null", "integer"]), Primitive::Integer),
        (json!(["boolean"]), Primitive::Boolean),
    ] {
        assert_eq!(read(&annotated(&name, &kind)).unwrap().iter().next().unwrap().primitive, primitive);
    }
    for kind in [
        json!("number"),
        json!("object"),
        json!("array"),
        json!("null"),
        json!("String"),
        json!(5),
        json!(null),
        json!([]),
        json!(["null"]),
        json!(["null", "null"]),
        json!(["string", "integer"]),
        json!(["number", "null"]),
        json!(["string", "integer", "null"]),
        json!(["string", "null", "null"]),
    ] {
        assert_eq!(read(&annotated(&name, &kind)), Err(Reason::Type), "{kind}");
    }
    assert_eq!(read(&json!({"properties": {"a": {"x-mcp-header": "A"}}})), Err(Reason::Type), "no type");
}

#[test]
fn h48_reached_through_properties_alone() {
    let mark = json!({"type": "string", "x-mcp-header": "A"});
    let inside = json!({"properties": {"a": mark}});
    let deep = json!({"properties": {"o": {"type": "object", "properties": {"a": mark}}}});
    assert_eq!(&*read(&deep).unwrap().iter().next().unwrap().path, [Box::<str>::from("o"), "a".into()]);

    for schema in [mark.clone(), json!({"type": "object", "x-mcp-header": "A"})] {
        assert_eq!(read(&schema), Err(Reason::Unreachable), "on the root");
    }
    for keyword in [
        "items",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
        "prefixItems",
        "oneOf",
        "anyOf",
        "allOf",
    ] {
        for value in [mark.clone(), inside.clone(), json!([{}, mark]), json!([inside])] {
            let at_root = json!({ keyword: value });
            let below = json!({"properties": {"p": at_root}});
            assert_eq!(read(&at_root), Err(Reason::Unreachable), "{at_root}");
            assert_eq!(read(&below), Err(Reason::Unreachable), "{below}");
        }
    }
    for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"] {
        for value in [mark.clone(), inside.clone()] {
            let schema = json!({ keyword: {"X": value} });
            assert_eq!(read(&schema), Err(Reason::Unreachable), "{schema}");
        }
    }
}

#[test]
fn h51_only_at_the_position_of_a_keyword() {
    for schema in [
        json!({"properties": {"x-mcp-header": {"type": "string"}}}),
        json!({"properties": {"a": {"type": "string", "default": {"x-mcp-header": "Z"}}}}),
        json!({"properties": {"a": {"examples": [{"x-mcp-header": "Z"}], "enum": [{"x-mcp-header": "Z"}]}}}),
        json!({"properties": {"a": {"const": {"x-mcp-header": "Z"}, "description": "x-mcp-header"}}}),
        json!({"$defs": {"x-mcp-header": {}}, "required": ["x-mcp-header"], "x-other": {"x-mcp-header": 5}}),
        json!({"dependencies": {"a": ["x-mcp-header"]}, "properties": {"b": true, "c": null}, "items": false}),
        json!({"properties": ["x-mcp-header"]}),
        json!(["x-mcp-header"]),
        json!("x-mcp-header"),
        json!(true),
    ] {
        assert_eq!(read(&schema), Ok(Bindings::default()), "{schema}");
        assert_eq!(strip(&schema.to_string()), (schema.to_string(), 0, 0));
    }
    let named = json!({"properties": {"x-mcp-header": {"type": "string", "x-mcp-header": "A"}}});
    assert_eq!(&*read(&named).unwrap().iter().next().unwrap().path, [Box::<str>::from("x-mcp-header")]);
    let escaped = r#"{"properties":{"a":{"type":"string","x-mcp-heade\u0072":"A"}}}"#;
    assert_eq!(Bindings::read(escaped).unwrap().iter().count(), 1);
}

#[test]
fn design2_what_two_parsers_could_read_differently_is_invalid() {
    for schema in [
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"A"}}}"#,
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","type":"string"}}}"#,
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"\u0061":{"type":"string"}}}"#,
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{}}"#,
        r#"{"properties":{"o":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}},"o":{}}}"#,
    ] {
        assert_eq!(Bindings::read(schema).map_err(|i| i.reason), Err(Reason::Ambiguous), "{schema}");
        let (text, kept, removed) = strip(schema);
        assert_eq!(Bindings::read(&text), Ok(Bindings::default()), "{text}");
        assert!(kept == 0 && removed > 0);
    }
    let harmless = r#"{"properties":{"a":{},"a":{}},"type":"object","type":"object"}"#;
    assert_eq!(
        Bindings::read(harmless),
        Ok(Bindings::default()),
        "without annotations it is none of our business"
    );
}

#[test]
fn too_deep_is_told_and_bounded() {
    let nest = |levels: usize, core: &str| {
        format!("{}{core}{}", r#"{"properties":{"a":"#.repeat(levels), "}}".repeat(levels))
    };
    let mark = r#"{"type":"string","x-mcp-header":"A"}"#;
    assert_eq!(Bindings::read(&nest(100, mark)).unwrap().iter().next().unwrap().path.len(), 100);
    assert_eq!(Bindings::read(&nest(20_000, mark)).map_err(|i| i.reason), Err(Reason::Depth));
    assert_eq!(Bindings::read(&nest(20_000, "{}")), Ok(Bindings::default()));
}

#[test]
fn what_is_said_of_a_fault_is_short() {
    let long = "k".repeat(5000);
    let schema = json!({"properties": {"~a/b": {"items": {"x-mcp-header": "A"}}}});
    let invalid = Bindings::read(&schema.to_string()).unwrap_err();
    assert_eq!(invalid.pointer, "/properties/~0a~1b/items");
    let schema = json!({"properties": {&long: {"properties": {&long: {"x-mcp-header": "A\nB"}}}}});
    let said = Bindings::read(&schema.to_string()).unwrap_err().to_string();
    assert!(said.len() < 700 && !said.contains('\n'), "{said}");
}

#[test]
fn h50_only_the_invalid_annotations_are_removed() {
    let before = r#"{ "type":"object", "x-mcp-header" : 5 ,"properties" : {
        "good":{"x-mcp-header":"Good","type":"string"} , "n":{"type":"number","x-mcp-header":"N"},
        "l":{"items":{"x-mcp-header":"L"}, "n": 1.0}, "twice":{"x-mcp-header":"T","x-mcp-header":"U","type":"string"} } }"#;
    let after = r#"{ "type":"object" ,"properties" : {
        "good":{"x-mcp-header":"Good","type":"string"} , "n":{"type":"number"},
        "l":{"items":{}, "n": 1.0}, "twice":{"type":"string"} } }"#;
    assert_eq!(strip(before), (after.to_owned(), 1, 5));
    assert_eq!(Bindings::read(after).unwrap().iter().next().unwrap().header, "mcp-param-good");
}
