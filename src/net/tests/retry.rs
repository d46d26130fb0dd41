//! A request is tried again only when the server has seen nothing of it, and once.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use http_body::Body as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, ReadBuf};

use super::*;
use crate::net::Stage;
use crate::net::gate::{Gate, Gated};
use crate::net::h1::H1;
use crate::net::lease::Grant;
use crate::net::pool::Taken;

/// A server that takes everything, says nothing, and is found to have gone at the read after so many.
struct Fading {
    reads: Arc<AtomicUsize>,
    last: usize,
}

impl AsyncRead for Fading {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = self.reads.fetch_add(1, Ordering::SeqCst);
        if before < self.last { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl AsyncWrite for Fading {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Puts an idle connection into the pool whose peer goes after `last` reads; the count of reads.
async fn fading(client: &Client, last: usize) -> Arc<AtomicUsize> {
    let reads = Arc::new(AtomicUsize::new(0));
    let h1 = H1::scripted(Fading { reads: Arc::clone(&reads), last }).await;
    Arc::clone(&client.pool).give_back(h1);
    reads
}

/// An idle connection in the pool whose peer goes just when a request has been given to it.
async fn stale(client: &Client) {
    let reads = fading(client, usize::MAX).await;
    let taken = client.pool.take(false);
    assert!(matches!(taken, Taken::Now(Grant::H1(_))));
    fading(client, reads.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_not_taken() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let count = accept(listener, &tasks, |stream, _| echo(stream));
    let client = client(&url, &tasks);
    let reads = fading(&client, 1).await;
    assert_eq!(call(&client, "precious").await.unwrap(), "precious");
    assert_eq!((count.load(Ordering::SeqCst), reads.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn a_stale_connection_costs_a_second_try_when_nothing_was_sent() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let count = accept(listener, &tasks, |stream, _| echo(stream));
    let client = client(&url, &tasks);
    stale(&client).await;
    assert_eq!(call(&client, "precious").await.unwrap(), "precious");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn there_is_only_one_second_try() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    drop(listener);
    let client = client(&url, &tasks);
    let spare = fading(&client, usize::MAX).await;
    stale(&client).await;
    let looked = spare.load(Ordering::SeqCst);
    // Not the other idle one, which is probably as stale, but a new one: refused.
    let error = call(&client, "precious").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Connect, false));
    assert_eq!(spare.load(Ordering::SeqCst), looked);
}

#[tokio::test]
async fn a_request_that_was_sent_is_never_sent_again() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    accept(listener, &tasks, move |mut stream, _| {
        let seen = Arc::clone(&seen);
        async move {
            read_request(&mut stream).await.unwrap();
            if seen.fetch_add(1, Ordering::SeqCst) == 0 {
                stream.write_all(&answer("first")).await.unwrap();
                read_request(&mut stream).await.unwrap();
                seen.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let client = client(&url, &tasks);
    assert_eq!(call(&client, "1").await.unwrap(), "first");
    let error = call(&client, "2").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Response, true), "{error}");
    let error = call(&client, "3").await.unwrap_err();
    assert!(error.sent, "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

/// Answers so many requests and closes without a warning: the client can't know.
async fn moody(mut stream: TcpStream, answers: usize, requests: Arc<Mutex<HashMap<String, usize>>>) {
    for _ in 0..answers {
        let Some((head, _)) = read_request(&mut stream).await else { return };
        let path = head.split(' ').nth(1).unwrap().to_owned();
        *requests.lock().unwrap().entry(path).or_default() += 1;
        if stream.write_all(&answer("ok")).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_as_it_likes_never_sees_a_call_twice() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let seen = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let requests = Arc::clone(&seen);
    accept(listener, &tasks, move |stream, number| moody(stream, number % 4, Arc::clone(&requests)));
    let client = client(&url, &tasks);
    let mut answered = 0;
    for n in 0..300 {
        let result = soon(async { text(client.send(post(&format!("/{n}"), "x")).await?).await }).await;
        match result {
            Ok(_) => answered += 1,
            // What failed without having been sent may be sent again by the caller, so that must be true.
            Err(error) if !error.sent => {
                assert_eq!(seen.lock().unwrap().get(&format!("/{n}")), None, "{error}")
            }
            Err(_) => {}
        }
    }
    let seen = seen.lock().unwrap();
    assert!(seen.values().all(|times| *times == 1));
    assert!(answered > 0 && answered <= seen.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_handed_over_as_the_connection_ends_comes_back() {
    // The two meet only now and then, so often enough.
    for _ in 0..10_000 {
        let (ours, theirs) = tokio::io::duplex(64);
        let (mut sender, mut connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        assert!(futures_util::poll!(&mut connection).is_pending());
        let gate = Gate::default();
        let connection = Gated::new(connection, &gate);
        let together = Arc::new(std::sync::Barrier::new(2));
        let other = Arc::clone(&together);
        let dropping = tokio::task::spawn_blocking(move || {
            other.wait();
            drop(connection);
        });
        together.wait();
        let request = Request::post("/").body(Body::empty()).unwrap();
        let sending = {
            let _held = gate.hold();
            sender.try_send_request(request)
        };
        let mut refused = soon(sending).await.unwrap_err();
        assert!(refused.take_message().is_some());
        dropping.await.unwrap();
        drop(theirs);
    }
}

/// A server whose answer to the first request never pauses.
#[derive(Default)]
struct Flood {
    asked: bool,
    begun: bool,
    reader: Option<Waker>,
    /// Bytes of one reading at most.
    most: usize,
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if !std::mem::replace(&mut self.begun, true) {
            buf.put_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
        }
        let room = buf.remaining().min(self.most);
        buf.initialize_unfilled_to(room).fill(b'x');
        buf.advance(room);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flood {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        self.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// All that is served by the same thread would wait until such a server pauses: however little it sends at a time.
#[tokio::test]
async fn an_answer_that_never_pauses_lets_others_have_their_turn() {
    for most in [100, 10_000, usize::MAX] {
        let tasks = Tasks::new();
        let (_, url) = bind().await;
        let client = client(&url, &tasks);
        Arc::clone(&client.pool).give_back(H1::scripted(Flood { most, ..Flood::default() }).await);
        let request = Request::post("/").body(Parts::from("x")).unwrap();
        let mut body = soon(client.send(request)).await.unwrap().into_body();
        for _ in 0..3 {
            poll_fn(|cx| read_until_it_pauses(&mut body, cx)).await;
            // It is woken again, behind others.
            assert!(soon(body.frame()).await.unwrap().is_ok());
        }
    }
}

fn read_until_it_pauses(body: &mut Body, cx: &mut Context<'_>) -> Poll<()> {
    let (mut read, mut pieces) = (0, 0);
    while let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
        read += frame.unwrap().unwrap().into_data().unwrap().len();
        pieces += 1;
        assert!(read < 8_000_000 && pieces < 1_000, "without a pause: {read} bytes in {pieces} pieces");
    }
    Poll::Ready(())
}
