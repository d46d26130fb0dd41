//! Endpoints that search: three tools instead of all, and what of the rest is pinned.
//!
//! A caller finds, reads of and calls exactly what its grants show: the index is made of that and nothing else, so not
//! even the order of results tells of more.

use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::books::{self, PREFIX};
use super::names::SEARCHING;
use super::sheet::Sheet;
use super::view::{Route, View};
use super::{Call, Gateway, GatewayError, Outlet};
use crate::config::{Endpoint, Globs};
use crate::playbooks::Book;
use crate::policy::{GrantSet, Rights};
use crate::protocol::edit::Parts;
use crate::protocol::method::{Kind, Method};
use crate::telemetry::Outcome;

mod answers;
mod index;
mod listed;
mod unwrap;
mod words;

use super::record::Record;
use index::Index;

/// Bytes of indexes that one view keeps, roughly.
const MOST_BYTES: u64 = 64 << 20;
/// Indexes that nobody searches are let go.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// The search of one view.
#[derive(Debug)]
pub(super) struct Discovery {
    /// Everything, in the order of the view's items.
    whole: Arc<Sheet>,
    pinned: Globs,
    /// By what callers see; `None`: everything. Made at the first search.
    lenses: Cache<Option<GrantSet>, Arc<Lens>>,
}

/// What one set of grants shows, to be searched.
#[derive(Debug)]
struct Lens {
    /// Positions in the view; playbooks are counted on behind its items.
    items: Vec<usize>,
    index: Index,
}

/// A tool of the gateway's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Search,
    Describe,
    Call,
}

impl Discovery {
    pub(super) fn new(endpoint: &Endpoint, whole: Arc<Sheet>) -> Self {
        let weigh =
            |_: &Option<GrantSet>, lens: &Arc<Lens>| u32::try_from(lens.index.size()).unwrap_or(u32::MAX);
        let lenses = Cache::builder().max_capacity(MOST_BYTES).weigher(weigh).time_to_idle(IDLE);
        let lenses = lenses.eviction_policy(EvictionPolicy::lru()).build();
        Self { whole, pinned: endpoint.pinned.clone(), lenses }
    }

    /// What is listed for a caller: nothing for whom there is nothing to find.
    pub(super) fn front(&self, view: &View, rights: &Rights) -> Sheet {
        let seen: Vec<usize> = seen(view, rights).collect();
        let books: Vec<&Book> = books(view, rights).map(|(_, book)| book).collect();
        if seen.is_empty() && books.is_empty() {
            return Sheet::new(std::iter::empty());
        }
        let of_books = books.iter().flat_map(|book| book.tags.iter().map(String::as_str));
        let tags = seen.iter().flat_map(|at| tags(view, *at)).chain(of_books).collect();
        let own = listed::tools(&tags);
        let pinned = seen.iter().filter(|at| self.pinned.is_match(&view.items[**at].exposed));
        let pinned = pinned.map(|at| self.whole.item(*at));
        let named = |book: &&&Book| self.pinned.is_match(&format!("{PREFIX}{}", book.name));
        let books: Vec<_> = books.iter().filter(named).map(|book| books::item(Kind::Tools, book)).collect();
        let books = books.iter().map(|item| &item[..]);
        Sheet::new(own.iter().map(String::as_bytes).chain(pinned).chain(books))
    }

    fn lens(&self, view: &View, rights: &Rights) -> Arc<Lens> {
        let key = match rights {
            Rights::Open => None,
            Rights::Granted(granted) => Some(granted.shown.clone()),
        };
        self.lenses.get_with(key, || {
            let items: Vec<usize> = seen(view, rights).collect();
            let documents = items.iter().map(|at| index::document(&view.items[*at], self.whole.item(*at)));
            let books: Vec<(usize, &Book)> = books(view, rights).collect();
            let index = Index::new(documents.chain(books.iter().map(|(_, book)| index::playbook(book))));
            let books = books.iter().map(|(at, _)| view.items.len() + at);
            Arc::new(Lens { index, items: items.iter().copied().chain(books).collect() })
        })
    }
}

/// Positions of what a caller sees. Former names lead where they led, and nobody needs to find them.
fn seen(view: &View, rights: &Rights) -> impl Iterator<Item = usize> {
    let former = |route: &Route| route.retired.as_ref().is_some_and(|told| told.former);
    let items = view.items.iter().enumerate();
    items.filter(move |(_, route)| rights.sees(&route.givers) && !former(route)).map(|(at, _)| at)
}

/// The playbooks that a caller sees.
fn books<'v>(view: &'v View, rights: &'v Rights) -> impl Iterator<Item = (usize, &'v Book)> {
    view.books.iter().flat_map(|books| books.seen(rights))
}

/// The tags of an item: those of its server, and those its server's table gives it.
fn tags(view: &View, at: usize) -> impl Iterator<Item = &str> {
    let route = &view.items[at];
    let config = &route.shelf.server.config;
    let given = config.tool_tags.iter().filter(|(_, globs)| globs.is_match(route.native()));
    config.tags.iter().map(String::as_str).chain(given.map(|(tag, _)| tag.as_str()))
}

/// The tool of the gateway's own that a call means, if it does.
pub(super) fn own(call: &Call, name: &str) -> Option<Own> {
    let endpoint = &call.endpoint;
    let could = call.method == Method::ToolsCall && endpoint.searches(Kind::Tools) && !call.steps.unwrapped;
    if !could {
        return None;
    }
    let at = SEARCHING.iter().position(|own| *own == name)?;
    // Who has nothing to find does not have the search either.
    let books = || endpoint.shelved().is_some_and(|books| books.seen(&call.rights).next().is_some());
    (endpoint.gives(&call.rights, &[Kind::Tools]) || books())
        .then_some([Own::Search, Own::Describe, Own::Call][at])
}

impl Gateway {
    /// Serves a tool of the gateway's own.
    pub(super) async fn serve_own(
        &self,
        call: &Call,
        own: Own,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        let name = SEARCHING[own as usize];
        record.own(name);
        if own == Own::Call {
            return self.call_found(call, outlet, record).await;
        }
        outlet.admitted();
        let answer = match own {
            Own::Search => self.search_tools(call).await?,
            _ => self.describe_tool(call, record).await?,
        };
        let outcome = if answer.is_error { Outcome::ToolError } else { Outcome::Ok };
        record.outcome(outcome);
        Ok(answer.parts(call.snapshot.server_info.as_bytes()))
    }
}
