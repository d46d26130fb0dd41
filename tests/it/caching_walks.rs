//! Walks: one for all who ask, none kept that a change overtook, the last known list after a restart:
//! L-25, L-26, L-28, L-50, issue 3.

use serde_json::{Value, json};

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::feed::{Feed, Stream, TELLS, declare, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::mcp;
use crate::support::server::{Offer, Server, tool};
use crate::support::table::RESULT;
use crate::support::tcp::{Gate, Mode};

async fn list(gateway: &Gateway) -> Value {
    let reply = gateway.send(mcp("tools/list", "{}")).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    reply.result()
}

/// Covers: L-25, issue 3: what is fresh is answered from memory, whatever is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn hits_reach_no_server() {
    let offer = Offer {
        prompts: vec![r#"{"name":"p"}"#.to_owned()],
        resources: vec![r#"{"uri":"x://a","name":"a"}"#.to_owned()],
        ..Offer::tools(&["t"])
    };
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let methods = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    for method in methods {
        server.asked(method, 1).await;
        gateway.send(mcp(method, "{}")).await;
    }
    let before = server.seen().len();
    for _ in 0..50 {
        for method in methods.into_iter().chain(["server/discover"]) {
            assert_eq!(gateway.send(mcp(method, "{}")).await.verdict(), (200, Some(RESULT)), "{method}");
        }
    }
    assert_eq!(server.seen().len(), before);
    gateway.stop().await;
}

/// Covers: L-28, issue 3: 1,000 tools of 20 servers, 200 clients at once from cold: one walk of each list.
#[tokio::test(flavor = "multi_thread")]
async fn l_28_a_crowd_costs_each_server_one_walk() {
    let tools: Vec<String> = (0..50).map(|n| format!("tool_{n}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let mut offer = Offer::tools(&tools);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    let mut setup = Setup::new();
    let (mut servers, mut held) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let name = format!("s{number:02}");
        let server = Server::modern(&name, offer.clone()).await;
        held.push(server.hold("tools/list"));
        setup = setup.http(&name, &server.url(), "list_timeout = \"60s\"");
        servers.push(server);
    }
    let gateway = setup.launch().await;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..200 {
        let method = if number % 2 == 0 { "tools/list" } else { "prompts/list" };
        let mut connection = gateway.connect().await;
        clients.spawn(async move { (method, connection.send(mcp(method, "{}")).await) });
    }
    let answer = format!(r#"{{"tools":[{}],"ttlMs":3600000,"cacheScope":"public"}}"#, offer.tools.join(","));
    for held in &mut held {
        held.next().await.result(&answer);
    }
    while let Some(done) = clients.join_next().await {
        let (method, reply) = done.unwrap();
        let result = reply.result();
        let (key, count) = if method == "tools/list" { ("tools", 1000) } else { ("prompts", 20) };
        assert_eq!(result[key].as_array().map(Vec::len), Some(count), "{:?}", result["_meta"]);
        assert_eq!(result[key][0]["name"].as_str().map(|name| &name[..4]), Some("s00_"));
    }
    for server in &servers {
        assert_eq!(server.requests("tools/list").len(), 1, "{server:?}");
        assert_eq!(server.requests("prompts/list").len(), 1, "{server:?}");
    }
    gateway.stop().await;
}

/// Covers: L-28, L-24: what a walk brings that a change overtook is never taken for fresh.
#[tokio::test(flavor = "multi_thread")]
async fn l_28_a_change_during_a_walk() {
    let server = Server::modern("s", Offer::tools(&["zero"])).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let gateway = Setup::new().http("s", &server.url(), "list_timeout = \"60s\"").launch().await;
    let feed = Feed::accept(feeds.next().await);
    let mut client = gateway.connect().await;
    let exposed = |name: &str| vec![format!("s_{name}")];
    eventually("the first walk", async || names(&mut client, "tools/list").await == exposed("zero")).await;
    let heard = [("server", "s"), ("kind", "tools"), ("direction", "in")];
    let answer =
        |name: &str| format!(r#"{{"tools":[{}],"ttlMs":3600000,"cacheScope":"public"}}"#, tool(name));
    for round in 0..20_i32 {
        let (old, new) = (format!("old{round}"), format!("new{round}"));
        let mut walks = server.hold("tools/list");
        feed.changed("tools");
        let overtaken = walks.next().await;
        feed.changed("tools");
        gateway.metric_becomes("gatehouse_list_changed_total", &heard, f64::from(2 * round + 2)).await;
        let asking = tokio::spawn(async move {
            let found = names(&mut client, "tools/list").await;
            (client, found)
        });
        overtaken.result(&answer(&old));
        walks.next().await.result(&answer(&new));
        let (back, found) = asking.await.unwrap();
        client = back;
        assert_eq!(found, exposed(&new), "round {round}");
        assert_eq!(names(&mut client, "tools/list").await, exposed(&new), "round {round}: kept");
        assert!(walks.is_empty(), "round {round}: and not asked for again");
    }
    gateway.stop().await;
}

/// Covers: L-28: changes without end do not hang a client, and the last one is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn l_28_every_walk_overtaken() {
    let server = Server::modern("s", Offer::tools(&["zero"])).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let gateway = Setup::new().http("s", &server.url(), "list_timeout = \"60s\"").launch().await;
    let feed = Feed::accept(feeds.next().await);
    let mut client = gateway.connect().await;
    let known = async || names(&mut client, "tools/list").await == ["s_zero"];
    eventually("the first walk", known).await;
    let mut stream = Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    let heard = [("server", "s"), ("kind", "tools"), ("direction", "in")];
    let mut walks = server.hold("tools/list");
    feed.changed("tools");
    // More walks in a row than a client has to wait for: each is overtaken while it runs.
    for round in 0..5_i32 {
        let walk = walks.next().await;
        feed.changed("tools");
        gateway.metric_becomes("gatehouse_list_changed_total", &heard, f64::from(round + 2)).await;
        walk.result(r#"{"tools":[{"name":"zero","inputSchema":{"type":"object"}}],"ttlMs":3600000}"#);
    }
    // Nobody asks; the gateway finds out by itself, and tells.
    walks.next().await.result(&format!(r#"{{"tools":[{}],"ttlMs":3600000}}"#, tool("last")));
    assert_eq!(stream.notice().await, "tools");
    assert_eq!(names(&mut client, "tools/list").await, ["s_last"]);
    gateway.stop().await;
}

/// Covers: design §5 `state_dir`, L-26: after a restart while its server is down, the last known list, marked old.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_the_server_is_down() {
    let server = Server::modern("s", Offer::tools(&["t", "u"])).await;
    server.on("prompts/list", |seen| Answer::error(seen, 404, -32601, "none"));
    let gate = Gate::new(Mode::Pass(server.address)).await;
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("catalogue").join("s.tools.json");
    let own = format!("state_dir = {:?}", state.path());
    let setup = || Setup::new().gateway(&own).http("s", &gate.url(), "");

    let gateway = setup().start().await;
    let first = list(&gateway).await;
    assert_eq!(first["tools"][1]["name"], "s_u");
    eventually("the list is on disk", async || file.exists()).await;
    gateway.stop().await;

    gate.set(Mode::Refuse).await;
    let gateway = setup().launch().await;
    let stale = list(&gateway).await;
    assert_eq!((&stale["tools"], &stale["ttlMs"]), (&first["tools"], &json!(0)));
    assert!(stale["_meta"].get("dev.gatehouse/missing").is_none(), "{stale}");
    gate.set(Mode::Pass(server.address)).await;
    eventually("fresh again", async || list(&gateway).await["ttlMs"] != json!(0)).await;
    gateway.stop().await;

    gate.set(Mode::Refuse).await;
    let whole = std::fs::read(&file).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"", b"[]", b"{\"version\":1}", &[0xff; 100]] {
        std::fs::write(&file, damaged).unwrap();
        let gateway = setup().launch().await;
        gateway
            .log
            .wait("a warning", |line| line.contains("saved catalogue ignored") && line.contains("WARN"))
            .await;
        let gone = list(&gateway).await;
        assert_eq!((&gone["tools"], &gone["_meta"]["dev.gatehouse/missing"]), (&json!([]), &json!(["s"])));
        gateway.stop().await;
    }
    std::fs::write(&file, &whole).unwrap();
    let gateway = setup().gateway("stale_if_error = \"0s\"").launch().await;
    assert_eq!(list(&gateway).await["tools"], first["tools"], "it is an hour's own");
    gateway.stop().await;
}

/// Covers: L-22: the connection is not the context: what one client made known, another is given.
#[tokio::test(flavor = "multi_thread")]
async fn l_30_lists_do_not_depend_on_the_connection() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let mut one = Connection::open(gateway.listen).await;
    let mut two = Connection::open(gateway.listen).await;
    let expected = one.send(mcp("tools/list", "{}")).await.result()["tools"].clone();
    for connection in [&mut one, &mut two] {
        for capabilities in ["{}", r#"{"elicitation":{}}"#, r#"{"sampling":{},"roots":{}}"#] {
            let reply = connection.send(mcp("tools/list", "{}").capabilities(capabilities)).await;
            assert_eq!(reply.result()["tools"], expected);
        }
    }
    gateway.stop().await;
}
