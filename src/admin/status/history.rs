//! The last minutes of every tool: counters sampled by one task, so that calls pay nothing for it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::telemetry::metrics::reading::{ToolReading, ToolReadings};

/// The time between two samples.
pub(super) const STEP: Duration = Duration::from_secs(10);
/// Bars of a sparkline; the last is of the time since the last sample.
pub(super) const BARS: usize = 60;
/// Samples between two marks of how long calls took.
const MARK: usize = 6;
/// Marks kept: durations are of the same minutes as the bars.
const MARKS: usize = BARS / MARK;
/// Tools whose last minutes are kept: those that were called first.
const MOST: usize = 2000;

/// Whether calls with this outcome are a server's or our fault: what an operator looks for.
pub(super) fn is_fault(outcome: &str) -> bool {
    matches!(outcome, "tool_error" | "rpc_error" | "timeout" | "unavailable" | "too_large" | "internal")
}

/// All calls, and those that were a fault.
pub(super) fn totals(outcomes: &BTreeMap<String, u64>) -> (u64, u64) {
    let faults = outcomes.iter().filter(|(outcome, _)| is_fault(outcome)).map(|(_, count)| count).sum();
    (outcomes.values().sum(), faults)
}

/// What was counted of one thing, sample by sample.
#[derive(Debug, Default)]
pub(super) struct Track {
    last: (u64, u64),
    bars: VecDeque<(u32, u32)>,
    /// Of older samples: calls by how long they took until then.
    marks: VecDeque<Vec<u64>>,
}

/// The bars of a sparkline: calls, and those of them that were a fault. Oldest first; as many as there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bars {
    pub(super) calls: Vec<u32>,
    pub(super) faults: Vec<u32>,
}

impl Track {
    fn sample(&mut self, now: (u64, u64)) {
        let bar = self.since(now);
        push(&mut self.bars, bar, BARS - 1);
        self.last = now;
    }

    fn since(&self, now: (u64, u64)) -> (u32, u32) {
        let less = |now: u64, last: u64| u32::try_from(now.saturating_sub(last)).unwrap_or(u32::MAX);
        (less(now.0, self.last.0), less(now.1, self.last.1))
    }

    /// The bars, with that of the running step. Nothing, where nothing happened.
    pub(super) fn bars(&self, now: (u64, u64)) -> Bars {
        let all = || self.bars.iter().copied().chain([self.since(now)]);
        if all().all(|(calls, _)| calls == 0) {
            return Bars::default();
        }
        Bars { calls: all().map(|bar| bar.0).collect(), faults: all().map(|bar| bar.1).collect() }
    }

    /// Within how many seconds this share of the last minutes' calls ended; `None`: there were none.
    pub(super) fn quantile(&self, now: &ToolReading, share: f64) -> Option<f64> {
        let start = self.marks.front().filter(|_| self.marks.len() == MARKS);
        let before = |at: usize| start.and_then(|start| start.get(at)).copied().unwrap_or(0);
        let took: Vec<u64> =
            now.took.iter().enumerate().map(|(at, count)| count.saturating_sub(before(at))).collect();
        quantile(&now.bounds, &took, share)
    }
}

/// As Prometheus does it: evenly spread within a bucket.
fn quantile(bounds: &[f64], took: &[u64], share: f64) -> Option<f64> {
    let all = took.last().copied().filter(|all| *all > 0)?;
    let rank = share * all as f64;
    let at = took.iter().position(|count| *count as f64 >= rank)?;
    let (lower, below) = at.checked_sub(1).map_or((0.0, 0), |before| (bounds[before], took[before]));
    let upper = *bounds.get(at)?;
    if upper.is_infinite() {
        return Some(lower);
    }
    let inside = took[at].saturating_sub(below).max(1);
    Some(lower + (upper - lower) * ((rank - below as f64) / inside as f64).clamp(0.0, 1.0))
}

fn push<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(new);
}

/// The last minutes of everything.
#[derive(Debug, Default)]
pub(super) struct History {
    /// All requests.
    pub(super) all: Track,
    tools: HashMap<(String, String), Track>,
    samples: usize,
}

