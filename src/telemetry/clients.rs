//! Requests by client: the first names get a label of their own, the rest share one.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use prometheus::IntCounterVec;

use super::outcome::Outcome;

/// Names with a label of their own (design §8).
pub(super) const NAMED: usize = 200;
/// A name can be a URL; longer ones are no label.
pub(super) const LONGEST: usize = 256;
/// The label of the rest.
pub(super) const REST: &str = "other";

/// `gatehouse_client_calls_total`
#[derive(Debug)]
pub(super) struct ClientCalls {
    counter: IntCounterVec,
    // A std lock: held for a look-up, never across an await. Read almost always: a name is added once.
    known: RwLock<HashSet<String>>,
}

impl ClientCalls {
    pub(super) fn new(counter: IntCounterVec) -> Self {
        Self { counter, known: RwLock::default() }
    }

    pub(super) fn record(&self, client: &str, outcome: Outcome) {
        let label = if self.is_named(client) { client } else { REST };
        self.counter.with_label_values(&[label, outcome.as_str()]).inc();
    }

    fn is_named(&self, client: &str) -> bool {
        if client.len() > LONGEST {
            return false;
        }
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= NAMED || known.contains(client) {
                return known.contains(client);
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.contains(client) || known.len() < NAMED && known.insert(client.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Metrics, Outcome};

    #[test]
    fn the_first_two_hundred_clients_have_labels_of_their_own() {
        let metrics = Metrics::new().unwrap();
        for round in 0..2 {
            for client in 0..250 {
                metrics.client_call(&format!("c{client}"), Outcome::Ok);
            }
            metrics.client_call("c0", if round == 0 { Outcome::Ok } else { Outcome::Denied });
        }
        let text = metrics.render();
        let line = |client: &str, outcome: &str, count: u64| {
            let line = format!(
                "gatehouse_client_calls_total{{client=\"{client}\",outcome=\"{outcome}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}");
        };
        line("c0", "ok", 3);
        line("c0", "denied", 1);
        line("c199", "ok", 2);
        line("other", "ok", 100);
        assert!(!text.contains("\"c200\""));
        let metrics = Metrics::new().unwrap();
        metrics.client_call(&"c".repeat(257), Outcome::Ok);
        assert!(metrics.render().contains("{client=\"other\",outcome=\"ok\"} 1\n"));
    }
}
