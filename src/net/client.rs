//! The HTTP client for one server: `send` is the only way out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri, Version, request};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::body::Body;
use super::client_identity::ClientIdentity;
use super::connect::{Dialer, Wire, bracketed};
use super::error::{ClientError, Stage, chain};
use super::h1::H1;
use super::h2;
use super::lease::{DialPermit, Grant, H2, Lease, Slot};
use super::pool::{Dialect, Pool, Taken};
use super::proxy::Proxy;
use super::reach::Reach;
use super::tls::Tls;
use crate::protocol::edit::Parts;
use crate::tasks::Tasks;

/// How to reach one server.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Scheme (http or https), host and port; the path is the caller's.
    pub url: Url,
    /// For resolving, connecting, proxy and TLS together, and for waiting for a connection when all are in use.
    pub connect_timeout: Duration,
    /// An HTTP proxy (`http://user:password@host:port`) that is asked for a tunnel.
    pub proxy: Option<Url>,
    /// PEM file with the certificates to trust instead of the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Without `ca_file`: PEM file with certificates to trust besides the system's roots.
    pub also_ca_file: Option<PathBuf>,
    /// What is shown to a server that asks for a certificate.
    pub identity: Option<Arc<ClientIdentity>>,
    /// Which addresses may be connected to, after resolving.
    pub reach: Reach,
    /// How long a connection is kept without a call.
    pub idle_timeout: Duration,
    /// Connections at once.
    pub max_connections: usize,
    /// How often an HTTP/2 server is asked for a sign of life, and how long it may take for it: a dead connection
    /// is noticed after twice this time at most.
    pub h2_ping: Duration,
}

impl ClientOptions {
    /// The defaults for `url`: 5 s to connect, 60 s idle, 256 connections, pings every 10 s.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            connect_timeout: Duration::from_secs(5),
            proxy: None,
            ca_file: None,
            also_ca_file: None,
            identity: None,
            reach: Reach::Any,
            idle_timeout: Duration::from_secs(60),
            max_connections: 256,
            h2_ping: Duration::from_secs(10),
        }
    }
}

/// A pool of connections to one server. Dropping it closes the idle ones; answers being read go on.
pub struct Client {
    pub(super) pool: Arc<Pool>,
    dialer: Dialer,
    tasks: Tasks,
    scheme: Scheme,
    authority: Authority,
    /// The same as a header value (F-050: the server's own host, whatever the caller was asked for).
    host: HeaderValue,
    h2_ping: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// A request that came to nothing.
struct Failed {
    error: ClientError,
    /// The request, if the server has not seen it.
    unsent: Option<(request::Parts, Parts)>,
}

impl Client {
    /// Checks the options. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// A `ca_file` (either) that is missing or holds no certificate (named), a proxy that is not http, a URL without a host
    /// or of another scheme than http and https.
    pub fn new(options: ClientOptions, tasks: Tasks) -> Result<Self, ClientError> {
        let bad = |why: &str| ClientError::unsent(Stage::Connect, format!("the server's URL {why}"));
        let host = options.url.host().ok_or_else(|| bad("has no host"))?;
        let tls = match options.url.scheme() {
            "http" => None,
            "https" => {
                let (only, also) = (options.ca_file.as_deref(), options.also_ca_file.as_deref());
                Some(Tls::new(&host, only, also, options.identity.as_ref())?)
            }
            _ => return Err(bad("is neither http nor https")),
        };
        let name = host.to_string();
        let port = options.url.port_or_known_default().ok_or_else(|| bad("has no port"))?;
        let authority = options.url.port().map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
        let bare = name.trim_matches(['[', ']']).to_owned();
        let dialect = if tls.is_some() { Dialect::Unknown } else { Dialect::H1 };
        Ok(Self {
            pool: Pool::new(options.max_connections, options.idle_timeout, dialect, tasks.clone()),
            scheme: if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP },
            host: HeaderValue::try_from(&authority).map_err(|_| bad("has an odd host"))?,
            authority: Authority::try_from(authority).map_err(|_| bad("has an odd host"))?,
            dialer: Dialer {
                target: format!("{}:{port}", bracketed(&bare)),
                host: bare,
                port,
                proxy: options.proxy.as_ref().map(Proxy::new).transpose()?,
                tls,
                reach: options.reach,
                timeout: options.connect_timeout,
            },
            h2_ping: options.h2_ping,
            tasks,
        })
    }

    /// Sends a request: the caller gives method, path with query, and headers; `Host` is ours. Redirects are answers
    /// like any other (H-68), compression is not asked for (F-073). Dropping the future or the answer's body before
    /// its end gives up the request: the stream is reset, an HTTP/1.1 connection closed.
    ///
    /// # Errors
    ///
    /// See [`Stage`]. A request of which the server has seen nothing was tried twice.
    pub async fn send(&self, request: Request<Parts>) -> Result<Response<Body>, ClientError> {
        let (mut head, mut body) = request.into_parts();
        self.prepare(&mut head);
        let mut again = false;
        loop {
            let connected = match self.pool.take(again) {
                Taken::Now(Grant::H1(h1)) => Connected::H1(h1),
                // Dialling is rare and large: apart, so that a call on an idle connection does not carry it along.
                taken => Box::pin(self.connection(taken)).await?,
            };
            let failed = match connected {
                Connected::H1(h1) => self.send_h1(h1, head, body).await,
                Connected::H2(slot) => Box::pin(self.send_h2(slot, head, body)).await,
            };
            match failed {
                Ok(answer) => return Ok(answer),
                Err(Failed { unsent: Some(unsent), .. }) if !again => (head, body) = unsent,
                Err(failed) => return Err(failed.error),
            }
            again = true;
        }
    }

