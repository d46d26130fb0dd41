//! Does a description say what no description should? Every string of a definition is looked at, names too.
//!
//! | rule | what is looked for |
//! | --- | --- |
//! | `hidden-text` | zero-width, bidirectional, tag and control characters; words of two alphabets; text behind many blanks |
//! | `imperative` | orders for the model: ignore what it was told, keep things from the user, skip confirmation |
//! | `secret` | private keys, credentials, tokens and the files that hold them, asked for |
//! | `cross-tool` | orders about other tools: before, after or instead of any other, with changed recipients |
//! | `link` | addresses to send things to, shortened, by number, with something to fill in, or as an image |
//! | `encoded` | long runs of base64, hexadecimal or escapes |
//! | `markup` | tags and markers that pretend to be a prompt |
//!
//! Phrases are found by their words, in any case and with other words in between.

use serde_json::Value;

use super::{Class, Finding};

mod hidden;
mod links;
mod phrases;

/// Levels of a definition that are looked into.
const DEEPEST: usize = 100;
/// Findings one definition may have; it is suspicious with one.
const MOST: usize = 50;
/// Of an excerpt.
const LONGEST: usize = 48;

/// All that is suspicious about a definition.
pub fn lint(definition: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    look(definition, &mut String::new(), &mut found, 0);
    found.truncate(MOST);
    found
}

/// Hosts that a definition links to.
pub(super) fn hosts(definition: &Value) -> Vec<String> {
    let mut found = Vec::new();
    links::hosts(&definition.to_string(), &mut found);
    found.sort();
    found.dedup();
    found
}

fn look(value: &Value, at: &mut String, found: &mut Vec<Finding>, depth: usize) {
    if depth > DEEPEST || found.len() >= MOST {
        return;
    }
    match value {
        Value::String(text) => judge(text, at, found),
        Value::Array(all) => {
            for (place, one) in all.iter().enumerate() {
                down(&place.to_string(), one, at, found, depth);
            }
        }
        Value::Object(map) => {
            for (key, one) in map {
                judge_name(key, at, found);
                if !is_technical(key, one) {
                    down(key, one, at, found, depth);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn down(key: &str, value: &Value, at: &mut String, found: &mut Vec<Finding>, depth: usize) {
    let length = at.len();
    at.push('/');
    at.push_str(&key.replace('~', "~0").replace('/', "~1"));
    look(value, at, found, depth + 1);
    at.truncate(length);
}

/// Strings that are addresses or patterns by their nature, and not read by the model as words.
fn is_technical(key: &str, value: &Value) -> bool {
    const KEYS: [&str; 8] =
        ["$schema", "$id", "$ref", "pattern", "src", "websiteUrl", "resourceUri", "mimeType"];
    value.is_string() && KEYS.contains(&key)
}

fn judge(text: &str, at: &str, found: &mut Vec<Finding>) {
    let mut say = |rule: &'static str, what: String| found.push(finding(at, rule, what));
    if let Some(what) = hidden::hidden(text) {
        say("hidden-text", what);
    }
    // What hides between letters must not hide the words.
    let text = hidden::visible(text);
    for (rule, words) in phrases::found(&text) {
        say(rule, format!("says {:?}", excerpt(&words)));
    }
    if let Some(what) = links::link(&text) {
        say("link", what);
    }
    if let Some(run) = links::encoded(&text) {
        say("encoded", format!("holds encoded text: {:?}", excerpt(&run)));
    }
    if let Some(tag) = links::markup(&text) {
        say("markup", format!("holds markup for a prompt: {tag:?}"));
    }
}

/// Names are words, too.
fn judge_name(name: &str, at: &str, found: &mut Vec<Finding>) {
    /// Names of more words are sentences.
    const WORDS: usize = 3;
    let at = format!("{at}/{}", hidden::visible(name));
    if let Some(what) = hidden::hidden(name) {
        found.push(finding(&at, "hidden-text", what));
    }
    if let Some(secret) = phrases::secret_place(&name.to_lowercase()) {
        found.push(finding(&at, "secret", format!("is named after {secret:?}")));
    }
    let spaced = name.replace(['_', '-'], " ");
    if spaced.split_whitespace().count() > WORDS {
        for (rule, words) in phrases::found(&spaced) {
            found.push(finding(&at, rule, format!("is named {:?}", excerpt(&words))));
        }
    }
}

fn finding(at: &str, rule: &'static str, message: String) -> Finding {
    Finding { path: at.to_owned(), rule, class: Class::Suspicious, message }
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
