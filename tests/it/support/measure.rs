//! Numbers that are told, not judged: machines differ.

use std::fmt::Debug;

/// Prints what was measured.
#[allow(clippy::print_stdout, reason = "measured numbers are for whoever runs the tests")]
pub(crate) fn measured(what: &str, value: impl Debug) {
    println!("measured: {what}: {value:?}");
}
