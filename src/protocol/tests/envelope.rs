//! The envelope against serde_json, and every malformed body of F-088.

use super::{Tree, json_text, space, spelled};
use crate::protocol::envelope::{Bound, Envelope, EnvelopeError, Limits, MessageKind, exceeded};
use crate::protocol::object::{Object, Span};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::{Index, select};
use serde::de::IgnoredAny;

const LIMITS: Limits = Limits { max_depth: 128, max_elements: 100_000 };

fn parse(body: impl Into<Bytes>) -> Result<Envelope, EnvelopeError> {
    Envelope::parse(body.into(), LIMITS)
}

/// Code and id of a refusal.
fn refusal(body: impl Into<Bytes>) -> (i32, Option<String>) {
    let error = parse(body).expect_err("must be refused");
    (error.code, error.id.map(|id| String::from_utf8(id.raw().to_vec()).unwrap()))
}

#[test]
fn f088_not_json_is_a_parse_error_without_id() {
    for body in [
        &b""[..],
        b"  ",
        b"{",
        b"nul",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}{}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\0\"}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}",
        b"\xff\xfe{\0}\0",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",}",
        b"{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"a\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"a\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} // no",
    ] {
        assert_eq!(refusal(body), (-32700, None), "{}", String::from_utf8_lossy(body));
    }
    let deep =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{{\"a\":{}", "[".repeat(10_000));
    assert_eq!(refusal(deep), (-32700, None));
}

#[test]
fn f088_json_that_is_no_message_is_an_invalid_request() {
    for (body, id) in [
        ("[]", None),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"a"}]"#, None),
        ("null", None),
        ("\"a\"", None),
        ("{}", None),
        (r#"{"jsonrpc":"2.0"}"#, None),
        (r#"{"jsonrpc":"2.0","id":7}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"params":{}}"#, Some("7")),
        (r#"{"id":"7","method":"a"}"#, Some("\"7\"")),
        (r#"{"jsonrpc":"1.0","id":7,"method":"a"}"#, Some("7")),
        (r#"{"jsonrpc":2.0,"id":7,"method":"a"}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1e3,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"\ud800"}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","result":{}}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","error":null}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","\ud800":1}"#, Some("7")),
        (r#"{"\udc00":1,"jsonrpc":"2.0","id":7,"method":"a"}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"\ud800":1}}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"_meta":{"\ud800":1}}}"#, Some("7")),
    ] {
        assert_eq!(refusal(body), (-32600, id.map(str::to_owned)), "{body}");
    }
}

#[test]
fn design2_a_key_we_read_occurs_once_however_spelled() {
    for (body, id) in [
        (r#"{"jsonrpc":"2.0","id":7,"\u0069d":8,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":7,"id":7,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"a"}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","metho\u0064":"b"}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{},"params":{}}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"result":1,"res\u0075lt":1}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"_meta":{},"_met\u0061":{}}}"#, Some("7")),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"_meta":{"progressToken":1,"progressToken":2}}}"#,
            Some("7"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"a",
            "io.modelcontextprotocol\/protocolVersion":"b"}}}"#,
            Some("7"),
        ),
    ] {
        assert_eq!(refusal(body), (-32600, id.map(str::to_owned)), "{body}");
    }
    let named_twice =
        r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"name":"x","na\u006de":"y","z":1,"z":2}}"#;
    let envelope = parse(named_twice).unwrap();
    assert!(envelope.param("name").is_err(), "found when somebody reads it");
}

#[test]
fn m02_m04_ids_keep_type_and_digits() {
    let long = format!("\"{}\"", "x".repeat(200));
    for id in [
        "0",
        "-1",
        "9007199254740993",
        "123456789012345678901234567890",
        "\"\"",
        "\"1\"",
        r#""\u0041\ud800""#,
        &long,
    ] {
        let envelope =
            parse(format!("{{\"id\": {id} ,\"jsonrpc\":\"2.0\",\"method\":\"a\\u0062\"}}")).unwrap();
        assert_eq!(envelope.id().map(|id| &id.raw()[..]), Some(id.as_bytes()));
        assert_eq!(envelope.method(), "ab");
    }
}

