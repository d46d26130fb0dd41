//! Servers that see each caller as himself show each his own: lists, reads, notices, sessions, never another's:
//! L-22, L-41, A-44, A-46, G-49, design §5.

use futures_util::future::join_all;
use serde_json::json;

use crate::support::client::Reply;
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::{Feed, Stream, listen};
use crate::support::gateway::Gateway;
use crate::support::people::{People, with};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server, tool};
use crate::support::table::RESULT;
use crate::support::{eventually, json as text, scale};

/// Whose token a request bears: `for-NAME-NUMBER`.
fn shown_to(seen: &Seen) -> String {
    let shown = seen.header("authorization").unwrap_or_default();
    let name = shown.strip_prefix("Bearer for-").and_then(|rest| rest.rsplit_once('-'));
    name.map_or(shown.clone(), |(name, _)| name.to_owned())
}

/// A server that marks everything with whom it is shown to.
fn marks(server: &Server) {
    let wrap = |members: String| {
        format!("{{\"resultType\":\"complete\",\"ttlMs\":3600000,\"cacheScope\":\"public\",{members}}}")
    };
    server.on("tools/list", move |seen| {
        let who = shown_to(seen);
        Answer::result(seen, &wrap(format!("\"tools\":[{},{}]", tool("common"), tool(&format!("of-{who}")))))
    });
    server.on("resources/list", move |seen| {
        let who = shown_to(seen);
        let own = format!(r#"{{"uri":"x://all","name":"for {who}"}},{{"uri":"x://{who}","name":"own"}}"#);
        Answer::result(seen, &wrap(format!("\"resources\":[{own}]")))
    });
    server.on("resources/read", move |seen| {
        let (who, uri) = (shown_to(seen), seen.name().unwrap());
        let contents =
            format!("\"contents\":[{{\"uri\":{},\"text\":\"read by {who}\"}}]", text::quoted(&uri));
        Answer::result(seen, &wrap(contents))
    });
    server.on("tools/call", |seen| {
        let said = text::quoted(&format!("{} called {}", shown_to(seen), seen.name().unwrap()));
        Answer::result(
            seen,
            &format!("{{\"resultType\":\"complete\",\"content\":[{{\"type\":\"text\",\"text\":{said}}}]}}"),
        )
    });
}

fn offer() -> Offer {
    let resources = vec![r#"{"uri":"x://all","name":"all"}"#.to_owned()];
    Offer { resources, ..Offer::tools(&["common"]) }
}

fn names(reply: &Reply) -> Vec<String> {
    let tools = reply.result()["tools"].clone();
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn tools(gateway: &Gateway, token: &str) -> Reply {
    gateway.send(with(mcp("tools/list", "{}"), token)).await
}

/// Covers: L-22, L-41, A-44: two callers, two catalogues, each asked for once; no cache is told that it may be shared.
#[tokio::test(flavor = "multi_thread")]
async fn l_22_two_callers_see_different_tools() {
    let people = People::new().await;
    let server = Server::modern("s", offer()).await;
    marks(&server);
    let other = Server::modern("o", Offer::tools(&["t"])).await;
    let setup = people.setup().http("s", &server.url(), &people.exchange(""));
    let gateway = setup.http("o", &other.url(), "").start().await;
    let [alice, bob] = ["alice", "bob"].map(|name| people.token(name));
    for _ in 0..3 {
        for (name, token) in [("alice", &alice), ("bob", &bob)] {
            let list = tools(&gateway, token).await;
            assert_eq!(names(&list), ["s_common", &format!("s_of-{name}"), "o_t"]);
            let result = list.result();
            assert_eq!(result["cacheScope"], "private", "{result}");
            assert!(result["ttlMs"].as_u64().unwrap() > 3_000_000, "{result}");
            let resources = gateway.send(with(mcp("resources/list", "{}"), token)).await;
            assert_eq!(resources.result()["resources"][0]["name"], format!("for {name}"));
            let discovered = gateway.send(with(mcp("server/discover", "{}"), token)).await;
            assert_eq!(discovered.result()["cacheScope"], "private");
        }
    }
    let walks = server.requests("tools/list");
    assert_eq!(walks.len(), 2, "once for each");
    // What is not in a caller's own list is not there for him.
    let own = gateway.send(with(call("s_of-alice", "{}"), &alice)).await;
    assert_eq!(own.result()["content"][0]["text"], "alice called of-alice");
    let foreign = gateway.send(with(call("s_of-alice", "{}"), &bob)).await;
    assert_eq!(foreign.verdict(), (200, Some(-32602)), "{foreign:?}");
    // A newer token of the same caller is the same caller; with other scopes it may be shown something else.
    let newer = people.token_of("alice", json!({ "jti": "2" }));
    assert_eq!(names(&tools(&gateway, &newer).await), ["s_common", "s_of-alice", "o_t"]);
    assert_eq!(server.requests("tools/list").len(), 2);
    let wider = people.token_of("alice", json!({ "scope": "more" }));
    assert_eq!(names(&tools(&gateway, &wider).await), ["s_common", "s_of-alice", "o_t"]);
    assert_eq!(server.requests("tools/list").len(), 3);
    // One caller's numbers are not the server's: none are told.
    assert_eq!(gateway.metric("gatehouse_catalogue_items", &[("server", "s")]).await, 0.0);
    assert_eq!(gateway.metric("gatehouse_catalogue_items", &[("server", "o"), ("kind", "tools")]).await, 1.0);
    assert_eq!(gateway.metric("gatehouse_catalogue_missing", &[("server", "s")]).await, 0.0);
    assert!(
        server.seen().iter().all(|seen| seen.method() == "server/discover" || shown_to(seen) != "Bearer own")
    );
}

/// Covers: A-44, A-46: who has no token to exchange is shown nothing, is nobody, and costs no question.
#[tokio::test(flavor = "multi_thread")]
async fn a_44_without_a_token_there_is_nothing() {
    let people = People::new().await;
    let server = Server::modern("s", offer()).await;
    marks(&server);
    let gateway = people.setup().http("s", &server.url(), &people.exchange("")).start().await;
    assert_eq!(names(&tools(&gateway, &people.token("alice")).await).len(), 2);
    let before = server.seen().len();
    let key = "a-long-and-random-key";
    for _ in 0..3 {
        let list = tools(&gateway, key).await;
        assert_eq!(list.verdict(), (200, Some(RESULT)));
        assert_eq!(names(&list), [""; 0]);
        assert_eq!(list.result()["_meta"]["dev.gatehouse/missing"], json!(["s"]));
        let called = gateway.send(with(call("s_common", "{}"), key)).await;
        assert_eq!(called.result()["isError"], true, "{called:?}");
        let read = gateway.send(with(mcp("resources/read", r#"{"uri":"x://all"}"#), key)).await;
        assert!(read.code().is_some(), "{read:?}");
    }
    assert_eq!(server.seen().len(), before);
    // Nor did that take anything from those who have one.
    assert_eq!(names(&tools(&gateway, &people.token("alice")).await).len(), 2);
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "s")]).await, 1.0);
}

/// Covers: A-46, L-22, issue 4: many callers at once, everything marked; nobody receives a byte of another.
#[tokio::test(flavor = "multi_thread")]
async fn l_22_forty_callers_never_mix() {
    let people = People::new().await;
    let server = Server::modern("s", offer()).await;
    marks(&server);
    let gateway = people.setup().http("s", &server.url(), &people.exchange("")).start().await;
    let everybody: Vec<String> = (0..40).map(|number| format!("p{number:02}x")).collect();
    let one = async |name: &String| {
        let token = people.token(name);
        let mut connection = gateway.connect().await;
        for _ in 0..2 * scale() {
            let tool = call(&format!("s_of-{name}"), "{}");
            let own = mcp("resources/read", format!(r#"{{"uri":"x://{name}"}}"#));
            for request in [
                mcp("tools/list", "{}"),
                mcp("resources/list", "{}"),
                tool,
                own,
                mcp("resources/read", r#"{"uri":"x://all"}"#),
            ] {
                let reply = connection.send(with(request, &token)).await;
                assert_eq!(reply.verdict(), (200, Some(RESULT)), "{name}: {reply:?}");
                let said = reply.text();
                assert!(said.contains(name.as_str()), "{name}: {said}");
                let foreign = everybody.iter().find(|other| *other != name && said.contains(other.as_str()));
                assert_eq!(foreign, None, "{name}: {said}");
            }
        }
    };
    join_all(everybody.iter().map(one)).await;
    let lists = server.requests("tools/list");
    assert_eq!(lists.len(), 40, "one walk for each");
    // The same address, read by each as himself, once.
    let reads = server.requests("resources/read");
    assert_eq!(reads.iter().filter(|seen| seen.name().as_deref() == Some("x://all")).count(), 40);
}

/// Covers: S-31, L-22, issue 4: notices of one caller's stream are told to that caller only, and make only his list old.
#[tokio::test(flavor = "multi_thread")]
async fn s_31_notices_go_to_whom_they_were_told() {
    let people = People::new().await;
    let watched = Offer { capabilities: vec![r#""tools":{"listChanged":true}"#.to_owned()], ..offer() };
    let server = Server::modern("s", watched).await;
    marks(&server);
    let mut held = server.hold("subscriptions/listen");
    let gateway = people.setup().http("s", &server.url(), &people.exchange("")).start().await;
    let mut streams = Vec::new();
    let mut feeds = std::collections::BTreeMap::new();
    for name in ["alice", "bob", "carol"] {
        let token = people.token(name);
        assert_eq!(names(&tools(&gateway, &token).await).len(), 2);
        let request = with(listen("1", r#"{"toolsListChanged":true}"#), &token);
        let stream = async { Stream::ask(gateway.connect().await, request, "1").await };
        let feed = async {
            let exchange = held.next().await;
            (shown_to(&exchange.seen), Feed::accept(exchange))
        };
        let (stream, (who, feed)) = tokio::join!(stream, feed);
        assert_eq!(who, name, "asked for as the caller");
        streams.push((name, token, stream));
        feeds.insert(who, feed);
    }
    // After its stream is open each list is asked for once more.
    server.asked("tools/list", 6).await;
    server.on("tools/list", |seen| {
        let changed = tool(&format!("new-{}", shown_to(seen)));
        Answer::result(
            seen,
            &format!("{{\"resultType\":\"complete\",\"tools\":[{changed}],\"ttlMs\":3600000}}"),
        )
    });
    feeds["bob"].changed("tools");
    assert_eq!(streams[1].2.notice().await, "tools");
    let walks = server.requests("tools/list").len();
    for (name, token, _) in &streams {
        let wanted = if *name == "bob" {
            vec!["s_new-bob".to_owned()]
        } else {
            vec!["s_common".to_owned(), format!("s_of-{name}")]
        };
        assert_eq!(names(&tools(&gateway, token).await), wanted);
    }
    assert_eq!(server.requests("tools/list").len(), walks, "the others' lists are as good as before");
    let (_, _, alice) = streams.remove(0);
    tokio::join!(gateway.stop(), alice.end_without_notice());
}

/// Covers: S-36, L-33: what a caller is shown for the first time is no change, what changes beside it is one.
#[tokio::test(flavor = "multi_thread")]
async fn l_33_the_first_look_is_no_change() {
    let people = People::new().await;
    let server = Server::modern("s", offer()).await;
    marks(&server);
    let other = Server::modern("o", Offer::tools(&["t"])).await;
    other.on("server/discover", |seen| {
        let told = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}"#;
        Answer::result(seen, told)
    });
    let mut held = other.hold("subscriptions/listen");
    let setup = people.setup().http("s", &server.url(), &people.exchange(""));
    let gateway = setup.http("o", &other.url(), "").start().await;
    let feed = Feed::accept(held.next().await);
    // What all see is known before.
    assert_eq!(names(&tools(&gateway, &people.token("bob")).await).len(), 3);
    let alice = people.token("alice");
    let request = with(listen("1", r#"{"toolsListChanged":true}"#), &alice);
    let mut stream = Stream::ask(gateway.connect().await, request, "1").await;
    assert_eq!(names(&tools(&gateway, &alice).await).len(), 3, "her list is known now");
    other.offer(Offer::tools(&["t", "u"]));
    feed.changed("tools");
    assert_eq!(stream.notice().await, "tools");
    assert_eq!(names(&tools(&gateway, &alice).await).len(), 4, "so this was told, and not that");
    tokio::join!(gateway.stop(), stream.end_without_notice());
}

/// Covers: G-46, G-49, A-44: a legacy server has a session for each caller, opened, used and ended as that caller.
#[tokio::test(flavor = "multi_thread")]
async fn g_49_a_legacy_server_has_a_session_for_each_caller() {
    let people = People::new().await;
    let server = Server::legacy("s", Offer::tools(&["t"]).stale()).await;
    let lines = people.exchange("").replace("\"modern\"", "\"auto\"");
    let gateway = people.setup().http("s", &server.url(), &lines).start().await;
    let tokens = ["alice", "bob"].map(|name| people.token(name));
    for _ in 0..3 {
        let all = tokens.iter().map(|token| async {
            assert_eq!(names(&tools(&gateway, token).await), ["s_t"]);
            let called = gateway.send(with(call("s_t", r#"{"a":1}"#), token)).await;
            assert_eq!(called.result()["structuredContent"], json!({ "a": 1 }), "{called:?}");
        });
        join_all(all).await;
    }
    let of = |seen: &Seen| (seen.header("mcp-session-id").unwrap_or_default(), shown_to(seen));
    let mut used: Vec<(String, String)> = server.requests("tools/call").iter().map(of).collect();
    used.extend(server.requests("tools/list").iter().map(of));
    used.sort();
    used.dedup();
    assert_eq!(used.len(), 2, "one session for each: {used:?}");
    assert_ne!(used[0].1, used[1].1);
    gateway.stop().await;
    let mut ended: Vec<(String, String)> = server.requests("DELETE").iter().map(of).collect();
    ended.sort();
    ended.retain(|(_, who)| who != "Bearer own");
    assert_eq!(ended, used, "each is ended as the one whose it was");
    // Nobody's session is ever used with another's token.
    let mut owners = std::collections::BTreeMap::new();
    for (session, who) in server.seen().iter().map(of).filter(|(session, _)| !session.is_empty()) {
        let owner = owners.entry(session.clone()).or_insert_with(|| who.clone());
        assert_eq!(*owner, who, "{session}");
    }
}

/// Covers: L-26: a caller who is turned away is not shown what he was shown before.
#[tokio::test(flavor = "multi_thread")]
async fn l_26_who_is_turned_away_is_shown_nothing_old() {
    let people = People::new().await;
    let server = Server::modern("s", offer()).await;
    marks(&server);
    let list = |seen: &Seen| {
        Answer::result(
            seen,
            &format!("{{\"resultType\":\"complete\",\"tools\":[{}],\"ttlMs\":0}}", tool("t")),
        )
    };
    server.on("tools/list", list);
    let gateway = people.setup().http("s", &server.url(), &people.exchange("")).start().await;
    let [alice, bob] = ["alice", "bob"].map(|name| people.token(name));
    for token in [&alice, &bob] {
        assert_eq!(names(&tools(&gateway, token).await), ["s_t"]);
    }
    server.on("tools/list", move |seen| match shown_to(seen).as_str() {
        "alice" => Answer::new(401, "", ""),
        // Down is not turned away: what was known stands in.
        _ => Answer::new(503, "", ""),
    });
    let turned_away = tools(&gateway, &alice).await;
    assert_eq!(names(&turned_away), [""; 0]);
    assert_eq!(turned_away.result()["_meta"]["dev.gatehouse/missing"], json!(["s"]));
    assert_eq!(names(&tools(&gateway, &bob).await), ["s_t"]);
    server.on("tools/list", list);
    eventually("she is let in again", async || names(&tools(&gateway, &alice).await) == ["s_t"]).await;
}
