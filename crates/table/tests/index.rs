//! The index against a multiset of pairs.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;

use fourtuple_table::{Index, InsertError, MAX_PROBE};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Insert(u32, u32),
    /// Many at once, so that a sequence reaches several growths.
    Batch(u32, u16),
    Remove(u32, u32),
    /// Remove the n-th pair of the model.
    RemoveNth(u16),
    RemoveMany(u16, u16),
    Find(u32),
}

/// Hashes that meet: few buckets, both ends of the table, and everywhere.
fn hash() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => any::<u32>(),
        2 => (0u32..4).prop_map(|n| n * 0x4000_0000),
        2 => (0u32..16).prop_map(|n| u32::MAX - n),
        1 => 0u32..4,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (hash(), 0u32..1000).prop_map(|(h, s)| Op::Insert(h, s)),
        2 => (any::<u32>(), 1u16..300).prop_map(|(h, n)| Op::Batch(h, n)),
        2 => (hash(), 0u32..1000).prop_map(|(h, s)| Op::Remove(h, s)),
        6 => any::<u16>().prop_map(Op::RemoveNth),
        1 => (any::<u16>(), 1u16..300).prop_map(|(at, n)| Op::RemoveMany(at, n)),
        3 => hash().prop_map(Op::Find),
    ]
}

#[derive(Default)]
struct Model(BTreeMap<(u32, u32), usize>);

impl Model {
    fn insert(&mut self, pair: (u32, u32)) {
        *self.0.entry(pair).or_default() += 1;
    }

    fn remove(&mut self, pair: (u32, u32)) -> bool {
        let Some(count) = self.0.get_mut(&pair) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&pair);
        }
        true
    }

    fn nth(&self, at: u16) -> Option<(u32, u32)> {
        let at = usize::from(at).checked_rem(self.0.len())?;
        self.0.keys().nth(at).copied()
    }

    fn pairs(&self) -> Vec<(u32, u32)> {
        self.0.iter().flat_map(|(&pair, &n)| std::iter::repeat_n(pair, n)).collect()
    }
}

/// All that a search under `hash` offers to `eq`, in order of slots.
fn offered(index: &Index, hash: u32) -> Vec<u32> {
    let mut slots = Vec::new();
    let found = index.find(hash, |slot| {
        slots.push(slot);
        false
    });
    assert_eq!(found, None);
    slots.sort_unstable();
    slots
}

fn same(index: &Index, model: &Model) {
    let mut pairs: Vec<_> = index.iter().collect();
    pairs.sort_unstable();
    assert_eq!(pairs, model.pairs());
    assert_eq!(index.len(), pairs.len());
    assert_eq!(index.is_empty(), pairs.is_empty());
}

fn insert(index: &mut Index, model: &mut Model, hash: u32, slot: u32) {
    match index.insert(hash, slot) {
        Ok(()) => model.insert((hash, slot)),
        Err(InsertError::ProbeLimit { probed }) => assert!(probed >= MAX_PROBE),
        Err(error) => panic!("{error}"),
    }
}

fn apply(index: &mut Index, model: &mut Model, op: &Op) {
    match *op {
        Op::Insert(hash, slot) => insert(index, model, hash, slot),
        Op::Batch(seed, n) => {
            for i in 0..u32::from(n) {
                let hash = seed.wrapping_add(i).wrapping_mul(0x9e37_79b9);
                insert(index, model, hash, i);
            }
        }
        Op::Remove(hash, slot) => {
            assert_eq!(index.remove(hash, slot), model.remove((hash, slot)));
        }
        Op::RemoveNth(at) => {
            if let Some((hash, slot)) = model.nth(at) {
                assert!(index.remove(hash, slot));
                model.remove((hash, slot));
            }
        }
        Op::RemoveMany(at, n) => (0..n).for_each(|_| apply(index, model, &Op::RemoveNth(at))),
        Op::Find(hash) => {
            let slots: Vec<u32> =
                model.pairs().into_iter().filter(|&(h, _)| h == hash).map(|(_, s)| s).collect();
            assert_eq!(offered(index, hash), slots);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_a_multiset(capacity in 0usize..200, ops in prop::collection::vec(op(), 0..120)) {
        let (mut index, mut model) = (Index::with_capacity(capacity), Model::default());
        for op in &ops {
            apply(&mut index, &mut model, op);
        }
        same(&index, &model);
        // And each pair can be found by itself, in the end state of moving that the run left.
        for &(hash, slot) in model.0.keys() {
            prop_assert_eq!(index.find(hash, |s| s == slot), Some(slot));
        }
        for (hash, slot) in model.pairs() {
            prop_assert!(index.remove(hash, slot));
        }
        prop_assert!(index.is_empty() && index.iter().next().is_none());
    }

    #[test]
    fn any_capacity_and_any_numbers_do_no_harm(
        capacity in 0usize..10_000, hash in any::<u32>(), slot in prop_oneof![Just(u32::MAX), any::<u32>()],
    ) {
        let mut index = Index::with_capacity(capacity);
        prop_assert!(index.capacity() >= capacity);
        let inserted = index.insert(hash, slot);
        prop_assert_eq!(inserted.is_ok(), slot != u32::MAX);
        prop_assert_eq!(index.find(hash, |_| true), inserted.ok().map(|()| slot));
        prop_assert_eq!(index.remove(hash, slot), inserted.is_ok());
    }
}

/// Chains that cross the end of the table, filled and emptied in the order that hurts most.
#[test]
fn chains_round_the_end_survive_removal_in_any_order() {
    for step in [1usize, 7, 13, 64, 101] {
        let mut index = Index::with_capacity(400);
        let hash = |i: usize| {
            if i.is_multiple_of(3) { u32::MAX } else { u32::MAX - (i as u32 % 40) * 0x0100_0000 }
        };
        let n = 307;
        (0..n).for_each(|i| index.insert(hash(i), i as u32).unwrap());
        let mut gone = vec![false; n];
        for i in 0..n {
            // A full cycle, as n is a prime.
            let i = i * step % n;
            gone[i] = true;
            assert!(index.remove(hash(i), i as u32));
            for (j, gone) in gone.iter().enumerate() {
                let found = index.find(hash(j), |slot| slot == j as u32).is_some();
                assert_eq!(found, !gone, "step {step}, removed {i}, looked for {j}");
            }
        }
    }
}
