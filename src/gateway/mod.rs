//! The core: one [`Call`] in, one result or error out, notices on the way; knows only modern MCP.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

mod added;
mod along;
pub mod books;
mod confirm;
mod converse;
mod cut;
mod digest;
mod discover;
mod discovery;
mod draft;
pub mod error;
mod invoke;
mod leaves;
pub mod limits;
mod links;
mod list;
mod listen;
mod load;
pub mod names;
mod pages;
mod parked;
mod questions;
pub mod quota;
mod read;
mod record;
mod relay;
mod replicas;
mod resolve;
mod results;
mod resume;
mod secrets;
mod sheet;
pub mod snapshot;
mod state;
mod tasks;
mod told;
mod traced;
pub mod view;

pub use error::GatewayError;
pub use limits::Limits;
pub use listen::Counted;
pub use quota::Quota;
pub use snapshot::{Endpoint, Snapshot};

use crate::auth::Principal;
use crate::catalogue::{Catalogue, Shelf};
use crate::cluster::Cluster;
use crate::config::Secret;
use crate::net::{Budget, Lanes};
use crate::outbound::Servers;
use crate::policy::Rights;
use crate::protocol::edit::Parts;
use crate::protocol::envelope::Envelope;
use crate::protocol::method::{Kind, Method};
use crate::protocol::version::{Era, Revision};
use crate::seal::Sealer;
use crate::tasks::Tasks;
use crate::telemetry::audit::Audit;
use crate::telemetry::{Metrics, Spans};
use record::Record;

/// One request, checked against its headers, in modern meaning.
#[derive(Debug, Clone)]
pub struct Call {
    /// The message.
    pub envelope: Envelope,
    /// Its method.
    pub method: Method,
    /// The endpoint it came to.
    pub endpoint: Arc<Endpoint>,
    /// The configuration it runs under, from start to end.
    pub snapshot: Arc<Snapshot>,
    /// The request's headers, for `Mcp-Param-*` and trace context.
    pub headers: HeaderMap,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// The token that proved it: only where a server of the endpoint gets one in exchange.
    pub token: Option<Secret>,
    /// What that caller may do at this endpoint: [`Snapshot::rights`].
    pub rights: Rights,
    /// What the endpoint's servers show that caller: found at the first look.
    pub members: Members,
    /// The number of the HTTP request, as `X-Request-Id` tells it.
    pub request: u64,
    /// The client's address, as far as it is known.
    pub address: Option<IpAddr>,
    /// What the client said of itself.
    pub client: Client,
    /// When it arrived.
    pub arrived: Instant,
    /// What was done with it on the way.
    pub steps: Steps,
}

/// What the gateway itself did with a call before it goes to its server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Steps {
    /// It came inside a `call_tool`: then no header mirrors its name and arguments.
    pub unwrapped: bool,
    /// The user was asked and agreed (`tools.confirm`).
    pub confirmed: bool,
}

/// What servers show one caller, in the order of the endpoint's members: the same from a request's start to its end.
#[derive(Clone, Debug, Default)]
pub struct Members(OnceLock<Arc<[Arc<Shelf>]>>);

impl Call {
    /// What the endpoint's servers show this caller.
    fn members(&self) -> &Arc<[Arc<Shelf>]> {
        self.members.0.get_or_init(|| self.endpoint.shown(|| Arc::new(along::own_context(self))))
    }

    /// The servers, with whether this caller sees something of one of these kinds.
    fn seen<'c>(&'c self, kinds: &'c [Kind]) -> impl Iterator<Item = (&'c Arc<Shelf>, bool)> {
        self.endpoint.seen(self.members(), &self.rights, kinds)
    }
}

