//! `gatehouse diff --usage`: who still uses what is on its way out, and whether it can go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use serde_json::{Value, json};
use time::OffsetDateTime;
use url::Url;

use super::super::check::text::{clean, harmless_json};
use super::super::contract::{self, Common, Stop};
use crate::app::usage::file;
use crate::config::{Config, Override};
use crate::contract::aids::{NAME, argument_path};
use crate::net::{Reach, Remote};
use crate::tasks::Tasks;
use crate::telemetry::usage::{Report, Use};

/// What a running gateway gets to say where it counts.
const PATIENCE: Duration = Duration::from_secs(5);
const DAY: u64 = 24 * 60 * 60;

/// Server, native tool and path.
type Place = (String, String, String);

/// One deprecated path.
struct Path {
    place: Place,
    /// Whether the configuration still has it.
    configured: bool,
    /// By client.
    uses: Vec<Use>,
}

/// Whether all that is on its way out can go.
pub(super) async fn run(common: &Common, from: &[String], days: Option<u32>) -> Result<bool, Stop> {
    let config = Config::load(&common.config)?;
    let reports = reports(&config, from).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let horizon = days.map_or(0, |days| now.saturating_sub(u64::from(days) * DAY));
    // Of several replicas the one that has counted for the shortest time decides.
    let since = reports.iter().map(|report| report.since).max().unwrap_or(now);
    let whole = days.is_none() || since <= horizon;
    let paths = paths(&config, reports, horizon);
    let safe = whole && paths.iter().all(|path| path.uses.is_empty());
    if common.json {
        contract::print(&document(&paths, since, whole));
    } else {
        contract::print(&text(&paths, since, whole));
    }
    Ok(safe)
}

/// What was counted, wherever that is.
async fn reports(config: &Config, from: &[String]) -> Result<Vec<Report>, Stop> {
    let mut reports = Vec::new();
    for source in from {
        reports.push(read(config, source).await.map_err(|why| Stop::Usage(format!("{source}: {why}")))?);
    }
    if !from.is_empty() {
        return Ok(reports);
    }
    let running = format!("http://{}/usage", config.gateway.admin_listen);
    let mut tried = match read(config, &running).await {
        Ok(report) => return Ok(vec![report]),
        Err(why) => format!("{running}: {why}"),
    };
    if let Some(state_dir) = &config.gateway.state_dir {
        let kept = file(state_dir).display().to_string();
        match read(config, &kept).await {
            Ok(report) => return Ok(vec![report]),
            Err(why) => tried += &format!("; {kept}: {why}"),
        }
    }
    Err(Stop::Usage(format!("nobody says what was used: {tried}. Say where with --from")))
}

async fn read(config: &Config, source: &str) -> Result<Report, String> {
    let body = match Url::parse(source).ok().filter(|url| matches!(url.scheme(), "http" | "https")) {
        None => std::fs::read(source).map_err(|error| error.kind().to_string())?,
        Some(url) => {
            let tasks = Tasks::new();
            let remote = Remote::new(&url, Reach::Any, &tasks).map_err(|error| error.to_string())?;
            let asked = tokio::time::timeout(PATIENCE, remote.get_as(token(config))).await;
            let fetched = asked.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())?;
            if fetched.status != http::StatusCode::OK {
                return Err(format!("the answer has status {}", fetched.status.as_u16()));
            }
            fetched.body.to_vec()
        }
    };
    serde_json::from_slice(&body).map_err(|_| "is not what a gateway writes of uses".to_owned())
}

/// `admin.token`: all replicas of a gateway have the same.
fn token(config: &Config) -> Option<HeaderValue> {
    let mut value =
        HeaderValue::try_from(format!("Bearer {}", config.admin.token.as_ref()?.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Every path of the configuration, and every other that is still used.
fn paths(config: &Config, reports: Vec<Report>, horizon: u64) -> Vec<Path> {
    let configured: BTreeSet<Place> = config
        .servers
        .iter()
        .flat_map(|server| server.overrides.iter().map(move |(tool, over)| (server, tool, over)))
        .flat_map(|(server, tool, over)| {
            deprecated(over).into_iter().map(move |path| (server.name.clone(), tool.clone(), path))
        })
        .collect();
    let mut used: BTreeMap<Place, BTreeMap<String, Use>> = BTreeMap::new();
    for one in reports.into_iter().flat_map(|report| report.uses).filter(|one| one.last >= horizon) {
        let place = (one.server.clone(), one.tool.clone(), one.path.clone());
        let clients = used.entry(place).or_default();
        let known =
            clients.entry(one.client.clone()).or_insert_with(|| Use { count: 0, last: 0, ..one.clone() });
        known.count += one.count;
        known.last = known.last.max(one.last);
    }
    let all: BTreeSet<Place> = configured.iter().chain(used.keys()).cloned().collect();
    let path = |place: Place| Path {
        configured: configured.contains(&place),
        uses: used.get(&place).map(|clients| clients.values().cloned().collect()).unwrap_or_default(),
        place,
    };
    all.into_iter().map(path).collect()
}

/// What an override keeps alive.
fn deprecated(over: &Override) -> Vec<String> {
    let mut paths = Vec::new();
    if over.keeps_name() || over.is_retired() {
        paths.push(NAME.to_owned());
    }
    paths.extend(over.aliases.keys().map(|name| argument_path(name, "")));
    paths.extend(over.values.keys().map(|name| argument_path(name, "#value")));
    paths.extend(over.defaults.keys().map(|name| argument_path(name, "#default")));
    paths
}

fn document(paths: &[Path], since: u64, whole: bool) -> String {
    let told: Vec<Value> = paths
        .iter()
        .map(|path| {
            let uses: Vec<Value> = path
                .uses
                .iter()
                .map(|one| json!({ "client": one.client, "count": one.count, "last": at(one.last) }))
                .collect();
            json!({
                "server": path.place.0, "tool": path.place.1, "path": path.place.2,
                "configured": path.configured, "safe": whole && path.uses.is_empty(), "uses": uses,
            })
        })
        .collect();
    let safe = whole && paths.iter().all(|path| path.uses.is_empty());
    let document = json!({ "since": at(since), "whole": whole, "safe": safe, "paths": told });
    harmless_json(&format!("{document:#}")) + "\n"
}

fn text(paths: &[Path], since: u64, whole: bool) -> String {
    let mut out = String::new();
    for path in paths {
        let (server, tool, what) = &path.place;
        let gone = if path.configured { "" } else { ", no longer configured" };
        let verdict = match (path.uses.is_empty(), whole) {
            (true, true) => "unused, can go",
            (true, false) => "unused, but not counted for long enough",
            (false, _) => "still used",
        };
        out += &format!("{}: {verdict}{gone}\n", clean(&format!("{server}/{tool} {what}")));
        for one in &path.uses {
            out += &format!("  {:>8} × {}, last {}\n", one.count, clean(&one.client), at(one.last));
        }
    }
    let used = paths.iter().filter(|path| !path.uses.is_empty()).count();
    out + &format!("{used} of {} deprecated paths are still used; counted since {}\n", paths.len(), at(since))
}

/// Seconds since 1970 as people read them.
fn at(seconds: u64) -> String {
    let read = i64::try_from(seconds).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    let written = read.and_then(|at| at.format(&time::format_description::well_known::Rfc3339).ok());
    written.unwrap_or_else(|| seconds.to_string())
}
