//! `[admin]`: who may look at the status page.

use super::Secret;

/// `[admin]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Admin {
    /// `token` of the status page; `None`: it exists on loopback only.
    pub token: Option<Secret>,
}
