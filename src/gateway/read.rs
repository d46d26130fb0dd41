//! `resources/read`: who owns a URI, and its answer with hints (design §4).

use std::sync::Arc;

use tokio::time::Instant;

use super::invoke::{Errand, text_param};
use super::record::Record;
use super::relay::{Relay, is_retry};
use super::resolve::join_walk;
use super::state::Bound;
use super::{Call, Gateway, GatewayError, Outlet};
use crate::catalogue::Shelf;
use crate::catalogue::hints::Scope;
use crate::catalogue::reads::Kept;
use crate::outbound::{OutboundError, Request};
use crate::policy::Decision;
use crate::protocol::code;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::method::{Kind, Method};

/// What URIs of MCP Apps' interfaces begin with.
const INTERFACE: &str = "ui://";

impl Gateway {
    pub(super) async fn read(
        &self,
        call: &Call,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        if !self.offers(call, "resources").await {
            return Err(GatewayError::UnknownMethod);
        }
        let (_, uri) = text_param(call, "uri")?;
        match self.recorded_owner(call, &uri, record).await {
            Ok(shelf) => self.read_from(call, (&shelf, &uri), outlet, record).await,
            Err(GatewayError::UnknownResource(_)) => self.probe(call, &uri, outlet, record).await,
            Err(error) => Err(error),
        }
    }

    /// Asks the servers enlisted for it (`resources.probe`) for a URI that nobody is known to own: one at a
    /// time, those this caller may ask; only "not found" means the next one (design §4).
    async fn probe(
        &self,
        call: &Call,
        uri: &str,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        let enlisted = |shelf: &&Arc<Shelf>| {
            let config = &shelf.server.config;
            config.resources_probe
                && config.resources.admits(uri)
                && call.snapshot.decide_uri(&call.rights, shelf, uri) != Decision::Hidden
        };
        for shelf in call.members().iter().filter(enlisted) {
            match Box::pin(self.read_from(call, (shelf, uri), outlet, record)).await {
                Err(GatewayError::UnknownResource(_)) => {}
                Err(GatewayError::Relayed(error)) if error.code == code::INVALID_PARAMS => {}
                answer => {
                    record.routed(&shelf.server.name, None);
                    return answer;
                }
            }
        }
        Err(unknown(uri))
    }

    async fn read_from(
        &self,
        call: &Call,
        (shelf, uri): (&Arc<Shelf>, &str),
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        let server = &shelf.server;
        let decision = call.snapshot.decide_uri(&call.rights, shelf, uri);
        self.admit(call, decision, outlet, record)?;
        let bound = Bound { call, server: &server.config, name: uri, arguments: None };
        // Headers that go along may ask for another answer.
        let keep = !is_retry(call) && server.config.forward_headers.is_empty();
        let (reads, reader) = shelf.reads(&call.principal.id);
        if let Some(kept) = reads.get(&reader, uri).filter(|_| keep) {
            self.metrics.cache("reads", "hit");
            let hints = kept.hints.aged(kept.received.into_std(), Instant::now().into_std());
            let (sealer, tasks) = (&self.sealer, self.task_seal(call));
            let relay = Relay { call, bound: &bound, sealer, native: uri, tasks, kept: Some(hints) };
            return Ok(relay.result(&kept.body, kept.result, None)?.parts);
        }
        self.metrics.cache("reads", "miss");
        let epoch = reads.epoch();
        let mut request = self.request(call, Edits::new(), &bound)?;
        request.name = Request::name_value(uri);
        let keep = keep.then_some((&**shelf, epoch));
        let errand = Errand { keep, ..Errand::new(server, uri, request) };
        self.count(call, &errand, None, record).await?;
        self.converse(errand, &bound, outlet, record).await
    }

    /// The one server that may be asked for a URI, and that this caller may ask for it; if the operator's lists admit
    /// it: a template that may be seen must not lead to what may not.
    pub(super) async fn owner(&self, call: &Call, uri: &str) -> Result<Arc<Shelf>, GatewayError> {
        let shelf = self.find_owner(call, uri).await?;
        if shelf.server.config.resources.admits(uri) { Ok(shelf) } else { Err(unknown(uri)) }
    }

    /// Whether updates of a resource can be told to this caller: somebody owns it, tells of it, and the caller may
    /// ask for it.
    pub async fn tellable(&self, call: &Call, uri: &str) -> Result<(), GatewayError> {
        if !self.tells(call).await.updates {
            return Err(GatewayError::UnknownMethod);
        }
        let shelf = self.owner(call, uri).await?;
        match call.snapshot.decide_uri(&call.rights, &shelf, uri) {
            Decision::Allowed { .. } => {}
            Decision::NeedsScopes { grant } => {
                return Err(GatewayError::Scope(call.snapshot.policy.scopes(grant).to_vec()));
            }
            Decision::Hidden => return Err(GatewayError::UnknownResource(uri.to_owned())),
        }
        match shelf.known_peer() {
            Some(peer) if !peer.offer.tells_updates() => {
                Err(GatewayError::InvalidParams("the server of this resource tells no updates"))
            }
            _ => Ok(()),
        }
    }

    /// The server a completion is for: the one that lists this very template, else the owner of the URI.
    async fn reference_owner(&self, call: &Call, uri: &str) -> Result<Arc<Shelf>, GatewayError> {
        let listed = || {
            let templates = self.known_view(call, Kind::Templates);
            let listed = templates.route(uri, &call.rights).map(|route| &route.shelf);
            listed.filter(|shelf| shelf.is_approved(Kind::Templates)).map(Arc::clone)
        };
        if let Some(shelf) = listed() {
            return Ok(shelf);
        }
        // Asks the servers of which nothing is known yet.
        let owner = self.owner(call, uri).await;
        listed().map_or(owner, Ok)
    }

