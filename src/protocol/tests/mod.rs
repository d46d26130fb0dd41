//! Property tests of this room: generated JSON texts, and serde_json as the oracle that reads them whole.

use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

mod edit;
mod envelope;
mod header;
mod items;
mod message;
mod meta;
mod number;
mod object;
mod scan;
mod shape;
mod sse;

/// JSON as serde_json reads it, except that order and repeated keys are kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Scalar(Value),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Tree {
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn members(self) -> Vec<(String, Self)> {
        match self {
            Self::Object(members) => members,
            other => panic!("not an object: {other:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Tree;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Scalar(Value::Null))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Tree::Array(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Tree::Object(members))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// Insignificant white space.
pub(super) fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => select(vec![" ", "\n", "\t\r", "  \n "])]
}

/// `content` as a JSON string, some characters escaped in one of the ways JSON has.
pub(super) fn spelled(content: String) -> impl Strategy<Value = String> {
    let length = content.chars().count();
    vec(any::<(bool, bool)>(), length).prop_map(move |ways| {
        let spell = |(c, (escape, upper)): (char, (bool, bool))| {
            if escape || c < ' ' || c == '"' || c == '\\' {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter();
                units.map(|u| if upper { format!("\\u{u:04X}") } else { format!("\\u{u:04x}") }).collect()
            } else {
                c.to_string()
            }
        };
        format!("\"{}\"", content.chars().zip(ways).map(spell).collect::<String>())
    })
}

/// The text of a JSON string, with every kind of content.
pub(super) fn string_text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["\"\"", "\"a\"", "\"{\"", "\"]\"", "\"\\\\\"", "\"\\\"\"", "\"\\/\\b\\n\"", "\"a,b:c\""])
            .prop_map(str::to_owned),
        any::<String>().prop_flat_map(spelled),
        "[a-c]{0,2}".prop_flat_map(spelled),
    ]
}

fn scalar_text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["null", "true", "false", "0", "-0", "1.0", "1e5", "-12.50E-3", "1152921504606846977"])
            .prop_map(str::to_owned),
        any::<i64>().prop_map(|n| n.to_string()),
        string_text(),
    ]
}

/// The text of any JSON value; keys repeat often.
pub(super) fn json_text() -> BoxedStrategy<String> {
    scalar_text()
        .prop_recursive(4, 24, 5, |inner| {
            let item = (space(), inner.clone(), space()).prop_map(|(a, v, b)| format!("{a}{v}{b}"));
            let array = vec(item, 0..5).prop_map(|items| format!("[{}]", items.join(",")));
            prop_oneof![array, object_text(string_text().boxed(), inner)]
        })
        .boxed()
}

/// The text of an object of up to five members.
pub(super) fn object_text(key: BoxedStrategy<String>, value: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let member = (space(), key, space(), space(), value, space());
    let member = member.prop_map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}"));
    (vec(member, 0..6), space()).prop_map(|(members, s)| format!("{{{}{s}}}", members.join(","))).boxed()
}
