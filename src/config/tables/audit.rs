//! `[audit]`: its keys.

use super::super::audit::{Audit, AuditArguments, AuditFile};
use super::super::tree::{Node, Table};
use super::super::values::{boolean, choice, each, line, path};

/// What a call is about can be a secret, so no more than its size is kept unless the operator wants more.
const ARGUMENTS: &[(&str, AuditArguments)] =
    &[("none", AuditArguments::None), ("masked", AuditArguments::Masked), ("full", AuditArguments::Full)];

/// Reads `[audit]`.
pub(in super::super) fn audit(table: &Table<'_>) -> Audit {
    let audit = Audit {
        file: table.or("file", file, AuditFile::Off),
        arguments: table.or("arguments", choice(ARGUMENTS), AuditArguments::None),
        show: table.or("show", |node| each(node, "an array of strings", shown), []),
        strict: table.or("strict", boolean, false),
    };
    if !audit.show.is_empty() && audit.arguments != AuditArguments::Masked {
        table.report("show", "shows nothing unless arguments = \"masked\"", "set arguments, or remove it");
    }
    if audit.strict && audit.file == AuditFile::Off {
        table.report("strict", "has no log to wait for", "set audit.file");
    }
    audit
}

/// A path of keys, dots between them.
fn shown(node: &Node<'_>) -> Option<String> {
    let path = line(node)?;
    if path.split('.').any(str::is_empty) {
        return node.fail("is no path of keys", "as \"path\", \"query.text\" or \"items.*.id\"");
    }
    Some(path)
}

fn file(node: &Node<'_>) -> Option<AuditFile> {
    Some(match line(node)?.as_str() {
        "off" => AuditFile::Off,
        "-" => AuditFile::Stdout,
        _ => AuditFile::Path(path(node)?),
    })
}
