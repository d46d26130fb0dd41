//! `[contract]` and `server.contract`: what happens when a server changes what it offers.

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
