//! Tuple hashes beside SipHash of as many bytes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;

use anyhow::Result;
use fourtuple::packet::{Family, protocol};
use fourtuple::{Key, Tuple, TupleHash};
use siphasher::sip::SipHasher24;

use crate::measure::{Case, Plan, Row, Sample, each, rounds};
use crate::random::Random;

/// Few enough for the first-level cache: the hash is measured, not the memory.
const INPUTS: usize = 256;

struct State {
    v4: Vec<Tuple>,
    v6: Vec<Tuple>,
    bytes: Vec<[u8; 39]>,
    key: Key,
    siphasher: SipHasher24,
    std: RandomState,
}

/// A random tuple of a TCP flow.
pub(crate) fn tuple(r: &mut Random, family: Family) -> Tuple {
    let (mut src, mut dst): ([u8; 16], [u8; 16]) = (r.bytes(), r.bytes());
    if family == Family::V4 {
        src[4..].fill(0);
        dst[4..].fill(0);
    }
    let ports = r.next() as u32;
    let (sport, dport) = (ports as u16, (ports >> 16) as u16);
    Tuple { src, dst, sport, dport, family, protocol: protocol::TCP }
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut r = Random(1);
    let key: [u8; 16] = r.bytes();
    let mut state = State {
        v4: (0..INPUTS).map(|_| tuple(&mut r, Family::V4)).collect(),
        v6: (0..INPUTS).map(|_| tuple(&mut r, Family::V6)).collect(),
        bytes: (0..INPUTS).map(|_| r.bytes()).collect(),
        key: Key::from_bytes(key),
        siphasher: SipHasher24::new_with_key(&key),
        std: RandomState::new(),
    };
    rounds(plan, "hash", None, &mut state, cases())
}

fn cases() -> Vec<Case<State>> {
    let mut cases = Vec::new();
    for layout in [TupleHash::Compact, TupleHash::FourWords, TupleHash::Linux65] {
        cases.push(Case::new(format!("TupleHash::{layout:?}, IPv4"), move |s: &mut State, p| {
            Ok(hashes(&s.v4, p.operations, |t| layout.hash(&s.key, t, 0, 0)))
        }));
        cases.push(Case::new(format!("TupleHash::{layout:?}, IPv6"), move |s: &mut State, p| {
            Ok(hashes(&s.v6, p.operations, |t| layout.hash(&s.key, t, 0, 0)))
        }));
    }
    cases.push(Case::new("siphasher SipHash-2-4, 32 bytes", |s: &mut State, p| {
        Ok(hashes(&s.bytes, p.operations, |b| s.siphasher.hash(&b[..32])))
    }));
    cases.push(Case::new("siphasher SipHash-2-4, 39 bytes", |s: &mut State, p| {
        Ok(hashes(&s.bytes, p.operations, |b| s.siphasher.hash(b)))
    }));
    cases.push(Case::new("std RandomState, 32 bytes", |s: &mut State, p| {
        Ok(hashes(&s.bytes, p.operations, |b| of_bytes(&s.std, &b[..32])))
    }));
    cases.push(Case::new("std RandomState, 39 bytes", |s: &mut State, p| {
        Ok(hashes(&s.bytes, p.operations, |b| of_bytes(&s.std, b)))
    }));
    cases.push(Case::new("std RandomState, derived Hash of a tuple", |s: &mut State, p| {
        Ok(hashes(&s.v4, p.operations, |t| s.std.hash_one(t)))
    }));
    cases
}

#[inline(always)]
fn hashes<I, O>(inputs: &[I], operations: usize, hash: impl Fn(&I) -> O) -> Sample {
    each(inputs, operations, |input| {
        black_box(hash(input));
    })
}

/// Bytes alone, without the length that the `Hash` of a slice writes before them.
#[inline(always)]
fn of_bytes(state: &RandomState, bytes: &[u8]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}
