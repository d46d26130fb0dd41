//! Tests of this room over real sockets on loopback; here what they share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::serve::Spawn;
use super::{Body, Client, ClientError, ClientOptions, Handler};
use crate::protocol::edit::Parts;
use crate::tasks::Tasks;

mod drain;
mod fetch;
mod h2;
mod identity;
mod keep;
mod lanes;
mod limits;
mod listener;
mod proxy;
mod retry;
mod tls;

/// Far beyond what anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A client of HTTP/2 over this.
pub(super) async fn h2_client(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tasks: &Tasks,
) -> http2::SendRequest<Body> {
    let spawn = Spawn(tasks.clone(), Arc::default());
    let (sender, connection) = http2::handshake(spawn, TokioIo::new(io)).await.unwrap();
    tasks.spawn("test h2 client", async move { drop(connection.await) });
    sender
}

/// What answers by this.
pub(super) fn handler<F>(answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    Arc::new(move |request| answer(request).boxed())
}

/// The result, or a failed test when it does not come.
pub(super) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("hangs")
}

/// Waits until `what` holds.
pub(super) async fn until(what: impl Fn() -> bool) {
    soon(async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(super) fn post(path: &str, body: &'static str) -> Request<Parts> {
    Request::builder().method(Method::POST).uri(path).body(Parts::from(body)).unwrap()
}

pub(super) async fn text(answer: Response<Body>) -> Result<String, ClientError> {
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// Sends and reads the whole answer.
pub(super) async fn call(client: &Client, body: &'static str) -> Result<String, ClientError> {
    soon(async { text(client.send(post("/mcp", body)).await?).await }).await
}

pub(super) fn options(url: &str) -> ClientOptions {
    ClientOptions { connect_timeout: PATIENCE, ..ClientOptions::new(Url::parse(url).unwrap()) }
}

pub(super) fn client(url: &str, tasks: &Tasks) -> Client {
    Client::new(options(url), tasks.clone()).unwrap()
}

pub(super) async fn bind() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, format!("http://{address}"))
}

/// Accepts for ever and runs `each` with the connection and its number from 1. Returns the count.
pub(super) fn accept<F>(
    listener: TcpListener,
    tasks: &Tasks,
    each: impl Fn(TcpStream, usize) -> F + Send + 'static,
) -> Arc<AtomicUsize>
where
    F: Future<Output = ()> + Send + 'static,
{
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, spawner) = (Arc::clone(&count), tasks.clone());
    tasks.spawn("test server", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            spawner.spawn("test connection", each(stream, number));
        }
    });
    count
}

/// One HTTP/1.1 request with a Content-Length: head and body. `None` when the client has gone.
pub(super) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, String)> {
    let head = read_head(stream).await?;
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

/// Everything up to and with the empty line.
pub(super) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

pub(super) fn answer(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Answers every request with its own body, until the client has gone.
pub(super) async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    while let Some((_, body)) = read_request(&mut stream).await {
        if stream.write_all(&answer(&body)).await.is_err() {
            return;
        }
    }
}

/// Reads until the other side has closed, cleanly or not.
pub(super) async fn closed(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = [0; 1024];
    soon(async { while !matches!(stream.read(&mut rest).await, Ok(0) | Err(_)) {} }).await;
}

/// Reads until the other side has closed, and fails when that was a reset: a client would lose its answer by it.
pub(super) async fn closed_cleanly(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = [0; 1024];
    soon(async { while stream.read(&mut rest).await.unwrap() > 0 {} }).await;
}

pub(super) async fn frame(body: &mut Body) -> Option<Result<Bytes, ClientError>> {
    let frame = soon(body.frame()).await?;
    Some(frame.map(|frame| frame.into_data().unwrap()))
}
