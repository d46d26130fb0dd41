//! `[audit]`: its keys.

use super::super::audit::{Audit, AuditFile};
use super::super::tree::{Node, Table};
use super::super::values::{choice, line, path};

/// Reads `[audit]`.
pub(in super::super) fn audit(table: &Table<'_>) -> Audit {
    // What a call is about can be a secret, so no more than its size is kept.
    table.get("arguments", choice(&[("none", ())]));
    Audit { file: table.or("file", file, AuditFile::Off) }
}

fn file(node: &Node<'_>) -> Option<AuditFile> {
    Some(match line(node)?.as_str() {
        "off" => AuditFile::Off,
        "-" => AuditFile::Stdout,
        _ => AuditFile::Path(path(node)?),
    })
}
