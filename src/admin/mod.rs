//! The door for operators: health, metrics, the status page. GET and HEAD only, `Host` checked (design §8).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, HeaderValue, StatusCode, header};

mod ready;
pub mod status;
mod usage;

pub use ready::Readiness;

use crate::gateway::Gateway;
use crate::net::{Budget, ListenStats};
use crate::tasks::Tasks;
use crate::telemetry::metrics::Sample;

/// Which `Host` values an admin listener accepts.
pub trait HostCheck: Send + Sync + std::fmt::Debug {
    /// Whether this value is ours.
    fn allows(&self, host: &str) -> bool;
}

/// What the admin listener shows.
#[derive(Debug)]
pub struct Desk {
    /// Which hosts are ours.
    pub guard: Box<dyn HostCheck>,
    /// The core.
    pub gateway: Arc<Gateway>,
    /// Whether traffic is welcome.
    pub readiness: Arc<Readiness>,
    /// Client connections.
    pub stats: Arc<ListenStats>,
    /// Bytes held.
    pub budget: Budget,
    /// Tasks and panics.
    pub tasks: Tasks,
    /// The status page.
    pub status: status::Board,
}

/// `/livez`, `/readyz`, `/metrics`, and for whom they exist `/status` and `/usage`; what that shows is sampled from now on.
pub fn router(desk: Arc<Desk>) -> Router {
    desk.tasks.spawn("status", status::keep(Arc::clone(&desk)));
    Router::new()
        .route("/livez", get(|| async { text(StatusCode::OK, "ok\n".to_owned()) }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::clone(&desk))
        .merge(status::router(&desk))
        .layer(from_fn_with_state(desk, check_host))
}

async fn check_host(State(desk): State<Arc<Desk>>, request: Request<Body>, next: Next) -> Response {
    let host = request.uri().authority().map(|a| a.as_str()).or_else(|| host(request.headers()));
    if !host.is_some_and(|host| desk.guard.allows(host)) {
        return text(StatusCode::FORBIDDEN, "the Host is not among gateway.allowed_hosts\n".to_owned());
    }
    next.run(request).await
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

async fn readyz(State(desk): State<Arc<Desk>>) -> Response {
    match desk.readiness.waiting_for() {
        None => text(StatusCode::OK, "ready\n".to_owned()),
        Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    desk.gateway.catalogue.sample();
    desk.gateway.metrics.sample(Sample {
        panics: desk.tasks.panics(),
        tasks: desk.tasks.running(),
        connections: desk.stats.open(),
        buffered: desk.budget.used(),
    });
    let mut response = text(StatusCode::OK, desk.gateway.metrics.render());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn text(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("content-security-policy", HeaderValue::from_static("default-src 'none'"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
