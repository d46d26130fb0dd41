//! What is counted of deprecated paths outlives the process: read from `state_dir` at the start, written there again and
//! again, and at the end.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

/// Whole or not at all; for the owner only, since clients are named in it.
fn save(path: &Path, report: &Report) {
    // The last one may come while another is still being written.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let write = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&serde_json::to_vec(report)?)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    if let Err(error) = write() {
        // What is left of it is of no use.
        let _ = std::fs::remove_file(&beside);
        tracing::warn!(path = %path.display(), %error, "uses of deprecated paths are not kept");
    }
}
