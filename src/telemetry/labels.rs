//! Which tools have labels of their own: a bounded number of each server's, those called first.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// Tools of one server with labels of their own.
const NAMED: usize = 1000;

/// The tools that have labels, by server.
#[derive(Debug, Default)]
pub(super) struct Tools(
    // A std lock: asked at a tool's first call after a change of lists, never across an await.
    Mutex<HashMap<String, HashSet<String>>>,
);

impl Tools {
    /// Whether a tool of a server has a label of its own, from now on if there is room.
    pub(super) fn admits(&self, server: &str, tool: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(server) {
            all.insert(server.to_owned(), HashSet::new());
        }
        let Some(known) = all.get_mut(server) else { return false };
        known.contains(tool) || known.len() < NAMED && known.insert(tool.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;

    #[test]
    fn a_server_that_renames_its_tools_again_and_again_fills_no_metrics() {
        let metrics = Metrics::new().unwrap();
        for number in 0..1005 {
            metrics.tool("s", &format!("t{number}"));
        }
        metrics.tool("s", "t0");
        metrics.tool("b", "t9999");
        let text = metrics.render();
        let ok = |server: &str| {
            let start = format!("gatehouse_tool_calls_total{{outcome=\"ok\",server=\"{server}\",");
            text.lines().filter(|line| line.starts_with(&start)).count()
        };
        assert_eq!((ok("s"), ok("b")), (1001, 1), "and one for the rest");
        assert!(text.contains("server=\"s\",tool=\"other\"") && text.contains("tool=\"t9999\""));
    }
}
