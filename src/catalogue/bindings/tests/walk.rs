//! The schema walk against a second reading of the same rules.

use super::super::{Binding, Bindings};
use super::params::tool;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Any schema, annotated at random; without repeated keys.
fn schema() -> BoxedStrategy<Value> {
    let name = select(vec!["A", "b", "B", "c", "Dd", "e-1", "f", "", "x y"]).prop_map(Value::from);
    let kind = select(vec![
        json!("string"),
        json!("integer"),
        json!(["null", "boolean"]),
        json!("number"),
        json!("object"),
    ]);
    let leaf = (proptest::option::of(name), proptest::option::of(kind)).prop_map(|(name, kind)| {
        let members = [("type", kind), ("x-mcp-header", name)];
        Value::Object(members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = select(vec!["a", "b", "items", "properties", "x-mcp-header", "$defs", "ä"])
            .prop_map(str::to_owned);
        let map = vec((key, inner.clone()), 0..4).prop_map(|m| Value::Object(m.into_iter().collect()));
        let list = vec(inner.clone(), 0..3).prop_map(Value::Array);
        let part = prop_oneof![
            4 => (Just("properties"), map.clone()),
            1 => (select(vec!["$defs", "patternProperties", "default", "x-any"]), map),
            1 => (select(vec!["anyOf", "prefixItems", "items", "enum", "examples"]), list),
            1 => (select(vec!["items", "not", "additionalProperties", "const"]), inner.clone()),
        ];
        (inner, vec(part, 0..3)).prop_map(|(schema, parts)| {
            let mut members = schema.as_object().cloned().unwrap_or_default();
            members.extend(parts.into_iter().map(|(key, value)| (key.to_owned(), value)));
            Value::Object(members)
        })
    })
    .boxed()
}

/// Gets an annotated schema and the property path to it, if there is one.
type Visit<'v> = &'v mut dyn FnMut(&mut Map<String, Value>, Option<&str>);

/// The rules H-45..H-51 once more, over a parsed value.
fn each_annotation(schema: &mut Value, path: Option<&str>, visit: Visit<'_>) {
    let Value::Object(members) = schema else { return };
    if members.contains_key("x-mcp-header") {
        visit(members, path.filter(|path| !path.is_empty()));
    }
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (key, property) in properties {
                    each_annotation(property, path.map(|path| format!("{path}/{key}")).as_deref(), visit);
                }
            }
            ("$defs" | "patternProperties", Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| each_annotation(schema, None, visit));
            }
            ("anyOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| each_annotation(schema, None, visit));
            }
            ("items" | "not" | "additionalProperties", schema) => each_annotation(schema, None, visit),
            _ => {}
        }
    }
}

fn is_good(members: &Map<String, Value>, path: Option<&str>) -> bool {
    let name = members["x-mcp-header"].as_str().unwrap_or_default();
    let good_type = ["string", "integer"].iter().any(|t| members.get("type") == Some(&json!(t)));
    let good_type = good_type || members.get("type") == Some(&json!(["null", "boolean"]));
    path.is_some() && good_type && !name.is_empty() && !name.contains(' ')
}

proptest! {
    #[test]
    fn h45_to_h51_the_walk_sees_what_a_second_reading_sees(mut schema in schema()) {
        let text = schema.to_string();
        let (mut good, mut bad) = (Vec::new(), 0);
        each_annotation(&mut schema, Some(""), &mut |members, path| {
            let name = members["x-mcp-header"].as_str().map(str::to_ascii_lowercase);
            if is_good(members, path) { good.push((name.unwrap(), path.unwrap().to_owned())) } else { bad += 1 }
        });
        let doubled = |name: &str| good.iter().filter(|(other, _)| other == name).count() > 1;
        let unique: Vec<_> = good.iter().filter(|(name, _)| !doubled(name)).cloned().collect();
        let faults = bad + good.len() - unique.len();

        let found = Bindings::read(&text);
        prop_assert_eq!(found.is_ok(), faults == 0, "{}", text);

        let stripped = Bindings::strip(&Bytes::from(text.clone()));
        let as_pairs = |bindings: &Bindings| {
            let pair = |b: &Binding| {
                let path: String = b.path.iter().map(|key| format!("/{key}")).collect();
                (b.header.as_str().trim_start_matches("mcp-param-").to_owned(), path)
            };
            let mut pairs: Vec<_> = bindings.iter().map(pair).collect();
            pairs.sort();
            pairs
        };
        let mut expected = unique.clone();
        expected.sort();
        prop_assert_eq!(as_pairs(&stripped.bindings), expected);
        prop_assert_eq!(stripped.removed.len(), faults);
        each_annotation(&mut schema, Some(""), &mut |members, path| {
            let name = members["x-mcp-header"].as_str().map(str::to_ascii_lowercase).unwrap_or_default();
            if !is_good(members, path) || doubled(&name) {
                members.remove("x-mcp-header");
            }
        });
        let left = String::from_utf8(stripped.schema.to_bytes().to_vec()).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&left).unwrap(), schema);
        prop_assert_eq!(Bindings::read(&left), Ok(stripped.bindings));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[{}\\[\\]:,\"ax1\\\\ ]{0,24}") {
        let _ = Bindings::read(&text);
        let wrapped = format!("{{\"properties\":{{\"x-mcp-header\":{text},\"b\":{{\"x-mcp-header\":{text}}}}}}}");
        let _ = Bindings::read(&wrapped);
        let stripped = Bindings::strip(&Bytes::from(wrapped.clone()));
        prop_assert!(stripped.schema.len() <= wrapped.len());
        let _ = tool().check(Some(&text), [("mcp-param-n", text.as_bytes())]);
        let _ = tool().headers_for(Some(&text));
    }
}
