//! HTTP/1.1: connections are kept, given back, given up, and never used twice for one request.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::HOST;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Notify, oneshot};

use super::*;
use crate::net::Stage;

#[tokio::test]
async fn one_connection_serves_calls_one_after_the_other() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let count = accept(listener, &tasks, |mut stream, _| async move {
        while let Some((_, body)) = read_request(&mut stream).await {
            let bytes = match body.as_str() {
                "chunked" => {
                    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
                        .to_vec()
                }
                "empty" => b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec(),
                other => answer(other),
            };
            stream.write_all(&bytes).await.unwrap();
        }
    });
    let client = client(&url, &tasks);
    for _ in 0..20 {
        assert_eq!(call(&client, "plain").await.unwrap(), "plain");
        assert_eq!(call(&client, "chunked").await.unwrap(), "abcdef");
        assert_eq!(call(&client, "empty").await.unwrap(), "");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(client.connections(), 1);
    drop(client);
    assert!(tasks.shutdown(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_get_their_own_answers_and_their_connections_are_kept() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let count = accept(listener, &tasks, |mut stream, _| async move {
        while let Some((head, _)) = read_request(&mut stream).await {
            let path = head.split(' ').nth(1).unwrap().to_owned();
            stream.write_all(&answer(&path)).await.unwrap();
        }
    });
    let client = client(&url, &tasks);
    for round in 0..10 {
        let calls = (0..20).map(|n| {
            let client = &client;
            async move {
                let path = format!("/{round}/{n}?q=1");
                let got = text(client.send(post(&path, "x")).await.unwrap()).await.unwrap();
                assert_eq!(got, path);
            }
        });
        soon(futures_util::future::join_all(calls)).await;
    }
    // Not exactly 20: a connection whose answer has just ended may still be settling when the next call begins.
    assert!(count.load(Ordering::SeqCst) < 100, "{count:?}");
}

#[tokio::test]
async fn host_is_the_servers_and_compression_is_not_asked_for() {
    // F-050, F-073
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    accept(listener, &tasks, move |mut stream, _| {
        let seen = Arc::clone(&seen);
        async move {
            while let Some((head, body)) = read_request(&mut stream).await {
                seen.lock().unwrap().push(head.to_ascii_lowercase());
                stream.write_all(&answer(&body)).await.unwrap();
            }
        }
    });
    let client = client(&url, &tasks);
    let mut request = post("http://evil.example/a?b=c", "{}");
    request.headers_mut().insert(HOST, "gateway.example".parse().unwrap());
    soon(client.send(request)).await.unwrap();
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("post /a?b=c http/1.1\r\n"), "{}", heads[0]);
    let host = format!("host: {}\r\n", url.trim_start_matches("http://"));
    assert_eq!(heads[0].matches("host:").count(), 1);
    assert!(heads[0].contains(&host) && heads[0].contains("accept-encoding: identity\r\n"), "{}", heads[0]);
}

#[tokio::test]
async fn pieces_arrive_as_one_body_of_known_length() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    accept(listener, &tasks, |mut stream, _| async move {
        let (head, body) = read_request(&mut stream).await.unwrap();
        assert!(!head.to_ascii_lowercase().contains("transfer-encoding"));
        stream.write_all(&answer(&body)).await.unwrap();
    });
    let mut parts = Parts::new();
    let mut expected = String::new();
    for n in 0..100 {
        let piece = format!("<{n}>");
        expected.push_str(&piece);
        parts.push(piece);
    }
    let body = Body::from(parts.clone());
    assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
    assert_eq!(body.collect().await.unwrap().to_bytes(), expected.as_bytes());
    assert!(Body::empty().is_end_stream());
    let request = Request::post("/").body(parts).unwrap();
    let got = soon(client(&url, &tasks).send(request)).await.unwrap();
    assert_eq!(text(got).await.unwrap(), expected);
}

