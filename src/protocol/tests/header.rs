//! The header codec: tables of the rules, and the round trip of every string.

use crate::protocol::header::{HeaderError, decode, encode, plain};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

#[test]
fn h41_values_as_they_are_sent() {
    for (value, sent) in [
        ("eu-north", "eu-north"),
        ("", ""),
        ("a b", "a b"),
        (" a", "=?base64?IGE=?="),
        ("a\tb", "=?base64?YQli?="),
        ("\u{e4}", "=?base64?w6Q=?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("=?base64?x", "=?base64?x"),
        ("=?BASE64?x?=", "=?BASE64?x?="),
        ("x?=", "x?="),
        ("日本語", "=?base64?5pel5pys6Kqe?="),
    ] {
        assert_eq!(encode(value), sent, "{value:?}");
        assert_eq!(decode(sent.as_bytes()).as_deref(), Ok(value), "{sent}");
    }
    for value in ["a ", "\ta", "a\n", "\u{7f}", "\r\n", "\u{0}", "=?base64?=", "=?base64??="] {
        assert!(encode(value).starts_with("=?base64?"), "{value:?}");
        assert_ne!(encode(value), value);
    }
}

#[test]
fn h42_h43_values_as_they_are_received() {
    for (received, value) in [
        ("=?base64?ZmluZA==?=", Ok("find")),
        ("=?base64?ZmluZA?=", Err(HeaderError::Base64)),
        ("=?base64?ZmluZA=?=", Err(HeaderError::Base64)),
        ("=?base64?ZmluZA===?=", Err(HeaderError::Base64)),
        ("=?base64?ZmluZB==?=", Err(HeaderError::Base64)),
        ("=?base64?SGVsbG8?=", Err(HeaderError::Base64)),
        ("=?base64?Zmlu ZA==?=", Err(HeaderError::Base64)),
        ("=?base64?Zm-_?=", Err(HeaderError::Base64)),
        ("=?base64?/w==?=", Err(HeaderError::Base64)),
        ("=?base64?7aCA?=", Err(HeaderError::Base64)),
        ("=?base64??=", Ok("")),
        ("=?BASE64?ZmluZA==?=", Ok("=?BASE64?ZmluZA==?=")),
        ("=?base64?ZmluZA==", Ok("=?base64?ZmluZA==")),
        ("ZmluZA==?=", Ok("ZmluZA==?=")),
        ("  find \t", Ok("find")),
        (" =?base64?IGE=?= ", Ok(" a")),
        ("Find", Ok("Find")),
        ("", Ok("")),
        ("\t ", Ok("")),
        ("a\tb", Ok("a\tb")),
    ] {
        assert_eq!(decode(received.as_bytes()).as_deref(), value.as_ref().copied(), "{received}");
    }
}

#[test]
fn h35_no_other_bytes() {
    for byte in 0..=u8::MAX {
        let good = byte == b'\t' || (0x20..=0x7e).contains(&byte);
        let value = [b'a', byte, b'b'];
        assert_eq!(plain(&value).is_ok(), good, "{byte:#x}");
        assert_eq!(decode(&value).err() == Some(HeaderError::Characters), !good, "{byte:#x}");
    }
}

#[test]
fn h44_plain_does_not_decode() {
    assert_eq!(plain(b" =?base64?ZmluZA==?="), Ok("=?base64?ZmluZA==?="));
}

proptest! {
    #[test]
    fn every_string_comes_back(
        value in prop_oneof![
            any::<String>(), "[ \t]{0,2}[ -~]{0,12}[ \t]{0,2}", "=\\?base64\\?[ -~]{0,8}\\?=", "(=\\?base64|\\?|=){0,4}"
        ],
    ) {
        let sent = encode(&value);
        prop_assert_eq!(decode(sent.as_bytes()).unwrap(), value.as_str());
        prop_assert!(sent.bytes().all(|b| (0x20..=0x7e).contains(&b)));
        prop_assert_eq!(sent.trim(), &*sent);
        prop_assert!(sent == value.as_str() || sent.starts_with("=?base64?"));
    }

    #[test]
    fn only_canonical_base64_of_utf8_is_read(
        coded in prop_oneof![any::<Vec<u8>>(), "[A-Za-d0+/]{0,6}={0,3}".prop_map(String::into_bytes)],
    ) {
        let value = [b"=?base64?", &coded[..], b"?="].concat();
        if let Ok(text) = decode(&value) {
            prop_assert_eq!(coded, base64_by_the_book(&text).into_bytes());
        }
    }
}

/// Base64 by the book, bit for bit.
fn base64_by_the_book(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}
