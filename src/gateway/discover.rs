//! `server/discover`: what this caller is offered, answered by us, never a refusal because a server is down
//! (L-01..L-06, design §5).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::snapshot::Endpoint;
use super::{Call, Gateway, GatewayError};
use crate::catalogue::Shelf;
use crate::catalogue::hints::Scope;
use crate::outbound::Peer;
use crate::policy::Rights;
use crate::protocol::edit::Parts;
use crate::protocol::items::json_string;
use crate::protocol::meta::{self, TASKS, UI};
use crate::protocol::method::Kind;
use crate::protocol::version::MODERN;

/// Most bytes of one server's instructions, and of all together (F-014).
const ONE_TEXT: usize = 8 * 1024;
const ALL_TEXTS: usize = 64 * 1024;
/// The life of the answer while all servers are known, and while some are not.
const TTL_MS: u32 = 60_000;
const TTL_MS_UNKNOWN: u32 = 5_000;
/// Lists whose changes can be told; templates have no notice of their own (S-37).
const LISTED: [Kind; 3] = [Kind::Tools, Kind::Prompts, Kind::Resources];
/// What endpoints of several servers always declare: they answer empty where no server has it.
const MERGED: [&str; 5] = ["tools", "prompts", "resources", "completions", "logging"];

impl Gateway {
    pub(super) async fn discover(&self, call: &Call) -> Result<Parts, GatewayError> {
        let (snapshot, endpoint, rights) = (&call.snapshot, &call.endpoint, &call.rights);
        let peers = self.peers(call).await;
        let seen = || call.seen(&Kind::ALL).zip(&peers).filter(|((_, sees), _)| *sees);
        let ttl = if seen().all(|(_, peer)| peer.is_some()) { TTL_MS } else { TTL_MS_UNKNOWN };
        let alike = rights.is_open() && !endpoint.shows_own(rights, &Kind::ALL);
        let scope = if alike { Scope::Public } else { Scope::Private };
        let tells = told(endpoint, &peers, rights);
        let settings = |capability: &str| {
            let kind = LISTED.into_iter().find(|kind| kind.as_str() == capability);
            let mut flags = Vec::new();
            flags.extend(kind.filter(|k| tells.lists.contains(k)).map(|_| "\"listChanged\":true"));
            flags.extend((capability == "resources" && tells.updates).then_some("\"subscribe\":true"));
            flags.join(",")
        };
        let mut members: Vec<String> = capabilities(endpoint, &peers)
            .into_iter()
            .filter(|capability| may(endpoint, rights, capability))
            .map(|capability| format!("\"{capability}\":{{{}}}", settings(capability)))
            .collect();
        members.extend(extensions(call.members(), &peers));
        let instructions = instructions(call, &peers)
            .map(|text| format!(",\"instructions\":{}", json_string(&text)))
            .unwrap_or_default();
        let mut parts = Parts::new();
        parts.push(format!(
            "{{\"resultType\":\"complete\",\"supportedVersions\":[\"{MODERN}\"],\"capabilities\":{{{}}}{instructions},\
             \"ttlMs\":{ttl},\"cacheScope\":\"{}\",\"_meta\":{{\"{}\":",
            members.join(","),
            scope.as_str(),
            meta::SERVER_INFO
        ));
        parts.push(snapshot.server_info.as_bytes().clone());
        parts.push(bytes::Bytes::from_static(b"}}"));
        Ok(parts)
    }

    /// What clients of this endpoint can be told of.
    pub(super) async fn tells(&self, call: &Call) -> Tells {
        told(&call.endpoint, &self.peers(call).await, &call.rights)
    }

    /// Whether methods behind a capability exist at this endpoint (M-30).
    pub(super) async fn offers(&self, call: &Call, capability: &str) -> bool {
        let endpoint = &call.endpoint;
        if endpoint.config.prefix {
            return MERGED.contains(&capability);
        }
        // To whom nothing of its server is granted, a mirror shows nothing at all.
        if !endpoint.gives(&call.rights, &Kind::ALL) {
            return false;
        }
        if let [shelf] = &call.members()[..]
            && let Some(peer) = shelf.known_peer()
        {
            return MERGED.contains(&capability) && peer.offer.has(capability);
        }
        capabilities(endpoint, &Box::pin(self.peers(call)).await).contains(&capability)
    }

    /// What is agreed with each server. An endpoint that mirrors one server waits for it a while, the others
    /// never do (L-05). Servers of which this caller has nothing are as if they were not known.
    async fn peers(&self, call: &Call) -> Vec<Option<Arc<Peer>>> {
        let known = |(shelf, sees): (&Arc<Shelf>, bool)| shelf.known_peer().filter(|_| sees);
        let mut peers: Vec<_> = call.seen(&Kind::ALL).map(known).collect();
        if !call.endpoint.gives(&call.rights, &Kind::ALL) {
            return peers;
        }
        if let (false, [shelf], [None]) = (call.endpoint.config.prefix, &call.members()[..], &peers[..]) {
            let limit = shelf.server.config.list_timeout;
            let asked = tokio::time::timeout(limit, shelf.peer()).await;
            peers[0] = asked.ok().and_then(Result::ok);
        }
        peers
    }
}

