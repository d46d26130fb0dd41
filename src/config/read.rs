//! A reader over the spanned TOML tree: collects problems and notes which keys were asked for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expand::{Outside, expand};
use super::problem::{Place, Problem};
use super::units::Wrong;

/// One reading of a configuration: its problems so far and the keys it knows.
pub(super) struct Reading<'a> {
    /// What placeholders stand for.
    pub(super) outside: Outside<'a>,
    problems: RefCell<Vec<Problem>>,
    declared: RefCell<BTreeSet<String>>,
    incomplete: Cell<bool>,
}

impl<'a> Reading<'a> {
    /// Begins a reading.
    pub(super) fn new(outside: Outside<'a>) -> Self {
        Self {
            outside,
            problems: RefCell::default(),
            declared: RefCell::default(),
            incomplete: Cell::new(false),
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

/// One value of the tree.
pub(super) struct Node<'a> {
    reading: &'a Reading<'a>,
    file: &'a File,
    value: &'a DeValue<'a>,
    line: usize,
    key: String,
    schema: String,
}

impl<'a> Node<'a> {
    /// Where this value is.
    pub(super) fn place(&self) -> Place {
        Place { file: self.file.path.clone(), line: self.line, key: self.key.clone() }
    }

    /// The folder of the file this value stands in.
    pub(super) fn dir(&self) -> &Path {
        &self.file.dir
    }

    /// Reports a problem with this value; always `None`, to be returned.
    pub(super) fn fail<T>(&self, message: impl Into<String>, help: &str) -> Option<T> {
        self.reading.report(&self.place(), message, help);
        None
    }

    /// Reports that the value is of another type.
    pub(super) fn mistyped<T>(&self, wanted: &str, help: &str) -> Option<T> {
        let is = self.value.type_str();
        let article = if is.starts_with(['i', 'a']) { "an" } else { "a" };
        self.fail(format!("must be {wanted}, not {article} {is}"), help)
    }

    /// A string, expanded.
    pub(super) fn text(&self) -> Option<Text> {
        let DeValue::String(raw) = self.value else {
            return self.mistyped("a string", "");
        };
        match expand(raw, &self.file.dir, self.reading.outside) {
            Ok((value, expanded)) => Some(Text { value, literal: !expanded }),
            Err(errors) => {
                for error in errors {
                    self.reading.report(&self.place(), error.to_string(), error.help());
                }
                None
            }
        }
    }

    /// A string of a certain form, which messages may show.
    pub(super) fn parsed<T>(&self, parse: impl FnOnce(&str) -> Result<T, Wrong>) -> Option<T> {
        let text = self.text()?;
        match parse(&text.value) {
            Ok(value) => Some(value),
            Err(wrong) => self.fail(format!("{} {}", text.shown(), wrong.what), wrong.help),
        }
    }

    /// A string of a certain form, which no message may show.
    pub(super) fn parsed_secret<T>(&self, parse: impl FnOnce(&str) -> Result<T, Wrong>) -> Option<T> {
        match parse(&self.text()?.value) {
            Ok(value) => Some(value),
            Err(wrong) => self.fail(format!("the value {}", wrong.what), wrong.help),
        }
    }

    /// Whether it is a string, before anything is read.
    pub(super) fn is_string(&self) -> bool {
        self.value.is_str()
    }

    /// A whole number from 0.
    pub(super) fn whole(&self) -> Option<u64> {
        self.whole_or("a whole number", "")
    }

    /// A whole number from 0 where something else could stand too; `wanted` completes "must be".
    pub(super) fn whole_or(&self, wanted: &str, help: &str) -> Option<u64> {
        let Some(number) = self.value.as_integer() else {
            return self.mistyped(wanted, help);
        };
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Some(number),
            Err(_) => self.fail("must be a whole number from 0", ""),
        }
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.mistyped("true or false", ""))
    }

    /// The elements of an array; `wanted` completes "must be".
    pub(super) fn elements(&self, wanted: &str, help: &str) -> Option<Vec<Node<'a>>> {
        let Some(array) = self.value.as_array() else {
            return self.mistyped(wanted, help);
        };
        Some(array.iter().enumerate().map(|(index, value)| self.element(index, value)).collect())
    }

    fn element(&self, index: usize, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        Node {
            reading: self.reading,
            file: self.file,
            value: value.get_ref(),
            line: self.file.line(value.span().start),
            key: format!("{}[{index}]", self.key),
            schema: self.schema.clone(),
        }
    }

    /// Renames this value in messages: `server "github"` says more than `server[2]`.
    pub(super) fn rename(&mut self, key: String) {
        self.key = key;
    }

    /// The string that stands at `key` of this table, unless it needs expansion: good for a name in messages.
    pub(super) fn peek(&self, key: &str) -> Option<&'a str> {
        self.value.as_table()?.get(key)?.get_ref().as_str().filter(|text| !text.contains('$'))
    }

    /// The values of a table whose keys are the operator's own.
    pub(super) fn entries(&self) -> Option<Vec<(&'a str, Node<'a>)>> {
        let Some(table) = self.value.as_table() else {
            return self.mistyped("a table", "");
        };
        Some(table.iter().map(|(key, value)| (key.get_ref().as_ref(), self.entry(key, value))).collect())
    }

    fn entry(&self, key: &Spanned<std::borrow::Cow<'a, str>>, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        Node {
            reading: self.reading,
            file: self.file,
            value: value.get_ref(),
            line: self.file.line(key.span().start),
            key: join(&self.key, key.get_ref()),
            schema: join(&self.schema, "*"),
        }
    }

    /// Reads this value as a table whose keys are ours; keys that `read` did not ask for are reported.
    pub(super) fn open<T>(&self, read: impl FnOnce(&Table<'a>) -> T) -> Option<T> {
        let Some(entries) = self.value.as_table() else {
            return self.mistyped("a table", "");
        };
        let at = Place { file: self.file.path.clone(), line: self.line, key: self.key.clone() };
        Some(Table::read(self.reading, self.file, Some(entries), at, self.schema.clone(), read))
    }
}

