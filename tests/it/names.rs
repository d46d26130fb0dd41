//! Exposed names (design §4): prefixes, overrides, hash tails, and that nothing is called that is not listed:
//! F-012, F-025, F-095, F-096, M-70..M-73. Hash tails stand here as another SHA-256 and Base32 computed them.

use serde_json::Value;

use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT};
use crate::support::{eventually, json};

/// The names of one list, in order.
async fn listed(gateway: &Gateway, path: &str, method: &str) -> Vec<String> {
    let reply = gateway.send(mcp(method, "{}").request().at(path)).await;
    let (key, id) = match method {
        "tools/list" => ("tools", "name"),
        "prompts/list" => ("prompts", "name"),
        _ => ("resources", "uri"),
    };
    let text = |item: &Value| item[id].as_str().unwrap().to_owned();
    reply.result()[key].as_array().unwrap_or_else(|| panic!("{reply:?}")).iter().map(text).collect()
}

async fn tools(gateway: &Gateway) -> Vec<String> {
    listed(gateway, "/mcp", "tools/list").await
}

/// Which server answers to an exposed name, and under which native name it was asked.
async fn reached(gateway: &Gateway, name: &str) -> String {
    let reply = gateway.send(call(name, "{}")).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{name}: {reply:?}");
    reply.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{name}: {reply:?}")).to_owned()
}

/// Covers: design §4, F-012, M-70: order, default and own prefixes, none, another separator, overrides.
#[tokio::test(flavor = "multi_thread")]
async fn names_are_prefix_separator_and_name() {
    let a = Server::modern("a", Offer::tools(&["find", "add", "old"])).await;
    let b = Server::modern("b", Offer::tools(&["find"])).await;
    let c = Server::modern("c", Offer::tools(&["find", "c_find"])).await;
    let over = "[server.tools.override.old]\nname = \"new\"\n[server.tools.override.add]\nenabled = false";
    let one = Setup::new().http("a", &a.url(), over).start().await;
    assert_eq!(tools(&one).await, ["a_find", "a_new"]);
    one.stop().await;
    let gateway = Setup::new()
        .http("b", &b.url(), "prefix = \"docs-1\"")
        .http("a", &a.url(), over)
        .http("c", &c.url(), "prefix = \"\"")
        .start()
        .await;
    // In the order of the file; what was there before is called as before (F-012).
    let expected = [
        ("docs-1_find", "b:find"),
        ("a_find", "a:find"),
        ("a_new", "a:old"),
        ("find", "c:find"),
        ("c_find", "c:c_find"),
    ];
    assert_eq!(tools(&gateway).await, expected.map(|(name, _)| name));
    for (name, who) in expected {
        assert_eq!(reached(&gateway, name).await, who);
    }
    gateway.stop().await;
    let dotted = Setup::new()
        .gateway("separator = \".\"\nstrict_names = false")
        .http("a", &a.url(), over)
        .start()
        .await;
    assert_eq!(tools(&dotted).await, ["a.find", "a.new"]);
    assert_eq!(reached(&dotted, "a.new").await, "a:old");
    dotted.stop().await;
}

/// Covers: F-025: every name within the limit, unique, the same after a restart, and each call reaches its tool.
#[tokio::test(flavor = "multi_thread")]
async fn f_025_long_names_take_a_hash_tail() {
    let name = |length: usize| "n".repeat(length);
    let mut natives: Vec<String> = [1, 33, 34, 35, 64, 128].map(name).to_vec();
    natives.extend(["x", "y"].map(|last| format!("{}{last}", "t".repeat(79))));
    let natives: Vec<&str> = natives.iter().map(String::as_str).collect();
    let server = Server::modern("s", Offer::tools(&natives)).await;
    let alias = "a".repeat(30);
    let setup = || Setup::new().http(&alias, &server.url(), "");
    let gateway = setup().start().await;
    let shown = tools(&gateway).await;
    let fits = |name: &String| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    assert!(shown.iter().all(fits), "{shown:?}");
    // 30 + 1 + 33 is 64: the longest that is left as it is.
    assert_eq!(shown[..2], [format!("{alias}_n"), format!("{alias}_{}", name(33))]);
    assert!(shown[2..].iter().all(|name| name.len() == 64 && name.as_bytes()[55] == b'_'), "{shown:?}");
    let mut unique = shown.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), natives.len());
    for (exposed, native) in shown.iter().zip(&natives) {
        assert_eq!(reached(&gateway, exposed).await, format!("s:{native}"));
    }
    gateway.stop().await;
    let again = setup().start().await;
    assert_eq!(tools(&again).await, shown);
    again.stop().await;
    let wide = setup().gateway("max_name_length = 200").start().await;
    assert_eq!(
        tools(&wide).await,
        natives.iter().map(|native| format!("{alias}_{native}")).collect::<Vec<_>>()
    );
    wide.stop().await;
}

