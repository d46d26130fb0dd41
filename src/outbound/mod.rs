//! Links to MCP servers: name → handle. Starting is the first reload: both are [`Servers::plan`], then [`Servers::adopt`].

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc_swap::ArcSwap;
use url::Url;

mod answering;
mod attend;
pub mod breaker;
pub mod context;
pub mod credentials;
mod dispatch;
pub mod error;
pub mod exchange;
mod guard;
mod health;
pub mod keep;
pub mod legacy;
pub mod link;
pub mod listen;
pub mod modern;
pub mod offer;
pub mod place;
pub mod places;
mod pool;
pub mod probe;
pub mod replica;
pub mod request;
mod resume;
mod retire;
mod retries;
pub mod running;
pub mod server;
pub mod standing;
pub mod wire;

pub use context::{Asks, Context};
pub use credentials::{Credential, OnBehalf, Towards};
pub use error::{Failure, OutboundError};
pub use exchange::{Asked, Exchange, Message};
pub use listen::{Agreed, Filter, Listen, NoListen, Notice};
pub use request::{Hop, Request, Retry};
pub use server::{Peer, Server};
pub use standing::Standing;

use crate::config::{Config, Server as ServerConfig, Target};
use crate::net::budget::Budget;
use crate::net::client::{Client, ClientOptions};
use crate::net::client_identity::ClientIdentity;
use crate::protocol::items::json_string;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
use link::http::{Clients, HttpLink};
use link::stdio::StdioOptions;
use places::Origin;
use retire::Retiring;
use server::Shared;

/// Streams of one server at once: as many as it can have contexts, and then some.
const MOST_STREAMS: usize = 20_000;
/// Connections to a server that shows each caller his own lists, beyond those of calls: many may be walked at once.
const OWN_LISTS: usize = 4096;

/// Every configured server, in file order.
#[derive(Debug)]
pub struct Servers {
    list: Arc<ArcSwap<Vec<Arc<Server>>>>,
    /// Those that left the configuration, until the last call of theirs has ended.
    retiring: Retiring,
    shared: Shared,
    budget: Budget,
}

impl Servers {
    /// No servers yet.
    pub fn new(tasks: Tasks, metrics: Arc<Metrics>, budget: Budget) -> Self {
        let name = json_string("gatehouse");
        let version = json_string(env!("CARGO_PKG_VERSION"));
        let client_info = format!("{{\"name\":{name},\"version\":{version}}}");
        let shared =
            Shared { ids: Arc::new(AtomicU64::new(1)), tasks, metrics, client_info: client_info.into() };
        Self { list: Arc::default(), retiring: Retiring::default(), shared, budget }
    }

    /// The servers of `config`: unchanged ones with their connections, processes and sessions, others made anew. None
    /// is contacted, and nothing changes before [`Servers::adopt`]. An error names the server whose link cannot be built.
    pub fn plan(&self, config: &Config) -> Result<Vec<Arc<Server>>, OutboundError> {
        let old = self.list.load();
        let kept = |wanted: &ServerConfig| old.iter().find(|server| server.is_of(wanted)).map(Arc::clone);
        let made = |wanted: &ServerConfig| match kept(wanted) {
            Some(server) => Ok(server),
            None => self.build(wanted, config).map(Arc::new),
        };
        config.servers.iter().map(made).collect()
    }

    /// Makes these the servers; gives back those that are none any more, which are to be retired.
    pub fn adopt(&self, list: Vec<Arc<Server>>) -> Vec<Arc<Server>> {
        let old = self.list.swap(Arc::new(list));
        let now = self.list.load();
        let new = now.iter().filter(|server| !old.iter().any(|known| Arc::ptr_eq(known, server)));
        new.for_each(|server| server.keep_asking());
        let gone = old.iter().filter(|server| !now.iter().any(|kept| Arc::ptr_eq(kept, server)));
        gone.map(Arc::clone).collect()
    }

