//! What the status page shows, gathered when somebody looks: the same numbers as `/metrics`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use tokio::time::Instant;

use super::history::{BARS, Bars, History, STEP, Track, totals};
use crate::admin::Desk;
use crate::catalogue::Member;
use crate::config::Guarding;
use crate::protocol::method::Kind;
use crate::telemetry::metrics::reading::{Counted, ToolReading};
use crate::telemetry::plain;

/// Tools shown: those called most in the last minutes, then most of all.
const MOST_TOOLS: usize = 300;
/// Servers shown.
const MOST_SERVERS: usize = 500;
/// Characters of a name or an error.
const LONGEST: usize = 120;

/// The parts of a report as JSON texts by key, each told again only when it is another than before.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) sections: Vec<(&'static str, String)>,
    /// By their ids.
    pub(super) tools: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Gateway {
    version: &'static str,
    /// In seconds since 1970, like every other time of a report.
    now: u64,
    started: u64,
    /// Why traffic is not welcome.
    not_ready: Option<String>,
    requests: u64,
    faults: u64,
    outcomes: BTreeMap<String, u64>,
    eras: BTreeMap<String, u64>,
    inflight: i64,
    streams: i64,
    sessions: i64,
    parked: i64,
    connections: usize,
    buffered: usize,
    panics: u64,
    audit_dropped: u64,
    /// Tools that were called and are not shown.
    tools_left_out: usize,
}

#[derive(Serialize)]
struct Traffic {
    /// Seconds a bar is of.
    step: u64,
    bars: usize,
    calls: Vec<u32>,
    faults: Vec<u32>,
}

#[derive(Serialize)]
struct ServerRow {
    name: String,
    owner: Option<String>,
    /// stdio or http.
    link: &'static str,
    era: Option<&'static str>,
    version: Option<String>,
    /// up, down, or new: not spoken with yet.
    state: &'static str,
    error: Option<String>,
    error_at: Option<u64>,
    retry_in: Option<u64>,
    inflight: i64,
    waiting: usize,
    permits: usize,
    breaker: Option<&'static str>,
    required: bool,
    restarts: u64,
    /// Each caller is shown his own: nothing is said of items.
    per_user: bool,
    items: BTreeMap<&'static str, usize>,
    /// When the oldest of its known lists was asked for.
    known_since: Option<u64>,
    contract: Option<&'static str>,
}

#[derive(Serialize)]
struct ToolRow<'a> {
    /// The same for the same tool: its name may be shown cut.
    id: &'a str,
    server: &'a str,
    tool: String,
    calls: u64,
    faults: u64,
    outcomes: &'a BTreeMap<String, u64>,
    /// In milliseconds, of the last minutes.
    p50: Option<f64>,
    p95: Option<f64>,
    recent: u64,
    bars: Vec<u32>,
    bad: Vec<u32>,
}

#[derive(Serialize)]
struct Refusal {
    by: &'static str,
    why: String,
    count: u64,
}

/// Gathers everything.
pub(super) fn gather(desk: &Desk, history: &History) -> Report {
    let mut report = Report::default();
    let outcomes = desk.gateway.metrics.counts_by(Counted::Requests, "outcome");
    let all = totals(&outcomes);
    let left_out = tools(desk, history, &mut report);
    let Bars { calls, faults } = history.all.bars(all);
    report.section("gateway", &gateway(desk, outcomes, all, left_out));
    report.section("traffic", &Traffic { step: STEP.as_secs(), bars: BARS, calls, faults });
    report.section("servers", &servers(desk));
    report.section("refusals", &refusals(desk));
    let recent = &desk.gateway.metrics.recent;
    report.section("changes", &recent.changes());
    report.section("denials", &recent.denials());
    report.section("contracts", &recent.contracts());
    report.section("reloads", &recent.reloads());
    report
}

impl Report {
    pub(super) fn section(&mut self, key: &'static str, part: &impl Serialize) {
        self.sections.push((key, json(part)));
    }
}

/// Strings, numbers and lists of ours cannot fail to be JSON.
fn json(part: &impl Serialize) -> String {
    serde_json::to_string(part).unwrap_or_else(|_| "null".to_owned())
}

/// Seconds since 1970.
pub(super) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// When it was `ago`.
fn back(ago: Duration) -> u64 {
    SystemTime::now().checked_sub(ago).map_or(0, seconds)
}

fn gateway(
    desk: &Desk,
    outcomes: BTreeMap<String, u64>,
    (requests, faults): (u64, u64),
    tools_left_out: usize,
) -> Gateway {
    let metrics = &desk.gateway.metrics;
    let standings = desk.gateway.servers.all().iter().map(|server| server.standing().inflight).sum();
    Gateway {
        version: env!("CARGO_PKG_VERSION"),
        now: seconds(SystemTime::now()),
        started: back(desk.status.started.elapsed()),
        not_ready: desk.readiness.waiting_for(),
        requests,
        faults,
        outcomes,
        eras: metrics.counts_by(Counted::Requests, "era"),
        inflight: standings,
        streams: metrics.listen_streams().get(),
        sessions: metrics.sessions().get(),
        parked: metrics.parked_calls().get(),
        connections: desk.stats.open(),
        buffered: desk.budget.used(),
        panics: desk.tasks.panics(),
        audit_dropped: metrics.audit_dropped().get(),
        tools_left_out,
    }
}

