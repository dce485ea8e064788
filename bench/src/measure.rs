//! Rounds: every case of a group once, then again, each round beginning with another case.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// How much to measure.
pub(crate) struct Plan {
    pub(crate) quick: bool,
    /// Samples of each case.
    pub(crate) rounds: usize,
    /// Operations in a sample: enough that reading the clock (some 50 ns) does not show.
    pub(crate) operations: usize,
    /// Entries in the tables.
    pub(crate) entries: &'static [usize],
    /// Connections in the tracker.
    pub(crate) connections: &'static [usize],
    /// Connections that are opened, in a tracker that is empty at first.
    pub(crate) opened: &'static [usize],
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        quick: false,
        rounds: 15,
        operations: 1 << 16,
        entries: &[1_000, 100_000, 1_000_000],
        connections: &[1, 1_000, 100_000, 1_000_000],
        opened: &[100_000, 1_000_000],
    };
    pub(crate) const QUICK: Self = Self {
        quick: true,
        rounds: 1,
        operations: 10_000,
        entries: &[1_000, 10_000],
        connections: &[1, 1_000, 10_000],
        opened: &[10_000],
    };
}

/// What one sample took.
pub(crate) struct Sample {
    pub(crate) operations: usize,
    pub(crate) elapsed: Duration,
}

type Run<S> = Box<dyn Fn(&mut S, &Plan) -> Result<Sample>>;

/// One thing to measure; `S` is what the cases of its group share.
pub(crate) struct Case<S> {
    what: String,
    run: Run<S>,
}

impl<S> Case<S> {
    pub(crate) fn new(
        what: impl Into<String>,
        run: impl Fn(&mut S, &Plan) -> Result<Sample> + 'static,
    ) -> Self {
        Self { what: what.into(), run: Box::new(run) }
    }
}

/// A line of the report.
pub(crate) struct Row {
    pub(crate) section: &'static str,
    pub(crate) what: String,
    /// Entries or connections in the table, where there is one.
    pub(crate) entries: Option<usize>,
    /// Operations in one sample.
    pub(crate) operations: usize,
    /// Nanoseconds per operation of each sample, sorted.
    pub(crate) ns: Vec<f64>,
}

impl Row {
    pub(crate) fn median(&self) -> f64 {
        let middle = self.ns.len() / 2;
        if self.ns.len() % 2 == 1 {
            self.ns[middle]
        } else {
            f64::midpoint(self.ns[middle - 1], self.ns[middle])
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.ns[0]
    }

    pub(crate) fn max(&self) -> f64 {
        self.ns[self.ns.len() - 1]
    }

    pub(crate) fn rounds(&self) -> usize {
        self.ns.len()
    }
}

/// Measures `cases` in turns: a round that does not count, to warm up, then the plan's.
pub(crate) fn rounds<S>(
    plan: &Plan,
    section: &'static str,
    entries: Option<usize>,
    state: &mut S,
    cases: Vec<Case<S>>,
) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::with_capacity(cases.len());
    for case in &cases {
        let sample = (case.run)(state, plan)?;
        rows.push(Row {
            section,
            what: case.what.clone(),
            entries,
            operations: sample.operations,
            ns: Vec::with_capacity(plan.rounds),
        });
    }
    for round in 0..plan.rounds {
        for turn in 0..cases.len() {
            let which = (round + turn) % cases.len();
            let sample = (cases[which].run)(state, plan)?;
            ensure!(sample.operations >= 10_000, "{}: too few operations", cases[which].what);
            rows[which].ns.push(sample.elapsed.as_nanos() as f64 / sample.operations as f64);
        }
    }
    for row in &mut rows {
        row.ns.sort_by(f64::total_cmp);
    }
    Ok(rows)
}

/// Times `run` on each of `inputs`, again from the first until there were `operations`. What `run` makes it must
/// give to `black_box` whole: nothing of it may be left out as unused.
#[inline(always)]
pub(crate) fn each<I>(inputs: &[I], operations: usize, run: impl Fn(&I)) -> Sample {
    let passes = operations.div_ceil(inputs.len());
    let start = Instant::now();
    for _ in 0..passes {
        for input in inputs {
            run(black_box(input));
        }
    }
    Sample { operations: passes * inputs.len(), elapsed: start.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ns: &[f64]) -> Row {
        Row { section: "", what: String::new(), entries: None, operations: 1, ns: ns.to_vec() }
    }

    #[test]
    fn medians() {
        assert_eq!(row(&[1.0, 5.0, 9.0]).median(), 5.0);
        assert_eq!(row(&[1.0, 5.0, 9.0, 100.0]).median(), 7.0);
        let one = row(&[3.0]);
        assert_eq!((one.min(), one.median(), one.max()), (3.0, 3.0, 3.0));
    }

    #[test]
    fn every_case_runs_in_every_round_and_the_order_turns() {
        let case = |n: usize| {
            Case::new(format!("{n}"), move |order: &mut Vec<usize>, plan: &Plan| {
                order.push(n);
                let elapsed = Duration::from_nanos((n as u64 + 1) * plan.operations as u64);
                Ok(Sample { operations: plan.operations, elapsed })
            })
        };
        let mut order = Vec::new();
        let cases = (0..3).map(case).collect();
        let rows =
            rounds(&Plan { rounds: 3, ..Plan::QUICK }, "s", None, &mut order, cases).unwrap();
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 1, 2, 0, 2, 0, 1]);
        let medians: Vec<f64> = rows.iter().map(Row::median).collect();
        assert_eq!(medians, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn each_counts_whole_passes() {
        let calls = std::cell::Cell::new(0);
        let sample = each(&[1, 2, 3], 10, |_| calls.set(calls.get() + 1));
        assert_eq!((sample.operations, calls.get()), (12, 12));
    }
}
