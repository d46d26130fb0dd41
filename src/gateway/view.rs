//! Published catalogues → merged, named, filtered: finished bytes, and where each exposed name leads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::names::{List, Naming, on_endpoint};
use super::snapshot::{Endpoint, Snapshot};
use crate::catalogue::{Published, PublishedItem, Shelf};
use crate::config::Server as ServerConfig;
use crate::protocol::items::{json_string, with_members};
use crate::protocol::method::Kind;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::ToolMetrics;

/// What one endpoint shows of one kind.
#[derive(Debug)]
pub struct View {
    /// The snapshots it was built of, by member; `None`: nothing known.
    key: Vec<Option<u64>>,
    /// The JSON array of the items.
    pub array: Bytes,
    /// Number of items.
    pub count: usize,
    /// Where each item stands in the array.
    places: Vec<(u32, u32)>,
    /// Where names lead; for resources and templates: URIs and URI templates.
    routes: HashMap<Box<str>, Arc<Route>>,
    /// Templates only: in order.
    pub templates: Vec<Arc<Route>>,
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
    /// Metric handles, for tools.
    pub metrics: Option<ToolMetrics>,
}

impl Route {
    /// The item.
    pub fn item(&self) -> &PublishedItem {
        &self.published.items[self.item]
    }

    /// The name its server uses.
    pub fn native(&self) -> &str {
        &self.item().native
    }
}

impl View {
    /// The JSON array of these items, without its brackets; all of them are one slice of the whole.
    pub fn slice(&self, items: Range<usize>) -> Bytes {
        match (self.places.get(items.start), items.end.checked_sub(1).and_then(|last| self.places.get(last)))
        {
            (Some((start, _)), Some((_, end))) if start < end => {
                self.array.slice(*start as usize..*end as usize)
            }
            _ => Bytes::new(),
        }
    }

    /// The item of this exposed name.
    pub fn route(&self, exposed: &str) -> Option<&Arc<Route>> {
        self.routes.get(exposed)
    }
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
    let same = |view: &Arc<View>| {
        view.key.len() == known.len()
            && view.key.iter().zip(known).all(|(id, known)| *id == known.as_ref().map(|k| k.id))
    };
    if let Some(view) = cached.load_full().filter(same) {
        return view;
    }
    let view = Arc::new(build(snapshot, endpoint, kind, known, metrics));
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
    let naming = name(snapshot, endpoint, kind, &listed, metrics);
    let mut view = View {
        key: known.iter().map(|k| k.as_ref().map(|k| k.id)).collect(),
        array: Bytes::new(),
        count: naming.named().len(),
        places: Vec::with_capacity(naming.named().len()),
        routes: HashMap::with_capacity(naming.named().len()),
        templates: Vec::new(),
    };
    let mut array = Vec::from(*b"[");
    for named in naming.named() {
        let (member, published) = listed[named.list];
        let (item, exposed) = (&published.items[named.item], &named.exposed);
        if array.len() > 1 {
            array.push(b',');
        }
        let start = array.len() as u32;
        append(&mut array, kind, item, exposed);
        view.places.push((start, array.len() as u32));
        let shelf = &endpoint.members[member];
        let route = Arc::new(Route {
            metrics: (kind == Kind::Tools).then(|| metrics.tool(&shelf.server.name, exposed)),
            exposed: exposed.clone(),
            shelf: Arc::clone(shelf),
            published: Arc::clone(published),
            item: named.item,
        });
        if kind == Kind::Templates {
            view.templates.push(Arc::clone(&route));
        }
        view.routes.entry(exposed.clone()).or_insert(route);
    }
    array.push(b']');
    view.array = array.into();
    view
}

fn append(array: &mut Vec<u8>, kind: Kind, item: &PublishedItem, exposed: &str) {
    if *item.native == *exposed {
        array.extend_from_slice(&item.json);
        return;
    }
    // The item was parsed when it was received, so the edit cannot fail.
    if let Ok(parts) = with_members(&item.json, &[(kind.id_key(), json_string(exposed))]) {
        parts.pieces().iter().for_each(|piece| array.extend_from_slice(piece));
    }
}

fn name(
    snapshot: &Snapshot,
    endpoint: &Endpoint,
    kind: Kind,
    listed: &[(usize, &Arc<Published>)],
    metrics: &Metrics,
) -> Naming {
    let lists: Vec<List<'_>> = listed
        .iter()
        .map(|(member, published)| List { member: *member, natives: published.natives() })
        .collect();
    let servers: Vec<&ServerConfig> = endpoint.members.iter().map(|shelf| &shelf.server.config).collect();
    let naming = on_endpoint(&snapshot.rules, endpoint.config.prefix, kind, &servers, &lists);
    if endpoint.config.prefix {
        report(endpoint, kind, listed, &naming, metrics);
    }
    naming
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
        for dropped in naming.dropped().iter().filter(|d| d.list == list) {
            let native = &published.items[dropped.item].native;
            let duplicate = dropped.duplicate;
            tracing::warn!(%server, item = %native, duplicate, "item dropped: its name is taken");
        }
        for named in naming.named().iter().filter(|n| n.list == list) {
            if let Some(reason) = named.changed {
                tracing::info!(%server, exposed = %named.exposed, ?reason, "exposed name takes a hash");
            }
        }
    }
}
