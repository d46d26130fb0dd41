//! From what a server offers to what of it may be seen: allow, deny, overrides, valid annotations.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::bindings::Bindings;
use super::hints::Hints;
use super::walk::Walked;
use crate::config::Server as ServerConfig;
use crate::protocol::items::{Item, json_string, with_members};
use crate::protocol::method::Kind;
use crate::protocol::object::{Object, Span};

/// One immutable snapshot of one kind of one server's items.
#[derive(Debug)]
pub struct Published {
    /// Distinguishes snapshots; never reused.
    pub id: u64,
    /// What may be seen, in native order.
    pub items: Vec<PublishedItem>,
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
    /// Tools: which arguments are mirrored in headers.
    pub bindings: Arc<Bindings>,
    /// Tools: `override.timeout`.
    pub timeout: Option<Duration>,
}

impl Published {
    fn new(items: Vec<PublishedItem>, hints: Hints, offered: bool) -> Self {
        let received = Instant::now();
        Self {
            id: super::next_snapshot(),
            items,
            received,
            hints,
            offered,
            generation: 0,
            announced: 0,
            restored: false,
            stale_until: received + hints.ttl,
        }
    }

    /// A kind that the server does not have.
    pub(super) fn nothing(hints: Hints) -> Self {
        Self::new(Vec::new(), hints, false)
    }

    /// Applies the operator's rules to what was walked.
    pub(super) fn from_walk(server: &ServerConfig, kind: Kind, walked: Walked, hints: Hints) -> Self {
        let modern = walked.modern;
        let items = walked.items.into_iter().filter_map(|item| publish(server, kind, item, modern)).collect();
        Self::new(items, hints, true)
    }

    /// Whether it may still be used without asking again (L-20).
    pub fn is_fresh(&self, now: Instant) -> bool {
        now < self.received + self.hints.ttl
    }
}

fn publish(server: &ServerConfig, kind: Kind, item: Item, modern: bool) -> Option<PublishedItem> {
    let filter = match kind {
        Kind::Tools => &server.tools,
        Kind::Prompts => &server.prompts,
        Kind::Resources | Kind::Templates => &server.resources,
    };
    if !filter.admits(&item.native) {
        return None;
    }
    if kind != Kind::Tools {
        let Item { native, json } = item;
        return Some(PublishedItem { native, json, bindings: Arc::default(), timeout: None });
    }
    let over = server.overrides.get(&*item.native);
    if over.is_some_and(|o| o.disabled) {
        return None;
    }
    let (mut json, bindings) = bound(server, &item, modern)?;
    if let Some(description) = over.and_then(|o| o.description.as_ref()) {
        json = with_members(&json, &[("description", json_string(description))]).ok()?.to_bytes();
    }
    Some(PublishedItem {
        native: item.native,
        json,
        bindings: Arc::new(bindings),
        timeout: over.and_then(|o| o.timeout),
    })
}

/// The tool with its header annotations. A modern HTTP server's tool with an invalid one is left out (H-49);
/// where the annotation had no meaning, it is removed and the tool stays (H-50).
fn bound(server: &ServerConfig, item: &Item, modern: bool) -> Option<(Bytes, Bindings)> {
    let text = std::str::from_utf8(&item.json).ok()?;
    let object = Object::parse(text, Span::new(0, text.len())).ok()?;
    let Some(schema) = object.get(text, "inputSchema").ok()? else {
        return Some((item.json.clone(), Bindings::default()));
    };
    match Bindings::read(schema.of(text)) {
        Ok(bindings) => Some((item.json.clone(), bindings)),
        Err(invalid) if modern && !server.is_stdio() => {
            tracing::warn!(server = %server.name, tool = %item.native, reason = %invalid, "tool left out: invalid x-mcp-header");
            None
        }
        Err(_) => {
            let stripped = Bindings::strip(&item.json.slice(schema.range()));
            for invalid in &stripped.removed {
                tracing::info!(server = %server.name, tool = %item.native, reason = %invalid, "x-mcp-header removed");
            }
            let schema_text = String::from_utf8(stripped.schema.to_bytes().to_vec()).ok()?;
            let json = with_members(&item.json, &[("inputSchema", schema_text)]).ok()?.to_bytes();
            Some((json, stripped.bindings))
        }
    }
}
