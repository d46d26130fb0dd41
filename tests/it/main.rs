//! Whole-process tests, one module a capability.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

mod check;
