//! From what a server offers to what of it may be seen: allow, deny, overrides, valid annotations.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::bindings::Bindings;
use super::execution::without_tasks;
use super::fault::Fault;
use super::hints::Hints;
use super::walk::Walked;
use crate::config::{Override, Server as ServerConfig};
use crate::contract::aids::Aids;
use crate::contract::checker::Checks;
use crate::contract::verdict::Held;
use crate::protocol::items::{Item, json_string, with_members};
use crate::protocol::method::Kind;
use crate::protocol::object::{Object, Span, string};

/// One immutable snapshot of one kind of one server's items.
#[derive(Debug)]
pub struct Published {
    /// Distinguishes snapshots; never reused.
    pub id: u64,
    /// The first of the snapshots in a row that look the same to clients.
    pub looks: u64,
    /// The number of the approved definitions it was held against.
    pub(super) approved: u64,
    /// What may be seen, in native order.
    pub items: Vec<PublishedItem>,
    /// Native names that `allow`, `deny` or `override.enabled` hide, in native order.
    pub hidden: Vec<Box<str>>,
    /// What was wrong with the list.
    pub faults: Vec<Fault>,
    /// When the walk ended.
    pub received: Instant,
    /// How long it is fresh, and for whom.
    pub hints: Hints,
    /// Whether the server has this kind at all; if not, the snapshot says nothing about freshness.
    pub offered: bool,
    /// The slot's generation when the walk began.
    pub(super) generation: u64,
    /// How often the server had told of a change of this list when the walk began.
    pub announced: u64,
    /// Whether it comes from disk: then it only stands in for a server that does not answer.
    pub(super) restored: bool,
    /// Until when it may stand in for a server that does not answer (L-26).
    pub(super) stale_until: Instant,
}

/// One item that may be seen, before it gets its exposed name.
#[derive(Debug)]
pub struct PublishedItem {
    /// Its native name, URI or URI template.
    pub native: Box<str>,
    /// Its definition, overrides applied, name still native.
    pub json: Bytes,
    /// Its definition as its server wrote it.
    pub said: Bytes,
    /// Tools: which arguments are mirrored in headers.
    pub bindings: Arc<Bindings>,
    /// Tools: `override.timeout`.
    pub timeout: Option<Duration>,
    /// Tools: the resource that shows them (`_meta.ui.resourceUri`, MCP Apps).
    pub ui: Option<Box<str>>,
    /// Its server says something else now, and this is what was approved.
    pub held: Option<Arc<Held>>,
    /// Tools: what is done for callers of former times.
    pub aids: Option<Arc<Aids>>,
    /// Tools: what calls and results are held against (`validate`).
    pub checks: Option<Arc<Checks>>,
}

impl PublishedItem {
    /// Why it is in no list, and what a call is told.
    pub fn withdrawn(&self) -> Option<&str> {
        self.held.as_ref()?.withdrawn.as_deref()
    }
}

impl Published {
    /// A snapshot without items, received now.
    pub fn new(hints: Hints, offered: bool) -> Self {
        let received = Instant::now();
        let id = super::next_snapshot();
        Self {
            id,
            looks: id,
            approved: 0,
            items: Vec::new(),
            hidden: Vec::new(),
            faults: Vec::new(),
            received,
            hints,
            offered,
            generation: 0,
            announced: 0,
            restored: false,
            stale_until: received + hints.ttl,
        }
    }

    /// Applies the operator's rules to what was walked.
    pub(super) fn from_walk(server: &ServerConfig, kind: Kind, walked: Walked, hints: Hints) -> Self {
        let mut published = Self::new(hints, true);
        if walked.skipped > 0 {
            published.faults.push(Fault::Nameless(walked.skipped));
        }
        let items = walked.items.len();
        published.faults.extend(walked.cut.map(|reason| Fault::Cut { reason, items }));
        for item in walked.items {
            published.take(server, kind, item, walked.modern);
        }
        published
    }

    fn take(&mut self, server: &ServerConfig, kind: Kind, item: Item, modern: bool) {
        let over = server.overrides.get(&*item.native).filter(|_| kind == Kind::Tools);
        if !admits(server, kind, &item.native) {
            self.hidden.push(item.native);
            return;
        }
        if kind != Kind::Tools {
            let Item { native, json } = item;
            self.items.push(PublishedItem {
                native,
                said: json.clone(),
                json,
                bindings: Arc::default(),
                timeout: None,
                ui: None,
                held: None,
                aids: None,
                checks: None,
            });
            return;
        }
        // The modern revision knows no such thing.
        let item = match if modern { Ok(item) } else { without_tasks(item) } {
            Ok(item) => item,
            Err(fault) => return self.faults.push(fault),
        };
        let binding = !server.is_stdio() && modern;
        match tool(over, &item, binding, &mut self.faults) {
            Ok(published) => self.items.push(published),
            Err(fault) => self.faults.push(fault),
        }
    }

    /// Whether clients see the same.
    pub(super) fn looks_like(&self, other: &Self) -> bool {
        let seen = |list: &Self| -> Vec<Bytes> {
            list.items
                .iter()
                .filter(|item| item.withdrawn().is_none())
                .map(|item| item.json.clone())
                .collect()
        };
        seen(self) == seen(other)
    }

    /// Whether calls are treated the same, too.
    pub(super) fn acts_like(&self, other: &Self) -> bool {
        let state = |item: &PublishedItem| item.held.as_ref().map(|held| held.digest.clone());
        self.items.len() == other.items.len()
            && self.items.iter().zip(&other.items).all(|(a, b)| a.native == b.native && state(a) == state(b))
    }

