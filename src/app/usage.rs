//! What is counted of deprecated paths outlives the process: read from `state_dir` at the start, written there again and
//! again, and at the end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::catalogue::store::replace;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
use crate::telemetry::usage::Report;

/// How often what was counted is written, if it is more than before.
const OFTEN: Duration = Duration::from_secs(30);

/// Where the counts are kept under a `state_dir`.
pub fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("usage.json")
}

/// Goes on from what is there, and writes from now on.
pub(super) fn keep(state_dir: Option<&Path>, metrics: &Arc<Metrics>, tasks: &Tasks) {
    let Some(path) = state_dir.map(file) else { return };
    match std::fs::read(&path).map(|text| serde_json::from_slice::<Report>(&text)) {
        Ok(Ok(report)) => metrics.usage().restore(report),
        Ok(Err(_)) => tracing::warn!(path = %path.display(), "damaged, so uses are counted anew"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), %error, "uses are counted anew"),
    }
    let metrics = Arc::clone(metrics);
    tasks.spawn("usage", async move {
        let mut last = metrics.usage().report();
        loop {
            tokio::time::sleep(OFTEN).await;
            let now = metrics.usage().report();
            if now == last {
                continue;
            }
            let (path, report) = (path.clone(), now.clone());
            // A failure is logged where it happens.
            let _ = tokio::task::spawn_blocking(move || save(&path, &report)).await;
            last = now;
        }
    });
}

/// Writes what was counted until the end.
pub(super) fn close(state_dir: Option<&Path>, metrics: &Metrics) {
    if let Some(path) = state_dir.map(file) {
        save(&path, &metrics.usage().report());
    }
}

/// For the owner only, since clients are named in it.
fn save(path: &Path, report: &Report) {
    let content = serde_json::to_vec(report).map_err(io::Error::from);
    if let Err(error) = content.and_then(|content| replace(path, &content)) {
        tracing::warn!(path = %path.display(), %error, "uses of deprecated paths are not kept");
    }
}
