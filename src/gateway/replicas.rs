//! The core as one of several replicas: which of them keeps a call, and what the others hear of changes.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use super::limits::{Bucket, Shared, Verdict, Wait};
use super::parked::Parked;
use super::state::ticket_of;
use super::{Call, Gateway};
use crate::cluster::{Cluster, News, Replica};

impl Shared for Cluster {
    fn admit<'a>(&'a self, bucket: Bucket<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let taken = self.take((bucket.limit, &bucket.key), bucket.every, bucket.burst).await;
            // Redis is away: each counts for itself.
            Some(taken.ok()?.map_or(Ok(()), |wait| Err(Wait(wait))))
        })
    }
}

impl Gateway {
    /// The same, as one of several replicas.
    #[must_use]
    pub fn with_cluster(self, cluster: Option<Arc<Cluster>>) -> Self {
        let Some(cluster) = cluster else { return self };
        let parked = Parked::new(self.metrics.parked_calls().clone(), Some(cluster.me()));
        let gateway = Self { parked: Arc::new(parked), cluster: Some(Arc::clone(&cluster)), ..self };
        gateway.with_shared_limits(cluster)
    }

    /// The other replicas, if there are any.
    pub const fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// The replica that keeps the call a request goes on with, where that is another one. It checks everything that is
    /// in the state; here no more is known than that it is this caller's.
    pub fn kept_elsewhere(&self, call: &Call) -> Option<Replica> {
        if self.cluster.is_none() || !call.method.may_ask() {
            return None;
        }
        self.parked.elsewhere(ticket_of(&self.sealer, call)?)
    }

    /// Hears what other replicas are told by servers, for ever.
    pub async fn hear_replicas(self: Arc<Self>) {
        let Some(mut news) = self.cluster.as_ref().map(|cluster| cluster.news()) else { return };
        loop {
            match news.recv().await {
                Ok(News::Changed(change)) => self.catalogue.changed_elsewhere(&change),
                // About sessions: those hear for themselves.
                Ok(News::Ended(_) | News::Moved(..) | News::Back) => {}
                Err(RecvError::Lagged(_)) => self.catalogue.all_changed_elsewhere(),
                Err(RecvError::Closed) => return,
            }
        }
    }
}
