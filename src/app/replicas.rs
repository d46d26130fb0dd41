//! The other replicas: the listener they come to, and what is heard of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::bind;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::inbound::{self, Door, Peers};
use crate::net::{self, ListenOptions};
use crate::tasks::Tasks;

/// How long other replicas are told that they need not come any more.
const FAREWELL: Duration = Duration::from_millis(300);
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
    pub(super) fn bind(config: &Config, tasks: &Tasks) -> anyhow::Result<Option<Self>> {
        let Some(own) = &config.cluster else { return Ok(None) };
        let listener = bind(own.listen).context("cluster.listen")?;
        let bound = listener.local_addr()?;
        let at = own.advertise.clone().unwrap_or_else(|| bound.to_string());
        let life = config.gateway.session_max_age;
        let cluster = Cluster::start(&own.redis, at, life, tasks)?;
        Ok(Some(Self { cluster, listener, bound }))
    }

    /// Serves other replicas, and hears what they hear.
    pub(super) fn serve(self, door: &Arc<Door>, options: ListenOptions) -> Serving {
        let (tasks, me, drain) = (&door.tasks, self.cluster.me(), CancellationToken::new());
        // Letters say all they have to say in their bodies.
        let options = ListenOptions { max_header: MAX_HEADER, ..options };
        tracing::info!(listen = %self.bound, at = %me.at, replica = %me.id, "listening for other replicas");
        tasks.spawn("changes elsewhere", Arc::clone(&door.gateway).hear_replicas());
        let service = inbound::peer_service(Arc::clone(door));
        let served = net::serve(self.listener, service, options, tasks.clone(), drain.clone());
        Serving { peers: door.peers.clone(), drain, served: tasks.spawn("replica listener", served) }
    }
}

/// The listener for other replicas at work.
#[derive(Debug)]
pub(super) struct Serving {
    peers: Option<Arc<Peers>>,
    drain: CancellationToken,
    served: JoinHandle<()>,
}

impl Serving {
    /// Other replicas take over what is here; resolves when the last of their requests has ended. After this process's
    /// own clients: what those wait for may come by another replica.
    pub(super) async fn stop(self) {
        if let Some(peers) = &self.peers {
            peers.close();
        }
        // Who comes by a connection that it has is told so; one that is closed under a request tells nothing.
        sleep(FAREWELL).await;
        self.drain.cancel();
        // Ended by a panic or by itself: either way it has ended.
        let _ = self.served.await;
    }
}
