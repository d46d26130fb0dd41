//! The upstream side: accepts connections within a cap, serves them, drains.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::body::Body;
use super::identity::Identity;
use super::lanes::{Lanes, Seat};
use super::serve::{Server, refuse};
use crate::tasks::Tasks;

/// What answers requests. One type for all: the whole of HTTP would be compiled for each anew.
pub type Handler = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// What an axum router answers.
pub fn routed(router: Router) -> Handler {
    Arc::new(move |request| {
        let answer = router.clone().oneshot(request);
        async move {
            let Ok(answer) = answer.await;
            answer.map(Body::made)
        }
        .boxed()
    })
}

/// The client's address, an extension of every request: what the PROXY protocol says, where that is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Bounds of a listener.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Request line and headers together, in bytes; more is 431.
    pub max_header: usize,
    /// From accept, or from the first byte of a later request, to the end of its headers.
    pub header_timeout: Duration,
    /// A connection without a request in work.
    pub idle_timeout: Duration,
    /// Connections at once, over all listeners that share `stats`; more are answered 503 and closed.
    pub max_connections: usize,
    /// How often a silent HTTP/2 client is asked for a sign of life, and how long it may take for it.
    pub keep_alive: Duration,
    /// TLS, where it is ours to end.
    pub tls: Option<Arc<Identity>>,
    /// Who may say by the PROXY protocol whose connection it is.
    pub proxies: Vec<IpNet>,
    /// The threads that serve its connections; none: the runtime that runs it.
    pub lanes: Arc<Lanes>,
    /// What is counted; clone it before to read it.
    pub stats: Arc<ListenStats>,
}

/// For the servers of our own commands.
impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            max_header: 64 * 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            max_connections: 10_000,
            keep_alive: Duration::from_secs(15),
            tls: None,
            proxies: Vec::new(),
            lanes: Arc::default(),
            stats: Arc::default(),
        }
    }
}

/// Counts of one or more listeners.
#[derive(Debug, Default)]
pub struct ListenStats {
    open: AtomicUsize,
    refused: AtomicU64,
    refusing: AtomicUsize,
}

impl ListenStats {
    /// Connections open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections refused because of `max_connections`.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// One more of something, until it is dropped.
struct OneOf(Arc<ListenStats>, fn(&ListenStats) -> &AtomicUsize);

impl OneOf {
    fn new(stats: &Arc<ListenStats>, of: fn(&ListenStats) -> &AtomicUsize, max: usize) -> Option<Self> {
        // Counted from here on: when it is one too many, its drop takes it back.
        let before = of(stats).fetch_add(1, Ordering::Relaxed);
        let one = Self(Arc::clone(stats), of);
        (before < max).then_some(one)
    }
}

impl Drop for OneOf {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections that may wait to be accepted: all clients come back at once after a restart. The system has a bound of its
/// own (`net.core.somaxconn`); what is beyond it is lost or reset.
const BACKLOG: u32 = 4096;

/// The task of one connection.
const CONNECTION: &str = "http client connection";

/// Refusals that may be under way at once; beyond it connections are closed without a word.
const MAX_REFUSING: usize = 64;

/// A socket that listens.
///
/// # Errors
///
/// What the system says: the address is in use, or not ours.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves HTTP/1.1 and HTTP/2 (prior knowledge) until `drain` fires; then accepts nothing more, closes idle
/// connections, finishes the requests in work, and returns when the last connection has ended. The caller bounds
/// that time, and `Tasks::shutdown` cuts what is left.
pub async fn serve(
    listener: TcpListener,
    handler: Handler,
    options: ListenOptions,
    tasks: Tasks,
    drain: CancellationToken,
) {
    let stats = Arc::clone(&options.stats);
    let (max, lanes) = (options.max_connections, Arc::clone(&options.lanes));
    let server = Arc::new(Server::new(handler, options, tasks.clone(), drain.clone()));
    let connections = TaskTracker::new();
    let accept = || listener.accept();
    let mut each = |(stream, peer): (TcpStream, SocketAddr)| {
        if let Some(open) = OneOf::new(&stats, |stats| &stats.open, max) {
            let (server, token) = (Arc::clone(&server), connections.token());
            let serve = move |stream| async move {
                let _held = (open, token);
                server.connection(stream, peer).await;
            };
            match lanes.seat() {
                None => drop(tasks.spawn(CONNECTION, serve(stream))),
                Some(seat) => settle(stream, seat, &tasks, serve),
            }
            return;
        }
        stats.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(refusing) = OneOf::new(&stats, |stats| &stats.refusing, MAX_REFUSING) {
            tasks.spawn("http refusal", async move {
                let _held = refusing;
                refuse(stream).await;
            });
        }
    };
    drain.run_until_cancelled(accept_all(accept, &mut each)).await;
    last_ones(listener, each);
    connections.close();
    connections.wait().await;
}

/// Serves a connection at its seat.
fn settle<F>(
    stream: TcpStream,
    seat: Seat,
    tasks: &Tasks,
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    // A socket hears from the runtime it is registered at.
    let moved = stream.into_std();
    seat.spawn(tasks, CONNECTION, async move {
        match moved.and_then(TcpStream::from_std) {
            Ok(stream) => serve(stream).await,
            Err(error) => tracing::warn!(%error, "a connection could not be handed to its thread"),
        }
    });
}

/// Takes those that had connected when the listener was closed: the system has said yes to them, and they may have sent
/// their request already. Whoever comes later is refused, and a load balancer then goes elsewhere.
fn last_ones(listener: TcpListener, mut each: impl FnMut((TcpStream, SocketAddr))) {
    // Without the runtime in between, which might not have heard of the latest yet.
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, peer)) = listener.accept() {
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            each((stream, peer));
        }
    }
}

/// Accepts for ever. What fails for one connection is its own matter; what fails for all (no file descriptor left) is
/// waited out, longer each time, since accepting again at once would only spin.
pub(super) async fn accept_all<T, F>(accept: impl Fn() -> F, mut each: impl FnMut(T))
where
    F: Future<Output = io::Result<T>>,
{
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);
    let mut pause = FIRST;
    loop {
        match accept().await {
            Ok(accepted) => {
                pause = FIRST;
                each(accepted);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, ?pause, "can't accept connections; trying again");
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