#[test]
fn m08_params_of_any_kind() {
    let with = |params: &str| parse(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"a\"{params}}}")).unwrap();
    let none = with("");
    assert_eq!(
        (none.params.is_some(), none.params_malformed, none.kind),
        (false, false, MessageKind::Notification)
    );
    for other in ["[]", "null", "1", "\"x\""] {
        let envelope = with(&format!(",\"params\":{other}"));
        assert_eq!((envelope.params.is_some(), envelope.params_malformed), (false, true), "{other}");
    }
    let odd = with(",\"params\":{\"_meta\":[1],\"name\":\"n\"}");
    assert!(odd.meta.is_none() && !odd.params_malformed);
    assert_eq!(odd.param("name").unwrap().unwrap().of(odd.text()), "\"n\"");
    assert_eq!(with(",\"params\":{\"_meta\":{\"a\":1}}").meta.unwrap().object.members.len(), 1);
}

#[test]
fn limits_are_counted_before_anything_is_built() {
    let params = |inner: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\",\"params\":{{\"a\":{inner}}}}}")
    };
    let nested = |levels: usize| params(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    assert!(parse(nested(126)).is_ok(), "128 levels with the two objects around");
    assert_eq!(refusal(nested(127)), (-32700, None));
    let far = Limits { max_depth: 2000, max_elements: 100_000 };
    assert!(Envelope::parse(nested(1998).into(), far).is_ok(), "the bound is the operator's, not a parser's");

    let few = Limits { max_depth: 128, max_elements: 8 };
    assert!(Envelope::parse(params("[1,2,3]").into(), few).is_ok(), "4 + 1 + 3");
    let error = Envelope::parse(params("[1,2,3,4]").into(), few).unwrap_err();
    assert_eq!((error.code, error.id.is_some(), error.bound), (-32602, true, Some(Bound::Elements)));
    // The id may stand behind all of them, and what is no message is still told by what it is.
    let late = format!("{{\"jsonrpc\":\"2.0\",\"params\":[{}1],\"i\\u0064\":\"x\"}}", "1,".repeat(200));
    let error = Envelope::parse(late.clone().into(), few).unwrap_err();
    assert_eq!((error.code, error.id.unwrap().raw().as_ref()), (-32602, &b"\"x\""[..]));
    for (body, code) in [
        (format!("[{}1]", "1,".repeat(20)), -32600),
        (late.replace("\"jsonrpc\"", "\"id\""), -32600),
        (late.replace('}', ""), -32700),
        (late.replace("\"i\\u0064\"", "\"\\ud800\""), -32600),
    ] {
        let error = Envelope::parse(body.clone().into(), few).unwrap_err();
        assert_eq!(error.code, code, "{body}");
    }
    let deep = Envelope::parse(nested(200).into(), LIMITS).unwrap_err();
    assert_eq!(deep.bound, Some(Bound::Depth));
}

/// Members of a message, good and bad ones.
fn member() -> impl Strategy<Value = String> {
    let key = select(vec!["jsonrpc", "id", "method", "result", "error", "params", "x"]);
    let key = key.prop_flat_map(|key| spelled(key.to_owned()));
    let common =
        vec!["\"2.0\"", "7", "\"a\"", "-0", "12345678901234567890123", "null", "1.0", "{}", "{\"_meta\":{}}"];
    let value = prop_oneof![4 => select(common).prop_map(str::to_owned), 1 => json_text()];
    (space(), key, space(), value, space())
        .prop_map(|(a, key, b, value, c)| format!("{a}{key}{b}:{value}{c}"))
}

