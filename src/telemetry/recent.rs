//! What happened lately, for the status page: a few entries of each sort, so that no sort crowds out another.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use super::plain;

/// Entries kept of each sort.
const MOST: usize = 50;
/// Characters kept of a text that others chose.
const LONGEST: usize = 120;
/// Characters kept of what came of a configuration.
const LONGEST_TOLD: usize = 300;
/// Names or rules told of one entry.
const MOST_NAMES: usize = 4;

/// The last entries of each sort.
#[derive(Debug, Default)]
pub struct Recent {
    /// What servers offer became another.
    changes: Ring<Change>,
    /// Callers who were not let do something.
    denials: Ring<Denial>,
    /// Definitions that differ from the approved ones.
    contracts: Ring<Differing>,
    /// Configurations that were read.
    reloads: Ring<Reload>,
}

/// A list of a server became another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its server.
    pub server: String,
    /// tools, prompts, resources or templates.
    pub kind: &'static str,
    /// Items that were not there before.
    pub added: usize,
    /// Items that are there no more.
    pub removed: usize,
    /// Items that are told of in other words.
    pub changed: usize,
    /// Items now.
    pub items: usize,
    /// Some of the items it is about.
    pub names: Vec<String>,
}

/// A caller was not let do something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Denial {
    /// The subject.
    pub who: String,
    /// The client.
    pub client: String,
    /// What it asked for.
    pub method: &'static str,
    /// Whose that is, where it is known.
    pub server: String,
    /// Its name or address, where it is known.
    pub item: String,
    /// The scopes that would do; none: no grant gives it.
    pub scopes: Vec<String>,
}

/// A definition differs from the approved one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// Its server.
    pub server: String,
    /// tool or prompt.
    pub kind: &'static str,
    /// Its native name.
    pub item: String,
    /// What it means.
    pub class: &'static str,
    /// Whether the approved one is shown instead.
    pub held: bool,
    /// The rules that found it.
    pub rules: Vec<String>,
}

/// A configuration was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reload {
    /// Whether it is in use now.
    pub taken: bool,
    /// What came of it, in a few words; no value of the file.
    pub told: String,
}

/// An entry, when it happened last, and how often in a row of the kept ones.
#[derive(Debug, Clone, Serialize)]
pub struct Noted<T> {
    /// When, last; told in seconds since 1970.
    #[serde(serialize_with = "seconds")]
    pub at: SystemTime,
    /// How often the same.
    pub times: u64,
    /// What.
    #[serde(flatten)]
    pub what: T,
}

fn seconds<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

#[derive(Debug)]
struct Ring<T>(
    // A std mutex: held to look at few entries, never across an await, and by nobody whose call is served.
    Mutex<VecDeque<Noted<T>>>,
);

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + PartialEq> Ring<T> {
    /// What is the same as a kept entry is counted there.
    fn note(&self, what: T) {
        Self::add(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), what);
    }

    /// The same, unless somebody else is at it: who is turned away a thousand times a second need not wait for it.
    fn try_note(&self, what: impl FnOnce() -> T) {
        if let Ok(mut kept) = self.0.try_lock() {
            Self::add(&mut kept, what());
        }
    }

    fn add(kept: &mut VecDeque<Noted<T>>, what: T) {
        let place = kept.iter().position(|noted| noted.what == what);
        let before = place.and_then(|place| kept.remove(place)).map_or(0, |noted| noted.times);
        kept.truncate(MOST - 1);
        kept.push_front(Noted { at: SystemTime::now(), times: before + 1, what });
    }

    /// The newest first.
    fn all(&self) -> Vec<Noted<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn short(text: &mut String) {
    *text = plain(text, LONGEST);
}

/// The first few, and a mark if there were more.
fn few(texts: &mut Vec<String>) {
    let more = texts.len() > MOST_NAMES;
    texts.truncate(MOST_NAMES);
    texts.iter_mut().for_each(short);
    if more {
        texts.push("…".to_owned());
    }
}

impl Recent {
    /// A list of a server became another.
    pub fn change(&self, mut change: Change) {
        few(&mut change.names);
        self.changes.note(change);
    }

    /// A caller was not let do something.
    pub fn denial(&self, denial: impl FnOnce() -> Denial) {
        self.denials.try_note(|| {
            let mut denial = denial();
            [&mut denial.who, &mut denial.client, &mut denial.item].into_iter().for_each(short);
            few(&mut denial.scopes);
            denial
        });
    }

    /// A definition differs from the approved one.
    pub fn contract(&self, mut differing: Differing) {
        short(&mut differing.item);
        few(&mut differing.rules);
        self.contracts.note(differing);
    }

    /// A configuration was read; `told` in a few words, without any value of it.
    pub fn reload(&self, taken: bool, told: &str) {
        self.reloads.note(Reload { taken, told: plain(told, LONGEST_TOLD) });
    }

    /// The newest first.
    pub fn changes(&self) -> Vec<Noted<Change>> {
        self.changes.all()
    }

    /// The newest first.
    pub fn denials(&self) -> Vec<Noted<Denial>> {
        self.denials.all()
    }

    /// The newest first.
    pub fn contracts(&self) -> Vec<Noted<Differing>> {
        self.contracts.all()
    }

    /// The newest first.
    pub fn reloads(&self) -> Vec<Noted<Reload>> {
        self.reloads.all()
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Denial, MOST, Recent};

    fn denial(item: &str) -> Denial {
        let text = |text: &str| text.to_owned();
        Denial {
            who: text("w"),
            client: text("c"),
            method: "tools/call",
            server: text("s"),
            item: text(item),
            scopes: Vec::new(),
        }
    }

    #[test]
    fn a_sort_keeps_its_last_entries_and_counts_the_same_once() {
        let recent = Recent::default();
        for item in 0..MOST + 20 {
            recent.denial(|| denial(&item.to_string()));
        }
        assert_eq!(recent.denials().len(), MOST);
        assert_eq!(recent.denials()[0].what.item, (MOST + 19).to_string());
        assert_eq!(recent.denials()[MOST - 1].what.item, "20");
        recent.denial(|| denial("21"));
        recent.denial(|| denial("21"));
        let all = recent.denials();
        assert_eq!((all.len(), all[0].times, &*all[0].what.item), (MOST, 3, "21"));
        assert_eq!(all.iter().filter(|noted| noted.what.item == "21").count(), 1);
        // No sort crowds out another.
        assert!(recent.changes().is_empty());
    }

    #[test]
    fn texts_of_others_are_short_and_seen() {
        let recent = Recent::default();
        recent.denial(|| denial(&"\u{202e}x".repeat(9000)));
        assert!(recent.denials()[0].what.item.starts_with("\\u{202e}x"));
        assert!(recent.denials()[0].what.item.len() < 1000);
        let names = (0..9).map(|_| "y".repeat(9000)).collect();
        let change = Change {
            server: "s".to_owned(),
            kind: "tools",
            added: 9,
            removed: 0,
            changed: 0,
            items: 9,
            names,
        };
        recent.change(change);
        assert_eq!(recent.changes()[0].what.names.len(), 5);
        assert!(recent.changes()[0].what.names.iter().all(|name| name.chars().count() <= 121));
    }
}
