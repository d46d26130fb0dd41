//! A published tool is an API: what changed of a definition, what that means, what was approved. Pure, over definitions.
//!
//! # Classes
//!
//! Every change has findings, each with a path, a rule, a class and one sentence; a change is as bad as its worst.
//!
//! | class | meaning |
//! | --- | --- |
//! | `compatible` | what worked works: on input everything valid before is valid now, on output everything possible now was possible before |
//! | `conditional` | works unless a caller relies on what was never promised: another default, a new value or variant in results |
//! | `undecidable` | no rule can say; never treated as compatible |
//! | `breaking` | a caller that was right before can be wrong now |
//! | `suspicious` | what the model reads or what a host trusts changed without need, or says what no description should |
//!
//! # Rules
//!
//! Input and output are the two directions of one relation: on input the old schema must be within the new one, on
//! output the new one within the old one. Rules in one line are the two directions of one keyword; the one that keeps
//! the relation is compatible.
//!
//! | rule, when less is accepted · when more is | input, less · more | output, less · more |
//! | --- | --- | --- |
//! | `type-narrowed` · `type-widened` (`type-changed`: no type in common) | breaking · compatible | compatible · breaking |
//! | `enum-value-removed` · `enum-value-added` (`const` too) | breaking · compatible | compatible · conditional |
//! | `enum-introduced` · `enum-dropped` | breaking · compatible | compatible · breaking |
//! | `became-required` · `no-longer-required` | breaking · compatible | compatible · breaking |
//! | `property-removed`, `property-renamed` | breaking | breaking |
//! | `property-added`, optional | compatible | compatible, unless the object was closed: `property-added-closed`, breaking |
//! | `object-closed` · `object-opened` (`additionalProperties`) | breaking · compatible | compatible · breaking |
//! | `bound-tightened` · `bound-loosened` (`minimum`, `maxLength`, `multipleOf`, `uniqueItems`, …) | breaking · compatible | compatible · breaking |
//! | `pattern-added` · `pattern-removed` | breaking · compatible | compatible · breaking |
//! | `format-added` · `format-removed` (`contentEncoding`, `contentMediaType` too) | breaking · compatible | compatible · breaking |
//! | `pattern-changed` | undecidable | undecidable |
//! | `format-changed` | breaking | breaking |
//! | `variant-removed` · `variant-added` (`anyOf`, `oneOf`) | breaking · compatible | compatible · conditional |
//! | `exclusion-added` · `exclusion-removed` (`not`) | breaking · compatible | compatible · breaking |
//! | `unit-changed` (`unit`, or a unit in the words) | breaking | breaking |
//! | `default-changed` | conditional | compatible |
//! | `header-changed`, `header-dropped` (`x-mcp-header`) | breaking, compatible | – |
//! | `deprecated`, `access-changed` (`readOnly`, `writeOnly`) | conditional | conditional |
//! | `unknown-keyword` | undecidable | undecidable |
//! | `undecidable`: `if`, `dependentSchemas`, `patternProperties`, `contains`, `unevaluated*`, overlapping `oneOf`, `$dynamicRef`, references out of the schema, another revision, too large | undecidable | undecidable |
//! | `wording`, `spelling`, `relaxed` | compatible | compatible |
//!
//! A new optional property counts as compatible in an open object too: a caller sends only names that its schema
//! declares, or that no schema does. References are followed, cycles by induction over the instance.
//!
//! Of whole definitions:
//!
//! | rule | class |
//! | --- | --- |
//! | `description-changed`, `title-changed`: other words of a tool or of its parameters while its schemas stay | suspicious |
//! | `description-rewritten`: other words beside a changed schema, less than half of the old ones kept | suspicious |
//! | `wording`: the same words; or words that go with a changed schema | compatible |
//! | `annotation-turned`, `annotation-changed` | suspicious |
//! | `output-schema-added`, `output-schema-removed` | compatible, breaking |
//! | `argument-removed`, `argument-required`, `argument-added` of prompts | breaking, breaking, compatible |
//! | `media-type-changed` of templates | breaking |
//! | `icons-changed` | conditional |
//! | `member-changed`: anything else | undecidable |
//! | `hidden-text`, `imperative`, `secret`, `cross-tool`, `link`, `encoded`, `markup` ([`lint`]) | suspicious |

use std::fmt;

use serde::Serialize;

pub mod aids;
mod canonical;
pub mod checker;
mod definition;
mod effort;
pub mod lint;
pub mod lock;
mod schema;
#[cfg(test)]
mod tests;
mod units;
pub mod verdict;

pub use canonical::{Unreadable, canonical, digest};
pub use definition::classify;
pub use schema::classify_schema;

/// What a change means, from harmless to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// What worked works.
    Compatible,
    /// Works unless somebody relies on what was never promised.
    Conditional,
    /// No rule can say.
    Undecidable,
    /// Who was right before can be wrong now.
    Breaking,
    /// Nothing that honest servers need.
    Suspicious,
}

impl Class {
    /// The word for it, in reports and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Conditional => "conditional",
            Self::Undecidable => "undecidable",
            Self::Breaking => "breaking",
            Self::Suspicious => "suspicious",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which side of a tool a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What callers send.
    Input,
    /// What they get.
    Output,
}

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where, as a JSON pointer into the definition; references are followed.
    pub path: String,
    /// Which rule of the table says so.
    pub rule: &'static str,
    /// What it means.
    pub class: Class,
    /// What changed, in one sentence.
    pub message: String,
}

/// The worst of all findings; of none: compatible.
pub fn worst(findings: &[Finding]) -> Class {
    findings.iter().map(|finding| finding.class).max().unwrap_or(Class::Compatible)
}
