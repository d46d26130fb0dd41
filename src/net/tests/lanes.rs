//! Lanes: who is served where, and what is kept there.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use super::listener::patient;
use super::*;
use crate::net::lanes::{self, Lanes};
use crate::net::{ListenOptions, serve};

/// A listener whose answers are the number of the lane that made them. On the path `/together` two requests wait for
/// each other.
async fn run(lanes: &Arc<Lanes>, tasks: &Tasks) -> (std::net::SocketAddr, CancellationToken) {
    let (listener, _) = bind().await;
    let address = listener.local_addr().unwrap();
    let pair = Arc::new(Barrier::new(2));
    let service = handler(move |request: Request<Incoming>| {
        let pair = Arc::clone(&pair);
        async move {
            if request.uri().path() == "/together" {
                pair.wait().await;
            }
            Response::new(Body::from(Bytes::from(lanes::current().to_string())))
        }
    });
    let drain = CancellationToken::new();
    let options = ListenOptions { lanes: Arc::clone(lanes), ..patient() };
    tasks.spawn("test listener", serve(listener, service, options, tasks.clone(), drain.clone()));
    (address, drain)
}

async fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    soon(read_request(stream)).await.unwrap().1
}

#[tokio::test]
async fn connections_go_to_the_lane_with_the_fewest_and_stay_there() {
    let tasks = Tasks::new();
    let lanes = Lanes::start(3, &tasks).unwrap();
    let (address, drain) = run(&lanes, &tasks).await;
    let mut open = Vec::new();
    let mut counts = BTreeMap::<String, usize>::new();
    for _ in 0..9 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let first = ask(&mut stream).await;
        for _ in 0..3 {
            assert_eq!(ask(&mut stream).await, first);
        }
        *counts.entry(first).or_default() += 1;
        open.push(stream);
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [3, 3, 3]);
    // Where one has ended there is room for the next.
    let mut gone = open.remove(4);
    let there = ask(&mut gone).await;
    drop(gone);
    until(|| lanes.load() == 8).await;
    let mut next = TcpStream::connect(address).await.unwrap();
    assert_eq!(ask(&mut next).await, there);
    drop((open, next));
    drain.cancel();
    until(|| lanes.load() == 0).await;
    assert!(tasks.shutdown(PATIENCE).await);
}

#[tokio::test]
async fn requests_of_one_http_2_connection_go_to_all_lanes() {
    let tasks = Tasks::new();
    let lanes = Lanes::start(2, &tasks).unwrap();
    let (address, _) = run(&lanes, &tasks).await;
    let sender = h2_client(TcpStream::connect(address).await.unwrap(), &tasks).await;
    let ask = || async {
        let request = Request::get("http://x/together").body(Body::empty()).unwrap();
        let answer = soon(sender.clone().send_request(request)).await.unwrap();
        soon(answer.into_body().collect()).await.unwrap().to_bytes()
    };
    let (one, other) = tokio::join!(ask(), ask());
    assert_ne!(one, other);
    drop(sender);
    assert!(tasks.shutdown(PATIENCE).await);
}

/// How many connections a client opens that may have so many, asked from two lanes in turn.
async fn opened(max_connections: usize) -> usize {
    let tasks = Tasks::new();
    let lanes = Lanes::start(2, &tasks).unwrap();
    let (listener, url) = bind().await;
    let count = accept(listener, &tasks, |stream, _| echo(stream));
    let bounded = ClientOptions { max_connections, ..options(&url) };
    let client = Arc::new(Client::new(bounded, tasks.clone()).unwrap());
    let (one, other) = (lanes.seat().unwrap(), lanes.seat().unwrap());
    for _ in 0..5 {
        for seat in [&one, &other] {
            let client = Arc::clone(&client);
            let called = tasks.spawn_on(seat.handle(), "test call", async move {
                assert_eq!(call(&client, "hello").await.unwrap(), "hello");
            });
            soon(called).await.unwrap();
        }
    }
    assert_eq!(tasks.panics(), 0);
    drop(client);
    assert!(tasks.shutdown(PATIENCE).await);
    count.load(Ordering::SeqCst)
}

#[tokio::test]
async fn each_lane_keeps_connections_of_its_own() {
    assert_eq!(opened(256).await, 2);
}

#[tokio::test]
async fn where_no_more_may_be_opened_lanes_share() {
    assert_eq!(opened(1).await, 1);
}

/// How far behind they are shows in how long this takes; and the last handle ends them.
#[tokio::test]
async fn a_lane_that_is_busy_comes_round_later() {
    let tasks = Tasks::new();
    let lanes = Lanes::start(2, &tasks).unwrap();
    soon(lanes.touch(&tasks)).await;
    let seat = lanes.seat().unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let lane = seat.handle().clone();
    let busy = tasks.spawn_on(&lane, "test work", async move {
        begun.send(()).unwrap();
        // Holds up the thread, as too much work would.
        wait.recv().unwrap();
    });
    soon(begins).await.unwrap();
    let touched = lanes.touch(&tasks);
    tokio::pin!(touched);
    assert!(futures_util::poll!(&mut touched).is_pending());
    // The other has come round.
    let other = lanes.seat().unwrap();
    soon(tasks.spawn_on(other.handle(), "test look", async {})).await.unwrap();
    assert!(futures_util::poll!(&mut touched).is_pending());
    go.send(()).unwrap();
    soon(touched).await;
    soon(busy).await.unwrap();
    drop((seat, other, lanes));
    // A thread that has ended takes nothing up any more.
    soon(async { while tasks.spawn_on(&lane, "test look", async {}).await.is_ok() {} }).await;
}
