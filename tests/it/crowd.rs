//! Thousands of idle listen streams on one gateway: one stream at each server, one change reaches all, and closing
//! them gives everything back (issue 3). `GH_SCALE=10` is the full crowd.

use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::iter;

use crate::support::feed::{Feed, Stream, TELLS, declare};
use crate::support::gateway::{Gateway, Setup};
use crate::support::measure::measured;
use crate::support::server::{Held, Offer, Server};
use crate::support::{eventually, scale, within};

const SERVERS: usize = 5;
/// Streams at scale 1; ten times that is the issue's crowd.
const STREAMS: usize = 1000;
/// Streams that are opened or read at a time.
const AT_ONCE: usize = 50;

/// Kilobytes the gateway's process holds.
fn resident(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count()
}

async fn servers() -> (Vec<Server>, Vec<Held>) {
    let (mut servers, mut held) = (Vec::new(), Vec::new());
    for n in 0..SERVERS {
        let server = Server::modern(&format!("s{n}"), Offer::tools(&["t"])).await;
        declare(&server, TELLS);
        held.push(server.hold("subscriptions/listen"));
        servers.push(server);
    }
    (servers, held)
}

/// Covers: S-31, S-36, S-39; issue 3.
#[tokio::test(flavor = "multi_thread")]
async fn one_change_reaches_every_idle_stream_over_one_stream_at_the_server() {
    let streams = STREAMS * scale();
    let (servers, mut held) = servers().await;
    let lines = format!("max_streams = {}\nmax_connections = {}", streams + 10, streams + 100);
    let setup = servers.iter().enumerate().fold(Setup::new().gateway(&lines), |setup, (n, server)| {
        setup.http(&format!("s{n}"), &server.url(), "")
    });
    let gateway = setup.start().await;
    let mut feeds = Vec::new();
    for held in &mut held {
        feeds.push(Feed::accept(within("a server's stream", held.next()).await));
    }
    drop(Stream::open(&gateway, "0", r#"{"toolsListChanged":true}"#).await);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 0.0).await;
    let (memory, files) = (resident(&gateway), descriptors(&gateway));

    let open = |n: usize| {
        let gateway = &gateway;
        async move { Stream::open(gateway, &n.to_string(), r#"{"toolsListChanged":true}"#).await }
    };
    let crowd: Vec<Stream> = iter(0..streams).map(open).buffer_unordered(AT_ONCE).collect().await;
    assert_eq!(gateway.metric("gatehouse_listen_streams", &[]).await, streams as f64);
    let each = (resident(&gateway).saturating_sub(memory)) as f64 / streams as f64;
    measured("KB of the gateway's memory an idle stream", each);
    assert!(held.iter().all(Held::is_empty), "one stream at each server, whatever the number of clients");

    let changed = Instant::now();
    servers[0].offer(Offer::tools(&["t", "u"]));
    feeds[0].changed("tools");
    let read = |mut stream: Stream| async move {
        assert_eq!(within("the notice", stream.notice()).await, "tools");
        stream
    };
    let crowd: Vec<Stream> = iter(crowd).map(read).buffer_unordered(AT_ONCE).collect().await;
    measured("time until a change has reached all streams", changed.elapsed());
    assert_eq!(crowd.len(), streams);

    drop(crowd);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 0.0).await;
    eventually("descriptors are given back", async || descriptors(&gateway) <= files + 5).await;
    measured("KB of memory more than before, after all have left", resident(&gateway).saturating_sub(memory));
    assert!(feeds.iter_mut().all(|feed| !feed.is_gone()), "the servers' streams stay");
    gateway.stop().await;
}
