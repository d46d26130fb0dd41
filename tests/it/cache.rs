//! What is kept, for how long, and what is asked of servers for it: L-20..L-28, L-40..L-44, L-53, F-055, design §5.

use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::{Feed, TELLS, declare, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server, tool};
use crate::support::tcp::{Gate, Mode};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

fn at(path: &str) -> Request {
    mcp("tools/list", "{}").request().at(path)
}

fn hints(reply: &Reply) -> (u64, String) {
    let result = reply.result();
    (result["ttlMs"].as_u64().unwrap(), result["cacheScope"].as_str().unwrap().to_owned())
}

/// One page with these hints, as JSON text.
fn page(seen: &Seen, hints: &str, name: &str, next: Option<&str>) -> Answer {
    let next = next.map(|next| format!(",\"nextCursor\":{next}")).unwrap_or_default();
    Answer::result(seen, &format!("{{\"resultType\":\"complete\"{hints},\"tools\":[{}]{next}}}", tool(name)))
}

/// Covers: L-20, L-41, L-42, F-055: name, the server's hints, the operator's word; then the longest `ttlMs` and the
/// scope that clients may be told. A life of 0 is asked for anew each time, the others once.
const TABLE: &[(&str, &str, &str, u64, &str)] = &[
    ("a", r#","ttlMs":3600000,"cacheScope":"public""#, "", HOUR, "public"),
    ("b", r#","ttlMs":3600000,"cacheScope":"private""#, "", HOUR, "private"),
    ("c", r#","ttlMs":3600000"#, "", HOUR, "private"),
    ("d", r#","ttlMs":3600000,"cacheScope":"shared""#, "", HOUR, "private"),
    ("e", r#","ttlMs":3600000,"cacheScope":7"#, "", HOUR, "private"),
    ("f", r#","ttlMs":0,"cacheScope":"public""#, "", 0, "public"),
    ("g", r#","ttlMs":-5,"cacheScope":"public""#, "", 0, "public"),
    ("h", r#","ttlMs":1500.5,"cacheScope":"public""#, "", 0, "public"),
    ("i", r#","ttlMs":"60000","cacheScope":"public""#, "", 0, "public"),
    ("j", r#","ttlMs":null,"cacheScope":"public""#, "", 0, "public"),
    ("k", r#","ttlMs":1e30,"cacheScope":"public""#, "", DAY, "public"),
    ("l", r#","ttlMs":3.6e6,"cacheScope":"public""#, "", HOUR, "public"),
    ("m", "", "", 0, "private"),
    ("n", "", "ttl = \"1h\"\ncache_scope = \"public\"", HOUR, "public"),
    ("o", r#","ttlMs":0,"cacheScope":"private""#, "ttl = \"1h\"\ncache_scope = \"public\"", 0, "private"),
];

#[tokio::test(flavor = "multi_thread")]
async fn l_20_the_table_of_hints() {
    let mut setup = Setup::new();
    let mut servers = Vec::new();
    for (name, given, more, ..) in TABLE {
        let server = Server::modern(name, Offer::tools(&["t"])).await;
        server.on("tools/list", move |seen| page(seen, given, "t", None));
        setup = setup
            .http(name, &server.url(), more)
            .toml(&format!("[[endpoint]]\npath = \"/mcp/{name}\"\nservers = [\"{name}\"]\nprefix = false"));
        servers.push(server);
    }
    let gateway = setup.start().await;
    for ((name, given, _, longest, scope), server) in TABLE.iter().zip(&servers) {
        let path = format!("/mcp/{name}");
        let (ttl, told) = hints(&gateway.send(at(&path)).await);
        assert_eq!(told, *scope, "{name} {given}");
        assert!(ttl <= *longest && (ttl > longest / 2 || *longest == 0), "{name} {given}: {ttl}");
        let asked = server.requests("tools/list").len();
        for _ in 0..3 {
            let (again, told) = hints(&gateway.send(at(&path)).await);
            assert!(again <= ttl && told == *scope, "{name}: the life that remains never grows");
        }
        let anew = server.requests("tools/list").len() - asked;
        assert_eq!(anew, if *longest == 0 { 3 } else { 0 }, "{name} {given}");
    }
}

/// Covers: L-53, L-41: the hints of a list are those of all its pages.
#[tokio::test(flavor = "multi_thread")]
async fn l_53_all_pages_count() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.on("tools/list", |seen| match seen.raw(&["params", "cursor"]) {
        None => page(seen, r#","ttlMs":3600000,"cacheScope":"public""#, "a", Some("\"2\"")),
        Some(_) => page(seen, r#","ttlMs":0,"cacheScope":"private""#, "b", None),
    });
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    for _ in 0..2 {
        assert_eq!(hints(&gateway.send(at("/mcp")).await), (0, "private".to_owned()));
    }
}

/// Covers: L-28, design §5, issue: 200 clients list 1,000 tools of 20 servers from cold: each server sees one walk a list.
#[tokio::test(flavor = "multi_thread")]
async fn l_28_two_hundred_clients_are_one_walk() {
    const LISTS: [(&str, &str); 4] = [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ];
    let mut setup = Setup::new();
    let mut servers = Vec::new();
    for n in 0..20 {
        let mut offer = Offer::tools(
            &(0..50)
                .map(|t| format!("t{t}"))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        );
        offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
        offer.resources = vec![format!(r#"{{"uri":"x{n}://r","name":"r"}}"#)];
        offer.templates = vec![format!(r#"{{"uriTemplate":"x{n}://t/{{id}}","name":"t"}}"#)];
        let server = Server::modern(&format!("s{n}"), offer).await;
        setup = setup.http(&format!("s{n}"), &server.url(), "list_timeout = \"25s\"");
        servers.push(server);
    }
    let gateway = setup.launch().await;
    let one = async || {
        let mut connection = gateway.connect().await;
        let mut counts = [0; 4];
        for ((method, key), count) in LISTS.iter().zip(&mut counts) {
            let reply = connection.send(mcp(method, "{}")).await;
            *count = reply.result()[*key].as_array().unwrap().len();
        }
        counts
    };
    let all = futures_util::future::join_all((0..200).map(|_| one())).await;
    assert!(all.iter().all(|counts| *counts == [1000, 20, 20, 20]), "{all:?}");
    for server in &servers {
        for (method, _) in LISTS {
            assert_eq!(server.requests(method).len(), 1, "{method}");
        }
        assert_eq!(server.requests("server/discover").len(), 1);
    }
    // Hits need nothing of the servers.
    let seen: usize = servers.iter().map(|server| server.seen().len()).sum();
    let hits = gateway.metric("gatehouse_cache_requests_total", &[("result", "hit")]).await;
    assert_eq!(one().await, [1000, 20, 20, 20]);
    assert_eq!(servers.iter().map(|server| server.seen().len()).sum::<usize>(), seen);
    let more = gateway.metric("gatehouse_cache_requests_total", &[("result", "hit")]).await - hits;
    assert_eq!(more, 80.0);
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

fn missing(reply: &Reply) -> Value {
    reply.result()["_meta"]["dev.gatehouse/missing"].clone()
}

/// Covers: L-26, L-33: a server that is down keeps its last list, as long as `stale_if_error` lets it.
#[tokio::test(flavor = "multi_thread")]
async fn l_26_stale_lists_stand_in() {
    let server = Server::modern("s", Offer::tools(&["t"]).stale()).await;
    let gate = Gate::new(Mode::Pass(server.address)).await;
    let more = "list_timeout = \"2s\"\nconnect_timeout = \"1s\"";
    let lenient = Setup::new().http("s", &gate.url(), more).start().await;
    let strict = Setup::new().gateway("stale_if_error = \"0s\"").http("s", &gate.url(), more).start().await;
    for gateway in [&lenient, &strict] {
        assert_eq!(gateway.send(at("/mcp")).await.result()["tools"].as_array().unwrap().len(), 1);
    }
    gate.set(Mode::Refuse).await;
    let list = lenient.send(at("/mcp")).await;
    assert_eq!(list.result()["tools"][0]["name"], "s_t");
    assert_eq!((hints(&list).0, missing(&list)), (0, Value::Null));
    assert!(lenient.metric("gatehouse_cache_requests_total", &[("result", "stale")]).await >= 1.0);
    assert_eq!(lenient.send(call("s_t", "{}")).await.result()["isError"], true);
    let list = strict.send(at("/mcp")).await;
    assert_eq!((list.result()["tools"].clone(), missing(&list)), (json!([]), json!(["s"])));
    server.offer(Offer::tools(&["u"]).stale());
    gate.set(Mode::Pass(server.address)).await;
    for gateway in [&lenient, &strict] {
        eventually("the new list", async || {
            names(&mut gateway.connect().await, "tools/list").await == ["s_u"]
        })
        .await;
    }
}

/// Covers: L-28: a walk that a change overtook is not kept.
#[tokio::test(flavor = "multi_thread")]
async fn l_28_an_overtaken_walk_is_not_kept() {
    let server = Server::modern("s", Offer::tools(&["old"])).await;
    declare(&server, TELLS);
    let mut streams = server.hold("subscriptions/listen");
    let mut walks = server.hold("tools/list");
    let gateway = Setup::new().http("s", &server.url(), "").launch().await;
    let feed = Feed::accept(streams.next().await);
    let walk = walks.next().await;
    server.offer(Offer::tools(&["new"]));
    feed.changed("tools");
    let labels = [("server", "s"), ("kind", "tools"), ("direction", "in")];
    gateway.metric_becomes("gatehouse_list_changed_total", &labels, 1.0).await;
    server.release("tools/list");
    let old = Offer::tools(&["old"]).tools[0].clone();
    walk.result(&format!(
        r#"{{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[{old}]}}"#
    ));
    let mut connection = gateway.connect().await;
    assert_eq!(names(&mut connection, "tools/list").await, ["s_new"]);
    assert_eq!(server.requests("tools/list").len(), 2);
}

async fn read(gateway: &Gateway, uri: &str) -> Value {
    let reply = gateway.send(mcp("resources/read", format!("{{\"uri\":\"{uri}\"}}"))).await;
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    reply.result()
}

/// Covers: L-12, L-24, L-44: reads are kept by their own hints, and forgotten with a change of theirs.
#[tokio::test(flavor = "multi_thread")]
async fn l_44_reads_are_kept_by_their_hints() {
    let mut offer = Offer::tools(&[]);
    offer.resources = ["kept", "not", "kept/part", "keptnot"]
        .map(|name| format!(r#"{{"uri":"x://r/{name}","name":"{name}"}}"#))
        .to_vec();
    let server = Server::modern("s", offer).await;
    declare(&server, TELLS);
    let mut streams = server.hold("subscriptions/listen");
    server.on("resources/read", |seen| {
        let uri = seen.name().unwrap();
        let ttl = if uri.ends_with("/not") { 0 } else { HOUR };
        let text = format!(r#"{{"resultType":"complete","ttlMs":{ttl},"cacheScope":"public","contents":[{{"uri":"{uri}","text":"{}"}}]}}"#, seen.id().unwrap());
        Answer::result(seen, &text)
    });
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let feed = Feed::accept(streams.next().await);
    let labels = [("server", "s"), ("kind", "resources")];
    gateway.metric_becomes("gatehouse_catalogue_items", &labels, 4.0).await;
    let asked = |uri: &str| {
        server.requests("resources/read").iter().filter(|seen| seen.name().unwrap() == uri).count()
    };
    let uris = ["x://r/kept", "x://r/kept/part", "x://r/keptnot"];
    for uri in uris {
        let first = read(&gateway, uri).await;
        let again = read(&gateway, uri).await;
        assert_eq!(first["contents"], again["contents"], "{uri}");
        assert!(again["ttlMs"].as_u64().unwrap() <= first["ttlMs"].as_u64().unwrap());
        assert_eq!((asked(uri), &again["cacheScope"]), (1, &json!("public")), "{uri}");
    }
    for _ in 0..2 {
        read(&gateway, "x://r/not").await;
    }
    assert_eq!(asked("x://r/not"), 2);
    // A change of it is one of its parts, and of nobody else.
    feed.updated("x://r/kept");
    eventually("it is read anew", async || {
        read(&gateway, "x://r/kept").await;
        asked("x://r/kept") == 2
    })
    .await;
    read(&gateway, "x://r/kept/part").await;
    read(&gateway, "x://r/keptnot").await;
    assert_eq!(uris.map(asked), [2, 2, 1]);
    // An answer to a retry is for nobody else.
    let retry = r#"{"uri":"x://r/keptnot","inputResponses":{}}"#;
    let reply = gateway.send(mcp("resources/read", retry)).await;
    assert_eq!(hints(&reply), (0, "private".to_owned()), "{reply:?}");
    assert_eq!(asked("x://r/keptnot"), 2);
    read(&gateway, "x://r/keptnot").await;
    assert_eq!(asked("x://r/keptnot"), 2);
    assert!(
        gateway.metric("gatehouse_cache_requests_total", &[("kind", "reads"), ("result", "hit")]).await
            >= 4.0
    );
}

/// Covers: design §5: `state_dir` keeps the last known list over a restart; what is damaged there is not believed.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_knows_what_was_known() {
    let state = tempfile::tempdir().unwrap();
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gate = Gate::new(Mode::Pass(server.address)).await;
    let start = || {
        let dir = format!("state_dir = {:?}", state.path());
        Setup::new()
            .gateway(&dir)
            .http("s", &gate.url(), "list_timeout = \"1s\"\nconnect_timeout = \"1s\"")
            .start()
    };
    let gateway = start().await;
    assert_eq!(names(&mut gateway.connect().await, "tools/list").await, ["s_t"]);
    let saved = || -> Vec<_> {
        let files = std::fs::read_dir(state.path().join("catalogue")).into_iter().flatten();
        files
            .map(|file| file.unwrap().path())
            .filter(|path| path.display().to_string().contains("tools"))
            .collect()
    };
    eventually("it is saved", async || saved().len() == 1).await;
    gateway.stop().await;
    gate.set(Mode::Refuse).await;
    let gateway = start().await;
    let list = gateway.send(at("/mcp")).await;
    assert_eq!((list.result()["tools"][0]["name"].clone(), hints(&list).0), (json!("s_t"), 0));
    // Once the server is there, it is what it says.
    server.offer(Offer::tools(&["u"]));
    gate.set(Mode::Pass(server.address)).await;
    eventually("the new list", async || names(&mut gateway.connect().await, "tools/list").await == ["s_u"])
        .await;
    gateway.stop().await;
    gate.set(Mode::Refuse).await;
    std::fs::write(&saved()[0], b"{\"version\":1,\"it").unwrap();
    let gateway = start().await;
    let list = gateway.send(at("/mcp")).await;
    assert_eq!((list.result()["tools"].clone(), missing(&list)), (json!([]), json!(["s"])));
    gateway.log.wait("a warning", |line| line.contains("\"WARN\"") && line.contains("damaged")).await;
}
