//! Every metric, declared once, with typed functions to record it (design §8). Labels are bounded: nothing a
//! client invents becomes one.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    TextEncoder,
};

use super::clients::ClientCalls;
use super::declare::{counter, gauge, histogram, register};
use super::outcome::Outcome;
use crate::protocol::version::Era;

/// The process's metrics; one instance, handed down.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    tool_calls: IntCounterVec,
    tool_seconds: HistogramVec,
    result_bytes: HistogramVec,
    overhead: HistogramVec,
    inflight: IntGaugeVec,
    server_up: IntGaugeVec,
    breaker_state: IntGaugeVec,
    missing: IntGaugeVec,
    items: IntGaugeVec,
    age: IntGaugeVec,
    cache: IntCounterVec,
    auth_rejections: IntCounterVec,
    client_calls: ClientCalls,
    header_rejections: IntCounterVec,
    list_changed: IntCounterVec,
    playbooks: IntGaugeVec,
    listen_streams: IntGauge,
    parked_calls: IntGauge,
    sessions: IntGauge,
    limited: IntCounterVec,
    child_restarts: IntCounterVec,
    audit_dropped: IntCounter,
    server_noise: IntCounterVec,
    clashes: IntGaugeVec,
    contract_changes: IntCounterVec,
    panics: IntCounter,
    tasks: IntGauge,
    connections: IntGauge,
    buffered: IntGauge,
}

/// 1 ms to 300 s.
const CALL_SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 300.0];
/// 256 B to 64 MiB, by four.
const RESULT_BYTES: [f64; 10] =
    [256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0];
/// 10 µs to 1 s.
const OVERHEAD_SECONDS: [f64; 11] = [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 2.5e-2, 0.1, 1.0];

