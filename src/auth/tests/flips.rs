//! No bit of a token can be another: in header, claims or signature.

use std::sync::LazyLock;

use base64::Engine as _;
use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;

use super::super::kit::Signer;
use super::{RSA, Script, auth, authenticator, claims, verdict};
use crate::auth::Authenticator;

struct Bench {
    runtime: Runtime,
    gate: Authenticator,
    tokens: Vec<String>,
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let (curve, edwards) = (Signer::p256("k"), Signer::ed("e"));
    // One signature the other way round would be another token of the same meaning, and may be taken: not here.
    let script = Script::of(&[&curve, &edwards, &RSA]);
    let gate = authenticator(&auth("", ""), &script);
    let claims = claims(json!({}));
    let pss = RSA.token_with(&json!({ "alg": "PS256" }), &claims);
    let tokens = vec![RSA.token(&claims), pss, curve.token(&claims), edwards.token(&claims)];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    Bench { runtime, gate, tokens }
});

fn taken(token: &str) -> bool {
    BENCH.runtime.block_on(verdict(&BENCH.gate, token)).is_ok()
}

#[test]
fn the_tokens_are_good() {
    for token in &BENCH.tokens {
        assert!(taken(token), "{token}");
    }
}

/// Every single letter, and every last bit of it, of one token.
#[test]
fn no_letter_is_spare() {
    for token in &BENCH.tokens[2..] {
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1;
            // What is no text cannot come in a header.
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert!(!taken(&changed), "letter {at}: {changed}");
        }
        for cut in 1..8 {
            assert!(!taken(&token[..token.len() - cut]));
        }
        assert!(!taken(&format!("{token}A")) && !taken(&format!("{token}=")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_bit_of_the_text_is_spare(which in 0..4_usize, at in any::<prop::sample::Index>(), bit in 0..7_u8) {
        let token = &BENCH.tokens[which];
        let mut bytes = token.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let changed = String::from_utf8(bytes).unwrap();
        prop_assert!(!taken(&changed), "bit {} of letter {}", bit, at);
    }

    /// Bits of what the text stands for, coded again as they should be.
    #[test]
    fn no_bit_of_the_parts_is_spare(
        which in 0..4_usize, part in 0..3_usize, at in any::<prop::sample::Index>(), bit in 0..8_u8
    ) {
        let engine = &base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let mut parts: Vec<String> = BENCH.tokens[which].split('.').map(str::to_owned).collect();
        let mut bytes = engine.decode(&parts[part]).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        parts[part] = engine.encode(bytes);
        prop_assert!(!taken(&parts.join(".")), "bit {} of byte {} of part {}", bit, at, part);
    }
}
