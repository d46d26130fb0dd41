//! `discovery = "search"`: three tools instead of three hundred, and everything that holds for a call holds for one inside
//! `call_tool`.

use serde_json::Value;

use crate::support::cast::{ask, caller};
use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::feed::{Feed, Stream, TELLS, declare};
use crate::support::gateway::{Gateway, Setup};
use crate::support::measure::measured;
use crate::support::organisation::{needs, services};
use crate::support::request::{Mcp, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::{eventually, json as raw};

const SEARCH: &str = "[[endpoint]]\npath = \"/mcp\"\ndiscovery = \"search\"\n";

fn quoted(text: &str) -> String {
    raw::quoted(text)
}

fn search(query: &str) -> Mcp {
    call("search_tools", format!("{{\"query\":{}}}", quoted(query)))
}

/// A call through `call_tool`; `arguments` is JSON text.
fn through(name: &str, arguments: &str) -> Mcp {
    call("call_tool", format!("{{\"name\":{},\"arguments\":{arguments}}}", quoted(name)))
}

fn text(reply: &Reply) -> String {
    let result = reply.result();
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

/// The names of the tools that a search found, in order.
fn found(reply: &Reply) -> Vec<String> {
    assert_ne!(reply.result()["isError"], true, "{reply:?}");
    let name = |line: &str| Some(line.split_once('(')?.0.to_owned());
    text(reply).lines().filter(|line| !line.starts_with("Not searched")).filter_map(name).collect()
}

async fn names(gateway: &Gateway) -> Vec<String> {
    listed(&gateway.send(mcp("tools/list", "{}")).await)
}

fn listed(reply: &Reply) -> Vec<String> {
    let tools = reply.result()["tools"].clone();
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

const OWN: [&str; 3] = ["search_tools", "describe_tool", "call_tool"];

/// The promise: of 300 tools the right one is among the first five for 95 of 100 needs, and the list is short.
#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_tools_are_found_by_what_people_need() {
    let mut servers = Vec::new();
    let endpoint = SEARCH.to_owned() + "pinned = [\"slack_post_message\", \"calendar_create_*\"]";
    let mut setup = Setup::new().toml(&endpoint);
    let mut tools = 0;
    for service in services() {
        tools += service.tools.len();
        let offer = Offer { tools: service.tools.clone(), ..Offer::default() }.fresh();
        let server = Server::modern(&service.name, offer).await;
        setup =
            setup.http(&service.name, &server.url(), &format!("description = {}", quoted(&service.about)));
        servers.push(server);
    }
    assert_eq!((tools, needs().len()), (300, 100));
    let gateway = setup.start().await;
    let list = gateway.send(mcp("tools/list", "{}")).await;
    let pinned = ["slack_post_message", "calendar_create_event", "calendar_create_room_booking"];
    assert_eq!(listed(&list), [&OWN[..], &pinned].concat());
    let tokens = tiktoken_rs::o200k_base().unwrap().count_with_special_tokens(&list.result_text());
    assert!(tokens < 2000, "{tokens} tokens");
    let (mut right, mut first, mut missed) = (0, 0, Vec::new());
    for need in needs() {
        let hits = found(&gateway.send(search(need.said)).await);
        first += usize::from(hits.first().is_some_and(|hit| need.right.contains(&hit.as_str())));
        if hits.iter().take(5).any(|hit| need.right.contains(&hit.as_str())) {
            right += 1;
        } else {
            missed.push(format!("{:?} → {hits:?}", need.said));
        }
    }
    measured("needs whose tool is in the first five, first, tokens of the list", (right, first, tokens));
    assert!(right >= 95, "{right} of 100:\n{}", missed.join("\n"));
    // The same question, the same answer.
    let again = [gateway.send(search("list")).await, gateway.send(search("list")).await];
    assert_eq!(text(&again[0]), text(&again[1]));
    assert_eq!(found(&again[0]).len(), 8);
    gateway.stop().await;
}

const REGION: &str = r#"{"name":"t","description":"Moves a ship. Slowly.","_meta":{"x":1},"inputSchema":{"type":"object",
    "properties":{"region":{"type":"string","x-mcp-header":"Region"},"speed":{"type":"number"}},"required":["region"]}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_inside_is_the_call_itself() {
    let server = Server::modern("s", Offer::defined(&[REGION])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let audit = format!("[audit]\nfile = \"{}\"\n{SEARCH}", file.display());
    let gateway = Setup::new().toml(&audit).http("s", &server.url(), "").start().await;
    // No Mcp-Param-* came, the next hop gets its own; the arguments arrive as they were written.
    let arguments = r#"{ "speed":1.0,"region" : "eu ä", "n":9007199254740993, "k":{"b":null,"a":[ ]} }"#;
    let reply = gateway.send(through("s_t", arguments)).await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    let seen = server.last_call();
    assert_eq!(seen.raw(&["params", "arguments"]).as_deref(), Some(arguments));
    assert_eq!(
        (seen.header("mcp-name").as_deref(), seen.header("mcp-method").as_deref()),
        (Some("t"), Some("tools/call"))
    );
    assert!(
        seen.header("mcp-param-region").is_some_and(|value| value.starts_with("=?base64?")),
        "{:?}",
        seen.head
    );
    assert_eq!(seen.name().as_deref(), Some("t"));
    assert_eq!(text(&reply), "s:t");
    // Alone, it still has to be mirrored.
    assert_eq!(gateway.send(call("s_t", r#"{"region":"eu"}"#)).await.status(), 400);
    // Neither arguments nor their order in the message matter.
    let bare = gateway.send(call("call_tool", r#"{"name":"s_t"}"#)).await;
    assert_eq!(text(&bare), "s:t", "{bare:?}");
    assert_eq!(server.last_call().raw(&["params", "arguments"]).as_deref(), Some("{}"));
    let turned =
        mcp("tools/call", r#"{"arguments":{"arguments":{"region":"us"},"name":"s_t"},"name":"call_tool"}"#);
    assert_eq!(text(&gateway.send(turned).await), "s:t");
    assert_eq!(server.last_call().header("mcp-param-region").as_deref(), Some("us"));
    let labels = [("server", "s"), ("tool", "s_t"), ("outcome", "ok")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 3.0);
    gateway.stop().await;
    let lines = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tools: Vec<&str> = lines.iter().map(|line| line["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["s_t"; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_shown_as_its_server_wrote_it() {
    let server = Server::modern("s", Offer::defined(&[REGION])).await;
    let gateway = Setup::new().toml(SEARCH).http("s", &server.url(), "").start().await;
    let reply = gateway.send(call("describe_tool", r#"{"name":"s_t"}"#)).await;
    let told = text(&reply);
    let schema = raw::raw(REGION, &["inputSchema"]).unwrap();
    assert!(told.contains("\"name\":\"s_t\"") && told.contains(&schema) && !told.contains("_meta"), "{told}");
    assert_eq!(text(&gateway.send(search("ship")).await), "s_t(region, speed?): Moves a ship.\n");
    for (wrong, says) in [
        (call("search_tools", "{}"), "`query` must be"),
        (call("search_tools", r#"{"query":1}"#), "`query` must be"),
        (call("search_tools", r#"{"query":"x","limit":"many"}"#), "`limit` must be"),
        (call("search_tools", r#"{"query":"x","tags":"a"}"#), "`tags` must be"),
        (call("describe_tool", r#"{"name":["s_t"]}"#), "`name` must be"),
        (call("call_tool", r#"{"arguments":{}}"#), "`name` must be"),
        (call("call_tool", r#"{"name":"s_t","arguments":[1]}"#), "`arguments` must be"),
        (mcp("tools/call", r#"{"name":"call_tool"}"#), "`name` must be"),
        (through("call_tool", r#"{"name":"s_t"}"#), "There is no tool \"call_tool\""),
        (search("zebra"), "No tool fits"),
    ] {
        let reply = gateway.send(wrong).await;
        assert!(text(&reply).starts_with(says), "{reply:?}");
    }
    assert_eq!(server.requests("tools/call").len(), 0);
    gateway.stop().await;
}

/// Covers: M-43, A-11, A-15: whoever may not use a tool does not find out that it is there.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_granted_is_not_found() {
    let open = ["list_ships", "sink_ship", "paint_ship"];
    let server = Server::modern("s", Offer::tools(&open)).await;
    let other = Server::modern("o", Offer::tools(&["ship_gold"])).await;
    let callers =
        [caller("ann", "team = \"dev\""), caller("bob", "team = \"hr\""), caller("eve", "x = \"y\"")]
            .concat();
    let grants = "[[grant]]\nto = { team = \"dev\" }\nservers = [\"s\"]\ntools = [\"*\"]\n\
        [[grant]]\nto = { team = \"hr\" }\nservers = [\"s\"]\ntools = [\"list_*\"]\n\
        [[grant]]\nto = { team = \"hr\" }\nservers = [\"s\"]\ntools = [\"paint_ship\"]\nscopes = [\"paint\"]\n";
    let gateway = Setup::new()
        .toml(&format!("[auth]\n{callers}{SEARCH}pinned = [\"s_sink*\", \"o_*\"]\n{grants}"))
        .http("s", &server.url(), "tags = [\"sea\"]")
        .http("o", &other.url(), "tags = [\"gold\"]")
        .start()
        .await;
    let list = ask(&gateway, "ann", mcp("tools/list", "{}")).await;
    assert_eq!(listed(&list), [&OWN[..], &["s_sink_ship"]].concat());
    assert!(list.text().contains("Known: sea") && !list.text().contains("gold"), "{list:?}");
    assert_eq!(listed(&ask(&gateway, "bob", mcp("tools/list", "{}")).await), OWN);
    assert_eq!(listed(&ask(&gateway, "eve", mcp("tools/list", "{}")).await), Vec::<String>::new());
    let mut all = found(&ask(&gateway, "ann", search("ship gold")).await);
    all.sort_unstable();
    assert_eq!(all, ["s_list_ships", "s_paint_ship", "s_sink_ship"]);
    let mut some = found(&ask(&gateway, "bob", search("ship gold")).await);
    some.sort_unstable();
    assert_eq!(some, ["s_list_ships", "s_paint_ship"]);
    // One that is there for others and one that is not: word for word the same.
    for (there, not) in [("s_sink_ship", "s_sunk_ship"), ("o_ship_gold", "o_ship_cold")] {
        for own in ["describe_tool", "call_tool"] {
            let one = ask(&gateway, "bob", call(own, format!("{{\"name\":\"{there}\"}}"))).await;
            let two = ask(&gateway, "bob", call(own, format!("{{\"name\":\"{not}\"}}"))).await;
            assert_eq!(one.result()["isError"], true, "{one:?}");
            assert_eq!(one.text().replace(there, not), two.text());
        }
    }
    // To whom nothing is granted the search itself is unknown.
    for own in OWN {
        assert_eq!(
            ask(&gateway, "eve", call(own, r#"{"query":"ship"}"#)).await.verdict(),
            (200, Some(-32602))
        );
    }
    let scopes = ask(&gateway, "bob", through("s_paint_ship", "{}")).await;
    assert_eq!(scopes.status(), 403);
    assert!(scopes.header("www-authenticate").is_some_and(|value| value.contains("paint")), "{scopes:?}");
    assert_eq!(server.requests("tools/call").len() + other.requests("tools/call").len(), 0);
    assert_eq!(text(&ask(&gateway, "bob", through("s_list_ships", "{}")).await), "s:list_ships");
    gateway.stop().await;
}

/// Covers: R-25, R-28: a question of the server's on the way, and its answer.
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_servers_pass_through() {
    let server = Server::modern("s", Offer::tools(&["t", "u"])).await;
    server.on("tools/call", |seen| {
        if seen.raw(&["params", "inputResponses"]).is_some() {
            return Answer::result(seen, r#"{"resultType":"complete","content":[]}"#);
        }
        let asks = r#"{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}"#;
        Answer::result(seen, &format!("{{\"resultType\":\"input_required\",\"inputRequests\":{asks},\"requestState\":\"mine\"}}"))
    });
    let gateway = Setup::new().toml(SEARCH).http("s", &server.url(), "").start().await;
    let ask = |params: &str| mcp("tools/call", params).capabilities(r#"{"elicitation":{}}"#);
    let first =
        gateway.send(ask(r#"{"name":"call_tool","arguments":{"name":"s_t","arguments":{"a":1}}}"#)).await;
    let state = first.result()["requestState"].as_str().expect("a state").to_owned();
    let retry = |inner: &str| {
        ask(&format!(
            "{{\"name\":\"call_tool\",\"arguments\":{inner},\"inputResponses\":{{\"q\":{{\"action\":\"decline\"}}}},\"requestState\":{}}}",
            quoted(&state)
        ))
    };
    for other in [r#"{"name":"s_t","arguments":{"a":2}}"#, r#"{"name":"s_u","arguments":{"a":1}}"#] {
        assert_eq!(gateway.send(retry(other)).await.verdict(), (200, Some(-32602)), "{other}");
    }
    let reply = gateway.send(retry(r#"{"arguments":{"a":1},"name":"s_t"}"#)).await;
    assert_eq!(reply.result()["resultType"], "complete", "{reply:?}");
    let seen = server.last_call();
    assert_eq!(seen.raw(&["params", "requestState"]).as_deref(), Some("\"mine\""));
    assert_eq!(seen.raw(&["params", "arguments"]).as_deref(), Some("{\"a\":1}"));
    gateway.stop().await;
}

/// Design §4: the three names are taken; who has them gets a hash, on every kind of endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn the_three_names_are_reserved() {
    let bare = Server::modern("bare", Offer::tools(&["call_tool", "other"])).await;
    let search_server = Server::modern("search", Offer::tools(&["tools"])).await;
    let mirror = "[[endpoint]]\npath = \"/one\"\nservers = [\"bare\"]\nprefix = false\ndiscovery = \"search\"\n\
        [[endpoint]]\npath = \"/plain\"\nservers = [\"bare\"]\nprefix = false\n";
    let gateway = Setup::new()
        .toml(&format!("{SEARCH}{mirror}"))
        .http("bare", &bare.url(), "prefix = \"\"")
        .http("search", &search_server.url(), "")
        .start()
        .await;
    for path in ["/mcp", "/one"] {
        let hits = found(&gateway.send(search("call").request().at(path)).await);
        let tailed =
            hits.iter().find(|name| name.starts_with("call_tool_")).unwrap_or_else(|| panic!("{hits:?}"));
        assert_eq!(text(&gateway.send(through(tailed, "{}").request().at(path)).await), "bare:call_tool");
        assert!(
            text(&gateway.send(call("call_tool", "{}").request().at(path)).await).starts_with("`name` must")
        );
    }
    let hits = found(&gateway.send(search("search")).await);
    assert!(hits[0].starts_with("search_tools_"), "{hits:?}");
    assert_eq!(text(&gateway.send(through(&hits[0], "{}")).await), "search:tools");
    // Where nothing is searched, nothing is reserved.
    let plain = gateway.send(mcp("tools/list", "{}").request().at("/plain")).await;
    assert_eq!(listed(&plain), ["call_tool", "other"]);
    assert_eq!(text(&gateway.send(call("call_tool", "{}").request().at("/plain")).await), "bare:call_tool");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_narrow_a_search() {
    let one = Server::modern("one", Offer::tools(&["get_x", "set_x"])).await;
    let two = Server::modern("two", Offer::tools(&["get_x"])).await;
    let gateway = Setup::new()
        .toml(SEARCH)
        .http("one", &one.url(), "tags = [\"billing\"]\ntools.tags = { read = [\"get_*\"] }")
        .http("two", &two.url(), "tools.tags = { read = [\"*\"] }")
        .start()
        .await;
    let with = |query: &str, tags: &str| {
        call("search_tools", format!("{{\"query\":{},\"tags\":{tags}}}", quoted(query)))
    };
    assert_eq!(found(&gateway.send(with("x", r#"["read"]"#)).await).len(), 2);
    assert_eq!(found(&gateway.send(with("x", r#"["read","billing"]"#)).await), ["one_get_x"]);
    assert_eq!(found(&gateway.send(with("", r#"["billing"]"#)).await), ["one_get_x", "one_set_x"]);
    assert!(text(&gateway.send(with("x", r#"["nothing"]"#)).await).starts_with("No tool fits"));
    assert!(names(&gateway).await.starts_with(&OWN.map(str::to_owned)));
    gateway.stop().await;
}

/// A client hears of a change of what it is listed, and of nothing else; the search knows it at once.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_where_they_show() {
    let server = Server::modern("s", Offer::tools(&["pin", "boat"])).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let setup = Setup::new().toml(&format!("{SEARCH}pinned = [\"s_pin*\"]\n"));
    let gateway = setup.http("s", &server.url(), "").launch().await;
    let feed = Feed::accept(feeds.next().await);
    assert_eq!(names(&gateway).await, [&OWN[..], &["s_pin"]].concat());
    let mut stream = Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    server.offer(Offer::tools(&["pin", "zebra"]));
    feed.changed("tools");
    eventually("the search knows it", async || {
        let reply = gateway.send(search("zebra")).await;
        text(&reply).starts_with("s_zebra(")
    })
    .await;
    server.offer(Offer::tools(&["pin", "zebra", "pin2"]));
    feed.changed("tools");
    assert_eq!(stream.notice().await, "tools");
    // One notice for two changes: the first was of nothing that is listed.
    assert_eq!(names(&gateway).await, [&OWN[..], &["s_pin", "s_pin2"]].concat());
    gateway.stop().await;
    stream.end_without_notice().await;
}
