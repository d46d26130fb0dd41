//! Published catalogues → merged and named: finished bytes, where each exposed name leads, and who may go there.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::HeaderValue;

use super::books::Shelved;
use super::discovery::Discovery;
use super::names::{List, Naming, on_endpoint};
use super::sheet::Sheet;
use super::snapshot::{Endpoint, Snapshot};
use crate::catalogue::{Published, PublishedItem, Shelf};
use crate::config::Server as ServerConfig;
use crate::outbound::Request;
use crate::policy::{GrantSet, Rights};
use crate::protocol::items::{json_string, with_members};
use crate::protocol::method::Kind;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::ToolMetrics;

/// Items of one list that the log names one by one; a list may have any number (`check` names them all).
const MOST_TOLD: usize = 20;

/// Everything one endpoint has of one kind. Names are the same for every caller; who sees what of it: [`Rights`].
#[derive(Debug)]
pub struct View {
    /// The kind.
    pub(super) kind: Kind,
    /// The snapshots it was built of, by member; `None`: nothing known.
    pub(super) key: Arc<[Option<u64>]>,
    /// All items as bytes, in the order of `items`.
    pub(super) sheet: Arc<Sheet>,
    /// All items in order.
    pub items: Vec<Arc<Route>>,
    /// Positions by name; for resources and templates: URIs and URI templates.
    places: HashMap<Box<str>, Places>,
    /// The playbooks, which are listed last.
    pub(super) books: Option<Arc<Shelved>>,
    /// Where tools are searched: the search. Then the sheet holds what is listed all the same.
    pub(super) discovery: Option<Discovery>,
    /// Whether a URI of several servers may stand in it several times: which one counts depends on the caller.
    pub(super) twins: bool,
}

/// Where items of one name stand.
#[derive(Debug)]
struct Places {
    first: usize,
    /// Rare: the same URI again.
    more: Vec<usize>,
}

/// Where an exposed name leads.
#[derive(Debug)]
pub struct Route {
    /// The name clients use.
    pub exposed: Box<str>,
    /// Whose it is.
    pub shelf: Arc<Shelf>,
    /// The snapshot it stands in.
    pub published: Arc<Published>,
    item: usize,
    /// The grants that give it to somebody.
    pub givers: GrantSet,
    /// The native name as JSON text.
    pub native_json: Bytes,
    /// The native name as `Mcp-Name` says it.
    pub native_header: Option<HeaderValue>,
    /// Metric handles, for tools: made at the first call, since a server may list more tools than are ever called.
    metrics: OnceLock<ToolMetrics>,
}

impl Route {
    /// The item.
    pub fn item(&self) -> &PublishedItem {
        &self.published.items[self.item]
    }

    /// The metric handles of this tool.
    pub fn metrics(&self, metrics: &Metrics) -> &ToolMetrics {
        self.metrics.get_or_init(|| metrics.tool(&self.shelf.server.name, &self.exposed))
    }

    /// The name its server uses.
    pub fn native(&self) -> &str {
        &self.item().native
    }
}

impl View {
    /// The items of this exposed name, in file order.
    pub fn named(&self, exposed: &str) -> impl Iterator<Item = &Arc<Route>> {
        let places = self.places.get(exposed);
        let all = places.into_iter().flat_map(|places| std::iter::once(&places.first).chain(&places.more));
        all.map(|at| &self.items[*at])
    }

    /// The item of this exposed name in a caller's view.
    pub fn route(&self, exposed: &str, rights: &Rights) -> Option<&Arc<Route>> {
        self.named(exposed).find(|route| rights.sees(&route.givers))
    }
}

/// The last view built, where it is of what is known now: what a call needs, and nothing is allocated.
pub fn current(endpoint: &Endpoint, kind: Kind) -> Option<Arc<View>> {
    let of_now = |view: &View| view.key.iter().copied().eq(endpoint.ids(kind));
    let view = endpoint.views[kind as usize].load();
    view.as_ref().filter(|view| of_now(view)).map(Arc::clone)
}

/// The view of these snapshots (one a member, in order): the last one built, where it is of the same.
pub fn view(
    snapshot: &Snapshot,
    endpoint: &Endpoint,
    kind: Kind,
    known: &[Option<Arc<Published>>],
    metrics: &Metrics,
) -> Arc<View> {
    let cached = &endpoint.views[kind as usize];
    let books = endpoint.shelved();
    let ids = || {
        let books = books.iter().map(|books| Some(books.library.id));
        known.iter().map(|known| known.as_ref().map(|k| k.id)).chain(books)
    };
    let same = |view: &Arc<View>| view.key.iter().copied().eq(ids());
    if let Some(view) = cached.load_full().filter(same) {
        return view;
    }
    let mut view = build(snapshot, endpoint, kind, known, metrics);
    view.key = ids().collect();
    finish(&mut view, endpoint, kind, books);
    let view = Arc::new(view);
    cached.store(Some(Arc::clone(&view)));
    view
}

