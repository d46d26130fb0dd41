//! HTTP/2 towards servers (F-075): sharing, limits, dead connections, refusals.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use super::tls::Ca;
use super::*;
use crate::net::Stage;
use crate::net::serve::Spawn;

const FRAME_DATA: u8 = 0;
const FRAME_HEADERS: u8 = 1;
const FRAME_RST_STREAM: u8 = 3;
const FRAME_SETTINGS: u8 = 4;
const FRAME_GOAWAY: u8 = 7;

fn h2_acceptor(ca: &Ca) -> TlsAcceptor {
    ca.acceptor(&["localhost"], &["h2", "http/1.1"], 2999)
}

pub(super) fn h2_options(port: u16, ca: &Ca) -> ClientOptions {
    ClientOptions { ca_file: Some(ca.file("")), ..options(&format!("https://localhost:{port}")) }
}

/// An answer that goes on until `end`, for `/long`; the body that came, for the rest.
async fn respond(request: Request<Incoming>, end: Arc<Notify>) -> Result<Response<Body>, Infallible> {
    assert_eq!(request.version(), http::Version::HTTP_2);
    assert!(request.headers().get("host").is_none());
    assert_eq!(request.uri().host(), Some("localhost"));
    let long = request.uri().path() == "/long";
    let Ok(body) = request.into_body().collect().await else { return Ok(Response::new(Body::empty())) };
    if long {
        end.notified().await;
    }
    Ok(Response::new(body.to_bytes().into()))
}

