//! Sessions that several replicas have at once, because a server sees each caller as himself: only their client ends
//! them everywhere (G-21, G-25, G-26, design §7).

use crate::cluster::CLUSTER;
use crate::support::asking::content;
use crate::support::client;
use crate::support::legacy::Session;
use crate::support::people::People;
use crate::support::server::{Offer, Server};
use crate::support::within;

const LINES: &str = "keys = [\"c29tZXRoaW5nLWxvbmctZW5vdWdoLXRvLXNlYWwtd2l0aA==\"]\nsession_idle = \"400ms\"\nmax_sessions = 1";

/// Covers: G-25, G-26: what is idle at one replica, or makes room there, is in use at another: it ends at neither, and its
/// client may come back to either. DELETE ends it.
#[tokio::test(flavor = "multi_thread")]
async fn g_25_idle_at_one_replica_is_no_end() {
    let people = People::new().await;
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let mut calls = server.hold("tools/call");
    let setup = || people.setup().gateway(LINES).toml(CLUSTER).http("s", &server.url(), &people.exchange(""));
    let (one, two) = (setup().start().await, setup().start().await);
    let fields = vec![("Authorization".to_owned(), format!("Bearer {}", people.token("alice")))];
    let session = Session::with(&one, "2025-11-25", "{}", fields.clone()).await;
    let running = tokio::spawn(client::send(two.listen, session.call("1", "s_t", "{}")));
    let exchange = calls.next().await;
    assert_eq!(two.metric("gatehouse_sessions", &[]).await, 1.0, "each has its own");
    one.metric_becomes("gatehouse_sessions", &[], 0.0).await;
    assert_eq!(session.tools(&one).await, ["s_t"], "idle is no end");
    let other = Session::with(&one, "2025-11-25", "{}", fields).await;
    assert_eq!(session.tools(&one).await, ["s_t"], "nor is making room");
    assert_eq!(other.tools(&one).await, ["s_t"]);
    exchange.result(&content("done"));
    let reply = within("an answer", running).await.unwrap();
    assert_eq!(reply.result()["content"][0]["text"], "done", "{reply:?}");
    assert_eq!(one.send(session.delete()).await.verdict(), (200, None));
    assert_eq!(session.ask(&one, "tools/list", "{}").await.status(), 404, "G-24");
    one.stop().await;
    two.stop().await;
}
