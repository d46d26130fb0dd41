//! Published catalogues → merged and named: finished bytes, where each exposed name leads, and who may go there.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::HeaderValue;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::books::Shelved;
use super::discovery::Discovery;
use super::names::{List, Named, Naming, on_endpoint};
use super::sheet::Sheet;
use super::snapshot::{Endpoint, Snapshot};
use crate::catalogue::{Published, PublishedItem, Shelf, lists_placed};
use crate::config::Server as ServerConfig;
use crate::contract::aids::{Aids, NAME, retired};
use crate::outbound::Request;
use crate::policy::{GrantSet, Rights};
use crate::protocol::items::{json_string, with_members};
use crate::protocol::method::Kind;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::ToolMetrics;
use crate::telemetry::usage::Uses;

/// Items of one list that the log names one by one; a list may have any number (`check` names them all).
const MOST_TOLD: usize = 20;

/// Everything one endpoint has of one kind. Names are the same for every caller; who sees what of it: [`Rights`].
#[derive(Debug)]
pub struct View {
    /// The kind.
    pub(super) kind: Kind,
    /// The snapshots it was built of, by member; `None`: nothing known.
    pub(super) key: Ids,
    /// The last [`lists_placed`] at which that was what is known.
    current_at: AtomicU64,
    /// All items as bytes, in the order of `items`.
    pub(super) sheet: Arc<Sheet>,
    /// All items in order.
    pub items: Vec<Arc<Route>>,
    /// Positions by name; for resources and templates: URIs and URI templates.
    places: HashMap<Arc<str>, Places>,
    /// Tools that are in no list, since their servers can no longer do what was approved: who calls one is told so.
    withdrawn: Vec<Arc<Route>>,
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
    pub exposed: Arc<str>,
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
    /// It is listed to be left.
    pub(super) retired: Option<Retired>,
    /// What its deprecated paths are counted by: that of its name, then those of its arguments.
    uses: OnceLock<Box<[Arc<Uses>]>>,
}

/// What is said of a tool that is listed to be left.
#[derive(Debug)]
pub(super) struct Retired {
    since: Option<String>,
    /// What is to be used instead.
    by: Option<Box<str>>,
    /// This is the former name of a tool that stays.
    pub(super) former: bool,
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

    /// Counts a deprecated path of it: `None` its name, else by the number among those of its arguments.
    pub(super) fn count_use(&self, metrics: &Metrics, path: Option<usize>, client: &str) {
        let uses = self.uses.get_or_init(|| {
            let paths = self.item().aids.as_deref().map_or(&[][..], Aids::paths);
            let paths = std::iter::once(NAME).chain(paths.iter().map(|path| &**path));
            let server = &self.shelf.server.name;
            paths.map(|path| metrics.deprecated(server, (self.native(), &self.exposed), path)).collect()
        });
        if let Some(uses) = uses.get(path.map_or(0, |path| path + 1)) {
            uses.record(client);
        }
    }
}

impl View {
    /// The items of this exposed name, in file order.
    pub fn named(&self, exposed: &str) -> impl Iterator<Item = &Arc<Route>> {
        let places = self.places.get(exposed);
        let all = places.into_iter().flat_map(|places| std::iter::once(&places.first).chain(&places.more));
        all.map(|at| &self.items[*at])
    }

    /// The withdrawn tool of this exposed name, if this caller could use it.
    pub fn withdrawn(&self, exposed: &str, rights: &Rights) -> Option<&Arc<Route>> {
        self.withdrawn.iter().find(|route| *route.exposed == *exposed && rights.sees(&route.givers))
    }

    /// The item of this exposed name in a caller's view.
    pub fn route(&self, exposed: &str, rights: &Rights) -> Option<&Arc<Route>> {
        self.named(exposed).find(|route| rights.sees(&route.givers))
    }
}

/// Of what a view is built: what an endpoint's servers show one caller, or all.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Whose rules name it.
    pub snapshot: &'a Snapshot,
    /// Where.
    pub endpoint: &'a Endpoint,
    /// What each server shows, in the order of the endpoint's members.
    pub shelves: &'a [Arc<Shelf>],
    /// Which list.
    pub kind: Kind,
}

/// Ids of snapshots, by member. Ids are given once, so what is known of one caller never stands for another's
/// (design §5).
type Ids = Arc<[Option<u64>]>;