/// An HTTP/2 server that allows `streams` at once and fails the test's calls beyond.
pub(super) async fn serve_h2(ca: &Ca, streams: u32, tasks: &Tasks) -> (u16, Arc<AtomicUsize>, Arc<Notify>) {
    let (listener, _) = bind().await;
    let port = listener.local_addr().unwrap().port();
    let (acceptor, end, inner) = (h2_acceptor(ca), Arc::new(Notify::new()), tasks.clone());
    let ending = Arc::clone(&end);
    let count = accept(listener, tasks, move |stream, _| {
        let (acceptor, end, tasks) = (acceptor.clone(), Arc::clone(&ending), inner.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| respond(request, Arc::clone(&end)));
            let mut server = http2::Builder::new(Spawn(tasks, Arc::default()));
            server.timer(TokioTimer::new()).max_concurrent_streams(streams);
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (port, count, end)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_share_one_connection() {
    let (tasks, server_tasks, ca) = (Tasks::new(), Tasks::new(), Ca::new());
    let (port, count, _end) = serve_h2(&ca, 200, &server_tasks).await;
    let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
    for _ in 0..5 {
        let calls = (0..50).map(|_| call(&client, "shared"));
        for got in futures_util::future::join_all(calls).await {
            assert_eq!(got.unwrap(), "shared");
        }
    }
    assert_eq!((count.load(Ordering::SeqCst), client.connections()), (1, 1));
    drop(client);
    until(|| tasks.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_stream_never_starves_calls_where_one_stream_is_allowed() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (port, count, end) = serve_h2(&ca, 1, &tasks).await;
    let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
    let mut long = Box::pin(client.send(post("/long", "long")));
    assert!(futures_util::poll!(long.as_mut()).is_pending());
    for _ in 0..5 {
        let calls = (0..20).map(|_| call(&client, "short"));
        let calls = futures_util::future::join_all(calls);
        tokio::select! {
            _ = &mut long => panic!("the long call has ended"),
            all = calls => all.into_iter().for_each(|got| assert_eq!(got.unwrap(), "short")),
        }
    }
    assert!(count.load(Ordering::SeqCst) >= 2);
    end.notify_one();
    assert_eq!(soon(text(soon(long).await.unwrap())).await.unwrap(), "long");
}

#[tokio::test]
async fn streams_beyond_all_connections_wait_and_then_fail_as_busy() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (port, count, end) = serve_h2(&ca, 1, &tasks).await;
    let short = Duration::from_millis(300);
    let bounded = ClientOptions { max_connections: 1, ..h2_options(port, &ca) };
    let client = Client::new(bounded, tasks.clone()).unwrap();
    call(&client, "first").await.unwrap();
    let mut long = Box::pin(client.send(post("/long", "long")));
    assert!(futures_util::poll!(long.as_mut()).is_pending());
    let mut waiting = Box::pin(call(&client, "second"));
    tokio::select! {
        _ = &mut long => panic!("the long call has ended"),
        _ = &mut waiting => panic!("there is only one stream"),
        () = tokio::time::sleep(short) => {}
    }
    end.notify_one();
    assert_eq!(soon(text(soon(&mut long).await.unwrap())).await.unwrap(), "long");
    assert_eq!(waiting.await.unwrap(), "second");
    assert_eq!(count.load(Ordering::SeqCst), 1);

    let hasty = ClientOptions {
        max_connections: 1,
        connect_timeout: Duration::from_secs(4),
        ..h2_options(port, &ca)
    };
    let client = Client::new(hasty, tasks.clone()).unwrap();
    call(&client, "first").await.unwrap();
    let mut long = Box::pin(client.send(post("/long", "long")));
    assert!(futures_util::poll!(long.as_mut()).is_pending());
    let error = call(&client, "second").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Busy, false), "{error}");
}

#[tokio::test]
async fn a_connection_that_went_silent_is_noticed_and_replaced() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (port, count, _end) = serve_h2(&ca, 200, &tasks).await;
    // A middlebox that forwards until told to swallow everything, without closing anything.
    let (listener, _) = bind().await;
    let middle = listener.local_addr().unwrap().port();
    let (swallow, swallowing) = watch::channel(0);
    accept(listener, &tasks, move |mut stream, number| {
        let mut swallowing = swallowing.clone();
        async move {
            let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let until_swallowed = async { drop(swallowing.wait_for(|upto| *upto >= number).await.unwrap()) };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut stream, &mut server) => {}
                () = until_swallowed => std::future::pending().await,
            }
        }
    });
    let pinging = ClientOptions { h2_ping: Duration::from_secs(1), ..h2_options(middle, &ca) };
    let client = Client::new(pinging, tasks.clone()).unwrap();
    call(&client, "alive").await.unwrap();

    // Idle when it dies: noticed before the next call picks it.
    swallow.send(1).unwrap();
    until(|| client.connections() == 0).await;
    assert_eq!(call(&client, "again").await.unwrap(), "again");

    // In use when it dies: that call fails, may have been executed; the next one works.
    let mut lost = Box::pin(client.send(post("/long", "lost")));
    assert!(futures_util::poll!(lost.as_mut()).is_pending());
    assert_eq!(call(&client, "before").await.unwrap(), "before");
    swallow.send(2).unwrap();
    let error = soon(lost).await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Response, true), "{error}");
    assert_eq!(call(&client, "after").await.unwrap(), "after");
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

async fn until_reset(mut body: ::h2::SendStream<Bytes>, reset: Arc<Notify>) {
    let reason = std::future::poll_fn(|cx| body.poll_reset(cx)).await.unwrap();
    assert_eq!(reason, ::h2::Reason::CANCEL);
    reset.notify_one();
}

#[tokio::test]
async fn a_dropped_answer_resets_its_stream_and_spares_the_connection() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (listener, _) = bind().await;
    let port = listener.local_addr().unwrap().port();
    let (acceptor, reset) = (h2_acceptor(&ca), Arc::new(Notify::new()));
    let was_reset = Arc::clone(&reset);
    let inner = tasks.clone();
    let count = accept(listener, &tasks, move |stream, _| {
        let (acceptor, reset, tasks) = (acceptor.clone(), Arc::clone(&was_reset), inner.clone());
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            let mut connection = ::h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                body.send_data(Bytes::from_static(b"abc"), false).unwrap();
                tasks.spawn("test stream", until_reset(body, Arc::clone(&reset)));
            }
        }
    });
    let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
    for _ in 0..3 {
        let mut body = soon(client.send(post("/", "{}"))).await.unwrap().into_body();
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), "abc");
        drop(body);
        soon(reset.notified()).await;
    }
    assert_eq!((count.load(Ordering::SeqCst), client.connections()), (1, 1));
}

