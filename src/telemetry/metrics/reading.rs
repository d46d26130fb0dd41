//! Metrics read back, for the status page: what it shows is what is counted.

use std::collections::BTreeMap;

use prometheus::core::Collector as _;
use prometheus::proto::{Metric, MetricFamily};

use super::Metrics;

/// What is counted of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolReading {
    /// Calls by outcome, those that occurred.
    pub outcomes: BTreeMap<String, u64>,
    /// Calls by how long they took: so many within the bound of the same place.
    pub took: Vec<u64>,
    /// The bounds, in seconds; the last is infinite.
    pub bounds: Vec<f64>,
}

/// What is counted of every tool that was ever called, by server and exposed name.
pub type ToolReadings = BTreeMap<(String, String), ToolReading>;

impl ToolReading {
    /// All calls.
    pub fn calls(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

fn label<'m>(metric: &'m Metric, name: &str) -> &'m str {
    metric.get_label().iter().find(|label| label.name() == name).map_or("", |label| label.value())
}

/// A count, which the library tells as a float.
fn count(metric: &Metric) -> u64 {
    metric.get_counter().get_value() as u64
}

impl Metrics {
    /// What is counted of tools.
    pub fn tool_readings(&self) -> ToolReadings {
        let mut tools = ToolReadings::new();
        let key = |metric: &Metric| (label(metric, "server").to_owned(), label(metric, "tool").to_owned());
        for metric in self.tool_calls.collect().iter().flat_map(MetricFamily::get_metric) {
            let calls = count(metric);
            if calls > 0 {
                let outcomes = &mut tools.entry(key(metric)).or_default().outcomes;
                outcomes.insert(label(metric, "outcome").to_owned(), calls);
            }
        }
        for metric in self.tool_seconds.collect().iter().flat_map(MetricFamily::get_metric) {
            let Some(tool) = tools.get_mut(&key(metric)) else { continue };
            let histogram = metric.get_histogram();
            let buckets = || histogram.get_bucket().iter();
            let rest = (histogram.get_sample_count(), f64::INFINITY);
            tool.took = buckets().map(|bucket| bucket.cumulative_count()).chain([rest.0]).collect();
            tool.bounds = buckets().map(|bucket| bucket.upper_bound()).chain([rest.1]).collect();
        }
        tools
    }

    /// A counter, summed by the values of one label.
    pub fn counts_by(&self, which: Counted, by: &str) -> BTreeMap<String, u64> {
        let counter = match which {
            Counted::Requests => &self.requests,
            Counted::AuthRejections => &self.auth_rejections,
            Counted::HeaderRejections => &self.header_rejections,
            Counted::Limited => &self.limited,
        };
        let mut sums = BTreeMap::new();
        for metric in counter.collect().iter().flat_map(MetricFamily::get_metric) {
            *sums.entry(label(metric, by).to_owned()).or_insert(0) += count(metric);
        }
        sums
    }
}

/// Counters that can be summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// `gatehouse_requests_total`
    Requests,
    /// `gatehouse_auth_rejections_total`
    AuthRejections,
    /// `gatehouse_header_rejections_total`
    HeaderRejections,
    /// `gatehouse_limited_total`
    Limited,
}