fn build(
    snapshot: &Snapshot,
    endpoint: &Endpoint,
    kind: Kind,
    known: &[Option<Arc<Published>>],
    metrics: &Metrics,
) -> View {
    // Member positions of the lists, and the lists themselves.
    let listed: Vec<(usize, &Arc<Published>)> =
        known.iter().enumerate().filter_map(|(i, k)| Some((i, k.as_ref()?))).collect();
    let twins = endpoint.config.prefix && !snapshot.policy.is_open() && kind.capability() == "resources";
    let naming = name(snapshot, endpoint, kind, &listed, twins);
    if endpoint.config.prefix {
        report(endpoint, kind, &listed, &naming, metrics);
    }
    let mut items = Vec::with_capacity(naming.named().len());
    let mut places: HashMap<Box<str>, Places> = HashMap::with_capacity(naming.named().len());
    for named in naming.named() {
        let (member, published) = listed[named.list];
        let shelf = &endpoint.members[member];
        let item = &published.items[named.item];
        let at = items.len();
        let known = places.entry(named.exposed.clone()).or_insert(Places { first: at, more: Vec::new() });
        if known.first != at {
            known.more.push(at);
        }
        items.push(Arc::new(Route {
            metrics: OnceLock::new(),
            givers: snapshot.policy.givers(&shelf.server.name, kind, &item.native),
            exposed: named.exposed.clone(),
            shelf: Arc::clone(shelf),
            published: Arc::clone(published),
            item: named.item,
            native_json: json_string(&item.native).into(),
            native_header: Request::name_value(&item.native),
        }));
    }
    let bytes: Vec<Bytes> = items.iter().map(|route| shown(kind, route)).collect();
    View {
        kind,
        key: known.iter().map(|k| k.as_ref().map(|k| k.id)).collect(),
        sheet: Arc::new(Sheet::new(bytes.iter().map(|item| &item[..]))),
        items,
        places,
        books: None,
        discovery: None,
        twins,
    }
}

/// Adds what is the gateway's own: playbooks, the search.
fn finish(view: &mut View, endpoint: &Endpoint, kind: Kind, books: Option<Arc<Shelved>>) {
    view.books = books.filter(|_| matches!(kind, Kind::Tools | Kind::Prompts));
    if endpoint.searches(kind) {
        let discovery = Discovery::new(&endpoint.config, Arc::clone(&view.sheet));
        view.sheet = Arc::new(discovery.front(view, &Rights::Open));
        view.discovery = Some(discovery);
    } else if let Some(books) = &view.books {
        let own = books.items(kind, &Rights::Open);
        let all = (0..view.items.len()).map(|at| view.sheet.item(at)).chain(own.iter().map(|item| &item[..]));
        view.sheet = Arc::new(Sheet::new(all));
    }
}

/// An item as clients see it.
pub(super) fn shown(kind: Kind, route: &Route) -> Bytes {
    let item = route.item();
    if *item.native == *route.exposed {
        return item.json.clone();
    }
    // The item was parsed when it was received, so the edit cannot fail.
    with_members(&item.json, &[(kind.id_key(), json_string(&route.exposed))])
        .map_or_else(|_| item.json.clone(), |parts| parts.to_bytes())
}

fn name(
    snapshot: &Snapshot,
    endpoint: &Endpoint,
    kind: Kind,
    listed: &[(usize, &Arc<Published>)],
    twins: bool,
) -> Naming {
    let lists: Vec<List<'_>> = listed
        .iter()
        .map(|(member, published)| List { member: *member, natives: published.natives() })
        .collect();
    let servers: Vec<&ServerConfig> = endpoint.members.iter().map(|shelf| &shelf.server.config).collect();
    on_endpoint(
        &snapshot.rules.on(&endpoint.config),
        endpoint.config.prefix && !twins,
        kind,
        &servers,
        &lists,
    )
}

fn report(
    endpoint: &Endpoint,
    kind: Kind,
    listed: &[(usize, &Arc<Published>)],
    naming: &Naming,
    metrics: &Metrics,
) {
    for (list, (member, published)) in listed.iter().enumerate() {
        let server = &endpoint.members[*member].server.name;
        if kind == Kind::Tools {
            metrics.clashes(server, naming.clashes(list) + naming.duplicates(list));
        }
        for dropped in naming.dropped().iter().filter(|d| d.list == list).take(MOST_TOLD) {
            let native = &published.items[dropped.item].native;
            let duplicate = dropped.duplicate;
            tracing::warn!(%server, item = %native, duplicate, "item dropped: its name is taken");
        }
        let changed = naming.named().iter().filter(|n| n.list == list && n.changed.is_some());
        for named in changed.take(MOST_TOLD) {
            tracing::info!(%server, exposed = %named.exposed, reason = ?named.changed, "exposed name takes a hash");
        }
    }
}
