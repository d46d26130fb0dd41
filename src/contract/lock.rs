//! The lock file: approved definitions, one spelling, sorted, meant for version control.
//!
//! JSON, indented, keys sorted: a changed property is a changed line. Keyed by server, kind and native name, so another
//! prefix changes nothing. Each item has its definition and short hashes of its parts; a definition that was edited by
//! hand no longer fits its hashes, and the file is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::canonical::{canonical, digest};
use super::definition::classify;
use super::lint::lint;
use super::{Class, Finding, Unreadable, worst};
use crate::protocol::items::json_string;
use crate::protocol::method::Kind;

/// The version of the format.
const VERSION: u32 = 1;

/// What has a place in the file; resources come and go by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locked {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource template.
    Template,
}

impl Locked {
    /// What is locked of a kind.
    pub const fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Tools => Some(Self::Tool),
            Kind::Prompts => Some(Self::Prompt),
            Kind::Templates => Some(Self::Template),
            Kind::Resources => None,
        }
    }

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
        }
    }
}

/// What one item is known by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The server's name.
    pub server: String,
    /// What it is.
    pub kind: Locked,
    /// The name its server uses; of a template: the URI template.
    pub native: String,
}

impl Key {
    /// As people say it.
    pub fn said(&self) -> String {
        match self.kind {
            Locked::Tool => format!("{}/{}", self.server, self.native),
            kind => format!("{} {}/{}", kind.as_str(), self.server, self.native),
        }
    }
}

/// One approved definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its canonical text.
    pub canonical: String,
    /// Of all of it.
    pub digest: String,
}

impl Entry {
    /// Of a definition as its server wrote it.
    pub fn new(json: &str) -> Result<Self, Unreadable> {
        let canonical = canonical(json)?;
        Ok(Self { digest: digest(Some(&canonical)), canonical })
    }

    fn value(&self) -> Value {
        // Canonical text was JSON before.
        serde_json::from_str(&self.canonical).unwrap_or_default()
    }

    /// Hashes of the parts, by name.
    fn parts(&self) -> [(&'static str, String); 6] {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(&self.canonical).unwrap_or_default();
        let part = |key: &str| digest(members.get(key).map(|value| value.get()));
        [
            ("annotations", part("annotations")),
            ("description", part("description")),
            ("input", part("inputSchema")),
            ("name", part("name")),
            ("output", part("outputSchema")),
            ("whole", self.digest.clone()),
        ]
    }
}

/// Why a lock file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It is no lock file.
    #[error("is no lock file: {0}")]
    Format(String),
    /// It is of another version.
    #[error("has version {0}, and this gateway reads version {VERSION}")]
    Version(u32),
    /// An item does not fit its hashes.
    #[error("{0} does not fit its hashes: it was changed by hand; approve it, or restore the file")]
    Altered(String),
    /// An item stands in it twice.
    #[error("{0} stands in it twice")]
    Twice(String),
}

/// The approved definitions of all servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    items: BTreeMap<Key, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'f> {
    version: u32,
    #[serde(borrow)]
    items: Vec<Line<'f>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'f> {
    server: String,
    kind: Locked,
    name: String,
    hash: BTreeMap<String, String>,
    #[serde(borrow)]
    definition: &'f RawValue,
}

