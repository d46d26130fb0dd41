//! Declares every metric, once: made, registered, handed over (design §8).

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::clients::ClientCalls;
use super::labels::Tools;
use super::metrics::Metrics;
use super::recent::Recent;
use super::reloads::Reloads;
use super::usage::Usage;

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
            tools: Tools::default(),
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
            breaker: gauge(
                &r,
                "gatehouse_breaker_state",
                "Whether a server is kept from requests: 0 closed, 1 half-open, 2 open",
                &["server"],
            )?,
            reloads: Reloads::new(&r)?,
            usage: Usage::new(&r)?,
            spans_dropped: register(
                &r,
                IntCounter::new("gatehouse_spans_dropped_total", "Spans that could not be exported")?,
            )?,
            panics: register(
                &r,
                IntCounter::new("gatehouse_panics_total", "Panics caught in calls and tasks")?,
            )?,
            tasks: register(&r, IntGauge::new("gatehouse_tasks", "Background tasks running")?)?,
            connections: register(&r, IntGauge::new("gatehouse_connections", "Client connections open")?)?,
            buffered: register(&r, IntGauge::new("gatehouse_buffered_bytes", "Bytes of bodies held")?)?,
            recent: Recent::default(),
            registry: r,
        };
        let info = gauge(&metrics.registry, "gatehouse_build_info", "Version of this build", &["version"])?;
        info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        metrics.registry.register(Box::new(ProcessCollector::for_self()))?;
        // There before anything happens, so that the first time counts as a rise.
        for header in ["method", "name", "param", "version"] {
            let _ = metrics.header_rejections.with_label_values(&[header]);
        }
        Ok(metrics)
    }
}

pub(super) fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

pub(super) fn counter(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    register(r, IntCounterVec::new(Opts::new(name, help), labels)?)
}

fn gauge(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
    register(r, IntGaugeVec::new(Opts::new(name, help), labels)?)
}

fn histogram(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    buckets: &[f64],
) -> Result<HistogramVec, prometheus::Error> {
    register(r, HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?)
}
