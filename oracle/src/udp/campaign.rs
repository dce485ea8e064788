//! Many scenarios, until there are enough.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use fourtuple_udp::scenario::Operation;

use super::compare::{Compared, UdpComparer, UdpDifference, id, sensible};
use super::generate::{Focus, Scenario};
use crate::campaign::kernel_version;
use crate::error::Result;

/// When a campaign has enough: at the first limit reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpLimits {
    /// Operations.
    pub operations: u64,
    /// Time.
    pub time: Duration,
    /// Differences that are shrunk and shown, at most three of a sort.
    pub differences: usize,
}

/// What a campaign found.
#[derive(Clone, Debug, Default)]
pub struct UdpSummary {
    /// First seed.
    pub seed: u64,
    /// Scenarios.
    pub scenarios: u64,
    /// Scenarios by what they are about.
    pub focuses: BTreeMap<Focus, u64>,
    /// Operations put to both.
    pub operations: u64,
    /// Of those, datagrams.
    pub datagrams: u64,
    /// Of those, to a member of a group that could be told beforehand.
    pub predicted: u64,
    /// The kernel's answers, by operation and result.
    pub answers: BTreeMap<(String, String), u64>,
    /// Scenarios that differ, by what differs.
    pub differing: BTreeMap<String, u64>,
    /// The first few of each, shrunk, with the seed.
    pub differences: Vec<(u64, UdpDifference)>,
    /// Differences that did not come again when the scenario was repeated: headline and seed.
    pub once: Vec<(String, u64)>,
    /// Time it took.
    pub time: Duration,
}

impl UdpSummary {
    /// True iff nothing differed.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.differing.is_empty() && self.once.is_empty()
    }
}

/// Differences of a sort that are shrunk and shown.
const SHOWN: u64 = 3;

/// Puts scenarios from `seed` on to the kernel, in a namespace of its own, and to the table. `each`
/// hears of every scenario's end, and every shown difference's text.
///
/// # Errors
/// [`crate::Unavailable`] names what is missing; others are failures of the namespace.
pub fn udp_campaign(
    seed: u64,
    limits: UdpLimits,
    mut each: impl FnMut(&UdpSummary, Option<&str>) + Send,
) -> Result<UdpSummary> {
    in_a_namespace(|comparer| {
        let started = Instant::now();
        let mut sum = UdpSummary { seed, ..UdpSummary::default() };
        let cpus = cpus();
        while sum.operations < limits.operations
            && started.elapsed() < limits.time
            && sum.differences.len() < limits.differences
        {
            let scenario = Scenario::new(seed.wrapping_add(sum.scenarios), cpus);
            let compared = comparer.run(&scenario.operations)?;
            sum.scenarios += 1;
            *sum.focuses.entry(scenario.focus).or_default() += 1;
            sum.operations += compared.operations;
            sum.datagrams += compared.datagrams;
            sum.predicted += compared.predicted;
            for (answer, count) in &compared.answers {
                *sum.answers.entry(answer.clone()).or_default() += count;
            }
            let text = match compared.difference {
                Some(difference) => file(comparer, &scenario, difference, &mut sum)?,
                None => None,
            };
            sum.time = started.elapsed();
            each(&sum, text.as_deref());
        }
        Ok(sum)
    })
}

/// Puts one scenario, without devices, to both.
///
/// # Errors
/// As [`udp_campaign`]; also if an operation makes no sense.
pub fn udp_compare(operations: &[Operation]) -> Result<Option<UdpDifference>> {
    in_a_namespace(|comparer| Ok(comparer.run(operations)?.difference))
}

/// Runs `action` on a thread with a namespace that goes with it; the caller's stays as it is.
fn in_a_namespace<T: Send>(action: impl FnOnce(&mut UdpComparer) -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| action(&mut UdpComparer::new()?));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// CPUs that datagrams can be sent from.
fn cpus() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(1))
}

/// Shrinks a difference and puts it where it belongs; gives its text if it is to be shown.
fn file(
    comparer: &mut UdpComparer,
    scenario: &Scenario,
    first: UdpDifference,
    sum: &mut UdpSummary,
) -> Result<Option<String>> {
    let headline = first.headline();
    let seen = sum.differing.get(&headline).copied().unwrap_or(0);
    if seen >= SHOWN {
        *sum.differing.entry(headline).or_default() += 1;
        return Ok(None);
    }
    let operations = &scenario.operations[..first.operations];
    let Some(small) = shrink(comparer, operations, &headline)? else {
        sum.once.push((headline.clone(), scenario.seed));
        let seed = scenario.seed;
        return Ok(Some(format!("came once and not again: seed {seed:#x}: {headline}\n{first}")));
    };
    *sum.differing.entry(headline.clone()).or_default() += 1;
    let text = format!("DIFFERENCE, seed {:#x}: {headline}\n{small}", scenario.seed);
    sum.differences.push((scenario.seed, small));
    Ok(Some(text))
}

