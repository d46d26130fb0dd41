//! `[audit]`: where the line of every call goes.

use std::path::PathBuf;

/// `[audit]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// `file`
    pub file: AuditFile,
    /// `arguments`
    pub arguments: AuditArguments,
    /// `show`: paths of values that are told under `"masked"`.
    pub show: Vec<String>,
    /// `strict`: whether a call waits for its line.
    pub strict: bool,
}

/// `audit.arguments`: what is told of the arguments of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditArguments {
    /// Nothing.
    #[default]
    None,
    /// Keys and types, and the values at the paths of `show`.
    Masked,
    /// All, as it came.
    Full,
}

/// `audit.file`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuditFile {
    /// `"off"`: nothing is written.
    #[default]
    Off,
    /// `"-"`: standard output.
    Stdout,
    /// A file, appended to.
    Path(PathBuf),
}
