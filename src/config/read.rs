//! One reading of a configuration: its problems, its files and the keys it knows.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::expand::Outside;
use super::files::Files;
use super::problem::{Place, Problem};

/// One reading of a configuration: its problems so far and the keys it knows.
pub(super) struct Reading<'a> {
    /// What placeholders stand for.
    pub(super) outside: Outside<'a>,
    problems: RefCell<Vec<Problem>>,
    declared: RefCell<BTreeSet<String>>,
    incomplete: Cell<bool>,
    /// The files it looked at.
    pub(super) files: RefCell<Files>,
}

impl<'a> Reading<'a> {
    /// Begins a reading.
    pub(super) fn new(outside: Outside<'a>) -> Self {
        Self {
            outside,
            problems: RefCell::default(),
            declared: RefCell::default(),
            incomplete: Cell::new(false),
            files: RefCell::default(),
        }
    }

    /// Reports a problem; an empty `help` is none.
    pub(super) fn report(&self, place: &Place, message: impl Into<String>, help: &str) {
        self.problems.borrow_mut().push(Problem {
            file: place.file.clone(),
            line: place.line,
            key: place.key.clone(),
            message: message.into(),
            help: (!help.is_empty()).then(|| help.to_owned()),
        });
    }

    /// Says that a file could not be read at all, so that nothing may be missed in the rest.
    pub(super) fn set_incomplete(&self) {
        self.incomplete.set(true);
    }

    /// Whether a file could not be read at all.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete.get()
    }

    /// The problems so far.
    pub(super) fn take_problems(&self) -> Vec<Problem> {
        self.problems.take()
    }

    /// Notes keys that were asked for.
    pub(super) fn declare(&self, keys: impl Iterator<Item = String>) {
        self.declared.borrow_mut().extend(keys);
    }

    /// Every key that was asked for, as `server.tools.allow`.
    #[cfg(test)]
    pub(super) fn declared(&self) -> BTreeSet<String> {
        self.declared.borrow().clone()
    }
}

/// A file: its name and where its lines begin.
pub(super) struct File {
    /// As the operator named it.
    pub(super) path: PathBuf,
    /// Relative paths in it are under this folder.
    pub(super) dir: PathBuf,
    starts: Vec<usize>,
}

impl File {
    /// Finds the lines of `text`.
    pub(super) fn new(path: PathBuf, text: &str) -> Self {
        let dir = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        Self { path, dir, starts: starts.collect() }
    }

    /// The line, from 1, that holds a byte.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }
}

/// A string value after expansion.
#[derive(Debug, Clone)]
pub(super) struct Text {
    /// The value.
    pub(super) value: String,
    /// Whether it stands in the file as it is, so that a message may show it.
    pub(super) literal: bool,
}

impl Text {
    /// The value for a message, if that may show it.
    pub(super) fn shown(&self) -> String {
        if self.literal && self.value.len() <= 200 {
            format!("{:?}", self.value)
        } else {
            "the value".to_owned()
        }
    }
}

/// Names the known key that is nearest to a misspelt one.
pub(super) fn suggestion(word: &str, known: &[&str]) -> String {
    let score = |candidate: &str| strsim::normalized_damerau_levenshtein(word, candidate);
    let best = known.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
    match best {
        Some(best) if score(best) >= 0.5 => format!("did you mean `{best}`?"),
        Some(best) => format!("the nearest known key is `{best}`"),
        None => String::new(),
    }
}

/// A key path and one more key, quoted when TOML would want it so.
pub(super) fn join(path: &str, key: &str) -> String {
    let bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-*".contains(&byte));
    match (path.is_empty(), bare) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{key:?}"),
        (false, true) => format!("{path}.{key}"),
        (false, false) => format!("{path}.{key:?}"),
    }
}
