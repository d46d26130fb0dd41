//! Objects and arrays against serde_json.

use super::{Tree, json_text, object_text, space, string_text};
use crate::protocol::object::{Object, ObjectError, Span, array, is_json, string};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use serde_json::Value;

fn whole(text: &str) -> Span {
    Span::new(0, text.len())
}

proptest! {
    #[test]
    fn members_stand_where_serde_finds_them(
        text in object_text(string_text().boxed(), json_text()), before in space(), after in space()
    ) {
        let expected = Tree::read(&text).unwrap().members();
        let around = format!("\u{e4}{before}{text}{after}]");
        let span = Span::new(2, around.len() - 1);
        let object = Object::parse(&around, span).unwrap();
        prop_assert_eq!(object.span.of(&around), text.as_str());
        prop_assert_eq!(object.members.len(), expected.len());
        for (member, (key, value)) in object.members.iter().zip(&expected) {
            prop_assert_eq!(member.name(&around), key);
            prop_assert_eq!(string(member.key.of(&around)).unwrap(), key.as_str());
            prop_assert_eq!(&Tree::read(member.value.of(&around)).unwrap(), value);
        }
        for (key, _) in &expected {
            let hits: Vec<usize> = (0..expected.len()).filter(|i| expected[*i].0 == *key).collect();
            let (get, position) = (object.get(&around, key), object.position(&around, key));
            if let [only] = hits[..] {
                prop_assert_eq!(get, Ok(Some(object.members[only].value)));
                prop_assert_eq!(position, Ok(Some(only)));
            } else {
                prop_assert_eq!(get, Err(ObjectError::Duplicate));
                prop_assert_eq!(position, Err(ObjectError::Duplicate));
            }
        }
        prop_assert_eq!(object.get(&around, "no such key"), Ok(None));
    }

    #[test]
    fn elements_stand_where_serde_finds_them(text in json_text()) {
        match Tree::read(&text).unwrap() {
            Tree::Array(expected) => {
                let spans = array(&text, whole(&text)).unwrap();
                let found: Vec<_> = spans.iter().map(|span| Tree::read(span.of(&text)).unwrap()).collect();
                prop_assert_eq!(found, expected);
            }
            _ => prop_assert!(array(&text, whole(&text)).is_err()),
        }
    }

    #[test]
    fn other_types_and_broken_texts_are_told_apart(text in json_text(), cut in any::<proptest::sample::Index>()) {
        let expected = match Tree::read(&text).unwrap() {
            Tree::Object(_) => None,
            _ => Some(ObjectError::NotObject),
        };
        prop_assert_eq!(Object::parse(&text, whole(&text)).err(), expected);
        let at = cut.index(text.len());
        if let Some(piece) = text.get(..at).filter(|piece| Tree::read(piece).is_none()) {
            prop_assert_eq!(Object::parse(piece, whole(piece)).err(), Some(ObjectError::Syntax));
            prop_assert!(!is_json(piece));
        }
    }

    #[test]
    fn strings_unescape_as_serde_says(text in json_text()) {
        let expected = serde_json::from_str::<Value>(&text).unwrap();
        prop_assert_eq!(string(&text).map(String::from), expected.as_str().map(String::from));
        let padded = format!(" {text}\n");
        prop_assert_eq!(string(&padded).map(String::from), expected.as_str().map(String::from));
    }
}

#[test]
fn lone_surrogates_are_no_text_but_may_stand_in_values() {
    for key in [r#""\ud800""#, r#""\udc00""#, r#""a\uD83Dx""#, r#""\udc00\ud800""#] {
        assert_eq!(string(key), None, "{key}");
        let text = format!("{{{key}:1}}");
        assert_eq!(Object::parse(&text, whole(&text)).err(), Some(ObjectError::BadKey), "{key}");
        let text = format!("{{\"a\":{key}}}");
        let object = Object::parse(&text, whole(&text)).unwrap();
        assert_eq!(object.get(&text, "a").unwrap().unwrap().of(&text), key, "the value survives as it is");
    }
    assert_eq!(string(r#""\ud83d\ude00""#).as_deref(), Some("😀"));
}

#[test]
fn syntax_is_checked_to_the_end() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "{}}",
        "{} {}",
        "{,}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":NaN}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\u{1}\":1}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":[}",
        "{\"a\":1}\u{a0}",
        "\u{feff}{}",
        "{\"a\":tru}",
        "{\"a\":1]",
        "nul",
        "\"",
    ] {
        assert_eq!(Object::parse(text, whole(text)).err(), Some(ObjectError::Syntax), "{text:?}");
    }
}

#[test]
fn values_may_be_deep_and_numbers_beyond_any_type() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let text = format!("{{\"deep\":{deep},\"n\":1e999999,\"m\":{}}}", "9".repeat(400));
    let object = Object::parse(&text, whole(&text)).unwrap();
    assert_eq!(object.get(&text, "deep").unwrap().unwrap().of(&text), deep);
    assert_eq!(object.get(&text, "n").unwrap().unwrap().of(&text), "1e999999");
    assert_eq!(object.get(&text, "m").unwrap().unwrap().of(&text).len(), 400);
}

#[test]
fn spans_outside_the_text_are_empty() {
    assert_eq!(Span::new(3, 9).of("abc"), "");
    assert_eq!(Span::new(1, 2).of("ä"), "", "inside a character");
    assert!(Object::parse("{}", Span::new(1, 9)).is_err());
}