    /// The spawner of what runs for calls beyond their requests.
    pub const fn tasks(&self) -> &Tasks {
        &self.shared.tasks
    }

    /// The servers now, in file order.
    pub fn all(&self) -> Arc<Vec<Arc<Server>>> {
        self.list.load_full()
    }

    /// A client's session ended: what servers keep for it ends as well (G-24).
    pub fn end_session(&self, session: &str) {
        self.list.load().iter().for_each(|server| server.end_session(session));
        self.retiring.all().iter().for_each(|server| server.end_session(session));
    }

    /// Ends every session and process.
    pub async fn stop(&self) {
        let (servers, retiring) = (self.list.swap(Arc::default()), self.retiring.all());
        let all = servers.iter().chain(&retiring);
        futures_util::future::join_all(all.map(|server| server.stop())).await;
    }

    /// Who the gateway is to a server that asks for a certificate.
    fn identity(&self, server: &ServerConfig) -> Result<Option<Arc<ClientIdentity>>, Failure> {
        let Some(files) = server.identity.clone() else { return Ok(None) };
        match ClientIdentity::load(files.cert, files.key, &self.shared.tasks) {
            Ok(identity) => Ok(Some(identity)),
            Err(error) => Err(Failure::Unavailable(error.to_string())),
        }
    }

    fn build(&self, server: &ServerConfig, config: &Config) -> Result<Server, OutboundError> {
        let failed = |failure| OutboundError::new(server.name.as_str().into(), failure, false);
        let origin = match &server.target {
            Target::Http { url, others, ca_file, .. } => {
                let name = Arc::from(server.name.as_str());
                let towards = Towards { server: &name, url, ca_file: ca_file.as_deref() };
                // One for all addresses: a token is for the server, not for where it runs.
                let credential = Credential::new(&towards, &server.credentials, &self.shared.tasks);
                let credential = Arc::new(credential);
                let links = [url].into_iter().chain(others).map(|url| self.link(server, url, &credential));
                Origin::Http(links.collect::<Result<_, _>>().map_err(failed)?)
            }
            Target::Stdio(command) => {
                let options = StdioOptions {
                    state_dir: config.gateway.state_dir.clone(),
                    ..StdioOptions::new(server.name.clone(), server.most_read())
                };
                Origin::Stdio(Box::new(command.clone()), options)
            }
        };
        Ok(Server::new(server.clone(), origin, &self.shared))
    }

    /// The connections to one of a server's addresses.
    fn link(
        &self,
        server: &ServerConfig,
        url: &Url,
        credential: &Arc<Credential>,
    ) -> Result<Arc<HttpLink>, Failure> {
        let (proxy, ca_file) = match &server.target {
            Target::Http { proxy, ca_file, .. } => (proxy.clone(), ca_file.clone()),
            Target::Stdio(_) => (None, None),
        };
        let options = ClientOptions {
            reach: crate::net::Reach::Any,
            url: url.clone(),
            connect_timeout: server.connect_timeout,
            proxy,
            ca_file,
            also_ca_file: None,
            identity: self.identity(server)?,
            idle_timeout: Duration::from_secs(60),
            // Beyond the permits: lists and cancels.
            max_connections: server.max_concurrency
                + if server.credentials.is_per_user() { OWN_LISTS } else { 16 },
            h2_ping: Duration::from_secs(10),
        };
        let client = |options| {
            let client = Client::new(options, self.shared.tasks.clone());
            client.map_err(|e| Failure::Unavailable(e.to_string()))
        };
        let clients = Clients {
            streams: client(ClientOptions { max_connections: MOST_STREAMS, ..options.clone() })?,
            calls: client(options)?,
        };
        let (credential, budget) = (Arc::clone(credential), self.budget.clone());
        HttpLink::new(clients, url, credential, budget, server.most_read()).map(Arc::new)
    }
}
