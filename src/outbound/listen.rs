//! What a server says outside of calls: one stream, by whatever way its dialect has (S-20..S-26, G-43).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

use super::context::Context;
use super::error::{Failure, OutboundError};
use super::link::{Connection, Inbox};
use super::place::{Place, Transport};
use super::request::Request;
use super::server::{Peer, Server};
use super::wire::Wire;
use super::{legacy, modern};
use crate::protocol::items::json_string;
use crate::protocol::message::{Received, ReceivedKind};
use crate::protocol::meta::{SUBSCRIPTION_ID, TASKS};
use crate::protocol::method::{Kind, Method};
use crate::protocol::object::{Object, string};
use crate::protocol::version::Era;

/// What is wanted of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Kinds whose list changes are wanted.
    pub lists: Vec<Kind>,
    /// Resources whose updates are wanted.
    pub uris: Vec<String>,
    /// Tasks whose state is wanted, by native id.
    pub tasks: Vec<String>,
}

/// Something changed at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A list of this kind.
    Changed(Kind),
    /// A resource.
    Updated(String),
    /// A task, by native id, with the notice's `params`.
    Task(String, Bytes),
}

/// Why there is no stream.
#[derive(Debug, Clone)]
pub enum NoListen {
    /// The server does not offer one; asking again is of no use until it was restarted.
    NotOffered,
    /// It failed this time.
    Failed(OutboundError),
}

/// An open stream. Dropping it ends it by the hop's own rule.
#[derive(Debug)]
pub struct Listen {
    server: Arc<Server>,
    place: Arc<Place>,
    peer: Arc<Peer>,
    source: Source,
    /// What the server agreed to tell about.
    pub agreed: Agreed,
    /// Its own wish for the pause before the stream is opened again.
    pub retry: Option<Duration>,
}

/// Single things a server agreed to tell about.
#[derive(Debug, Clone, Default)]
pub struct Agreed {
    /// Resources.
    pub uris: Vec<String>,
    /// Tasks, by native id.
    pub tasks: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Source {
    /// The body of an HTTP answer. Modern: the id every message is tagged with.
    Stream(Box<Wire>, Option<u64>),
    /// A child's output, or a stream of the 2024-11-05 transport. Modern: our listen request, whose answer is the end.
    Child(broadcast::Receiver<Arc<Received>>, Connection, Option<(u64, Inbox)>),
}

/// A stream on which nothing was heard for so long, comments included, is taken for dead.
const DEAF: Duration = Duration::from_secs(300);
/// How long an acknowledgement may take (S-24).
pub(super) const ACK: Duration = Duration::from_secs(10);

impl Server {
    /// Opens the stream of what the server says to a context outside of calls.
    pub async fn listen(
        self: &Arc<Self>,
        context: Option<&Context>,
        filter: &Filter,
    ) -> Result<Listen, NoListen> {
        let (place, peer) = self.ready(context).await.map_err(NoListen::Failed)?;
        let opened = match (&peer.era, &peer.connection) {
            (Era::Modern, _) => self.listen_modern(&place, &peer, filter).await,
            (Era::Legacy, Some(connection)) => {
                Ok((Source::Child(place.overheard.subscribe(), connection.clone(), None), Agreed::default()))
            }
            (Era::Legacy, None) => self.listen_get(&place, &peer).await,
        };
        let (source, mut agreed) = opened?;
        if peer.era == Era::Legacy {
            agreed.uris = self.subscribe((&place, &peer), &filter.uris).await;
        }
        Ok(Listen { server: Arc::clone(self), place, peer, source, agreed, retry: None })
    }

    pub(super) fn no_listen(&self, failure: Failure) -> NoListen {
        NoListen::Failed(self.error(failure, true))
    }

