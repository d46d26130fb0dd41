//! Pages towards clients (`page_size`): they cover the list exactly, their cursors are sealed, bound to list and
//! endpoint, refused once the list has changed, good at every replica: L-50..L-55, M-46.

use serde_json::Value;

use crate::support::client::Reply;
use crate::support::feed::{Feed, Stream, TELLS, declare};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::mcp;
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT, judge, row};

const METHODS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

fn offer(count: usize) -> Offer {
    let many = |make: fn(usize) -> String| (0..count).map(make).collect::<Vec<String>>();
    Offer {
        tools: many(|n| format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}},"x":1.0}}"#)),
        prompts: many(|n| format!(r#"{{"name":"p{n}"}}"#)),
        resources: many(|n| format!(r#"{{"uri":"x://r{n}","name":"r"}}"#)),
        templates: many(|n| format!(r#"{{"uriTemplate":"x://t{n}/{{id}}","name":"t"}}"#)),
        ..Offer::default()
    }
    .fresh()
}

async fn page_at(gateway: &Gateway, path: &str, method: &str, cursor: Option<&str>) -> Reply {
    let params = cursor.map_or_else(|| "{}".to_owned(), |c| format!("{{\"cursor\":{c}}}"));
    gateway.send(mcp(method, params).request().at(path)).await
}

/// The items of each page, the cursors between them as JSON text, and the hints.
async fn walk(gateway: &Gateway, path: &str, method: &str, key: &str) -> (Vec<Vec<Value>>, Vec<String>) {
    let (mut pages, mut cursors) = (Vec::new(), Vec::new());
    loop {
        let reply = page_at(gateway, path, method, cursors.last().map(String::as_str)).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
        let result = reply.result();
        assert_eq!((&result["resultType"], &result["cacheScope"]), (&"complete".into(), &"public".into()));
        assert!(result["ttlMs"].as_u64().is_some_and(|ttl| ttl > 0));
        pages.push(result[key].as_array().unwrap().clone());
        match result.get("nextCursor") {
            Some(next) => cursors.push(json::quoted(next.as_str().unwrap())),
            None => return (pages, cursors),
        }
    }
}

/// Covers: L-52, L-54, L-58: sizes around the number of items; in order, nothing twice, nothing left out.
#[tokio::test(flavor = "multi_thread")]
async fn l_54_pages_cover_the_list() {
    // URIs are never rewritten, so each server has its own.
    let other = |items: &[String]| items.iter().map(|item| item.replace("x://", "y://")).collect::<Vec<_>>();
    let second = offer(5);
    let second = Offer { resources: other(&second.resources), templates: other(&second.templates), ..second };
    let one = Server::modern("one", offer(7)).await;
    let two = Server::modern("two", second.clone()).await;
    for size in [0_usize, 1, 4, 11, 12, 13, 100_000] {
        let gateway = Setup::new()
            .gateway(&format!("page_size = {size}"))
            .http("one", &one.url(), "")
            .http("two", &two.url(), "")
            .start()
            .await;
        for (method, key) in METHODS {
            let (pages, _) = walk(&gateway, "/mcp", method, key).await;
            let sizes: Vec<usize> = pages.iter().map(Vec::len).collect();
            let size = if size == 0 { usize::MAX } else { size };
            let expected: Vec<usize> = (0..12).step_by(size.min(12)).map(|at| size.min(12 - at)).collect();
            assert_eq!(sizes, expected, "{method} by {size}");
            let all: Vec<String> = pages.concat().iter().map(Value::to_string).collect();
            let prefixed = |server: &str, item: &str| match key {
                "tools" => {
                    item.replace("\"t", &format!("\"{server}_t")).replace(&format!("{server}_type"), "type")
                }
                "prompts" => item.replace("\"p", &format!("\"{server}_p")),
                _ => item.to_owned(),
            };
            let native = |server: &str, offer: Offer| {
                let items = match key {
                    "tools" => offer.tools,
                    "prompts" => offer.prompts,
                    "resources" => offer.resources,
                    _ => offer.templates,
                };
                items.iter().map(|item| json::value(&prefixed(server, item)).to_string()).collect::<Vec<_>>()
            };
            let mut expected = native("one", offer(7));
            expected.extend(native("two", second.clone()));
            assert_eq!(all, expected, "{method} by {size}");
        }
        gateway.stop().await;
    }
}

const BOTH: &str = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false";

/// Covers: L-51, L-55: what is no cursor of ours for this list at this endpoint is refused.
#[tokio::test(flavor = "multi_thread")]
async fn l_55_cursors_are_sealed() {
    let server = Server::modern("s", offer(9)).await;
    let gateway = Setup::new().gateway("page_size = 2").toml(BOTH).http("s", &server.url(), "").start().await;
    let (_, cursors) = walk(&gateway, "/mcp", "tools/list", "tools").await;
    let cursor = &cursors[1];
    let ask = |method: &str, path: &str, cursor: &str| {
        mcp(method, format!("{{\"cursor\":{cursor}}}")).request().at(path)
    };
    let mut rows = vec![
        row("ours", ask("tools/list", "/mcp", cursor), 200, RESULT),
        row("none", ask("tools/list", "/mcp", "null"), 200, RESULT),
        row("another kind's", ask("prompts/list", "/mcp", cursor), 200, PARAMS),
        row("another endpoint's", ask("tools/list", "/raw", cursor), 200, PARAMS),
        row("empty", ask("tools/list", "/mcp", "\"\""), 200, PARAMS),
        row("a number", ask("tools/list", "/mcp", "2"), 200, PARAMS),
        row("an object", ask("tools/list", "/mcp", "{}"), 200, PARAMS),
        row("junk", ask("tools/list", "/mcp", "\"abc\""), 200, PARAMS),
        row("long junk", ask("tools/list", "/mcp", &json::quoted(&"A".repeat(10_000))), 200, PARAMS),
        row("cut", ask("tools/list", "/mcp", &format!("{}\"", &cursor[..cursor.len() - 2])), 200, PARAMS),
        row("longer", ask("tools/list", "/mcp", &format!("{}A\"", &cursor[..cursor.len() - 1])), 200, PARAMS),
    ];
    // One character changed, wherever it stands.
    for at in 1..cursor.len() - 1 {
        let other = if cursor.as_bytes()[at] == b'A' { "B" } else { "A" };
        let changed = format!("{}{other}{}", &cursor[..at], &cursor[at + 1..]);
        rows.push(row(format!("changed at {at}"), ask("tools/list", "/mcp", &changed), 200, PARAMS));
    }
    judge(&gateway, rows).await;
    assert!(!cursors.iter().any(|c| c.contains("offset") || c.contains("tools")), "nothing to read in it");
    gateway.stop().await;
}

/// Covers: L-51, L-54, L-56: a cursor of a list that has changed is refused; the new list starts anew.
#[tokio::test(flavor = "multi_thread")]
async fn l_51_cursors_end_with_their_list() {
    let server = Server::modern("s", offer(9)).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let gateway = Setup::new().gateway("page_size = 4").http("s", &server.url(), "").launch().await;
    let feed = Feed::accept(feeds.next().await);
    server.asked("tools/list", 1).await;
    let (_, cursors) = walk(&gateway, "/mcp", "tools/list", "tools").await;
    let mut stream = Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    assert_eq!(page_at(&gateway, "/mcp", "tools/list", Some(&cursors[0])).await.code(), None);
    server.offer(offer(10));
    feed.changed("tools");
    assert_eq!(stream.notice().await, "tools");
    for cursor in &cursors {
        let reply = page_at(&gateway, "/mcp", "tools/list", Some(cursor)).await;
        assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{reply:?}");
    }
    let (pages, _) = walk(&gateway, "/mcp", "tools/list", "tools").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
    gateway.stop().await;
}

/// Covers: L-55, design §7: any process with the keys continues; one with other keys, or none, does not.
#[tokio::test(flavor = "multi_thread")]
async fn l_55_cursors_at_another_replica() {
    let server = Server::modern("s", offer(9)).await;
    let replica = |keys: &str| {
        let own = format!("page_size = 4\n{keys}");
        Setup::new().gateway(&own).http("s", &server.url(), "").start()
    };
    let (old, new) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let key = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let (old, new) = (key(old), key(new));
    let one = replica(&format!("keys = [\"{old}\"]")).await;
    let (pages, cursors) = walk(&one, "/mcp", "tools/list", "tools").await;
    for (keys, good) in [
        (format!("keys = [\"{old}\"]"), true),
        (format!("keys = [\"{new}\", \"{old}\"]"), true),
        (format!("keys = [\"{new}\"]"), false),
        (String::new(), false),
    ] {
        let two = replica(&keys).await;
        for (page, cursor) in cursors.iter().enumerate() {
            let reply = page_at(&two, "/mcp", "tools/list", Some(cursor)).await;
            if good {
                assert_eq!(reply.result()["tools"], Value::from(pages[page + 1].clone()), "{keys}");
            } else {
                assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{keys}");
            }
        }
        two.stop().await;
    }
    one.stop().await;
}

/// Covers: L-51: without paging there is no cursor that could be right.
#[tokio::test(flavor = "multi_thread")]
async fn without_page_size_every_cursor_is_refused() {
    let server = Server::modern("s", offer(9)).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    for (method, key) in METHODS {
        let (pages, cursors) = walk(&gateway, "/mcp", method, key).await;
        assert_eq!((pages[0].len(), cursors.len()), (9, 0));
        for cursor in ["\"\"", "\"x\"", "1", "[]"] {
            let reply = page_at(&gateway, "/mcp", method, Some(cursor)).await;
            assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{method} {cursor}: {reply:?}");
        }
    }
    gateway.stop().await;
}