/// A table whose keys are ours. Asking for a key declares it.
pub(super) struct Table<'a> {
    reading: &'a Reading<'a>,
    file: &'a File,
    entries: Option<&'a DeTable<'a>>,
    at: Place,
    schema: String,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    /// Reads the whole of a file.
    pub(super) fn root<T>(
        reading: &'a Reading<'a>,
        file: &'a File,
        entries: &'a DeTable<'a>,
        read: impl FnOnce(&Table<'a>) -> T,
    ) -> T {
        let at = Place { file: file.path.clone(), line: 0, key: String::new() };
        Self::read(reading, file, Some(entries), at, String::new(), read)
    }

    /// Reads a table that nobody wrote: its defaults.
    pub(super) fn absent<T>(
        reading: &'a Reading<'a>,
        file: &'a File,
        key: &str,
        read: impl FnOnce(&Table<'a>) -> T,
    ) -> T {
        let at = Place { file: file.path.clone(), line: 0, key: key.to_owned() };
        Self::read(reading, file, None, at, key.to_owned(), read)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of a table; called from three places in this file"
    )]
    fn read<T>(
        reading: &'a Reading<'a>,
        file: &'a File,
        entries: Option<&'a DeTable<'a>>,
        at: Place,
        schema: String,
        read: impl FnOnce(&Table<'a>) -> T,
    ) -> T {
        let table = Table { reading, file, entries, at, schema, known: RefCell::default() };
        let value = read(&table);
        table.finish();
        value
    }

    /// Where the table begins.
    pub(super) fn at(&self) -> &Place {
        &self.at
    }

    /// Where a key stands, or would.
    pub(super) fn place(&self, key: &str) -> Place {
        let found = self.entries.and_then(|entries| entries.get_key_value(key));
        let line = found.map_or(self.at.line, |(key, _)| self.file.line(key.span().start));
        Place { file: self.at.file.clone(), line, key: join(&self.at.key, key) }
    }

    /// Whether the operator wrote this key, whatever its value. Does not declare it.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.is_some_and(|entries| entries.contains_key(key))
    }

    /// Reports a problem at a key.
    pub(super) fn report(&self, key: &str, message: impl Into<String>, help: &str) {
        self.reading.report(&self.place(key), message, help);
    }

    /// Reports a problem of the table as a whole.
    pub(super) fn report_here(&self, message: impl Into<String>, help: &str) {
        self.reading.report(&self.at, message, help);
    }

    /// The value at a key, not yet read. Declares the key.
    pub(super) fn node(&self, key: &'static str) -> Option<Node<'a>> {
        self.known.borrow_mut().push(key);
        let (name, value) = self.entries?.get_key_value(key)?;
        Some(Node {
            reading: self.reading,
            file: self.file,
            value: value.get_ref(),
            line: self.file.line(name.span().start),
            key: join(&self.at.key, key),
            schema: join(&self.schema, key),
        })
    }

    /// The value at a key that has no default.
    pub(super) fn get<T>(&self, key: &'static str, read: impl FnOnce(&Node<'a>) -> Option<T>) -> Option<T> {
        self.node(key).and_then(|node| read(&node))
    }

    /// The value at a key with a default.
    pub(super) fn or<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Node<'a>) -> Option<T>,
        default: impl Into<T>,
    ) -> T {
        self.get(key, read).unwrap_or_else(|| default.into())
    }

    /// The value at a key that must be there.
    pub(super) fn need<T>(&self, key: &'static str, read: impl FnOnce(&Node<'a>) -> Option<T>) -> Option<T> {
        let Some(node) = self.node(key) else {
            self.reading.report(&self.place(key), "is missing", "");
            return None;
        };
        read(&node)
    }

    /// A table in this one; absent, it is read as an empty one.
    pub(super) fn inner<T>(&self, key: &'static str, read: impl Fn(&Table<'a>) -> T) -> T {
        self.get(key, |node| node.open(&read)).unwrap_or_else(|| {
            let at = self.place(key);
            Self::read(self.reading, self.file, None, at, join(&self.schema, key), &read)
        })
    }

    /// Reports keys nobody asked for and notes those that were.
    fn finish(self) {
        let known = self.known.take();
        self.reading.declared.borrow_mut().extend(known.iter().map(|key| join(&self.schema, key)));
        for (key, _) in self.entries.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                self.reading.report(&self.place(name), "unknown key", &suggestion(name, &known));
            }
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