#[tokio::test]
async fn redirects_are_answers() {
    // H-68
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let count = accept(listener, &tasks, |mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        closed(&mut stream).await;
    });
    let client = client(&url, &tasks);
    let got = soon(client.send(post("/", "{}"))).await.unwrap();
    assert_eq!((got.status().as_u16(), &got.headers()["location"]), (307, &"/x".parse().unwrap()));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_abandoned_body_closes_its_connection() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let (gone, wait) = oneshot::channel();
    let gone = Mutex::new(Some(gone));
    let count = accept(listener, &tasks, move |mut stream, number| {
        let gone = gone.lock().unwrap().take();
        async move {
            read_request(&mut stream).await.unwrap();
            if number == 1 {
                let begun = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
                stream.write_all(begun).await.unwrap();
                closed(&mut stream).await;
                gone.unwrap().send(()).unwrap();
            } else {
                stream.write_all(&answer("fresh")).await.unwrap();
            }
        }
    });
    let client = client(&url, &tasks);
    let mut body = soon(client.send(post("/", "{}"))).await.unwrap().into_body();
    assert_eq!(frame(&mut body).await.unwrap().unwrap(), "abc");
    drop(body);
    soon(wait).await.unwrap();
    until(|| client.connections() == 0).await;
    assert_eq!(call(&client, "{}").await.unwrap(), "fresh");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (was_asked, has_gone) = (Arc::clone(&asked), Arc::clone(&gone));
    accept(listener, &tasks, move |mut stream, _| {
        let (asked, gone) = (Arc::clone(&was_asked), Arc::clone(&has_gone));
        async move {
            read_request(&mut stream).await.unwrap();
            asked.notify_one();
            closed(&mut stream).await;
            gone.notify_one();
        }
    });
    let client = client(&url, &tasks);
    let sending = client.send(post("/", "{}"));
    tokio::select! {
        _ = sending => panic!("there is no answer"),
        () = soon(asked.notified()) => {}
    }
    soon(gone.notified()).await;
    until(|| client.connections() == 0).await;
}

#[tokio::test]
async fn a_call_dropped_while_its_body_is_stuck_closes_its_connection() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    // Accepts, and never reads.
    let count = accept(listener, &tasks, |stream, _| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    });
    let client = client(&url, &tasks);
    let request = Request::post("/").body(Parts::from(vec![b'x'; 64 * 1024 * 1024])).unwrap();
    let sending = client.send(request);
    tokio::select! {
        _ = sending => panic!("there is no answer"),
        () = until(|| client.connections() == 1 && count.load(Ordering::SeqCst) == 1) => {}
    }
    until(|| client.connections() == 0).await;
}

#[test]
fn clients_and_bodies_go_between_threads() {
    fn go<T: Send + 'static>() {}
    fn share<T: Sync>() {}
    go::<Client>();
    go::<Body>();
    share::<Client>();
}

#[tokio::test]
async fn idle_connections_are_closed_and_nothing_keeps_running() {
    let tasks = Tasks::new();
    let server_tasks = Tasks::new();
    let (listener, url) = bind().await;
    accept(listener, &server_tasks, |stream, _| echo(stream));
    let short = ClientOptions { idle_timeout: Duration::from_millis(50), ..options(&url) };
    let client = Client::new(short, tasks.clone()).unwrap();
    call(&client, "{}").await.unwrap();
    until(|| client.connections() == 0 && tasks.running() == 0).await;
    call(&client, "{}").await.unwrap();

    let kept = Client::new(options(&url), tasks.clone()).unwrap();
    call(&kept, "{}").await.unwrap();
    assert!(tasks.running() > 0);
    drop((client, kept));
    until(|| tasks.running() == 0).await;
}

#[tokio::test]
async fn an_answer_is_read_to_its_end_after_the_client_has_gone() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    accept(listener, &tasks, move |mut stream, _| {
        let gate = Arc::clone(&gate);
        async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc").await.unwrap();
            gate.notified().await;
            stream.write_all(b"def").await.unwrap();
            closed(&mut stream).await;
        }
    });
    let client = client(&url, &tasks);
    let answer = soon(client.send(post("/", "{}"))).await.unwrap();
    drop(client);
    go.notify_one();
    assert_eq!(soon(text(answer)).await.unwrap(), "abcdef");
}

#[tokio::test]
async fn a_broken_body_says_so() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    accept(listener, &tasks, |mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc").await.unwrap();
    });
    let client = client(&url, &tasks);
    let error = call(&client, "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Body, true), "{error}");
    until(|| client.connections() == 0).await;
}
