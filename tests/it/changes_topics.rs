//! Single resources that clients watch: counted, added without a gap, told to those who asked and nobody else:
//! S-02, S-07, S-23, S-31..S-35, S-12.

use serde_json::{Value, json};

use crate::support::feed::{Feed, Stream, TELLS, declare, listen, watch};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::server::{Held, Offer, Server};
use crate::support::table::CAPABILITY;

async fn server(name: &str, uris: &[&str]) -> (Server, Held) {
    let resources = uris.iter().map(|uri| format!("{{\"uri\":{},\"name\":\"n\"}}", json::quoted(uri)));
    let server =
        Server::modern(name, Offer { resources: resources.collect(), ..Offer::default() }.fresh()).await;
    declare(&server, TELLS);
    let feeds = server.hold("subscriptions/listen");
    (server, feeds)
}

async fn told(uris: &[&str]) -> (Server, Held, Gateway, Feed) {
    let (server, mut feeds) = server("s", uris).await;
    let gateway = Setup::new().http("s", &server.url(), "").launch().await;
    let feed = Feed::accept(feeds.next().await);
    server.asked("resources/list", 1).await;
    (server, feeds, gateway, feed)
}

fn filter(uris: &[&str]) -> String {
    json!({ "resourceSubscriptions": uris }).to_string()
}

fn watched(feed: &Feed) -> Value {
    feed.asked()["resourceSubscriptions"].clone()
}

/// Covers: S-02, S-35, M-35: told to those who asked, each under its own id, byte for byte as it was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn s_35_updates_reach_who_asked() {
    const ODD: &str = "x://ä/%2F?q=a b#\"\\";
    let (_server, mut feeds, gateway, feed) = told(&["x://a", "x://b", ODD]).await;
    let all = filter(&["x://a", "x://b", ODD]);
    let (mut every, feed) = watch(&gateway, &mut feeds, feed, "\"every\"", &all).await;
    let mut one = Stream::open(&gateway, "1", &filter(&["x://a"])).await;
    let mut two = Stream::open(&gateway, "2", &filter(&["x://b", ODD])).await;
    for _ in 0..20 {
        for uri in ["x://a", "x://b", ODD, "x://a"] {
            feed.updated(uri);
            assert_eq!(every.notice().await, uri);
            let mine = if uri == "x://a" { &mut one } else { &mut two };
            assert_eq!(mine.notice().await, uri);
        }
        feed.updated("x://nobody");
    }
    gateway.stop().await;
}

/// Covers: S-31: one wish at the server for all clients; it ends with the last of them.
#[tokio::test(flavor = "multi_thread")]
async fn s_31_wishes_are_counted() {
    let (server, mut feeds, gateway, feed) = told(&["x://a", "x://b"]).await;
    let (one, mut feed) = watch(&gateway, &mut feeds, feed, "1", &filter(&["x://a"])).await;
    assert_eq!(watched(&feed), json!(["x://a"]));
    let mut more = Vec::new();
    for id in 0..20 {
        more.push(Stream::open(&gateway, &id.to_string(), &filter(&["x://a"])).await);
    }
    assert_eq!(server.requests("subscriptions/listen").len(), 2, "one without it, one with it");
    drop(one);
    let mut last = more.pop().unwrap();
    drop(more);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 1.0).await;
    feed.updated("x://a");
    assert_eq!(last.notice().await, "x://a", "still watched for the one who is left");
    drop(last);
    let next = Feed::accept(feeds.next().await);
    assert_eq!(watched(&next), Value::Null, "nobody wants it any more");
    feed.gone().await;
    assert_eq!(server.requests("subscriptions/listen").len(), 3);
    gateway.stop().await;
}

/// Covers: S-31: another resource is added by a second stream; the first stays until that is acknowledged, and
/// what it told until then is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn s_31_an_overlap_loses_nothing() {
    let uris: Vec<String> = (0..20).map(|n| format!("x://{n}")).collect();
    let all: Vec<&str> = uris.iter().map(String::as_str).collect();
    let (server, mut feeds, gateway, feed) = told(&all).await;
    let (mut first, mut feed) = watch(&gateway, &mut feeds, feed, "1", &filter(&["x://0"])).await;
    for count in 2..=all.len() {
        let more = filter(&all[..count]);
        let (mut other, mut next) = {
            let turn = async {
                let exchange = feeds.next().await;
                assert!(!feed.is_gone(), "the old stream stays until the new one is acknowledged");
                // Told on the old stream alone, and the new one's acknowledgement overtakes it.
                feed.updated("x://0");
                let next = Feed::accept(exchange);
                feed.gone().await;
                next
            };
            let (_, next) = tokio::join!(Stream::open(&gateway, "2", &more), turn);
            (Stream::open(&gateway, "3", &more).await, next)
        };
        assert_eq!(first.notice().await, "x://0", "{count}");
        let new = all[count - 1];
        next.updated(new);
        assert_eq!(other.notice().await, new);
        assert!(!next.is_gone());
        drop(other);
        feed = next;
        // Without the second client the list shrinks again, by the same rule.
        let exchange = feeds.next().await;
        assert!(!feed.is_gone());
        let next = Feed::accept(exchange);
        assert_eq!(watched(&next), json!(["x://0"]));
        feed.gone().await;
        feed = next;
    }
    assert!(feeds.is_empty());
    assert!(server.requests("subscriptions/listen").len() <= 2 * all.len());
    gateway.stop().await;
}

