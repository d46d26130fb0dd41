//! Bounds of the client: connections to one server, time to connect.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use tokio::sync::Notify;

use super::tls::Ca;
use super::*;
use crate::net::Stage;

/// Echoes, but holds the answer to `slow` until told.
async fn slow_or_echo(mut stream: TcpStream, gate: Arc<Notify>) {
    while let Some((_, body)) = read_request(&mut stream).await {
        if body != "slow" {
            stream.write_all(&answer(&body)).await.unwrap();
            continue;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await.unwrap();
        gate.notified().await;
        stream.write_all(b"done").await.unwrap();
    }
}

#[tokio::test]
async fn calls_beyond_the_bound_wait_and_then_fail_as_busy() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let finish = Arc::new(Notify::new());
    let gate = Arc::clone(&finish);
    let count = accept(listener, &tasks, move |stream, _| slow_or_echo(stream, Arc::clone(&gate)));
    let bounded = |wait| ClientOptions { max_connections: 2, connect_timeout: wait, ..options(&url) };
    let hasty = Client::new(bounded(Duration::from_secs(2)), tasks.clone()).unwrap();
    let first = soon(hasty.send(post("/", "slow"))).await.unwrap();
    let second = soon(hasty.send(post("/", "slow"))).await.unwrap();
    let error = call(&hasty, "third").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Busy, false), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 2);
    drop((first, second));
    until(|| hasty.connections() == 0).await;

    let patient = Client::new(bounded(PATIENCE), tasks.clone()).unwrap();
    let first = soon(patient.send(post("/", "slow"))).await.unwrap();
    let second = soon(patient.send(post("/", "slow"))).await.unwrap();
    let mut third = Box::pin(call(&patient, "third"));
    assert!(futures_util::poll!(third.as_mut()).is_pending());
    finish.notify_waiters();
    assert_eq!(text(first).await.unwrap(), "done");
    // The first's connection went straight to the third.
    assert_eq!(third.await.unwrap(), "third");
    assert_eq!(patient.connections(), 2);
    // A place that is freed by a close, not by a return, is used as well.
    let again = soon(patient.send(post("/", "slow"))).await.unwrap();
    let mut fourth = Box::pin(call(&patient, "fourth"));
    assert!(futures_util::poll!(fourth.as_mut()).is_pending());
    drop(again);
    assert_eq!(fourth.await.unwrap(), "fourth");
    drop(second);
}

#[tokio::test]
async fn a_silent_address_fails_within_the_connect_timeout() {
    let tasks = Tasks::new();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let _listener = socket.listen(1).unwrap();
    // Nobody accepts: when the queue is full, the kernel lets further connections hang.
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        queued.push(stream.unwrap());
    }
    let short = ClientOptions {
        connect_timeout: Duration::from_millis(200),
        ..options(&format!("http://{address}"))
    };
    let client = Client::new(short, tasks.clone()).unwrap();
    let error = call(&client, "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Connect, false), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert_eq!(client.connections(), 0);
}

#[tokio::test]
async fn a_refused_connection_and_an_unknown_host_say_so() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    drop(listener);
    let error = call(&client(&url, &tasks), "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Connect, false));
    assert!(error.to_string().contains("refused"), "{error}");
    let unknown =
        ClientOptions { connect_timeout: Duration::from_secs(2), ..options("http://no-host.invalid/") };
    let error = call(&Client::new(unknown, tasks).unwrap(), "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Resolve, false));
    assert!(error.to_string().contains("no-host.invalid"), "{error}");
}

#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    accept(listener, &tasks, |stream, _| echo(stream));
    // Where localhost is ::1 as well, nothing listens there.
    let url = url.replace("127.0.0.1", "localhost");
    assert_eq!(call(&client(&url, &tasks), "{}").await.unwrap(), "{}");
}

#[tokio::test]
async fn odd_options_are_refused() {
    for url in ["ftp://host/", "unix:/run/x", "data:text/plain,x"] {
        assert!(Client::new(options(url), Tasks::new()).is_err(), "{url}");
    }
}

/// Drops a call after so many steps.
async fn give_up<F: Future + Unpin>(mut calling: F, steps: usize) {
    for _ in 0..steps {
        if futures_util::poll!(&mut calling).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Calls from several tasks, each third of them given up at some point of its way.
async fn storm(client: Arc<Client>, tasks: &Tasks) {
    let (left, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    for task in 0..8_usize {
        left.fetch_add(1, Ordering::SeqCst);
        let (client, left, done) = (Arc::clone(&client), Arc::clone(&left), Arc::clone(&done));
        tasks.spawn("storm", async move {
            for n in 0..100_usize {
                let calling = Box::pin(call(&client, "x"));
                if n % 3 == 0 {
                    give_up(calling, (n + task) % 7).await;
                } else {
                    assert_eq!(calling.await.unwrap(), "x");
                }
            }
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                done.notify_one();
            }
        });
    }
    soon(done.notified()).await;
    assert_eq!(tasks.panics(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_place_is_lost_when_calls_are_given_up() {
    let (tasks, server_tasks) = (Tasks::new(), Tasks::new());
    let (listener, url) = bind().await;
    accept(listener, &server_tasks, |stream, _| echo(stream));
    let ca = Ca::new();
    let (one, ..) = super::h2::serve_h2(&ca, 1, &server_tasks).await;
    let (many, ..) = super::h2::serve_h2(&ca, 200, &server_tasks).await;
    let cases = [options(&url), super::h2::h2_options(one, &ca), super::h2::h2_options(many, &ca)];
    for (case, options) in cases.into_iter().enumerate() {
        let bounded =
            ClientOptions { max_connections: 3, idle_timeout: Duration::from_millis(50), ..options };
        let client = Arc::new(Client::new(bounded, tasks.clone()).unwrap());
        storm(Arc::clone(&client), &tasks).await;
        assert!(client.connections() <= 3, "case {case}");
        until(|| client.connections() == 0).await;
        until(|| tasks.running() == 0).await;
        // All three places are still there.
        let calls = (0..6).map(|_| call(&client, "x"));
        assert!(futures_util::future::join_all(calls).await.iter().all(Result::is_ok), "case {case}");
    }
}