/// Writes a frame with a payload.
async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), kind: u8, flags: u8, id: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(id.to_be_bytes());
    frame.extend(payload);
    stream.write_all(&frame).await.unwrap();
    stream.flush().await.unwrap();
}

/// Reads frames up to a HEADERS frame, and returns its stream.
async fn next_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.ok()?;
        if head[3] == FRAME_HEADERS {
            return Some(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        }
    }
}

/// What a hand-written server does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Answer,
    Refuse,
    /// GOAWAY that excludes the stream.
    GoAwayBefore,
    /// GOAWAY that includes it, and then the end.
    GoAwayAfter,
    /// RST_STREAM with INTERNAL_ERROR.
    Break,
}

/// A server that speaks HTTP/2 by hand and follows the script, request by request over all connections.
async fn scripted(
    ca: &Ca,
    script: &'static [Deed],
    tasks: &Tasks,
) -> (u16, Arc<AtomicUsize>, Arc<Mutex<usize>>) {
    let (listener, _) = bind().await;
    let port = listener.local_addr().unwrap().port();
    let (acceptor, done) = (h2_acceptor(ca), Arc::new(Mutex::new(0)));
    let doing = Arc::clone(&done);
    let count = accept(listener, tasks, move |stream, _| {
        let (acceptor, done) = (acceptor.clone(), Arc::clone(&doing));
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            stream.read_exact(&mut [0; 24]).await.unwrap();
            write_frame(&mut stream, FRAME_SETTINGS, 0, 0, &[]).await;
            while let Some(id) = next_request(&mut stream).await {
                let deed = {
                    let mut done = done.lock().unwrap();
                    *done += 1;
                    script[*done - 1]
                };
                match deed {
                    Deed::Answer => {
                        // `:status: 200` is entry 8 of the static table (RFC 7541, appendix A).
                        write_frame(&mut stream, FRAME_HEADERS, 4, id, &[0x88]).await;
                        write_frame(&mut stream, FRAME_DATA, 1, id, b"ok").await;
                    }
                    Deed::Refuse => write_frame(&mut stream, FRAME_RST_STREAM, 0, id, &[0, 0, 0, 7]).await,
                    Deed::Break => write_frame(&mut stream, FRAME_RST_STREAM, 0, id, &[0, 0, 0, 2]).await,
                    Deed::GoAwayBefore => {
                        let mut payload = (id - 2).to_be_bytes().to_vec();
                        payload.extend([0; 4]);
                        write_frame(&mut stream, FRAME_GOAWAY, 0, 0, &payload).await;
                        closed(&mut stream).await;
                        return;
                    }
                    Deed::GoAwayAfter => {
                        let mut payload = id.to_be_bytes().to_vec();
                        payload.extend([0; 4]);
                        write_frame(&mut stream, FRAME_GOAWAY, 0, 0, &payload).await;
                        return;
                    }
                }
            }
        }
    });
    (port, count, done)
}

