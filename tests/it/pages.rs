//! Lists of servers, followed whole and within bounds: L-30, L-50..L-57, F-017, F-048, design §5.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::support::eventually;
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::names;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server, tool};

const FRESH: &str = r#""ttlMs":3600000,"cacheScope":"public""#;

/// One page; `next` is the JSON text of `nextCursor`.
fn page(seen: &Seen, items: &[String], next: Option<&str>) -> Answer {
    let next = next.map(|next| format!(",\"nextCursor\":{next}")).unwrap_or_default();
    let items = items.join(",");
    Answer::result(seen, &format!("{{\"resultType\":\"complete\",{FRESH},\"tools\":[{items}]{next}}}"))
}

fn cursor(seen: &Seen) -> Option<String> {
    seen.raw(&["params", "cursor"])
}

/// The pages of a list: the cursor that leads to each, as JSON text, the first without.
fn paged(server: &Server, cursors: &'static [&'static str], last: Option<&'static str>) {
    server.on("tools/list", move |seen| {
        let at = match cursor(seen) {
            None => 0,
            Some(given) => match cursors.iter().position(|cursor| json::value(cursor) == json::value(&given))
            {
                Some(at) => at + 1,
                None => return Answer::error(seen, 200, -32602, "no such cursor"),
            },
        };
        page(seen, &[tool(&format!("t{at}"))], cursors.get(at).copied().or(last))
    });
}

async fn one(server: &Server, more: &str) -> Gateway {
    Setup::new().http("s", &server.url(), more).start().await
}

async fn tools(gateway: &Gateway) -> Vec<String> {
    names(&mut gateway.connect().await, "tools/list").await
}

/// Covers: L-50: every cursor that is a string is followed as it is, also the empty one; absent and `null` are the end.
#[tokio::test(flavor = "multi_thread")]
async fn l_50_cursors_are_opaque() {
    const ODD: &[&str] = &[
        r#""""#,
        r#""0""#,
        r#""null""#,
        r#"" a\"\\\n\u0000""#,
        r#""äß日本""#,
        r#""a&b=c%20""#,
        r#""\u007f""#,
    ];
    for last in [None, Some("null")] {
        let server = Server::modern("s", Offer::tools(&["t"])).await;
        paged(&server, ODD, last);
        let gateway = one(&server, "").await;
        let wanted: Vec<String> = (0..=ODD.len()).map(|at| format!("s_t{at}")).collect();
        assert_eq!(tools(&gateway).await, wanted);
        let asked: Vec<Option<Value>> =
            server.requests("tools/list").iter().map(|seen| cursor(seen).map(|c| json::value(&c))).collect();
        let given = ODD.iter().map(|cursor| Some(json::value(cursor)));
        let expected: Vec<Option<Value>> = [None].into_iter().chain(given).collect();
        assert_eq!(asked, expected, "each page once, in order, and no null (F-048)");
        for at in 0..=ODD.len() {
            let reply = gateway.send(call(&format!("s_t{at}"), "{}")).await;
            assert_eq!(reply.result()["content"][0]["text"], format!("s:t{at}"));
        }
    }
}

