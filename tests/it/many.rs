//! A thousand calls at once over fifty connections, every JSON-RPC id 1: each gets its own answer (issue 2; F-019, H-74).

use std::net::SocketAddr;

use crate::support::child::demo;
use crate::support::client::Connection;
use crate::support::gateway::{Gateway, Setup};
use crate::support::http2::Session;
use crate::support::request::call;
use crate::support::server::{Offer, Server};
use crate::support::{json, within};

const CONNECTIONS: usize = 50;
const EACH: usize = 20;
/// Calls that the server behind us has at a time.
const HELD: usize = 100;

const LIMITS: &str = "max_concurrency = 100\nqueue = 2000\ntimeout = \"120s\"";

async fn gateway() -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    // A call that gave up waiting for a connection would leave a batch unfilled.
    let patient = format!("{LIMITS}\nconnect_timeout = \"60s\"");
    let gateway =
        Setup::new().http("s", &server.url(), &patient).stdio("d", &demo(&[]), LIMITS).start().await;
    (server, gateway)
}

/// Half of the calls go to a server over HTTP, half to a child.
fn numbered(n: usize) -> crate::support::request::Mcp {
    let name = if n.is_multiple_of(2) { "s_t" } else { "d_echo" };
    call(name, format!("{{\"text\":\"{n}\",\"n\":{n}.0}}"))
}

fn assert_own(n: usize, message: &str) {
    assert_eq!(json::raw(message, &["id"]).as_deref(), Some("1"), "{message}");
    let got = json::raw(message, &["result", "structuredContent"]);
    assert_eq!(got, Some(format!("{{\"text\":\"{n}\",\"n\":{n}.0}}")), "{message}");
}

/// Answers all calls, HELD of them at a time, the last one first.
async fn answer_backwards(server: &Server, total: usize) {
    let mut held = server.hold("tools/call");
    for _ in 0..total / HELD {
        let mut batch = Vec::with_capacity(HELD);
        while batch.len() < HELD {
            batch.push(held.next().await);
        }
        for exchange in batch.into_iter().rev() {
            let arguments = exchange.seen.raw(&["params", "arguments"]).unwrap();
            exchange.result(&format!("{{\"content\":[],\"structuredContent\":{arguments}}}"));
        }
    }
}

/// One HTTP/2 connection with all its calls in flight at once.
async fn multiplexed(address: SocketAddr, first: usize) {
    let session = Session::open(address).await;
    let calls = (first..first + EACH).map(|n| {
        let session = &session;
        async move { assert_own(n, &session.send(numbered(n)).await.last()) }
    });
    futures_util::future::join_all(calls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_over_http_2() {
    let (server, gateway) = gateway().await;
    let address = gateway.listen;
    let clients: Vec<_> = (0..CONNECTIONS).map(|c| tokio::spawn(multiplexed(address, c * EACH))).collect();
    answer_backwards(&server, CONNECTIONS * EACH / 2).await;
    for client in clients {
        within("all answers of a client", client).await.unwrap();
    }
    assert_at_rest(&gateway).await;
    gateway.stop().await;
}

/// The same over HTTP/1.1: twenty requests are written before an answer is read.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_pipelined() {
    let (_server, gateway) = gateway().await;
    let client = |c: usize| {
        let address = gateway.listen;
        tokio::spawn(async move {
            let mut connection = Connection::open(address).await;
            let bytes: Vec<u8> =
                (c * EACH..(c + 1) * EACH).flat_map(|n| numbered(n).request().bytes("localhost")).collect();
            connection.write(&bytes).await;
            for n in c * EACH..(c + 1) * EACH {
                assert_own(n, &connection.reply("POST").await.last());
            }
        })
    };
    let clients: Vec<_> = (0..CONNECTIONS).map(client).collect();
    for client in clients {
        within("all answers of a client", client).await.unwrap();
    }
    assert_at_rest(&gateway).await;
    gateway.stop().await;
}

/// Every call was counted once, and nothing of any is left.
async fn assert_at_rest(gateway: &Gateway) {
    let half = (CONNECTIONS * EACH / 2) as f64;
    for server in ["s", "d"] {
        let labels = [("server", server), ("outcome", "ok")];
        gateway.metric_becomes("gatehouse_tool_calls_total", &labels, half).await;
        gateway.metric_becomes("gatehouse_inflight", &[("server", server)], 0.0).await;
    }
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_buffered_bytes", &[], 0.0).await;
}
