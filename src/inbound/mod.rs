//! The door for MCP clients: the router, and the one visible, ordered list of layers.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::any;
use tower_http::catch_panic::CatchPanicLayer;

mod accept;
mod body;
mod endpoint;
mod error;
mod layers;
mod modern;
mod respond;
mod well_known;

use crate::auth::Authenticator;
use crate::gateway::{Endpoint, Gateway};
use crate::net::Budget;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
pub use layers::origin::Guard;

/// What every request needs.
#[derive(Debug)]
pub struct Door {
    /// The core.
    pub gateway: Arc<Gateway>,
    /// Who is let in; without one everybody is, as `anonymous`.
    pub auth: ArcSwapOption<Authenticator>,
    /// Scheme, host and port by which clients know us, without a slash at the end. Never out of a request.
    pub public: String,
    /// Which `Host` and `Origin` values are ours.
    pub guard: Guard,
    /// Bytes that may be held.
    pub budget: Budget,
    /// Counts panics.
    pub tasks: Tasks,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Bounds of one request.
    pub bounds: Bounds,
}

impl Door {
    /// The address of an endpoint as clients know it: the audience of tokens for it.
    fn resource(&self, endpoint: &Endpoint) -> String {
        format!("{}{}", self.public, endpoint.config.path)
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

/// The router. Endpoints are looked up per request, so a new configuration needs no new router.
pub fn router(door: Arc<Door>) -> Router {
    let panics = layers::panic::Answer(door.tasks.clone());
    Router::new()
        .route("/.well-known/{*path}", any(well_known::serve))
        .fallback(endpoint::serve)
        .with_state(Arc::clone(&door))
        // Innermost first; a request passes them from the bottom up.
        // Who calls: nothing about endpoints, methods or versions is told to others.
        .layer(from_fn_with_state(Arc::clone(&door), layers::authn::check))
        // Size: refused by its declared length, before anything is read (H-06).
        .layer(from_fn_with_state(Arc::clone(&door), layers::bounds::check))
        // Web pages that passed the guard may read answers, refusals too.
        .layer(from_fn_with_state(Arc::clone(&door), layers::cors::allow))
        // Host and Origin: before anything else is learnt (H-03, H-04, A-66).
        .layer(from_fn_with_state(Arc::clone(&door), layers::origin::check))
        // What a refusal left unread must not cost the client its next request.
        .layer(from_fn_with_state(Arc::clone(&door), layers::unread::read_away))
        // A panic in one request is that request's 500, never a dead gateway.
        .layer(CatchPanicLayer::custom(panics))
        // Outermost, so that every answer has a request id and every log line of a request names it.
        .layer(from_fn_with_state(door, layers::observe::follow))
}