    /// The operator's globs, then what servers list, then their templates; nobody else is asked.
    async fn find_owner(&self, call: &Call, uri: &str) -> Result<Arc<Shelf>, GatewayError> {
        let all = call.members();
        let sees =
            |shelf: &&Arc<Shelf>| call.snapshot.decide_uri(&call.rights, shelf, uri) != Decision::Hidden;
        let seen: Vec<&Arc<Shelf>> = all.iter().filter(sees).collect();
        if let Some(shelf) = self.known_owner(call, uri, &seen) {
            return Ok(shelf);
        }
        // Not known yet: servers of which nothing is known, or what is known is old, are asked for their lists.
        let mut missing: Option<OutboundError> = None;
        if call.endpoint.config.prefix {
            missing = ask(&seen, uri).await;
        }
        if let Some(shelf) = self.known_owner(call, uri, &seen) {
            return Ok(shelf);
        }
        Err(match missing {
            Some(error) => error.into(),
            None => unknown(uri),
        })
    }

    /// The same for a request of its own: that there is an owner that this caller may not ask is recorded.
    pub(super) async fn recorded_owner(
        &self,
        call: &Call,
        uri: &str,
        record: &mut Record,
    ) -> Result<Arc<Shelf>, GatewayError> {
        record.asked(uri);
        let found = match call.method {
            Method::Complete => self.reference_owner(call, uri).await,
            _ => self.owner(call, uri).await,
        };
        let all = || call.members().iter().collect::<Vec<_>>();
        match &found {
            Ok(shelf) => record.routed(&shelf.server.name, None),
            Err(_) if call.rights.is_open() => {}
            Err(_) => {
                if let Some(shelf) = self.known_owner(call, uri, &all()) {
                    record.concealed(&shelf.server.name, None);
                }
            }
        }
        found
    }

    /// The owner among these servers by what is known now.
    fn known_owner(&self, call: &Call, uri: &str, among: &[&Arc<Shelf>]) -> Option<Arc<Shelf>> {
        if !call.endpoint.config.prefix {
            // The endpoint is its server.
            return among.first().map(|shelf| Arc::clone(shelf));
        }
        if let Some(shelf) = among.iter().find(|s| s.server.config.resource_uris.is_match(uri)) {
            return Some(Arc::clone(shelf));
        }
        let resources = self.known_view(call, Kind::Resources);
        let mut listed = resources.named(uri).map(|route| &route.shelf);
        if let Some(shelf) = listed.find(|shelf| among.iter().any(|one| Arc::ptr_eq(one, shelf))) {
            return Some(Arc::clone(shelf));
        }
        template_owner(among, uri).or_else(|| interface_owner(among, uri)).or_else(|| {
            let giver = self.links.giver(&call.principal.id, uri)?;
            among.iter().find(|shelf| shelf.server.name == giver).map(|shelf| Arc::clone(shelf))
        })
    }
}

/// Asks for the lists of what is addressed; the first error of a server of which nothing is known.
async fn ask(shelves: &[&Arc<Shelf>], uri: &str) -> Option<OutboundError> {
    let mut missing = None;
    for shelf in shelves {
        let kinds = [Kind::Resources, Kind::Templates, Kind::Tools];
        for kind in kinds.into_iter().filter(|kind| *kind != Kind::Tools || uri.starts_with(INTERFACE)) {
            match shelf.approved(kind) {
                Some(known) => {
                    shelf.refresh_if_older(kind, Some(known.id)).await;
                }
                None => missing = missing.or(join_walk(shelf, kind).await),
            }
        }
    }
    missing
}

/// The first server with a visible tool that this resource shows (F-096).
fn interface_owner(among: &[&Arc<Shelf>], uri: &str) -> Option<Arc<Shelf>> {
    if !uri.starts_with(INTERFACE) {
        return None;
    }
    let shows = |shelf: &&&Arc<Shelf>| {
        let tools = shelf.approved(Kind::Tools);
        tools.is_some_and(|tools| tools.items.iter().any(|item| item.ui.as_deref() == Some(uri)))
    };
    among.iter().find(shows).map(|shelf| Arc::clone(shelf))
}

/// Keeps what was read, where the errand says so.
pub(super) fn keep(call: &Call, errand: &Errand<'_>, mut kept: Kept) {
    let Some((shelf, epoch)) = errand.keep else { return };
    // Read as one caller, it is that caller's, whatever the server says of others.
    if errand.server.config.credentials.is_per_user() {
        kept.hints.scope = Scope::Private;
    }
    let (reads, reader) = shelf.reads(&call.principal.id);
    reads.keep(&reader, errand.native, epoch, kept);
}

/// The first template with a literal scheme and authority that the URI begins with.
fn template_owner(among: &[&Arc<Shelf>], uri: &str) -> Option<Arc<Shelf>> {
    let mut best: Option<(usize, &Arc<Shelf>)> = None;
    for shelf in among {
        let Some(known) = shelf.approved(Kind::Templates) else { continue };
        let starts = known.items.iter().filter_map(|item| literal_start(&item.native));
        // The longest literal start is the most specific; equal ones keep file order.
        let longest = starts.filter(|start| uri.starts_with(start)).map(str::len).max();
        if let Some(length) = longest.filter(|length| best.is_none_or(|(other, _)| other < *length)) {
            best = Some((length, shelf));
        }
    }
    best.map(|(_, shelf)| Arc::clone(shelf))
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
