//! Says when something happened in the folders of a configuration's files: written, replaced, or the link to them
//! turned, as Kubernetes does it with a ConfigMap.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Files;

/// Nothing has happened for this long: whoever writes is done.
const QUIET: Duration = Duration::from_millis(250);
/// Where something happens all the time it is looked at after this long all the same.
const LONGEST: Duration = Duration::from_secs(5);

/// Watches folders, not files: a file that is replaced is another one, its folder stays.
#[derive(Debug)]
pub struct Watch {
    /// `None`: this system has none to give.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    happened: Arc<Notify>,
}

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> Self {
        let happened = Arc::<Notify>::default();
        let told = Arc::clone(&happened);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // What was missed may have been of interest.
            if event.is_err() || event.is_ok_and(|event| changes(&event.kind)) {
                told.notify_one();
            }
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(%error, "files cannot be watched: changes are found a minute later, or by SIGHUP");
        });
        Self { watcher: watcher.ok(), folders: BTreeSet::new(), happened }
    }

    /// Watches the folders of these files from now on, and no others.
    pub fn follow(&mut self, files: &Files) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = files.folders();
        for gone in self.folders.difference(&wanted) {
            // It may not be there any more.
            let _ = watcher.unwatch(gone);
        }
        for folder in &wanted {
            // Those that are watched already as well: one may have been removed and made anew.
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                let folder = folder.display();
                tracing::debug!(%folder, %error, "a folder cannot be watched");
            }
        }
        self.folders = wanted;
    }

    /// Returns once something has happened since the last time, and then nothing for a moment.
    pub async fn changed(&self) {
        self.happened.notified().await;
        let latest = Instant::now() + LONGEST;
        loop {
            let quiet = (Instant::now() + QUIET).min(latest);
            if timeout_at(quiet, self.happened.notified()).await.is_err() {
                return;
            }
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether it leaves something else behind. Reading does not, and we read ourselves.
const fn changes(kind: &EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(AccessMode::Write)))
}
