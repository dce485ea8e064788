//! The tuple index beside hashbrown's table, under the same hash.
//!
//! Both hold slot numbers and compare the tuple in the slot, as a tracker's table does; both are made with room for
//! their entries.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use fourtuple::hash::SipHash24;
use fourtuple::packet::Family;
use fourtuple::table::Index;
use fourtuple::{Key, Tuple};
use hashbrown::HashTable;

use crate::hash::tuple;
use crate::measure::{Case, Plan, Row, Sample, rounds};
use crate::random::Random;

/// What both tables can do.
trait Slots: Sized + 'static {
    const NAME: &'static str;

    fn with_capacity(entries: usize) -> Self;
    fn len(&self) -> usize;
    fn find(&self, all: &Tuples, tuple: &Tuple) -> Option<u32>;
    fn remove(&mut self, all: &Tuples, slot: u32) -> bool;
    fn insert(&mut self, all: &Tuples, slot: u32) -> bool;
}

impl Slots for Index {
    const NAME: &'static str = "Index";

    fn with_capacity(entries: usize) -> Self {
        Self::with_capacity(entries)
    }

    fn len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn find(&self, all: &Tuples, tuple: &Tuple) -> Option<u32> {
        self.find(all.hash(tuple) as u32, |slot| all.by_slot[slot as usize] == *tuple)
    }

    #[inline(always)]
    fn remove(&mut self, all: &Tuples, slot: u32) -> bool {
        self.remove(all.hash_of(slot) as u32, slot)
    }

    #[inline(always)]
    fn insert(&mut self, all: &Tuples, slot: u32) -> bool {
        self.insert(all.hash_of(slot) as u32, slot).is_ok()
    }
}

impl Slots for HashTable<u32> {
    const NAME: &'static str = "hashbrown HashTable";

    fn with_capacity(entries: usize) -> Self {
        Self::with_capacity(entries)
    }

    fn len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn find(&self, all: &Tuples, tuple: &Tuple) -> Option<u32> {
        self.find(all.hash(tuple), |&slot| all.by_slot[slot as usize] == *tuple).copied()
    }

    #[inline(always)]
    fn remove(&mut self, all: &Tuples, slot: u32) -> bool {
        match self.find_entry(all.hash_of(slot), |&there| there == slot) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    #[inline(always)]
    fn insert(&mut self, all: &Tuples, slot: u32) -> bool {
        self.insert_unique(all.hash_of(slot), slot, |&slot| all.hash_of(slot));
        true
    }
}

/// The tuples by slot, and the secret they are hashed under.
struct Tuples {
    key: Key,
    by_slot: Vec<Tuple>,
}

impl Tuples {
    /// The whole of what [`TupleHash::Compact`](fourtuple::TupleHash) makes of an IPv4 tuple: the index takes the low
    /// half, hashbrown needs the high bits too.
    #[inline(always)]
    fn hash(&self, t: &Tuple) -> u64 {
        let word = |a: &[u8; 16]| u64::from(u32::from_le_bytes([a[0], a[1], a[2], a[3]]));
        let tail =
            u64::from(t.sport) | u64::from(t.dport) << 16 | u64::from(t.protocol) << 32 | 15 << 56;
        SipHash24::blocks(&self.key, &[word(&t.src) | word(&t.dst) << 32], tail)
    }

    #[inline(always)]
    fn hash_of(&self, slot: u32) -> u64 {
        self.hash(&self.by_slot[slot as usize])
    }
}

/// A table, and which slots are in it and which are not.
struct Filled<T> {
    table: T,
    inside: Vec<u32>,
    outside: Vec<u32>,
}

struct State {
    r: Random,
    all: Tuples,
    index: Filled<Index>,
    peer: Filled<HashTable<u32>>,
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &entries in plan.entries {
        let mut r = Random(entries as u64);
        let key = Key::from_bytes(r.bytes());
        let slots = entries + plan.operations;
        let by_slot = (0..slots).map(|_| tuple(&mut r, Family::V4)).collect();
        let all = Tuples { key, by_slot };
        let index = Filled::new(&all, entries)?;
        let peer = Filled::new(&all, entries)?;
        let mut state = State { r, all, index, peer };
        rows.extend(rounds(plan, "table", Some(entries), &mut state, cases())?);
        state.index.check(entries)?;
        state.peer.check(entries)?;
    }
    Ok(rows)
}

fn cases() -> Vec<Case<State>> {
    let mut cases = Vec::new();
    for (there, name) in [(true, "find, there"), (false, "find, not there")] {
        cases.push(Case::new(format!("{}, {name}", Index::NAME), move |s: &mut State, p| {
            s.index.find(&s.all, &mut s.r, p, there)
        }));
        cases.push(Case::new(
            format!("{}, {name}", HashTable::<u32>::NAME),
            move |s: &mut State, p| s.peer.find(&s.all, &mut s.r, p, there),
        ));
    }
    cases.push(Case::new(format!("{}, remove and insert", Index::NAME), |s: &mut State, p| {
        s.index.change(&s.all, &mut s.r, p)
    }));
    cases.push(Case::new(
        format!("{}, remove and insert", HashTable::<u32>::NAME),
        |s: &mut State, p| s.peer.change(&s.all, &mut s.r, p),
    ));
    cases
}

impl<T: Slots> Filled<T> {
    fn new(all: &Tuples, entries: usize) -> Result<Self> {
        let mut table = T::with_capacity(entries);
        for slot in 0..entries as u32 {
            ensure!(table.insert(all, slot), "{} refused slot {slot}", T::NAME);
        }
        let inside = (0..entries as u32).collect();
        let outside = (entries as u32..all.by_slot.len() as u32).collect();
        Ok(Self { table, inside, outside })
    }

    fn find(&self, all: &Tuples, r: &mut Random, plan: &Plan, there: bool) -> Result<Sample> {
        // Copies, as they would come out of packets: reading the question costs no miss, finding the answer may.
        let questions: Vec<Tuple> = (0..plan.operations)
            .map(|_| {
                if there {
                    all.by_slot[self.inside[r.below(self.inside.len())] as usize]
                } else {
                    tuple(r, Family::V4)
                }
            })
            .collect();
        let mut found = 0;
        let start = Instant::now();
        for question in &questions {
            found += usize::from(black_box(self.table.find(all, black_box(question))).is_some());
        }
        let elapsed = start.elapsed();
        let expected = if there { questions.len() } else { 0 };
        ensure!(found == expected, "{}: {found} found, not {expected}", T::NAME);
        Ok(Sample { operations: questions.len(), elapsed })
    }

    /// An entry goes, another comes: one operation.
    fn change(&mut self, all: &Tuples, r: &mut Random, plan: &Plan) -> Result<Sample> {
        let pairs: Vec<(u32, u32)> = self.outside[..plan.operations]
            .iter_mut()
            .map(|outside| {
                let place = r.below(self.inside.len());
                std::mem::swap(&mut self.inside[place], outside);
                (*outside, self.inside[place])
            })
            .collect();
        let mut done = 0;
        let start = Instant::now();
        for &(goes, comes) in &pairs {
            let gone = self.table.remove(all, black_box(goes));
            done += usize::from(gone && self.table.insert(all, black_box(comes)));
        }
        let elapsed = start.elapsed();
        ensure!(done == pairs.len(), "{}: {done} of {} exchanges", T::NAME, pairs.len());
        Ok(Sample { operations: pairs.len(), elapsed })
    }

    fn check(&self, entries: usize) -> Result<()> {
        ensure!(self.table.len() == entries, "{} lost or gained entries", T::NAME);
        Ok(())
    }
}
