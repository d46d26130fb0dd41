//! `[admin]`: its keys.

use super::super::admin::Admin;
use super::super::secret::Secret;
use super::super::tree::{Node, Table};
use super::super::values::line;

/// A shorter token could be guessed.
const SHORTEST: usize = 16;

/// Reads `[admin]`.
pub(in super::super) fn admin(table: &Table<'_>) -> Admin {
    Admin { token: table.get("token", token) }
}

/// What a header can carry, and nobody guesses.
fn token(node: &Node<'_>) -> Option<Secret> {
    let text = line(node)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return node.fail("must be ASCII without spaces", "as `openssl rand -hex 32` prints it");
    }
    if text.len() < SHORTEST {
        return node.fail(
            "is too short: it could be guessed",
            "16 characters or more, as `openssl rand -hex 32` prints them",
        );
    }
    Some(Secret::new(text))
}
