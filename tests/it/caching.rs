//! What is kept, for how long and for whom, by a clock that the tests move: L-10..L-28, L-40..L-44; issue 3,
//! "cache truth table".

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::Setup;
use crate::support::inside::{Inside, later};
use crate::support::request::mcp;
use crate::support::server::{Offer, Server, tool};
use crate::support::table::RESULT;

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: u64 = 3_600_000;

fn one_tool(hints: &[&str]) -> Offer {
    let hints = hints.iter().filter(|hint| !hint.is_empty());
    Offer { hints: hints.map(|hint| (*hint).to_owned()).collect(), ..Offer::tools(&["t"]) }
}

async fn list(gateway: &Inside) -> Value {
    let reply = gateway.send(mcp("tools/list", "{}")).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    reply.result()
}

fn walks(server: &Server) -> usize {
    server.requests("tools/list").len()
}

/// A gateway of this server alone, after its first walk and the first answer to a client.
async fn warm(server: &Server, own: &str, more: &str) -> (Inside, Value) {
    let gateway = Inside::start(Setup::new().gateway(own).http("s", &server.url(), more)).await;
    // The walk of the start has begun: whoever asks now shares it, so that no other follows.
    server.asked("tools/list", 1).await;
    let first = list(&gateway).await;
    (gateway, first)
}

