//! Typed functions to record every metric (design §8). Labels are bounded: nothing a client invents becomes one.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    TextEncoder,
};

use super::clients::{ClientCalls, REST};
use super::labels::Tools;
use super::outcome::Outcome;
use super::recent::Recent;
use super::reloads::Reloads;
use super::usage::Usage;
use crate::protocol::version::Era;

pub mod reading;

/// The process's metrics; one instance, handed down.
#[derive(Debug)]
pub struct Metrics {
    pub(super) registry: Registry,
    pub(super) requests: IntCounterVec,
    pub(super) tool_calls: IntCounterVec,
    pub(super) tool_seconds: HistogramVec,
    pub(super) tools: Tools,
    pub(super) result_bytes: HistogramVec,
    pub(super) overhead: HistogramVec,
    pub(super) inflight: IntGaugeVec,
    pub(super) server_up: IntGaugeVec,
    pub(super) missing: IntGaugeVec,
    pub(super) items: IntGaugeVec,
    pub(super) age: IntGaugeVec,
    pub(super) cache: IntCounterVec,
    pub(super) auth_rejections: IntCounterVec,
    pub(super) client_calls: ClientCalls,
    pub(super) header_rejections: IntCounterVec,
    pub(super) list_changed: IntCounterVec,
    pub(super) playbooks: IntGaugeVec,
    pub(super) listen_streams: IntGauge,
    pub(super) parked_calls: IntGauge,
    pub(super) sessions: IntGauge,
    pub(super) limited: IntCounterVec,
    pub(super) child_restarts: IntCounterVec,
    pub(super) audit_dropped: IntCounter,
    pub(super) server_noise: IntCounterVec,
    pub(super) clashes: IntGaugeVec,
    pub(super) contract_changes: IntCounterVec,
    pub(super) breaker: IntGaugeVec,
    pub(super) reloads: Reloads,
    pub(super) usage: Usage,
    pub(super) spans_dropped: IntCounter,
    pub(super) panics: IntCounter,
    pub(super) tasks: IntGauge,
    pub(super) connections: IntGauge,
    pub(super) buffered: IntGauge,
    /// What happened lately, for the status page.
    pub recent: Recent,
}

