//! A reader over the spanned TOML tree: reports what is wrong and notes which keys were asked for.

use std::cell::RefCell;
use std::path::Path;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expand::expand;
use super::problem::Place;
use super::read::{File, Reading, Text, join, suggestion};
use super::units::Wrong;

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

    /// Whether it is a table, before anything is read.
    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// The elements, if it is an array.
    pub(super) fn array(&self) -> Option<Vec<Node<'a>>> {
        self.value.as_array().and_then(|_| self.elements("", ""))
    }

    /// A date and time.
    pub(super) fn datetime(&self) -> Option<toml::value::Datetime> {
        match self.value {
            DeValue::Datetime(value) => Some(*value),
            _ => self.mistyped("a date and time without quotes", "as 2027-03-31T18:00:00Z"),
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

    /// Anything but a date as a JSON value, with its strings expanded.
    pub(super) fn json(&self) -> Option<Value> {
        match self.value {
            DeValue::String(_) => self.text().map(|text| Value::String(text.value)),
            DeValue::Boolean(value) => Some(Value::Bool(*value)),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Some(Value::from(number)),
                Err(_) => self.fail("is too large a number", ""),
            },
            DeValue::Float(number) => {
                let number = number.as_str().parse().ok().and_then(Number::from_f64);
                number.map(Value::Number).or_else(|| self.fail("is not a number that JSON has", ""))
            }
            DeValue::Datetime(_) => self.mistyped("text, a number, true, false, an array or a table", ""),
            DeValue::Array(_) => {
                let read: Vec<Option<Value>> =
                    self.elements("an array", "")?.iter().map(Node::json).collect();
                read.into_iter().collect::<Option<Vec<Value>>>().map(Value::Array)
            }
            DeValue::Table(_) => {
                let pairs = self.entries()?;
                let read: Vec<Option<(String, Value)>> =
                    pairs.iter().map(|(key, value)| Some(((*key).to_owned(), value.json()?))).collect();
                read.into_iter().collect::<Option<Map<String, Value>>>().map(Value::Object)
            }
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

    /// The folder of the file it stands in, or would.
    pub(super) fn dir(&self) -> &Path {
        &self.file.dir
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

    /// Reports a problem at a place seen before.
    pub(super) fn report_at(&self, place: &Place, message: impl Into<String>, help: &str) {
        self.reading.report(place, message, help);
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
        self.reading.declare(known.iter().map(|key| join(&self.schema, key)));
        for (key, _) in self.entries.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                self.reading.report(&self.place(name), "unknown key", &suggestion(name, &known));
            }
        }
    }
}
