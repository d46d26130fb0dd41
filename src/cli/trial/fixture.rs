//! One fixture: a call, and what is expected of it.
//!
//! ```json
//! {
//!   "about": "the old name still works",
//!   "arguments": { "to": "ann" },
//!   "answer": { "content": [] },
//!   "expect": {
//!     "arguments": { "recipient": "ann", "format": "pdf" },
//!     "deprecated": ["/arguments/to"],
//!     "result": { "content": [] }
//!   }
//! }
//! ```
//!
//! `tool` and `endpoint` say which tool where, if the folder's name is not enough; `answer` is what the stand-in answers;
//! `error` is `{"text": "…"}` for a result with `isError`, with a `code` for a JSON-RPC error.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A fixture as it stands in its file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fixture {
    /// For its readers.
    #[serde(default)]
    #[expect(dead_code, reason = "it stands in the file for people")]
    about: Option<String>,
    /// The exposed name, or SERVER/NAME; the folder's name without it.
    #[serde(default)]
    pub(super) tool: String,
    /// Where; the first endpoint that has the tool without it.
    #[serde(default)]
    pub(super) endpoint: Option<String>,
    /// What the caller sends.
    #[serde(default)]
    pub(super) arguments: Map<String, Value>,
    /// The stand-in's result.
    #[serde(default)]
    pub(super) answer: Option<Value>,
    expect: Expected,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// What the server gets, all of it.
    arguments: Option<Value>,
    error: Option<Fault>,
    /// Members that the result has.
    result: Option<Value>,
    /// Deprecated paths that count this call, and no others.
    deprecated: Option<Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    /// Of a JSON-RPC error; without it a result with `isError` is meant.
    code: Option<i64>,
    /// Stands in its words.
    #[serde(default)]
    text: String,
}

/// What happened.
#[derive(Debug)]
pub(super) struct Played {
    /// What the server got; `None`: nothing.
    pub(super) arguments: Option<Value>,
    /// The result, or code and words of the error.
    pub(super) answer: Result<Value, (i64, String)>,
    /// Deprecated paths that counted it.
    pub(super) deprecated: Vec<String>,
    /// It reached a stand-in that nobody told what to answer: the answer is nobody's promise.
    pub(super) unscripted: bool,
}

/// All fixtures of a folder, sorted by file.
pub(super) fn load(folder: &Path) -> Result<Vec<(String, Fixture)>, String> {
    let mut found = Vec::new();
    for (tool, path) in entries(folder)?.into_iter().filter(|(_, path)| path.is_dir()) {
        for (name, file) in entries(&path)?.into_iter().filter(|(name, _)| name.ends_with(".json")) {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| format!("{} cannot be read: {}", file.display(), error.kind()))?;
            let mut fixture: Fixture = serde_json::from_str(&text)
                .map_err(|error| format!("{} is no fixture: {error}", file.display()))?;
            if fixture.tool.is_empty() {
                fixture.tool.clone_from(&tool);
            }
            found.push((format!("{tool}/{name}"), fixture));
        }
    }
    if found.is_empty() {
        return Err(format!("{} has no fixtures: they are DIR/TOOL/*.json", folder.display()));
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<(String, std::path::PathBuf)>, String> {
    let failed = |error: std::io::Error| format!("{} cannot be read: {}", folder.display(), error.kind());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        all.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    all.sort();
    Ok(all)
}

impl Fixture {
    /// All that is not as expected.
    pub(super) fn judge(&self, played: &Played) -> Vec<String> {
        let mut problems = Vec::new();
        let expect = &self.expect;
        if let Some(wanted) = &expect.arguments {
            match &played.arguments {
                None => problems.push("nothing reached the server".to_owned()),
                Some(got) if got != wanted => {
                    problems.push(format!("the server got {got}, and not {wanted}"))
                }
                Some(_) => {}
            }
        }
        problems.extend(self.judge_answer(played));
        if let Some(wanted) = &expect.deprecated {
            let (mut wanted, mut got) = (wanted.clone(), played.deprecated.clone());
            wanted.sort();
            got.sort();
            if wanted != got {
                problems.push(format!("counted as deprecated: {got:?}, and not {wanted:?}"));
            }
        }
        problems
    }

    fn judge_answer(&self, played: &Played) -> Option<String> {
        let is_error = |result: &Value| result["isError"] == true && !played.unscripted;
        match (&self.expect.error, &played.answer) {
            (None, Err((code, message))) => Some(format!("refused with {code}: {message}")),
            (None, Ok(result)) if is_error(result) => Some(format!("not called: {}", words(result))),
            (None, Ok(result)) => {
                let wanted = self.expect.result.as_ref()?;
                (!holds(result, wanted))
                    .then(|| format!("the result is {result}, and has not all of {wanted}"))
            }
            (Some(Fault { code: Some(wanted), text }), Err((code, message))) => {
                let fits = wanted == code && message.contains(text);
                (!fits).then(|| format!("refused with {code}: {message}"))
            }
            (Some(Fault { code: None, text }), Ok(result)) if is_error(result) => {
                let said = words(result);
                (!said.contains(text)).then(|| format!("the error says {said:?}"))
            }
            (Some(_), Ok(result)) if is_error(result) => {
                Some(format!("a result with isError, and no JSON-RPC error: {}", words(result)))
            }
            (Some(_), Ok(_)) => Some("it was not refused".to_owned()),
            (Some(Fault { code: None, .. }), Err((code, message))) => {
                Some(format!("a JSON-RPC error, and no result with isError: {code}: {message}"))
            }
        }
    }
}

/// The words of a result.
fn words(result: &Value) -> String {
    let all = result["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    all.collect::<Vec<_>>().join("\n")
}

/// Whether a value has all that is wanted: members of objects may be more, everything else is the same.
fn holds(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(all), Value::Object(some)) => {
            some.iter().all(|(key, wanted)| all.get(key).is_some_and(|value| holds(value, wanted)))
        }
        (Value::Array(all), Value::Array(some)) => {
            all.len() == some.len() && all.iter().zip(some).all(|(value, wanted)| holds(value, wanted))
        }
        (value, wanted) => value == wanted,
    }
}
