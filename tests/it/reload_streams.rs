//! Open streams under another configuration: who sees something else is told once, nobody else anything; a stream without
//! a place ends in order: F-013, F-062, S-09, S-36, issue 6.

use crate::support::client::Connection;
use crate::support::feed::{Feed, Stream, TELLS, declare, listen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, event};
use crate::support::request::Request;
use crate::support::server::{Offer, Server};

const TOOLS: &str = r#"{"toolsListChanged":true}"#;
/// SHA-256 of "one" and of "two".
const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
const TWO: &str = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";

async fn server(name: &str) -> Server {
    Server::modern(name, Offer::tools(&["t"])).await
}

fn two_endpoints() -> Setup {
    Setup::new()
        .toml("[[endpoint]]\npath = \"/mcp\"\nservers = [\"x-*\"]")
        .toml("[[endpoint]]\npath = \"/b\"\nservers = [\"b\"]")
}

/// Covers: F-013, F-062, S-36: at the endpoint that has more now each stream is told once, in both eras; at the other none.
#[tokio::test(flavor = "multi_thread")]
async fn who_sees_more_is_told_once() {
    let (a, b, c) = (server("a").await, server("b").await, server("c").await);
    let setup = two_endpoints().http("x-a", &a.url(), "").http("b", &b.url(), "");
    let gateway = setup.clone().start().await;
    let mut here = Stream::open(&gateway, "1", TOOLS).await;
    let there = Stream::at(gateway.connect().await, "/b", "2", TOOLS).await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    let mut get = session.stream(&gateway, session.get()).await;
    gateway.reload(&setup.clone().http("x-c", &c.url(), "")).await;
    assert_eq!(here.notice().await, "tools");
    let (_, told) = event(&mut get).await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    // The same again, by another way: whoever was told twice would find two before the end.
    gateway.reload(&setup).await;
    assert_eq!(here.notice().await, "tools");
    assert_eq!(event(&mut get).await.unwrap().1["method"], "notifications/tools/list_changed");
    let out = gateway.metric("gatehouse_list_changed_total", &[("direction", "out")]).await;
    assert_eq!(out, 4.0, "each of two streams for each of two changes");
    // The end comes with the gateway's; before it there is nothing.
    let end = tokio::spawn(there.end_without_notice());
    gateway.stop().await;
    end.await.unwrap();
}

/// Covers: issue 6: what changes nothing for a caller tells it nothing: another timeout, another order of keys, another
/// server that it may not use.
#[tokio::test(flavor = "multi_thread")]
async fn who_sees_the_same_is_told_nothing() {
    let (a, b) = (server("a").await, server("b").await);
    let auth = format!(
        "[auth]\n[[auth.key]]\nname = \"one\"\nsha256 = \"{ONE}\"\nclaims = {{ groups = [\"x\"] }}\n[[auth.key]]\nname = \"two\"\nsha256 = \"{TWO}\"\nclaims = {{ groups = [\"y\"] }}\n\
         [[grant]]\nto = {{ groups = [\"x\"] }}\nservers = [\"x-a\"]\ntools = [\"*\"]\n[[grant]]\nto = {{ groups = [\"y\"] }}\nservers = [\"*\"]\ntools = [\"*\"]"
    );
    let setup = |a_more: &str, b_more: &str| {
        Setup::new().toml(&auth).http("x-a", &a.url(), a_more).http("b", &b.url(), b_more)
    };
    let gateway = setup("", "").start().await;
    let open = async |key: &str| {
        let request: Request = listen("1", TOOLS).request().with("Authorization", format!("Bearer {key}"));
        Stream::ask(gateway.connect().await, request, "1").await
    };
    let (one, mut two) = (open("one").await, open("two").await);
    gateway.reload(&setup("timeout = \"77s\"", "timeout = \"78s\"\nqueue = 5")).await;
    gateway.reload(&setup("timeout = \"77s\"", "[server.tools]\ndeny = [\"t\"]")).await;
    assert_eq!(two.notice().await, "tools");
    gateway.reload(&setup("", "")).await;
    assert_eq!(two.notice().await, "tools");
    let out = gateway.metric("gatehouse_list_changed_total", &[("direction", "out")]).await;
    assert_eq!(out, 2.0, "both to the one who may use it");
    // The stream goes on with servers made anew: what they tell arrives.
    let ends = tokio::spawn(one.end_without_notice());
    gateway.stop().await;
    ends.await.unwrap();
}

