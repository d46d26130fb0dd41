//! A stateful legacy server: each session counts its own calls, and remembers what its client declared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::exchange::{Answer, Seen};
use super::server::{Offer, Server};

/// A scripted server with one tool, `count`, which answers how often its session was counted.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) server: Server,
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Counter {
    pub(crate) async fn start() -> Self {
        let server = Server::legacy("counter", Offer::tools(&["count"])).await;
        let counts = Arc::<Mutex<BTreeMap<String, usize>>>::default();
        let all = Arc::clone(&counts);
        server.on("tools/call", move |seen| {
            let session = seen.header("mcp-session-id").unwrap_or_default();
            let mut all = all.lock().unwrap();
            let count = all.entry(session).or_default();
            *count += 1;
            Answer::result(seen, &format!(r#"{{"content":[],"structuredContent":{{"count":{count}}}}}"#))
        });
        Self { server, counts }
    }

    /// Sessions in which something was counted.
    pub(crate) fn counting(&self) -> usize {
        self.counts.lock().unwrap().len()
    }

    /// What was declared at each `initialize`, as JSON text, sorted.
    pub(crate) fn declared(&self) -> Vec<String> {
        let all = self.server.requests("initialize");
        let mut all: Vec<String> =
            all.iter().map(|seen| seen.raw(&["params", "capabilities"]).unwrap()).collect();
        all.sort();
        all
    }

    /// Sessions that were ended by DELETE.
    pub(crate) fn ended(&self) -> Vec<String> {
        self.server.requests("DELETE").iter().map(|seen| seen.header("mcp-session-id").unwrap()).collect()
    }

    /// The sessions of calls so far, in order.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let session = |seen: &Seen| seen.header("mcp-session-id").unwrap();
        self.server.requests("tools/call").iter().map(session).collect()
    }
}
