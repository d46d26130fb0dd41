//! Case-sensitive globs as the operator wrote them, compiled once.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A set of glob patterns; two sets are equal when their patterns are.
#[derive(Debug, Clone)]
pub struct Globs {
    patterns: Vec<String>,
    /// One of them is `*`: the most frequent set by far, and it needs no look at the text.
    all: bool,
    set: GlobSet,
}

impl Globs {
    /// Compiles patterns; the error names the pattern that is wrong.
    pub fn new(patterns: Vec<String>) -> Result<Self, globset::Error> {
        let mut builder = GlobSetBuilder::new();
        for pattern in &patterns {
            builder.add(GlobBuilder::new(pattern).literal_separator(false).build()?);
        }
        let all = patterns.iter().any(|pattern| pattern == "*");
        Ok(Self { set: builder.build()?, all, patterns })
    }

    /// Matches nothing.
    pub fn none() -> Self {
        Self { patterns: Vec::new(), all: false, set: GlobSet::empty() }
    }

    /// Matches everything, as `["*"]`.
    pub fn any() -> Self {
        // `*` is a glob of one token; were it ever refused, matching nothing is the safe side.
        Self::new(vec!["*".to_owned()]).unwrap_or_else(|_| Self::none())
    }

    /// Whether any pattern matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.all || self.set.is_match(text)
    }

    /// The patterns as written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

impl PartialEq for Globs {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

/// `allow` and `deny` globs over native names (URIs for resources); deny wins.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// `allow` (default `["*"]`)
    pub allow: Globs,
    /// `deny`
    pub deny: Globs,
}

impl Filter {
    /// Whether an item of this native name is shown.
    pub fn admits(&self, native: &str) -> bool {
        self.allow.is_match(native) && !self.deny.is_match(native)
    }

    /// Whether nothing is held back.
    pub(super) fn is_open(&self) -> bool {
        self.deny.patterns().is_empty() && self.allow.patterns() == ["*"]
    }
}