/// Covers: issue 6, design §4 of watches: a stream that was open before hears of servers that came after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_hears_of_servers_that_came_later() {
    let (a, b) = (server("a").await, server("b").await);
    declare(&b, TELLS);
    let mut streams = b.hold("subscriptions/listen");
    let setup = Setup::new().http("x-a", &a.url(), "");
    let gateway = setup.clone().start().await;
    let mut client = Stream::open(&gateway, "1", TOOLS).await;
    let both = setup.clone().http("b", &b.url(), "");
    let (_, mut feed) = tokio::join!(gateway.reload(&both), async { Feed::accept(streams.next().await) });
    assert_eq!(client.notice().await, "tools");
    b.offer(Offer::tools(&["t", "u"]));
    feed.changed("tools");
    assert_eq!(client.notice().await, "tools");
    gateway.reload(&setup).await;
    assert_eq!(client.notice().await, "tools");
    feed.gone().await;
}

/// Covers: S-09, issue 6: an endpoint that is gone, and a key that is gone, end their streams in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_place_ends_in_order() {
    let (a, b) = (server("a").await, server("b").await);
    let servers = |setup: Setup| setup.http("x-a", &a.url(), "").http("b", &b.url(), "");
    let gateway = servers(two_endpoints()).start().await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    let mut get = session.stream(&gateway, session.get()).await;
    let (mut stays, ends) = (
        Stream::open(&gateway, "1", TOOLS).await,
        Stream::at(Connection::open(gateway.listen).await, "/b", "2", TOOLS).await,
    );
    gateway.reload(&servers(Setup::new())).await;
    ends.end_without_notice().await;
    assert_eq!(stays.notice().await, "tools", "it has both servers now");
    assert_eq!(event(&mut get).await.unwrap().1["method"], "notifications/tools/list_changed");
    // Nobody is anonymous any more: who was, comes again and is asked.
    let auth = format!("[auth]\n[[auth.key]]\nname = \"one\"\nsha256 = \"{ONE}\"");
    gateway.reload(&servers(Setup::new().toml(&auth))).await;
    stays.end_without_notice().await;
    assert_eq!(event(&mut get).await, None);
    assert_eq!(gateway_status(&gateway).await, 401);
}

async fn gateway_status(gateway: &Gateway) -> u16 {
    gateway.send(listen("3", TOOLS)).await.status()
}

/// Covers: S-34, S-23, issue 6: a resource that is watched stays watched, at the same server and at one made anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_watched_resource_stays_watched() {
    const URI: &str = "file:///x";
    let filter = format!("{{\"resourceSubscriptions\":[\"{URI}\"]}}");
    let a = Server::modern(
        "a",
        Offer { resources: vec![format!("{{\"uri\":\"{URI}\",\"name\":\"x\"}}")], ..Offer::tools(&[]) },
    )
    .await;
    declare(&a, TELLS);
    let mut streams = a.hold("subscriptions/listen");
    let b = server("b").await;
    let setup = |more: &str| Setup::new().http("x-a", &a.url(), more);
    let gateway = setup("").start().await;
    let first = Feed::accept(streams.next().await);
    let (mut client, feed) = crate::support::feed::watch(&gateway, &mut streams, first, "7", &filter).await;
    feed.updated(URI);
    assert_eq!(client.notice().await, URI);
    // Another server beside it: the same stream of the same server.
    gateway.reload(&setup("").http("b", &b.url(), "")).await;
    feed.updated(URI);
    assert_eq!(client.notice().await, URI);
    // It is made anew: nobody knows what happened meanwhile, so it is told, and then again whenever it is.
    let mut old = feed;
    let anew = setup("timeout = \"33s\"");
    let (_, mut next) = tokio::join!(gateway.reload(&anew), async { Feed::accept(streams.next().await) });
    assert_eq!(client.notice().await, URI);
    old.gone().await;
    while next.asked()["resourceSubscriptions"] != serde_json::json!([URI]) {
        next = Feed::accept(streams.next().await);
    }
    next.updated(URI);
    assert_eq!(client.notice().await, URI);
}
