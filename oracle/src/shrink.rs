//! From a case that shows a difference to the shortest one that still does.

use crate::generate::{Case, Step};

/// Removes steps from `case` as long as `differs` still says yes, first halves, then ever smaller
/// runs, then single steps, until no single step can go.
///
/// `differs` is asked about the case with fewer steps; kind, seed and settings stay. If it says no
/// to the whole case, that comes back as it is.
pub fn shrink(case: &Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    if !differs(&best) {
        return best;
    }
    let mut run = (best.steps.len() / 2).max(1);
    loop {
        let before = best.steps.len();
        let mut at = 0;
        while at < best.steps.len() && best.steps.len() > 1 {
            let smaller = without(&best, at, run);
            if !smaller.steps.is_empty() && differs(&smaller) {
                best = smaller;
            } else {
                at += run;
            }
        }
        if run > 1 {
            run = run.div_ceil(2);
        } else if best.steps.len() == before {
            return best;
        }
    }
}

fn without(case: &Case, at: usize, run: usize) -> Case {
    let keep = |(n, _): &(usize, &Step)| !(at..at + run).contains(n);
    let steps = case.steps.iter().enumerate().filter(keep).map(|(_, step)| step.clone()).collect();
    Case { steps, settings: case.settings.clone(), ..*case }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Kind;

    #[test]
    fn finds_the_two_steps_that_matter() {
        let mut case = Case::new(Kind::Udp, 1);
        case.steps = (0..40).map(|n| Step::Packet(vec![n])).collect();
        let mut asked = 0;
        let small = shrink(&case, |case| {
            asked += 1;
            let at = |n| case.packets().position(|packet| packet == [n]);
            matches!((at(7), at(31)), (Some(a), Some(b)) if a < b)
        });
        assert_eq!(small.steps, [Step::Packet(vec![7]), Step::Packet(vec![31])]);
        assert!(asked < 120, "{asked} questions");
    }

    #[test]
    fn what_does_not_differ_stays_whole() {
        let case = Case::new(Kind::Udp, 1);
        assert_eq!(shrink(&case, |_| false), case);
        assert_eq!(shrink(&case, |_| true).steps.len(), 1);
    }
}
