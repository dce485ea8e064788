//! The slab against a map.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;

use fourtuple_table::{Slab, SlotId};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Insert(u64),
    Fill(u16),
    Remove(u32),
    RemoveNth(u16),
    RemoveById(u16),
    Change(u16, u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => any::<u64>().prop_map(Op::Insert),
        1 => (0u16..6000).prop_map(Op::Fill),
        2 => prop_oneof![0u32..10_000, Just(u32::MAX), any::<u32>()].prop_map(Op::Remove),
        6 => any::<u16>().prop_map(Op::RemoveNth),
        3 => any::<u16>().prop_map(Op::RemoveById),
        3 => (any::<u16>(), any::<u64>()).prop_map(|(at, value)| Op::Change(at, value)),
    ]
}

#[derive(Default)]
struct Model {
    taken: BTreeMap<u32, (u32, u64)>,
    generations: BTreeMap<u32, u32>,
    /// Freed slots, the last on top.
    free: Vec<u32>,
    /// Every id ever given, with whether it still stands.
    ids: Vec<SlotId>,
}

impl Model {
    fn insert(&mut self, value: u64, limit: usize) -> Option<SlotId> {
        if self.taken.len() >= limit {
            return None;
        }
        let index = self.free.pop().unwrap_or(self.taken.len() as u32);
        let generation = self.generations.get(&index).copied().unwrap_or(0);
        self.taken.insert(index, (generation, value));
        self.ids.push(SlotId { index, generation });
        self.ids.last().copied()
    }

    fn remove(&mut self, index: u32) -> Option<u64> {
        let (generation, value) = self.taken.remove(&index)?;
        self.generations.insert(index, generation + 1);
        self.free.push(index);
        Some(value)
    }

    fn get(&self, id: SlotId) -> Option<u64> {
        self.taken.get(&id.index).filter(|t| t.0 == id.generation).map(|t| t.1)
    }

    fn nth(&self, at: u16) -> Option<u32> {
        let at = usize::from(at).checked_rem(self.taken.len())?;
        self.taken.keys().nth(at).copied()
    }
}

fn apply(slab: &mut Slab<u64>, model: &mut Model, op: &Op) {
    match *op {
        Op::Insert(value) => {
            let expected = model.insert(value, slab.limit());
            assert_eq!(slab.insert(value).map_err(|full| full.0), expected.ok_or(value));
        }
        Op::Fill(n) => (0..u64::from(n)).for_each(|value| apply(slab, model, &Op::Insert(value))),
        Op::Remove(index) => assert_eq!(slab.remove(index), model.remove(index)),
        Op::RemoveNth(at) => {
            if let Some(index) = model.nth(at) {
                assert_eq!(slab.remove(index), model.remove(index));
            }
        }
        Op::RemoveById(at) => {
            let Some(at) = usize::from(at).checked_rem(model.ids.len()) else {
                return;
            };
            let id = model.ids[at];
            let expected = model.get(id).and_then(|_| model.remove(id.index));
            assert_eq!(slab.remove_by_id(id), expected);
        }
        Op::Change(at, value) => {
            let Some(index) = model.nth(at) else { return };
            *slab.get_mut(index).unwrap() = value;
            model.taken.get_mut(&index).unwrap().1 = value;
            let id = slab.id(index).unwrap();
            assert_eq!(slab.get_mut_by_id(id), Some(&mut value.clone()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn agrees_with_a_map(
        limit in prop_oneof![0usize..50, Just(4096), Just(usize::MAX)],
        ops in prop::collection::vec(op(), 0..100),
    ) {
        let (mut slab, mut model) = (Slab::with_limit(limit), Model::default());
        for op in &ops {
            apply(&mut slab, &mut model, op);
            prop_assert_eq!(slab.len(), model.taken.len());
        }
        for &id in &model.ids {
            prop_assert_eq!(slab.get_by_id(id).copied(), model.get(id));
            prop_assert_eq!(slab.get(id.index).copied(), model.taken.get(&id.index).map(|t| t.1));
        }
        prop_assert_eq!(slab.iter().len(), model.taken.len());
        let all: Vec<_> = slab.iter().map(|(id, &v)| (id.index, (id.generation, v))).collect();
        prop_assert_eq!(all, model.taken.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn entries_never_move_and_memory_follows_the_peak() {
    let mut slab = Slab::new();
    assert_eq!(slab.memory(), 0);
    let first = slab.insert([0u64; 4]).unwrap();
    let address = std::ptr::from_ref(slab.get(first.index).unwrap());
    let ids: Vec<_> = (1..100_000).map(|i| slab.insert([i; 4]).unwrap()).collect();
    assert!(std::ptr::eq(address, slab.get(first.index).unwrap()));
    let peak = slab.memory();
    assert!((100_000 * 40..100_000 * 56).contains(&peak), "{peak}");
    for round in 0..3 {
        ids.iter().for_each(|id| assert!(slab.remove(id.index).is_some()));
        assert_eq!((slab.len(), slab.memory()), (1, peak), "round {round}");
        ids.iter().for_each(|_| assert!(slab.insert([9; 4]).is_ok()));
    }
    assert_eq!(slab.memory(), peak);
}

#[test]
fn entries_are_dropped_once() {
    let value = std::rc::Rc::new(());
    let mut slab = Slab::with_limit(3);
    let ids: Vec<_> = (0..3).map(|_| slab.insert(value.clone()).unwrap()).collect();
    drop(slab.insert(value.clone()).unwrap_err());
    assert_eq!(std::rc::Rc::strong_count(&value), 4);
    slab.remove(ids[1].index);
    assert_eq!(std::rc::Rc::strong_count(&value), 3);
    drop(slab);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}
