//! The other replicas: the listener they come to, and what is heard of them.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::bind;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::inbound::{self, Door};
use crate::net::{self, ListenOptions};
use crate::tasks::Tasks;

/// The smallest buffer that hyper takes.
const MAX_HEADER: usize = 8 << 10;

/// This replica among others, before it serves.
#[derive(Debug)]
pub(super) struct Replicas {
    pub(super) cluster: Arc<Cluster>,
    listener: TcpListener,
    bound: SocketAddr,
}

impl Replicas {
    /// Binds `cluster.listen`; `None` without `[cluster]`.
    pub(super) async fn bind(config: &Config, tasks: &Tasks) -> anyhow::Result<Option<Self>> {
        let Some(own) = &config.cluster else { return Ok(None) };
        let listener = bind(own.listen).await.context("cluster.listen")?;
        let bound = listener.local_addr()?;
        let at = own.advertise.clone().unwrap_or_else(|| bound.to_string());
        let life = config.gateway.session_max_age;
        let cluster = Cluster::start(&own.redis, at, life, tasks)?;
        Ok(Some(Self { cluster, listener, bound }))
    }

    /// Serves other replicas until `drain`, and hears what they hear; resolves when the last request has ended.
    pub(super) fn serve(
        self,
        door: &Arc<Door>,
        options: ListenOptions,
        drain: CancellationToken,
    ) -> JoinHandle<()> {
        let tasks = &door.tasks;
        // Letters say all they have to say in their bodies.
        let options = ListenOptions { max_header: MAX_HEADER, ..options };
        let me = self.cluster.me();
        tracing::info!(listen = %self.bound, at = %me.at, replica = %me.id, "listening for other replicas");
        tasks.spawn("changes elsewhere", Arc::clone(&door.gateway).hear_replicas());
        let service = inbound::peer_service(Arc::clone(door));
        tasks.spawn("replica listener", net::serve(self.listener, service, options, tasks.clone(), drain))
    }
}
