//! What a check found: the document that `--json` prints, and that the text is written from.

use std::path::PathBuf;

use serde::Serialize;

use crate::config::{Problem, Warning};

/// The document of `gatehouse check --json`: one JSON object. Members are added, never renamed or removed;
/// texts (`message`, `help`, `reason`) are for people and may change, `code` and the other words do not.
/// Absent and `null` mean the same: not known. Names of items are as their servers wrote them.
///
/// ```json
/// {
///   "config": {"file": "…", "problems": [{"file", "line", "key", "message", "help"}],
///              "warnings": [{"key", "message", "help"}]},
///   "failure": null,
///   "servers": [{
///     "name", "owner", "target": "https://host" | "program", "required",
///     "state": "up" | "dead" | "unasked", "reason", "took_ms",
///     "era": "modern" | "legacy", "version", "info": {"name", "title", "version"},
///     "capabilities": {…as the server said…},
///     "tools" | "prompts" | "resources" | "templates":
///       {"state": "listed" | "none" | "failed" | "unasked", "listed", "allowed", "denied", "reason"},
///     "findings": [{"severity": "error" | "warning" | "hint", "code", "message", "help"}]
///   }],
///   "endpoints": [{
///     "path", "prefix", "servers": […], "missing": […],
///     "tools" | "prompts": [{"name", "length", "server", "native",
///                            "changed": "characters" | "length" | "foreign" | "taken" | null}],
///     "resources": n, "templates": n,
///     "dropped": [{"kind", "server", "native", "reason": "duplicate" | "taken"}],
///     "findings": […]
///   }],
///   "summary": {"errors": n, "warnings": n, "hints": n, "strict", "offline"}
/// }
/// ```
///
/// `failure` is why nothing could be started (exit code 3). `listed` counts what a server listed, `allowed`
/// what may be seen of it, `denied` what `allow`, `deny` and `override` hide; the rest was left out for a fault.
/// `length` counts characters. Of `changed`, `foreign` is the prefix of another server, `taken` an override's name.
/// With `--strict`, warnings count as errors and have that severity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What the file says.
    pub config: ConfigPart,
    /// Why nothing could be started.
    pub failure: Option<String>,
    /// The enabled servers, in file order.
    pub servers: Vec<ServerPart>,
    /// The endpoints, in file order.
    pub endpoints: Vec<EndpointPart>,
    /// The counts.
    pub summary: Summary,
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfigPart {
    /// The file.
    pub file: PathBuf,
    /// Why it cannot be used.
    pub problems: Vec<Problem>,
    /// What is legal but doubtful in it.
    pub warnings: Vec<Warning>,
}

/// The counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Problems of the configuration, a `failure`, and findings of severity `error`.
    pub errors: usize,
    /// Warnings of the configuration and findings of severity `warning`.
    pub warnings: usize,
    /// Findings of severity `hint`.
    pub hints: usize,
    /// `--strict`
    pub strict: bool,
    /// `--offline`
    pub offline: bool,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The check fails.
    Error,
    /// The check fails with `--strict`.
    Warning,
    /// Worth knowing.
    Hint,
}

impl Severity {
    /// The word.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }
}

/// One thing worth saying about a server or an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is, for machines.
    pub code: &'static str,
    /// What it is, for people.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Finding {
    /// A finding without help.
    pub(super) fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self { severity, code, message: message.into(), help: None }
    }

    /// A warning without help.
    pub(super) fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// With what to do about it.
    #[must_use]
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// What became of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// It answered.
    Up,
    /// It did not.
    Dead,
    /// `--offline`
    Unasked,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerPart {
    /// `name`
    pub name: String,
    /// `owner`
    pub owner: Option<String>,
    /// Scheme, host and port, or the program.
    pub target: String,
    /// `required`
    pub required: bool,
    /// Whether it answers.
    pub state: ServerState,
    /// Why it is dead.
    pub reason: Option<String>,
    /// How long its answers took altogether.
    pub took_ms: Option<u64>,
    /// `modern` or `legacy`.
    pub era: Option<&'static str>,
    /// The revision spoken.
    pub version: Option<String>,
    /// What it says of itself.
    pub info: Option<Info>,
    /// Its capabilities as it said them.
    pub capabilities: Option<serde_json::Value>,
    /// Its tools.
    pub tools: ListPart,
    /// Its prompts.
    pub prompts: ListPart,
    /// Its resources.
    pub resources: ListPart,
    /// Its resource templates.
    pub templates: ListPart,
    /// What is worth saying.
    pub findings: Vec<Finding>,
}