    /// Connections open now, in use or idle.
    pub fn connections(&self) -> usize {
        self.pool.connections()
    }

    fn prepare(&self, head: &mut request::Parts) {
        head.version = Version::HTTP_11;
        head.headers.insert(HOST, self.host.clone());
        if !head.headers.contains_key(ACCEPT_ENCODING) {
            head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if head.uri.authority().is_some() || head.uri.path().is_empty() {
            let path = head.uri.path_and_query().filter(|path| !path.path().is_empty());
            head.uri = path.cloned().unwrap_or_else(|| PathAndQuery::from_static("/")).into();
        }
    }

    /// An idle connection at once, else a new one, else the first that becomes free.
    async fn connection(&self, taken: Taken) -> Result<Connected, ClientError> {
        let (grant, deadline) = match taken {
            Taken::Now(grant) => (grant, None),
            Taken::Wait(receiver) => {
                let deadline = Instant::now() + self.dialer.timeout;
                match timeout_at(deadline, receiver).await {
                    Ok(Ok(grant)) => (grant, Some(deadline)),
                    // The sender is dropped only with the pool.
                    Ok(Err(_)) | Err(_) => return Err(self.waited_in_vain()),
                }
            }
        };
        match grant {
            Grant::H1(h1) => Ok(Connected::H1(h1)),
            Grant::H2(slot) => Ok(Connected::H2(slot)),
            Grant::Failed(error) => Err(error),
            Grant::Dial(permit) => {
                let deadline = deadline.unwrap_or_else(|| Instant::now() + self.dialer.timeout);
                self.dial(permit, deadline).await
            }
        }
    }

    fn waited_in_vain(&self) -> ClientError {
        let (target, limit) = (&self.dialer.target, self.dialer.timeout);
        if self.pool.dialing() {
            ClientError::unsent(Stage::Connect, format!("{target}: no connection within {limit:?}"))
        } else {
            ClientError::unsent(Stage::Busy, format!("{target}: every connection was in use for {limit:?}"))
        }
    }

    async fn dial(&self, mut permit: DialPermit, deadline: Instant) -> Result<Connected, ClientError> {
        let dialed = match self.dialer.dial(deadline).await {
            Ok(Wire::H1(stream)) => H1::begin(stream, permit.counted()).await.map(Dialed::H1),
            Ok(Wire::H2(stream)) => {
                let started = h2::start(TokioIo::new(stream), self.h2_ping, &self.tasks, permit.counted());
                self.dialer.within(deadline, Stage::Connect, started).await.map(Dialed::H2)
            }
            Err(error) => Err(error),
        };
        match dialed {
            Ok(Dialed::H1(h1)) => {
                permit.opened_h1();
                Ok(Connected::H1(h1))
            }
            Ok(Dialed::H2(h2)) => Ok(Connected::H2(permit.opened_h2(h2))),
            Err(error) => {
                permit.failed(&error);
                Err(error)
            }
        }
    }

    async fn send_h1(&self, mut h1: H1, head: request::Parts, body: Parts) -> Result<Response<Body>, Failed> {
        match h1.send(Request::from_parts(head, Body::from(body))).await {
            Ok(answer) => {
                let lease = Lease::H1(h1, Arc::clone(&self.pool));
                Ok(answer.map(|incoming| Body::pooled(incoming, lease)))
            }
            Err(mut refused) => {
                let unsent = refused.take_message().and_then(|request| {
                    let (head, body) = request.into_parts();
                    body.into_unread().map(|body| (head, body))
                });
                Err(Failed { error: send_error(refused.error(), unsent.is_none()), unsent })
            }
        }
    }

    async fn send_h2(&self, slot: Slot, head: request::Parts, body: Parts) -> Result<Response<Body>, Failed> {
        let kept = (head.clone(), body.clone());
        let request = Request::from_parts(self.head_h2(head), Body::from(body));
        match slot.h2.try_send(request).await {
            Ok(answer) => Ok(answer.map(|incoming| Body::pooled(incoming, Lease::H2(slot)))),
            Err(mut refused) => {
                let returned = refused.take_message().is_some();
                if returned || h2::is_go_away(refused.error()) {
                    // Its task may not have noticed yet, and the second try must not come here again.
                    slot.h2.closed.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                let unsent = (returned || h2::unprocessed(refused.error())).then_some(kept);
                Err(Failed { error: send_error(refused.error(), unsent.is_none()), unsent })
            }
        }
    }

    /// `:scheme` and `:authority` instead of `Host`.
    fn head_h2(&self, mut head: request::Parts) -> request::Parts {
        head.headers.remove(HOST);
        head.version = Version::HTTP_2;
        let mut uri = std::mem::take(&mut head.uri).into_parts();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        // All three parts are valid on their own and present, which is all that is asked for.
        head.uri = Uri::from_parts(uri).unwrap_or_default();
        head
    }
}

enum Connected {
    H1(H1),
    H2(Slot),
}

enum Dialed {
    H1(H1),
    H2(Arc<H2>),
}

fn send_error(error: &hyper::Error, sent: bool) -> ClientError {
    let stage = if sent { Stage::Response } else { Stage::Send };
    if sent { ClientError::sent(stage, error) } else { ClientError::unsent(stage, chain(error)) }
}