/// Covers: design §4 `strict_names`, F-095: what sanitising would make equal stays apart.
#[tokio::test(flavor = "multi_thread")]
async fn f_095_names_that_differ_by_their_characters_only() {
    let server =
        Server::modern("s", Offer::tools(&["read.file", "read_file", "read-file", "日本", "old name"])).await;
    let gateway = Setup::new().http("a", &server.url(), "").start().await;
    let expected = [
        ("a_read_file_vteib4zq", "s:read.file"),
        ("a_read_file", "s:read_file"),
        ("a_read-file", "s:read-file"),
        ("a____yxxl6tlb", "s:日本"),
        ("a_old_name_yoyruntv", "s:old name"),
    ];
    assert_eq!(tools(&gateway).await, expected.map(|(name, _)| name));
    for (name, who) in expected {
        assert_eq!(reached(&gateway, name).await, who);
    }
    gateway.stop().await;
    let loose = Setup::new().gateway("strict_names = false").http("a", &server.url(), "").start().await;
    assert_eq!(tools(&loose).await, ["a_read.file", "a_read_file", "a_read-file", "a_日本", "a_old name"]);
    assert_eq!(reached(&loose, "a_日本").await, "s:日本");
    loose.stop().await;
}

/// Covers: F-095: a server without a prefix lists the exact exposed name of another's tool and prompt. The other keeps
/// its name in either order, also before it was ever up, and the clash is counted.
#[tokio::test(flavor = "multi_thread")]
async fn f_095_nobody_takes_anothers_name() {
    let mut mine = Offer::tools(&["find"]);
    mine.prompts = vec![r#"{"name":"ask"}"#.to_owned()];
    let mut theirs = Offer::tools(&["a_find", "own", "a_"]);
    theirs.prompts = vec![r#"{"name":"a_ask"}"#.to_owned()];
    let a = Server::modern("a", mine).await;
    let b = Server::modern("b", theirs).await;
    for a_first in [true, false] {
        let setup = Setup::new();
        let url = (a.url(), b.url());
        let gateway = match a_first {
            true => setup.http("a", &url.0, "").http("b", &url.1, "prefix = \"\"").start().await,
            false => setup.http("b", &url.1, "prefix = \"\"").http("a", &url.0, "").start().await,
        };
        let mut shown = tools(&gateway).await;
        shown.sort();
        assert_eq!(shown, ["a__dib2m72j", "a_find", "a_find_7owntqgz", "own"]);
        assert_eq!(reached(&gateway, "a_find").await, "a:find");
        assert_eq!(reached(&gateway, "a_find_7owntqgz").await, "b:a_find");
        let mut prompts = listed(&gateway, "/mcp", "prompts/list").await;
        prompts.sort();
        assert_eq!(prompts, ["a_ask", "a_ask_ghvvsh5o"]);
        for (name, who) in [("a_ask", "a:ask"), ("a_ask_ghvvsh5o", "b:a_ask")] {
            let reply = gateway.send(mcp("prompts/get", format!("{{\"name\":\"{name}\"}}"))).await;
            assert_eq!(reply.result()["description"], who);
        }
        assert_eq!(gateway.metric("gatehouse_name_clashes", &[("server", "b")]).await, 2.0);
        assert_eq!(gateway.metric("gatehouse_name_clashes", &[("server", "a")]).await, 0.0);
        gateway.stop().await;
    }
    // While its owner is down, the name is nobody's.
    let gone = "http://127.0.0.1:9/mcp";
    let gateway = Setup::new()
        .http("b", &b.url(), "prefix = \"\"")
        .http("a", gone, "connect_timeout = \"1s\"")
        .start()
        .await;
    assert_eq!(tools(&gateway).await, ["a_find_7owntqgz", "own", "a__dib2m72j"]);
    let before = b.requests("tools/call").len();
    let reply = gateway.send(call("a_find", "{}")).await;
    assert_eq!(reply.result()["isError"], true, "{reply:?}");
    assert!(reply.text().contains("\\\"a\\\""), "{}", reply.text());
    assert_eq!(b.requests("tools/call").len(), before);
    gateway.stop().await;
}

/// Covers: F-095: the tool that takes a name comes later, when the list is walked anew.
#[tokio::test(flavor = "multi_thread")]
async fn f_095_a_later_list_takes_no_name() {
    let a = Server::modern("a", Offer::tools(&["find"])).await;
    let b = Server::modern("b", Offer::tools(&["own"]).stale()).await;
    let gateway = Setup::new().http("b", &b.url(), "prefix = \"\"").http("a", &a.url(), "").start().await;
    assert_eq!(tools(&gateway).await, ["own", "a_find"]);
    b.offer(Offer::tools(&["own", "a_find"]).stale());
    eventually("the new list", async || tools(&gateway).await.len() == 3).await;
    assert_eq!(tools(&gateway).await, ["own", "a_find_7owntqgz", "a_find"]);
    assert_eq!(reached(&gateway, "a_find").await, "a:find");
    gateway.stop().await;
}

/// Covers: design §4, F-095: overlapping prefixes are refused before anything starts; `allow_clashes` lifts it.
#[tokio::test(flavor = "multi_thread")]
async fn f_095_overlapping_prefixes_are_an_error_of_the_file() {
    let two = |one: &str, other: &str, more: &str| {
        let table = |prefix: &str| format!("prefix = \"{prefix}\"");
        Setup::new().gateway(more).http("one", "http://127.0.0.1:9/", &table(one)).http(
            "two",
            "http://127.0.0.1:9/",
            &table(other),
        )
    };
    for (one, other) in [("x", "x"), ("x", "x_y"), ("", ""), ("x_y", "x")] {
        let (code, said) = two(one, other, "").refused().await;
        assert_eq!(code, Some(2), "{one:?} and {other:?}: {said}");
        assert!(said.contains("prefix"), "{said}");
    }
    let same = Setup::new().http("one", "http://127.0.0.1:9/", "").http("one", "http://127.0.0.1:9/", "");
    let (code, said) = same.refused().await;
    assert_eq!(code, Some(2), "{said}");
    two("x", "x_y", "allow_clashes = true").launch().await.stop().await;
    two("x", "xy", "").launch().await.stop().await;
}

/// Covers: design §4: twice the same native name in one server: the first stays, the rest is dropped and counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_twice_in_one_list() {
    let first = r#"{"name":"t","description":"first","inputSchema":{"type":"object"}}"#;
    let second = r#"{"name":"t","description":"second","inputSchema":{"type":"object"}}"#;
    let server =
        Server::modern("s", Offer::defined(&[first, second, r#"{"name":"u","inputSchema":{}}"#])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let list = gateway.send(mcp("tools/list", "{}")).await.result();
    assert_eq!(list["tools"].as_array().unwrap().len(), 2);
    assert_eq!(list["tools"][0]["description"], "first");
    assert_eq!(gateway.metric("gatehouse_name_clashes", &[("server", "s")]).await, 1.0);
    gateway.log.wait("the dropped item", |line| line.contains("dropped") && line.contains("\"t\"")).await;
    gateway.stop().await;
}

/// Covers: M-73, F-095: completion goes to the prompt's own server under its own name; URIs keep their first owner.
#[tokio::test(flavor = "multi_thread")]
async fn m_73_references_are_mapped_back() {
    let offer = || {
        let mut offer = Offer::tools(&["t"]);
        offer.prompts = vec![r#"{"name":"ask"}"#.to_owned()];
        offer.resources = vec![r#"{"uri":"same://one","name":"one"}"#.to_owned()];
        offer.capabilities = vec!["\"completions\":{}".to_owned()];
        offer
    };
    let (a, b) = (Server::modern("a", offer()).await, Server::modern("b", offer()).await);
    for server in [&a, &b] {
        server.on("completion/complete", |seen| {
            let name =
                seen.raw(&["params", "ref", "name"]).or_else(|| seen.raw(&["params", "ref", "uri"])).unwrap();
            crate::support::exchange::Answer::result(
                seen,
                &format!("{{\"completion\":{{\"values\":[{name}]}}}}"),
            )
        });
    }
    let gateway = Setup::new().http("a", &a.url(), "").http("b", &b.url(), "").start().await;
    let complete = async |reference: &str| {
        let params = format!("{{\"ref\":{reference},\"argument\":{{\"name\":\"x\",\"value\":\"1.0\"}}}}");
        gateway.send(mcp("completion/complete", params)).await
    };
    let reply = complete(r#"{"type":"ref/prompt","name":"b_ask","title":"T"}"#).await;
    assert_eq!(reply.result()["completion"]["values"], serde_json::json!(["ask"]));
    let seen = b.requests("completion/complete").pop().unwrap();
    assert_eq!(
        seen.raw(&["params", "ref"]).as_deref(),
        Some(r#"{"type":"ref/prompt","name":"ask","title":"T"}"#)
    );
    assert_eq!(complete(r#"{"type":"ref/prompt","name":"ask"}"#).await.verdict(), (200, Some(PARAMS)));
    assert_eq!(listed(&gateway, "/mcp", "resources/list").await, ["same://one"]);
    let read = gateway.send(mcp("resources/read", r#"{"uri":"same://one"}"#)).await;
    assert_eq!(read.result()["contents"][0]["text"], "a:same://one");
    gateway.stop().await;
    let owned = Setup::new()
        .http("a", &a.url(), "")
        .http("b", &b.url(), "resources.uris = [\"same://*\"]")
        .start()
        .await;
    let read = owned.send(mcp("resources/read", r#"{"uri":"same://one"}"#)).await;
    assert_eq!(
        json::raw(&read.result_text(), &["contents"]).unwrap(),
        r#"[{"uri":"same://one","text":"b:same://one"}]"#
    );
    owned.stop().await;
}
