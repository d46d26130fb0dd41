//! One client's `subscriptions/listen`: acknowledged first, told only what was asked for and what this caller
//! sees changed, bursts told once, ended with words (S-01..S-13, S-30..S-41).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use futures_util::future::{join_all, pending};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

mod caller;
mod filter;
mod moved;
mod streams;

use super::record::Record;
use super::{Call, Gateway, GatewayError, Outlet};
use crate::catalogue::Shelf;
use crate::catalogue::watch::{Listener, Topic, Wish};
use crate::policy::{Decision, GrantSet};
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::envelope::Id;
use crate::protocol::items::json_string;
use crate::protocol::message;
use crate::protocol::meta::{SERVER_INFO, SUBSCRIPTION_ID};
use crate::protocol::method::Kind;
use crate::protocol::object::{Object, Span};
use caller::Caller;
use filter::Wanted;
pub use streams::Counted;

/// How long an acknowledgement waits for servers that are up and not yet watched (S-33).
const ACK: Duration = Duration::from_millis(500);
/// At most one notice a list in this time; the last change is always told (S-36).
const LIST_GAP: Duration = Duration::from_millis(500);
/// The same for a resource: an overlap of two streams of a server tells twice.
const TOPIC_GAP: Duration = Duration::from_millis(100);
/// Ends of streams are spread over this time when draining, so that clients do not come back all at once (S-41).
const SPREAD: Duration = Duration::from_secs(2);

/// What one client watches.
struct Subscription {
    id: Id,
    caller: Caller,
    lists: Vec<Watched<Kind>>,
    topics: Vec<Watched<Wanting>>,
    /// What is not told, but stays wished for.
    unanswered: Vec<Wanting>,
    changes: watch::Receiver<u64>,
    /// When its token is over; what comes later needs another one.
    over: Option<Instant>,
    drain: CancellationToken,
    _counted: Option<Counted>,
}

/// One thing that is watched: what was seen of it last, and when it was told last.
struct Watched<T> {
    what: T,
    seen: Vec<Option<u64>>,
    /// Lists: of which members nothing was known yet that only this caller is shown.
    unknown: Vec<bool>,
    told: Option<Instant>,
}

/// A resource or task, and the name the client has for it.
struct Wanting {
    wish: Wish,
    name: String,
    /// The URI, or the tool that made the task: what grants are about.
    native: String,
    /// The grants that give it, or the tool that made it.
    givers: GrantSet,
}

impl Gateway {
    /// A place for one more stream that a client of this principal holds open; `None`: it has as many as it may
    /// (`max_streams`).
    pub fn hold_stream(&self, principal: &Arc<str>, most: usize) -> Option<Counted> {
        let counted = Counted::new(&self.streams, principal, most, self.metrics.listen_streams());
        if counted.is_none() {
            self.metrics.limited("max_streams");
        }
        counted
    }

    /// Serves one stream until the client leaves, its token is over, or the gateway drains: then the result that ends
    /// it (S-09, S-38).
    pub async fn listen(&self, call: Call, outlet: Outlet) -> Result<Parts, GatewayError> {
        let server_info = call.snapshot.server_info.as_bytes().clone();
        // Boxed, and gone once it is done: thousands of idle streams should not carry it.
        let (mut subscription, ack) = Box::pin(self.opened(call, &outlet)).await?;
        outlet.send(ack).await;
        let over = until(subscription.over);
        // A client that does not read holds the notices up, not the end.
        tokio::select! {
            () = subscription.serve(&outlet, self) => sleep(spread()).await,
            () = over => {}
        }
        let mut end = Parts::new();
        end.push(format!("{{\"resultType\":\"complete\",\"_meta\":{{\"{SUBSCRIPTION_ID}\":"));
        end.push(subscription.id.raw().clone());
        end.push(format!(",\"{SERVER_INFO}\":"));
        end.push(server_info);
        end.push("}}");
        Ok(end)
    }

    /// What opens a stream is recorded like any request; that it goes on is a gauge.
    async fn opened(&self, call: Call, outlet: &Outlet) -> Result<(Subscription, Parts), GatewayError> {
        let record = Record::open(self, &call);
        let opened = self.subscribe(call).await;
        outlet.admitted();
        record.close(&opened.as_ref().map(|(_, ack)| ack.clone()).map_err(Clone::clone));
        opened
    }

