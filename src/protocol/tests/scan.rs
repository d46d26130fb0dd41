//! The scanner against serde_json: what is valid, and where a value ends.

use super::{json_text, space};
use crate::protocol::object::{Object, Span, is_json};
use crate::protocol::scan;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::{Index, select};
use serde_json::value::RawValue;

fn oracle(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// What a byte of a text may be turned into: everything the grammar looks at, and some of what it does not.
fn replacement() -> impl Strategy<Value = &'static str> {
    select(vec![
        "", "\"", "\\", "{", "}", "[", "]", ",", ":", " ", "\n", "\t", "\r", "\u{c}", "\0", "\u{1f}",
        "\u{7f}", "\u{e4}", "-", "+", ".", "0", "7", "e", "E", "u", "n", "true", "null", "\\u12", "\\ud800",
        "\\x", "/",
    ])
}

/// Long strings with everything special at every distance from a block's edge.
fn long_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z ]{0,70}",
        Just("\\\"".to_owned()),
        Just("\\u00e4".to_owned()),
        Just("\u{e4}\u{1f600}".to_owned()),
        replacement().prop_map(str::to_owned),
    ];
    vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

proptest! {
    #[test]
    fn the_same_texts_are_valid(text in json_text(), edits in vec((any::<Index>(), replacement()), 0..4)) {
        let mut text = text;
        for (at, with) in edits {
            let Some((start, old)) = text.char_indices().nth(at.index(text.chars().count().max(1))) else { break };
            text.replace_range(start..start + old.len_utf8(), with);
        }
        prop_assert_eq!(is_json(&text), oracle(&text), "{}", text);
    }

    #[test]
    fn strings_of_any_length_are_valid_alike(text in long_string()) {
        prop_assert_eq!(is_json(&text), oracle(&text), "{}", text);
    }

    #[test]
    fn values_end_where_they_end(text in json_text(), before in space(), after in select(vec!["", " ", ",", "]", "}", "x"])) {
        // A number has no end of its own: what follows must not belong to it.
        let around = format!("{before}{text}{after}");
        let start = scan::space(around.as_bytes(), 0);
        let end = scan::value(around.as_bytes(), start);
        prop_assert_eq!(end, Some(before.len() + text.trim_end_matches([' ', '\t', '\n', '\r']).len()));
    }

    #[test]
    fn numbers_are_valid_alike(text in "[-+]?[0-9]{0,2}[.]?[0-9]{0,2}[eE]?[-+]?[0-9]{0,2}") {
        prop_assert_eq!(is_json(&text), oracle(&text), "{}", text);
    }

    #[test]
    fn nesting_may_be_of_any_depth(brackets in vec(any::<bool>(), 1..300), broken in any::<Option<Index>>()) {
        let open: String = brackets.iter().map(|object| if *object { "{\"k\":" } else { "[" }).collect();
        let close: String = brackets.iter().rev().map(|object| if *object { '}' } else { ']' }).collect();
        let mut text = format!("{open}1{close}");
        if let Some(at) = broken {
            text.remove(at.index(text.len()));
        }
        prop_assert_eq!(is_json(&text), oracle(&text), "{}", text);
    }

    #[test]
    fn an_inner_object_is_the_same_read_at_once(inner in json_text(), other in json_text()) {
        let text = format!("{{\"other\":{other},\"result\":{inner}}}");
        let whole = Span::new(0, text.len());
        let (object, found) = Object::parse_with(&text, whole, "result").unwrap();
        let span = object.get(&text, "result").unwrap().unwrap();
        let expected = Object::parse(&text, span).ok();
        let list = |object: Option<Object>| object.map(|o| (o.span, o.members.iter().map(|m| (m.key, m.value)).collect::<Vec<_>>()));
        prop_assert_eq!(list(found), list(expected));
    }
}

/// Blocks, words and single bytes are looked at by different code: each must see each byte at each of its places.
#[test]
fn every_byte_counts_at_every_place_of_a_long_string() {
    for byte in (0..0x80).chain([0xff]) {
        let letter = if byte < 0x80 { char::from(byte) } else { '\u{e4}' };
        for at in 0..150 {
            let text = format!("\"{}{letter}{}\"", "a".repeat(at), "b".repeat(150 - at));
            assert_eq!(is_json(&text), oracle(&text), "{letter:?} at {at}");
        }
    }
}