impl Metrics {
    /// Declares and registers everything.
    #[expect(clippy::too_many_lines, reason = "a table: one entry a metric")]
    pub fn new() -> Result<Self, prometheus::Error> {
        let r = Registry::new();
        let metrics = Self {
            requests: counter(
                &r,
                "gatehouse_requests_total",
                "MCP requests by method, server, outcome and the client's era",
                &["method", "server", "outcome", "era"],
            )?,
            tool_calls: counter(
                &r,
                "gatehouse_tool_calls_total",
                "Tool calls by server, exposed tool name and outcome",
                &["server", "tool", "outcome"],
            )?,
            tool_seconds: histogram(
                &r,
                "gatehouse_tool_call_duration_seconds",
                "Time from a tool call's arrival to its end",
                &["server", "tool"],
                &CALL_SECONDS,
            )?,
            result_bytes: histogram(
                &r,
                "gatehouse_result_bytes",
                "Size of tool results",
                &["server", "tool"],
                &RESULT_BYTES,
            )?,
            overhead: histogram(
                &r,
                "gatehouse_overhead_seconds",
                "The gateway's own time per request, waiting for servers excluded",
                &["method"],
                &OVERHEAD_SECONDS,
            )?,
            inflight: gauge(&r, "gatehouse_inflight", "Requests being served by a server", &["server"])?,
            server_up: gauge(&r, "gatehouse_server_up", "1 when the last contact succeeded", &["server"])?,
            breaker_state: gauge(
                &r,
                "gatehouse_breaker_state",
                "0 when calls are sent to a server, 1 while it is tried again, 2 while none is sent",
                &["server"],
            )?,
            missing: gauge(
                &r,
                "gatehouse_catalogue_missing",
                "1 when nothing is known of what a server offers",
                &["server"],
            )?,
            items: gauge(
                &r,
                "gatehouse_catalogue_items",
                "Items a server offers, after allow and deny",
                &["server", "kind"],
            )?,
            age: gauge(
                &r,
                "gatehouse_catalogue_age_seconds",
                "Age of what is known of a server",
                &["server", "kind"],
            )?,
            cache: counter(
                &r,
                "gatehouse_cache_requests_total",
                "Catalogue look-ups by result",
                &["kind", "result"],
            )?,
            auth_rejections: counter(
                &r,
                "gatehouse_auth_rejections_total",
                "Requests refused for their credential",
                &["reason"],
            )?,
            client_calls: ClientCalls::new(counter(
                &r,
                "gatehouse_client_calls_total",
                "Requests by OAuth client or key, and outcome",
                &["client", "outcome"],
            )?),
            list_changed: counter(
                &r,
                "gatehouse_list_changed_total",
                "Notices of changed lists, from servers (in) and to clients (out)",
                &["server", "kind", "direction"],
            )?,
            playbooks: gauge(&r, "gatehouse_playbooks", "Playbooks by state", &["state"])?,
            listen_streams: register(
                &r,
                IntGauge::new("gatehouse_listen_streams", "Streams of changes that clients hold open")?,
            )?,
            parked_calls: register(
                &r,
                IntGauge::new(
                    "gatehouse_parked_calls",
                    "Calls whose servers wait for answers of their clients",
                )?,
            )?,
            sessions: register(&r, IntGauge::new("gatehouse_sessions", "Sessions of legacy clients")?)?,
            header_rejections: counter(
                &r,
                "gatehouse_header_rejections_total",
                "Requests whose MCP headers disagree with the body",
                &["header"],
            )?,
            limited: counter(&r, "gatehouse_limited_total", "Refusals by a bound", &["limit"])?,
            audit_dropped: register(
                &r,
                IntCounter::new("gatehouse_audit_dropped_total", "Audit lines that could not be written")?,
            )?,
            child_restarts: counter(
                &r,
                "gatehouse_child_restarts_total",
                "Restarts of a stdio server's process",
                &["server"],
            )?,
            server_noise: counter(
                &r,
                "gatehouse_server_violations_total",
                "Messages of a server that break the protocol and were dropped",
                &["server", "kind"],
            )?,
            clashes: gauge(&r, "gatehouse_name_clashes", "Items renamed or dropped by a clash", &["server"])?,
            contract_changes: counter(
                &r,
                "gatehouse_contract_changes_total",
                "Definitions of a server that differ from the approved ones, by what that means",
                &["server", "class"],
            )?,
            panics: register(
                &r,
                IntCounter::new("gatehouse_panics_total", "Panics caught in calls and tasks")?,
            )?,
            tasks: register(&r, IntGauge::new("gatehouse_tasks", "Background tasks running")?)?,
            connections: register(&r, IntGauge::new("gatehouse_connections", "Client connections open")?)?,
            buffered: register(&r, IntGauge::new("gatehouse_buffered_bytes", "Bytes of bodies held")?)?,
            registry: r,
        };
        let info = gauge(&metrics.registry, "gatehouse_build_info", "Version of this build", &["version"])?;
        info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        metrics.registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(metrics)
    }

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

    /// Handles for one exposed tool, resolved once and kept in its catalogue entry.
    pub fn tool(&self, server: &str, tool: &str) -> ToolMetrics {
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

    /// The breaker's gauge of one server: 0 closed, 1 half-open, 2 open.
    pub fn breaker_state(&self, server: &str) -> IntGauge {
        self.breaker_state.with_label_values(&[server])
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

    /// The same, counted elsewhere: `total` so far.
    pub fn violations(&self, server: &str, kind: &str, total: u64) {
        let counter = self.server_noise.with_label_values(&[server, kind]);
        counter.inc_by(total.saturating_sub(counter.get()));
    }

    /// A definition that differs from the approved one.
    pub fn contract_change(&self, server: &str, class: &str) {
        self.contract_changes.with_label_values(&[server, class]).inc();
    }

    /// Items of a server that were renamed or dropped.
    pub fn clashes(&self, server: &str, count: usize) {
        self.clashes.with_label_values(&[server]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A server left the configuration: its gauges go, its counters stay.
    pub fn forget(&self, server: &str) {
        for gauge in [&self.inflight, &self.server_up, &self.breaker_state, &self.missing, &self.clashes] {
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
