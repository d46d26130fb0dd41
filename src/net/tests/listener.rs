//! The listener: deadlines and bounds.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::client::conn::http2;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::net::listener::accept_all;
use crate::net::{ListenOptions, ListenStats, Peer, listen, routed, serve};

/// A running listener.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    pub(super) stats: Arc<ListenStats>,
    pub(super) drain: CancellationToken,
    pub(super) done: Arc<Notify>,
    /// Requests to `/slow` are answered when this is notified, and answers from `/stream` end.
    pub(super) finish: Arc<Notify>,
    pub(super) asked: Arc<Notify>,
    pub(super) tasks: Tasks,
}

pub(super) fn patient() -> ListenOptions {
    ListenOptions {
        header_timeout: PATIENCE,
        idle_timeout: PATIENCE,
        keep_alive: PATIENCE,
        ..ListenOptions::default()
    }
}

/// Answers with the peer's address, for `/slow` only when told to, for `/stream` with a word at once and the end when told to.
pub(super) async fn run(options: ListenOptions) -> Running {
    let (listener, _) = bind().await;
    let address = listener.local_addr().unwrap();
    let (tasks, stats) = (Tasks::new(), Arc::clone(&options.stats));
    let (drain, done) = (CancellationToken::new(), Arc::new(Notify::new()));
    let (finish, asked) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (gate, knock) = (Arc::clone(&finish), Arc::clone(&asked));
    let service = handler(move |request: Request<Incoming>| {
        let (gate, knock) = (Arc::clone(&gate), Arc::clone(&knock));
        async move {
            let Peer(peer) = *request.extensions().get::<Peer>().unwrap();
            if request.uri().path() == "/slow" {
                knock.notify_one();
                gate.notified().await;
            }
            if request.uri().path() == "/stream" {
                let mut word = Some(Bytes::from_static(b"begun"));
                let mut end = Box::pin(async move { gate.notified().await });
                return Response::new(Body::pieces(move |cx| match word.take() {
                    Some(word) => Poll::Ready(Some(word)),
                    None => end.as_mut().poll(cx).map(|()| None),
                }));
            }
            Response::new(Body::from(Bytes::from(peer.to_string())))
        }
    });
    let (ended, token, inner) = (Arc::clone(&done), drain.clone(), tasks.clone());
    tasks.spawn("test listener", async move {
        serve(listener, service, options, inner, token).await;
        ended.notify_one();
    });
    Running { address, stats, drain, done, finish, asked, tasks }
}

impl Running {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(super) async fn connect_h2(&self) -> http2::SendRequest<Body> {
        h2_client(self.connect().await, &self.tasks).await
    }
}

/// Status line and headers, body.
pub(super) async fn read_answer(stream: &mut TcpStream) -> (String, String) {
    soon(read_request(stream)).await.unwrap()
}

pub(super) async fn get(stream: &mut TcpStream, path: &str) -> (String, String) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    read_answer(stream).await
}

#[tokio::test]
async fn both_versions_are_served_and_know_the_peer() {
    let running = run(patient()).await;
    let mut stream = running.connect().await;
    let peer = stream.local_addr().unwrap().to_string();
    for _ in 0..3 {
        let (head, body) = get(&mut stream, "/").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(body, peer);
    }
    let mut sender = running.connect_h2().await;
    for _ in 0..3 {
        let request = Request::get("http://x/").body(Body::empty()).unwrap();
        let answer = soon(sender.send_request(request)).await.unwrap();
        let body = soon(answer.into_body().collect()).await.unwrap().to_bytes();
        assert!(body.starts_with(b"127.0.0.1:"));
    }
    assert_eq!(running.stats.open(), 2);
}

/// More come at once than are accepted meanwhile: none of them is lost.
#[tokio::test]
async fn a_crowd_waits_to_be_accepted() {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let crowd = allowed.trim().parse::<usize>().unwrap().min(1500);
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..crowd {
        waiting.push(soon(TcpStream::connect(address)).await.unwrap());
    }
    for _ in 0..crowd {
        soon(listener.accept()).await.unwrap();
    }
}

