//! What the caller of one stream sees of a list, as a few numbers that change with it.

use std::sync::Arc;

use super::Watched;
use crate::auth::Principal;
use crate::catalogue::Shelf;
use crate::catalogue::watch::Listener;
use crate::gateway::along::own_context;
use crate::gateway::snapshot::{Endpoint, Snapshot};
use crate::gateway::view::{self, Frame};
use crate::gateway::{Call, Gateway};
use crate::outbound::Context;
use crate::policy::Rights;
use crate::protocol::method::Kind;
use crate::protocol::version::Revision;

/// Whose stream it is, and what it may see there.
pub(super) struct Caller {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) principal: Arc<Principal>,
    pub(super) rights: Rights,
    /// Whom servers see that show each caller his own; `None`: no token was kept for them.
    pub(super) context: Option<Arc<Context>>,
    /// What the endpoint's servers show it.
    pub(super) members: Arc<[Arc<Shelf>]>,
    /// Says to those that show each caller his own that somebody listens.
    pub(super) _listeners: Vec<Listener>,
}

/// Whom servers see, where it matters at this endpoint or may come to matter.
pub(super) fn own(call: &Call) -> Option<Arc<Context>> {
    let matters = call.token.is_some() || call.endpoint.is_per_user();
    matters.then(|| Arc::new(own_context(call)))
}

/// What a list is made of: templates have no notice of their own (S-37).
fn parts(kind: &Kind) -> &[Kind] {
    if *kind == Kind::Resources { &[Kind::Resources, Kind::Templates] } else { std::slice::from_ref(kind) }
}

impl Caller {
    /// What this caller sees of a list. Without grants: the snapshots it is made of; an endpoint that mirrors a whole
    /// server tells what a direct connection tells, each notice of the server, also where nothing looks different.
    /// With grants: what the list looks like, so that nobody hears of what is not theirs. `without`: as if nothing were
    /// known of these members.
    pub(super) fn list_state(&self, kind: Kind, gateway: &Gateway, without: &[bool]) -> Vec<Option<u64>> {
        let is_out = |member: usize| without.get(member).is_some_and(|out| *out);
        if !self.rights.is_open() || self.endpoint.searches(kind) || self.endpoint.books.is_some() {
            return self.prints(kind, gateway, without);
        }
        let mut state = Vec::with_capacity(parts(&kind).len() * self.members.len() + 1);
        for kind in parts(&kind) {
            for (member, shelf) in self.members.iter().enumerate() {
                let known = shelf.known(*kind).filter(|_| !is_out(member));
                // An empty list looks like one that is not known yet.
                state.push(known.as_ref().filter(|known| !known.items.is_empty()).map(|known| known.looks));
                if !self.endpoint.config.prefix && shelf.server.config.shows_all(*kind) {
                    state.push(Some(known.map_or(0, |known| known.announced)));
                }
            }
        }
        state
    }

    /// What a list looks like to this caller: the same where nothing in it differs, under whatever configuration.
    pub(super) fn prints(&self, kind: Kind, gateway: &Gateway, without: &[bool]) -> Vec<Option<u64>> {
        let is_out = |member: usize| without.get(member).is_some_and(|out| *out);
        let print = |kind: &Kind| {
            let shelves = &self.members;
            let frame = Frame { snapshot: &self.snapshot, endpoint: &self.endpoint, shelves, kind: *kind };
            let known =
                |(member, shelf): (usize, &Arc<Shelf>)| shelf.known(*kind).filter(|_| !is_out(member));
            let view = if !without.contains(&true) {
                gateway.view_now(&frame)
            } else {
                let known: Vec<_> = shelves.iter().enumerate().map(known).collect();
                view::view(&frame, &known, &gateway.metrics)
            };
            Some(self.endpoint.sheets.of(&view, *kind, &self.rights, Revision::V20260728).print)
        };
        parts(&kind).iter().map(print).collect()
    }

    /// Of which members nothing is known yet that only this caller is shown.
    pub(super) fn unknown(&self, kind: Kind) -> Vec<bool> {
        let is_known = |shelf: &Arc<Shelf>| parts(&kind).iter().all(|kind| shelf.known_id(*kind).is_some());
        self.members.iter().map(|shelf| shelf.is_private() && !is_known(shelf)).collect()
    }

    /// What a caller is shown of a server for the first time since he listens is no change: he has seen nothing else
    /// here. What changed beside it is one.
    pub(super) fn meet(&self, list: &mut Watched<Kind>, gateway: &Gateway) {
        if !list.unknown.contains(&true) {
            return;
        }
        let unknown = self.unknown(list.what);
        if unknown != list.unknown && self.list_state(list.what, gateway, &list.unknown) == list.seen {
            list.seen = self.list_state(list.what, gateway, &unknown);
        }
        list.unknown = unknown;
    }
}
