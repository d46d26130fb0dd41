//! Arguments against headers: the tables of the rules and F-034.

use super::super::{Bindings, ParamError};
use super::read;
use crate::protocol::object::ObjectError;
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::json;

/// The tool of F-034: a string, an integer, a boolean and a nested property.
pub(super) fn tool() -> Bindings {
    read(&json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "n": {"type": "integer", "x-mcp-header": "N"},
        "b": {"type": "boolean", "x-mcp-header": "B"},
        "o": {"type": "object", "properties": {"s": {"type": ["string", "null"], "x-mcp-header": "S"}}},
        "free": {"type": "string"},
    }}))
    .unwrap()
}

fn check(arguments: &str, headers: &[(&str, &str)]) -> Result<(), String> {
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    tool().check(Some(arguments), headers).map_err(|error| match error {
        ParamError::Mismatch(header) => header.as_str().to_owned(),
        ParamError::Arguments(error) => format!("{error:?}"),
    })
}

#[test]
fn f034_headers_that_fit() {
    for (arguments, name, value) in [
        (r#"{"region":"eu"}"#, "Mcp-Param-Region", "eu"),
        (r#"{"region":"eu"}"#, "MCP-PARAM-REGION", " eu\t"),
        (r#"{"region":"eu"}"#, "mcp-param-region", "=?base64?ZXU=?="),
        (r#"{"regio\u006e":"\u0065u"}"#, "mcp-param-region", "eu"),
        (r#"{"region":""}"#, "mcp-param-region", ""),
        (r#"{"region":" a"}"#, "mcp-param-region", "=?base64?IGE=?="),
        (r#"{"region":"42"}"#, "mcp-param-region", "42"),
        (r#"{"region":"null"}"#, "mcp-param-region", "null"),
        (r#"{"region":42}"#, "mcp-param-region", "42"),
        (r#"{"region":true}"#, "mcp-param-region", "true"),
        (r#"{"n":42}"#, "mcp-param-n", "42"),
        (r#"{"n":42}"#, "mcp-param-n", "42.0"),
        (r#"{"n":42.0}"#, "mcp-param-n", "42"),
        (r#"{"n":4.2e1}"#, "mcp-param-n", "42"),
        (r#"{"n":-0}"#, "mcp-param-n", "0"),
        (r#"{"n":42}"#, "mcp-param-n", "=?base64?NDI=?="),
        (r#"{"n":9007199254740993}"#, "mcp-param-n", "9007199254740993"),
        (r#"{"n":1e99999999999999999999}"#, "mcp-param-n", "1e99999999999999999999"),
        (r#"{"b":true}"#, "mcp-param-b", "true"),
        (r#"{"b":false}"#, "mcp-param-b", "false"),
        (r#"{"o":{"s":"x"}}"#, "mcp-param-s", "x"),
    ] {
        assert_eq!(check(arguments, &[(name, value)]), Ok(()), "{arguments} {name}: {value}");
        let header = name.to_ascii_lowercase();
        assert_eq!(check(arguments, &[]), Err(header.clone()), "{arguments} without its header");
        assert_eq!(check(arguments, &[(name, value), (name, value)]), Err(header.clone()), "twice (H-09)");
        let twice = [(name, value), (&header.to_uppercase(), value)];
        assert_eq!(check(arguments, &twice), Err(header), "twice in two spellings");
    }
}

#[test]
fn f034_headers_that_do_not_fit() {
    for (arguments, name, value) in [
        (r#"{"region":"eu"}"#, "mcp-param-region", "EU"),
        (r#"{"region":"eu"}"#, "mcp-param-region", ""),
        (r#"{"region":"find"}"#, "mcp-param-region", "=?base64?ZmluZA?="),
        (r#"{"region":"find"}"#, "mcp-param-region", "=?BASE64?ZmluZA==?="),
        (r#"{"region":"=?base64?ZmluZA?="}"#, "mcp-param-region", "=?base64?ZmluZA?="),
        (r#"{"region":"ä"}"#, "mcp-param-region", "ä"),
        (r#"{"region":"42"}"#, "mcp-param-region", "42.0"),
        (r#"{"region":"\ud800"}"#, "mcp-param-region", "=?base64?7aCA?="),
        (r#"{"region":"\ud800"}"#, "mcp-param-region", r"\ud800"),
        (r#"{"region":null}"#, "mcp-param-region", "null"),
        (r#"{"region":null}"#, "mcp-param-region", ""),
        ("{}", "mcp-param-region", "eu"),
        (r#"{"region":{"a":1}}"#, "mcp-param-region", r#"{"a":1}"#),
        (r#"{"region":[]}"#, "mcp-param-region", "[]"),
        (r#"{"n":42}"#, "mcp-param-n", "43"),
        (r#"{"n":42}"#, "mcp-param-n", "042"),
        (r#"{"n":42}"#, "mcp-param-n", "+42"),
        (r#"{"n":42}"#, "mcp-param-n", "0x2a"),
        (r#"{"n":42}"#, "mcp-param-n", "\"42\""),
        (r#"{"n":9007199254740993}"#, "mcp-param-n", "9007199254740992"),
        (r#"{"b":true}"#, "mcp-param-b", "True"),
        (r#"{"b":true}"#, "mcp-param-b", "1"),
        (r#"{"o":null}"#, "mcp-param-s", "x"),
        (r#"{"o":"x"}"#, "mcp-param-s", "x"),
        (r#"{"o":{}}"#, "mcp-param-s", "x"),
        (r#"{"o":{"s":null}}"#, "mcp-param-s", "x"),
        ("[]", "mcp-param-n", "1"),
        ("null", "mcp-param-n", "1"),
    ] {
        assert_eq!(check(arguments, &[(name, value)]), Err(name.to_owned()), "{arguments} {name}: {value}");
    }
    assert_eq!(
        tool().check(None, [("mcp-param-n", &b"1"[..])]).map_err(|e| e.to_string()),
        Err("header mcp-param-n does not match the arguments".to_owned()),
        "no arguments at all; and the text holds no value"
    );
    let bytes = tool().check(Some(r#"{"region":"a"}"#), [("mcp-param-region", &b"a\x80"[..])]);
    assert!(matches!(bytes, Err(ParamError::Mismatch(_))));
}

#[test]
fn h52_h55_what_needs_no_header_and_what_nobody_asked_for() {
    for arguments in [
        "{}",
        r#"{"region":null,"n":null,"o":{"s":null},"free":"x"}"#,
        r#"{"o":[],"n":{},"b":[1]}"#,
        "[]",
        "null",
    ] {
        assert_eq!(check(arguments, &[]), Ok(()), "{arguments}");
    }
    let foreign = [
        ("Mcp-Param-Unknown", "1"),
        ("mcp-param-unknown", "2"),
        ("mcp-param-", "x"),
        ("mcp-name", "=?base64?!?="),
    ];
    assert_eq!(check(r#"{"free":"x"}"#, &foreign), Ok(()));
    assert_eq!(tool().check(None, []), Ok(()));
    assert_eq!(
        Bindings::default().check(Some("{"), [("mcp-param-a", &b"1"[..])]),
        Ok(()),
        "nothing is read for nothing"
    );
}

#[test]
fn design2_keys_on_the_way_occur_once() {
    for (arguments, error) in [
        (r#"{"region":"eu","regio\u006e":"us"}"#, ObjectError::Duplicate),
        (r#"{"o":{"s":"x","s":"x"}}"#, ObjectError::Duplicate),
        (r#"{"o":{},"o":{"s":"x"}}"#, ObjectError::Duplicate),
        (r#"{"\ud800":1}"#, ObjectError::BadKey),
        ("{", ObjectError::Syntax),
    ] {
        let headers = [("mcp-param-region", &b"eu"[..]), ("mcp-param-s", b"x")];
        let found = tool().check(Some(arguments), headers);
        assert!(found.is_err(), "{arguments}");
        assert_eq!(tool().headers_for(Some(arguments)), Err(ParamError::Arguments(error)), "{arguments}");
    }
    assert_eq!(check(r#"{"free":1,"free":2}"#, &[]), Ok(()), "others are not ours to judge");
}

#[test]
fn h40_h41_h54_headers_to_send() {
    for (arguments, mut expected) in [
        ("{}", vec![]),
        (r#"{"region":null,"o":{"s":null},"free":"x"}"#, vec![]),
        (
            r#"{"region":"","n":-7,"b":true,"o":{"s":"a\tb"}}"#,
            vec![
                "mcp-param-region: ",
                "mcp-param-n: -7",
                "mcp-param-b: true",
                "mcp-param-s: =?base64?YQli?=",
            ],
        ),
        (r#"{"region":"ä"}"#, vec!["mcp-param-region: =?base64?w6Q=?="]),
        (r#"{"n":42.0}"#, vec!["mcp-param-n: 42"]),
        (r#"{"n":4.2e1}"#, vec!["mcp-param-n: 42"]),
        (r#"{"n":9007199254740993}"#, vec!["mcp-param-n: 9007199254740993"]),
        (r#"{"n":1.50,"region":1e2}"#, vec!["mcp-param-region: 100", "mcp-param-n: 1.50"]),
        (r#"{"region":{},"n":[1]}"#, vec![]),
    ] {
        let headers = tool().headers_for(Some(arguments)).unwrap();
        let text = |(name, value): &(http::HeaderName, http::HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        let mut found: Vec<_> = headers.iter().map(text).collect();
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{arguments}");
    }
    assert_eq!(tool().headers_for(None), Ok(vec![]));
    assert!(matches!(tool().headers_for(Some(r#"{"region":"\ud800"}"#)), Err(ParamError::Mismatch(_))));
}

proptest! {
    #[test]
    fn what_we_send_we_would_accept(
        region in any::<String>(), n in any::<i64>(), b in any::<bool>(), s in proptest::option::of(any::<String>()),
    ) {
        let arguments = json!({"region": region, "n": n, "b": b, "o": {"s": s}, "free": "x"}).to_string();
        let headers = tool().headers_for(Some(&arguments)).unwrap();
        prop_assert_eq!(headers.len(), if s.is_some() { 4 } else { 3 });
        let pairs = || headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        prop_assert_eq!(tool().check(Some(&arguments), pairs()), Ok(()));

        for (left_out, (name, sent)) in headers.iter().enumerate() {
            let rest = pairs().enumerate().filter(|(i, _)| *i != left_out).map(|(_, pair)| pair);
            let expected = Err(ParamError::Mismatch(name.clone()));
            prop_assert_eq!(tool().check(Some(&arguments), rest), expected.clone());
            let wrong = pairs().enumerate().map(|(i, (name, value))| (name, if i == left_out { &b"\"\""[..] } else { value }));
            let same = sent == "\"\"";
            prop_assert_eq!(tool().check(Some(&arguments), wrong), if same { Ok(()) } else { expected });
        }
    }
}
