//! Arguments and results held against a schema: compiled once, within bounds, nothing fetched.

use std::fmt;
use std::fmt::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::effort::{Effort, extent};

/// Longer explanations are cut.
const LONGEST: usize = 300;
/// Larger schemas are not compiled.
const LARGEST: usize = 256 * 1024;
/// Bytes that one pattern of a schema may compile to.
const LARGEST_PATTERN: usize = 1 << 20;
/// Steps that one check may take: some milliseconds.
const STEPS: u64 = 500_000;
/// Steps back that one pattern may take.
const BACKTRACKS: usize = 10_000;

/// One schema, compiled.
pub struct Checker(Result<Compiled, &'static str>);

struct Compiled {
    validator: Validator,
    effort: Effort,
    /// Steps that one check may take.
    steps: u64,
}

/// What is wrong with an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Where, as a JSON pointer; empty: the whole.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// JSON that is well formed, and holds what has no value: a number beyond all, half a character.
#[derive(Debug, Clone, Copy)]
struct Unreadable;

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checker").field(&self.unusable()).finish()
    }
}

impl Checker {
    /// For the arguments of a definition. A schema that cannot be compiled, or that needs what would have to be fetched,
    /// checks nothing: it was approved as it is.
    pub fn new(definition: &Value) -> Self {
        Self::of(definition.get("inputSchema"))
    }

    /// For a schema; without one everything is right.
    pub fn of(schema: Option<&Value>) -> Self {
        Self(schema.map_or(Err(""), compile))
    }

    /// Why nothing is checked, though there is a schema.
    pub fn unusable(&self) -> Option<&'static str> {
        self.0.as_ref().err().copied().filter(|why| !why.is_empty())
    }

    /// Why these arguments (JSON text) are none that the schema allows: where, what is wrong, and what to do.
    pub fn fault(&self, arguments: Option<&str>) -> Option<String> {
        let text = arguments.filter(|text| *text != "null").unwrap_or("{}");
        let misfit = match self.held(text) {
            Ok(misfit) => misfit?,
            // No schema can be held against it, so it does not pass.
            Err(Unreadable) => {
                return Some("the arguments hold a number too large, or text that is not Unicode".to_owned());
            }
        };
        let place = match misfit.path.as_str() {
            "" => "the arguments".to_owned(),
            path => format!("the argument {path}"),
        };
        Some(format!("{place}: {}", misfit.message))
    }

    /// What is wrong with an instance (JSON text).
    pub fn misfit(&self, text: &str) -> Option<Misfit> {
        self.held(text).unwrap_or_default()
    }

    fn held(&self, text: &str) -> Result<Option<Misfit>, Unreadable> {
        let Ok(compiled) = &self.0 else { return Ok(None) };
        let (values, depth) = extent(text);
        if compiled.effort.steps(values, depth) > compiled.steps {
            let message = "too large to be held against its schema. Send less at once.".to_owned();
            return Ok(Some(Misfit { path: String::new(), message }));
        }
        // The one place where arguments and results become values, and only for servers whose operator wants it
        // (`validate`, or a tool that is held back). What is no JSON was refused at the door.
        let value: Value = serde_json::from_str(text).map_err(|_| Unreadable)?;
        let Some(error) = compiled.validator.iter_errors(&value).next() else { return Ok(None) };
        let mut message = error.to_string();
        let cut = message.char_indices().nth(LONGEST).map(|(at, _)| at);
        if let Some(cut) = cut {
            message.truncate(cut);
            message.push('…');
        }
        let _ = write!(message, ". {}", mend(&error));
        Ok(Some(Misfit { path: error.instance_path().to_string(), message }))
    }
}

fn compile(schema: &Value) -> Result<Compiled, &'static str> {
    if schema.to_string().len() > LARGEST {
        return Err("it is too large");
    }
    let effort = Effort::of(schema).ok_or("it refers to what cannot be followed within bounds")?;
    let linear = PatternOptions::regex().size_limit(LARGEST_PATTERN).dfa_size_limit(LARGEST_PATTERN);
    if let Ok(validator) = jsonschema::options().with_pattern_options(linear).build(schema) {
        return Ok(Compiled { validator, effort, steps: STEPS });
    }
    // Patterns that look around need an engine that goes back: a little, and less of everything else.
    let back = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(LARGEST_PATTERN);
    match jsonschema::options().with_pattern_options(back).build(schema) {
        Ok(validator) => Ok(Compiled { validator, effort, steps: STEPS / BACKTRACKS as u64 * 10 }),
        Err(_) => Err("it is no schema that can be used"),
    }
}

/// What to do about it.
fn mend(error: &ValidationError<'_>) -> String {
    let named = |names: &[String]| -> String {
        let shown: Vec<String> = names.iter().take(5).map(|name| format!("{name:?}")).collect();
        shown.join(", ")
    };
    let text = match error.kind() {
        ValidationErrorKind::Required { property } => format!("Give {property}."),
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("Leave out {}.", named(unexpected))
        }
        ValidationErrorKind::Enum { options } => format!("Give one of {options}."),
        ValidationErrorKind::Constant { expected_value } => format!("Give {expected_value}."),
        ValidationErrorKind::Type { kind: TypeKind::Single(wanted) } => {
            format!("Give a value of type {wanted}.")
        }
        ValidationErrorKind::Maximum { limit } => format!("Give {limit} at most."),
        ValidationErrorKind::Minimum { limit } => format!("Give {limit} at least."),
        ValidationErrorKind::MaxLength { limit } => format!("Give {limit} characters at most."),
        ValidationErrorKind::MinLength { limit } => format!("Give {limit} characters at least."),
        ValidationErrorKind::MaxItems { limit } => format!("Give {limit} items at most."),
        ValidationErrorKind::MinItems { limit } => format!("Give {limit} items at least."),
        ValidationErrorKind::Pattern { pattern } => format!("Give a text that matches {pattern:?}."),
        ValidationErrorKind::Format { format } => format!("Give it as {format}."),
        _ => "Give it as the schema says.".to_owned(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// The two schemas of one definition, each compiled when it is first needed.
#[derive(Debug)]
pub struct Checks {
    definition: Bytes,
    input: OnceLock<Checker>,
    output: OnceLock<Option<Checker>>,
}

impl Checks {
    /// Of a definition as calls are held to it.
    pub const fn new(definition: Bytes) -> Self {
        Self { definition, input: OnceLock::new(), output: OnceLock::new() }
    }

    /// For arguments.
    pub fn input(&self) -> &Checker {
        self.input.get_or_init(|| Checker::new(&self.value()))
    }

    /// For structured results; `None`: the tool does not describe them.
    pub fn output(&self) -> Option<&Checker> {
        let made = || self.value().get("outputSchema").map(|schema| Checker::of(Some(schema)));
        self.output.get_or_init(made).as_ref()
    }

    fn value(&self) -> Value {
        // It was read when it came.
        serde_json::from_slice(&self.definition).unwrap_or_default()
    }
}
