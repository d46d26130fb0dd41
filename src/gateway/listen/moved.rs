//! An open stream under another configuration: it goes on with what is there now, tells what looks different, and ends
//! in order where there is no place for it any more.

use std::collections::HashSet;
use std::sync::Arc;

use super::caller::Caller;
use super::{Subscription, Wanting, Watched};
use crate::catalogue::Shelf;
use crate::catalogue::watch::{Listener, Topic};
use crate::gateway::{Gateway, Snapshot};
use crate::policy::{GrantSet, Policy};
use crate::protocol::method::Kind;

/// The grants that give a topic to somebody; `native` is its URI, or the tool that made the task.
pub(super) fn givers(policy: &Policy, shelf: &Shelf, topic: &Topic, native: &str) -> GrantSet {
    let kind = if matches!(topic, Topic::Resource(_)) { Kind::Resources } else { Kind::Tools };
    policy.givers(&shelf.server.name, kind, native)
}

impl Subscription {
    /// Goes over to the configuration in force, if that is another one. False: its endpoint is gone, or its caller is
    /// not let in any more as he was.
    pub(super) fn go_over(&mut self, gateway: &Gateway) -> bool {
        if std::ptr::eq(&**gateway.current.load(), &*self.caller.snapshot) {
            return true;
        }
        let Some(next) = self.caller.under(gateway.snapshot()) else { return false };
        for list in &mut self.lists {
            list.go_over(&self.caller, &next, gateway);
        }
        let topics = std::mem::take(&mut self.topics).into_iter();
        self.topics = topics.filter_map(|topic| topic.go_over(&next)).collect();
        let unanswered = std::mem::take(&mut self.unanswered).into_iter();
        self.unanswered = unanswered.filter_map(|wanting| Some(wanting.under(&next)?.0)).collect();
        self.caller = next;
        true
    }
}

impl Caller {
    /// The same caller under another configuration.
    fn under(&self, snapshot: Arc<Snapshot>) -> Option<Self> {
        let stays = match (&snapshot.auth, &self.snapshot.auth) {
            (None, _) => true,
            (Some(auth), Some(before)) => Arc::ptr_eq(auth, before) || auth.keeps(before, &self.principal),
            (Some(_), None) => false,
        };
        let endpoint = snapshot.endpoint(&self.endpoint.config.path).filter(|_| stays)?;
        let endpoint = Arc::clone(endpoint);
        // A server that sees each caller as himself asks for a token, which only a new request brings.
        if self.context.is_none() && endpoint.is_per_user() {
            return None;
        }
        let members = match &self.context {
            Some(context) => endpoint.shown(|| Arc::clone(context)),
            None => Arc::clone(endpoint.service()),
        };
        let listeners: Vec<Listener> =
            members.iter().filter(|shelf| shelf.is_private()).map(Shelf::listen).collect();
        Some(Self {
            rights: snapshot.rights(&endpoint, &self.principal),
            principal: Arc::clone(&self.principal),
            context: self.context.clone(),
            endpoint,
            snapshot,
            members,
            _listeners: listeners,
        })
    }

    /// The members of these servers.
    fn are(&self, servers: &HashSet<&str>) -> Vec<bool> {
        self.members.iter().map(|shelf| servers.contains(&*shelf.server.name)).collect()
    }
}

impl Watched<Kind> {
    /// What is told already stays told; what looks different is to be told, as is what was about to be.
    fn go_over(&mut self, before: &Caller, after: &Caller, gateway: &Gateway) {
        let pending = before.list_state(self.what, gateway, &self.unknown) != self.seen;
        let unknown = after.unknown(self.what);
        let names = after.members.iter().zip(&unknown).filter(|(_, unknown)| **unknown);
        // What only this caller is shown of a server, and nobody knows yet, is compared when it is known.
        let names = names.map(|(shelf, _)| &*shelf.server.name).collect();
        let differs = before.prints(self.what, gateway, &before.are(&names))
            != after.prints(self.what, gateway, &unknown);
        self.seen = after.list_state(self.what, gateway, &unknown);
        self.unknown = unknown;
        if pending || differs {
            // As nothing ever looks.
            self.seen.push(None);
        }
    }
}

impl Watched<Wanting> {
    /// The same at the same server; `None`: it is not there any more.
    fn go_over(mut self, next: &Caller) -> Option<Self> {
        let (what, same) = self.what.under(next)?;
        if !same {
            // Between two streams of a server anything may have happened (S-23).
            self.seen = Vec::new();
        }
        Some(Self { what, ..self })
    }
}

impl Wanting {
    /// The same wish under another configuration, and whether it is at the very same server.
    fn under(self, next: &Caller) -> Option<(Self, bool)> {
        let (shelf, topic) = (self.wish.shelf(), self.wish.topic.clone());
        let now = next.members.iter().find(|now| now.server.name == shelf.server.name)?;
        let same = Arc::ptr_eq(now, shelf);
        let givers = givers(&next.snapshot.policy, now, &topic, &self.native);
        let wish = if same { self.wish } else { now.wish(topic) };
        Some((Self { wish, givers, ..self }, same))
    }
}