    async fn listen_modern(
        self: &Arc<Self>,
        place: &Arc<Place>,
        peer: &Arc<Peer>,
        filter: &Filter,
    ) -> Result<(Source, Agreed), NoListen> {
        let lists = filter.lists.iter().filter_map(|kind| Some(format!("\"{}\":true", flag(*kind)?)));
        let mut wanted: Vec<String> = lists.collect();
        if !filter.uris.is_empty() {
            let uris: Vec<String> = filter.uris.iter().map(|uri| json_string(uri)).collect();
            wanted.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        if !filter.tasks.is_empty() {
            let ids: Vec<String> = filter.tasks.iter().map(|id| json_string(id)).collect();
            wanted.push(format!("\"taskIds\":[{}]", ids.join(",")));
        }
        let params = format!("{{\"notifications\":{{{}}}}}", wanted.join(","));
        let mut request = Request::own(Method::Listen, params).map_err(|_| NoListen::NotOffered)?;
        if !filter.tasks.is_empty() {
            // The one capability that this stream can honour (S-25).
            request.hop.capabilities = format!("{{\"extensions\":{{\"{TASKS}\":{{}}}}}}");
        }
        let id = self.next_id();
        let body = modern::body(&request, id, &peer.version, &self.client_info);
        let opened = timeout(ACK, async {
            match (&place.transport, &peer.connection) {
                (Transport::Http(replicas), _) => {
                    // Also one whose breaker is open, where there is no other: this is asked rarely.
                    let replica = replicas.pick_any(&[]);
                    let link = replica.as_ref().and_then(|replica| replica.link.as_ref());
                    let Some(link) = link else { return Err(self.no_listen(Failure::Exited)) };
                    let headers = modern::headers(&request, &peer.version);
                    let caller = place.on_behalf();
                    let answer = link.listen_for(caller.as_deref(), headers, body).await;
                    let answer = answer.map_err(|(failure, _)| self.no_listen(failure))?;
                    let mut wire = Wire::http(answer);
                    let agreed = self.acknowledged(&mut wire, id).await?;
                    Ok((Source::Stream(Box::new(wire), Some(id)), agreed))
                }
                (Transport::Stdio(..), Some(connection)) => {
                    let mut overheard = place.overheard.subscribe();
                    let put = connection.request(id, HeaderMap::new(), &body).await;
                    let mut wire = Wire::put(put.map_err(|(failure, _)| self.no_listen(failure))?);
                    let agreed = self.acknowledged_child(&mut wire, &mut overheard, id).await?;
                    let Wire::Inbox(inbox) = wire else { return Err(NoListen::NotOffered) };
                    inbox.lasts();
                    Ok((Source::Child(overheard, connection.clone(), Some((id, inbox))), agreed))
                }
                (Transport::Stdio(..), None) => Err(self.no_listen(Failure::Exited)),
            }
        });
        opened.await.unwrap_or_else(|_| Err(self.no_listen(Failure::Timeout(ACK))))
    }

    /// Waits for the acknowledgement: the first message of our subscription (S-03, S-24).
    async fn acknowledged(&self, wire: &mut Wire, id: u64) -> Result<Agreed, NoListen> {
        loop {
            let message = wire.next().await.map_err(|failure| self.not_open(failure))?;
            match &message.kind {
                ReceivedKind::Error { .. } | ReceivedKind::Result { .. } => {
                    return Err(self.refused(&message));
                }
                _ => {
                    if let Some(agreed) = acknowledgement(&message, id) {
                        return Ok(agreed);
                    }
                }
            }
        }
    }

    async fn acknowledged_child(
        &self,
        wire: &mut Wire,
        overheard: &mut broadcast::Receiver<Arc<Received>>,
        id: u64,
    ) -> Result<Agreed, NoListen> {
        loop {
            tokio::select! {
                answer = wire.next() => {
                    let message = answer.map_err(|failure| self.not_open(failure))?;
                    return Err(self.refused(&message));
                }
                heard = overheard.recv() => match heard {
                    Ok(message) => if let Some(agreed) = acknowledgement(&message, id) {
                        return Ok(agreed);
                    },
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return Err(self.no_listen(Failure::Exited)),
                }
            }
        }
    }

    /// -32601, -32021 and refused methods will not change by asking again (S-22).
    fn refused(&self, message: &Received) -> NoListen {
        match &message.kind {
            ReceivedKind::Error { .. } => NoListen::NotOffered,
            _ => self.no_listen(Failure::Unavailable("the stream ended at once".to_owned())),
        }
    }

    fn not_open(&self, failure: Failure) -> NoListen {
        match failure {
            Failure::Status(400..=499) => NoListen::NotOffered,
            failure => self.no_listen(failure),
        }
    }
}

impl Listen {
    /// Whether resources are subscribed one by one on the same stream (legacy), not with the stream (modern).
    pub fn subscribes_singly(&self) -> bool {
        self.peer.era == Era::Legacy
    }

    /// Legacy: begins or ends one subscription. True when the server agreed.
    pub async fn subscribe(&self, uri: &str, begin: bool) -> bool {
        let method = if begin { "resources/subscribe" } else { "resources/unsubscribe" };
        self.server.tell_subscription((&self.place, &self.peer), method, uri).await
    }

    /// The next notice; an error is the end of the stream, also a graceful one. Cancel-safe.
    pub async fn notice(&mut self) -> Result<Notice, OutboundError> {
        let server = Arc::clone(&self.server);
        loop {
            let message = match &mut self.source {
                Source::Stream(wire, _) => match hear(wire, &mut self.retry).await {
                    Some(heard) => heard.map_err(|failure| server.error(failure, true))?,
                    None => continue,
                },
                Source::Child(overheard, connection, listen) => {
                    let inbox = listen.as_mut().map(|(_, inbox)| inbox);
                    let heard = overhear(overheard, connection, inbox).await;
                    (*heard.ok_or_else(|| server.error(Failure::Exited, true))?).clone()
                }
            };
            match &message.kind {
                // The end, said in words (S-09, S-26).
                ReceivedKind::Result { .. } | ReceivedKind::Error { .. } => {
                    return Err(server.error(Failure::Unavailable("the stream was ended".to_owned()), true));
                }
                ReceivedKind::Request { .. } if self.peer.era == Era::Legacy => {
                    // A child's requests are answered where all its output is read.
                    if matches!(self.source, Source::Stream(..))
                        && let Some((id, method)) = self.peer.running.ask(message)
                    {
                        let answer = legacy::answer(&method, &id);
                        self.server.post_later((&self.place, &self.peer), "answer", answer);
                    }
                }
                ReceivedKind::Notification { method, params } => {
                    if let Some(notice) = self.meant(&message, method, params.as_ref()) {
                        return Ok(notice);
                    }
                }
                ReceivedKind::Request { .. } => server.violation("request"),
            }
        }
    }

