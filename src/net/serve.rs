//! One client's connection: which HTTP it speaks, its deadlines, its end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::body::Body;
use super::clock::{Activity, Busy, Clock, Phase};
use super::error::ClientError;
use super::identity::PeerCertificate;
use super::lanes::Lanes;
use super::listener::{Handler, ListenOptions, Peer};
use super::proxied;
use super::stream::Stream;
use crate::tasks::{End, Tasks};

/// What an HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long and how much is read and thrown away after the last answer. A socket closed with unread bytes in it sends
/// a reset, and the client would lose the answer (431, 413, 503) that it has not read yet.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 4 * 1024 * 1024;

/// How long a drain waits for a request that is on its way: on an HTTP/1.1 connection at rest, whose client does not know
/// yet, and on one that has said nothing so far. A connection that is closed under a request loses it.
const ON_ITS_WAY: Duration = Duration::from_millis(250);
const FIRST_WORD: Duration = Duration::from_secs(1);

/// What all connections of a listener share.
pub(super) struct Server {
    handler: Handler,
    options: ListenOptions,
    drain: CancellationToken,
    http1: http1::Builder,
    http2: http2::Builder<Spawn>,
}

/// Who is at the other end of a connection.
struct Client {
    peer: SocketAddr,
    certificate: Option<Arc<PeerCertificate>>,
}

/// Runs an HTTP/2 connection's requests. One connection may have many: they go to all threads that serve.
#[derive(Clone)]
pub(super) struct Spawn(pub(super) Tasks, pub(super) Arc<Lanes>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Spawn {
    fn execute(&self, work: F) {
        const REQUEST: &str = "http request";
        match self.1.seat() {
            None => drop(self.0.spawn(REQUEST, work)),
            Some(seat) => seat.spawn(&self.0, REQUEST, work),
        }
    }
}

impl Server {
    pub(super) fn new(
        handler: Handler,
        options: ListenOptions,
        tasks: Tasks,
        drain: CancellationToken,
    ) -> Self {
        let mut http1 = http1::Builder::new();
        // Deadlines are `watch`'s: hyper's own would end idle connections as well.
        http1.max_header_size(options.max_header).header_read_timeout(None);
        let mut http2 = http2::Builder::new(Spawn(tasks, Arc::clone(&options.lanes)));
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(options.max_header).unwrap_or(u32::MAX))
            .keep_alive_interval(options.keep_alive)
            .keep_alive_timeout(options.keep_alive);
        Self { handler, options, drain, http1, http2 }
    }

    /// Serves one connection to its end.
    pub(super) async fn connection(&self, mut stream: TcpStream, peer: SocketAddr) {
        let accepted = Instant::now();
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY refused");
        }
        let limit = self.options.header_timeout;
        let mut client = Client { peer, certificate: None };
        if self.options.proxies.iter().any(|trusted| trusted.contains(&peer.ip().to_canonical())) {
            let hello = timeout(limit, proxied::client(&mut stream, peer));
            match self.unless_drained(hello).await {
                Some(Ok(Ok(behind))) => client.peer = behind,
                Some(Ok(Err(error))) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(%peer, %error, "a trusted proxy was not understood");
                    return;
                }
                _ => return,
            }
        }
        match &self.options.tls {
            None => {
                let hello = timeout(limit, speaks_h2(&stream));
                if let Some(Ok(Ok(h2))) = self.unless_drained(hello).await {
                    self.speak(Stream::Plain(stream), h2, client, accepted).await;
                }
            }
            Some(identity) => {
                // Boxed: a handshake's future is large and soon over.
                let hello = Box::pin(timeout(limit, identity.accept(stream)));
                match self.unless_drained(hello).await {
                    Some(Ok(Ok((stream, h2)))) => {
                        client.certificate = PeerCertificate::of(&stream).map(Arc::new);
                        let stream = Stream::Tls(Box::new(stream.into()));
                        self.speak(stream, h2, client, accepted).await;
                    }
                    Some(Ok(Err(error))) => tracing::debug!(%peer, %error, "no TLS"),
                    Some(Err(_)) | None => {}
                }
            }
        }
    }

    /// How a connection begins, unless it takes too long for that after a drain has begun.
    async fn unless_drained<T>(&self, hello: impl Future<Output = T>) -> Option<T> {
        let drained = async {
            self.drain.cancelled().await;
            sleep(FIRST_WORD).await;
        };
        tokio::select! {
            biased;
            said = hello => Some(said),
            () = drained => None,
        }
    }

    async fn speak(&self, stream: Stream, h2: bool, client: Client, accepted: Instant) {
        let activity = Arc::new(Activity::new(h2));
        let io = TokioIo::new(Watched { stream, activity: Arc::clone(&activity) });
        let answer = {
            let (handler, activity) = (Arc::clone(&self.handler), Arc::clone(&activity));
            service_fn(move |mut request: Request<Incoming>| {
                let busy = Busy::new(&activity);
                request.extensions_mut().insert(Peer(client.peer));
                if let Some(certificate) = &client.certificate {
                    request.extensions_mut().insert(Arc::clone(certificate));
                }
                let answer = handler(request);
                async move {
                    let answer = last(answer.await, &busy);
                    Ok::<_, Infallible>(answer.map(|body| Counted { body, _busy: busy }))
                }
            })
        };
        if h2 {
            // Boxed: connections of HTTP/1.1 would keep room for it.
            let mut connection = Box::pin(self.http2.serve_connection(io, answer));
            self.watch(connection.as_mut(), &activity, accepted).await;
        } else {
            let mut connection = self.http1.serve_connection(io, answer);
            self.watch(Pin::new(&mut connection), &activity, accepted).await;
            linger(connection.into_parts().io.into_inner().stream).await;
        }
    }

    /// Drives a connection until it ends, is drained, or passes a deadline. Drained, it ends with the answer to the next
    /// request, which says so; HTTP/2 has a message for that. Without a request it ends after a moment.
    async fn watch<C: GracefulConnection>(
        &self,
        mut connection: Pin<&mut C>,
        activity: &Activity,
        accepted: Instant,
    ) {
        // A token of its own: the shared one is a lock that every connection would touch at every step.
        let mut drained = End::of(self.drain.child_token());
        let mut clock = Clock::new(&self.options, accepted);
        let mut leaving: Option<Leaving> = None;
        poll_fn(|cx| {
            if activity.h2 {
                activity.ended.register(cx.waker());
            }
            if leaving.is_none() && drained.poll_unpin(cx).is_ready() {
                activity.leaving.store(true, Ordering::Relaxed);
                leaving = Some(Leaving::new(activity.h2));
            }
            loop {
                if connection.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if let Some(leaving) = leaving.as_mut().filter(|_| !clock.ending)
                    && leaving.poll(cx, activity).is_ready()
                {
                    clock.end();
                    connection.as_mut().graceful_shutdown();
                    continue;
                }
                match ready!(clock.poll_expired(cx, activity)) {
                    Phase::Idle if !clock.ending => {
                        clock.end();
                        connection.as_mut().graceful_shutdown();
                    }
                    _ => return Poll::Ready(()),
                }
            }
        })
        .await;
    }
}