fn servers(desk: &Desk) -> Vec<ServerRow> {
    desk.gateway.catalogue.members().iter().take(MOST_SERVERS).map(|member| server(member)).collect()
}

fn server(member: &Member) -> ServerRow {
    let (server, standing) = (&member.server, member.server.standing());
    let config = &server.config;
    let (error, error_at) = standing.failure.map(|(text, at)| (plain(&text, LONGEST), seconds(at))).unzip();
    let known = Kind::ALL.map(|kind| (kind, member.service.known(kind).filter(|_| !member.is_per_user())));
    let known = || known.iter().filter_map(|(kind, known)| Some((kind, known.as_ref()?)));
    let shown = known().filter(|(_, known)| known.offered);
    let now = Instant::now();
    let oldest = known().filter(|(_, known)| known.offered).map(|(_, known)| known.received).min();
    ServerRow {
        name: config.name.clone(),
        owner: config.owner.clone(),
        link: if config.is_stdio() { "stdio" } else { "http" },
        era: standing.era,
        version: standing.version.map(|version| plain(&version, LONGEST)),
        state: match (standing.up, &error) {
            (true, _) => "up",
            (false, Some(_)) => "down",
            (false, None) => "new",
        },
        error,
        error_at,
        retry_in: standing.retry_in.map(|wait| wait.as_secs()),
        inflight: standing.inflight,
        waiting: standing.waiting,
        permits: config.permits(),
        breaker: standing.breaker,
        required: config.required,
        restarts: standing.restarts,
        per_user: member.is_per_user(),
        items: shown.map(|(kind, known)| (kind.as_str(), known.items.len())).collect(),
        known_since: oldest.map(|received| back(now.saturating_duration_since(received))),
        contract: match config.contract {
            Guarding::Off => None,
            Guarding::Report => Some("report"),
            Guarding::Hold => Some("hold"),
        },
    }
}

/// Adds the tools; how many were left out.
fn tools(desk: &Desk, history: &History, report: &mut Report) -> usize {
    let readings = desk.gateway.metrics.tool_readings();
    let mut rows: Vec<_> = readings
        .iter()
        .map(|(key, reading)| {
            let bars = history.tool(key).map(|track| track.bars(totals(&reading.outcomes)));
            // Called for the first time since the last sample.
            let bars = bars.unwrap_or_else(|| Track::default().bars(totals(&reading.outcomes)));
            let recent: u64 = bars.calls.iter().map(|calls| u64::from(*calls)).sum();
            (recent, key, reading, bars)
        })
        .collect();
    rows.sort_by_key(|(recent, _, reading, _)| std::cmp::Reverse((*recent, reading.calls())));
    let left_out = rows.len().saturating_sub(MOST_TOOLS);
    for (recent, key, reading, bars) in rows.into_iter().take(MOST_TOOLS) {
        let id = id(key);
        let row = ToolRow { id: &id, ..tool(history, key, reading, (recent, bars)) };
        report.tools.insert(id.clone(), json(&row));
    }
    left_out
}

fn id((server, tool): &(String, String)) -> String {
    // Names of servers hold no line break.
    let digest = digest(&SHA256, format!("{server}\n{tool}").as_bytes());
    URL_SAFE_NO_PAD.encode(&digest.as_ref()[..12])
}

fn tool<'a>(
    history: &History,
    key: &'a (String, String),
    reading: &'a ToolReading,
    (recent, bars): (u64, Bars),
) -> ToolRow<'a> {
    let (calls, faults) = totals(&reading.outcomes);
    let fresh = Track::default();
    let track = history.tool(key).unwrap_or(&fresh);
    let millis = |share| track.quantile(reading, share).map(|seconds| (seconds * 1e4).round() / 10.0);
    ToolRow {
        id: "",
        server: &key.0,
        tool: plain(&key.1, LONGEST),
        calls,
        faults,
        outcomes: &reading.outcomes,
        p50: millis(0.5),
        p95: millis(0.95),
        recent,
        bars: bars.calls,
        bad: bars.faults,
    }
}

fn refusals(desk: &Desk) -> Vec<Refusal> {
    let metrics = &desk.gateway.metrics;
    let kinds = [
        ("credential", Counted::AuthRejections, "reason"),
        ("header", Counted::HeaderRejections, "header"),
        ("limit", Counted::Limited, "limit"),
    ];
    let of = |(by, which, label): (&'static str, Counted, &str)| {
        let counts = metrics.counts_by(which, label).into_iter();
        counts.map(move |(why, count)| Refusal { by, why: plain(&why, LONGEST), count }).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(of).filter(|refusal| refusal.count > 0).collect()
}
