//! Numbers and strings: bounds, steps, patterns, formats.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::document::Schema;
use super::gap::Kind;
use super::types::Types;
use super::walk::{Scene, Walker, said};

/// Integers up to here are exact as floating point numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number to compare, exact where it is whole.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Whole(i128),
    Float(f64),
}

impl Amount {
    fn of(number: &Number) -> Self {
        let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        match (whole, number.as_f64()) {
            (Some(whole), _) => Self::Whole(whole),
            (None, Some(float)) if float.fract() == 0.0 && float.abs() < EXACT => Self::Whole(float as i128),
            (None, float) => Self::Float(float.unwrap_or(f64::NAN)),
        }
    }

    const fn float(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }

    fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(&b),
            (a, b) => a.float().total_cmp(&b.float()),
        }
    }

    fn negative(self) -> Self {
        match self {
            Self::Whole(whole) => Self::Whole(-whole),
            Self::Float(float) => Self::Float(-float),
        }
    }
}

/// A lower bound; upper ones are lower ones of the negative.
#[derive(Debug, Clone, Copy)]
struct Bound {
    at: Amount,
    open: bool,
}

impl Bound {
    fn of(schema: &Schema<'_>, upper: bool, whole: bool) -> Option<(Self, &'static str, String)> {
        let keys = if upper { ["maximum", "exclusiveMaximum"] } else { ["minimum", "exclusiveMinimum"] };
        let read = |key: &'static str, open: bool| {
            let Some(Value::Number(number)) = schema.get(key) else { return None };
            let at = Amount::of(number);
            let bound = Self { at: if upper { at.negative() } else { at }, open };
            Some((if whole { bound.whole() } else { bound }, key, number.to_string()))
        };
        match (read(keys[0], false), read(keys[1], true)) {
            (Some(a), Some(b)) => Some(if a.0.implies(b.0) { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// The same for integers alone.
    fn whole(self) -> Self {
        match (self.at, self.open) {
            (Amount::Whole(at), true) => Self { at: Amount::Whole(at + 1), open: false },
            (Amount::Float(at), _) if at.abs() < EXACT => {
                Self { at: Amount::Whole(at.ceil() as i128), open: false }
            }
            _ => self,
        }
    }

    fn implies(self, other: Self) -> bool {
        match self.at.compare(other.at) {
            Ordering::Greater => true,
            Ordering::Equal => self.open || !other.open,
            Ordering::Less => false,
        }
    }

    fn admits(self, value: Amount) -> bool {
        match value.compare(self.at) {
            Ordering::Greater => true,
            Ordering::Equal => !self.open,
            Ordering::Less => false,
        }
    }
}

impl Walker<'_> {
    pub(super) fn numbers(
        &mut self,
        first: &Schema<'_>,
        second: &Schema<'_>,
        scene: &Scene<'_>,
        few: Option<&[Value]>,
    ) {
        let integers = scene.shared.and(Types::NUMBER) == Types::of(&Value::from(1));
        for upper in [false, true] {
            let Some((wanted, key, text)) = Bound::of(second, upper, integers) else { continue };
            let given = Bound::of(first, upper, integers);
            let all = few.is_some_and(|few| {
                let numbers = few.iter().filter_map(|value| match value {
                    Value::Number(number) => Some(Amount::of(number)),
                    _ => None,
                });
                numbers
                    .map(|value| if upper { value.negative() } else { value })
                    .all(|value| wanted.admits(value))
            });
            if all || given.as_ref().is_some_and(|(given, ..)| given.implies(wanted)) {
                continue;
            }
            self.gap(Kind::Bound(key), given.map_or("free".to_owned(), |(_, _, text)| text), text);
        }
        self.steps_of(first, second, integers);
    }

    fn steps_of(&mut self, first: &Schema<'_>, second: &Schema<'_>, integers: bool) {
        let Some(wanted) = second.get("multipleOf").and_then(Value::as_f64) else { return };
        let given = first.get("multipleOf").and_then(Value::as_f64);
        // Of fractions nobody knows: 0.3 is no multiple of 0.1 to a machine.
        let fits = |given: f64| {
            given == wanted || (given.fract() == 0.0 && wanted.fract() == 0.0 && given % wanted == 0.0)
        };
        let kept = given.is_some_and(fits) || (integers && wanted == 1.0);
        if !kept {
            let text = |value: Option<f64>| value.map_or("free".to_owned(), |value| value.to_string());
            self.gap(Kind::Bound("multipleOf"), text(given), text(Some(wanted)));
        }
    }

    pub(super) fn strings(&mut self, first: &Schema<'_>, second: &Schema<'_>, few: Option<&[Value]>) {
        let lengths: Option<Vec<u64>> = few.map(|few| {
            few.iter().filter_map(Value::as_str).map(|text| text.chars().count() as u64).collect()
        });
        let shortest = lengths.as_ref().and_then(|all| all.iter().min().copied());
        let longest = lengths.as_ref().and_then(|all| all.iter().max().copied());
        let low = count(first, "minLength").max(shortest);
        let high = least(count(first, "maxLength"), longest);
        self.least(second, "minLength", low);
        self.most(second, "maxLength", high);
        let Some(wanted) = second.get("pattern") else { return };
        match first.get("pattern") {
            Some(given) if given == wanted => {}
            Some(given) => self.gap(Kind::Pattern(true), said(given), said(wanted)),
            None => self.gap(Kind::Pattern(false), "", said(wanted)),
        }
    }

    pub(super) fn formats(&mut self, first: &Schema<'_>, second: &Schema<'_>) {
        for key in ["format", "contentEncoding", "contentMediaType"] {
            let Some(wanted) = second.get(key) else { continue };
            match first.get(key) {
                Some(given) if given == wanted => {}
                Some(given) => self.gap(Kind::Format(key, true), said(given), said(wanted)),
                None => self.gap(Kind::Format(key, false), "free", said(wanted)),
            }
        }
    }

    /// A lower bound on a count that the first schema guarantees or not.
    pub(super) fn least(&mut self, second: &Schema<'_>, key: &'static str, given: Option<u64>) {
        let Some(wanted) = count(second, key).filter(|wanted| *wanted > given.unwrap_or(0)) else { return };
        self.gap(Kind::Bound(key), given.unwrap_or(0).to_string(), wanted.to_string());
    }

    /// An upper bound on a count that the first schema keeps or not.
    pub(super) fn most(&mut self, second: &Schema<'_>, key: &'static str, given: Option<u64>) {
        let Some(wanted) = count(second, key) else { return };
        if given.is_none_or(|given| given > wanted) {
            self.gap(
                Kind::Bound(key),
                given.map_or("free".to_owned(), |given| given.to_string()),
                wanted.to_string(),
            );
        }
    }
}

/// A count; one that is no whole number says nothing that can be relied on.
pub(super) fn count(schema: &Schema<'_>, key: &str) -> Option<u64> {
    let value = schema.get(key)?;
    value
        .as_u64()
        .or_else(|| value.as_f64().filter(|float| *float >= 0.0 && *float < EXACT).map(|float| float as u64))
}

/// The smaller of two upper bounds.
pub(super) fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
