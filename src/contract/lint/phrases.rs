//! Phrases that give orders to a model, found by their words: `a|b` is one of them, `c*` a beginning, `~3` up to three
//! other words in between; never across the end of a sentence.

use std::sync::LazyLock;

mod table;

use table::{PHRASES, PLACES};

/// One place in a phrase: a word, with how many others may stand before it.
struct Step {
    gap: usize,
    words: Vec<(String, bool)>,
}

struct Phrase {
    rule: &'static str,
    steps: Vec<Step>,
}

static ALL: LazyLock<Vec<Phrase>> = LazyLock::new(|| {
    let lines = PHRASES.iter().flat_map(|(rule, phrases)| phrases.iter().map(|phrase| (*rule, *phrase)));
    lines.map(|(rule, phrase)| Phrase { rule, steps: steps(phrase) }).collect()
});

fn steps(phrase: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut gap = 0;
    for part in phrase.split_whitespace() {
        if let Some(count) = part.strip_prefix('~') {
            gap = count.parse().unwrap_or(0);
            continue;
        }
        let words = part.split('|').map(|word| match word.strip_suffix('*') {
            Some(start) => (start.to_owned(), true),
            None => (word.to_owned(), false),
        });
        steps.push(Step { gap: std::mem::take(&mut gap), words: words.collect() });
    }
    steps
}

impl Step {
    fn is(&self, word: &str) -> bool {
        self.words.iter().any(|(known, open)| if *open { word.starts_with(known) } else { word == known })
    }
}

/// Phrases in a text, one of each rule: the rule, and the words that are it.
pub(super) fn found(text: &str) -> Vec<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    let sentences = sentences(text);
    for phrase in ALL.iter() {
        if found.iter().any(|(rule, _)| *rule == phrase.rule) {
            continue;
        }
        if let Some(words) = sentences.iter().find_map(|sentence| matched(&phrase.steps, sentence)) {
            found.push((phrase.rule, words));
        }
    }
    let secret = found.iter().any(|(rule, _)| *rule == "secret");
    if let Some(place) = secret_place(&text.to_lowercase()).filter(|_| !secret) {
        found.push(("secret", place.to_owned()));
    }
    found
}

/// A place that holds secrets, named in lower-case text.
pub(super) fn secret_place(lower: &str) -> Option<&'static str> {
    PLACES.into_iter().find(|place| lower.contains(place))
}

fn sentences(text: &str) -> Vec<Vec<String>> {
    let lower = text.to_lowercase().replace(['\'', '\u{2019}'], "");
    let mut all: Vec<Vec<String>> = Vec::new();
    let (mut sentence, mut word) = (Vec::new(), String::new());
    let mut chars = lower.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            sentence.push(std::mem::take(&mut word));
        }
        let stop = matches!(c, '.' | '!' | '?' | ';') && chars.peek().is_none_or(|next| next.is_whitespace());
        let paragraph = c == '\n' && chars.peek() == Some(&'\n');
        if stop || paragraph {
            all.push(std::mem::take(&mut sentence));
        }
    }
    if !word.is_empty() {
        sentence.push(word);
    }
    all.push(sentence);
    all
}

fn matched(steps: &[Step], words: &[String]) -> Option<String> {
    let (first, rest) = steps.split_first()?;
    let starts = (0..words.len()).filter(|at| first.is(&words[*at]));
    for start in starts {
        if let Some(last) = follows(rest, words, start) {
            return Some(words[start..=last].join(" "));
        }
    }
    None
}

/// Where the rest of a phrase ends, if it stands after `at`.
fn follows(steps: &[Step], words: &[String], at: usize) -> Option<usize> {
    let Some((step, rest)) = steps.split_first() else { return Some(at) };
    let reach = (at + 1..words.len()).take(step.gap + 1);
    reach.filter(|next| step.is(&words[*next])).find_map(|next| follows(rest, words, next))
}
