//! Changes of a schema, classified by what JSON Schema 2020-12 says of old and new instances.

use std::cell::Cell;

use serde_json::Value;

use super::{Class, Finding, Side};

mod aside;
mod document;
mod gap;
mod merge;
mod names;
mod normal;
mod objects;
mod scalars;
mod types;
mod variants;
mod walk;

use document::Document;
use gap::{Gap, Kind};
use normal::Draft;
use walk::{MOST_STEPS, Mode, Walker};

/// What changed between two schemas of one side, at `path` of the definition. Empty only when nothing did that means
/// anything.
pub fn classify_schema(old: &Value, new: &Value, side: Side, path: &str) -> Vec<Finding> {
    if old == new {
        return Vec::new();
    }
    let mut found = compared(old, new, side, path);
    found.extend(aside::changes(old, new, side, path));
    if found.is_empty() {
        // Neither direction has a reason against it, and nothing else differs.
        found.push(Finding {
            path: path.to_owned(),
            rule: "spelling",
            class: Class::Compatible,
            message: "written differently, and means the same".to_owned(),
        });
    }
    found
}

fn undecided(path: &str, message: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        rule: "undecidable",
        class: Class::Undecidable,
        message: message.to_owned(),
    }
}

fn compared(old: &Value, new: &Value, side: Side, path: &str) -> Vec<Finding> {
    let (old, new) = (Document::new(old), Document::new(new));
    if old.root == new.root && old.draft == new.draft {
        return Vec::new();
    }
    if old.draft != new.draft || old.draft == Draft::Unknown {
        return vec![undecided(path, "changed, and is or was written for another revision of JSON Schema")];
    }
    let equal = old.referable() == new.referable();
    let steps = Cell::new(MOST_STEPS);
    let gaps = |mode: Mode, first: &Document, second: &Document| {
        let mut walker = Walker::new(mode, equal, &steps, path);
        walker.compare(&first.schema(), &second.schema(), true);
        walker.gaps
    };
    let (mode, owed, other) = match side {
        Side::Input => (Mode::Input, (&old, &new), (&new, &old)),
        Side::Output => (Mode::Output, (&new, &old), (&old, &new)),
    };
    let owed = tidied(gaps(mode, owed.0, owed.1));
    steps.set(MOST_STEPS);
    // The other direction only tells what else is new.
    let other = gaps(Mode::Strict, other.0, other.1);
    let told = other.iter().filter(|gap| is_news(gap, &owed)).map(|gap| gap.finding(side, false));
    let mut found: Vec<Finding> = owed.iter().map(|gap| gap.finding(side, true)).collect();
    found.extend(told);
    found
}

/// One gap for what is one change.
fn tidied(gaps: Vec<Gap>) -> Vec<Gap> {
    let said =
        |path: &str, kind: &dyn Fn(&Kind) -> bool| gaps.iter().any(|gap| gap.path == path && kind(&gap.kind));
    let keep = |gap: &&Gap| match &gap.kind {
        Kind::Undeclared(name) => !said(&gap.path, &|kind| match kind {
            Kind::Lost(lost) | Kind::Renamed(lost, _) => lost == name,
            _ => false,
        }),
        Kind::Gained(name) => !said(&gap.path, &|kind| match kind {
            Kind::Undeclared(said) | Kind::Required(said) => said == name,
            _ => false,
        }),
        _ => true,
    };
    gaps.iter().filter(keep).cloned().collect()
}

/// Whether a gap of the other direction is not said already.
fn is_news(gap: &Gap, owed: &[Gap]) -> bool {
    let about = |kind: &Kind| std::mem::discriminant(kind);
    // A name that came or went is told where it is owed.
    let told = matches!(gap.kind, Kind::Undeclared(_) | Kind::Lost(_) | Kind::Gained(_));
    let same = owed.iter().any(|one| one.path == gap.path && about(&one.kind) == about(&gap.kind));
    // Under a property that came or went, all is new or gone.
    let below = |one: &Gap, name: &str| gap.path.starts_with(&format!("{}/properties/{name}", one.path));
    let under = owed.iter().any(|one| match &one.kind {
        Kind::Gained(name) | Kind::Undeclared(name) | Kind::Lost(name) => below(one, name),
        Kind::Renamed(from, to) => below(one, from) || below(one, to),
        _ => false,
    });
    !told && !same && !under
}
