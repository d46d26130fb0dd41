//! `resources/read`: who owns a URI, and its answer with hints (design §4).

use std::sync::Arc;

use tokio::time::Instant;

use super::invoke::{Errand, join_walk, text_param};
use super::record::Record;
use super::relay::{Relay, is_retry};
use super::state::Bound;
use super::view::View;
use super::{Call, Gateway, GatewayError, Outlet};
use crate::catalogue::Shelf;
use crate::outbound::OutboundError;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::method::Kind;

impl Gateway {
    pub(super) async fn read(
        &self,
        call: &Call,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        if !self.offers(&call.endpoint, "resources").await {
            return Err(GatewayError::UnknownMethod);
        }
        let (_, uri) = text_param(call, "uri")?;
        let shelf = self.owner(call, &uri).await?;
        let server = &shelf.server;
        record.routed(&server.name, None);
        let bound = Bound { call, server: &server.config, name: &uri, arguments: None };
        // Headers that go along may ask for another answer.
        let keep = !is_retry(call) && server.config.forward_headers.is_empty();
        if let Some(kept) = shelf.reads.get(&call.principal.id, &uri).filter(|_| keep) {
            self.metrics.cache("reads", "hit");
            let hints = kept.hints.aged(kept.received.into_std(), Instant::now().into_std());
            let (sealer, tasks) = (&self.sealer, self.task_seal(call));
            let relay = Relay { call, bound: &bound, sealer, native: &uri, tasks, kept: Some(hints) };
            return Ok(relay.result(&kept.body, kept.result, &server.config)?.parts);
        }
        self.metrics.cache("reads", "miss");
        let epoch = shelf.reads.epoch();
        let mut request = self.request(call, Edits::new(), &bound)?;
        request.name = Some(uri.clone().into_owned());
        let keep = keep.then_some((&*shelf, epoch));
        let errand = Errand { server, native: &uri, request, timeout: None, keep };
        self.converse(call, errand, &bound, outlet, record).await
    }

    /// The one server that may be asked for a URI, if the operator's lists admit it: a template that may be
    /// seen must not lead to what may not.
    pub(super) async fn owner(&self, call: &Call, uri: &str) -> Result<Arc<Shelf>, GatewayError> {
        let shelf = self.find_owner(call, uri).await?;
        if shelf.server.config.resources.admits(uri) { Ok(shelf) } else { Err(unknown(uri)) }
    }

    /// The operator's globs, then what servers list, then their templates; nobody else is asked.
    async fn find_owner(&self, call: &Call, uri: &str) -> Result<Arc<Shelf>, GatewayError> {
        let members = &call.endpoint.members;
        if let ([only], false) = (&members[..], call.endpoint.config.prefix) {
            return Ok(Arc::clone(only));
        }
        if let Some(shelf) = members.iter().find(|m| m.server.config.resource_uris.is_match(uri)) {
            return Ok(Arc::clone(shelf));
        }
        if let Some(shelf) = self.listed_owner(call, uri) {
            return Ok(shelf);
        }
        // Not known yet: servers of which nothing is known, or what is known is old, are asked for their lists.
        let mut missing: Option<OutboundError> = None;
        for shelf in members {
            for kind in [Kind::Resources, Kind::Templates] {
                match shelf.known(kind) {
                    Some(known) => {
                        shelf.refresh_if_older(kind, Some(known.id)).await;
                    }
                    None => missing = missing.or(join_walk(shelf, kind).await),
                }
            }
        }
        self.listed_owner(call, uri).ok_or_else(|| match missing {
            Some(error) => error.into(),
            None => unknown(uri),
        })
    }

    fn listed_owner(&self, call: &Call, uri: &str) -> Option<Arc<Shelf>> {
        if let Some(route) = self.known_view(call, Kind::Resources).route(uri) {
            return Some(Arc::clone(&route.shelf));
        }
        let templates = self.known_view(call, Kind::Templates);
        template_owner(&templates, uri)
    }
}

/// The first template with a literal scheme and authority that the URI begins with.
fn template_owner(templates: &View, uri: &str) -> Option<Arc<Shelf>> {
    let fits = |template: &str| literal_start(template).is_some_and(|start| uri.starts_with(start));
    let mut hits: Vec<_> = templates.templates.iter().filter(|route| fits(route.native())).collect();
    // The longest literal start is the most specific; equal ones keep file order.
    hits.sort_by_key(|route| std::cmp::Reverse(literal_start(route.native()).map_or(0, str::len)));
    hits.first().map(|route| Arc::clone(&route.shelf))
}

/// What stands before the first expression, if that is a scheme and an authority at least.
fn literal_start(template: &str) -> Option<&str> {
    let start = template.split('{').next()?;
    let (scheme, rest) = start.split_once("://")?;
    let authority_ends = rest.contains('/') || template == start || template[start.len()..].starts_with("{?");
    let named = !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/');
    (named && authority_ends).then_some(start)
}

fn unknown(uri: &str) -> GatewayError {
    GatewayError::UnknownResource(uri.to_owned())
}

#[cfg(test)]
mod tests {
    use super::literal_start;

    #[test]
    fn only_templates_with_scheme_and_authority_own_uris() {
        assert_eq!(literal_start("demo://note/{id}"), Some("demo://note/"));
        assert_eq!(literal_start("x://f{?a,b}"), Some("x://f"));
        assert_eq!(literal_start("x://users/{id}/p/{q}"), Some("x://users/"));
        for too_wide in ["{+all}", "x://{host}/a", "x://no{stop}", "file:///{path}", "x:{rest}", "://a/{b}"] {
            assert_eq!(literal_start(too_wide), None, "{too_wide}");
        }
    }
}
