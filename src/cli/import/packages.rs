//! Servers that run whatever version of a package is newest.

use super::draft::{Draft, Target};
use crate::config::unpinned_package;

/// Notes a package without a pinned version; refuses it when told so.
pub(super) fn judge(draft: &mut Draft, pinned_only: bool) {
    let Target::Stdio { argv, .. } = &draft.target else { return };
    let Some(runner) = unpinned_package(argv) else { return };
    let said = format!("`{runner}` runs a package whose version is not pinned: write the exact version");
    if pinned_only {
        draft.refused.get_or_insert(said);
    } else {
        draft.notes.push(said);
    }
}
