//! The four lists: every server asked at once, each within its own deadline (design §5).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::view::{self, Frame};
use super::{Call, Gateway, GatewayError};
use crate::catalogue::hints::{Hints, Scope};
use crate::catalogue::{Lookup, Published};
use crate::policy::Rights;
use crate::protocol::edit::Parts;
use crate::protocol::items::json_string;
use crate::protocol::meta;
use crate::protocol::method::Kind;

/// `_meta` key that names servers whose items are missing.
const MISSING: &str = "dev.gatehouse/missing";
/// The longest life of a list that is not whole (L-33).
const MISSING_TTL: Duration = Duration::from_secs(5);

impl Gateway {
    /// One list, whole, with its hints.
    pub(super) async fn list(&self, call: &Call, kind: Kind) -> Result<Parts, GatewayError> {
        let (snapshot, endpoint) = (&call.snapshot, &call.endpoint);
        if !self.offers(call, kind.capability()).await {
            return Err(GatewayError::UnknownMethod);
        }
        // Servers of which this caller has nothing are neither asked nor named.
        let asked = call.seen(std::slice::from_ref(&kind)).map(|(shelf, sees)| async move {
            if sees { Found::Asked(shelf.look_up(kind).await) } else { Found::Known(shelf.known(kind)) }
        });
        let found = join_all(asked).await;
        let known: Vec<Option<Arc<Published>>> = found.iter().map(Found::published).collect();
        let frame = Frame { snapshot, endpoint, shelves: call.members(), kind };
        let view = view::view(&frame, &known, &self.metrics);
        let list = endpoint.sheets.of(&view, kind, &call.rights, call.client.revision);
        let missing: Vec<&str> = call
            .members()
            .iter()
            .zip(&found)
            .filter(|(_, found)| matches!(found, Found::Asked(Lookup::Missing)))
            .map(|(shelf, _)| &*shelf.server.name)
            .collect();
        let hints = merged(&found, snapshot.config.gateway.max_ttl, !missing.is_empty());
        let own = endpoint.shows_own(&call.rights, &[kind]);
        let hints = narrowed(hints, own, &call.rights, SystemTime::now());
        if !missing.is_empty() {
            tracing::warn!(?missing, kind = kind.as_str(), "list without some servers");
        }
        let page = self.page(call, kind, &list)?;
        let items = list.slice(page.items);
        if !call.client.revision.has_hints() {
            return Ok(write_plain(kind, items, page.next, &missing));
        }
        Ok(write(kind, items, page.next, (hints, &missing), snapshot.server_info.as_bytes()))
    }
}

/// What is known of one server for a list.
enum Found {
    /// It is the caller's, and was asked if need be.
    Asked(Lookup),
    /// It is not: what is there is there, for the names of the others to be the same for everybody.
    Known(Option<Arc<Published>>),
}

impl Found {
    fn published(&self) -> Option<Arc<Published>> {
        match self {
            Self::Asked(found) => found.published().map(Arc::clone),
            Self::Known(known) => known.clone(),
        }
    }
}

/// What grants show, or servers only this caller (`own`), is for one caller only; and no longer than grants last
/// (L-41, L-53).
fn narrowed(hints: Hints, own: bool, rights: &Rights, now: SystemTime) -> Hints {
    if rights.is_open() && !own {
        return hints;
    }
    let rest = rights.until().map(|until| until.duration_since(now).unwrap_or_default());
    let hints = Hints { scope: Scope::Private, ..hints };
    rest.map_or(hints, |rest| hints.at_most(rest))
}

/// L-40, L-41: the shortest remaining life, the narrowest scope.
fn merged(found: &[Found], max_ttl: Duration, incomplete: bool) -> Hints {
    let now = Instant::now();
    let each = found.iter().filter_map(|lookup| match lookup {
        Found::Asked(Lookup::Fresh(known)) if known.offered => {
            Some(known.hints.aged(known.received.into_std(), now.into_std()))
        }
        Found::Asked(Lookup::Stale(known)) => Some(Hints { ttl: Duration::ZERO, scope: known.hints.scope }),
        _ => None,
    });
    let hints = each.fold(Hints::longest(max_ttl), Hints::merge);
    if incomplete { hints.at_most(MISSING_TTL) } else { hints }
}

fn write(
    kind: Kind,
    items: Bytes,
    next: Option<String>,
    (hints, missing): (Hints, &[&str]),
    server_info: &Bytes,
) -> Parts {
    let mut parts = Parts::new();
    parts.push(format!(
        "{{\"resultType\":\"complete\",\"ttlMs\":{},\"cacheScope\":\"{}\",\"{}\":[",
        hints.ttl_ms(),
        hints.scope.as_str(),
        kind.result_key()
    ));
    parts.push(items);
    parts.push(format!("]{},\"_meta\":{{\"{}\":", cursor(next), meta::SERVER_INFO));
    parts.push(server_info.clone());
    if !missing.is_empty() {
        parts.push(format!(",\"{MISSING}\":[{}]", names(missing)));
    }
    parts.push(Bytes::from_static(b"}}"));
    parts
}

/// The same for clients whose lists have no hints (G-81).
fn write_plain(kind: Kind, items: Bytes, next: Option<String>, missing: &[&str]) -> Parts {
    let mut parts = Parts::new();
    parts.push(format!("{{\"{}\":[", kind.result_key()));
    parts.push(items);
    parts.push(format!("]{}", cursor(next)));
    if !missing.is_empty() {
        parts.push(format!(",\"_meta\":{{\"{MISSING}\":[{}]}}", names(missing)));
    }
    parts.push(Bytes::from_static(b"}"));
    parts
}

fn cursor(next: Option<String>) -> String {
    next.map(|next| format!(",\"nextCursor\":{}", json_string(&next))).unwrap_or_default()
}

fn names(missing: &[&str]) -> String {
    missing.iter().map(|name| json_string(name)).collect::<Vec<_>>().join(",")
}
