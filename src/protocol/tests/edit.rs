//! Splices against the same changes made to the parsed value.

use super::{Tree, json_text, object_text, string_text};
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::object::{Object, Span};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

#[derive(Debug, Clone)]
enum Change {
    Keep,
    Remove,
    Replace(String),
    /// A member in front of this one.
    Insert(String),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => Just(Change::Keep),
        3 => Just(Change::Remove),
        1 => json_text().prop_map(Change::Replace),
        1 => json_text().prop_map(Change::Insert),
    ]
}

/// Applies `changes`; what comes out, and what should.
fn edited(
    object: &Object,
    around: &str,
    changes: &[Change],
    appended: Option<&str>,
) -> (Edits, Vec<(String, Tree)>) {
    let (mut edits, mut expected, mut removed) = (Edits::new(), Vec::new(), Vec::new());
    for (at, (member, change)) in object.members.iter().zip(changes).enumerate() {
        let key = member.name(around).to_owned();
        let old = Tree::read(member.value.of(around)).unwrap();
        match change {
            Change::Keep => expected.push((key, old)),
            Change::Remove => removed.push(at),
            Change::Replace(text) => {
                edits.replace(member.value, text.clone());
                expected.push((key, Tree::read(text).unwrap()));
            }
            Change::Insert(text) => {
                edits.insert(member.key.start, format!("\"in\":{text},"));
                expected.extend([("in".to_owned(), Tree::read(text).unwrap()), (key, old)]);
            }
        }
    }
    // What `append` asks of its caller: something must be left, or nothing have been there.
    if let Some(text) = appended.filter(|_| removed.len() < object.members.len() || removed.is_empty()) {
        edits.append(object, format!("\"new\":{text}"));
        expected.push(("new".to_owned(), Tree::read(text).unwrap()));
    }
    edits.remove(object, &removed);
    (edits, expected)
}

proptest! {
    #[test]
    fn any_combination_of_edits_does_what_it_says(
        text in object_text(string_text().boxed(), json_text()),
        changes in vec(change(), 6),
        appended in proptest::option::of(json_text()),
        around in any::<bool>(),
    ) {
        let outer = if around { format!("[1, {text} ,\"\u{e4}\"]") } else { text.clone() };
        let start = if around { 4 } else { 0 };
        let object = Object::parse(&outer, Span::new(start, start + text.len())).unwrap();
        let body = Bytes::from(outer.clone());
        let (edits, expected) = edited(&object, &outer, &changes, appended.as_deref());

        let parts = edits.clone().apply(&body, object.span);
        let bytes = parts.to_bytes();
        prop_assert_eq!(parts.len(), bytes.len());
        prop_assert!(parts.pieces().iter().all(|piece| !piece.is_empty()));
        let new = std::str::from_utf8(&bytes).unwrap();
        prop_assert_eq!(Tree::read(new), Some(Tree::Object(expected)), "{} became {}", text, new);

        let in_place = edits.apply(&body, Span::new(0, outer.len())).to_bytes();
        prop_assert_eq!(in_place, format!("{}{new}{}", &outer[..start], &outer[start + text.len()..]));
    }

    #[test]
    fn what_is_not_edited_keeps_its_bytes(
        text in object_text(string_text().boxed(), json_text()), changes in vec(change(), 6)
    ) {
        let object = Object::parse(&text, Span::new(0, text.len())).unwrap();
        let (edits, _) = edited(&object, &text, &changes, None);
        let bytes = edits.apply(&Bytes::from(text.clone()), object.span).to_bytes();
        let new = std::str::from_utf8(&bytes).unwrap();
        let after = Object::parse(new, Span::new(0, new.len())).unwrap();
        let kept = |change: &Change| matches!(change, Change::Keep | Change::Insert(_));
        let before = object.members.iter().zip(&changes).filter(|(_, c)| kept(c));
        let before: Vec<_> = before.map(|(m, _)| (m.key.of(&text), m.value.of(&text))).collect();
        let after: Vec<_> = after.members.iter().map(|m| (m.key.of(new), m.value.of(new))).collect();
        let mut rest = after.iter();
        prop_assert!(before.iter().all(|member| rest.any(|m| m == member)), "{:?} in {:?}", before, after);
    }
}

#[test]
fn pieces_are_slices_of_the_body() {
    let body = Bytes::from_static(b"{\"a\":1,\"b\":2}");
    let object = Object::parse("{\"a\":1,\"b\":2}", Span::new(0, 13)).unwrap();
    let mut edits = Edits::new();
    edits.replace(object.members[0].value, "\"x\"");
    let parts = edits.apply(&body, object.span);
    let [head, new, tail] = parts.pieces() else { panic!("{parts:?}") };
    assert_eq!((&head[..], &new[..], &tail[..]), (&b"{\"a\":"[..], &b"\"x\""[..], &b",\"b\":2}"[..]));
    assert_eq!(head.as_ptr(), body.as_ptr(), "not copied");
    assert_eq!(tail.as_ptr(), body[6..].as_ptr(), "not copied");
}

#[test]
fn parts_add_up() {
    let mut parts = Parts::new();
    assert!(parts.is_empty() && parts.to_bytes().is_empty());
    parts.push("");
    assert!(parts.pieces().is_empty());
    parts.push("ab");
    parts.extend(Parts::from("c"));
    assert_eq!((parts.len(), parts.to_bytes()), (3, Bytes::from_static(b"abc")));
    assert_eq!(parts.into_pieces(), ["ab", "c"]);
}