    async fn subscribe(&self, call: Call) -> Result<(Subscription, Parts), GatewayError> {
        let id = call.envelope.id().cloned().ok_or(GatewayError::InvalidRequest("a request needs an id"))?;
        let wanted = Wanted::read(&call)?;
        let most = call.snapshot.config.gateway.max_streams;
        let counted = match &call.client.session {
            // What a session watches is no stream that a client holds open: its door counts those.
            Some(_) => None,
            None => Some(
                self.hold_stream(&call.principal.id, most)
                    .ok_or(GatewayError::Internal("too many streams are open; close one first"))?,
            ),
        };
        // Before anything is looked at, so that no change falls between.
        let changes = self.catalogue.changes();
        let members = Arc::clone(call.members());
        let context = caller::own(&call);
        let flags = self.tells(&call).await;
        let lists: Vec<Kind> =
            wanted.lists.iter().copied().filter(|kind| flags.lists.contains(kind)).collect();
        let wishes = self.wishes(&call, wanted, flags.updates).await?;
        // After the wishes, so that a stream that is opened for this listener is opened with them.
        let own = members.iter().filter(|shelf| shelf.is_private());
        let listeners: Vec<Listener> = own.map(Shelf::listen).collect();
        let (wishes, unanswered) = self.confirmed(&members, wishes).await;
        let mut subscription = Subscription {
            lists: lists.into_iter().map(Watched::new).collect(),
            topics: wishes.into_iter().map(Watched::new).collect(),
            unanswered,
            id,
            over: call.principal.time_left().map(|left| Instant::now() + left),
            caller: Caller {
                endpoint: call.endpoint,
                snapshot: call.snapshot,
                principal: call.principal,
                rights: call.rights,
                context,
                members,
                _listeners: listeners,
            },
            changes,
            drain: self.drain.clone(),
            _counted: counted,
        };
        subscription.look(self);
        let ack = subscription.acknowledgement();
        Ok((subscription, ack))
    }

    /// Wishes for the URIs that somebody in this caller's view owns and tells about, and for the tasks that are the
    /// caller's. If any needs scopes, the refusal names those of all.
    async fn wishes(&self, call: &Call, wanted: Wanted, updates: bool) -> Result<Vec<Wanting>, GatewayError> {
        let policy = &call.snapshot.policy;
        let (mut all, mut needed) = (Vec::new(), Vec::new());
        let mut want = |shelf: &Arc<Shelf>, topic: Topic, name: String, native: String| {
            let givers = moved::givers(policy, shelf, &topic, &native);
            match call.rights.decide(&givers) {
                Decision::Allowed { .. } => {
                    all.push(Wanting { wish: shelf.wish(topic), name, native, givers });
                }
                Decision::NeedsScopes { grant } => needed.extend_from_slice(policy.scopes(grant)),
                Decision::Hidden => {}
            }
        };
        for uri in wanted.uris.into_iter().filter(|_| updates) {
            let Ok(shelf) = self.owner(call, &uri).await else { continue };
            if shelf.known_peer().is_some_and(|peer| peer.offer.tells_updates()) {
                want(&shelf, Topic::Resource(uri.clone()), uri.clone(), uri);
            }
        }
        for name in wanted.tasks.unwrap_or_default() {
            let Some((shelf, id)) = self.task_of(call, &name) else { continue };
            want(&shelf, Topic::Task(id.native), name, id.tool);
        }
        needed.sort_unstable();
        needed.dedup();
        if needed.is_empty() { Ok(all) } else { Err(GatewayError::Scope(needed)) }
    }

    /// Waits for the streams of servers that are up, all together at most [`ACK`]. Wishes a server has refused
    /// by then are left out; those it has not answered yet as well, though they stay wished for (S-33).
    async fn confirmed(&self, shelves: &[Arc<Shelf>], wishes: Vec<Wanting>) -> (Vec<Wanting>, Vec<Wanting>) {
        let up = shelves.iter().filter(|shelf| shelf.known_peer().is_some());
        join_all(up.map(|shelf| shelf.watch.settled(ACK))).await;
        wishes.into_iter().partition(|want| want.wish.is_agreed())
    }
}

/// Returns at that time, or never.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

impl Subscription {
    /// Tells what changes until the gateway drains, or a new configuration has no place for it.
    async fn serve(&mut self, outlet: &Outlet, gateway: &Gateway) {
        loop {
            if !self.go_over(gateway) {
                return;
            }
            let due = self.tell(outlet, gateway).await;
            tokio::select! {
                () = self.drain.cancelled() => return,
                changed = self.changes.changed() => if changed.is_err() { return },
                () = until(due) => {}
            }
        }
    }

    /// Takes what is there now as seen.
    fn look(&mut self, gateway: &Gateway) {
        for list in &mut self.lists {
            list.unknown = self.caller.unknown(list.what);
            list.seen = self.caller.list_state(list.what, gateway, &list.unknown);
        }
        for topic in &mut self.topics {
            topic.seen = vec![Some(topic.what.wish.version())];
        }
    }

