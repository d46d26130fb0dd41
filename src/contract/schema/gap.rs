//! What one schema accepts and another does not, and what that means for a tool.

use super::super::{Class, Finding, Side};

/// One reason why an instance of the first schema may be none of the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// Where, as a pointer into the definition; references are followed.
    pub(super) path: String,
    pub(super) kind: Kind,
    /// What the first schema says.
    pub(super) first: String,
    /// What the second says.
    pub(super) second: String,
}

/// Which keyword is the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Other types; whether none is shared.
    Types(bool),
    /// Values the second does not list.
    Values,
    /// The second lists values at all.
    Listing,
    /// A property the second asks for.
    Required(String),
    /// A property of the first that the second, closed, does not have.
    Undeclared(String),
    /// Names that nobody declares, refused by the second.
    Additional,
    /// A property that is gone, from old to new, whatever the direction.
    Lost(String),
    /// A property that looks like another one of before: old name, new name.
    Renamed(String, String),
    /// A property that is new; no reason at all, but worth saying.
    Gained(String),
    /// A bound: of which keyword.
    Bound(&'static str),
    /// A pattern where there was none; or another one.
    Pattern(bool),
    /// A format where there was none; or another one.
    Format(&'static str, bool),
    /// A variant that the second does not have.
    Variant,
    /// Something the second excludes.
    Exclusion,
    /// Nobody can say, and because of what.
    Unknown(&'static str),
}

impl Kind {
    /// Whether it is a reason.
    pub(super) const fn counts(&self) -> bool {
        !matches!(self, Self::Gained(_))
    }

    /// (rule, class) when the new schema accepts less than the old one; as an obligation broken.
    const fn narrower(&self) -> (&'static str, Class) {
        match self {
            Self::Types(true) => ("type-changed", Class::Breaking),
            Self::Types(false) => ("type-narrowed", Class::Breaking),
            Self::Values => ("enum-value-removed", Class::Breaking),
            Self::Listing => ("enum-introduced", Class::Breaking),
            Self::Required(_) => ("became-required", Class::Breaking),
            Self::Undeclared(_) | Self::Lost(_) => ("property-removed", Class::Breaking),
            Self::Additional => ("object-closed", Class::Breaking),
            Self::Renamed(..) => ("property-renamed", Class::Breaking),
            Self::Gained(_) => ("property-added", Class::Compatible),
            Self::Bound(_) => ("bound-tightened", Class::Breaking),
            Self::Pattern(false) => ("pattern-added", Class::Breaking),
            Self::Pattern(true) => ("pattern-changed", Class::Undecidable),
            Self::Format(_, false) => ("format-added", Class::Breaking),
            Self::Format(_, true) => ("format-changed", Class::Breaking),
            Self::Variant => ("variant-removed", Class::Breaking),
            Self::Exclusion => ("exclusion-added", Class::Breaking),
            Self::Unknown(_) => ("undecidable", Class::Undecidable),
        }
    }

    /// The same when the new schema allows more than the old one.
    const fn wider(&self) -> (&'static str, Class) {
        match self {
            Self::Types(false) => ("type-widened", Class::Breaking),
            Self::Values => ("enum-value-added", Class::Conditional),
            Self::Listing => ("enum-dropped", Class::Breaking),
            Self::Required(_) => ("no-longer-required", Class::Breaking),
            Self::Undeclared(_) => ("property-added-closed", Class::Breaking),
            Self::Additional => ("object-opened", Class::Breaking),
            Self::Bound(_) => ("bound-loosened", Class::Breaking),
            Self::Pattern(false) => ("pattern-removed", Class::Breaking),
            Self::Format(_, false) => ("format-removed", Class::Breaking),
            Self::Variant => ("variant-added", Class::Conditional),
            Self::Exclusion => ("exclusion-removed", Class::Breaking),
            Self::Types(true)
            | Self::Lost(_)
            | Self::Renamed(..)
            | Self::Gained(_)
            | Self::Pattern(true)
            | Self::Format(_, true)
            | Self::Unknown(_) => self.narrower(),
        }
    }
}

impl Gap {
    /// The finding. `owed`: whether this direction must hold for the side.
    pub(super) fn finding(&self, side: Side, owed: bool) -> Finding {
        let narrower = (side == Side::Input) == owed;
        let (rule, class) = if narrower { self.kind.narrower() } else { self.kind.wider() };
        let (rule, class) = match (owed, &self.kind) {
            (true, _) => (rule, class),
            (false, Kind::Unknown(_)) => ("relaxed", Class::Compatible),
            (false, _) => (rule, Class::Compatible),
        };
        // The first schema is the old one where less is accepted than before.
        let (old, new) = if narrower { (&self.first, &self.second) } else { (&self.second, &self.first) };
        let message = match (owed, &self.kind) {
            (false, Kind::Unknown(_)) => "changed, and what was kept before is kept now".to_owned(),
            _ => self.sentence(side, narrower, old, new),
        };
        Finding { path: self.path.clone(), rule, class, message }
    }

    fn sentence(&self, side: Side, narrower: bool, old: &str, new: &str) -> String {
        let moved = if narrower { "less is accepted than before" } else { "more is possible than before" };
        match &self.kind {
            Kind::Types(_) => format!("the type was {old} and is {new}: {moved}"),
            Kind::Values if narrower => format!("no longer among the values: {old}"),
            Kind::Values => format!("new among the values: {new}"),
            Kind::Listing if narrower => format!("only listed values are accepted now: {new}"),
            Kind::Listing => "the values are no longer listed: there can be any".to_owned(),
            Kind::Required(name) if narrower => format!("{name:?} is required now"),
            Kind::Required(name) => format!("{name:?} is no longer required"),
            Kind::Undeclared(name) if narrower => format!("{name:?} is no longer accepted"),
            Kind::Undeclared(name) => {
                format!("{name:?} is new, and nothing but what was declared was allowed")
            }
            Kind::Additional if narrower => {
                "other properties than the declared ones are refused now".to_owned()
            }
            Kind::Additional => "other properties than the declared ones are possible now".to_owned(),
            Kind::Lost(name) => format!("{name:?} is gone"),
            Kind::Renamed(from, to) => format!("{from:?} is gone, and {to:?} looks just like it"),
            Kind::Gained(name) => match side {
                Side::Input => format!("{name:?} is new and optional"),
                Side::Output => format!("{name:?} is new"),
            },
            Kind::Bound(key) => format!("`{key}` was {old} and is {new}: {moved}"),
            Kind::Pattern(false) if narrower => format!("the pattern {new} is asked for now"),
            Kind::Pattern(false) => format!("the pattern {old} is no longer kept"),
            Kind::Pattern(true) => {
                format!("the pattern was {old} and is {new}: nobody can say which accepts more")
            }
            Kind::Format(key, _) => format!("`{key}` was {old} and is {new}"),
            Kind::Variant if narrower => format!("a variant is no longer accepted: {old}"),
            Kind::Variant => format!("a variant is new: {new}"),
            Kind::Exclusion if narrower => "something is excluded now (`not`)".to_owned(),
            Kind::Exclusion => "something is no longer excluded (`not`)".to_owned(),
            Kind::Unknown(why) => format!("changed, and no rule can say what that means: {why}"),
        }
    }
}
