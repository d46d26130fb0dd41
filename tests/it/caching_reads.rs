//! Reads kept by their own hints, never across retries, forgotten when told: L-10..L-12, L-20..L-24, L-44.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::exchange::Answer;
use crate::support::feed::{Feed, TELLS, declare, watch};
use crate::support::gateway::Setup;
use crate::support::inside::{Inside, later};
use crate::support::json;
use crate::support::request::mcp;
use crate::support::server::{Offer, Server};
use crate::support::table::RESULT;

const HOUR: Duration = Duration::from_secs(3600);

/// A server whose reads say how often it was asked, with these hints.
async fn counting(hints: &str) -> Server {
    let offer = Offer { resources: vec![r#"{"uri":"x://a","name":"a"}"#.to_owned()], ..Offer::default() };
    let server = Server::modern("s", offer.fresh()).await;
    let count = Arc::new(AtomicUsize::new(0));
    let hints = if hints.is_empty() { String::new() } else { format!(",{hints}") };
    server.on("resources/read", move |seen| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        let uri = seen.raw(&["params", "uri"]).unwrap();
        Answer::result(seen, &format!(r#"{{"contents":[{{"uri":{uri},"text":"{number}"}}]{hints}}}"#))
    });
    server
}

async fn read(gateway: &Inside, uri: &str, more: &str) -> Value {
    let params = format!("{{\"uri\":{}{more}}}", json::quoted(uri));
    let reply = gateway.send(mcp("resources/read", params)).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    reply.result()
}

fn told(result: &Value) -> (&str, u64, &str) {
    let text = result["contents"][0]["text"].as_str().unwrap();
    (text, result["ttlMs"].as_u64().unwrap(), result["cacheScope"].as_str().unwrap())
}

/// Covers: L-10, L-20, L-44: hints of reads, what is told of them, and when a read is asked for again.
#[tokio::test]
async fn l_44_reads_live_by_their_own_hints() {
    for (hints, life, scope) in [
        (r#""ttlMs":3600000,"cacheScope":"public""#, 3_600_000, "public"),
        (r#""ttlMs":3600000,"cacheScope":"private""#, 3_600_000, "private"),
        (r#""ttlMs":3600000"#, 3_600_000, "private"),
        (r#""ttlMs":0,"cacheScope":"public""#, 0, "public"),
        (r#""ttlMs":-1,"cacheScope":"public""#, 0, "public"),
        (r#""ttlMs":"1","cacheScope":"x""#, 0, "private"),
        ("", 0, "private"),
    ] {
        let server = counting(hints).await;
        let gateway = Inside::start(Setup::new().http("s", &server.url(), "")).await;
        let first = read(&gateway, "x://a", "").await;
        assert_eq!(told(&first), ("1", life, scope), "{hints}");
        let second = read(&gateway, "x://a", "").await;
        let (text, left, again) = told(&second);
        assert_eq!((text, again), (if life == 0 { "2" } else { "1" }, scope), "{hints}");
        assert!(left <= life, "{hints}: {left}");
        later(HOUR / 2).await;
        let third = read(&gateway, "x://a", "").await;
        let (text, left, _) = told(&third);
        assert_eq!(text, if life == 0 { "3" } else { "1" }, "{hints}");
        assert!(left <= life / 2, "{hints}: {left} is more than what is left");
        later(HOUR / 2).await;
        let fourth = read(&gateway, "x://a", "").await;
        assert_eq!(told(&fourth), (if life == 0 { "4" } else { "2" }, life, scope), "{hints}");
        gateway.stop().await;
    }
}

/// Covers: L-12: answers to retries are neither given from memory nor kept, and say so.
#[tokio::test]
async fn l_12_retries_are_not_cached() {
    let server = counting(r#""ttlMs":3600000,"cacheScope":"public""#).await;
    let gateway = Inside::start(Setup::new().http("s", &server.url(), "")).await;
    let retry = r#","inputResponses":{"q":{"action":"accept","content":{}}}"#;
    assert_eq!(told(&read(&gateway, "x://a", retry).await), ("1", 0, "private"));
    let plain = read(&gateway, "x://a", "").await;
    assert_eq!(told(&plain).0, "2", "the retry's answer was not kept");
    assert_eq!(
        told(&read(&gateway, "x://a", retry).await),
        ("3", 0, "private"),
        "nor is a retry answered so"
    );
    let plain = read(&gateway, "x://a", "").await;
    assert_eq!(told(&plain).0, "2", "and the one that may be kept still is");
    gateway.stop().await;
}

/// Covers: L-11: a read that asks back is not kept.
#[tokio::test]
async fn l_11_questions_are_not_cached() {
    let server = counting("").await;
    server.on("resources/read", |seen| {
        Answer::result(
            seen,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}},"ttlMs":3600000,"cacheScope":"public"}"#,
        )
    });
    let gateway = Inside::start(Setup::new().http("s", &server.url(), "")).await;
    for round in 1..=3 {
        let request = mcp("resources/read", r#"{"uri":"x://a"}"#).capabilities(r#"{"elicitation":{}}"#);
        let result = gateway.send(request).await.result();
        assert_eq!(result["resultType"], "input_required");
        assert_eq!(server.requests("resources/read").len(), round);
    }
    gateway.stop().await;
}

/// Covers: L-24, S-07, S-35: told of an update, a client never reads the old text; parts go with the whole.
#[tokio::test(flavor = "multi_thread")]
async fn l_24_updates_make_reads_old_before_they_are_told() {
    let server = counting(r#""ttlMs":3600000,"cacheScope":"public""#).await;
    server.offer(
        Offer {
            resources: ["x://d", "x://d/part", "x://other", "x://e/", "x://e/part"]
                .map(|uri| format!("{{\"uri\":\"{uri}\",\"name\":\"n\"}}"))
                .to_vec(),
            ..Offer::default()
        }
        .fresh(),
    );
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let gateway = Setup::new().http("s", &server.url(), "").launch().await;
    let feed = Feed::accept(feeds.next().await);
    let filter = r#"{"resourceSubscriptions":["x://d","x://d/part","x://e/"]}"#;
    let (mut stream, feed) = watch(&gateway, &mut feeds, feed, "\"u\"", filter).await;
    let text = async |uri: &str| {
        let reply = gateway.send(mcp("resources/read", format!("{{\"uri\":\"{uri}\"}}"))).await;
        reply.result()["contents"][0]["text"].as_str().unwrap().parse::<usize>().unwrap()
    };
    let other = text("x://other").await;
    for _ in 0..100 {
        let (whole, part) = (text("x://d").await, text("x://d/part").await);
        assert_eq!((text("x://d").await, text("x://d/part").await), (whole, part), "from memory");
        feed.updated("x://d");
        // One notice or two: the part's may be told with the whole's, but both are old now.
        assert_eq!(stream.notice().await, "x://d");
        let (new_whole, new_part) = (text("x://d").await, text("x://d/part").await);
        assert!(new_whole > whole && new_part > part, "read anew");
        assert_eq!(text("x://other").await, other, "nobody spoke of that one");
    }
    let part = text("x://e/part").await;
    feed.updated("x://e/part");
    assert_eq!(stream.notice().await, "x://e/", "a part of what is watched");
    assert!(text("x://e/part").await > part);
    drop(stream);
    gateway.stop().await;
}
