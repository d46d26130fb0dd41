//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a key stands: file, line and full path, as `server "github".tools.allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The file as the operator named it.
    pub(super) file: PathBuf,
    /// Line, from 1.
    pub(super) line: usize,
    /// Full path of the key.
    pub(super) key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// One mistake in the configuration. Never holds an expanded value or a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file as the operator named it.
    pub file: PathBuf,
    /// Line from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Full path of the key, as `server "github".tools.allow`; empty when no key is meant.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// Every mistake of a configuration and its included files, by file and line; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Takes what was found; `files` gives the order of the files.
    pub(super) fn new(mut found: Vec<Problem>, files: &[PathBuf]) -> Self {
        found.sort_by_cached_key(|problem| {
            (files.iter().position(|file| *file == problem.file), problem.line)
        });
        found.dedup();
        Self(found)
    }

    /// The problems in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// How many there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    /// One problem a line, without a newline at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
