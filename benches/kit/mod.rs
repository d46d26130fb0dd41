//! What the benches share: a counting allocator, cases with budgets, a table of what they cost.

#![allow(dead_code, reason = "each bench uses a part of the kit")]
#![allow(clippy::print_stdout, reason = "the table is what a bench is for")]

pub(crate) mod fixture;
pub(crate) mod message;
pub(crate) mod pure;
pub(crate) mod whole;

use std::alloc::System;
use std::hint::black_box;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What one operation may ask of the allocator at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Allocations, growing ones included.
    pub(crate) allocations: f64,
    /// Bytes asked for.
    pub(crate) bytes: f64,
}

/// One operation to measure.
pub(crate) struct Case {
    /// What is done, in a few words; also how `--once` names it.
    pub(crate) name: &'static str,
    /// What it may cost.
    pub(crate) budget: Budget,
    /// Does it once.
    pub(crate) run: Box<dyn FnMut()>,
}

impl Case {
    /// A case whose result is used, so that no compiler leaves it out.
    pub(crate) fn new<T>(
        name: &'static str,
        (allocations, bytes): (u32, u32),
        mut work: impl FnMut() -> T + 'static,
    ) -> Self {
        let budget = Budget { allocations: allocations.into(), bytes: bytes.into() };
        Self { name, budget, run: Box::new(move || drop(black_box(work()))) }
    }

    /// The cheapest of several means, the first runs aside: what is set up once is no cost of a call, and a buffer
    /// that grew because the machine was busy, or a task that ran meanwhile, can only have added.
    fn measure(&mut self) -> Budget {
        const WARM: usize = 32;
        const BATCHES: usize = 8;
        (0..WARM).for_each(|_| (self.run)());
        let means = (0..BATCHES).map(|_| self.mean());
        means.min_by(|a, b| a.bytes.total_cmp(&b.bytes)).expect("there are batches")
    }

    /// What one run costs in the mean.
    fn mean(&mut self) -> Budget {
        const RUNS: usize = 32;
        let region = Region::new(ALLOCATOR);
        (0..RUNS).for_each(|_| (self.run)());
        let change = region.change();
        let mean = |count: usize| count as f64 / RUNS as f64;
        Budget {
            allocations: mean(change.allocations + change.reallocations),
            bytes: mean(change.bytes_allocated),
        }
    }
}

/// Measures every case and returns those that cost more than they may, as text.
pub(crate) fn over_budget(cases: Vec<Case>) -> Vec<String> {
    println!("{:<46}{:>12}{:>8}{:>12}{:>9}", "operation", "allocations", "≤", "bytes", "≤");
    let mut over = Vec::new();
    for mut case in cases {
        let (cost, budget) = (case.measure(), case.budget);
        println!(
            "{:<46}{:>12.1}{:>8}{:>12.0}{:>9}",
            case.name, cost.allocations, budget.allocations, cost.bytes, budget.bytes
        );
        // Half an allocation: a task of the gateway's own may run meanwhile.
        if cost.allocations > budget.allocations + 0.5 || cost.bytes > budget.bytes + 64.0 {
            over.push(format!("{}: {cost:?}, budget {budget:?}", case.name));
        }
    }
    over
}

/// A bench's `main`. `--list` names its cases, `--once NAME TIMES` only runs one (for counting instructions).
pub(crate) fn main(cases: Vec<Case>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    match &arguments[..] {
        [list] if list == "--list" => cases.iter().for_each(|case| println!("{}", case.name)),
        [once, name, times] if once == "--once" => {
            let case = cases.into_iter().find(|case| case.name == name);
            let (Some(mut case), Ok(times)) = (case, times.parse::<usize>()) else {
                return ExitCode::from(2);
            };
            (0..times).for_each(|_| (case.run)());
        }
        _ => {
            let over = over_budget(cases);
            over.iter().for_each(|line| println!("OVER BUDGET {line}"));
            return ExitCode::from(u8::from(!over.is_empty()));
        }
    }
    ExitCode::SUCCESS
}
