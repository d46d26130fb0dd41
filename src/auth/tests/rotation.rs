//! Keys that come and go, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, advance, sleep};

use super::super::Reason;
use super::super::keys::INTERVAL;
use super::super::kit::Signer;
use super::{Script, auth, authenticator, claims, verdict};

/// Lets what runs behind the scenes run.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Covers: A-23: rotation costs no valid token, and as few fetches as there are rotations.
#[tokio::test(start_paused = true)]
async fn a_23_rotations_under_load() {
    let keys: Vec<Signer> = ["k0", "k1", "k2", "k3"].into_iter().map(Signer::ed).collect();
    let script = Script::of(&[&keys[0]]);
    let gate = authenticator(&auth("", ""), &script);
    for round in 0..4 {
        // The old key stays for its tokens; the new one is used at once.
        let published: Vec<&Signer> = keys[round.max(1) - 1..=round].iter().collect();
        script.publish(&published);
        for batch in 0..5 {
            let tokens: Vec<String> = published
                .iter()
                .flat_map(|key| {
                    (0..50).map(|n| key.token(&claims(json!({ "jti": format!("{round} {batch} {n}") }))))
                })
                .collect();
            for taken in join_all(tokens.iter().map(|token| verdict(&gate, token))).await {
                assert!(taken.is_ok(), "round {round}: {taken:?}");
            }
            advance(Duration::from_secs(3)).await;
        }
        assert_eq!(script.asked(), round + 1);
    }
}

/// Covers: A-23: an outage costs no token of known keys, at any age up to a day.
#[tokio::test(start_paused = true)]
async fn a_23_outages() {
    let (known, new) = (Signer::ed("known"), Signer::ed("new"));
    let script = Script::of(&[&known]);
    let gate = authenticator(&auth("", ""), &script);
    let fresh = |n: u32| known.token(&claims(json!({ "jti": n.to_string() })));
    assert!(verdict(&gate, &fresh(0)).await.is_ok());
    script.fall_silent();
    for minute in 1..60 {
        assert!(verdict(&gate, &fresh(minute)).await.is_ok(), "minute {minute}");
        settle().await;
        advance(Duration::from_secs(60)).await;
    }
    let while_silent = script.asked() - 1;
    assert!((1..60).contains(&while_silent), "tried again, and no oftener than asked: {while_silent}");
    // A key that came meanwhile: not known to be wrong, so not called wrong.
    script.fall_silent();
    let unknown = new.token(&claims(json!({})));
    assert_eq!(verdict(&gate, &unknown).await.unwrap_err(), Reason::KeysUnavailable);
    script.publish(&[&known, &new]);
    advance(Duration::from_secs(6)).await;
    assert!(verdict(&gate, &unknown).await.is_ok());
    // Nothing is believed for ever.
    script.fall_silent();
    sleep(Duration::from_secs(24 * 3600 + 1)).await;
    assert_eq!(verdict(&gate, &fresh(61)).await.unwrap_err(), Reason::KeysUnavailable);
}

/// Covers: A-23: a cold start against a dead server recovers by itself and does not hammer it.
#[tokio::test(start_paused = true)]
async fn a_23_a_server_that_is_dead_at_first() {
    let key = Signer::ed("k");
    let script = Arc::new(Script::default());
    let gate = authenticator(&auth("", ""), &script);
    let token = key.token(&claims(json!({})));
    for _ in 0..50 {
        assert_eq!(verdict(&gate, &token).await.unwrap_err(), Reason::KeysUnavailable);
    }
    assert_eq!(script.asked(), 1);
    script.publish(&[&key]);
    advance(Duration::from_secs(6)).await;
    assert!(verdict(&gate, &token).await.is_ok());
}

/// Covers: A-23: a flood of unknown keys causes one fetch an interval.
#[tokio::test(start_paused = true)]
async fn a_23_floods_of_unknown_keys() {
    let key = Signer::ed("known");
    let script = Script::of(&[&key]);
    let gate = authenticator(&auth("", ""), &script);
    assert!(verdict(&gate, &key.token(&claims(json!({})))).await.is_ok());
    let junk: Vec<String> = (0..200)
        .map(|n| key.token_with(&json!({ "kid": format!("junk {n}") }), &claims(json!({}))))
        .chain((0..50).map(|n| key.token_with(&json!({ "kid": null }), &claims(json!({ "jti": n })))))
        .collect();
    // Good keys without a name fit; as they are signed by a known key they are taken and cost nothing.
    let started = Instant::now();
    for interval in 1..4 {
        for _ in 0..3 {
            let verdicts = join_all(junk.iter().map(|token| verdict(&gate, token))).await;
            for refused in &verdicts[..200] {
                assert_eq!(refused.as_ref().unwrap_err(), &Reason::Key);
            }
            assert!(verdicts[200..].iter().all(Result::is_ok));
            advance(INTERVAL / 4).await;
        }
        assert_eq!(script.asked(), 1 + interval, "after {:?}", started.elapsed());
        advance(INTERVAL / 4).await;
    }
}

/// Covers: A-23, design §7: what a withdrawn key has signed is not believed any more, kept or not.
#[tokio::test(start_paused = true)]
async fn withdrawn_keys_take_their_tokens_with_them() {
    let (stolen, next) = (Signer::ed("stolen"), Signer::ed("next"));
    let script = Script::of(&[&stolen]);
    let gate = authenticator(&auth("", ""), &script);
    let (old, new) = (stolen.token(&claims(json!({}))), next.token(&claims(json!({}))));
    assert!(verdict(&gate, &old).await.is_ok());
    script.publish(&[&next]);
    assert!(verdict(&gate, &old).await.is_ok(), "not known yet");
    assert!(verdict(&gate, &new).await.is_ok());
    assert_eq!(verdict(&gate, &old).await.unwrap_err(), Reason::Key);
    // The same name with another key is another key.
    let namesake = Signer::ed("next");
    script.publish(&[&namesake]);
    advance(Duration::from_secs(700)).await;
    assert!(verdict(&gate, &new).await.is_ok(), "the clock asks behind the scenes");
    settle().await;
    assert_eq!(verdict(&gate, &new).await.unwrap_err(), Reason::Signature);
    assert!(verdict(&gate, &namesake.token(&claims(json!({})))).await.is_ok());
}

/// Keys and tokens without a `kid`: every key that fits is tried, and a new one is found.
#[tokio::test(start_paused = true)]
async fn keys_without_a_name() {
    let (first, second) = (Signer::ed("").nameless(), Signer::ed("").nameless());
    let script = Script::of(&[&first]);
    let gate = authenticator(&auth("", ""), &script);
    assert!(verdict(&gate, &first.token(&claims(json!({})))).await.is_ok());
    script.publish(&[&first, &second]);
    assert!(verdict(&gate, &second.token(&claims(json!({})))).await.is_ok());
    assert_eq!(script.asked(), 2);
    let thief = Signer::ed("").nameless();
    assert_eq!(verdict(&gate, &thief.token(&claims(json!({})))).await.unwrap_err(), Reason::Key);
    assert_eq!(script.asked(), 2, "no oftener than once an interval");
}
