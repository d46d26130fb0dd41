//! Owns everything: builds the rooms bottom-up, binds the sockets, and takes it all down again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::signal::unix::Signal;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::admin::status::Board;
use crate::admin::{self, Desk, HostCheck, Readiness};
use crate::auth::{Authenticator, Certificates};
use crate::catalogue::shelf::Rules;
use crate::catalogue::{Catalogue, Contracts};
use crate::cluster::Cluster;
use crate::config::{Config, Files, Gateway as GatewayConfig, Guarding};
use crate::gateway::{Gateway, Snapshot};
use crate::inbound::{self, Bounds, Door, Guard, Peers, Sessions, Terms};
use crate::net::{self, Budget, Identity, IdentityFiles, Lanes, ListenOptions, ListenStats};
use crate::outbound::Servers;
use crate::outbound::link::stdio::harden_process;
use crate::seal::Sealer;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
use crate::telemetry::logs::Level;

/// How often the files of `[tls]` are looked at.
const RENEW: Duration = Duration::from_secs(10);

mod core;
mod reload;
mod replicas;
mod restart;
mod shutdown;
mod sight;
#[cfg(test)]
mod tests;
mod traces;
pub mod usage;

pub use core::Core;
use reload::Reloader;
use replicas::{Replicas, Serving};
use sight::Sight;

/// A running gateway.
#[derive(Debug)]
pub struct App {
    /// Where MCP clients connect.
    pub listen: SocketAddr,
    /// Where operators connect.
    pub admin: SocketAddr,
    gateway: Arc<Gateway>,
    readiness: Arc<Readiness>,
    tasks: Tasks,
    sight: Arc<Sight>,
    drain: CancellationToken,
    /// Cancelled last: the admin listener outlives the drain.
    close: CancellationToken,
    /// The listener of clients, that of other replicas if there are any, and the threads that serve clients.
    served: (tokio::task::JoinHandle<()>, Option<Serving>, Arc<Lanes>),
    reloader: Arc<Reloader>,
    /// Cancelled first: a gateway that stops takes no other configuration.
    settled: CancellationToken,
}

impl App {
    /// Starts a gateway that serves clients on so many threads of their own; 0: on the runtime that runs this. Ready to
    /// accept when this returns; servers are contacted behind it.
    pub async fn start(config: Config, threads: usize) -> anyhow::Result<Self> {
        harden();
        let config = Arc::new(config);
        let (public, private) = (bind(config.gateway.listen)?, bind(config.gateway.admin_listen)?);
        let (listen, admin) = (public.local_addr()?, private.local_addr()?);

        let tasks = Tasks::new();
        let metrics = Arc::new(Metrics::new().context("metrics")?);
        let budget = Budget::new(config.gateway.max_buffered);
        let replicas = Replicas::bind(&config, &tasks)?;
        let gateway = build(&config, &tasks, &metrics, &budget, Some(Running::with(replicas.as_ref())))?;
        let (sight, gateway) = Sight::start(gateway.with_budget(budget.clone()), &config, &tasks)?;
        usage::keep(config.gateway.state_dir.as_deref(), &metrics, &tasks);
        let readiness = Arc::new(Readiness::new(&gateway.servers.all(), &tasks));
        let lanes = Lanes::start(threads, &tasks).context("threads cannot be started")?;
        keep(&gateway, &lanes, &tasks);

        let stats = Arc::new(ListenStats::default());
        let door = Arc::new(door(&config, listen, &gateway, &budget, &tasks)?);
        let hosts = Arc::new(ArcSwap::from_pointee(admin_guard(&config, admin)?));
        let desk = Desk {
            guard: Box::new(HostGuard(Arc::clone(&hosts))),
            gateway: Arc::clone(&gateway),
            readiness: Arc::clone(&readiness),
            stats: Arc::clone(&stats),
            budget: budget.clone(),
            tasks: tasks.clone(),
            status: Board::new(admin.ip().is_loopback()),
        };
        let (drain, close) = (CancellationToken::new(), CancellationToken::new());
        let identity = identity(&config, &tasks)?;
        let options = |stats, tls| ListenOptions { tls, ..listen_options(&config.gateway, stats) };
        let replicas = replicas.map(|replicas| replicas.serve(&door, options(Arc::default(), None)));
        let proxies = config.gateway.trusted_proxies.clone();
        let service = inbound::service(Arc::clone(&door));
        let public_options =
            ListenOptions { proxies, lanes: Arc::clone(&lanes), ..options(stats, identity.clone()) };
        let served = tasks
            .spawn("listener", net::serve(public, service, public_options, tasks.clone(), drain.clone()));
        let router = net::routed(admin::router(Arc::new(desk)));
        let own = options(Arc::default(), None);
        tasks.spawn("admin listener", net::serve(private, router, own, tasks.clone(), close.clone()));
        metrics.reloads().began();
        tracing::info!(%listen, %admin, "listening");
        let (bound, turn) = ((listen, admin), Mutex::default());
        let (watched, eyes) = (Arc::clone(&readiness), Arc::clone(&sight));
        let reloader = Reloader { door, hosts, readiness: watched, identity, sight: eyes, bound, turn };
        let (reloader, settled) = (Arc::new(reloader), CancellationToken::new());
        let served = (served, replicas, lanes);
        Ok(Self { listen, admin, gateway, readiness, tasks, sight, drain, close, served, reloader, settled })
    }

