//! Doubts about limits: what limits nothing, and what is counted together without being meant so.

use super::super::Config;
use super::grants::idle;
use super::{Warning, warning};

impl Config {
    /// Doubts about `[[limit]]`, as far as the file alone can tell.
    pub(super) fn limit_doubts(&self, found: &mut Vec<Warning>) {
        for (index, limit) in self.limits.iter().enumerate() {
            let key = |key: &str| format!("limit[{index}].{key}");
            let servers = || self.servers.iter().map(|server| server.name.as_str());
            for pattern in idle(&limit.servers, servers) {
                found.push(warning(key("servers"), format!("{pattern:?} matches no enabled server"), ""));
            }
            if self.limits[..index].contains(limit) {
                found.push(warning(key("rate"), "is the same limit as an earlier one, and counted once", ""));
            }
            if self.auth.is_none() && (limit.per.subject || limit.per.client) {
                let message = "without [auth] all callers are one, and counted together";
                found.push(warning(key("per"), message, ""));
            }
        }
    }
}
