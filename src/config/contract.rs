//! `[contract]`, `server.contract` and `server.validate`: what happens when a server changes what it offers, and what is
//! held against it.

use std::path::PathBuf;

/// `[contract]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// `lock`: the approved definitions; `gatehouse.lock` beside the file by default.
    pub lock: PathBuf,
}

/// `server.contract`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guarding {
    /// What a server says is shown.
    #[default]
    Off,
    /// What differs from the lock file is shown, counted and logged.
    Report,
    /// What differs is held back until it is approved.
    Hold,
}

/// `server.validate`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validating {
    /// Nothing is: the server knows its arguments best.
    #[default]
    Off,
    /// Arguments of calls.
    Input,
    /// Arguments, and the structured results of tools that describe them.
    Both,
}