    /// About how many bytes it holds.
    pub(super) fn bytes(&self) -> usize {
        let items =
            self.items.iter().map(|item| item.json.len() + item.native.len() + size_of::<PublishedItem>());
        items.sum::<usize>()
            + self.hidden.iter().map(|name| name.len() + size_of::<Box<str>>()).sum::<usize>()
    }

    /// The native names of what may be seen, in order.
    pub fn natives(&self) -> Vec<&str> {
        self.items.iter().map(|item| &*item.native).collect()
    }

    /// Every native name that the server listed, seen or not, in no order.
    pub fn listed(&self) -> impl Iterator<Item = &str> {
        let items = self.items.iter().map(|item| &*item.native);
        items
            .chain(self.hidden.iter().map(|name| &**name))
            .chain(self.faults.iter().filter_map(Fault::left_out))
    }

    /// Whether the whole list is known.
    pub fn is_whole(&self) -> bool {
        !self.faults.iter().any(|fault| matches!(fault, Fault::Cut { .. }))
    }

    /// Whether it may still be used without asking again (L-20).
    pub fn is_fresh(&self, now: Instant) -> bool {
        now < self.received + self.hints.ttl
    }
}

/// Whether the operator lets an item be seen at all.
pub(super) fn admits(server: &ServerConfig, kind: Kind, native: &str) -> bool {
    let filter = match kind {
        Kind::Tools => &server.tools,
        Kind::Prompts => &server.prompts,
        Kind::Resources | Kind::Templates => &server.resources,
    };
    let disabled = || server.overrides.get(native).is_some_and(|over| over.disabled);
    filter.admits(native) && !(kind == Kind::Tools && disabled())
}

/// A tool as it may be seen, or why it may not. `binding`: its annotations bind us (modern HTTP).
fn tool(
    over: Option<&Override>,
    item: &Item,
    binding: bool,
    faults: &mut Vec<Fault>,
) -> Result<PublishedItem, Fault> {
    let (mut json, bindings) = bound(item, binding, faults)?;
    if let Some(description) = over.and_then(|o| o.description.as_ref()) {
        let edited = with_members(&json, &[("description", json_string(description))]);
        json = edited.map_err(|_| unreadable(item))?.to_bytes();
    }
    let aids = over.and_then(|over| aids(over, item, faults));
    if let Some(aids) = &aids {
        json = aids.publish(&json).map_err(|_| unreadable(item))?;
    }
    Ok(PublishedItem {
        native: item.native.clone(),
        json,
        said: item.json.clone(),
        bindings: Arc::new(bindings),
        timeout: over.and_then(|o| o.timeout),
        ui: interface(item),
        held: None,
        aids: aids.map(Arc::new),
        checks: None,
    })
}

/// What is done for callers of former times, as far as the definition has a place for it.
fn aids(over: &Override, item: &Item, faults: &mut Vec<Fault>) -> Option<Aids> {
    if over.aliases.is_empty() && over.defaults.is_empty() && over.values.is_empty() {
        return None;
    }
    // A definition, not arguments: it may be read as a value.
    let definition = serde_json::from_slice(&item.json).unwrap_or_default();
    let (aids, problems) = Aids::new(over, &definition);
    faults.extend(problems.into_iter().map(|problem| Fault::Override { item: item.native.clone(), problem }));
    aids
}

/// The tool with its header annotations. A modern HTTP server's tool with an invalid one is left out (H-49);
/// where the annotation had no meaning, it is removed and the tool stays (H-50).
fn bound(item: &Item, binding: bool, faults: &mut Vec<Fault>) -> Result<(Bytes, Bindings), Fault> {
    let Some(span) = schema(item).ok_or_else(|| unreadable(item))? else {
        return Ok((item.json.clone(), Bindings::default()));
    };
    let bytes = item.json.slice(span.range());
    match Bindings::read(std::str::from_utf8(&bytes).unwrap_or_default()) {
        Ok(bindings) => Ok((item.json.clone(), bindings)),
        Err(invalid) if binding => Err(Fault::LeftOut { item: item.native.clone(), invalid }),
        Err(_) => {
            let stripped = Bindings::strip(&bytes);
            let text = String::from_utf8(stripped.schema.to_bytes().to_vec()).ok();
            let edited = text.and_then(|text| with_members(&item.json, &[("inputSchema", text)]).ok());
            let json = edited.ok_or_else(|| unreadable(item))?.to_bytes();
            let told = |invalid| Fault::Stripped { item: item.native.clone(), invalid };
            faults.extend(stripped.removed.into_iter().map(told));
            Ok((json, stripped.bindings))
        }
    }
}

/// The URI of the resource that shows a tool, if it has one; servers need not list that resource (F-096).
fn interface(item: &Item) -> Option<Box<str>> {
    let text = std::str::from_utf8(&item.json).ok()?;
    let mut span = Span::new(0, text.len());
    for key in ["_meta", "ui", "resourceUri"] {
        span = Object::parse(text, span).ok()?.get(text, key).ok()??;
    }
    let uri = string(span.of(text))?;
    uri.starts_with("ui://").then(|| uri.into())
}

/// Where the `inputSchema` of a tool stands, if it has one; `None`: nobody can say.
fn schema(item: &Item) -> Option<Option<Span>> {
    let text = std::str::from_utf8(&item.json).ok()?;
    let object = Object::parse(text, Span::new(0, text.len())).ok()?;
    object.get(text, "inputSchema").ok()
}

fn unreadable(item: &Item) -> Fault {
    Fault::Unreadable { item: item.native.clone() }
}

#[cfg(test)]
mod tests;