/// What a client declared with this request.
#[derive(Debug, Clone)]
pub struct Client {
    /// How it speaks.
    pub era: Era,
    /// The revision it speaks: what it cannot know is left out of lists.
    pub revision: Revision,
    /// The id of its session, where it has one: what servers keep for a session is kept for this one.
    pub session: Option<Arc<str>>,
    /// Its capabilities, a JSON object.
    pub capabilities: String,
    /// The least severe log level it wants, as a rank: servers are asked for it.
    pub log_level: Option<usize>,
    /// The least severe one that it is told of, if of any: who never set a level may get what servers send of
    /// themselves (G-15, M-60).
    pub hears: Option<usize>,
    /// The progress token, as JSON text.
    pub progress_token: Option<Bytes>,
}

/// Where notices of a running request go. Bounded: a client that does not read slows its server down.
#[derive(Debug, Clone)]
pub struct Outlet {
    notices: mpsc::Sender<Parts>,
    /// `None`: nothing is to be decided.
    admitted: Option<Arc<Notify>>,
}

impl Outlet {
    /// An outlet and its other end; `capacity` notices may wait.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<Parts>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self { notices: sender, admitted: None }, receiver)
    }

    /// The same for a call of a caller with grants: what resolves once it is decided that the call is allowed.
    pub fn gated(mut self, call: &Call) -> (Self, impl Future<Output = ()> + Send + use<>) {
        self.admitted = (!call.rights.is_open()).then(Arc::default);
        let admitted = self.admitted.clone();
        let admission = async move {
            if let Some(admitted) = admitted {
                admitted.notified().await;
            }
        };
        (self, admission)
    }

    /// Says that it is decided that the caller may do what it asked for. Until then nothing may be answered: inside
    /// an event stream there is no 403.
    fn admitted(&self) {
        if let Some(admitted) = &self.admitted {
            admitted.notify_one();
        }
    }

    /// Hands a notice over; when nobody wants notices it is dropped.
    pub async fn send(&self, notice: Parts) {
        let _ = self.notices.send(notice).await;
    }
}

/// The gateway: the current snapshot and what it stands on.
#[derive(Debug)]
pub struct Gateway {
    current: ArcSwap<Snapshot>,
    /// The servers behind it.
    pub servers: Servers,
    /// What they offer.
    pub catalogue: Catalogue,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    sealer: Sealer,
    audit: ArcSwapOption<Audit>,
    spans: Option<Spans>,
    streams: Arc<Quota>,
    links: links::Links,
    load: load::Load,
    counting: limits::Counting,
    parked: Arc<parked::Parked>,
    cluster: Option<Arc<Cluster>>,
    drain: CancellationToken,
    /// Cancelled when what still runs is given up.
    cut: CancellationToken,
}