    /// The notice, if the message belongs to this subscription.
    fn meant(&self, message: &Received, method: &str, params: Option<&Object>) -> Option<Notice> {
        let id = match &self.source {
            Source::Stream(_, id) => *id,
            Source::Child(_, _, listen) => listen.as_ref().map(|(id, _)| *id),
        };
        if let Some(id) = id
            && !tagged(message, params, id)
        {
            // On a child's output other subscriptions interleave; on a stream of its own it is a fault.
            if matches!(self.source, Source::Stream(..)) {
                self.server.violation("subscription_id");
            }
            return None;
        }
        match method {
            "notifications/tools/list_changed" => Some(Notice::Changed(Kind::Tools)),
            "notifications/prompts/list_changed" => Some(Notice::Changed(Kind::Prompts)),
            "notifications/resources/list_changed" => Some(Notice::Changed(Kind::Resources)),
            "notifications/resources/updated" => {
                let text = message.text();
                let uri = params?.get(text, "uri").ok()??;
                Some(Notice::Updated(string(uri.of(text))?.into_owned()))
            }
            "notifications/tasks" => {
                let (text, params) = (message.text(), params?);
                let id = string(params.get(text, "taskId").ok()??.of(text))?.into_owned();
                Some(Notice::Task(id, message.body.as_bytes().slice(params.span.range())))
            }
            _ => None,
        }
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        // A stream of its own ends by being closed; on a child's output it must be said (S-08).
        if let Source::Child(_, _, Some((id, _))) = &self.source {
            self.server.post_later((&self.place, &self.peer), "cancel", legacy::cancelled(*id));
        }
    }
}

/// The next message of a stream; `None` after a silence in which comments came.
async fn hear(wire: &mut Wire, retry: &mut Option<Duration>) -> Option<Result<Received, Failure>> {
    let next = timeout(DEAF, wire.next()).await;
    *retry = wire.retry().or(*retry);
    if next.is_err() && wire.heard().is_some_and(|heard| heard + DEAF > Instant::now()) {
        return None;
    }
    Some(next.unwrap_or(Err(Failure::Timeout(DEAF))))
}

/// The next message a child says outside of calls, or the answer that ends our listen request.
async fn overhear(
    overheard: &mut broadcast::Receiver<Arc<Received>>,
    connection: &Connection,
    listen: Option<&mut Inbox>,
) -> Option<Arc<Received>> {
    let ended = async {
        match listen {
            Some(inbox) => inbox.recv().await.ok().map(Arc::new),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        heard = overheard.recv() => heard.ok(),
        answer = ended => answer,
        () = connection.closed() => None,
    }
}

/// What an acknowledgement of subscription `id` agrees to.
fn acknowledgement(message: &Received, id: u64) -> Option<Agreed> {
    let ReceivedKind::Notification { method, params: Some(params) } = &message.kind else { return None };
    if &**method != "notifications/subscriptions/acknowledged" || !tagged(message, Some(params), id) {
        return None;
    }
    let text = message.text();
    let honoured = params.get(text, "notifications").ok().flatten();
    let honoured = honoured.and_then(|span| Object::parse(text, span).ok()).unwrap_or_default();
    let strings = |key: &str| -> Vec<String> {
        let list = honoured.get(text, key).ok().flatten();
        list.and_then(|span| serde_json::from_str(span.of(text)).ok()).unwrap_or_default()
    };
    Some(Agreed { uris: strings("resourceSubscriptions"), tasks: strings("taskIds") })
}

/// Whether a message carries our subscription's id.
fn tagged(message: &Received, params: Option<&Object>, id: u64) -> bool {
    let text = message.text();
    let meta = params.and_then(|p| p.get(text, "_meta").ok().flatten());
    let meta = meta.and_then(|span| Object::parse(text, span).ok());
    let tag = meta.and_then(|meta| meta.get(text, SUBSCRIPTION_ID).ok().flatten());
    tag.is_some_and(|span| span.of(text) == id.to_string())
}

/// The filter's member for list changes of a kind; templates have none of their own (S-37).
const fn flag(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Tools => Some("toolsListChanged"),
        Kind::Prompts => Some("promptsListChanged"),
        Kind::Resources => Some("resourcesListChanged"),
        Kind::Templates => None,
    }
}