/// Waits for the moment at which a drained connection can be ended without a request being lost.
struct Leaving {
    /// For a request that is on its way, whose client does not know yet.
    wait: Pin<Box<Sleep>>,
    /// The answer in work left its head before the drain began: nobody was told.
    unsaid: bool,
}

impl Leaving {
    fn new(h2: bool) -> Self {
        let wait = if h2 { Duration::ZERO } else { ON_ITS_WAY };
        Self { wait: Box::pin(sleep(wait)), unsaid: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>, activity: &Activity) -> Poll<()> {
        if activity.is_unsaid() {
            self.unsaid = true;
            return Poll::Pending;
        }
        if activity.is_busy() {
            return Poll::Ready(());
        }
        // Over, and its client may have the next request on its way.
        if std::mem::take(&mut self.unsaid) {
            self.wait.as_mut().reset(Instant::now() + ON_ITS_WAY);
        }
        self.wait.as_mut().poll(cx)
    }
}

/// An answer, which says so if it is the last one of its connection: also where it is there before the connection is
/// looked at again. HTTP/2 has no such header.
fn last(mut answer: Response<Body>, busy: &Busy) -> Response<Body> {
    if busy.is_last() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// A body that keeps its request "in work".
struct Counted {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = ClientError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that notes when bytes come.
struct Watched {
    stream: Stream,
    activity: Arc<Activity>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before && !self.activity.h2 {
            self.activity.bytes.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Looks at the first bytes without taking them. `PRI` is a method of no HTTP/1.1 request (RFC 9113, 3.4), so four
/// bytes are enough; fewer come alone hardly ever, and looking again is then a matter of time, not of readiness.
async fn speaks_h2(stream: &TcpStream) -> io::Result<bool> {
    const AGAIN: Duration = Duration::from_millis(10);
    let mut first = [0; 4];
    loop {
        let seen = stream.peek(&mut first).await?;
        if seen == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[..seen] != PREFACE[..seen] {
            return Ok(false);
        }
        if seen == first.len() {
            return Ok(true);
        }
        sleep(AGAIN).await;
    }
}

/// Tells a client that there is no room (H-68).
pub(super) async fn refuse(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    if timeout(LINGER, stream.write_all(ANSWER)).await.is_ok_and(|written| written.is_ok()) {
        linger(stream).await;
    }
}

/// Says goodbye and reads what the client still sends, for a moment.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let rest = async {
        // Failing means that the client has closed already.
        let mut left = if stream.shutdown().await.is_ok() { LINGER_BYTES } else { 0 };
        let mut sink = [0; 4096];
        while left > 0 {
            match stream.read(&mut sink).await {
                Ok(0) | Err(_) => return,
                Ok(read) => left = left.saturating_sub(read),
            }
        }
    };
    // Whoever still sends by then gets the reset.
    let _ = timeout(LINGER, rest).await;
}
