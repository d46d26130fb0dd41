//! The door for MCP clients: the one visible, ordered list of layers, and what stands behind them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use hyper::body::Incoming;

mod accept;
mod body;
mod endpoint;
mod error;
mod layers;
mod legacy;
mod modern;
mod peers;
mod respond;
mod well_known;

use crate::auth::{Certificates, Principal};
use crate::config::Secret;
use crate::gateway::{Endpoint, Gateway, Snapshot};
use crate::net::{Body, Budget, Handler};
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
pub use layers::origin::Guard;
pub use legacy::Sessions;
pub use peers::{Peers, service as peer_service};

/// What every request needs.
#[derive(Debug)]
pub struct Door {
    /// The core.
    pub gateway: Arc<Gateway>,
    /// What `[gateway]` asks of every request, now.
    pub terms: ArcSwap<Terms>,
    /// Bytes that may be held.
    pub budget: Budget,
    /// Counts panics.
    pub tasks: Tasks,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Who clients are by their certificates.
    pub certificates: Certificates,
    /// Sessions of legacy clients.
    pub sessions: Arc<Sessions>,
    /// The other replicas, if there are any.
    pub peers: Option<Arc<Peers>>,
}

/// What `[gateway]` asks of every request.
#[derive(Debug)]
pub struct Terms {
    /// Scheme, host and port by which clients know us, without a slash at the end. Never out of a request.
    pub public: String,
    /// Which `Host` and `Origin` values are ours.
    pub guard: Guard,
    /// Bounds of one request.
    pub bounds: Bounds,
}

impl Door {
    /// The address of an endpoint as clients know it: the audience of tokens for it.
    fn resource(&self, endpoint: &Endpoint) -> String {
        format!("{}{}", self.terms.load().public, endpoint.config.path)
    }

    fn bounds(&self) -> Bounds {
        self.terms.load().bounds
    }
}

/// Bounds of `[gateway]` on one request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// `max_body`
    pub max_body: usize,
    /// `max_depth`
    pub max_depth: usize,
    /// `max_input_elements`
    pub max_elements: usize,
    /// `body_timeout`
    pub body_timeout: Duration,
    /// `keepalive_interval`
    pub keepalive: Duration,
}

/// A request on its way through the layers. Boxed: each of them would hold it twice.
type Request = Box<Visit>;

/// A request without its body, and what the layers learnt of it.
#[derive(Debug)]
struct Visit {
    http: http::Request<()>,
    /// What `X-Request-Id` says.
    id: u64,
    /// The configuration under which it came: the same for the whole of the request.
    snapshot: Arc<Snapshot>,
    /// The client's address.
    address: Option<IpAddr>,
    /// Who calls, once that is known.
    principal: Option<Arc<Principal>>,
    /// The caller's own token, where it is to be exchanged.
    token: Option<Secret>,
}

impl Visit {
    /// A request of which nothing is known yet.
    const fn new(http: http::Request<()>, snapshot: Arc<Snapshot>) -> Self {
        Self { http, id: 0, snapshot, address: None, principal: None, token: None }
    }
}

type Response = http::Response<Body>;

impl std::ops::Deref for Visit {
    type Target = http::Request<()>;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}

impl std::ops::DerefMut for Visit {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.http
    }
}

/// What serves a listener. Endpoints are looked up per request, so a new configuration needs no new service.
pub fn service(door: Arc<Door>) -> Handler {
    Arc::new(move |http: http::Request<Incoming>| {
        let door = Arc::clone(&door);
        // One box a request; an idle connection holds none of this.
        async move { pass(&door, http).await }.boxed()
    })
}

/// The layers. Functions around each other, since services of one type would be cloned and boxed at every layer.
async fn pass(door: &Arc<Door>, http: http::Request<Incoming>) -> Response {
    let (head, body) = http.into_parts();
    let mut payload = layers::unread::Payload::new(&head, body);
    let http = http::Request::from_parts(head, ());
    let request = Box::new(Visit::new(http, door.gateway.snapshot()));

    // Innermost first; a request passes them from the bottom up.
    let lent = &mut payload;
    let serve = move |request| {
        let payload = lent;
        endpoint::route(door, request, payload)
    };
    // Who calls: nothing about endpoints, methods or versions is told to others.
    let serve = move |request| layers::authn::check(door, request, serve);
    // Size: refused by its declared length, before anything is read (H-06).
    let serve = move |request| layers::bounds::check(door, request, serve);
    // Web pages that passed the guard may read answers, refusals too.
    let serve = move |request| layers::cors::allow(door, request, serve);
    // Host and Origin: before anything else is learnt (H-03, H-04, A-66).
    let serve = move |request| layers::origin::check(door, request, serve);
    // A panic in one request is that request's 500, never a dead gateway.
    let serve = move |request| layers::panic::catch(door, request, serve);
    // Outermost, so that every answer has a request id and every log line of a request names it.
    let mut response = layers::observe::follow(request, serve).await;
    // What a refusal left unread must not cost the client its next request.
    payload.read_away(&mut response).await;
    response
}