/// The difference of the shortest scenario that can be had by leaving out sockets and operations and
/// still differs in the same way; `None` if the whole does not.
fn shrink(
    comparer: &mut UdpComparer,
    operations: &[Operation],
    headline: &str,
) -> Result<Option<UdpDifference>> {
    let mut differs = |operations: &[Operation]| -> Result<Option<UdpDifference>> {
        if !sensible(operations) {
            return Ok(None);
        }
        let Compared { difference, .. } = comparer.run(operations)?;
        Ok(difference.filter(|found| found.headline() == headline))
    };
    let mut best = operations.to_vec();
    let Some(mut shown) = differs(&best)? else { return Ok(None) };
    loop {
        let before = best.len();
        for candidate in candidates(before) {
            let smaller = without(&best, candidate);
            if smaller.len() == best.len() {
                continue;
            }
            if let Some(found) = differs(&smaller)? {
                best = smaller;
                best.truncate(found.operations);
                shown = found;
            }
        }
        if best.len() == before {
            return Ok(Some(shown));
        }
    }
}

/// What to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Omit {
    /// The socket of the operation at this place, with all that is done to it.
    SocketAt(usize),
    /// The operation at this place.
    At(usize),
}

/// Last first, so that a removal moves nothing that is still to be tried; sockets before operations.
fn candidates(length: usize) -> impl Iterator<Item = Omit> {
    (0..length).rev().map(Omit::SocketAt).chain((0..length).rev().map(Omit::At))
}

fn without(operations: &[Operation], omit: Omit) -> Vec<Operation> {
    match omit {
        Omit::At(at) => {
            let mut out = operations.to_vec();
            if at < out.len() {
                out.remove(at);
            }
            out
        }
        Omit::SocketAt(at) => match operations.get(at) {
            Some(Operation::Socket(fields)) => {
                let other = |op: &&Operation| id(op) != Some(fields.id);
                operations.iter().filter(other).cloned().collect()
            }
            _ => operations.to_vec(),
        },
    }
}

impl fmt::Display for UdpSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.operations as f64 / self.time.as_secs_f64().max(0.001);
        let differed: u64 = self.differing.values().sum();
        let once = self.once.len() as u64;
        writeln!(f, "kernel           {}", kernel_version())?;
        writeln!(f, "first seed       {:#x}", self.seed)?;
        writeln!(f, "scenarios        {}", self.scenarios)?;
        for (focus, count) in &self.focuses {
            writeln!(f, "  {:14} {count}", format!("{focus:?}"))?;
        }
        writeln!(f, "operations       {} ({rate:.0}/s)", self.operations)?;
        let mut of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((op, result), count) in &self.answers {
            of.entry(op).or_default().push(format!("{result} {count}"));
        }
        for (op, results) in of {
            writeln!(f, "  {op:14} {}", results.join(", "))?;
        }
        writeln!(f, "group members told beforehand {}", self.predicted)?;
        writeln!(f, "scenarios that agree {}", self.scenarios - differed - once)?;
        writeln!(f, "scenarios that differ {differed}")?;
        for (headline, count) in &self.differing {
            writeln!(f, "  {count:6} {headline}")?;
        }
        for (headline, seed) in &self.once {
            writeln!(f, "came once and not again: {seed:#x}: {headline}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_goes_with_all_that_is_done_to_it() {
        let line = |text: &str| Operation::parse(text).unwrap();
        let all = [
            line(r#"{"op":"socket","id":1}"#),
            line(r#"{"op":"socket","id":2}"#),
            line(r#"{"op":"autobind","id":1}"#),
            line(r#"{"op":"close","id":2}"#),
        ];
        assert_eq!(without(&all, Omit::SocketAt(0)), [all[1].clone(), all[3].clone()]);
        assert_eq!(without(&all, Omit::SocketAt(2)), all);
        assert_eq!(without(&all, Omit::At(2)), [all[0].clone(), all[1].clone(), all[3].clone()]);
        assert_eq!(without(&all, Omit::At(9)), all);
    }
}