/// The views of one endpoint.
#[derive(Debug)]
pub(super) enum Views {
    /// All callers see the same: the last one built of each kind. Replaced whole; building twice at once is harmless.
    Same([ArcSwapOption<View>; Kind::ALL.len()]),
    /// Some server shows each caller his own.
    Own(Cache<(Kind, Ids), Arc<View>>),
}

/// Bytes of views kept where callers have their own, and how long for those who do not come back.
const MOST_BYTES: u64 = 128 << 20;
const IDLE: Duration = Duration::from_secs(10 * 60);

impl Views {
    /// None yet; `own`: callers have their own.
    pub(super) fn new(own: bool) -> Self {
        if !own {
            return Self::Same(Default::default());
        }
        let weigh = |_: &(Kind, Ids), view: &Arc<View>| u32::try_from(view.size()).unwrap_or(u32::MAX);
        let cache = Cache::builder().max_capacity(MOST_BYTES).weigher(weigh).time_to_idle(IDLE);
        Self::Own(cache.eviction_policy(EvictionPolicy::lru()).build())
    }
}

impl View {
    /// About how many bytes it holds.
    fn size(&self) -> usize {
        let items = self.items.len() * (size_of::<Route>() + size_of::<Places>() + 128);
        self.sheet.array.len() + items + size_of::<Self>()
    }

    fn is_of(&self, ids: impl Iterator<Item = Option<u64>>) -> bool {
        self.key.iter().copied().eq(ids)
    }
}

/// The view of what is known now, if there is one: what a call needs, and where all callers see the same nothing is
/// allocated.
pub fn current(frame: &Frame<'_>) -> Option<Arc<View>> {
    let books = frame.endpoint.shelved().map(|books| Some(books.library.id));
    let ids = frame.shelves.iter().map(|shelf| shelf.known_id(frame.kind)).chain(books);
    match &frame.endpoint.views {
        Views::Same(last) => {
            let (now, view) = (lists_placed(), last[frame.kind as usize].load());
            let view = view.as_ref()?;
            // Hundreds of servers are not asked one by one at each call.
            if books.is_some() || view.current_at.load(Ordering::Relaxed) != now {
                view.is_of(ids).then_some(())?;
                view.current_at.store(now, Ordering::Relaxed);
            }
            Some(Arc::clone(view))
        }
        Views::Own(kept) => kept.get(&(frame.kind, ids.collect())),
    }
}

/// The view of these snapshots (one a member, in order).
pub fn view(frame: &Frame<'_>, known: &[Option<Arc<Published>>], metrics: &Metrics) -> Arc<View> {
    let books = frame.endpoint.shelved();
    let ids = || {
        let books = books.as_ref().map(|books| Some(books.library.id));
        known.iter().map(|known| known.as_ref().map(|known| known.id)).chain(books)
    };
    let build = || {
        let mut view = build(frame, known, metrics);
        view.key = ids().collect();
        finish(&mut view, frame, books.clone());
        Arc::new(view)
    };
    match &frame.endpoint.views {
        Views::Same(last) => {
            let last = &last[frame.kind as usize];
            if let Some(view) = last.load_full().filter(|view| view.is_of(ids())) {
                return view;
            }
            let view = build();
            last.store(Some(Arc::clone(&view)));
            view
        }
        Views::Own(kept) => kept.get_with((frame.kind, ids().collect()), build),
    }
}

fn build(frame: &Frame<'_>, known: &[Option<Arc<Published>>], metrics: &Metrics) -> View {
    let Frame { snapshot, endpoint, shelves, kind } = *frame;
    // Member positions of the lists, and the lists themselves.
    let listed: Vec<(usize, &Arc<Published>)> =
        known.iter().enumerate().filter_map(|(i, k)| Some((i, k.as_ref()?))).collect();
    let twins = endpoint.config.prefix && !snapshot.policy.is_open() && kind.capability() == "resources";
    let naming = name(frame, &listed, twins);
    if endpoint.config.prefix {
        report(frame, &listed, &naming, metrics);
    }
    let mut items = Vec::with_capacity(naming.named().len());
    let mut places: HashMap<Arc<str>, Places> = HashMap::with_capacity(naming.named().len());
    let mut withdrawn = Vec::new();
    for named in naming.named() {
        let (member, published) = listed[named.list];
        let shelf = &shelves[member];
        let item = &published.items[named.item];
        let exposed: Arc<str> = Arc::from(&*named.exposed);
        let route = Arc::new(Route {
            metrics: OnceLock::new(),
            uses: OnceLock::new(),
            retired: retiring(kind, &naming, named, (shelf, published)),
            givers: snapshot.policy.givers(&shelf.server.name, kind, &item.native),
            exposed: Arc::clone(&exposed),
            shelf: Arc::clone(shelf),
            published: Arc::clone(published),
            item: named.item,
            native_json: json_string(&item.native).into(),
            native_header: Request::name_value(&item.native),
        });
        if item.withdrawn().is_some() {
            withdrawn.push(route);
            continue;
        }
        let at = items.len();
        let known = places.entry(exposed).or_insert(Places { first: at, more: Vec::new() });
        if known.first != at {
            known.more.push(at);
        }
        items.push(route);
    }
    let bytes: Vec<Bytes> = items.iter().map(|route| shown(kind, route)).collect();
    View {
        kind,
        key: known.iter().map(|k| k.as_ref().map(|k| k.id)).collect(),
        current_at: AtomicU64::new(0),
        sheet: Arc::new(Sheet::new(bytes.iter().map(|item| &item[..]))),
        items,
        places,
        withdrawn,
        books: None,
        discovery: None,
        twins,
    }
}

