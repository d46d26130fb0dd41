//! What operators see of a running gateway besides its metrics: the audit log and traces, begun first, ended last.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::timeout;

use super::traces;
use crate::config::{AuditFile, Config};
use crate::gateway::Gateway;
use crate::tasks::Tasks;
use crate::telemetry::audit::{Audit, Opened, Target};
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

impl Change {
    /// What is done before the configuration that wants it is in force, and what only after: as long as another one is,
    /// its log is written.
    pub(super) fn parted(self) -> (Self, Self) {
        match self {
            Self::End => (Self::None, Self::End),
            other => (other, Self::None),
        }
    }
}

impl Sight {
    /// The gateway, with its audit log and the way of its spans as the configuration says.
    pub(super) fn start(
        gateway: Gateway,
        config: &Config,
        tasks: &Tasks,
    ) -> anyhow::Result<(Arc<Self>, Arc<Gateway>)> {
        let (own, metrics) = (tasks.aside(), Arc::clone(&gateway.metrics));
        let spans = traces::exporter(&config.telemetry, &own)?.map(|exporter| {
            let (spans, sending) = export::spans(metrics.spans_dropped());
            own.spawn("traces", sending.run(exporter));
            spans
        });
        let gateway = Arc::new(gateway.with_spans(spans.clone()));
        let sight = Self { spans, own, tasks: tasks.clone(), metrics };
        if let Some(opened) = open(&config.audit.file)? {
            gateway.set_audit(Some(sight.write(opened)?));
        }
        Ok((Arc::new(sight), gateway))
    }

    /// The audit log with its writer at work.
    fn write(&self, opened: Opened) -> anyhow::Result<Arc<Audit>> {
        let (audit, writer) = Audit::new(opened, self.metrics.audit_dropped());
        self.tasks.spawn_thread("audit", move || writer.run()).context("audit")?;
        Ok(Arc::new(audit))
    }

    /// What of another configuration changes the audit log: where it is. What is kept of arguments, and whether calls
    /// wait, goes with the snapshot.
    ///
    /// # Errors
    ///
    /// Its new file cannot be opened.
    pub(super) fn plan(&self, old: &Config, new: &Config) -> anyhow::Result<Change> {
        if old.audit.file == new.audit.file {
            return Ok(Change::None);
        }
        Ok(match (&old.audit.file, open(&new.audit.file)?) {
            (AuditFile::Off, Some(opened)) => Change::Begin(self.write(opened)?),
            (_, Some(opened)) => Change::Move(opened),
            (_, None) => Change::End,
        })
    }

    /// Does what was planned.
    pub(super) async fn renew(&self, gateway: &Gateway, change: Change) {
        match change {
            Change::None => {}
            Change::Begin(audit) => gateway.set_audit(Some(audit)),
            Change::Move(opened) => {
                if let Some(audit) = gateway.audit() {
                    audit.move_to(opened).await;
                }
            }
            Change::End => {
                let audit = gateway.audit();
                gateway.set_audit(None);
                self.end(audit).await;
            }
        }
    }

    async fn end(&self, audit: Option<Arc<Audit>>) {
        if let Some(audit) = audit
            && timeout(LAST, audit.close()).await.is_err()
        {
            tracing::warn!("the audit log was not written in time");
        }
    }

    /// Writes and sends what is left. Last of all: calls that were cut have their lines and spans too.
    pub(super) async fn close(&self, audit: Option<Arc<Audit>>) {
        self.end(audit).await;
        if let Some(spans) = &self.spans
            && timeout(LAST, spans.flush()).await.is_err()
        {
            tracing::warn!("the last spans were not sent in time");
        }
        self.own.shutdown(LAST).await;
    }
}

/// What becomes of the audit log with another configuration; all that could fail has been done.
#[derive(Debug)]
pub(super) enum Change {
    None,
    Begin(Arc<Audit>),
    Move(Opened),
    End,
}

fn open(file: &AuditFile) -> anyhow::Result<Option<Opened>> {
    let target = match file {
        AuditFile::Off => return Ok(None),
        AuditFile::Stdout => Target::Stdout,
        AuditFile::Path(path) => Target::Path(path.clone()),
    };
    Ok(Some(Opened::new(target).context("audit.file")?))
}
