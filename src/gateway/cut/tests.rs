//! What is cut stays a valid result, whatever it holds and wherever the cut falls.

use bytes::Bytes;
use proptest::prelude::{any, prop_assert, proptest};
use serde_json::{Value, json};

use super::{boundary, cut};
use crate::protocol::object::{Object, Span};

fn cut_to(result: &str, most: usize, promised: bool) -> Option<Value> {
    let object = Object::parse(result, Span::new(0, result.len())).unwrap();
    let cut = cut(&Bytes::from(result.to_owned()), &object, most, promised)?;
    assert!(cut.len() <= most, "{} of {most}", cut.len());
    Some(serde_json::from_slice(&cut).unwrap_or_else(|error| panic!("{error}: {cut:?}")))
}

fn long(text: &str, times: usize) -> String {
    text.repeat(times)
}

#[test]
fn text_goes_with_a_mark_and_the_rest_stays() {
    let result = json!({
        "isError": true,
        "content": [
            {"type": "text", "text": "whole"},
            {"type": "text", "text": long("abc ", 500), "annotations": {"priority": 1}},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "text", "text": long("gone ", 500)},
            {"type": "resource_link", "uri": "x://y", "name": "y"},
        ],
        "_meta": {"k": 1},
    });
    let found = cut_to(&result.to_string(), 1500, false).unwrap();
    assert_eq!((&found["isError"], &found["_meta"]), (&json!(true), &json!({"k": 1})));
    let content = found["content"].as_array().unwrap();
    assert_eq!(content.len(), 4);
    assert_eq!(content[0]["text"], "whole");
    let text = content[1]["text"].as_str().unwrap();
    let (kept, mark) = text.split_once("\n[Cut here").unwrap();
    assert!(kept.len() > 500 && long("abc ", 500).starts_with(kept), "{kept}");
    assert!(mark.contains(&format!("{} bytes, and 1500 may pass", result.to_string().len())), "{mark}");
    assert_eq!(content[1]["annotations"], json!({"priority": 1}));
    assert_eq!((&content[2]["type"], &content[3]["type"]), (&json!("image"), &json!("resource_link")));
}

#[test]
fn texts_of_embedded_resources_are_cut_too() {
    let result = json!({"content": [
        {"type": "resource", "resource": {"uri": "x://y", "mimeType": "text/plain", "text": long("é", 2000)}},
    ]});
    let found = cut_to(&result.to_string(), 1000, false).unwrap();
    let resource = &found["content"][0]["resource"];
    assert_eq!(resource["uri"], "x://y");
    assert!(resource["text"].as_str().unwrap().starts_with(&long("é", 100)));
}

#[test]
fn structured_content_stays_whole_goes_whole_or_was_promised() {
    let with = |items: usize| {
        json!({
            "content": [{"type": "text", "text": long("t", 3000)}],
            "structuredContent": {"rows": vec![1; items]},
        })
        .to_string()
    };
    let small = cut_to(&with(100), 2000, true).unwrap();
    assert_eq!(small["structuredContent"]["rows"].as_array().unwrap().len(), 100);
    assert!(small["content"][0]["text"].as_str().unwrap().len() > 1000);
    let large = cut_to(&with(5000), 2000, false).unwrap();
    assert_eq!(large.get("structuredContent"), None);
    assert!(large["content"][0]["text"].as_str().unwrap().len() > 1000);
    assert_eq!(cut_to(&with(5000), 2000, true), None, "a client would take it for invalid");
}

#[test]
fn what_has_no_text_to_cut_cannot_be_cut() {
    let picture = json!({"content": [{"type": "image", "data": long("A", 3000), "mimeType": "image/png"}]});
    assert_eq!(cut_to(&picture.to_string(), 1000, false), None);
    let beside = json!({"content": [
        {"type": "text", "text": long("t", 3000)},
        {"type": "image", "data": long("A", 3000), "mimeType": "image/png"},
    ]});
    assert_eq!(cut_to(&beside.to_string(), 1000, false), None);
    for odd in ["{}", r#"{"content":null}"#, r#"{"content":[1]}"#, r#"{"content":[{"type":"text"}]}"#] {
        assert_eq!(cut_to(odd, 0, false), None, "{odd}");
    }
    // A first item of which nothing but its end would be left is the mark alone.
    let annotated =
        json!({"content": [{"type": "text", "text": "x", "annotations": {"a": long("b", 5000)}}]});
    let found = cut_to(&annotated.to_string(), 500, false).unwrap();
    assert!(found["content"][0]["text"].as_str().unwrap().starts_with("\n[Cut here"));
}

#[test]
fn a_cut_falls_between_characters() {
    let inner = r#"ab\n\u0041\ud83d\ude00é\\x"#;
    let ends: Vec<usize> = (0..=inner.len()).map(|most| boundary(inner, most)).collect();
    for (most, end) in ends.iter().enumerate() {
        assert!(*end <= most);
        let text: Result<String, _> = serde_json::from_str(&format!("\"{}\"", &inner[..*end]));
        assert!(text.is_ok(), "{most}: {}", &inner[..*end]);
    }
    assert_eq!((ends[3], ends[4], ends[9], ends[10]), (2, 4, 4, 10));
    assert_eq!((ends[21], ends[22], ends[23], ends[24]), (10, 22, 22, 24));
}

proptest! {
    #[test]
    fn any_texts_are_cut_to_fit(texts in proptest::collection::vec(any::<String>(), 1..6), most in 0..3000_usize) {
        let items: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": format!("{text}{}", long("\u{1f600}\"", 80))})).collect();
        let result = json!({"content": items, "isError": false}).to_string();
        if result.len() > most && let Some(found) = cut_to(&result, most, false) {
            let kept = found["content"].as_array().unwrap();
            let last = kept.last().unwrap()["text"].as_str().unwrap();
            prop_assert!(last.contains("[Cut here by the gateway"));
            for (before, after) in kept.iter().zip(&items).take(kept.len() - 1) {
                prop_assert!(before == after);
            }
        }
    }
}
