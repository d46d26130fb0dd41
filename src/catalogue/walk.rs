//! Follow every cursor of one list within bounds (L-50, F-017).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::outbound::{Context, Failure, Message, OutboundError, Request, Server};
use crate::protocol::code;
use crate::protocol::items::{self, Item, Page, json_string};
use crate::protocol::method::Kind;

/// One page's hints as they stood: `ttlMs` text, `cacheScope`.
pub(super) type PageHints = (Option<Box<str>>, Option<Box<str>>);

/// Everything one walk brought back.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) items: Vec<Item>,
    /// The hints of each page.
    pub(super) hints: Vec<PageHints>,
    /// Whether the server speaks the modern dialect: then its annotations are binding (H-49, H-50).
    pub(super) modern: bool,
    /// Why it stopped before the end, if it did.
    pub(super) cut: Option<&'static str>,
    /// Items without a usable name.
    pub(super) skipped: usize,
}

/// Pages in a row that bring nothing new before the walk gives up.
const FRUITLESS: usize = 20;

/// Walks one list of one server, as it is shown to this context. A bound reached keeps what was found so far; a failure does not.
pub(super) async fn walk(
    server: &Arc<Server>,
    context: Option<Arc<Context>>,
    kind: Kind,
) -> Result<Walked, OutboundError> {
    let mut walked = Walked::default();
    let mut bounds = Bounds::new(server);
    let mut cursor: Option<String> = None;
    loop {
        let params = cursor
            .as_deref()
            .map_or_else(|| "{}".to_owned(), |c| format!("{{\"cursor\":{}}}", json_string(c)));
        let (page, bytes, modern) = match fetch(server, context.clone(), (kind, params)).await? {
            Fetched::Page(page, bytes, modern) => (page, bytes, modern),
            // Optional lists of a server that declares the capability: none (M-45).
            Fetched::Unknown if cursor.is_none() => return Ok(walked),
            Fetched::Unknown => return Err(malformed(server)),
        };
        walked.modern = modern;
        walked.skipped += page.skipped;
        walked.hints.push((page.ttl_ms.clone(), page.cache_scope.clone()));
        walked.cut = bounds.check(&page, bytes);
        walked.items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            walked.cut = None;
        }
        if cursor.is_none() || walked.cut.is_some() {
            return Ok(walked);
        }
    }
}

enum Fetched {
    Page(Page, usize, bool),
    Unknown,
}

async fn fetch(
    server: &Arc<Server>,
    context: Option<Arc<Context>>,
    (kind, params): (Kind, String),
) -> Result<Fetched, OutboundError> {
    let mut request = Request::own(kind.method(), params).map_err(|_| malformed(server))?;
    request.context = context;
    let mut exchange = server.ask(&request).await?;
    loop {
        match exchange.next().await? {
            Message::Progress(..) | Message::Log(..) | Message::Asked(_) | Message::Withdrawn(_) => {}
            Message::Result { body, result, modern, .. } => {
                let bytes: Bytes = body.as_bytes().slice(result.range());
                let page = items::page(kind, &bytes).map_err(|_| malformed(server))?;
                return Ok(Fetched::Page(page, bytes.len(), modern));
            }
            Message::Error(error) if error.code == code::METHOD_NOT_FOUND => return Ok(Fetched::Unknown),
            Message::Error(error) => {
                tracing::debug!(server = %server.name, code = error.code, "list refused");
                return Err(malformed(server));
            }
        }
    }
}

fn malformed(server: &Arc<Server>) -> OutboundError {
    OutboundError::new(Arc::clone(&server.name), Failure::Malformed("no list result"), true)
}

struct Bounds {
    pages: usize,
    bytes: usize,
    until: Instant,
    seen: HashSet<String>,
    names: HashSet<Box<str>>,
    fruitless: usize,
}

impl Bounds {
    fn new(server: &Server) -> Self {
        let config = &server.config;
        Self {
            pages: config.list_max_pages,
            bytes: config.list_max_bytes,
            // Clients wait `list_timeout`; the walk may finish behind their backs, but not for ever.
            until: Instant::now() + (config.list_timeout * 4).max(Duration::from_secs(20)),
            seen: HashSet::new(),
            names: HashSet::new(),
            fruitless: 0,
        }
    }

    /// Whether the walk must stop after this page, and why.
    fn check(&mut self, page: &Page, bytes: usize) -> Option<&'static str> {
        self.pages = self.pages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        let before = self.names.len();
        self.names.extend(page.items.iter().map(|item| item.native.clone()));
        self.fruitless = if self.names.len() > before { 0 } else { self.fruitless + 1 };
        let repeated = page.next_cursor.as_ref().is_some_and(|cursor| !self.seen.insert(cursor.clone()));
        if repeated {
            Some("a cursor came twice")
        } else if self.fruitless >= FRUITLESS {
            Some("pages bring nothing new")
        } else if self.pages == 0 {
            Some("list_max_pages")
        } else if self.bytes == 0 {
            Some("list_max_bytes")
        } else if Instant::now() >= self.until {
            Some("it takes too long")
        } else {
            None
        }
    }
}
