//! Is every instance of one schema an instance of another? Reasons why not, by recursion over both.
//!
//! Sound, not complete: where it finds nothing, there is nothing; a reason it gives may be no instance's.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::document::{Conjunction, Schema, refers};
use super::gap::{Gap, Kind};
use super::merge::merged;
use super::types::{Types, listed, types, values};

/// Pairs of schemas one comparison may look at.
pub(super) const MOST_STEPS: usize = 20_000;
/// Bytes of a pair that count as another step: what a comparison may cost is bounded, whatever a server writes.
const STEP: usize = 512;
/// How deep schemas may be nested.
const DEEPEST: usize = 48;
/// Longer values are cut in sentences.
const LONGEST: usize = 60;

/// How names are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// By what validators do alone.
    Strict,
    /// The first schema is the old one, of input: nobody sends names he does not know of.
    Input,
    /// The first schema is the new one, of output: whoever reads a property wants it.
    Output,
}

/// A comparison under way.
pub(super) struct Walker<'w> {
    pub(super) mode: Mode,
    /// Whether equal references lead to equal schemas.
    pub(super) equal_references: bool,
    pub(super) steps: &'w Cell<usize>,
    /// Pairs under comparison, with the depth of the instance there.
    pub(super) way: Vec<(u64, usize)>,
    done: HashSet<u64>,
    /// Depth of the instance.
    depth: usize,
    /// Names of the instance that other parts of the first schema declare than the one that is looked at.
    beyond: BTreeSet<String>,
    pub(super) path: String,
    pub(super) gaps: Vec<Gap>,
}

/// What a flat schema is compared under.
pub(super) struct Scene<'s> {
    /// Types both can have.
    pub(super) shared: Types,
    /// Names the whole first schema declares somewhere.
    pub(super) known: &'s BTreeSet<String>,
}

impl<'w> Walker<'w> {
    pub(super) fn new(mode: Mode, equal_references: bool, steps: &'w Cell<usize>, path: &str) -> Self {
        Self {
            mode,
            equal_references,
            steps,
            way: Vec::new(),
            done: HashSet::new(),
            depth: 0,
            beyond: BTreeSet::new(),
            path: path.to_owned(),
            gaps: Vec::new(),
        }
    }

