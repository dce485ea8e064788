//! Which packets are printed.

use std::str::FromStr;

use fourtuple::conntrack::Verdict;
use thiserror::Error;

use crate::args::Which;
use crate::frame::Look;

/// Numbers and ranges of numbers, from 1: `10-20,30,100-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

/// Why a list of ranges was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum RangeError {
    #[error("'{0}' is not a number")]
    NotANumber(String),
    #[error("'{0}' ends before it begins")]
    Reversed(String),
    #[error("empty range; say 10, 10-20, 10- or -20")]
    Empty,
    #[error("numbers count from 1")]
    Zero,
}

impl Ranges {
    /// True iff `number` is in one of the ranges.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.0.iter().any(|&(from, to)| (from..=to).contains(&number))
    }
}

impl FromStr for Ranges {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let number = |s: &str| -> Result<u64, RangeError> {
            let s = s.trim();
            match s.parse() {
                Ok(0) => Err(RangeError::Zero),
                Ok(n) => Ok(n),
                Err(_) => Err(RangeError::NotANumber(s.to_owned())),
            }
        };
        let range = |piece: &str| {
            let piece = piece.trim();
            let (from, to) = match piece.split_once('-') {
                _ if piece.is_empty() => return Err(RangeError::Empty),
                None => (number(piece)?, number(piece)?),
                Some(("", "")) => return Err(RangeError::Empty),
                Some((from, "")) => (number(from)?, u64::MAX),
                Some(("", to)) => (1, number(to)?),
                Some((from, to)) => (number(from)?, number(to)?),
            };
            if from > to { Err(RangeError::Reversed(piece.to_owned())) } else { Ok((from, to)) }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }
}

impl Which {
    /// True iff the packet is to be printed.
    pub(crate) fn wants(&self, number: u64, verdict: &Verdict, look: &Look<'_>) -> bool {
        let of_connection =
            |ranges: &Ranges| verdict.connection.is_some_and(|id| ranges.contains(id.number()));
        (self.only.is_empty() || self.only.contains(&verdict.kind))
            && (self.reason.is_empty() || self.reason.contains(&verdict.reason))
            && self.packets.as_ref().is_none_or(|r| r.contains(number))
            && self.connection.as_ref().is_none_or(of_connection)
            && self.filter.as_ref().is_none_or(|f| f.matches(look.facts().as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let r: Ranges = "10-20, 30,100-".parse().expect("fine");
        for (n, inside) in
            [(9, false), (10, true), (20, true), (21, false), (30, true), (99, false), (100, true)]
        {
            assert_eq!(r.contains(n), inside, "{n}");
        }
        assert!(r.contains(u64::MAX));
        let r: Ranges = "-3".parse().expect("fine");
        assert!(r.contains(1) && r.contains(3) && !r.contains(4));
    }

    #[test]
    fn refusals() {
        let refused = |s: &str| s.parse::<Ranges>().expect_err(s);
        assert_eq!(refused("x"), RangeError::NotANumber("x".to_owned()));
        assert_eq!(refused("20-10"), RangeError::Reversed("20-10".to_owned()));
        assert_eq!(refused("1,,2"), RangeError::Empty);
        assert_eq!(refused("-"), RangeError::Empty);
        assert_eq!(refused("0"), RangeError::Zero);
        assert_eq!(refused("1-2-3"), RangeError::NotANumber("2-3".to_owned()));
    }
}
