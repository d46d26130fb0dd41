//! `[contract]`, `server.contract` and `server.validate`: their keys.

use super::super::contract::{Contract, Guarding, Validating};
use super::super::tree::{Node, Table};
use super::super::values::{choice, path};

/// The lock file's name beside the configuration.
const LOCK: &str = "gatehouse.lock";

/// Reads `[contract]`.
pub(in super::super) fn contract(table: &Table<'_>) -> Contract {
    Contract { lock: table.get("lock", path).unwrap_or_else(|| table.dir().join(LOCK)) }
}

/// Reads `server.contract`.
pub(super) fn guarding(node: &Node<'_>) -> Option<Guarding> {
    choice(&[("off", Guarding::Off), ("report", Guarding::Report), ("hold", Guarding::Hold)])(node)
}

/// Reads `server.validate`.
pub(super) fn validating(node: &Node<'_>) -> Option<Validating> {
    choice(&[("off", Validating::Off), ("input", Validating::Input), ("both", Validating::Both)])(node)
}