/// Covers: S-33, S-34: what no server of this caller's view tells of is left out, the rest is honoured.
#[tokio::test(flavor = "multi_thread")]
async fn s_33_what_is_honoured() {
    let (_server, mut feeds, gateway, feed) = told(&["x://a", "x://b", "x://c"]).await;
    let (_keep, mut feed) = watch(&gateway, &mut feeds, feed, "1", &filter(&["x://a", "x://b"])).await;
    let wanted = filter(&["x://c", "x://unknown", "x://b", "x://b"]);
    let opening = Stream::open(&gateway, "2", &wanted);
    let turn = async {
        let exchange = feeds.next().await;
        // The server does not tell of this one.
        let next = Feed::accept_only(exchange, &filter(&["x://a", "x://b"]));
        feed.gone().await;
        next
    };
    let (stream, _feed) = tokio::join!(opening, turn);
    assert_eq!(stream.honoured, json!({"resourceSubscriptions": ["x://b"]}));
    gateway.stop().await;
}

/// Covers: S-23, L-24: what may have changed unseen is told, and read anew.
#[tokio::test(flavor = "multi_thread")]
async fn s_23_resources_after_a_gap() {
    let (server, mut feeds, gateway, feed) = told(&["x://a"]).await;
    let answer = |text: &str| {
        format!(r#"{{"contents":[{{"uri":"x://a","text":"{text}"}}],"ttlMs":3600000,"cacheScope":"public"}}"#)
    };
    let say = |text: &str| {
        let answer = answer(text);
        server.on("resources/read", move |seen| crate::support::exchange::Answer::result(seen, &answer));
    };
    let text = async || {
        let read = crate::support::request::mcp("resources/read", r#"{"uri":"x://a"}"#);
        gateway.send(read).await.result()["contents"][0]["text"].as_str().unwrap().to_owned()
    };
    let (mut stream, feed) = watch(&gateway, &mut feeds, feed, "1", &filter(&["x://a"])).await;
    say("before");
    assert_eq!(text().await, "before");
    say("after");
    assert_eq!(text().await, "before", "from memory");
    feed.cut();
    let next = Feed::accept(feeds.next().await);
    assert_eq!(watched(&next), json!(["x://a"]), "asked for anew");
    assert_eq!(stream.notice().await, "x://a");
    assert_eq!(text().await, "after");
    gateway.stop().await;
}

/// Covers: design §4, S-35: two servers with one URI: its owner's notices count, the other's do not.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_uri_tells_of_it() {
    let (first, mut ones) = server("one", &["x://both"]).await;
    let (two, mut twos) = server("two", &["x://both", "x://two"]).await;
    let setup = Setup::new().http("one", &first.url(), "").http("two", &two.url(), "");
    let gateway = setup.launch().await;
    let (one, other) = (Feed::accept(ones.next().await), Feed::accept(twos.next().await));
    first.asked("resources/list", 1).await;
    two.asked("resources/list", 1).await;
    let (keep, one) = watch(&gateway, &mut ones, one, "1", &filter(&["x://both"])).await;
    let (mut stream, other) = watch(&gateway, &mut twos, other, "2", &filter(&["x://both", "x://two"])).await;
    assert_eq!(watched(&other), json!(["x://two"]), "only what is its own");
    other.updated("x://both");
    other.updated("x://two");
    assert_eq!(stream.notice().await, "x://two");
    one.updated("x://both");
    assert_eq!(stream.notice().await, "x://both");
    drop(keep);
    gateway.stop().await;
}

/// Covers: S-12, S-42: tasks need the extension; too many resources are refused as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn s_12_refusals() {
    let (_server, _feeds, gateway, _feed) = told(&["x://a"]).await;
    let reply = gateway.send(listen("1", r#"{"taskIds":["t"]}"#)).await;
    assert_eq!(reply.verdict(), (400, Some(CAPABILITY)), "{reply:?}");
    let data = &reply.message()["error"]["data"]["requiredCapabilities"];
    assert_eq!(*data, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let declared = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let answer =
        gateway.connect().await.begin(listen("1", r#"{"taskIds":["t"]}"#).capabilities(declared)).await;
    assert_eq!(answer.status(), 200, "an id of nobody's is left out");
    drop(answer);
    let many: Vec<String> = (0..257).map(|n| format!("x://{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let reply = gateway.send(listen("1", &filter(&many))).await;
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    gateway.stop().await;
}