fn message() -> impl Strategy<Value = String> {
    let good = [r#""jsonrpc":"2.0""#, r#""id":7"#, r#""method":"a""#].map(|m| select(vec!["", m]));
    let ([a, b, c], more) = (good, vec(member(), 0..4));
    (a, b, c, more, any::<Index>()).prop_map(|(a, b, c, mut members, turn)| {
        members.extend([a, b, c].iter().filter(|m| !m.is_empty()).map(|m| (*m).to_owned()));
        let turn = if members.is_empty() { 0 } else { turn.index(members.len()) };
        members.rotate_left(turn);
        format!("{{{}}}", members.join(","))
    })
}

/// What kind of message the parsed JSON is, from the rules M-01, M-02, M-07 and design §2.
fn expected(text: &str) -> Option<&'static str> {
    let members = Tree::read(text)?.members();
    let once = |key: &str| {
        let hits: Vec<_> = members.iter().enumerate().filter(|(_, (k, _))| k == key).collect();
        match hits[..] {
            [] => Some(None),
            [(at, (_, value))] => Some(Some((at, value))),
            _ => None,
        }
    };
    let [jsonrpc, id, method] = [once("jsonrpc")?, once("id")?, once("method")?];
    let [result, error, params] = [once("result")?, once("error")?, once("params")?];
    let text_of = |tree: &Tree| match tree {
        Tree::Scalar(value) => value.as_str().map(str::to_owned),
        _ => None,
    };
    if text_of(jsonrpc?.1)? != "2.0" {
        return None;
    }
    if let Some((_, Tree::Object(params))) = params
        && params.iter().filter(|(key, _)| key == "_meta").count() > 1
    {
        return None;
    }
    if let Some((at, value)) = id {
        // Digits decide: serde_json turns great integers into floats.
        let object = Object::parse(text, Span::new(0, text.len())).unwrap();
        let raw = object.members[at].value.of(text);
        let integer = raw.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        (text_of(value).is_some() || integer).then_some(())?;
    }
    match (method, id, result, error) {
        (Some((_, m)), id, None, None) => {
            text_of(m).map(|_| if id.is_some() { "request" } else { "notification" })
        }
        (None, _, Some(_), None) | (None, _, None, Some(_)) => Some("response"),
        _ => None,
    }
}

proptest! {
    #[test]
    fn messages_are_judged_as_the_parsed_json_would_be(text in message()) {
        let found = parse(text.clone());
        let kind = found.as_ref().ok().map(|envelope| match envelope.kind {
            MessageKind::Request(_) => "request",
            MessageKind::Notification => "notification",
            MessageKind::Response => "response",
        });
        prop_assert_eq!(kind, expected(&text), "{}", text);
        if let Err(error) = found {
            prop_assert_eq!(error.code, -32600, "{}", text);
        }
    }

    #[test]
    fn f088_any_bytes_get_the_right_class_of_refusal(
        text in message(), at in any::<Index>(), byte in any::<u8>(), way in 0..4,
    ) {
        let mut body = text.into_bytes();
        let at = at.index(body.len());
        match way {
            0 => body.truncate(at),
            1 => body[at] = byte,
            2 => body.insert(at, byte),
            _ => drop(body.remove(at)),
        }
        let json = std::str::from_utf8(&body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        match parse(body.clone()) {
            Ok(_) => prop_assert!(json),
            Err(error) => prop_assert_eq!(error.code, if json { -32600 } else { -32700 }),
        }
        let _ = exceeded(&body, LIMITS);
    }

    #[test]
    fn bounds_count_what_serde_finds(text in json_text()) {
        fn count(tree: &Tree) -> (usize, usize) {
            let inner: Vec<_> = match tree {
                Tree::Scalar(_) => return (0, 0),
                Tree::Array(items) => items.iter().map(count).collect(),
                Tree::Object(members) => members.iter().map(|(_, value)| count(value)).collect(),
            };
            let depth = inner.iter().map(|i| i.0).max().unwrap_or(0);
            (depth + 1, inner.len() + inner.iter().map(|i| i.1).sum::<usize>())
        }
        let (depth, elements) = count(&Tree::read(&text).unwrap());
        let over = |max_depth, max_elements| exceeded(text.as_bytes(), Limits { max_depth, max_elements });
        prop_assert_eq!(over(depth, elements), None);
        if depth > 0 {
            prop_assert_eq!(over(depth - 1, usize::MAX), Some(Bound::Depth));
        }
        if elements > 0 {
            prop_assert_eq!(over(usize::MAX, elements - 1), Some(Bound::Elements));
        }
    }

    #[test]
    fn bounds_take_any_bytes(bytes in any::<Vec<u8>>()) {
        let wide = Limits { max_depth: bytes.len(), max_elements: bytes.len() };
        prop_assert_eq!(exceeded(&bytes, wide), None);
    }
}
