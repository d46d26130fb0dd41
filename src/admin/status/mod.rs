//! The status page: one document, its numbers as JSON, and a stream that keeps it live (design §8).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::any;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior};

mod access;
mod document;
mod history;
mod live;
mod report;

use super::{Desk, text, usage};
use document::{PAGE, POLICY};
use history::{STEP, totals};
use live::{Frame, Frames};

use crate::telemetry::metrics::reading::Counted;

/// Pages that may look on at once.
const MOST_STREAMS: usize = 16;
/// How often those who look on are told.
const PACE: Duration = Duration::from_secs(1);
/// However many come to look on, no more often than this.
const RUSH: Duration = Duration::from_millis(250);

/// What the status page stands on.
#[derive(Debug)]
pub struct Board {
    /// The listener can be reached from this machine only.
    loopback: bool,
    started: Instant,
    /// What is told next depends on what was told before. A tokio mutex: held while one frame is made, on a thread that
    /// may block; nobody whose call is served waits for it.
    frames: tokio::sync::Mutex<Frames>,
    newest: watch::Sender<Option<Arc<Frame>>>,
    /// Somebody came to look on.
    wanted: Notify,
    streams: Arc<Semaphore>,
}

impl Board {
    /// A board on which nothing is written yet; `loopback`: its listener can be reached from this machine only.
    pub fn new(loopback: bool) -> Self {
        Self {
            loopback,
            started: Instant::now(),
            frames: tokio::sync::Mutex::default(),
            newest: watch::Sender::new(None),
            wanted: Notify::new(),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        }
    }
}

/// `/status`, `/status/data`, `/status/stream`, `/usage`; to those for whom they do not exist, nothing.
pub(super) fn router(desk: &Arc<Desk>) -> Router {
    // Of any method: which are served is said to those only for whom there is a page.
    Router::new()
        .route("/status", any(page))
        .route("/status/data", any(data))
        .route("/status/stream", any(live::stream))
        .route("/usage", any(usage::show))
        .with_state(Arc::clone(desk))
        .layer(from_fn_with_state(Arc::clone(desk), access::check))
}

/// Samples the counters, and writes frames while somebody looks on.
pub(super) async fn keep(desk: Arc<Desk>) {
    let mut samples = tokio::time::interval(STEP);
    samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first comes at once.
    samples.tick().await;
    loop {
        let board = &desk.status;
        let watched = board.newest.receiver_count() > 0;
        tokio::select! {
            _ = samples.tick() => {
                sample(&desk).await;
                continue;
            }
            () = board.wanted.notified() => {}
            () = tokio::time::sleep(PACE), if watched => {}
        }
        if let Some(frame) = frame(&desk).await {
            desk.status.newest.send_replace(Some(Arc::new(frame)));
        }
        tokio::time::sleep(RUSH).await;
    }
}

/// Runs on a thread that may block: of thousands of tools it takes a while.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // It neither panics nor is cancelled, unless the process ends.
    tokio::task::spawn_blocking(work).await.ok()
}

async fn sample(desk: &Arc<Desk>) {
    let own = Arc::clone(desk);
    aside(move || {
        let metrics = &own.gateway.metrics;
        let all = totals(&metrics.counts_by(Counted::Requests, "outcome"));
        let tools = metrics.tool_readings();
        own.status.frames.blocking_lock().history.sample(all, &tools);
    })
    .await;
}

/// The next frame for those who look on.
async fn frame(desk: &Arc<Desk>) -> Option<Frame> {
    let own = Arc::clone(desk);
    aside(move || {
        let mut frames = own.status.frames.blocking_lock();
        let report = report::gather(&own, &frames.history);
        frames.next(report)
    })
    .await
}

async fn page() -> Response {
    let mut response = text(StatusCode::OK, PAGE.clone());
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert("content-security-policy", POLICY.clone());
    response
}

async fn data(State(desk): State<Arc<Desk>>) -> Response {
    let own = Arc::clone(&desk);
    let whole = aside(move || {
        let frames = own.status.frames.blocking_lock();
        live::whole(&report::gather(&own, &frames.history))
    });
    match whole.await {
        Some(whole) => json(whole),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
    }
}

fn json(body: String) -> Response {
    let mut response = text(StatusCode::OK, String::new());
    *response.body_mut() = Body::from(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
