//! The door for MCP clients: the router, and the one visible, ordered list of layers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tower_http::catch_panic::CatchPanicLayer;

mod accept;
mod body;
mod endpoint;
mod error;
mod layers;
mod modern;
mod respond;

use crate::gateway::Gateway;
use crate::net::Budget;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
pub use layers::origin::Guard;

/// What every request needs.
#[derive(Debug)]
pub struct Door {
    /// The core.
    pub gateway: Arc<Gateway>,
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
        .fallback(endpoint::serve)
        .with_state(Arc::clone(&door))
        // Innermost first; a request passes them from the bottom up.
        // Size: refused by its declared length, before anything is read (H-06).
        .layer(from_fn_with_state(Arc::clone(&door), layers::bounds::check))
        // Host and Origin: before anything else is learnt (H-03, H-04, A-66).
        .layer(from_fn_with_state(Arc::clone(&door), layers::origin::check))
        // A panic in one request is that request's 500, never a dead gateway.
        .layer(CatchPanicLayer::custom(panics))
        // Outermost, so that every answer has a request id and every log line of a request names it.
        .layer(from_fn_with_state(door, layers::observe::follow))
}
