//! From a name or address to what it leads to in the caller's view, and the one place that lets a caller use it.

use std::sync::Arc;

use futures_util::future::join_all;

use super::record::Record;
use super::snapshot::{Endpoint, Snapshot};
use super::view::{self, Frame, Route, View};
use super::{Call, Gateway, GatewayError, Outlet};
use crate::catalogue::{Published, Shelf};
use crate::outbound::{Failure, OutboundError};
use crate::policy::Decision;
use crate::protocol::method::Kind;

/// With `audit.strict` nothing is done that cannot be told.
const UNWRITTEN: GatewayError =
    GatewayError::Internal("the audit log cannot be written, so nothing was done");

impl Gateway {
    /// Lets a caller use what it asked for, or not (design §7). Whatever goes on to a server for a caller comes
    /// through here first: calls, prompts, reads, completions, each retry anew, before the first byte of
    /// an answer.
    pub(super) fn admit(
        &self,
        call: &Call,
        decision: Decision,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<(), GatewayError> {
        record.decided(decision);
        if record.is_silenced() {
            return Err(UNWRITTEN);
        }
        match decision {
            Decision::Allowed { .. } => {
                outlet.admitted();
                Ok(())
            }
            Decision::NeedsScopes { grant } => {
                Err(GatewayError::Scope(call.snapshot.policy.scopes(grant).to_vec()))
            }
            // Names of others are not resolved at all, so this is only to be safe.
            Decision::Hidden => Err(GatewayError::UnknownItem("item")),
        }
    }

    /// All an endpoint has, of what is known now; nobody is asked.
    pub(super) fn known_view(&self, call: &Call, kind: Kind) -> Arc<View> {
        let shelves = call.members();
        self.view_now(&Frame { snapshot: &call.snapshot, endpoint: &call.endpoint, shelves, kind })
    }

    /// The same, apart from a call.
    pub(super) fn view_now(&self, frame: &Frame<'_>) -> Arc<View> {
        if let Some(view) = view::current(frame) {
            return view;
        }
        let known: Vec<Option<Arc<Published>>> =
            frame.shelves.iter().map(|shelf| shelf.known(frame.kind)).collect();
        view::view(frame, &known, &self.metrics)
    }

    /// All an endpoint has of a kind, whoever asks, and the servers that did not answer. Servers are asked; those that
    /// show each caller his own show what the gateway gets to see in its own name.
    pub async fn everything(
        &self,
        snapshot: &Snapshot,
        endpoint: &Endpoint,
        kind: Kind,
    ) -> (Arc<View>, Vec<Arc<str>>) {
        let shelves = endpoint.service();
        let found = join_all(shelves.iter().map(|shelf| shelf.look_up(kind))).await;
        let known: Vec<Option<Arc<Published>>> =
            found.iter().map(|found| found.published().map(Arc::clone)).collect();
        let silent = shelves.iter().zip(&known).filter(|(_, known)| known.is_none());
        let missing = silent.map(|(shelf, _)| Arc::clone(&shelf.server.name)).collect();
        (view::view(&Frame { snapshot, endpoint, shelves, kind }, &known, &self.metrics), missing)
    }

    /// Where an exposed name leads in the caller's view. A name not known yet makes the servers it could belong to
    /// be asked. Of a name that is another caller's nothing is told, not even by what is done to find out (M-43).
    pub(super) async fn resolve(
        &self,
        call: &Call,
        kind: Kind,
        name: &str,
        record: &mut Record,
    ) -> Result<Arc<Route>, GatewayError> {
        let view = self.known_view(call, kind);
        if let Some(route) = view.route(name, &call.rights).or_else(|| view.withdrawn(name, &call.rights)) {
            if route.shelf.is_approved(kind) {
                return Ok(Arc::clone(route));
            }
            // What was approved is not what it was: nothing goes by the old until the server is asked again.
            Box::pin(judge_anew(&route.shelf, kind)).await?;
        }
        // Rare and large: apart, so that a call that finds its route at once does not carry it along.
        Box::pin(self.search(call, kind, name, record)).await
    }

    /// Where a name leads that was not known a moment ago.
    async fn search(
        &self,
        call: &Call,
        kind: Kind,
        name: &str,
        record: &mut Record,
    ) -> Result<Arc<Route>, GatewayError> {
        let separator = &call.snapshot.config.gateway.separator;
        let could_own = |shelf: &Arc<Shelf>| {
            let prefix = &shelf.server.config.prefix;
            !call.endpoint.config.prefix
                || prefix.is_empty()
                || name.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with(separator.as_str()))
        };
        let mut missing = None;
        let seen = call.seen(std::slice::from_ref(&kind)).filter(|(_, sees)| *sees);
        for (shelf, _) in seen.filter(|(shelf, _)| could_own(shelf)) {
            match shelf.approved(kind) {
                Some(known) => {
                    shelf.refresh_if_older(kind, Some(known.id)).await;
                }
                None => missing = missing.or(join_walk(shelf, kind).await),
            }
        }
        let view = self.known_view(call, kind);
        if let Some(route) = view.route(name, &call.rights).or_else(|| view.withdrawn(name, &call.rights)) {
            return Ok(Arc::clone(route));
        }
        if let Some(route) = view.named(name).next() {
            record.concealed(&route.shelf.server.name, Some(route));
        }
        match missing {
            Some(error) => Err(error.into()),
            None => Err(GatewayError::UnknownItem(match kind {
                Kind::Tools => "tool",
                _ => "prompt",
            })),
        }
    }
}

/// Has a list held against the approved definitions in use. A walk that was under way already may have been held against
/// those before them.
async fn judge_anew(shelf: &Arc<Shelf>, kind: Kind) -> Result<(), GatewayError> {
    for _ in 0..2 {
        if let Some(error) = join_walk(shelf, kind).await {
            return Err(error.into());
        }
        if shelf.is_approved(kind) {
            break;
        }
    }
    Ok(())
}

/// Waits for the first walk of a server of which nothing is known; the error if it brings nothing.
pub(super) async fn join_walk(shelf: &Arc<Shelf>, kind: Kind) -> Option<OutboundError> {
    let limit = shelf.server.config.list_timeout;
    let failed = |failure| OutboundError::new(Arc::clone(&shelf.server.name), failure, false);
    match tokio::time::timeout(limit, shelf.refresh(kind)).await {
        Ok(Some(Ok(_))) => None,
        Ok(Some(Err(error))) => Some(OutboundError { sent: false, ..error }),
        Ok(None) => Some(failed(Failure::Unavailable("stopping".to_owned()))),
        Err(_) => Some(failed(Failure::Timeout(limit))),
    }
}
