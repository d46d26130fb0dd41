//! Words of a text as the search compares them: names split, small, without their endings and without those that say
//! nothing.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use bm25::Tokenizer;
use rust_stemmers::{Algorithm, Stemmer};

/// Longer words are no words; those of a name can be run together.
const LONGEST: usize = 64;

static STOP_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| stop_words::get(stop_words::LANGUAGE::English).iter().copied().collect());

/// What people say and what tools are called: words that mean about the same where something is to be done. General on
/// purpose: what a service calls its things is for its descriptions and the operator's tags.
const ALIKE: [&str; 17] = [
    "create add new make open start write set insert register",
    "delete remove erase drop",
    "get show read view fetch retrieve display see tell",
    "list all every",
    "update change edit modify alter",
    "find search look lookup query",
    "send mail email",
    "cancel void abort stop",
    "alert alarm warn notify",
    "file document",
    "meeting event appointment",
    "customer client",
    "picture image photo",
    "employee colleague staff",
    "build make",
    "run execute start",
    "approve accept confirm",
];

/// By stem: the stems of words that mean about the same.
static BY_STEM: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut all: HashMap<String, Vec<String>> = HashMap::new();
    for group in ALIKE {
        let stems: Vec<String> = group.split(' ').map(|word| stemmer.stem(word).into_owned()).collect();
        for stem in &stems {
            let others = stems.iter().filter(|other| *other != stem).cloned();
            all.entry(stem.clone()).or_default().extend(others);
        }
    }
    all
});

/// The stems of words that mean about the same as this one.
pub(super) fn alike(stem: &str) -> &'static [String] {
    BY_STEM.get(stem).map_or(&[], Vec::as_slice)
}

/// Splits at everything that is neither letter nor digit, and inside `camelCase`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Words;

impl Tokenizer for Words {
    fn tokenize(&self, text: &str) -> Vec<String> {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut found = Vec::new();
        let mut take = |word: &str| {
            let word = word.to_lowercase();
            let empty = word.len() < 2 && !word.bytes().all(|byte| byte.is_ascii_digit());
            if !word.is_empty() && word.len() <= LONGEST && !empty && !STOP_WORDS.contains(word.as_str()) {
                found.push(stemmer.stem(&word).into_owned());
            }
        };
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            let parts = parts(word);
            parts.iter().for_each(|part| take(part));
            // `PagerDuty` is looked for in one word as well.
            if parts.len() > 1 {
                take(word);
            }
        }
        // `on-call` and `e-mail` too.
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '-') {
            if word.trim_matches('-').contains('-') {
                take(&word.replace('-', ""));
            }
        }
        found
    }
}

/// The words inside a `camelCase` one.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut before = None;
    let mut chars = word.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next_small = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
        let hump = match before {
            Some(b) if char::is_uppercase(c) => {
                char::is_lowercase(b) || (char::is_uppercase(b) && next_small)
            }
            _ => false,
        };
        if hump {
            parts.push(&word[start..at]);
            start = at;
        }
        before = Some(c);
    }
    parts.push(&word[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use bm25::Tokenizer as _;

    use super::{Words, alike, parts};

    #[test]
    fn names_are_split_and_endings_dropped() {
        assert_eq!(Words.tokenize("search_issues"), Words.tokenize("Searching: issue"));
        assert_eq!(Words.tokenize("getUserByID"), Words.tokenize("get user ID getuserbyid"));
        assert_eq!(parts("HTTPServerError"), ["HTTP", "Server", "Error"]);
        assert_eq!(parts("snake"), ["snake"]);
    }

    #[test]
    fn what_means_the_same_is_known_by_its_stem() {
        let [removing, deletes] = [Words.tokenize("removing").remove(0), Words.tokenize("deletes").remove(0)];
        assert!(alike(&removing).contains(&deletes) && !alike(&removing).contains(&removing));
        assert!(alike("zebra").is_empty());
    }

    #[test]
    fn compounds_are_found_in_one_word_and_in_two() {
        for text in ["PagerDuty", "on-call"] {
            let words = Words.tokenize(text);
            let joined = Words.tokenize(&text.replace('-', "").to_lowercase());
            assert!(joined.iter().all(|word| words.contains(word)), "{text}: {words:?}");
        }
    }

    #[test]
    fn words_that_say_nothing_are_left_out() {
        assert_eq!(Words.tokenize("what is in the a of our t's"), Vec::<String>::new());
        assert_eq!(Words.tokenize("日本語 Größe"), ["日本語", "größe"]);
    }
}