/// Adds what is the gateway's own: playbooks, the search.
fn finish(view: &mut View, frame: &Frame<'_>, books: Option<Arc<Shelved>>) {
    let Frame { endpoint, kind, .. } = *frame;
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

/// Whether a tool is listed to be left, and for which.
fn retiring(
    kind: Kind,
    naming: &Naming,
    named: &Named,
    (shelf, published): (&Shelf, &Published),
) -> Option<Retired> {
    let native = &*published.items[named.item].native;
    let over = shelf.server.config.overrides.get(native).filter(|_| kind == Kind::Tools)?;
    let same_list = |other: &&Named| other.list == named.list && !other.former;
    let by = if named.former {
        naming.named().iter().filter(same_list).find(|other| other.item == named.item)
    } else if over.is_retired() {
        let newer = successor(native, &published.natives());
        naming.named().iter().filter(same_list).find(|other| Some(other.item) == newer)
    } else {
        return None;
    };
    let by = by.map(|other| other.exposed.clone());
    Some(Retired { since: over.deprecated_since.clone(), by, former: named.former })
}

/// Where the newest version of a tool stands: `send_report_v3` of `send_report` or `send_report_v2`.
fn successor(native: &str, natives: &[&str]) -> Option<usize> {
    let version = |name: &str| -> Option<(String, u32)> {
        let (base, number) = name.rsplit_once("_v")?;
        Some((base.to_owned(), number.parse().ok()?))
    };
    let (base, own) = version(native).unwrap_or_else(|| (native.to_owned(), 1));
    let all = natives.iter().enumerate().filter_map(|(at, name)| Some((at, version(name)?)));
    let newer: BTreeMap<u32, usize> =
        all.filter(|(_, (of, number))| *of == base && *number > own).map(|(at, (_, n))| (n, at)).collect();
    newer.last_key_value().map(|(_, at)| *at)
}

/// An item as clients see it.
pub(super) fn shown(kind: Kind, route: &Route) -> Bytes {
    let item = route.item();
    let json = match &route.retired {
        Some(told) => retired(&item.json, told.since.as_deref(), told.by.as_deref()),
        None => item.json.clone(),
    };
    if *item.native == *route.exposed {
        return json;
    }
    // The item was parsed when it was received, so the edit cannot fail.
    with_members(&json, &[(kind.id_key(), json_string(&route.exposed))])
        .map_or_else(|_| json.clone(), |parts| parts.to_bytes())
}

fn name(frame: &Frame<'_>, listed: &[(usize, &Arc<Published>)], twins: bool) -> Naming {
    let lists: Vec<List<'_>> = listed
        .iter()
        .map(|(member, published)| List { member: *member, natives: published.natives() })
        .collect();
    let servers: Vec<&ServerConfig> = frame.shelves.iter().map(|shelf| &shelf.server.config).collect();
    let prefix = frame.endpoint.config.prefix && !twins;
    on_endpoint(&frame.snapshot.rules.on(&frame.endpoint.config), prefix, frame.kind, &servers, &lists)
}

/// Says what became of names. Not of what only one caller is shown: a gauge would jump from caller to caller, and a
/// log would repeat itself for each.
fn report(frame: &Frame<'_>, listed: &[(usize, &Arc<Published>)], naming: &Naming, metrics: &Metrics) {
    let told = listed.iter().enumerate().filter(|(_, (member, _))| !frame.shelves[*member].is_private());
    for (list, (member, published)) in told {
        let server = &frame.shelves[*member].server.name;
        if frame.kind == Kind::Tools {
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