/// Changes that clients can be told of (S-30).
pub(super) struct Tells {
    /// Lists.
    pub(super) lists: Vec<Kind>,
    /// Updates of resources.
    pub(super) updates: bool,
}

fn told(endpoint: &Endpoint, peers: &[Option<Arc<Peer>>], rights: &Rights) -> Tells {
    let known = || peers.iter().flatten();
    let lists = match peers {
        [Some(peer)] if !endpoint.config.prefix => {
            LISTED.into_iter().filter(|kind| peer.offer.tells_changes(*kind)).collect()
        }
        // Servers come and go, so every list can change.
        _ => LISTED.to_vec(),
    };
    let lists: Vec<Kind> =
        lists.into_iter().filter(|kind| may(endpoint, rights, kind.capability())).collect();
    let read = may(endpoint, rights, "resources");
    Tells { lists, updates: read && known().any(|peer| peer.offer.tells_updates()) }
}

/// Whether a capability means anything to this caller: it has something of its kind.
fn may(endpoint: &Endpoint, rights: &Rights, capability: &str) -> bool {
    const ADDRESSED: [Kind; 2] = [Kind::Resources, Kind::Templates];
    const COMPLETED: [Kind; 3] = [Kind::Prompts, Kind::Resources, Kind::Templates];
    match capability {
        "tools" | "prompts"
            if endpoint.shelved().is_some_and(|books| books.seen(rights).next().is_some()) =>
        {
            true
        }
        "tools" => endpoint.gives(rights, &[Kind::Tools]),
        "prompts" => endpoint.gives(rights, &[Kind::Prompts]),
        "resources" => endpoint.gives(rights, &ADDRESSED),
        "completions" => endpoint.gives(rights, &COMPLETED),
        _ => endpoint.gives(rights, &Kind::ALL),
    }
}

fn capabilities(endpoint: &Endpoint, peers: &[Option<Arc<Peer>>]) -> Vec<&'static str> {
    match peers {
        // What a direct connection shows, the gateway shows.
        [Some(peer)] if !endpoint.config.prefix => {
            MERGED.into_iter().filter(|capability| peer.offer.has(capability)).collect()
        }
        _ => MERGED.to_vec(),
    }
}

/// The extensions that callers can use here, each with the settings its servers agree on (M-90): those we
/// relay ourselves, and those the operator lets through.
fn extensions(shelves: &[Arc<Shelf>], peers: &[Option<Arc<Peer>>]) -> Option<String> {
    let mut merged: BTreeMap<&str, serde_json::Value> = BTreeMap::new();
    for (shelf, peer) in shelves.iter().zip(peers) {
        let Some(peer) = peer else { continue };
        let admitted = shelf.server.config.extensions.iter().map(String::as_str);
        for id in [TASKS, UI].into_iter().chain(admitted) {
            let Some(settings) = peer.offer.extension(id) else { continue };
            match merged.get_mut(id) {
                Some(common) => keep_common(common, settings),
                None => drop(merged.insert(id, settings.clone())),
            }
        }
    }
    (!merged.is_empty()).then(|| format!("\"extensions\":{}", serde_json::json!(merged)))
}

/// Leaves the members in which two servers' settings agree.
fn keep_common(common: &mut serde_json::Value, other: &serde_json::Value) {
    if let Some(members) = common.as_object_mut() {
        members.retain(|key, value| other.get(key) == Some(value));
    }
}

/// Our own text, then each server's under its name.
fn instructions(call: &Call, peers: &[Option<Arc<Peer>>]) -> Option<String> {
    let (snapshot, endpoint) = (&call.snapshot, &call.endpoint);
    let own = endpoint.config.instructions.as_ref().or(snapshot.config.gateway.instructions.as_ref());
    let mut text = own.cloned().unwrap_or_default();
    for (shelf, peer) in call.members().iter().zip(peers) {
        let Some(theirs) = peer.as_ref().and_then(|p| p.offer.instructions.as_deref()) else { continue };
        if !endpoint.config.prefix {
            return Some(own.cloned().unwrap_or_else(|| theirs.to_owned()));
        }
        let theirs = cut(theirs, ONE_TEXT);
        if text.len() + theirs.len() > ALL_TEXTS {
            break;
        }
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text = format!("{text}{gap}## {}\n{theirs}", shelf.server.name);
    }
    (!text.is_empty()).then_some(text)
}

/// At most `limit` bytes, ending at a character.
fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn f_014_texts_are_cut_between_characters() {
        assert_eq!(cut("aäb", 2), "a");
        assert_eq!(cut("aäb", 3), "aä");
        assert_eq!(cut("aäb", 9), "aäb");
        assert_eq!(cut("日", 1), "");
    }
}
