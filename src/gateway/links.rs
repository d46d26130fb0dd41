//! Resource links seen in servers' results: such a URI belongs to the server that gave it, for the caller it
//! was given to (design §4). Bounded; what others list or claim by configuration goes before it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use memchr::memmem;
use moka::sync::Cache;

use crate::protocol::object::{Object, Span, array, string};

/// Links remembered at most, over all callers.
const MOST: u64 = 100_000;
/// How long a link that nobody follows is remembered.
const IDLE: Duration = Duration::from_secs(3600);

/// What stands in every link; made once, since making it costs more than looking for it in a small result.
static WORD: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("resource_link"));

/// Who gave which link to whom: (principal, URI) → server.
#[derive(Debug)]
pub(super) struct Links(Cache<(Arc<str>, Arc<str>), Arc<str>>);

impl Default for Links {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MOST).time_to_idle(IDLE).build())
    }
}

impl Links {
    /// Remembers the links of a result. The first server to give a URI to a caller stays its owner: a later
    /// one cannot take it over.
    pub(super) fn note(&self, principal: &Arc<str>, server: &Arc<str>, text: &str, result: Span) {
        // Almost no result has any: a look for the word spares a look at the whole.
        if WORD.find(result.of(text).as_bytes()).is_none() {
            return;
        }
        for uri in links(text, result) {
            let key = (Arc::clone(principal), Arc::from(uri));
            self.0.entry(key).or_insert_with(|| Arc::clone(server));
        }
    }

    /// The server that gave this URI to this caller.
    pub(super) fn giver(&self, principal: &Arc<str>, uri: &str) -> Option<Arc<str>> {
        self.0.get(&(Arc::clone(principal), Arc::from(uri)))
    }
}

/// The URIs of the links in a tool's or prompt's result.
fn links(text: &str, result: Span) -> Vec<String> {
    let member = |span: Span, key: &str| Object::parse(text, span).ok()?.get(text, key).ok()?;
    let list = |span: Option<Span>| span.and_then(|span| array(text, span).ok()).unwrap_or_default();
    let mut blocks = list(member(result, "content"));
    for message in list(member(result, "messages")) {
        // A prompt's message has one block, or several of them.
        if let Some(content) = member(message, "content") {
            blocks.extend(array(text, content).unwrap_or_else(|_| vec![content]));
        }
    }
    let is_link = |block: &Span| {
        let kind = member(*block, "type").and_then(|kind| string(kind.of(text)));
        kind.as_deref() == Some("resource_link")
    };
    let uri = |block: Span| Some(string(member(block, "uri")?.of(text))?.into_owned());
    blocks.into_iter().filter(is_link).filter_map(uri).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Links, Span};

    fn note(links: &Links, who: &str, server: &str, result: &str) {
        links.note(&Arc::from(who), &Arc::from(server), result, Span::new(0, result.len()));
    }

    fn giver(links: &Links, who: &str, uri: &str) -> Option<String> {
        links.giver(&Arc::from(who), uri).map(|server| server.to_string())
    }

    #[test]
    fn links_belong_to_who_gave_them_for_whom_they_were_given() {
        let links = Links::default();
        note(
            &links,
            "alice",
            "a",
            r#"{"content":[{"type":"text","text":"resource_link x://no"},{"type":"resource_link","uri":"x:\/\/1"}]}"#,
        );
        note(
            &links,
            "alice",
            "b",
            r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"y://1"}},{"content":[{"type":"resource_link","uri":"y://2"}]}]}"#,
        );
        note(&links, "alice", "evil", r#"{"content":[{"type":"resource_link","uri":"x://1"}]}"#);
        assert_eq!(giver(&links, "alice", "x://1").as_deref(), Some("a"), "the first stays");
        assert_eq!(giver(&links, "alice", "y://1").as_deref(), Some("b"));
        assert_eq!(giver(&links, "alice", "y://2").as_deref(), Some("b"));
        assert_eq!(giver(&links, "bob", "x://1"), None);
        assert_eq!(giver(&links, "alice", "x://no"), None);
        note(&links, "alice", "a", r#"{"content":"resource_link"}"#);
    }
}
