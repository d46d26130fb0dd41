//! What operators see of a running gateway besides its metrics: the audit log and traces, begun first, ended last.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::timeout;

use super::traces;
use crate::config::{AuditFile, Config};
use crate::gateway::Gateway;
use crate::tasks::Tasks;
use crate::telemetry::audit::{Audit, Target};
use crate::telemetry::{Metrics, Spans, export};

/// What the audit log gets to be written to its end, and the last spans to be sent.
const LAST: Duration = Duration::from_secs(2);

/// What outlives the requests it tells of.
#[derive(Debug)]
pub(super) struct Sight {
    spans: Option<Spans>,
    /// What sends spans: apart from the other tasks, whose ends it tells.
    own: Tasks,
    tasks: Tasks,
    metrics: Arc<Metrics>,
}

impl Sight {
    /// Begins to export spans, where the configuration says where to.
    pub(super) fn start(config: &Config, tasks: &Tasks, metrics: &Arc<Metrics>) -> anyhow::Result<Self> {
        let own = tasks.aside();
        let spans = traces::exporter(&config.telemetry, &own)?.map(|exporter| {
            let (spans, sending) = export::spans(metrics.spans_dropped());
            own.spawn("traces", sending.run(exporter));
            spans
        });
        Ok(Self { spans, own, tasks: tasks.clone(), metrics: Arc::clone(metrics) })
    }

    /// Where finished spans go.
    pub(super) fn spans(&self) -> Option<Spans> {
        self.spans.clone()
    }

    /// The audit log, if there is to be one, with its writer at work.
    pub(super) fn audit(&self, config: &Config) -> anyhow::Result<Option<Arc<Audit>>> {
        let Some(target) = target(&config.audit.file) else { return Ok(None) };
        let (audit, writer) = Audit::open(target, self.metrics.audit_dropped()).context("audit.file")?;
        self.tasks.spawn_thread("audit", move || writer.run()).context("audit")?;
        Ok(Some(Arc::new(audit)))
    }

    /// Takes up where the audit log is from now on. What is kept of arguments goes with the snapshot.
    ///
    /// # Errors
    ///
    /// The file of the audit log cannot be opened: then the log is where it was.
    pub(super) async fn renew(&self, gateway: &Gateway, old: &Config, new: &Config) -> anyhow::Result<()> {
        if old.audit.file != new.audit.file {
            match (gateway.audit(), target(&new.audit.file)) {
                (Some(audit), Some(target)) => audit.move_to(target).await.context("audit.file")?,
                (Some(audit), None) => {
                    gateway.set_audit(None);
                    // Requests that still run have no line.
                    let _ = timeout(LAST, audit.close()).await;
                }
                (None, _) => gateway.set_audit(self.audit(new)?),
            }
        }
        Ok(())
    }

    /// Writes and sends what is left. Last of all: calls that were cut have their lines and spans too.
    pub(super) async fn close(&self, audit: Option<Arc<Audit>>) {
        if let Some(audit) = audit
            && timeout(LAST, audit.close()).await.is_err()
        {
            tracing::warn!("the audit log was not written in time");
        }
        if let Some(spans) = &self.spans
            && timeout(LAST, spans.flush()).await.is_err()
        {
            tracing::warn!("the last spans were not sent in time");
        }
        self.own.shutdown(LAST).await;
    }
}

fn target(file: &AuditFile) -> Option<Target> {
    match file {
        AuditFile::Off => None,
        AuditFile::Stdout => Some(Target::Stdout),
        AuditFile::Path(path) => Some(Target::Path(path.clone())),
    }
}