    /// Puts another configuration in force while calls run. An error: it cannot be used, and nothing has changed.
    pub async fn reload(&self, config: Config) -> anyhow::Result<()> {
        self.reloader.apply(config, None).await
    }

    /// Follows the file the configuration came from, and those it is made of, until the gateway stops: each change, and
    /// each `hangup`, is a new reading.
    pub fn follow(&self, path: PathBuf, files: Files, hangup: Signal, level: Level) {
        let (reloader, settled) = (Arc::clone(&self.reloader), self.settled.clone());
        self.tasks.spawn("configuration", async move {
            reloader.follow((path, files), hangup, level, settled).await;
        });
    }
}

fn harden() {
    if harden_process().is_err() {
        tracing::warn!("the process could not be made non-dumpable");
    }
}

/// What stands before the core for MCP clients.
fn door(
    config: &Config,
    listen: SocketAddr,
    gateway: &Arc<Gateway>,
    budget: &Budget,
    tasks: &Tasks,
) -> anyhow::Result<Door> {
    Ok(Door {
        terms: ArcSwap::from_pointee(terms(config, listen)?),
        sessions: Sessions::start(gateway, tasks),
        peers: Peers::of(gateway, tasks),
        certificates: Certificates::default(),
        gateway: Arc::clone(gateway),
        budget: budget.clone(),
        tasks: tasks.clone(),
        metrics: Arc::clone(&gateway.metrics),
    })
}

/// What the core does beside its calls.
fn keep(gateway: &Arc<Gateway>, lanes: &Arc<Lanes>, tasks: &Tasks) {
    tasks.spawn("playbooks", Arc::clone(gateway).keep_playbooks());
    tasks.spawn("load", gateway.watch_load(Arc::clone(lanes), tasks));
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    net::listen(address).with_context(|| format!("cannot listen on {address}"))
}

/// A gateway that serves, and no command that only asks servers.
#[derive(Debug)]
struct Running {
    /// The other replicas, if there are any.
    cluster: Option<Arc<Cluster>>,
}

impl Running {
    fn with(replicas: Option<&Replicas>) -> Self {
        Self { cluster: replicas.map(|replicas| Arc::clone(&replicas.cluster)) }
    }
}

/// The core over its servers. Of a running gateway catalogues last in `state_dir`, and callers are asked
/// who they are.
fn build(
    config: &Arc<Config>,
    tasks: &Tasks,
    metrics: &Arc<Metrics>,
    budget: &Budget,
    running: Option<Running>,
) -> anyhow::Result<Gateway> {
    let (running, cluster) = (running.is_some(), running.and_then(|running| running.cluster));
    let servers = Servers::new(tasks.clone(), Arc::clone(metrics), budget.clone());
    let catalogue = Catalogue::new(tasks.clone(), Arc::clone(metrics)).with_cluster(cluster.clone());
    catalogue.guard_by(contracts(config, metrics)?.map(Arc::new));
    let list = servers.plan(config)?;
    let gateway = &config.gateway;
    let members = catalogue.plan(&list, rules(config), gateway.state_dir.as_deref().filter(|_| running));
    servers.adopt(list);
    catalogue.adopt(&members);
    let keys: Vec<&[u8]> = gateway.keys.iter().map(|key| key.expose()).collect();
    let sealer = Sealer::new(&keys).unwrap_or_else(|| {
        tracing::info!("gateway.keys is empty: sealed handles end with this process");
        Sealer::random()
    });
    let auth = if running { authenticator(config, tasks, metrics)? } else { None };
    let snapshot = Snapshot::new(Arc::clone(config), &members).with_auth(auth);
    Ok(Gateway::new(snapshot, servers, catalogue, Arc::clone(metrics), sealer).with_cluster(cluster))
}

/// What the gateway makes of hints.
const fn rules(config: &Config) -> Rules {
    Rules { max_ttl: config.gateway.max_ttl, stale_if_error: config.gateway.stale_if_error }
}

