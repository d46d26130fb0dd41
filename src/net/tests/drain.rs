//! The end of a listener: what runs is finished, what is on its way is answered, what never comes is not waited for.

use tokio::io::AsyncWriteExt as _;

use super::listener::{get, patient, read_answer, run};
use super::*;
use crate::net::ListenOptions;

#[tokio::test]
async fn a_drain_finishes_what_runs_and_closes_what_is_idle() {
    let running = run(patient()).await;
    let (mut idle, mut busy, mut silent) =
        (running.connect().await, running.connect().await, running.connect().await);
    get(&mut idle, "/").await;
    busy.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    soon(running.asked.notified()).await;
    let mut sender = running.connect_h2().await;
    let request = Request::get("http://x/slow").body(Body::empty()).unwrap();
    let mut shared = Box::pin(sender.send_request(request));
    assert!(futures_util::poll!(shared.as_mut()).is_pending());
    soon(running.asked.notified()).await;

    running.drain.cancel();
    closed(&mut idle).await;
    closed(&mut silent).await;
    until(|| running.stats.open() == 2).await;
    assert!(TcpStream::connect(running.address).await.is_err());
    running.finish.notify_waiters();
    let (head, body) = read_answer(&mut busy).await;
    assert!(head.starts_with("HTTP/1.1 200 ") && body.starts_with("127.0.0.1:"), "{head}");
    closed(&mut busy).await;
    let answer = soon(shared).await.unwrap();
    assert!(soon(answer.into_body().collect()).await.unwrap().to_bytes().starts_with(b"127.0.0.1:"));
    soon(running.done.notified()).await;
    assert_eq!(running.stats.open(), 0);
    until(|| running.tasks.running() == 0).await;
}

/// Covers: F-052: what was on its way when the drain began is answered, and the answer says that it is the last one.
#[tokio::test]
async fn a_drain_answers_what_is_on_its_way() {
    let running = run(patient()).await;
    let (mut known, mut new) = (running.connect().await, running.connect().await);
    get(&mut known, "/").await;
    // Connected as far as the system is concerned, whether or not anybody has accepted it.
    let mut late = TcpStream::connect(running.address).await.unwrap();
    running.drain.cancel();
    for stream in [&mut known, &mut new, &mut late] {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    }
    for stream in [&mut known, &mut new, &mut late] {
        let (head, _) = read_answer(stream).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.to_ascii_lowercase().contains("connection: close"), "{head}");
        closed(stream).await;
    }
    soon(running.done.notified()).await;
}

/// Covers: F-052: the head of a stream left before the drain began and could not say that it is the last answer. So it is
/// not: the one behind it says so.
#[tokio::test]
async fn a_drain_answers_the_request_behind_a_stream() {
    let running = run(patient()).await;
    let (mut stream, mut idle) = (running.connect().await, running.connect().await);
    get(&mut idle, "/").await;
    stream.write_all(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let head = read_to(&mut stream, "begun\r\n").await;
    assert!(!head.to_ascii_lowercase().contains("connection: close"), "{head}");
    running.drain.cancel();
    // The drain has been seen by all.
    closed(&mut idle).await;
    running.finish.notify_waiters();
    read_to(&mut stream, "0\r\n\r\n").await;
    let (head, _) = get(&mut stream, "/").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.to_ascii_lowercase().contains("connection: close"), "{head}");
    closed(&mut stream).await;
    soon(running.done.notified()).await;
}

/// The same without another request: it ends by itself.
#[tokio::test]
async fn a_drain_ends_behind_a_stream() {
    let running = run(patient()).await;
    let mut stream = running.connect().await;
    stream.write_all(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    read_to(&mut stream, "begun\r\n").await;
    running.drain.cancel();
    running.finish.notify_one();
    read_to(&mut stream, "0\r\n\r\n").await;
    closed(&mut stream).await;
    soon(running.done.notified()).await;
}

/// Half a head, and a client of HTTP/2 that does not hear: their own deadlines are far away.
#[tokio::test]
async fn a_drain_does_not_wait_for_who_says_nothing() {
    let far = PATIENCE * 10;
    let running = run(ListenOptions { header_timeout: far, keep_alive: far, ..patient() }).await;
    let (mut half, mut deaf) = (running.connect().await, running.connect().await);
    half.write_all(b"GET / HTTP/1.1\r\nhost").await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    deaf.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat()).await.unwrap();
    until(|| running.stats.open() == 2).await;
    running.drain.cancel();
    soon(running.done.notified()).await;
}

/// All that comes up to some text, with it.
async fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        assert!(soon(stream.read_buf(&mut read)).await.unwrap() > 0, "it ended");
    }
    String::from_utf8(read).unwrap()
}
