//! Who still uses what is on its way out: former names and values of tools and their arguments, by tool, path and client.
//! Never a value.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounter, IntCounterVec, Registry};
use serde::{Deserialize, Serialize};

use super::Metrics;
// Clients of one path have a count of their own like those of all calls; paths are as many as the configuration has.
use super::clients::{LONGEST, NAMED, REST};
use super::declare::counter;

/// All that was counted.
#[derive(Debug)]
pub struct Usage {
    counter: IntCounterVec,
    // A std lock: held for a look-up when a view meets a path first, and for a report.
    paths: RwLock<BTreeMap<Place, Arc<Clients>>>,
    /// Since when it is counted, in seconds since 1970.
    since: AtomicU64,
}

/// One deprecated path of one tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    server: String,
    tool: String,
    path: String,
}

#[derive(Debug, Default)]
struct Clients {
    // A std lock, of one path: written when a client uses it first, else read.
    counts: RwLock<HashMap<String, Arc<Count>>>,
}

#[derive(Debug, Default)]
struct Count {
    calls: AtomicU64,
    last: AtomicU64,
}

/// The handle of one path of one tool under one exposed name.
#[derive(Debug)]
pub struct Uses {
    counter: IntCounter,
    clients: Arc<Clients>,
}

/// What was counted, as it is kept in `state_dir` and shown to operators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// By server, tool, path and client, sorted.
    pub uses: Vec<Use>,
}

/// One client's use of one path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Use {
    /// The server's name.
    pub server: String,
    /// The tool's native name.
    pub tool: String,
    /// What is deprecated: `/name`, `/arguments/to`, `/arguments/unit#value`, `/arguments/limit#default`.
    pub path: String,
    /// OAuth client id or key name; `anonymous`, `other`.
    pub client: String,
    /// Calls.
    pub count: u64,
    /// The last one, in seconds since 1970.
    pub last: u64,
}

impl Usage {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = counter(
            registry,
            "gatehouse_deprecated_use_total",
            "Calls that used what is on its way out, by exposed tool name and path",
            &["tool", "path"],
        )?;
        Ok(Self { counter, paths: RwLock::default(), since: AtomicU64::new(now()) })
    }

    /// The handle of a path; `names` are the tool's native and exposed one.
    fn handle(&self, server: &str, names: (&str, &str), path: &str) -> Arc<Uses> {
        let counter = self.counter.with_label_values(&[names.1, path]);
        let place = Place { server: server.to_owned(), tool: names.0.to_owned(), path: path.to_owned() };
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        let clients = Arc::clone(paths.entry(place).or_default());
        Arc::new(Uses { counter, clients })
    }

    /// What was counted so far.
    pub fn report(&self) -> Report {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        let mut uses = Vec::new();
        for (place, clients) in paths.iter() {
            let counts = clients.counts.read().unwrap_or_else(PoisonError::into_inner);
            uses.extend(counts.iter().map(|(client, count)| Use {
                server: place.server.clone(),
                tool: place.tool.clone(),
                path: place.path.clone(),
                client: client.clone(),
                count: count.calls.load(Ordering::Relaxed),
                last: count.last.load(Ordering::Relaxed),
            }));
        }
        uses.sort();
        Report { since: self.since.load(Ordering::Relaxed), uses }
    }

    /// Goes on from what was counted before.
    pub fn restore(&self, report: Report) {
        self.since.fetch_min(report.since, Ordering::Relaxed);
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        for one in report.uses {
            let clients =
                paths.entry(Place { server: one.server, tool: one.tool, path: one.path }).or_default();
            let count = clients.of(&one.client);
            count.calls.fetch_add(one.count, Ordering::Relaxed);
            count.last.fetch_max(one.last, Ordering::Relaxed);
        }
    }
}

impl Uses {
    /// One call of this client.
    pub fn record(&self, client: &str) {
        self.counter.inc();
        let count = self.clients.of(client);
        count.calls.fetch_add(1, Ordering::Relaxed);
        count.last.fetch_max(now(), Ordering::Relaxed);
    }
}

impl Clients {
    fn of(&self, client: &str) -> Arc<Count> {
        let client = if client.len() > LONGEST { REST } else { client };
        if let Some(count) = self.counts.read().unwrap_or_else(PoisonError::into_inner).get(client) {
            return Arc::clone(count);
        }
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        let client = if counts.len() < NAMED || counts.contains_key(client) { client } else { REST };
        Arc::clone(counts.entry(client.to_owned()).or_default())
    }
}

impl Metrics {
    /// The handle of a deprecated path of a tool, resolved once; `names` are its native and exposed one.
    pub fn deprecated(&self, server: &str, names: (&str, &str), path: &str) -> Arc<Uses> {
        self.usage.handle(server, names, path)
    }

    /// Who still uses what is on its way out.
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::Report;

    #[test]
    fn uses_are_counted_by_path_and_client_and_go_on_after_a_restart() {
        let first = Metrics::new().unwrap();
        let of = |metrics: &Metrics, exposed: &str| metrics.deprecated("s", ("t", exposed), "/arguments/to");
        of(&first, "s_t").record("ann");
        of(&first, "s_t").record("ann");
        of(&first, "t").record("bob");
        let report = first.usage().report();
        let seen: Vec<_> = report.uses.iter().map(|one| (one.client.as_str(), one.count)).collect();
        assert_eq!(seen, [("ann", 2), ("bob", 1)]);
        assert!(report.uses.iter().all(|one| one.last >= report.since && report.since > 0));
        let text = first.render();
        assert!(
            text.contains("gatehouse_deprecated_use_total{path=\"/arguments/to\",tool=\"s_t\"} 2"),
            "{text}"
        );

        let second = Metrics::new().unwrap();
        let kept = serde_json::from_str::<Report>(&serde_json::to_string(&report).unwrap()).unwrap();
        second.usage().restore(Report { since: 7, ..kept });
        of(&second, "s_t").record("ann");
        let again = second.usage().report();
        let seen: Vec<_> = again.uses.iter().map(|one| (one.client.as_str(), one.count)).collect();
        assert_eq!((again.since, seen), (7, vec![("ann", 3), ("bob", 1)]));
    }

    #[test]
    fn clients_are_bounded() {
        let metrics = Metrics::new().unwrap();
        let uses = metrics.deprecated("s", ("t", "t"), "/name");
        for client in 0..300 {
            uses.record(&format!("c{client}"));
        }
        uses.record(&"c".repeat(257));
        uses.record("c0");
        let report = metrics.usage().report();
        assert_eq!(report.uses.len(), 201);
        let of = |name: &str| report.uses.iter().find(|one| one.client == name).map(|one| one.count);
        assert_eq!((of("c0"), of("other")), (Some(2), Some(101)));
    }
}