impl Metrics {
    /// The Prometheus text exposition, version 0.0.4.
    pub fn render(&self) -> String {
        let mut out = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut out) {
            tracing::error!(%error, "metrics could not be rendered");
        }
        String::from_utf8(out).unwrap_or_default()
    }

    /// One request ended. `method` and `server` come from tables of ours.
    pub fn request(&self, method: &str, server: &str, outcome: Outcome, era: Era) {
        self.requests.with_label_values(&[method, server, outcome.as_str(), era.as_str()]).inc();
    }

    /// Our own share of a request's time.
    pub fn overhead(&self, method: &str, own: Duration) {
        self.overhead.with_label_values(&[method]).observe(own.as_secs_f64());
    }

    /// Handles for one exposed tool, resolved once and kept in its catalogue entry. A server that offers other tools
    /// every day has labels for so many; the rest of its tools share one.
    pub fn tool(&self, server: &str, tool: &str) -> ToolMetrics {
        let tool = if self.tools.admits(server, tool) { tool } else { REST };
        ToolMetrics {
            outcomes: Outcome::ALL.map(|o| self.tool_calls.with_label_values(&[server, tool, o.as_str()])),
            seconds: self.tool_seconds.with_label_values(&[server, tool]),
            bytes: self.result_bytes.with_label_values(&[server, tool]),
        }
    }

    /// The in-flight gauge of one server.
    pub fn inflight(&self, server: &str) -> IntGauge {
        self.inflight.with_label_values(&[server])
    }

    /// The up gauge of one server.
    pub fn server_up(&self, server: &str) -> IntGauge {
        self.server_up.with_label_values(&[server])
    }

    /// Whether nothing is known of a server.
    pub fn missing(&self, server: &str) -> IntGauge {
        self.missing.with_label_values(&[server])
    }

    /// What a server offers of one kind.
    pub fn catalogue(&self, server: &str, kind: &str, items: usize) {
        self.items.with_label_values(&[server, kind]).set(i64::try_from(items).unwrap_or(i64::MAX));
    }

    /// Age in seconds of what is known of a server.
    pub fn catalogue_age(&self, server: &str, kind: &str, age: Duration) {
        self.age.with_label_values(&[server, kind]).set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    }

    /// One catalogue look-up; `result` is hit, stale or miss.
    pub fn cache(&self, kind: &str, result: &str) {
        self.cache.with_label_values(&[kind, result]).inc();
    }

    /// A credential that was not taken; `reason` comes from a table of ours.
    pub fn auth_rejection(&self, reason: &str) {
        self.auth_rejections.with_label_values(&[reason]).inc();
    }

    /// One request of a verified client ended.
    pub fn client_call(&self, client: &str, outcome: Outcome) {
        self.client_calls.record(client, outcome);
    }

    /// A notice of a changed list; `direction` is in or out, `server` empty for out.
    pub fn list_changed(&self, server: &str, kind: &str, direction: &str) {
        self.list_changed.with_label_values(&[server, kind, direction]).inc();
    }

    /// Playbooks in a state: loaded, unused since the start, or a sort of fault.
    pub fn playbooks(&self, state: &str, count: usize) {
        self.playbooks.with_label_values(&[state]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Streams of changes that clients hold open.
    pub const fn listen_streams(&self) -> &IntGauge {
        &self.listen_streams
    }

    /// Calls whose servers wait for answers of their clients.
    pub const fn parked_calls(&self) -> &IntGauge {
        &self.parked_calls
    }

    /// Sessions of legacy clients that are known here.
    pub const fn sessions(&self) -> &IntGauge {
        &self.sessions
    }

    /// A header that disagreed; `header` is method, name, param or version.
    pub fn header_rejection(&self, header: &str) {
        self.header_rejections.with_label_values(&[header]).inc();
    }

    /// A refusal by a bound of the configuration.
    pub fn limited(&self, limit: &str) {
        self.limited.with_label_values(&[limit]).inc();
    }

    /// Audit lines that could not be written.
    pub const fn audit_dropped(&self) -> &IntCounter {
        &self.audit_dropped
    }

    /// The restart counter of one stdio server.
    pub fn child_restarts(&self, server: &str) -> IntCounter {
        self.child_restarts.with_label_values(&[server])
    }

    /// A message of a server that was dropped.
    pub fn violation(&self, server: &str, kind: &str) {
        self.server_noise.with_label_values(&[server, kind]).inc();
    }

    /// So many more of them, counted elsewhere.
    pub fn violations(&self, server: &str, kind: &str, more: u64) {
        self.server_noise.with_label_values(&[server, kind]).inc_by(more);
    }

    /// Readings of the configuration.
    pub const fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// A definition that differs from the approved one.
    pub fn contract_change(&self, server: &str, class: &str) {
        self.contract_changes.with_label_values(&[server, class]).inc();
    }

    /// The breaker gauge of one server: 0 closed, 1 half-open, 2 open.
    pub fn breaker_state(&self, server: &str) -> IntGauge {
        self.breaker.with_label_values(&[server])
    }

    /// Spans that could not be exported.
    pub const fn spans_dropped(&self) -> &IntCounter {
        &self.spans_dropped
    }

    /// Items of a server that were renamed or dropped.
    pub fn clashes(&self, server: &str, count: usize) {
        self.clashes.with_label_values(&[server]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A server left the configuration: its gauges go, its counters stay.
    pub fn forget(&self, server: &str) {
        for gauge in [&self.inflight, &self.server_up, &self.missing, &self.clashes, &self.breaker] {
            let _ = gauge.remove_label_values(&[server]);
        }
        for kind in crate::protocol::method::Kind::ALL {
            let _ = self.items.remove_label_values(&[server, kind.as_str()]);
            let _ = self.age.remove_label_values(&[server, kind.as_str()]);
        }
    }

    /// Values that are read when they are asked for.
    pub fn sample(&self, sample: Sample) {
        self.panics.inc_by(sample.panics.saturating_sub(self.panics.get()));
        self.tasks.set(i64::try_from(sample.tasks).unwrap_or(i64::MAX));
        self.connections.set(i64::try_from(sample.connections).unwrap_or(i64::MAX));
        self.buffered.set(i64::try_from(sample.buffered).unwrap_or(i64::MAX));
    }
}

/// Process-wide values that others count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Panics caught so far.
    pub panics: u64,
    /// Background tasks running.
    pub tasks: usize,
    /// Client connections open.
    pub connections: usize,
    /// Bytes of bodies held.
    pub buffered: usize,
}

/// Resolved handles of one tool.
#[derive(Debug, Clone)]
pub struct ToolMetrics {
    outcomes: [IntCounter; 13],
    seconds: Histogram,
    bytes: Histogram,
}

impl ToolMetrics {
    /// One call of this tool ended; `bytes` of its result, if it had one.
    pub fn record(&self, outcome: Outcome, took: Duration, bytes: Option<usize>) {
        if let Some(at) = Outcome::ALL.iter().position(|o| *o == outcome) {
            self.outcomes[at].inc();
        }
        self.seconds.observe(took.as_secs_f64());
        if let Some(bytes) = bytes {
            self.bytes.observe(bytes as f64);
        }
    }
}
