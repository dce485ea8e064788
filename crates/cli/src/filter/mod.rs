//! Expressions that choose packets: a small part of tcpdump's language, evaluated on parsed packets.

mod lex;
mod parse;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::Arc;

use fourtuple::packet::{Address, Family};
use thiserror::Error;

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Filter(Arc<Expr>);

/// Why an expression was refused. Prints the expression with a mark under the place.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}\n\n  {text}\n  {:>width$}", "^", width = .column)]
pub(crate) struct FilterError {
    /// What is wrong.
    message: String,
    /// The expression.
    text: String,
    /// The character that the fault is at, from 1.
    column: usize,
}

/// What a packet has to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) family: Family,
    pub(crate) src: Address,
    pub(crate) dst: Address,
    pub(crate) protocol: u8,
    pub(crate) ports: Option<(u16, u16)>,
}

/// A chain of equal precedence, or a single test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    Test(Test),
    Not(Box<Self>),
    /// Evaluated from left to right, as pcap-filter(7) has it.
    Chain(Box<Self>, Vec<(Op, Self)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    And,
    Or,
}

/// Which end of a packet is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Src,
    Dst,
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Family(Family),
    Protocol(u8),
    /// Addresses whose first `bits` are those of `prefix`.
    Net {
        end: End,
        family: Family,
        prefix: Address,
        bits: u8,
    },
    Port {
        end: End,
        from: u16,
        to: u16,
    },
}

impl Filter {
    /// True iff the expression fits; for a frame without IP no test does.
    pub(crate) fn matches(&self, facts: Option<&Facts>) -> bool {
        self.0.eval(facts)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        parse::parse(text).map(|e| Self(Arc::new(e)))
    }
}

impl Expr {
    fn eval(&self, facts: Option<&Facts>) -> bool {
        match self {
            Self::Test(test) => facts.is_some_and(|f| test.eval(f)),
            Self::Not(inner) => !inner.eval(facts),
            Self::Chain(first, rest) => {
                rest.iter().fold(first.eval(facts), |so_far, (op, e)| match op {
                    Op::And => so_far && e.eval(facts),
                    Op::Or => so_far || e.eval(facts),
                })
            }
        }
    }
}

impl End {
    fn any<T>(self, src: T, dst: T, test: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Src => test(src),
            Self::Dst => test(dst),
            Self::Either => test(src) || test(dst),
        }
    }
}

impl Test {
    fn eval(self, facts: &Facts) -> bool {
        match self {
            Self::Family(family) => facts.family == family,
            Self::Protocol(protocol) => facts.protocol == protocol,
            Self::Net { end, family, prefix, bits } => {
                facts.family == family
                    && end.any(facts.src, facts.dst, |a| same_prefix(&a, &prefix, bits))
            }
            Self::Port { end, from, to } => facts
                .ports
                .is_some_and(|(src, dst)| end.any(src, dst, |p| (from..=to).contains(&p))),
        }
    }
}

/// True iff the first `bits` of both addresses are the same.
fn same_prefix(a: &Address, b: &Address, bits: u8) -> bool {
    let differing = u128::from_be_bytes(*a) ^ u128::from_be_bytes(*b);
    differing.leading_zeros() >= u32::from(bits)
}
