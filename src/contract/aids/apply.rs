//! Arguments as callers send them → as the tool takes them now: splices, never values.

use std::borrow::Cow;

use bytes::Bytes;

use super::super::canonical;
use super::Aids;
use crate::protocol::edit::Edits;
use crate::protocol::number::Decimal;
use crate::protocol::object::{Object, ObjectError, Span, string};

/// Arguments as the tool takes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapped {
    /// The arguments; `None`: they stay as they came.
    pub arguments: Option<Bytes>,
    /// Which deprecated paths were used, by their numbers in [`Aids::paths`].
    pub used: Vec<usize>,
}

/// Why arguments cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// One argument under two names, with different values. Stable: callers and tests know it by these words.
    #[error(
        "the arguments {old:?} and {new:?} are two names of the same thing and hold different values. Give {new:?} only."
    )]
    Conflict {
        /// The former name.
        old: Box<str>,
        /// The other one.
        new: Box<str>,
    },
    /// A key that decides occurs twice, or is no Unicode text.
    #[error("the arguments hold {0}")]
    Arguments(#[from] ObjectError),
}

/// One mapping at work.
struct Work<'a> {
    aids: &'a Aids,
    text: &'a str,
    object: Object,
    edits: Edits,
    /// Positions of members that go.
    gone: Vec<usize>,
    /// New names, and where the member stands that has each of them now.
    renamed: Vec<(&'a str, usize)>,
    used: Vec<usize>,
}

impl Aids {
    /// Maps the arguments of a call (JSON text of an object; `null` and absent are an empty one).
    pub fn apply(&self, arguments: Option<&str>) -> Result<Mapped, Refused> {
        let text = arguments.filter(|text| text.starts_with('{')).unwrap_or("{}");
        let object = Object::parse(text, Span::new(0, text.len()))?;
        let (edits, gone, renamed, used) = (Edits::new(), Vec::new(), Vec::new(), Vec::new());
        let mut work = Work { aids: self, text, object, edits, gone, renamed, used };
        work.aliases()?;
        work.values()?;
        let added = work.defaults()?;
        if work.used.is_empty() {
            return Ok(Mapped::default());
        }
        let Work { object, mut edits, mut gone, used, .. } = work;
        gone.sort_unstable();
        edits.remove(&object, &gone);
        if !added.is_empty() {
            edits.append(&object, added);
        }
        let whole = object.span;
        let arguments = edits.apply(&Bytes::copy_from_slice(text.as_bytes()), whole).to_bytes();
        Ok(Mapped { arguments: Some(arguments), used })
    }
}

impl<'a> Work<'a> {
    fn aliases(&mut self) -> Result<(), Refused> {
        for alias in &self.aids.aliases {
            let Some(at) = self.object.position(self.text, &alias.old)? else { continue };
            self.used.push(alias.path);
            match self.place(&alias.new)? {
                None => {
                    self.edits.replace(self.object.members[at].key, alias.key.clone());
                    self.renamed.push((&alias.new, at));
                }
                Some(other) if self.same(&alias.new, at, other) => self.gone.push(at),
                Some(other) => {
                    // The other one may be a former name, too.
                    let new = self.object.members[other].name(self.text);
                    return Err(Refused::Conflict { old: alias.old.clone(), new: new.into() });
                }
            }
        }
        Ok(())
    }

    fn values(&mut self) -> Result<(), Refused> {
        for former in &self.aids.values {
            let Some(at) = self.place(&former.name)? else { continue };
            let span = self.object.members[at].value;
            if let Some(new) = former.map.get(&*told(span.of(self.text))) {
                self.edits.replace(span, new.clone());
                self.used.push(former.path);
            }
        }
        Ok(())
    }

    /// The members to add, with commas between them. Absent is what is not there: `null` is a value.
    fn defaults(&mut self) -> Result<String, Refused> {
        let mut added = String::new();
        for preset in &self.aids.defaults {
            if self.place(&preset.name)?.is_none() {
                let comma = if added.is_empty() { "" } else { "," };
                added.extend([comma, &preset.member]);
                self.used.push(preset.path);
            }
        }
        Ok(added)
    }

    /// Where the member stands that has this name now.
    fn place(&self, name: &str) -> Result<Option<usize>, ObjectError> {
        let renamed = self.renamed.iter().find(|(new, _)| *new == name).map(|(_, at)| *at);
        Ok(self.object.position(self.text, name)?.or(renamed))
    }

    /// Whether two members mean the same, former values counted as what they are now.
    fn same(&self, name: &str, one: usize, other: usize) -> bool {
        let former = self.aids.values.iter().find(|former| *former.name == *name);
        let mapped = |at: usize| {
            let raw = self.object.members[at].value.of(self.text);
            let new = former.and_then(|former| former.map.get(&*told(raw)));
            new.and_then(|new| std::str::from_utf8(new).ok()).unwrap_or(raw)
        };
        let (one, other) = (mapped(one), mapped(other));
        if let (Some(one), Some(other)) = (Decimal::parse(one), Decimal::parse(other)) {
            return one == other;
        }
        canonical(one).is_ok_and(|one| Ok(one) == canonical(other))
    }
}

/// A value as value maps spell it.
fn told(raw: &str) -> Cow<'_, str> {
    string(raw).unwrap_or(Cow::Borrowed(raw))
}
