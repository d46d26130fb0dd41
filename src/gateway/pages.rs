//! Paging towards clients (`page_size`): sealed cursors that any replica with the keys can read, refused once
//! the list has changed (L-51, L-54, L-55).

use std::ops::Range;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::sheet::Sheet;
use super::{Call, Gateway, GatewayError};
use crate::protocol::method::Kind;
use crate::protocol::object::string;
use crate::seal::Purpose;

/// Where a page begins, and of which list.
#[derive(Serialize, Deserialize)]
struct Cursor {
    kind: String,
    /// Of the whole list: another list, another cursor.
    digest: Vec<u8>,
    principal: String,
    offset: usize,
}

/// One page of a list.
pub(super) struct Page {
    /// Its items, by position.
    pub(super) items: Range<usize>,
    /// The cursor of the next one.
    pub(super) next: Option<String>,
}

impl Gateway {
    /// The page a request asks for: the whole list unless `page_size` is set.
    pub(super) fn page(&self, call: &Call, kind: Kind, list: &Sheet) -> Result<Page, GatewayError> {
        const STALE: GatewayError = GatewayError::InvalidParams("the cursor is not valid (any more)");
        let size = match call.snapshot.config.gateway.page_size {
            0 => usize::MAX,
            size => size,
        };
        let path = &call.endpoint.config.path;
        let offset = match cursor(call)? {
            None => 0,
            Some(token) => {
                let token = string(token).ok_or(STALE)?;
                let plain = self.sealer.open(Purpose::Cursor, path, &token).ok_or(STALE)?;
                let cursor: Cursor = serde_json::from_slice(&plain).map_err(|_| STALE)?;
                let fits = cursor.kind == kind.as_str()
                    && cursor.principal == *call.principal.id
                    && cursor.offset <= list.count
                    && cursor.digest == list_digest(list);
                if !fits {
                    return Err(STALE);
                }
                cursor.offset
            }
        };
        let end = offset.saturating_add(size).min(list.count);
        let next = (end < list.count).then(|| {
            let cursor = Cursor {
                kind: kind.as_str().to_owned(),
                digest: list_digest(list),
                principal: call.principal.id.to_string(),
                offset: end,
            };
            // Plain data of our own: it can always be written.
            let plain = serde_json::to_vec(&cursor).unwrap_or_default();
            self.sealer.seal(Purpose::Cursor, path, &plain)
        });
        Ok(Page { items: offset..end, next })
    }
}

/// `params.cursor` as JSON text; `null` is none (L-50).
fn cursor(call: &Call) -> Result<Option<&str>, GatewayError> {
    let span = call.envelope.param("cursor")?;
    Ok(span.map(|span| span.of(call.envelope.text())).filter(|text| *text != "null"))
}

fn list_digest(list: &Sheet) -> Vec<u8> {
    digest(&SHA256, &list.array).as_ref()[..16].to_vec()
}