#[tokio::test]
async fn what_the_server_did_not_look_at_is_tried_once_more() {
    use Deed::{Answer, Break, GoAwayAfter, GoAwayBefore, Refuse};
    let (tasks, ca) = (Tasks::new(), Ca::new());
    // (deeds after a first good call, connections in all, whether the call works, whether it was sent)
    let cases: [(&'static [Deed], usize, Option<bool>); 6] = [
        (&[Answer, Refuse, Answer], 1, None),
        (&[Answer, GoAwayBefore, Answer], 2, None),
        (&[Answer, Refuse, Refuse, Answer], 1, Some(false)),
        (&[Answer, GoAwayBefore, Refuse, Answer], 2, Some(false)),
        (&[Answer, Break, Answer], 1, Some(true)),
        (&[Answer, GoAwayAfter, Answer], 1, Some(true)),
    ];
    for (number, (script, connections, failed_sent)) in cases.into_iter().enumerate() {
        let (port, count, done) = scripted(&ca, script, &tasks).await;
        let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
        assert_eq!(call(&client, "{}").await.unwrap(), "ok", "case {number}");
        let result = call(&client, "{}").await;
        assert_eq!(count.load(Ordering::SeqCst), connections, "case {number}");
        match failed_sent {
            None => assert_eq!(result.unwrap(), "ok", "case {number}"),
            Some(sent) => {
                assert_eq!(result.unwrap_err().sent, sent, "case {number}");
                // The next call works whatever happened.
                assert_eq!(call(&client, "{}").await.unwrap(), "ok", "case {number}");
            }
        }
        assert_eq!(*done.lock().unwrap(), script.len(), "case {number}");
    }
}

#[tokio::test]
async fn many_calls_at_once_fail_together_when_the_server_is_down() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (listener, _) = bind().await;
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
    let calls = (0..20).map(|_| call(&client, "{}"));
    for got in futures_util::future::join_all(calls).await {
        let error = got.unwrap_err();
        assert_eq!((error.stage, error.sent), (Stage::Connect, false), "{error}");
    }
    assert_eq!(client.connections(), 0);
}

#[tokio::test]
async fn a_server_that_agrees_on_h2_and_closes_is_named() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (listener, _) = bind().await;
    let port = listener.local_addr().unwrap().port();
    let acceptor = h2_acceptor(&ca);
    accept(listener, &tasks, move |stream, _| {
        let acceptor = acceptor.clone();
        async move { drop(acceptor.accept(stream).await.unwrap().shutdown().await) }
    });
    let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
    let error = call(&client, "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Connect, false), "{error}");
    until(|| client.connections() == 0).await;
}

#[tokio::test]
async fn who_waits_for_anothers_connection_goes_on_when_that_one_gives_up() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (port, _count, _end) = serve_h2(&ca, 200, &tasks).await;
    let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
    let mut first = Box::pin(client.send(post("/", "first")));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    let mut second = Box::pin(call(&client, "second"));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    drop(first);
    assert_eq!(second.await.unwrap(), "second");
}

#[tokio::test]
async fn idle_shared_connections_are_closed() {
    let (tasks, server_tasks, ca) = (Tasks::new(), Tasks::new(), Ca::new());
    let (port, _count, _end) = serve_h2(&ca, 200, &server_tasks).await;
    let short = ClientOptions { idle_timeout: Duration::from_millis(50), ..h2_options(port, &ca) };
    let client = Client::new(short, tasks.clone()).unwrap();
    call(&client, "{}").await.unwrap();
    until(|| client.connections() == 0 && tasks.running() == 0).await;
    assert_eq!(call(&client, "{}").await.unwrap(), "{}");
}

#[tokio::test]
async fn streams_nobody_reads_do_not_starve_the_others() {
    let (tasks, ca) = (Tasks::new(), Ca::new());
    let (port, count, _end) = serve_h2(&ca, 200, &tasks).await;
    let client = Client::new(h2_options(port, &ca), tasks.clone()).unwrap();
    let big = Bytes::from(vec![b'x'; 2 * 1024 * 1024]);
    let mut unread = Vec::new();
    for _ in 0..20 {
        let request = Request::post("/").body(Parts::from(big.clone())).unwrap();
        unread.push(soon(client.send(request)).await.unwrap());
    }
    assert_eq!(call(&client, "small").await.unwrap(), "small");
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(text(unread.pop().unwrap()).await.unwrap().len(), big.len());
}