/// `serverInfo`; what is no string is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Info {
    /// `name`
    pub name: Option<String>,
    /// `title`
    pub title: Option<String>,
    /// `version`
    pub version: Option<String>,
}

/// What became of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListState {
    /// It is known.
    Listed,
    /// The server does not have this kind.
    None,
    /// It was asked for in vain.
    Failed,
    /// Nobody asked for it.
    #[default]
    Unasked,
}

/// One list of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ListPart {
    /// Whether it is known.
    pub state: ListState,
    /// Items the server listed.
    pub listed: usize,
    /// Items that may be seen.
    pub allowed: usize,
    /// Items that the operator hides.
    pub denied: usize,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndpointPart {
    /// `path`
    pub path: String,
    /// `prefix`
    pub prefix: bool,
    /// Its servers, in file order.
    pub servers: Vec<String>,
    /// Those of them that are dead or did not give all of their lists.
    pub missing: Vec<String>,
    /// Its tools, in order.
    pub tools: Vec<NamePart>,
    /// Its prompts, in order.
    pub prompts: Vec<NamePart>,
    /// How many resources it shows.
    pub resources: usize,
    /// How many resource templates it shows.
    pub templates: usize,
    /// What it does not show, because something else has the name.
    pub dropped: Vec<DroppedPart>,
    /// What is worth saying.
    pub findings: Vec<Finding>,
}

/// One exposed name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamePart {
    /// What clients see and call.
    pub name: Box<str>,
    /// Its length in characters.
    pub length: usize,
    /// Whose it is.
    pub server: String,
    /// What its server calls it.
    pub native: Box<str>,
    /// Why it ends in a hash.
    pub changed: Option<&'static str>,
}

/// One item that is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DroppedPart {
    /// `tools`, `prompts`, `resources` or `templates`.
    pub kind: &'static str,
    /// Whose it is.
    pub server: String,
    /// What its server calls it.
    pub native: Box<str>,
    /// `duplicate`: its server lists it twice; `taken`: another server's item has its name.
    pub reason: &'static str,
}

impl Report {
    /// A report of a file of which nothing is known yet.
    pub(super) fn new(file: PathBuf, strict: bool, offline: bool) -> Self {
        Self {
            config: ConfigPart { file, problems: Vec::new(), warnings: Vec::new() },
            failure: None,
            servers: Vec::new(),
            endpoints: Vec::new(),
            summary: Summary { strict, offline, ..Summary::default() },
        }
    }

    /// Counts, after making errors of warnings where the operator is strict.
    pub(super) fn close(&mut self) {
        let strict = self.summary.strict;
        let servers = self.servers.iter_mut().flat_map(|server| &mut server.findings);
        let endpoints = self.endpoints.iter_mut().flat_map(|endpoint| &mut endpoint.findings);
        let (mut errors, mut warnings, mut hints) = (0, 0, 0);
        for finding in servers.chain(endpoints) {
            if strict && finding.severity == Severity::Warning {
                finding.severity = Severity::Error;
            }
            match finding.severity {
                Severity::Error => errors += 1,
                Severity::Warning => warnings += 1,
                Severity::Hint => hints += 1,
            }
        }
        errors += self.config.problems.len() + usize::from(self.failure.is_some());
        *if strict { &mut errors } else { &mut warnings } += self.config.warnings.len();
        self.summary = Summary { errors, warnings, hints, ..self.summary };
    }
}
