//! Decimals against integer arithmetic and against serde_json's own number grammar.

use crate::protocol::number::Decimal;
use proptest::prelude::{any, prop_assert_eq, proptest};

fn integer(text: &str) -> Option<String> {
    Decimal::parse(text).and_then(|n| n.integer())
}

#[test]
fn h40_integers_in_plain_decimal() {
    for (text, plain) in [
        ("42", "42"),
        ("42.0", "42"),
        ("4.2e1", "42"),
        ("420E-1", "42"),
        ("4200.00e-2", "42"),
        ("-7", "-7"),
        ("-0", "0"),
        ("0.000", "0"),
        ("0e5", "0"),
        ("1e3", "1000"),
        ("1e+3", "1000"),
        ("1200", "1200"),
        ("9007199254740993", "9007199254740993"),
        ("9007199254740993.0", "9007199254740993"),
    ] {
        assert_eq!(integer(text).as_deref(), Some(plain), "{text}");
    }
    for text in ["1.5", "1e-1", "-0.1", "10.01", "1e401", "1e999999999999999", "1e9999999999999999"] {
        assert_eq!(integer(text), None, "{text}");
    }
}

#[test]
fn h53_equal_by_value_to_the_last_digit() {
    let equal = |a: &str, b: &str| Decimal::parse(a).unwrap() == Decimal::parse(b).unwrap();
    assert!(equal("42", "42.0") && equal("0", "-0.0") && equal("1e2", "100") && equal("0.10", "1e-1"));
    assert!(!equal("9007199254740993", "9007199254740992"), "a float sees no difference");
    assert!(!equal("42", "-42") && !equal("1", "10") && !equal("0.1", "0.01"));
}

#[test]
fn other_spellings_are_no_numbers() {
    for text in [
        "", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "1e1.5", "0x10", " 1", "1 ", "1_000", "1,5",
        "NaN", "Infinity", "--1", "1-", "1e--1", "\u{661}", "1\u{0}", "\"1\"", "1ee1", "1.2.3",
    ] {
        assert_eq!(Decimal::parse(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn every_spelling_of_an_integer_is_that_integer(n in any::<i64>(), shift in 0_usize..25, zeros in 0_usize..4) {
        let plain = n.to_string();
        let digits = plain.trim_start_matches('-');
        let (whole, fraction) = digits.split_at(digits.len().saturating_sub(shift).max(1));
        let point = if fraction.is_empty() && zeros == 0 { "" } else { "." };
        let sign = if n < 0 { "-" } else { "" };
        let text = format!("{sign}{whole}{point}{fraction}{}e{}", "0".repeat(zeros), fraction.len());
        prop_assert_eq!(integer(&text), Some(plain));
        prop_assert_eq!(Decimal::parse(&text), Decimal::parse(&n.to_string()));
        let expected = u64::try_from(n).unwrap_or(0);
        prop_assert_eq!(Decimal::parse(&text).unwrap().clamped(), Some(expected));
    }

    #[test]
    fn the_grammar_is_jsons(text in "-?[01.e+-]{0,6}") {
        let json = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(Decimal::parse(&text).is_some(), json, "{}", text);
    }
}