#[tokio::test]
async fn an_axum_router_is_served() {
    let (listener, url) = bind().await;
    let (tasks, drain) = (Tasks::new(), CancellationToken::new());
    let router = axum::Router::new().route("/mcp", axum::routing::post(async |body: Bytes| body));
    tasks.spawn("test listener", serve(listener, routed(router), patient(), tasks.clone(), drain.clone()));
    let client = client(&url, &tasks);
    assert_eq!(call(&client, "through both of us").await.unwrap(), "through both of us");
    drain.cancel();
    until(|| client.connections() == 0).await;
    drop(client);
    until(|| tasks.running() == 0).await;
}

#[tokio::test]
async fn unfinished_headers_end_at_their_deadline() {
    let limit = Duration::from_secs(1);
    let running = run(ListenOptions { header_timeout: limit, ..patient() }).await;
    let begun = ["", "P", "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nhost: x\r\nx-slow: "];
    let stuck = begun.map(async |begun| {
        let started = Instant::now();
        let mut stream = running.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        closed(&mut stream).await;
        assert!(started.elapsed() >= limit, "{begun}");
    });
    // A drip of bytes does not help, on a kept connection neither.
    let dripping = async {
        let mut stream = running.connect().await;
        get(&mut stream, "/").await;
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        while stream.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(limit / 20).await;
        }
    };
    soon(futures_util::future::join(futures_util::future::join_all(stuck), dripping)).await;
    until(|| running.stats.open() == 0).await;
}

#[tokio::test]
async fn idle_connections_live_for_the_idle_timeout() {
    let short = ListenOptions {
        header_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(3),
        ..patient()
    };
    let running = run(short).await;
    let mut stream = running.connect().await;
    let mut sender = running.connect_h2().await;
    let request = Request::get("http://x/").body(Body::empty()).unwrap();
    let answer = soon(sender.send_request(request)).await.unwrap();
    soon(answer.into_body().collect()).await.unwrap();
    let started = Instant::now();
    get(&mut stream, "/").await;
    closed(&mut stream).await;
    // Beyond the header's deadline: it is not what ends an idle connection.
    assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
    until(|| sender.is_closed() && running.stats.open() == 0).await;
}

#[tokio::test]
async fn a_request_in_work_is_not_cut_by_connection_deadlines() {
    let short = Duration::from_secs(1);
    let running = run(ListenOptions { header_timeout: short, idle_timeout: short, ..patient() }).await;
    let mut sender = running.connect_h2().await;
    let request = Request::get("http://x/slow").body(Body::empty()).unwrap();
    let mut shared = Box::pin(sender.send_request(request));
    assert!(futures_util::poll!(shared.as_mut()).is_pending());
    soon(running.asked.notified()).await;
    let mut stream = running.connect().await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    soon(running.asked.notified()).await;
    tokio::time::sleep(short * 3).await;
    running.finish.notify_waiters();
    assert!(read_answer(&mut stream).await.0.starts_with("HTTP/1.1 200 "));
    assert_eq!(soon(shared).await.unwrap().status(), 200);
}