/// Covers: L-10, L-20, L-40..L-42, issue 3: every kind of `ttlMs` and `cacheScope`: what is told, and who is asked again.
#[tokio::test]
async fn l_20_the_table_of_hints() {
    const DAY: u64 = 24 * HOUR_MS;
    let operator = "ttl = \"1h\"\ncache_scope = \"public\"";
    for (ttl, scope, more, told, told_scope) in [
        (r#""ttlMs":3600000"#, r#""cacheScope":"public""#, "", HOUR_MS, "public"),
        (r#""ttlMs":3600000"#, r#""cacheScope":"private""#, "", HOUR_MS, "private"),
        (r#""ttlMs":3600000"#, "", "", HOUR_MS, "private"),
        (r#""ttlMs":3600000"#, r#""cacheScope":"PUBLIC""#, "", HOUR_MS, "private"),
        (r#""ttlMs":3600000"#, r#""cacheScope":"everyone""#, "", HOUR_MS, "private"),
        (r#""ttlMs":3600000"#, r#""cacheScope":1"#, "", HOUR_MS, "private"),
        (r#""ttlMs":3600000"#, r#""cacheScope":null"#, "", HOUR_MS, "private"),
        (r#""ttlMs":99999999999999999999999"#, r#""cacheScope":"public""#, "", DAY, "public"),
        (r#""ttlMs":9007199254740993"#, r#""cacheScope":"public""#, "", DAY, "public"),
        (r#""ttlMs":0"#, r#""cacheScope":"public""#, "", 0, "public"),
        (r#""ttlMs":-5"#, r#""cacheScope":"public""#, "", 0, "public"),
        (r#""ttlMs":1500.5"#, r#""cacheScope":"public""#, "", 0, "public"),
        (r#""ttlMs":"3600000""#, r#""cacheScope":"public""#, "", 0, "public"),
        (r#""ttlMs":true"#, r#""cacheScope":"public""#, "", 0, "public"),
        ("", r#""cacheScope":"public""#, "", 0, "public"),
        ("", "", "", 0, "private"),
        ("", "", operator, HOUR_MS, "public"),
        (r#""ttlMs":0"#, r#""cacheScope":"private""#, operator, 0, "private"),
        (r#""ttlMs":-1"#, r#""cacheScope":"junk""#, operator, 0, "private"),
    ] {
        let row = format!("{ttl} {scope} {more}");
        let server = Server::modern("s", one_tool(&[ttl, scope])).await;
        let (gateway, first) = warm(&server, "", more).await;
        assert_eq!(first["cacheScope"], told_scope, "{row}");
        let life = first["ttlMs"].as_u64().unwrap_or_else(|| panic!("{row}: {first}"));
        // A tenth of an hour for this machine to answer.
        assert!((told.saturating_sub(HOUR_MS / 10)..=told).contains(&life), "{row}: {life}");
        let before = walks(&server);
        let second = list(&gateway).await;
        assert_eq!(second["tools"], first["tools"], "{row}");
        assert_eq!(walks(&server) > before, told == 0, "{row}: {before} walks, then {}", walks(&server));
        gateway.stop().await;
    }
}

/// Covers: L-20, L-25, L-40: a life counts from its receipt; nobody asks before its end, the next client does after.
#[tokio::test]
async fn l_40_lives_age_and_end() {
    let long = Server::modern("long", one_tool(&[r#""ttlMs":36000000"#, r#""cacheScope":"public""#])).await;
    let short = Server::modern("short", one_tool(&[r#""ttlMs":7200000"#, r#""cacheScope":"public""#])).await;
    let setup = Setup::new().http("long", &long.url(), "").http("short", &short.url(), "");
    let gateway = Inside::start(setup).await;
    long.asked("tools/list", 1).await;
    short.asked("tools/list", 1).await;
    let life = |list: &Value| list["ttlMs"].as_u64().unwrap();
    let slack = HOUR_MS / 10;
    let near = |life: u64, wanted: u64| (wanted - slack..=wanted).contains(&life);
    assert!(near(life(&list(&gateway).await), 2 * HOUR_MS));
    later(HOUR).await;
    assert!(near(life(&list(&gateway).await), HOUR_MS), "what is left, not what was given");
    assert_eq!((walks(&long), walks(&short)), (1, 1));
    later(HOUR).await;
    // Over, and nobody wants to know: nobody asks (L-25).
    assert_eq!((walks(&long), walks(&short)), (1, 1));
    assert!(near(life(&list(&gateway).await), 2 * HOUR_MS), "asked anew, and fresh again");
    assert_eq!((walks(&long), walks(&short)), (1, 2), "only the one that was over");
    for _ in 0..5 {
        later(Duration::from_secs(61)).await;
        list(&gateway).await;
    }
    assert_eq!((walks(&long), walks(&short)), (1, 2));
    gateway.stop().await;
}

/// Covers: L-25: servers whose changes nobody tells are not polled either.
#[tokio::test]
async fn l_25_time_alone_asks_nobody() {
    let fresh = [r#""ttlMs":36000000"#, r#""cacheScope":"public""#];
    let modern = Server::modern("m", one_tool(&fresh)).await;
    let legacy = Server::legacy("l", Offer { hints: vec![], ..one_tool(&[]) }).await;
    let setup = Setup::new().http("m", &modern.url(), "").http("l", &legacy.url(), "ttl = \"10h\"");
    let gateway = Inside::start(setup).await;
    modern.asked("tools/list", 1).await;
    legacy.asked("tools/list", 1).await;
    list(&gateway).await;
    let before = (modern.seen().len(), legacy.seen().len());
    for _ in 0..20 {
        later(Duration::from_secs(90)).await;
        // A client's request gives everything that the clock woke its turn.
        list(&gateway).await;
    }
    assert_eq!((modern.seen().len(), legacy.seen().len()), before);
    gateway.stop().await;
}

/// Covers: L-26, L-33, issue 3 "server down before and after expiry".
#[tokio::test]
async fn l_26_a_server_that_fails_is_stood_in_for_until_stale_if_error() {
    let server = Server::modern("s", one_tool(&[r#""ttlMs":3600000"#, r#""cacheScope":"public""#])).await;
    let (gateway, first) = warm(&server, "stale_if_error = \"2h\"", "").await;
    server.on("tools/list", |seen| Answer::error(seen, 500, -32603, "down"));
    assert_eq!(list(&gateway).await["tools"], first["tools"], "before the end: from memory");
    assert_eq!(walks(&server), 1);
    later(HOUR).await;
    let stale = list(&gateway).await;
    assert_eq!((&stale["tools"], &stale["ttlMs"]), (&first["tools"], &json!(0)));
    assert_eq!(stale["cacheScope"], "public");
    assert!(stale["_meta"].get("dev.gatehouse/missing").is_none(), "{stale}");
    assert_eq!(walks(&server), 2, "it was asked");
    later(HOUR * 2).await;
    let gone = list(&gateway).await;
    assert_eq!((&gone["tools"], &gone["_meta"]["dev.gatehouse/missing"]), (&json!([]), &json!(["s"])));
    assert!(gone["ttlMs"].as_u64().unwrap() <= 5000, "{gone}");
    server.release("tools/list");
    assert_eq!(list(&gateway).await["tools"], first["tools"], "back again");
    drop(server);
    later(HOUR).await;
    let stale = list(&gateway).await;
    assert_eq!((&stale["tools"], &stale["ttlMs"]), (&first["tools"], &json!(0)), "nobody listens there");
    later(HOUR * 2).await;
    assert_eq!(list(&gateway).await["_meta"]["dev.gatehouse/missing"], json!(["s"]));
    gateway.stop().await;
}

/// Covers: L-50, L-53, L-57: pages with hints of their own: the shortest life, the narrowest scope.
#[tokio::test]
async fn l_57_pages_of_different_lives() {
    let server = Server::modern("s", one_tool(&[])).await;
    server.on("tools/list", |seen: &Seen| {
        let (one, two) = (tool("one"), tool("two"));
        Answer::result(
            seen,
            &match seen.raw(&["params", "cursor"]).as_deref() {
                None => {
                    format!(r#"{{"tools":[{one}],"nextCursor":"","ttlMs":7200000,"cacheScope":"public"}}"#)
                }
                Some(_) => format!(r#"{{"tools":[{two}],"ttlMs":3600000,"cacheScope":"private"}}"#),
            },
        )
    });
    let (gateway, first) = warm(&server, "", "").await;
    assert_eq!(first["tools"][1]["name"], "s_two", "an empty cursor is a cursor");
    assert_eq!(first["cacheScope"], "private");
    assert!((HOUR_MS * 9 / 10..=HOUR_MS).contains(&first["ttlMs"].as_u64().unwrap()));
    assert_eq!(walks(&server), 2);
    later(HOUR).await;
    list(&gateway).await;
    assert_eq!(walks(&server), 4, "all pages are asked for again when one is over");
    gateway.stop().await;
}