/// The approved definitions, where servers are guarded by them.
fn contracts(config: &Config, metrics: &Arc<Metrics>) -> anyhow::Result<Option<Contracts>> {
    let guarded = |how: Guarding| config.servers.iter().find(|server| server.contract == how);
    let (held, reported) = (guarded(Guarding::Hold), guarded(Guarding::Report));
    if held.or(reported).is_none() {
        return Ok(None);
    }
    match Contracts::open(&config.contract.lock, Arc::clone(metrics)) {
        Ok(contracts) => Ok(Some(contracts)),
        Err(problem) => match held {
            // Nothing would be approved, or everything.
            Some(server) => {
                let name = &server.name;
                anyhow::bail!(
                    "server {name:?} has contract = \"hold\", and {problem}; `gatehouse lock` writes it"
                )
            }
            None => {
                tracing::warn!(%problem, "nothing is held against a lock file");
                Ok(None)
            }
        },
    }
}

/// Who is let in, where anybody is asked.
fn authenticator(
    config: &Config,
    tasks: &Tasks,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Arc<Authenticator>>> {
    let Some(auth) = &config.auth else { return Ok(None) };
    let authenticator = Authenticator::new(auth, tasks, Arc::clone(metrics)).context("[auth]")?;
    authenticator.warm();
    Ok(Some(Arc::new(authenticator)))
}

/// `public_url`, or what the bound address says.
pub fn public_url(config: &Config, bound: SocketAddr) -> anyhow::Result<Url> {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    match &config.gateway.public_url {
        Some(url) => Ok(url.clone()),
        None => Ok(Url::parse(&format!("{scheme}://{bound}"))?),
    }
}

/// Who we are towards clients, where TLS is ours to end.
fn identity(config: &Config, tasks: &Tasks) -> anyhow::Result<Option<Arc<Identity>>> {
    let Some(tls) = config.tls.clone() else { return Ok(None) };
    // Who has a token instead needs no certificate.
    let optional = config.auth.is_some();
    let files = IdentityFiles { cert: tls.cert, key: tls.key, client_ca: tls.client_ca, optional };
    let identity = Arc::new(Identity::load(files).context("[tls]")?);
    tasks.spawn("certificate", renew(Arc::clone(&identity)));
    Ok(Some(identity))
}

/// Certificates are renewed while we run: their files are read again and again, and what is wrong with new ones is said.
async fn renew(identity: Arc<Identity>) {
    loop {
        tokio::time::sleep(RENEW).await;
        let own = Arc::clone(&identity);
        if tokio::task::spawn_blocking(move || reread(&own)).await.is_err() {
            // The runtime ends.
            return;
        }
    }
}

/// Takes what the files of `[tls]` hold now.
fn reread(identity: &Identity) {
    match identity.reload() {
        Ok(true) => tracing::info!("new certificates are in use"),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "the certificates in use stay"),
    }
}

/// What `[gateway]` asks of every request.
fn terms(config: &Config, bound: SocketAddr) -> anyhow::Result<Terms> {
    Ok(Terms {
        public: public_url(config, bound)?.origin().ascii_serialization(),
        guard: guard(config, bound)?,
        bounds: bounds(&config.gateway),
    })
}

fn guard(config: &Config, bound: SocketAddr) -> anyhow::Result<Guard> {
    let gateway = &config.gateway;
    let (hosts, origins) = (gateway.allowed_hosts.as_deref(), gateway.allowed_origins.as_deref());
    Ok(Guard::new(hosts, origins, &public_url(config, bound)?, bound))
}

/// Operators and health checks come by address (F-050): any host on a public address; on loopback local names,
/// also where `allowed_hosts` names others for the clients.
fn admin_guard(config: &Config, bound: SocketAddr) -> anyhow::Result<Guard> {
    let and = |more: &[&str]| more.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    let hosts = match &config.gateway.allowed_hosts {
        _ if !bound.ip().is_loopback() => Some(and(&["*"])),
        // A page of anybody's could be led here by its own name (DNS rebinding): that all hosts are right for clients
        // says nothing of operators.
        Some(listed) => {
            let named: Vec<String> = listed.iter().filter(|host| *host != "*").cloned().collect();
            Some([&named[..], &and(&["localhost", "127.0.0.1", "[::1]"])].concat())
        }
        None => None,
    };
    Ok(Guard::new(hosts.as_deref(), None, &public_url(config, bound)?, bound))
}

/// `admin` and `inbound` are strangers: the check is handed over.
#[derive(Debug)]
struct HostGuard(Arc<ArcSwap<Guard>>);

impl HostCheck for HostGuard {
    fn allows(&self, host: &str) -> bool {
        self.0.load().host_allowed(host)
    }
}

const fn bounds(config: &GatewayConfig) -> Bounds {
    Bounds {
        max_body: config.max_body,
        max_depth: config.max_depth,
        max_elements: config.max_input_elements,
        body_timeout: config.body_timeout,
        keepalive: config.keepalive_interval,
    }
}

fn listen_options(config: &GatewayConfig, stats: Arc<ListenStats>) -> ListenOptions {
    ListenOptions {
        max_header: config.max_header,
        header_timeout: config.header_timeout,
        idle_timeout: config.idle_timeout,
        max_connections: config.max_connections,
        keep_alive: config.keepalive_interval,
        stats,
        ..ListenOptions::default()
    }
}
