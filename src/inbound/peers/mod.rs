//! Other replicas: a request for what hangs on a socket of one of them (a call that waits for its client, a session) is
//! sent there as a sealed letter, one hop, and its answer passed on as it comes (R-32, design §7).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response as HttpResponse, header};
use moka::sync::Cache;
use tokio::time::timeout;
use url::Url;

mod answer;
mod door;
mod session;

pub use door::service;

use self::answer::About;
use super::endpoint::Visitor;
use super::{Door, Response};
use crate::auth::Principal;
use crate::cluster::{Cluster, Letter, Replica};
use crate::gateway::{Call, Gateway};
use crate::net::{self, Client, ClientOptions, Stage};
use crate::protocol::edit::Parts;
use crate::protocol::envelope::Id;
use crate::tasks::Tasks;

/// Where letters go.
const PATH: &str = "/letter";
/// Says that a letter was not taken: nothing was done.
const REFUSED: HeaderName = HeaderName::from_static("gatehouse-refused");
/// A replica that takes no connection in this time is as good as gone.
const CONNECT: Duration = Duration::from_secs(1);
/// Longer than anything a request may take before its answer begins.
const BEGIN: Duration = Duration::from_secs(20 * 60);
/// Connections to one replica: each stream has one.
const CONNECTIONS: usize = 20_000;
/// Replicas spoken to; addresses of pods come and go.
const MOST: u64 = 1000;

/// The other replicas, as the door speaks to them.
#[derive(Debug)]
pub struct Peers {
    cluster: Arc<Cluster>,
    clients: Cache<String, Arc<Client>>,
    tasks: Tasks,
    /// Whether this process ends: it takes no letter any more.
    closing: AtomicBool,
}

/// What became of a letter.
enum Sent {
    /// An answer, perhaps still to come.
    Answered(Box<HttpResponse<net::Body>>),
    /// Nobody took it: that process is not there, or (true) never again.
    NotTaken(bool),
    /// It may have been taken, and there is no answer.
    Lost,
}

/// A request to be sent on, by whomever and about whatever.
struct Outward<'r> {
    method: &'r Method,
    path: &'r str,
    headers: &'r http::HeaderMap,
    principal: &'r Principal,
    address: Option<IpAddr>,
    body: Bytes,
}

impl<'r> Outward<'r> {
    fn of_visitor(visitor: &'r Visitor, method: &'r Method, body: Bytes) -> Self {
        Self {
            method,
            path: &visitor.endpoint.config.path,
            headers: &visitor.headers,
            principal: &visitor.principal,
            address: visitor.address,
            body,
        }
    }

    fn of_call(call: &'r Call) -> Self {
        Self {
            method: &Method::POST,
            path: &call.endpoint.config.path,
            headers: &call.headers,
            principal: &call.principal,
            address: call.address,
            body: call.envelope.body().clone(),
        }
    }

    fn letter(&self) -> Letter {
        let mut letter =
            Letter::new((self.method, self.path), self.headers, self.principal.carried(), &self.body);
        letter.address = self.address;
        letter
    }
}

impl Peers {
    /// Those of a gateway, if it has any. Nobody is connected yet.
    pub fn of(gateway: &Gateway, tasks: &Tasks) -> Option<Arc<Self>> {
        let cluster = Arc::clone(gateway.cluster()?);
        let idle = Duration::from_secs(3600);
        let clients = Cache::builder().max_capacity(MOST).time_to_idle(idle).build();
        Some(Arc::new(Self { cluster, clients, tasks: tasks.clone(), closing: AtomicBool::new(false) }))
    }

    /// From now on other replicas are told that this process is gone: what is here is theirs.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// The answer to a retry of a call that another replica keeps. `None`: it cannot be had from there, and what is
    /// said of a lost call is to be said. A retry is never done a second time: its owner would know it again.
    pub(super) async fn resumed(&self, door: &Door, call: &Call, keeper: &Replica) -> Option<Response> {
        let outward = Outward::of_call(call);
        match self.send(door, keeper, &outward).await {
            Sent::Answered(answer) => {
                let about = |id: &Id| About { id: id.clone(), method: call.method, modern: true };
                Some(answer::passed_on(door, answer, call.envelope.id().map(about)))
            }
            Sent::NotTaken(gone) => {
                self.cluster.note_lost(keeper, gone);
                None
            }
            Sent::Lost => None,
        }
    }

    async fn send(&self, door: &Door, to: &Replica, outward: &Outward<'_>) -> Sent {
        let Some(client) = self.client(&to.at) else { return Sent::NotTaken(false) };
        let seal = outward.letter().seal(door.gateway.sealer(), to);
        let mut body = Parts::with_capacity(3);
        body.push(seal);
        body.push(Bytes::from_static(b"\n"));
        body.push(outward.body.clone());
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(PATH);
        let octets = HeaderValue::from_static("application/octet-stream");
        request.headers_mut().insert(header::CONTENT_TYPE, octets);
        match timeout(BEGIN, client.send(request)).await {
            Ok(Ok(answer)) => match answer.headers().get(REFUSED) {
                None => Sent::Answered(Box::new(answer)),
                Some(why) => {
                    tracing::debug!(at = %to.at, ?why, "another replica did not take a letter");
                    Sent::NotTaken(why == "stranger")
                }
            },
            Ok(Err(error)) if !error.sent => {
                tracing::debug!(at = %to.at, %error, "another replica is not there");
                // All connections in use says nothing of who is at the other end.
                if error.stage == Stage::Busy { Sent::Lost } else { Sent::NotTaken(false) }
            }
            Ok(Err(error)) => {
                tracing::info!(at = %to.at, %error, "another replica was lost on the way");
                Sent::Lost
            }
            Err(_) => Sent::Lost,
        }
    }

    fn client(&self, at: &str) -> Option<Arc<Client>> {
        if let Some(client) = self.clients.get(at) {
            return Some(client);
        }
        let options = ClientOptions {
            connect_timeout: CONNECT,
            max_connections: CONNECTIONS,
            ..ClientOptions::new(Url::parse(&format!("http://{at}")).ok()?)
        };
        let client = Arc::new(Client::new(options, self.tasks.clone()).ok()?);
        self.clients.insert(at.to_owned(), Arc::clone(&client));
        Some(client)
    }
}
