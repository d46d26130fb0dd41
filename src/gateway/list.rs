//! The four lists: every server asked at once, each within its own deadline (design §5).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::view;
use super::{Call, Gateway, GatewayError};
use crate::catalogue::hints::Hints;
use crate::catalogue::{Lookup, Published};
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
        if !self.offers(endpoint, kind.capability()).await {
            return Err(GatewayError::UnknownMethod);
        }
        let asked = endpoint.members.iter().map(|shelf| shelf.look_up(kind));
        let found = join_all(asked).await;
        let known: Vec<Option<Arc<Published>>> =
            found.iter().map(|f| f.published().map(Arc::clone)).collect();
        let view = view::view(snapshot, endpoint, kind, &known, &self.metrics);
        let missing: Vec<&str> = endpoint
            .members
            .iter()
            .zip(&found)
            .filter(|(_, found)| matches!(found, Lookup::Missing))
            .map(|(shelf, _)| &*shelf.server.name)
            .collect();
        let hints = merged(&found, snapshot.config.gateway.max_ttl, !missing.is_empty());
        if !missing.is_empty() {
            tracing::warn!(?missing, kind = kind.as_str(), "list without some servers");
        }
        let page = self.page(call, kind, &view)?;
        Ok(write(kind, view.slice(page.items), page.next, (hints, &missing), &snapshot.server_info))
    }
}

/// L-40, L-41: the shortest remaining life, the narrowest scope.
fn merged(found: &[Lookup], max_ttl: Duration, incomplete: bool) -> Hints {
    let now = Instant::now();
    let each = found.iter().filter_map(|lookup| match lookup {
        Lookup::Fresh(known) if known.offered => {
            Some(known.hints.aged(known.received.into_std(), now.into_std()))
        }
        Lookup::Stale(known) => Some(Hints { ttl: Duration::ZERO, scope: known.hints.scope }),
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
    let next = next.map(|next| format!(",\"nextCursor\":{}", json_string(&next))).unwrap_or_default();
    parts.push(format!("]{next},\"_meta\":{{\"{}\":", meta::SERVER_INFO));
    parts.push(server_info.clone());
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|name| json_string(name)).collect();
        parts.push(format!(",\"{MISSING}\":[{}]", names.join(",")));
    }
    parts.push(Bytes::from_static(b"}}"));
    parts
}
