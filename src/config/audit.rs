//! `[audit]`: where the line of every call goes.

use std::path::PathBuf;

/// `[audit]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// `file`
    pub file: AuditFile,
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
