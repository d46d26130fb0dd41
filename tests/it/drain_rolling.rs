//! A rolling restart behind a load balancer, with calls in flight all along: none fails, none is done twice: issue 6.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::support::client::{Connection, ok};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::Session;
use crate::support::request::{Request, call};
use crate::support::server::{Offer, Server};
use crate::support::{eventually, scale};

/// Clients of each era.
const CLIENTS: usize = 12;
/// How often each replica is restarted.
const ROUNDS: usize = 2;

/// A TCP load balancer: each connection to the next replica; one that refuses is passed over.
struct Balancer {
    address: SocketAddr,
    replicas: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    async fn start(replicas: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let replicas = Arc::new(Mutex::new(replicas));
        let shared = Arc::clone(&replicas);
        tokio::spawn(async move {
            let turn = AtomicUsize::new(0);
            while let Ok((near, _)) = listener.accept().await {
                let all = shared.lock().unwrap().clone();
                let first = turn.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(pass(near, all, first));
            }
        });
        Self { address, replicas }
    }

    fn replace(&self, old: SocketAddr, new: SocketAddr) {
        let mut all = self.replicas.lock().unwrap();
        all.iter_mut().filter(|known| **known == old).for_each(|known| *known = new);
    }
}

async fn pass(mut near: TcpStream, all: Vec<SocketAddr>, first: usize) {
    for n in 0..all.len() {
        if let Ok(mut far) = TcpStream::connect(all[(first + n) % all.len()]).await {
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let _ = copy_bidirectional(&mut near, &mut far).await;
            return;
        }
    }
}

/// What all clients share.
struct Load {
    to: SocketAddr,
    over: AtomicBool,
    good: AtomicUsize,
    reopened: AtomicUsize,
}

impl Load {
    /// Calls one after the other on one connection, until an answer says that it is the last one there.
    async fn client(&self, asked: impl Fn(usize) -> Request) {
        let mut connection = Connection::open(self.to).await;
        let mut n = 0;
        while !self.over.load(Ordering::Relaxed) {
            n += 1;
            let reply = connection.send(asked(n)).await;
            assert!(ok(&reply), "call {n}: {reply:?}");
            self.good.fetch_add(1, Ordering::Relaxed);
            if reply.header("connection").is_some_and(|word| word.eq_ignore_ascii_case("close")) {
                self.reopened.fetch_add(1, Ordering::Relaxed);
                connection = Connection::open(self.to).await;
            }
        }
    }
}

fn setup(servers: [&Server; 2]) -> Setup {
    // The same keys everywhere: sessions live on at any replica.
    Setup::new()
        .gateway("keys = [\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"]")
        .http("fast", &servers[0].url(), "")
        .http("slow", &servers[1].url(), "")
}

/// Covers: issue 6: each of two replicas is restarted in turn, again and again; keep-alive connections of both eras.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_call() {
    let (fast, slow) = (
        Server::modern("fast", Offer::tools(&["t"])).await,
        Server::legacy("slow", Offer::tools(&["t"])).await,
    );
    let mut held = slow.hold("tools/call");
    tokio::spawn(async move {
        // Each takes a while, so that some are always under way.
        while let Some(exchange) = held.later().await {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(150)).await;
                exchange.result(r#"{"content":[{"type":"text","text":"late"}]}"#);
            });
        }
    });
    let setup = setup([&fast, &slow]);
    let mut replicas: Vec<Gateway> = vec![setup.clone().start().await, setup.clone().start().await];
    let balancer = Balancer::start(replicas.iter().map(|replica| replica.listen).collect()).await;
    let load = Arc::new(Load {
        to: balancer.address,
        over: AtomicBool::new(false),
        good: AtomicUsize::new(0),
        reopened: AtomicUsize::new(0),
    });
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let (tool, own) = (["fast_t", "slow_t"][n % 2], Arc::clone(&load));
        clients.push(tokio::spawn(async move {
            own.client(|n| call(tool, format!("{{\"n\":{n}}}")).id(n).request()).await;
        }));
        let (session, own) = (Session::open(&replicas[0], "2025-11-25", "{}").await, Arc::clone(&load));
        clients.push(tokio::spawn(async move {
            own.client(|n| session.call(&n.to_string(), tool, "{}")).await;
        }));
    }
    let progress = async |more: usize| {
        let from = load.good.load(Ordering::Relaxed);
        let enough = async || {
            assert!(clients.iter().all(|client| !client.is_finished()), "no client has given up");
            load.good.load(Ordering::Relaxed) >= from + more
        };
        eventually("calls go on", enough).await;
    };
    for _ in 0..ROUNDS * scale() {
        for replica in &mut replicas {
            progress(100).await;
            let new = setup.clone().start().await;
            let old = std::mem::replace(replica, new);
            let before = old.listen;
            // The load balancer is told after the fact only: until then it meets a closed door.
            old.stop().await;
            progress(50).await;
            balancer.replace(before, replica.listen);
        }
    }
    progress(100).await;
    load.over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let done = [&fast, &slow].map(|server| server.requests("tools/call").len());
    assert_eq!(done.iter().sum::<usize>(), load.good.load(Ordering::Relaxed), "each call was done once");
    assert!(load.reopened.load(Ordering::Relaxed) >= CLIENTS, "connections moved from replica to replica");
}
