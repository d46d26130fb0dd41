//! All names of one kind on one endpoint: with prefixes, untouched, or URIs.

use std::collections::HashMap;

use super::{Dropped, List, Member, NameKind, NameRules, Named, Namer, Naming};
use crate::config::Server;
use crate::protocol::method::Kind;

/// Names what `servers`, all of an endpoint in file order, list of one kind. `lists` in the same order.
pub fn on_endpoint(
    rules: &NameRules,
    prefix: bool,
    kind: Kind,
    servers: &[&Server],
    lists: &[List<'_>],
) -> Naming {
    let kind = match kind {
        Kind::Tools => NameKind::Tool,
        Kind::Prompts => NameKind::Prompt,
        // URIs are never rewritten (M-72).
        Kind::Resources | Kind::Templates => return uris(lists, prefix),
    };
    if !prefix {
        let (Some(list), Some(server)) = (lists.first(), servers.first()) else { return Naming::default() };
        return Naming::untouched(kind, rules, &server.name, &list.natives);
    }
    let members: Vec<Member<'_>> = servers.iter().map(|server| Member::new(kind, server)).collect();
    Namer::new(kind, rules, &members).name_all(lists)
}

/// Each URI once where servers are merged: the first in file order is its owner (F-058).
fn uris(lists: &[List<'_>], once: bool) -> Naming {
    let (mut named, mut dropped) = (Vec::new(), Vec::new());
    let mut owners: HashMap<&str, usize> = HashMap::new();
    for (list, source) in lists.iter().enumerate() {
        for (item, uri) in source.natives.iter().enumerate() {
            let owner = owners.get(uri).copied().filter(|_| once);
            owners.entry(uri).or_insert(list);
            match owner {
                None => {
                    named.push(Named { exposed: (*uri).into(), list, item, changed: None, former: false })
                }
                Some(owner) => dropped.push(Dropped { list, item, duplicate: owner == list }),
            }
        }
    }
    Naming::new(named, dropped)
}
