//! Which tools fit a few words best: BM25 over names, descriptions, parameters and tags.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use bm25::{EmbedderBuilder, Embedding, Scorer, TokenEmbedder as _, TokenEmbedding, Tokenizer as _};
use serde_json::Value;

use super::words::{Words, alike};
use crate::gateway::view::Route;
use crate::playbooks::Book;

/// Bytes of a query that count.
const LONGEST_QUERY: usize = 500;
/// Bytes of one description that count, and of all text of a tool's parameters.
const LONGEST_TEXT: usize = 1500;
/// Levels of a schema that are looked at.
const DEEPEST: usize = 4;
/// How much the length of a text counts: little, for tools with many parameters are no worse.
const LENGTH_COUNTS: f32 = 0.3;
/// Words of a query that count.
const MOST_WORDS: usize = 32;
/// How much a word counts that means about the same as the one that was said.
const ALIKE_COUNTS: f32 = 0.5;
/// How much of a tool's rank it takes to fit every word of the query, not some of them very well.
const ALL_COUNTS: f32 = 0.3;

/// Tools by number, to be searched. What fits equally well comes in the order of the numbers.
pub(super) struct Index {
    scorer: Scorer<usize>,
    tags: Vec<BTreeSet<Box<str>>>,
    size: usize,
}

/// What of a tool is searched.
#[derive(Debug, Default)]
pub(super) struct Document {
    text: String,
    tags: BTreeSet<Box<str>>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("tools", &self.tags.len()).finish_non_exhaustive()
    }
}

impl Index {
    pub(super) fn new(documents: impl Iterator<Item = Document>) -> Self {
        let documents: Vec<Document> = documents.collect();
        let texts: Vec<&str> = documents.iter().map(|document| document.text.as_str()).collect();
        let embedder = EmbedderBuilder::<u32, Words>::with_tokenizer_and_fit_to_corpus(Words, &texts);
        let embedder = embedder.b(LENGTH_COUNTS).build();
        let mut scorer = Scorer::new();
        let mut size = size_of::<Self>();
        for (number, text) in texts.iter().enumerate() {
            let embedding = embedder.embed(text);
            // Each word in the tool's list and in the list of its tools.
            size += 64 + embedding.len() * 32;
            scorer.upsert(&number, embedding);
        }
        let tags = documents.into_iter().map(|document| document.tags).collect();
        Self { scorer, tags, size }
    }

    /// Bytes in memory, roughly.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// The best fitting tools that have all these tags, best first. Without any words: all of them in order.
    pub(super) fn search(&self, query: &str, tags: &[String], limit: usize) -> Vec<usize> {
        let fits = |number: usize| tags.iter().all(|tag| self.tags[number].contains(tag.as_str()));
        let mut said = Words.tokenize(&query[..query.floor_char_boundary(LONGEST_QUERY)]);
        // A word counts once, however often it is said.
        let mut before = BTreeSet::new();
        said.retain(|word| before.insert(word.clone()));
        said.truncate(MOST_WORDS);
        if said.is_empty() {
            return (0..self.tags.len()).filter(|number| fits(*number)).take(limit).collect();
        }
        let mut ranks: HashMap<usize, (f32, usize)> = HashMap::new();
        for word in &said {
            for (number, score) in self.fitting(word) {
                let rank = ranks.entry(number).or_default();
                *rank = (rank.0 + score, rank.1 + 1);
            }
        }
        let share = |hits: usize| 1.0 - ALL_COUNTS + ALL_COUNTS * hits as f32 / said.len() as f32;
        let ranked = ranks.into_iter().filter(|(number, _)| fits(*number));
        let mut ranked: Vec<(f32, usize)> =
            ranked.map(|(number, (score, hits))| (score * share(hits), number)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().take(limit).map(|(_, number)| number).collect()
    }

    /// How well each tool fits one word, or one that means about the same.
    fn fitting(&self, stem: &str) -> HashMap<usize, f32> {
        let mut best: HashMap<usize, f32> = HashMap::new();
        let others = alike(stem).iter().map(|other| (other.as_str(), ALIKE_COUNTS));
        for (word, counts) in std::iter::once((stem, 1.0)).chain(others) {
            let word = Embedding(vec![TokenEmbedding { index: u32::embed(word), value: 1.0 }]);
            for hit in self.scorer.matches(&word) {
                let score = best.entry(hit.id).or_default();
                *score = score.max(counts * hit.score);
            }
        }
        best
    }
}

/// What of a tool is searched. `json` is the definition that callers are shown.
pub(super) fn document(route: &Route, json: &[u8]) -> Document {
    let config = &route.shelf.server.config;
    let given = config.tool_tags.iter().filter(|(_, globs)| globs.is_match(route.native()));
    let tags: Vec<&str> =
        config.tags.iter().map(String::as_str).chain(given.map(|(tag, _)| tag.as_str())).collect();
    let mut text = String::new();
    text.extend([
        &*route.exposed,
        " ",
        &*config.name,
        " ",
        config.description.as_deref().unwrap_or_default(),
        " ",
    ]);
    tags.iter().for_each(|tag| text.extend([*tag, " "]));
    // Definitions are no arguments: here, once a view, they may be read as values.
    if let Ok(tool) = serde_json::from_slice::<Value>(json) {
        for key in ["title", "description"] {
            text.extend([cut(tool[key].as_str().unwrap_or_default(), LONGEST_TEXT), " "]);
        }
        let mut parameters = String::new();
        schema(&tool["inputSchema"], 0, &mut parameters);
        text.push_str(cut(&parameters, LONGEST_TEXT));
    }
    Document { text, tags: tags.into_iter().map(Into::into).collect() }
}

/// What of a playbook is searched: what it says it is for, and its headings.
pub(super) fn playbook(book: &Book) -> Document {
    let headings = book.body.lines().filter(|line| line.starts_with('#'));
    let text =
        [&["playbook", &book.name, &book.description][..], &headings.collect::<Vec<_>>()].concat().join(" ");
    let text = format!("{} {}", cut(&text, LONGEST_TEXT), book.tags.join(" "));
    Document { text, tags: book.tags.iter().map(|tag| tag.as_str().into()).collect() }
}

/// The names, descriptions and choices in a schema.
fn schema(schema: &Value, depth: usize, text: &mut String) {
    if depth > DEEPEST || text.len() > LONGEST_TEXT {
        return;
    }
    for value in schema["enum"].as_array().into_iter().flatten() {
        text.extend([value.as_str().unwrap_or_default(), " "]);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        text.extend([name, " ", property["description"].as_str().unwrap_or_default(), " "]);
        self::schema(property, depth + 1, text);
    }
    self::schema_of(&schema["items"], depth, text);
}

fn schema_of(items: &Value, depth: usize, text: &mut String) {
    if items.is_object() {
        schema(items, depth + 1, text);
    }
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
