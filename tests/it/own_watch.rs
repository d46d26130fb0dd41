//! The stream of one caller's changes opens with the first listener and closes a while after the last (design §5).

use std::time::Duration;

use crate::support::exchange::Answer;
use crate::support::feed::{Feed, Stream, listen};
use crate::support::inside::{Inside, later};
use crate::support::people::{People, with};
use crate::support::request::mcp;
use crate::support::server::{Held, Offer, Server};

const WATCHED: &str = r#"{"toolsListChanged":true}"#;

async fn open(gateway: &Inside, token: &str, id: &str) -> Stream {
    Stream::ask(gateway.connect().await, with(listen(id, WATCHED), token), id).await
}

/// A first listener, and the stream that is opened for it.
async fn first(gateway: &Inside, held: &mut Held, token: &str) -> (Stream, Feed) {
    let feed = async { Feed::accept(held.next().await) };
    tokio::join!(open(gateway, token, "1"), feed)
}

/// Covers: design §5, S-31: one stream for all of a caller's listeners, from the first to a minute after the last.
#[tokio::test]
async fn s_31_a_callers_stream_lives_while_he_listens() {
    let people = People::new().await;
    let offer =
        Offer { capabilities: vec![r#""tools":{"listChanged":true}"#.to_owned()], ..Offer::tools(&["t"]) };
    let server = Server::modern("s", offer).await;
    let mut held = server.hold("subscriptions/listen");
    let gateway = Inside::start(people.setup().http("s", &server.url(), &people.exchange(""))).await;
    let [alice, bob] = ["alice", "bob"].map(|name| people.token(name));
    // A list opens nothing.
    for token in [&alice, &bob] {
        gateway.send(with(mcp("tools/list", "{}"), token)).await;
    }
    assert!(server.requests("subscriptions/listen").is_empty());

    let (one, mut of_alice) = first(&gateway, &mut held, &alice).await;
    assert!(of_alice.shown().starts_with("Bearer for-alice-"));
    let two = open(&gateway, &alice, "2").await;
    let (other, mut of_bob) = first(&gateway, &mut held, &bob).await;
    assert!(of_bob.shown().starts_with("Bearer for-bob-"));
    assert_eq!(server.requests("subscriptions/listen").len(), 2, "one for all of a caller's listeners");
    let open_now = async |count: u32| gateway.streams_become(count).await;
    open_now(3).await;

    // While one still listens nothing ends, however long it takes.
    drop(one);
    open_now(2).await;
    later(Duration::from_secs(120)).await;
    gateway.send(with(mcp("tools/list", "{}"), &alice)).await;
    assert!(!of_alice.is_gone());
    // Who comes back in time finds it open.
    drop(two);
    open_now(1).await;
    later(Duration::from_secs(40)).await;
    let mut three = open(&gateway, &alice, "3").await;
    later(Duration::from_secs(40)).await;
    assert!(!of_alice.is_gone());
    server.on("tools/list", |seen| {
        Answer::result(
            seen,
            r#"{"resultType":"complete","tools":[{"name":"new","inputSchema":{"type":"object"}}],"ttlMs":0}"#,
        )
    });
    of_alice.changed("tools");
    assert_eq!(three.notice().await, "tools");

    drop(three);
    open_now(1).await;
    later(Duration::from_secs(61)).await;
    of_alice.gone().await;
    assert!(!of_bob.is_gone(), "the other's is his own");
    // And begins anew with the next one.
    let (four, mut again) = first(&gateway, &mut held, &alice).await;
    assert_eq!(server.requests("subscriptions/listen").len(), 3);
    drop((four, other));
    open_now(0).await;
    later(Duration::from_secs(61)).await;
    again.gone().await;
    of_bob.gone().await;
    gateway.stop().await;
}
