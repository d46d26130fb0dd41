//! Keys that change while calls run: 5,000 calls, three rotations, an outage; the clock is moved by the test.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant as Clock;

use crate::support::id_server::Signer;
use crate::support::inside::{Inside, later};
use crate::support::measure::measured;
use crate::support::people::{PUBLIC, People, now, with};
use crate::support::request::call;
use crate::support::scale;
use crate::support::server::{Offer, Server};
use crate::support::table::RESULT;

/// Calls in all at scale 1.
const CALLS: usize = 5000;
/// Callers at once.
const CALLERS: usize = 50;
/// Batches of calls: three for each of four keys, ten in the outage, two after it.
const BATCHES: usize = 4 * 3 + 10 + 2;
/// An issuer is asked again for keys it did not have no sooner than after this.
const INTERVAL: Duration = Duration::from_secs(30);
/// After it did not answer.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// How often something can have been done since then that is done once in `pause`: by the clock that the gateway has, since
/// time passes on a slow machine also while the test does not move it.
fn at_most(since: Clock, pause: Duration) -> usize {
    1 + (since.elapsed().as_secs() / pause.as_secs()) as usize
}

struct Load<'b> {
    people: &'b People,
    gateway: &'b Inside,
    batch: usize,
}

impl Load<'_> {
    /// Calls of many callers at once, each with a token never seen before, by these keys in turn.
    async fn run(&mut self, keys: &[&Signer]) {
        self.batch += 1;
        let each = (CALLS * scale()).div_ceil(BATCHES * CALLERS);
        let run = |caller: usize| {
            let (batch, people, gateway) = (self.batch, self.people, self.gateway);
            async move {
                let mut connection = gateway.connect().await;
                for n in 0..each {
                    let now = now();
                    let claims = json!({
                        "iss": people.id.url, "sub": format!("c{caller}"), "aud": format!("{PUBLIC}/mcp"),
                        "client_id": "app", "jti": format!("{batch} {n}"), "iat": now, "exp": now + 3600,
                    });
                    let token = keys[n % keys.len()].token(&claims);
                    let reply = connection.send(with(call("s_t", "{}"), &token)).await;
                    assert_eq!(reply.verdict(), (200, Some(RESULT)), "batch {batch}: {reply:?}");
                }
            }
        };
        join_all((0..CALLERS).map(run)).await;
    }
}

/// Covers: A-23, issue 4: no valid token is refused, and the issuer is asked at most once an interval.
#[tokio::test]
async fn a_23_five_thousand_calls_through_rotations_and_an_outage() {
    let people = People::new().await;
    let keys: Vec<Signer> = ["r0", "r1", "r2", "r3"].into_iter().map(Signer::ed).collect();
    people.id.publish(&[&keys[0]]);
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let keys_at = format!("jwks_url = \"{}/keys\"", people.id.url);
    let gateway = Inside::start(people.setup_with(&keys_at).http("s", &server.url(), "")).await;
    let mut load = Load { people: &people, gateway: &gateway, batch: 0 };
    let began = Instant::now();
    // Each rotation in the middle of the load: the old key stays for its tokens, the new one is used at once.
    for round in 0..keys.len() {
        let published: Vec<&Signer> = keys[round.max(1) - 1..=round].iter().collect();
        people.id.publish(&published);
        for _ in 0..3 {
            load.run(&published).await;
            later(INTERVAL / 3).await;
        }
        assert_eq!(people.id.fetches(), round + 1, "one fetch a rotation");
        later(Duration::from_secs(1)).await;
    }
    // The keys are old enough to be fetched anew when their address falls silent for ten seconds.
    later(Duration::from_secs(601)).await;
    people.id.state.broken.store(true, Ordering::SeqCst);
    let (last, before, silent) = ([&keys[2], &keys[3]], people.id.fetches(), Clock::now());
    for _ in 0..10 {
        load.run(&last).await;
        later(Duration::from_secs(1)).await;
    }
    let tried = people.id.fetches() - before;
    let most = at_most(silent, AFTER_FAILURE);
    assert!((1..=most).contains(&tried), "once in five seconds at most, {most} times: {tried}");
    people.id.state.broken.store(false, Ordering::SeqCst);
    later(AFTER_FAILURE).await;
    let before = people.id.fetches();
    load.run(&last).await;
    load.run(&last).await;
    assert_eq!(people.id.fetches(), before + 1, "then once, behind the scenes");
    // Whoever asks for keys that are not there does not make the gateway ask for each.
    let (junk, began_junk) = (Signer::ed("junk"), Clock::now());
    for n in 0..50 {
        let claims = json!({ "iss": people.id.url, "sub": "x", "aud": format!("{PUBLIC}/mcp"), "exp": now() + 60, "n": n });
        let token = junk.token_with(&json!({ "kid": format!("junk {n}") }), &claims);
        assert_eq!(gateway.send(with(call("s_t", "{}"), &token)).await.status(), 401);
    }
    let asked = people.id.fetches() - before - 1;
    assert!((1..=at_most(began_junk, INTERVAL)).contains(&asked), "once an interval at most: {asked}");
    load.run(&last).await;
    let calls = server.requests("tools/call").len();
    assert!(calls >= CALLS, "{calls}");
    measured("5,000 calls through three rotations and an outage took", began.elapsed());
    gateway.stop().await;
}
