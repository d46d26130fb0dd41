//! What became of a list between two walks, told to operators.

use std::collections::HashMap;

use bytes::Bytes;

use super::publish::Published;
use super::shelf::Shelf;
use crate::protocol::method::Kind;
use crate::telemetry::recent::Change;

impl Shelf {
    /// Tells of a list that is another one than before.
    pub(super) fn tell_operators(&self, kind: Kind, old: Option<&Published>, new: &Published) {
        let Some(old) = old.filter(|old| old.looks != new.looks) else { return };
        let change = between(old, new);
        // Their order alone is no news.
        if change.added + change.removed + change.changed > 0 {
            let (server, kind) = (self.server.name.to_string(), kind.as_str());
            self.metrics.recent.change(Change { server, kind, ..change });
        }
    }
}

fn seen(list: &Published) -> HashMap<&str, &Bytes> {
    let items = list.items.iter().filter(|item| item.withdrawn().is_none());
    items.map(|item| (&*item.native, &item.json)).collect()
}

fn between(old: &Published, new: &Published) -> Change {
    let (before, after) = (seen(old), seen(new));
    let order = |list: &Published, fits: &dyn Fn(&str) -> bool| -> Vec<String> {
        list.items.iter().map(|item| &*item.native).filter(|name| fits(name)).map(str::to_owned).collect()
    };
    let added = order(new, &|name| !before.contains_key(name));
    let changed = order(new, &|name| before.get(name).is_some_and(|json| Some(json) != after.get(name)));
    let removed = order(old, &|name| !after.contains_key(name));
    Change {
        server: String::new(),
        kind: "",
        added: added.len(),
        removed: removed.len(),
        changed: changed.len(),
        items: after.len(),
        names: [added, removed, changed].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::between;
    use crate::catalogue::hints::{Hints, Scope};
    use crate::catalogue::publish::{Published, PublishedItem};

    fn list(items: &[(&str, &'static str)]) -> Published {
        let hints = Hints { ttl: std::time::Duration::ZERO, scope: Scope::Private };
        let mut list = Published::new(hints, true);
        list.items = items
            .iter()
            .map(|(native, json)| PublishedItem {
                native: (*native).into(),
                said: (*json).into(),
                json: (*json).into(),
                bindings: std::sync::Arc::default(),
                timeout: None,
                ui: None,
                held: None,
                aids: None,
                checks: None,
            })
            .collect();
        list
    }

    #[test]
    fn what_came_went_and_became_another_is_counted_and_named() {
        let old = list(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let new = list(&[("d", "1"), ("c", "1"), ("b", "2")]);
        let change = between(&old, &new);
        assert_eq!((change.added, change.removed, change.changed, change.items), (1, 1, 1, 3));
        assert_eq!(change.names, ["d", "a", "b"]);
        let moved = between(&old, &list(&[("c", "1"), ("b", "1"), ("a", "1")]));
        assert_eq!((moved.added, moved.removed, moved.changed), (0, 0, 0));
    }
}