/// Covers: L-52: the other lists, and servers of the other era, are followed as well.
#[tokio::test(flavor = "multi_thread")]
async fn l_52_every_list_is_followed() {
    let server = Server::legacy(
        "s",
        Offer { capabilities: vec![r#""prompts":{},"resources":{}"#.to_owned()], ..Offer::default() },
    )
    .await;
    for (method, key, item) in [
        ("prompts/list", "prompts", r#"{"name":"N"}"#),
        ("resources/list", "resources", r#"{"uri":"x://N","name":"xN"}"#),
        ("resources/templates/list", "resourceTemplates", r#"{"uriTemplate":"x://N/{id}","name":"xN"}"#),
    ] {
        server.on(method, move |seen| {
            let at = cursor(seen).map_or(0, |cursor| cursor.trim_matches('"').parse::<u32>().unwrap());
            let next = if at < 4 { format!(",\"nextCursor\":\"{}\"", at + 1) } else { String::new() };
            let item = item.replace('N', &at.to_string());
            Answer::result(seen, &format!("{{\"{key}\":[{item}]{next}}}"))
        });
    }
    let gateway = one(&server, "").await;
    let mut connection = gateway.connect().await;
    let wanted = |start: &str| (0..5).map(|at| format!("{start}{at}")).collect::<Vec<_>>();
    assert_eq!(names(&mut connection, "prompts/list").await, wanted("s_"));
    assert_eq!(names(&mut connection, "resources/list").await, wanted("x"));
    assert_eq!(names(&mut connection, "resources/templates/list").await, wanted("x"));
}

/// Covers: F-017: a cursor that leads nowhere ends the walk; what was found is shown, said and counted.
#[tokio::test(flavor = "multi_thread")]
async fn f_017_endless_lists_end() {
    let eight: Vec<String> = (0..8).map(|n| tool(&format!("t{n}"))).collect();
    let same = Server::modern("same", Offer::tools(&["t"])).await;
    let items = eight.clone();
    same.on("tools/list", move |seen| page(seen, &items, Some(r#""x""#)));
    let turns = Server::modern("turns", Offer::tools(&["t"])).await;
    let items = eight.clone();
    turns.on("tools/list", move |seen| {
        let next = if cursor(seen).as_deref() == Some(r#""a""#) { r#""b""# } else { r#""a""# };
        page(seen, &items, Some(next))
    });
    let random = Server::modern("random", Offer::tools(&["t"])).await;
    let (items, count) = (eight.clone(), Arc::new(AtomicUsize::new(0)));
    random.on("tools/list", move |seen| {
        page(seen, &items, Some(&format!("\"{}\"", count.fetch_add(1, Ordering::SeqCst))))
    });
    let grows = Server::modern("grows", Offer::tools(&["t"])).await;
    let count = Arc::new(AtomicUsize::new(0));
    grows.on("tools/list", move |seen| {
        let at = count.fetch_add(1, Ordering::SeqCst);
        page(seen, &[tool(&format!("t{at}"))], Some(&format!("\"{at}\"")))
    });
    let heavy = Server::modern("heavy", Offer::tools(&["t"])).await;
    let count = Arc::new(AtomicUsize::new(0));
    heavy.on("tools/list", move |seen| {
        let at = count.fetch_add(1, Ordering::SeqCst);
        let text = "x".repeat(10_000);
        let item = format!(r#"{{"name":"t{at}","description":"{text}","inputSchema":{{"type":"object"}}}}"#);
        page(seen, &[item], Some(&format!("\"{at}\"")))
    });
    let good = Server::modern("good", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .http("same", &same.url(), "")
        .http("turns", &turns.url(), "")
        .http("random", &random.url(), "")
        .http("grows", &grows.url(), "list_max_pages = 50")
        .http("heavy", &heavy.url(), "list_max_bytes = \"100KiB\"")
        .http("good", &good.url(), "")
        .start()
        .await;
    let shown = tools(&gateway).await;
    let of = |server: &str| shown.iter().filter(|name| name.starts_with(&format!("{server}_"))).count();
    assert_eq!(["same", "turns", "random", "grows", "good"].map(of), [8, 8, 8, 50, 1]);
    assert!((10..=11).contains(&of("heavy")), "100 KiB of pages of 10 kB: {}", of("heavy"));
    assert_eq!(same.requests("tools/list").len(), 2);
    assert_eq!(turns.requests("tools/list").len(), 3);
    assert!(random.requests("tools/list").len() <= 30);
    assert_eq!(grows.requests("tools/list").len(), 50);
    for server in ["same", "turns", "random", "grows", "heavy"] {
        let labels = [("server", server), ("kind", "list_cut")];
        assert_eq!(gateway.metric("gatehouse_server_violations_total", &labels).await, 1.0, "{server}");
        let said =
            gateway.log.find(|line| line.contains("\"WARN\"") && line.contains(&format!("\"{server}\"")));
        assert!(said.iter().any(|line| line.contains("cut")), "{server}: {said:?}");
        let reply = gateway.send(call(&format!("{server}_t0"), "{}")).await;
        assert_eq!(reply.result()["content"][0]["text"], format!("{server}:t0"));
    }
    assert_eq!(
        gateway.metric("gatehouse_catalogue_items", &[("server", "same"), ("kind", "tools")]).await,
        8.0
    );
}

/// Covers: L-50, design §3: 300 pages of one tool each are as good as one.
#[tokio::test(flavor = "multi_thread")]
async fn one_tool_a_page() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.on("tools/list", |seen| {
        let at = cursor(seen).map_or(0, |cursor| cursor.trim_matches('"').parse::<usize>().unwrap());
        let next = (at < 299).then(|| format!("\"{}\"", at + 1));
        page(seen, &[tool(&format!("t{at}"))], next.as_deref())
    });
    let gateway = one(&server, "list_timeout = \"30s\"").await;
    let wanted: Vec<String> = (0..300).map(|at| format!("s_t{at}")).collect();
    assert_eq!(tools(&gateway).await, wanted);
    assert_eq!(server.requests("tools/list").len(), 300);
}

/// Covers: issue "a server whose list grows": 100,000 tools in one page are shown, a page beyond `max_result` is not;
/// the others notice neither.
#[tokio::test(flavor = "multi_thread")]
async fn huge_pages_are_shown_or_refused_whole() {
    let many = Server::modern("many", Offer::tools(&["t"])).await;
    let items: Vec<String> = (0..100_000).map(|n| tool(&format!("t{n}"))).collect();
    let items = items.join(",");
    let text = format!("{{\"resultType\":\"complete\",{FRESH},\"tools\":[{items}]}}");
    many.on("tools/list", move |seen| Answer::result(seen, &text));
    let large = Server::modern("large", Offer::tools(&["t"])).await;
    large.on("tools/list", |seen| {
        let item = format!(
            r#"{{"name":"t","description":"{}","inputSchema":{{"type":"object"}}}}"#,
            "x".repeat(50 << 20)
        );
        page(seen, &[item], None)
    });
    let good = Server::modern("good", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .http("many", &many.url(), "max_result = \"16MiB\"\nlist_timeout = \"30s\"")
        .http("large", &large.url(), "")
        .http("good", &good.url(), "")
        .start()
        .await;
    assert_eq!(gateway.send(call("good_t", "{}")).await.result()["content"][0]["text"], "good:t");
    let mut connection = gateway.connect().await;
    eventually("100,001 tools", async || names(&mut connection, "tools/list").await.len() == 100_001).await;
    let list = connection.send(mcp("tools/list", "{}")).await;
    assert_eq!(list.result()["_meta"]["dev.gatehouse/missing"], serde_json::json!(["large"]));
    assert_eq!(
        connection.send(call("many_t99999", "{}")).await.result()["content"][0]["text"],
        "many:t99999"
    );
    let refused = connection.send(call("large_t", "{}")).await;
    assert_eq!(refused.result()["isError"], true, "{refused:?}");
}

/// Covers: L-57, design §4: broken items are left out and counted, the same name counts once, the rest is shown.
#[tokio::test(flavor = "multi_thread")]
async fn broken_items_do_not_break_the_list() {
    const ITEMS: &[&str] = &[
        r#"{"name":"first","inputSchema":{"type":"object"}}"#,
        "null",
        "7",
        r#""text""#,
        "[]",
        "{}",
        r#"{"title":"nameless","inputSchema":{"type":"object"}}"#,
        r#"{"name":null,"inputSchema":{"type":"object"}}"#,
        r#"{"name":7,"inputSchema":{"type":"object"}}"#,
        r#"{"name":"twice","name":"thrice","inputSchema":{"type":"object"}}"#,
        r#"{"name":"\ud800","inputSchema":{"type":"object"}}"#,
        r#"{"name":"first","description":"again","inputSchema":{"type":"object"}}"#,
        r##"{"name":"odd","inputSchema":{"type":"object","properties":7,"$ref":"#/nowhere","required":"x"}}"##,
        r#"{"name":"日本","inputSchema":{"type":"object"}}"#,
        r#"{"name":"עברית","inputSchema":{"type":"object"}}"#,
        r#"{"name":"🙂","inputSchema":{"type":"object"}}"#,
        r#"{"name":"last","inputSchema":{"type":"object"}}"#,
    ];
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.on("tools/list", |seen| match cursor(seen) {
        None => page(seen, &ITEMS.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>(), Some(r#""2""#)),
        Some(_) => page(seen, &[tool("last"), tool("first"), tool("end")], None),
    });
    let gateway = one(&server, "").await;
    let shown = tools(&gateway).await;
    let plain: Vec<&str> = shown.iter().map(String::as_str).filter(|n| !n.contains("__")).collect();
    assert_eq!(plain, ["s_first", "s_odd", "s_last", "s_end"]);
    assert_eq!(shown.len(), 7, "three names in other scripts, each with a tail: {shown:?}");
    let spelled = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    assert!(shown.iter().all(spelled), "{shown:?}");
    for (at, native) in [(0, "first"), (2, "日本"), (3, "עברית"), (4, "🙂"), (5, "last")] {
        let reply = gateway.send(call(&shown[at], "{}")).await;
        assert_eq!(reply.result()["content"][0]["text"], format!("s:{native}"), "{}", shown[at]);
    }
    let labels = [("server", "s"), ("kind", "item")];
    assert!(gateway.metric("gatehouse_server_violations_total", &labels).await >= 1.0);
    assert!(gateway.metric("gatehouse_name_clashes", &[("server", "s")]).await >= 1.0);
}

/// Covers: L-56, L-50: a page that fails, or a cursor that is none, is a failed list, never a short one.
#[tokio::test(flavor = "multi_thread")]
async fn l_56_a_list_cut_by_a_failure_is_missing_not_short() {
    let refuses = Server::modern("refuses", Offer::tools(&["t"])).await;
    refuses.on("tools/list", |seen| match cursor(seen) {
        None => page(seen, &[tool("a")], Some(r#""2""#)),
        Some(_) => Answer::error(seen, 200, -32602, "the cursor has expired"),
    });
    let odd = Server::modern("odd", Offer::tools(&["t"])).await;
    odd.on("tools/list", |seen| page(seen, &[tool("a")], Some("2")));
    let gateway = Setup::new().http("refuses", &refuses.url(), "").http("odd", &odd.url(), "").start().await;
    let list = gateway.send(mcp("tools/list", "{}")).await;
    assert_eq!(list.result()["tools"], serde_json::json!([]));
    assert_eq!(list.result()["_meta"]["dev.gatehouse/missing"], serde_json::json!(["refuses", "odd"]));
    refuses.on("tools/list", |seen| match cursor(seen) {
        None => page(seen, &[tool("a")], Some(r#""3""#)),
        Some(_) => page(seen, &[tool("b")], None),
    });
    let mut connection = gateway.connect().await;
    eventually("it is walked again", async || {
        names(&mut connection, "tools/list").await == ["refuses_a", "refuses_b"]
    })
    .await;
}

/// Covers: L-30: lists a server does not have are not asked for.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_not_offered_are_not_asked_for() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        assert!(names(&mut gateway.connect().await, method).await.is_empty());
        assert!(server.requests(method).is_empty(), "{method}");
    }
}
