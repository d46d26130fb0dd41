//! The one place that records how a request ended; a record dropped open means it was cancelled.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Call;
use super::error::GatewayError;
use super::view::Route;
use crate::auth::Principal;
use crate::protocol::edit::Parts;
use crate::protocol::method::Method;
use crate::protocol::version::Era;
use crate::telemetry::{Metrics, Outcome};

/// One request from arrival to end.
#[derive(Debug)]
pub(super) struct Record {
    metrics: Arc<Metrics>,
    method: Method,
    era: Era,
    principal: Arc<Principal>,
    arrived: Instant,
    /// Time spent waiting for servers.
    waited: Duration,
    server: Option<Arc<str>>,
    route: Option<Arc<Route>>,
    /// Set where a successful answer is not simply `ok`.
    outcome: Option<Outcome>,
    closed: bool,
}

impl Record {
    pub(super) fn open(metrics: &Arc<Metrics>, call: &Call) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            method: call.method,
            era: call.client.era,
            principal: Arc::clone(&call.principal),
            arrived: call.arrived,
            waited: Duration::ZERO,
            server: None,
            route: None,
            outcome: None,
            closed: false,
        }
    }

    /// The server the request went to, and for tools which one.
    pub(super) fn routed(&mut self, server: &Arc<str>, route: Option<&Arc<Route>>) {
        self.server = Some(Arc::clone(server));
        self.route = route.map(Arc::clone);
    }

    /// Time that was not ours.
    pub(super) fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    /// How an answer that is no error ended.
    pub(super) fn outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    pub(super) fn close(mut self, result: &Result<Parts, GatewayError>) {
        self.closed = true;
        let (outcome, bytes) = match result {
            Ok(parts) => (self.outcome.unwrap_or(Outcome::Ok), Some(parts.len())),
            Err(error) => (error.outcome(), None),
        };
        self.write(outcome, bytes);
    }

    fn write(&self, outcome: Outcome, bytes: Option<usize>) {
        let took = self.arrived.elapsed();
        let method = self.method.as_str();
        self.metrics.request(method, self.server.as_deref().unwrap_or_default(), outcome, self.era);
        self.metrics.client_call(self.principal.client_label(), outcome);
        self.metrics.overhead(method, took.saturating_sub(self.waited));
        if let Some(tool) = self.route.as_ref().and_then(|route| route.metrics.as_ref()) {
            tool.record(outcome, took, bytes);
        }
        tracing::debug!(
            method,
            server = self.server.as_deref(),
            outcome = outcome.as_str(),
            millis = took.as_millis(),
            "request"
        );
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.closed {
            self.write(Outcome::Cancelled, None);
        }
    }
}
