//! One list as finished bytes: everything an endpoint has, or what of it one set of grants shows.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::view::View;
use crate::policy::{GrantSet, Rights};
use crate::protocol::method::Kind;
use crate::protocol::shape;
use crate::protocol::version::Revision;

/// Bytes of lists one endpoint keeps for its callers' sets of grants.
const MOST_BYTES: u64 = 64 << 20;
/// Lists that nobody asks for are let go.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// A JSON array of items, and where each of them stands in it.
#[derive(Debug)]
pub(super) struct Sheet {
    /// The array.
    pub(super) array: Bytes,
    /// Number of items.
    pub(super) count: usize,
    places: Vec<(u32, u32)>,
    /// Of the bytes: two lists that look the same have the same.
    pub(super) print: u64,
}

impl Sheet {
    /// Writes an array of these items' bytes.
    pub(super) fn new<'a>(items: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut array = Vec::from(*b"[");
        let mut places = Vec::with_capacity(items.size_hint().0);
        for item in items {
            if array.len() > 1 {
                array.push(b',');
            }
            let start = array.len() as u32;
            array.extend_from_slice(item);
            places.push((start, array.len() as u32));
        }
        array.push(b']');
        let mut hasher = DefaultHasher::new();
        hasher.write(&array);
        Self { array: array.into(), count: places.len(), places, print: hasher.finish() }
    }

    /// The bytes of one item.
    pub(super) fn item(&self, at: usize) -> &[u8] {
        self.places.get(at).map_or(&[], |(start, end)| &self.array[*start as usize..*end as usize])
    }

    /// The JSON array of these items, without its brackets; all of them are one slice of the whole.
    pub(super) fn slice(&self, items: Range<usize>) -> Bytes {
        match (self.places.get(items.start), items.end.checked_sub(1).and_then(|last| self.places.get(last)))
        {
            (Some((start, _)), Some((_, end))) if start < end => {
                self.array.slice(*start as usize..*end as usize)
            }
            _ => Bytes::new(),
        }
    }

    const fn size(&self) -> usize {
        self.array.len() + self.places.len() * size_of::<(u32, u32)>() + size_of::<Self>()
    }
}

/// A view's key (design §5): the kind, the snapshots it is made of, the grants that show it (`None`: whoever asks),
/// the revision whose clients it is for.
type Key = (Kind, Arc<[Option<u64>]>, Option<GrantSet>, Revision);

/// The lists of an endpoint by sets of grants; each is made once, however many callers have that set.
#[derive(Debug)]
pub(super) struct Sheets(Cache<Key, Arc<Sheet>>);

impl Default for Sheets {
    fn default() -> Self {
        let weigh = |(_, ids, shown, _): &Key, sheet: &Arc<Sheet>| {
            let shown = shown.as_ref().map_or(0, GrantSet::size);
            u32::try_from(sheet.size() + ids.len() * 16 + shown + 128).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().max_capacity(MOST_BYTES).weigher(weigh).time_to_idle(IDLE);
        // A list that is new is always worth more than one of snapshots that are over.
        Self(cache.eviction_policy(EvictionPolicy::lru()).build())
    }
}

impl Sheets {
    /// What of a view this caller sees, as its revision has it.
    pub(super) fn of(&self, view: &View, kind: Kind, rights: &Rights, revision: Revision) -> Arc<Sheet> {
        let shown = match rights {
            Rights::Open if revision == Revision::V20260728 => return Arc::clone(&view.sheet),
            Rights::Open => None,
            Rights::Granted(granted) => Some(granted.shown.clone()),
        };
        let key = (kind, Arc::clone(&view.key), shown, revision);
        self.0.get_with(key, || {
            let sheet = narrowed(view, rights);
            Arc::new(if revision == Revision::V20260728 { sheet } else { shaped(&sheet, kind, revision) })
        })
    }
}

/// The same items without what a revision does not know.
fn shaped(sheet: &Sheet, kind: Kind, revision: Revision) -> Sheet {
    let items: Vec<Bytes> = sheet
        .places
        .iter()
        .map(|(start, end)| shape::item(kind, &sheet.array.slice(*start as usize..*end as usize), revision))
        .collect();
    Sheet::new(items.iter().map(|item| &item[..]))
}

/// The items that these grants show, each name once: where servers are merged, a URI is that of the first server in
/// file order that the caller may ask for it (F-058).
fn narrowed(view: &View, rights: &Rights) -> Sheet {
    if let Some(discovery) = &view.discovery {
        return discovery.front(view, rights);
    }
    let mut seen = HashSet::new();
    let shown = view.items.iter().enumerate().filter(|(_, route)| rights.sees(&route.givers));
    let once = shown.filter(|(_, route)| !view.twins || seen.insert(&*route.exposed));
    let own = view.books.as_ref().map(|books| books.items(view.kind, rights)).unwrap_or_default();
    Sheet::new(once.map(|(at, _)| view.sheet.item(at)).chain(own.iter().map(|item| &item[..])))
}
