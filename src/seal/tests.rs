//! Sealed tokens: what opens, and that nothing else does.

use super::{Purpose, Sealer};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, prop_assert_ne, proptest};
use proptest::sample::Index;
use std::collections::HashSet;

fn sealer(keys: &[[u8; 32]]) -> Sealer {
    Sealer::new(keys).unwrap()
}

#[test]
fn each_purpose_and_endpoint_opens_its_own() {
    let sealer = sealer(&[[7; 32]]);
    for purpose in Purpose::ALL {
        for endpoint in ["/mcp", "/mcp/github", ""] {
            let token = sealer.seal(purpose, endpoint, b"secret");
            for other in Purpose::ALL {
                for place in ["/mcp", "/mcp/github", "", "/MCP", "/mcp\n"] {
                    let expected = (other == purpose && place == endpoint).then(|| b"secret".to_vec());
                    assert_eq!(sealer.open(other, place, &token), expected);
                }
            }
        }
    }
}

#[test]
fn keys_rotate() {
    let (old, new) = ([1; 32], [2; 32]);
    let (before, during, after) = (sealer(&[old]), sealer(&[new, old]), sealer(&[new]));
    let opens = |sealer: &Sealer, token: &str| sealer.open(Purpose::Session, "/mcp", token).is_some();
    let ancient = before.seal(Purpose::Session, "/mcp", b"s");
    assert_eq!([&before, &during, &after].map(|s| opens(s, &ancient)), [true, true, false]);
    let fresh = during.seal(Purpose::Session, "/mcp", b"s");
    assert_eq!([&before, &during, &after].map(|s| opens(s, &fresh)), [false, true, true]);
    let other_replica = sealer(&[old]);
    assert!(opens(&other_replica, &ancient), "the keys are all it takes");
    let (one, two) = (Sealer::random(), Sealer::random());
    let token = one.seal(Purpose::Session, "/mcp", b"s");
    assert!(opens(&one, &token) && !opens(&two, &token));
    assert!(Sealer::new::<[u8; 32]>(&[]).is_none());
}

#[test]
fn keys_do_not_show() {
    let sealer = sealer(&[[200; 32], [201; 32]]);
    assert_eq!(format!("{sealer:?}"), "Sealer { keys: 2, .. }");
}

#[test]
fn equal_texts_give_different_tokens() {
    let sealer = sealer(&[[7; 32]]);
    let tokens: HashSet<_> = (0..100).map(|_| sealer.seal(Purpose::Cursor, "/mcp", b"same")).collect();
    assert_eq!(tokens.len(), 100);
}

#[test]
fn junk_does_not_open() {
    let sealer = sealer(&[[7; 32]]);
    let token = sealer.seal(Purpose::State, "/mcp", b"");
    assert_eq!(sealer.open(Purpose::State, "/mcp", &token).as_deref(), Some(&b""[..]));
    for junk in [
        "",
        ".",
        "1",
        "1.",
        "2.",
        "1.AAAA",
        "1.====",
        "\u{e4}",
        &token[1..],
        &token[2..],
        &format!("1{token}"),
    ] {
        assert_eq!(sealer.open(Purpose::State, "/mcp", junk), None, "{junk}");
    }
    for altered in [
        format!("{token}="),
        format!("{token} "),
        format!(" {token}"),
        format!("{token}A"),
        format!("{token}AAAA"),
    ] {
        assert_eq!(sealer.open(Purpose::State, "/mcp", &altered), None, "{altered}");
    }
}

proptest! {
    #[test]
    fn texts_come_back_and_every_change_is_noticed(
        text in vec(any::<u8>(), 0..80), endpoint in "/[a-z/]{0,9}", at in any::<Index>(), to in "[ -~]", length in any::<Index>(),
    ) {
        let sealer = sealer(&[[3; 32], [4; 32]]);
        let token = sealer.seal(Purpose::Task, &endpoint, &text);
        prop_assert_eq!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), true);
        prop_assert_eq!(sealer.open(Purpose::Task, &endpoint, &token), Some(text));

        let at = at.index(token.len());
        let changed = [&token[..at], &to, &token[at + 1..]].concat();
        if changed == token {
            return Ok(());
        }
        prop_assert_eq!(sealer.open(Purpose::Task, &endpoint, &changed), None);
        let shorter = &token[..length.index(token.len())];
        prop_assert_eq!(sealer.open(Purpose::Task, &endpoint, shorter), None);
        prop_assert_ne!(sealer.seal(Purpose::Task, &endpoint, b""), token);
    }
}