impl History {
    /// One sample: what was counted until now.
    pub(super) fn sample(&mut self, all: (u64, u64), tools: &ToolReadings) {
        self.all.sample(all);
        self.samples += 1;
        let mark = self.samples.is_multiple_of(MARK);
        for (key, reading) in tools {
            if !self.tools.contains_key(key) && self.tools.len() >= MOST {
                continue;
            }
            let track = self.tools.entry(key.clone()).or_default();
            track.sample(totals(&reading.outcomes));
            if mark {
                push(&mut track.marks, reading.took.clone(), MARKS);
            }
        }
    }

    /// The last minutes of one tool, as far as they are kept.
    pub(super) fn tool(&self, key: &(String, String)) -> Option<&Track> {
        self.tools.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::{BARS, Bars, History, MARK, MARKS, MOST, Track, quantile};
    use crate::telemetry::metrics::reading::{ToolReading, ToolReadings};

    const BOUNDS: [f64; 4] = [0.1, 1.0, 10.0, f64::INFINITY];

    fn reading(calls: u64, took: [u64; 4]) -> ToolReading {
        let outcomes = [("ok".to_owned(), calls)].into();
        ToolReading { outcomes, took: took.to_vec(), bounds: BOUNDS.to_vec() }
    }

    #[test]
    fn bars_are_what_was_called_between_samples() {
        let mut track = Track::default();
        assert_eq!(track.bars((0, 0)), Bars::default());
        assert_eq!(track.bars((3, 1)), Bars { calls: vec![3], faults: vec![1] });
        track.sample((3, 1));
        assert_eq!(track.bars((3, 1)), Bars { calls: vec![3, 0], faults: vec![1, 0] });
        for more in 1..200 {
            track.sample((3 + more, 1));
        }
        let bars = track.bars((210, 1));
        assert_eq!((bars.calls.len(), bars.calls.iter().sum::<u32>()), (BARS, 59 + 8));
        // A quiet time leaves nothing.
        (0..BARS).for_each(|_| track.sample((210, 1)));
        assert_eq!(track.bars((210, 1)), Bars::default());
    }

    #[test]
    fn quantiles_lie_in_the_bucket_of_their_rank() {
        assert_eq!(quantile(&BOUNDS, &[0, 0, 0, 0], 0.5), None);
        assert_eq!(quantile(&BOUNDS, &[], 0.5), None);
        assert_eq!(quantile(&BOUNDS, &[10, 10, 10, 10], 0.5), Some(0.05));
        assert_eq!(quantile(&BOUNDS, &[0, 10, 10, 10], 1.0), Some(1.0));
        assert_eq!(quantile(&BOUNDS, &[100, 100, 200, 200], 0.25), Some(0.05));
        assert_eq!(quantile(&BOUNDS, &[90, 90, 100, 100], 0.95), Some(5.5));
        // Longer than the longest bound: that much at least.
        assert_eq!(quantile(&BOUNDS, &[0, 0, 0, 2], 0.5), Some(10.0));
    }

    #[test]
    fn durations_are_of_the_last_minutes() {
        let key = ("s".to_owned(), "t".to_owned());
        let mut history = History::default();
        let slow = reading(10, [0, 0, 10, 10]);
        history.sample((10, 0), &ToolReadings::from([(key.clone(), slow.clone())]));
        let slow_p50 = history.tool(&key).unwrap().quantile(&slow, 0.5).unwrap();
        assert!((1.0..=10.0).contains(&slow_p50), "{slow_p50}");
        for _ in 0..MARK * (MARKS + 1) {
            history.sample((10, 0), &ToolReadings::from([(key.clone(), slow.clone())]));
        }
        let track = history.tool(&key).unwrap();
        assert_eq!(track.quantile(&slow, 0.5), None, "nothing was called for ten minutes");
        let fast = reading(14, [4, 4, 14, 14]);
        assert!(track.quantile(&fast, 0.95).unwrap() <= 0.1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut history = History::default();
        let many = |count: usize| -> ToolReadings {
            (0..count).map(|n| (("s".to_owned(), format!("{n:05}")), reading(1, [1; 4]))).collect()
        };
        history.sample((1, 0), &many(MOST + 5));
        history.sample((1, 0), &many(MOST + 9));
        assert_eq!(history.tools.len(), MOST);
    }
}