    pub(super) fn gap(&mut self, kind: Kind, first: impl Into<String>, second: impl Into<String>) {
        let gap = Gap { path: self.path.clone(), kind, first: first.into(), second: second.into() };
        if !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    pub(super) fn unknown(&mut self, why: &'static str) {
        self.gap(Kind::Unknown(why), "", "");
    }

    /// What comes out of comparing something aside.
    pub(super) fn aside(&self, mode: Mode, work: impl FnOnce(&mut Walker<'w>)) -> Vec<Gap> {
        let mut aside = Walker {
            mode,
            equal_references: self.equal_references,
            steps: self.steps,
            way: self.way.clone(),
            done: HashSet::new(),
            depth: self.depth,
            beyond: self.beyond.clone(),
            path: self.path.clone(),
            gaps: Vec::new(),
        };
        work(&mut aside);
        aside.gaps
    }

    /// Whether something compared aside has no gap.
    pub(super) fn holds(&self, work: impl FnOnce(&mut Walker<'w>)) -> bool {
        !self.aside(self.mode, work).iter().any(|gap| gap.kind.counts())
    }

    /// Takes over what was found aside.
    pub(super) fn take(&mut self, gaps: Vec<Gap>) {
        for gap in gaps {
            if !self.gaps.contains(&gap) {
                self.gaps.push(gap);
            }
        }
    }

    /// Compares what instances hold under a keyword.
    pub(super) fn down(&mut self, segments: &[&str], first: &Schema<'_>, second: &Schema<'_>) {
        self.depth += 1;
        let beyond = std::mem::take(&mut self.beyond);
        self.beside(segments, |walker| walker.compare(first, second, true));
        self.beyond = beyond;
        self.depth -= 1;
    }

    /// Works under a keyword that looks at the same instance.
    pub(super) fn beside(&mut self, segments: &[&str], work: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        for segment in segments {
            self.path.push('/');
            self.path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        }
        work(self);
        self.path.truncate(length);
    }

    /// Whether two values mean the same, without looking closely.
    pub(super) fn same(&self, first: &Value, second: &Value) -> bool {
        first == second && (self.equal_references || !refers(first))
    }

    /// What a pair is known by, and the bytes it has.
    fn key(&self, first: &Value, second: &Value, whole: bool) -> (u64, usize) {
        let (first, second) = (first.to_string(), second.to_string());
        let mut hasher = DefaultHasher::new();
        (&first, &second, whole, &self.beyond).hash(&mut hasher);
        (hasher.finish(), first.len() + second.len())
    }

    /// Adds every reason why an instance of `first` may be none of `second`. `whole`: these are whole schemas,
    /// so that properties can be missed.
    pub(super) fn compare(&mut self, first: &Schema<'_>, second: &Schema<'_>, whole: bool) {
        if self.same(&first.value, &second.value) {
            return;
        }
        let left = self.steps.get();
        if left == 0 || self.way.len() > DEEPEST {
            self.unknown("it is too large or too deep");
            return;
        }
        let (key, size) = self.key(&first.value, &second.value, whole);
        self.steps.set(left.saturating_sub(1 + size / STEP));
        if self.done.contains(&key) {
            return;
        }
        if let Some((_, depth)) = self.way.iter().find(|(passed, _)| *passed == key) {
            // By induction over the instance; where that did not get smaller, nothing is said.
            if *depth == self.depth {
                self.unknown("a reference leads back to itself");
            }
            return;
        }
        self.way.push((key, self.depth));
        self.compared(first, second, whole);
        self.way.pop();
        self.done.insert(key);
    }

    fn compared(&mut self, first: &Schema<'_>, second: &Schema<'_>, whole: bool) {
        let (parts, wanted) = (first.conjunction(), second.conjunction());
        if parts.circular || wanted.circular {
            self.unknown("a reference leads back to itself");
            return;
        }
        if wanted.opaque.iter().any(|reference| !parts.opaque.contains(reference)) {
            self.unknown("a reference leads out of the schema");
        }
        let (from, to) = (types(first), types(second));
        if from.is_empty() {
            return;
        }
        if !from.is_within(to) {
            self.gap(Kind::Types(!from.meets(to)), from.said(), to.said());
        }
        let shared = from.and(to);
        if shared.is_empty() {
            return;
        }
        let mut known = super::names::declared(first);
        known.extend(self.beyond.iter().cloned());
        if whole && self.mode != Mode::Strict && shared.meets(Types::OBJECT) {
            self.missed(first, second, &known);
        }
        let scene = Scene { shared, known: &known };
        for part in &wanted.flats {
            self.part(&parts, part, &scene);
        }
    }

    /// One part of the second schema against all of the first.
    pub(super) fn part(&mut self, parts: &Conjunction<'_>, part: &Schema<'_>, scene: &Scene<'_>) {
        if !part.value.is_object() {
            return;
        }
        // What is looked at from here on can be less than the whole schema, whose names are known all the same.
        let more = if parts.flats.len() > 1 { scene.known.clone() } else { self.beyond.clone() };
        let before = std::mem::replace(&mut self.beyond, more);
        self.parted(parts, part, scene);
        self.beyond = before;
    }

    fn parted(&mut self, parts: &Conjunction<'_>, part: &Schema<'_>, scene: &Scene<'_>) {
        let single = parts.flats.len() > 1
            && parts.flats.iter().any(|one| self.holds(|walker| walker.flat(one, part, scene)));
        if single {
            return;
        }
        let merged = merged(&parts.flats, part);
        let gaps = self.aside(self.mode, |walker| walker.flat(&merged, part, scene));
        if gaps.iter().any(|gap| gap.kind.counts()) && self.distributed(parts, part, scene) {
            return;
        }
        self.take(gaps);
    }

    /// Whether each variant of the first schema by itself, with all the rest of it, is within that part.
    fn distributed(&self, parts: &Conjunction<'_>, part: &Schema<'_>, scene: &Scene<'_>) -> bool {
        let variants = |at: usize, key: &str| {
            let flat = parts.flats.get(at)?;
            let all = flat.get(key)?.as_array().filter(|all| !all.is_empty())?;
            let mut rest = flat.value.as_object()?.clone();
            rest.remove(key);
            let each = all.iter().map(|variant| {
                let mut chosen = parts.clone();
                let variant = flat.part(variant).conjunction();
                chosen.circular |= variant.circular;
                chosen.flats[at] = flat.with(Cow::Owned(Value::Object(rest.clone())));
                chosen.flats.extend(variant.flats);
                chosen
            });
            Some(each.collect::<Vec<_>>())
        };
        let places = (0..parts.flats.len()).flat_map(|at| [(at, "anyOf"), (at, "oneOf")]);
        places.filter_map(|(at, key)| variants(at, key)).any(|each| {
            each.iter().all(|chosen| {
                let known = super::names::declared_by(&chosen.flats);
                let scene = Scene { shared: scene.shared, known: &known };
                !chosen.circular
                    && self.steps.get() > 0
                    && self.holds(|walker| {
                        walker.steps.set(walker.steps.get().saturating_sub(1));
                        walker.part(chosen, part, &scene);
                    })
            })
        })
    }

    /// One flat schema against another, keyword by keyword.
    pub(super) fn flat(&mut self, first: &Schema<'_>, second: &Schema<'_>, scene: &Scene<'_>) {
        if self.same(&first.value, &second.value) {
            return;
        }
        let shared = scene.shared.and(types(first));
        if shared.is_empty() {
            return;
        }
        let scene = Scene { shared, known: scene.known };
        let few = values(first);
        self.listing(second, few.as_deref());
        if shared.meets(Types::NUMBER) {
            self.numbers(first, second, &scene, few.as_deref());
        }
        if shared.meets(Types::STRING) {
            self.strings(first, second, few.as_deref());
        }
        self.formats(first, second);
        if shared.meets(Types::ARRAY) {
            self.arrays(first, second);
        }
        if shared.meets(Types::OBJECT) {
            self.objects(first, second, &scene);
        }
        self.variants(first, second);
        self.exclusion(first, second);
        self.conditions(first, second);
    }

    fn listing(&mut self, second: &Schema<'_>, few: Option<&[Value]>) {
        for key in ["const", "enum"] {
            let Some(value) = second.get(key) else { continue };
            let only = Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
            let Some(wanted) = listed(&only) else { continue };
            let Some(few) = few else {
                self.gap(Kind::Listing, "", said_all(&wanted));
                continue;
            };
            let missing: Vec<Value> = few
                .iter()
                .filter(|value| !wanted.iter().any(|known| super::types::equal(known, value)))
                .cloned()
                .collect();
            if !missing.is_empty() {
                // Both texts are what is missing: it is what there is to say in either direction.
                self.gap(Kind::Values, said_all(&missing), said_all(&wanted));
            }
        }
    }

    /// Keywords that are only compared as they stand.
    fn conditions(&mut self, first: &Schema<'_>, second: &Schema<'_>) {
        const CONDITION: [&str; 3] = ["if", "then", "else"];
        let equal = |key: &str| match (first.get(key), second.get(key)) {
            (None, None) => true,
            (Some(first), Some(second)) => self.same(first, second),
            _ => false,
        };
        let condition = second.get("if").is_none() || CONDITION.into_iter().all(equal);
        let others = [
            ("$dynamicRef", "it has a `$dynamicRef`"),
            ("$recursiveRef", "it has a `$recursiveRef`"),
            ("unevaluatedProperties", "it has `unevaluatedProperties` beside compositions"),
            ("unevaluatedItems", "it has `unevaluatedItems` beside compositions"),
            ("contentSchema", "it has a `contentSchema`"),
        ];
        let differ: Vec<&'static str> =
            others.into_iter().filter(|(key, _)| second.get(key).is_some()).map(|(_, why)| why).collect();
        let content = equal("contentSchema");
        if !condition {
            self.unknown("it has `if`, `then`, `else`");
        }
        for why in differ.into_iter().filter(|why| !(why.contains("contentSchema") && content)) {
            self.unknown(why);
        }
    }
}

/// A value in a sentence.
pub(super) fn said(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn said_all(values: &[Value]) -> String {
    const MOST: usize = 8;
    let mut all: Vec<String> = values.iter().take(MOST).map(said).collect();
    if values.len() > MOST {
        all.push(format!("and {} more", values.len() - MOST));
    }
    all.join(", ")
}