#[tokio::test]
async fn headers_beyond_the_bound_are_431() {
    let running = run(ListenOptions { max_header: 10_000, ..patient() }).await;
    let with = |bytes: usize| format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(bytes));
    let overhead = with(0).len();
    for (bytes, status) in [(10_000, 200), (10_001, 431), (3_000_000, 431)] {
        let mut stream = running.connect().await;
        stream.write_all(with(bytes - overhead).as_bytes()).await.unwrap();
        let (head, body) = read_answer(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes}: {head}");
        assert_eq!(body.is_empty(), status == 431);
        if status == 431 {
            closed_cleanly(&mut stream).await;
        }
    }
    // Never-ending headers, too many of them.
    let mut stream = running.connect().await;
    stream.write_all(format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(20_000)).as_bytes()).await.unwrap();
    assert!(read_answer(&mut stream).await.0.starts_with("HTTP/1.1 431 "));
    let mut stream = running.connect().await;
    stream.write_all(format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(150)).as_bytes()).await.unwrap();
    assert!(read_answer(&mut stream).await.0.starts_with("HTTP/1.1 431 "));

    drop(stream);
    until(|| running.stats.open() == 0).await;
    // What the client still sends is read for a while: a reset could take the answer away from it.
    let started = Instant::now();
    let mut stubborn = running.connect().await;
    stubborn.write_all(with(20_000).as_bytes()).await.unwrap();
    closed_cleanly(&mut stubborn).await;
    until(|| running.stats.open() == 0).await;
    assert!(started.elapsed() >= Duration::from_secs(1));

    let mut sender = running.connect_h2().await;
    let request =
        |bytes| Request::get("http://x/").header("x", "y".repeat(bytes)).body(Body::empty()).unwrap();
    assert_eq!(soon(sender.send_request(request(5_000))).await.unwrap().status(), 200);
    assert_eq!(soon(sender.send_request(request(15_000))).await.unwrap().status(), 431);
    assert_eq!(soon(sender.send_request(request(5_000))).await.unwrap().status(), 200);
}

#[tokio::test]
async fn connections_beyond_the_cap_are_refused_and_counted() {
    let running = run(ListenOptions { max_connections: 2, ..patient() }).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    get(&mut first, "/").await;
    get(&mut second, "/").await;
    for n in 1..=5 {
        let mut third = running.connect().await;
        // A big request must not turn the refusal into a reset.
        let request = format!("POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n{}", "x".repeat(100_000));
        third.write_all(request.as_bytes()).await.unwrap();
        let (head, _) = read_answer(&mut third).await;
        assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after: 1\r\n"), "{head}");
        closed_cleanly(&mut third).await;
        assert_eq!(running.stats.refused(), n);
    }
    assert_eq!(running.stats.open(), 2);
    drop(first);
    until(|| running.stats.open() == 1).await;
    let mut third = running.connect().await;
    assert!(get(&mut third, "/").await.0.starts_with("HTTP/1.1 200 "));
    assert_eq!(running.stats.refused(), 5);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_request() {
    let running = run(patient()).await;
    let mut stream = running.connect().await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    soon(running.asked.notified()).await;
    drop(stream);
    until(|| running.stats.open() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn accepting_survives_a_lack_of_descriptors_without_spinning() {
    const EMFILE: i32 = 24;
    let attempts = Arc::new(AtomicUsize::new(0));
    let (tries, accepted) = (Arc::clone(&attempts), Arc::new(Mutex::new(Vec::new())));
    let results = Arc::clone(&accepted);
    let tasks = Tasks::new();
    let started = tokio::time::Instant::now();
    let running: JoinHandle<()> = tasks.spawn("test accept", async move {
        let accept = || {
            let attempt = tries.fetch_add(1, Ordering::SeqCst);
            async move {
                match attempt {
                    3 => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
                    10 => Ok(10),
                    attempt if attempt < 10 => Err(io::Error::from_raw_os_error(EMFILE)),
                    _ => std::future::pending().await,
                }
            }
        };
        accept_all(accept, |number| results.lock().unwrap().push(number)).await;
    });
    // The clock is paused: it moves only when everybody sleeps.
    while accepted.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*accepted.lock().unwrap(), [10]);
    // Nine pauses from 10 ms, doubled each time and bounded by 1 s: 10+20+40+80+160+320+640+1000+1000 ms.
    let waited = started.elapsed();
    assert!((Duration::from_millis(3270)..Duration::from_millis(3400)).contains(&waited), "{waited:?}");
    running.abort();
}