impl Gateway {
    /// A gateway that serves `snapshot`.
    pub fn new(
        snapshot: Snapshot,
        servers: Servers,
        catalogue: Catalogue,
        metrics: Arc<Metrics>,
        sealer: Sealer,
    ) -> Self {
        let parked = Arc::new(parked::Parked::new(metrics.parked_calls().clone(), None));
        Self {
            current: ArcSwap::from_pointee(snapshot),
            servers,
            catalogue,
            metrics,
            sealer,
            audit: ArcSwapOption::empty(),
            spans: None,
            streams: Arc::default(),
            links: links::Links::default(),
            load: load::Load::default(),
            counting: limits::Counting::default(),
            parked,
            cluster: None,
            drain: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    /// The same, with spans of what it does.
    #[must_use]
    pub fn with_spans(self, spans: Option<Spans>) -> Self {
        Self { spans, ..self }
    }

    /// The audit log, if there is one.
    pub fn audit(&self) -> Option<Arc<Audit>> {
        self.audit.load_full()
    }

    /// What is done from now on is told to this audit log, or to none.
    pub fn set_audit(&self, audit: Option<Arc<Audit>>) {
        if let Some(contracts) = self.catalogue.contracts() {
            contracts.set_audit(audit.clone());
        }
        self.audit.store(audit);
    }

    /// The same, which refuses calls before the process holds more bytes than it may.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { load: load::Load::new(budget), ..self }
    }

    /// Looks at how late the process is with its work, and refuses calls while it is too late (`max_lag`).
    pub fn watch_load(
        self: &Arc<Self>,
        lanes: Arc<Lanes>,
        tasks: &Tasks,
    ) -> impl Future<Output = ()> + Send + use<> {
        load::watch(Arc::downgrade(self), lanes, tasks.clone())
    }

    /// What seals handles that clients hold.
    pub const fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// The snapshot now; keep the one taken for the whole of a request.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Serves `snapshot` from now on. What runs goes on under the one it began with; open streams go over to this one,
    /// and what was counted for limits that stay is counted on.
    pub fn swap(&self, mut snapshot: Snapshot) {
        snapshot.limits = Limits::new(&snapshot.config.limits, &self.current.load().limits);
        self.current.store(Arc::new(snapshot));
        self.catalogue.nudge();
    }

    /// Ends all streams of changes, with words, over a few seconds. Calls that wait for their clients' answers, and that
    /// nobody attends, are kept for `patience` from now on.
    pub fn drain(&self, patience: Duration) {
        self.drain.cancel();
        self.parked.hurry(patience);
    }

    /// Gives up what still runs: doors tell their clients so.
    pub fn cut(&self) {
        self.cut.cancel();
    }

    /// Cancelled by [`Gateway::cut`]. One lock for all who wait for it: not for calls that are soon over.
    pub const fn is_cut(&self) -> &CancellationToken {
        &self.cut
    }

    /// Returns once no call waits for its client's answers.
    pub async fn unparked(&self) {
        self.parked.idle().await;
    }

    /// Gives up all calls that wait for their clients' answers, and takes in none any more; returns once their servers
    /// were told.
    pub async fn give_up_parked(&self) {
        self.parked.close();
        self.parked.idle().await;
    }

    /// Serves one call: the bytes of its `result`, or the error. Dropping the future cancels the call at its
    /// server by that hop's own rule, and is recorded as such.
    pub async fn handle(&self, call: Call, outlet: Outlet) -> Result<Parts, GatewayError> {
        let mut record = Record::open(self, &call);
        let result = self.run(&call, &outlet, &mut record).await;
        if record.is_strict() {
            // Boxed: all calls would be larger for those that wait.
            return Box::pin(record.close_surely(result)).await;
        }
        record.close(&result);
        result
    }

    async fn run(&self, call: &Call, outlet: &Outlet, record: &mut Record) -> Result<Parts, GatewayError> {
        if matches!(call.method, Method::Discover | Method::Initialize) || call.method.lists().is_some() {
            outlet.admitted();
        }
        if self.load.refuses(call.method) {
            self.metrics.limited("overload");
            return overloaded(call, record);
        }
        // Boxed where it is rarer than calls and lists: all calls would be as large as the largest of these.
        match call.method {
            Method::Discover | Method::Initialize => Box::pin(self.discover(call)).await,
            Method::ToolsList | Method::PromptsList | Method::ResourcesList | Method::TemplatesList => {
                // The match arm and the table agree; a method that lists nothing cannot get here.
                let Some(kind) = call.method.lists() else { return Err(GatewayError::UnknownMethod) };
                self.list(call, kind).await
            }
            Method::ToolsCall | Method::PromptsGet => self.invoke(call, outlet, record).await,
            Method::ResourcesRead => Box::pin(self.read(call, outlet, record)).await,
            Method::Complete => Box::pin(self.complete(call, outlet, record)).await,
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
                Box::pin(self.task(call, outlet, record)).await
            }
            // Streams, not calls: `listen` serves them.
            Method::Listen | Method::Subscribe => Err(GatewayError::UnknownMethod),
            // Between a session and its door.
            Method::Ping | Method::SetLevel | Method::Unsubscribe => Err(GatewayError::UnknownMethod),
        }
    }
}

/// The answer to a call that is refused because there is too much to do.
fn overloaded(call: &Call, record: &mut Record) -> Result<Parts, GatewayError> {
    let error = GatewayError::Overloaded;
    if call.method != Method::ToolsCall {
        return Err(error);
    }
    record.outcome(error.outcome());
    Ok(relay::tool_error(&error.to_string(), call.snapshot.server_info.as_bytes()))
}