impl Lock {
    /// Reads a lock file.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let file: File<'_> =
            serde_json::from_str(text).map_err(|error| LockError::Format(error.to_string()))?;
        if file.version != VERSION {
            return Err(LockError::Version(file.version));
        }
        let mut lock = Self::default();
        for line in file.items {
            let key = Key { server: line.server, kind: line.kind, native: line.name };
            let altered = || LockError::Altered(key.said());
            let entry = Entry::new(line.definition.get()).map_err(|_| altered())?;
            let parts: BTreeMap<String, String> =
                entry.parts().into_iter().map(|(name, hash)| (name.to_owned(), hash)).collect();
            if parts != line.hash {
                return Err(altered());
            }
            let said = key.said();
            if lock.items.insert(key, entry).is_some() {
                return Err(LockError::Twice(said));
            }
        }
        Ok(lock)
    }

    /// The text of the file.
    pub fn render(&self) -> String {
        let mut out = format!("{{\n  \"version\": {VERSION},\n  \"items\": [");
        // Writing to a string cannot fail.
        for (place, (key, entry)) in self.items.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\n    {{\n      \"server\": {},\n", json_string(&key.server));
            let _ = write!(
                out,
                "      \"kind\": \"{}\",\n      \"name\": {},\n",
                key.kind.as_str(),
                json_string(&key.native)
            );
            out.push_str("      \"hash\": {\n");
            let parts = entry.parts().map(|(name, hash)| format!("        \"{name}\": \"{hash}\""));
            let _ = write!(out, "{}\n      }},\n      \"definition\": ", parts.join(",\n"));
            pretty(&entry.canonical, 6, &mut out);
            out.push_str("\n    }");
        }
        out.push_str(if self.items.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" });
        out
    }

    /// Takes an item in, or takes it over.
    pub fn insert(&mut self, key: Key, entry: Entry) {
        self.items.insert(key, entry);
    }

    /// Takes an item out.
    pub fn remove(&mut self, key: &Key) {
        self.items.remove(key);
    }

    /// The approved definition of an item.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.items.get(key)
    }

    /// All items, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.items.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What differs in `now`, sorted. `asked`: of which servers and kinds `now` has all there is.
    pub fn diff(&self, now: &Self, asked: impl Fn(&Key) -> bool) -> Vec<Change> {
        let gone = self.items.keys().filter(|key| !now.items.contains_key(*key));
        let mut found: Vec<Change> = gone.filter(|key| asked(key)).map(Change::removed).collect();
        for (key, entry) in &now.items {
            found.extend(self.change(key, entry));
        }
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    /// What is different about one item.
    pub fn change(&self, key: &Key, now: &Entry) -> Option<Change> {
        match self.get(key) {
            Some(before) if before.digest == now.digest => None,
            Some(before) => Some(Change::changed(key, before, now)),
            None => Some(Change::added(key, now)),
        }
    }
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is another one.
    Changed,
}

/// One item that differs from the lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub key: Key,
    /// What became of it.
    pub fate: Fate,
    /// The worst of the findings.
    pub class: Class,
    /// All there is to say.
    pub findings: Vec<Finding>,
}

impl Change {
    fn new(key: &Key, fate: Fate, findings: Vec<Finding>) -> Self {
        Self { key: key.clone(), fate, class: worst(&findings), findings }
    }

    fn removed(key: &Key) -> Self {
        let message = "its server no longer offers it".to_owned();
        let finding = Finding { path: String::new(), rule: "item-removed", class: Class::Breaking, message };
        Self::new(key, Fate::Removed, vec![finding])
    }

    fn added(key: &Key, now: &Entry) -> Self {
        let message = "its server offers it now".to_owned();
        let finding = Finding { path: String::new(), rule: "item-added", class: Class::Compatible, message };
        let mut findings = vec![finding];
        findings.extend(lint(&now.value()));
        Self::new(key, Fate::Added, findings)
    }

    fn changed(key: &Key, before: &Entry, now: &Entry) -> Self {
        let mut findings = classify(&before.value(), &now.value());
        if findings.is_empty() {
            // Numbers that are the same to a reader can be written differently.
            let message = "written differently, and means the same".to_owned();
            let finding =
                Finding { path: String::new(), rule: "spelling", class: Class::Compatible, message };
            findings.push(finding);
        }
        Self::new(key, Fate::Changed, findings)
    }
}

/// Canonical JSON with a line for each member.
fn pretty(canonical: &str, indent: usize, out: &mut String) {
    let mut depth = 0;
    let (mut quoted, mut escaped) = (false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent + depth * 2));
    };
    let mut chars = canonical.chars().peekable();
    while let Some(c) = chars.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' if chars.peek().is_some_and(|next| matches!(next, '}' | ']')) => {
                out.push(c);
                out.extend(chars.next());
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
                line(out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                quoted = c == '"';
                out.push(c);
            }
        }
    }
}