    /// Tells what changed and may be told; gives the time when the next one may be.
    async fn tell(&mut self, outlet: &Outlet, gateway: &Gateway) -> Option<Instant> {
        let mut next = self.renew();
        let mut notices = Vec::new();
        for list in &mut self.lists {
            self.caller.meet(list, gateway);
            let state = self.caller.list_state(list.what, gateway, &list.unknown);
            if let Some(kind) = list.due(state, LIST_GAP, &mut next).then_some(list.what) {
                gateway.metrics.list_changed("", kind.as_str(), "out");
                notices.push(notice(
                    &self.id,
                    &format!("notifications/{}/list_changed", kind.as_str()),
                    None,
                ));
            }
        }
        for topic in &mut self.topics {
            let state = vec![Some(topic.what.wish.version())];
            if topic.due(state, TOPIC_GAP, &mut next) {
                notices.extend(topic.what.notice(&self.id));
            }
        }
        for notice in notices {
            outlet.send(notice).await;
        }
        next
    }

    /// What the caller may see now: grants end. Gives the time when the next one does.
    fn renew(&mut self) -> Option<Instant> {
        let caller = &mut self.caller;
        if caller.rights.is_open() {
            return None;
        }
        caller.rights = caller.snapshot.rights(&caller.endpoint, &caller.principal);
        let rights = &caller.rights;
        let may = |givers: &GrantSet| matches!(rights.decide(givers), Decision::Allowed { .. });
        self.topics.retain(|topic| may(&topic.what.givers));
        let rest = rights.until()?.duration_since(SystemTime::now()).unwrap_or_default();
        Some(Instant::now() + rest)
    }

    /// The first message (S-03): what is honoured, URIs as they were written (S-34).
    fn acknowledgement(&self) -> Parts {
        let flag = |kind: Kind| format!("\"{}ListChanged\":true", kind.as_str());
        let mut honoured: Vec<String> = self.lists.iter().map(|list| flag(list.what)).collect();
        for (key, resources) in [("resourceSubscriptions", true), ("taskIds", false)] {
            let wanted = self.topics.iter().map(|topic| &topic.what);
            let wanted = wanted.filter(|what| matches!(what.wish.topic, Topic::Resource(_)) == resources);
            let names: Vec<String> = wanted.map(|what| json_string(&what.name)).collect();
            if !names.is_empty() {
                honoured.push(format!("\"{key}\":[{}]", names.join(",")));
            }
        }
        let mut params = Parts::new();
        params.push(format!(
            "{{\"notifications\":{{{}}},\"_meta\":{{\"{SUBSCRIPTION_ID}\":",
            honoured.join(",")
        ));
        params.push(self.id.raw().clone());
        params.push("}}");
        message::request(None, "notifications/subscriptions/acknowledged", params)
    }
}

impl Wanting {
    /// What there is to tell of it (S-07, S-12).
    fn notice(&self, id: &Id) -> Option<Parts> {
        if matches!(self.wish.topic, Topic::Resource(_)) {
            return Some(notice(id, "notifications/resources/updated", Some(&self.name)));
        }
        let params = self.wish.last()?;
        let text = std::str::from_utf8(&params).ok()?;
        let object = Object::parse(text, Span::new(0, text.len())).ok()?;
        let tag = format!("{{\"{SUBSCRIPTION_ID}\":{}}}", id.text());
        let mut edits = Edits::new();
        edits.replace(object.get(text, "taskId").ok()??, json_string(&self.name));
        match object.get(text, "_meta").ok()? {
            Some(meta) => edits.replace(meta, tag),
            None => edits.append(&object, format!("\"_meta\":{tag}")),
        }
        Some(message::request(None, "notifications/tasks", edits.apply(&params, object.span)))
    }
}

impl<T> Watched<T> {
    const fn new(what: T) -> Self {
        Self { what, seen: Vec::new(), unknown: Vec::new(), told: None }
    }

    /// Whether a change is to be told now; a change told too recently waits, and `next` says until when.
    fn due(&mut self, state: Vec<Option<u64>>, gap: Duration, next: &mut Option<Instant>) -> bool {
        if state == self.seen {
            return false;
        }
        let now = Instant::now();
        let free = self.told.map_or(now, |told| told + gap);
        if free > now {
            *next = Some(next.map_or(free, |next| next.min(free)));
            return false;
        }
        self.seen = state;
        self.told = Some(now);
        true
    }
}

/// A notice of the subscription with this id (S-04).
fn notice(id: &Id, method: &str, uri: Option<&str>) -> Parts {
    let mut params = Parts::new();
    let uri = uri.map(|uri| format!("\"uri\":{},", json_string(uri))).unwrap_or_default();
    params.push(format!("{{{uri}\"_meta\":{{\"{SUBSCRIPTION_ID}\":"));
    params.push(id.raw().clone());
    params.push("}}");
    message::request(None, method, params)
}

fn spread() -> Duration {
    let mut byte = [0u8];
    // Without entropy the ends are just not spread.
    let _ = rand::fill(&mut byte);
    SPREAD.mul_f64(f64::from(byte[0]) / 255.0)
}
