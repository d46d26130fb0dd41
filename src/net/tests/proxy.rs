//! A proxy that is asked to CONNECT.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};

use super::tls::Ca;
use super::*;
use crate::net::Stage;

/// A proxy that tunnels to the right target and keeps the heads it got.
async fn proxy(tasks: &Tasks) -> (String, Arc<Mutex<Vec<String>>>) {
    let (listener, url) = bind().await;
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    accept(listener, tasks, move |mut stream, _| {
        let seen = Arc::clone(&seen);
        async move {
            let head = read_head(&mut stream).await.unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            seen.lock().unwrap().push(head);
            let mut server = TcpStream::connect(target).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            let _ = copy_bidirectional(&mut stream, &mut server).await;
        }
    });
    (url, heads)
}

fn through(url: &str, proxy: &str) -> ClientOptions {
    ClientOptions { proxy: Some(Url::parse(proxy).unwrap()), ..options(url) }
}

#[tokio::test]
async fn http_and_https_go_through_a_tunnel() {
    let tasks = Tasks::new();
    let (proxy, heads) = proxy(&tasks).await;
    let (listener, url) = bind().await;
    accept(listener, &tasks, |stream, _| echo(stream));
    let with_user = proxy.replace("http://", "http://us%65r:p%40ss%3A@");
    let client = Client::new(through(&url, &with_user), tasks.clone()).unwrap();
    for _ in 0..3 {
        assert_eq!(call(&client, "{}").await.unwrap(), "{}");
    }
    let ca = Ca::new();
    let acceptor = ca.acceptor(&["localhost"], &["http/1.1"], 2999);
    let (listener, secure) = bind().await;
    accept(listener, &tasks, move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let (head, _) = read_request(&mut stream).await.unwrap();
            stream.write_all(&answer(&head)).await.unwrap();
        }
    });
    let secure = secure.replace("http://127.0.0.1", "https://localhost");
    let options = ClientOptions { ca_file: Some(ca.file("")), ..through(&secure, &proxy) };
    let head = call(&Client::new(options, tasks.clone()).unwrap(), "{}").await.unwrap();
    assert!(!head.to_ascii_lowercase().contains("proxy-"), "{head}");

    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 2);
    let target = url.trim_start_matches("http://");
    assert!(heads[0].starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")), "{}", heads[0]);
    let pair = base64::engine::general_purpose::STANDARD.encode("user:p@ss:");
    let lower = heads[0].to_ascii_lowercase();
    assert!(lower.contains(&format!("host: {target}\r\n")), "{lower}");
    assert!(heads[0].contains(&format!("Basic {pair}\r\n")) && lower.contains("proxy-authorization: "));
    assert!(!heads[1].to_ascii_lowercase().contains("authorization"));
}

#[tokio::test]
async fn a_proxy_that_refuses_is_absent_or_silent_is_named() {
    let tasks = Tasks::new();
    let (listener, refusing) = bind().await;
    accept(listener, &tasks, |mut stream, _| async move {
        read_head(&mut stream).await.unwrap();
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 1000\r\n\r\nwhy";
        stream.write_all(refusal).await.unwrap();
        closed(&mut stream).await;
    });
    let client = Client::new(through("http://host.invalid", &refusing), tasks.clone()).unwrap();
    let error = call(&client, "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Proxy, false));
    assert!(error.to_string().contains("407"), "{error}");

    let (listener, absent) = bind().await;
    drop(listener);
    let secret = absent.replace("http://", "http://user:hunter2@");
    let client = Client::new(through("http://host.invalid", &secret), tasks.clone()).unwrap();
    let error = call(&client, "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Proxy, false));
    assert!(!format!("{error} {error:?} {client:?}").contains("hunter2"), "{error:?}");

    let (_silent, url) = bind().await;
    let short =
        ClientOptions { connect_timeout: Duration::from_millis(200), ..through("http://host.invalid", &url) };
    let error = call(&Client::new(short, tasks.clone()).unwrap(), "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Proxy, false), "{error}");
}

#[tokio::test]
async fn a_proxy_must_be_http() {
    let tasks = Tasks::new();
    for proxy in ["https://proxy", "socks5://proxy:1080"] {
        let error = Client::new(through("http://host", proxy), tasks.clone()).unwrap_err();
        assert_eq!(error.stage, Stage::Proxy);
    }
}
