//! The third table: by 4-tuple. It grows with the number of connected sockets, a slot at a time.

use crate::chain::Walk;
use crate::entry::NIL;
use crate::segments::Segments;
use crate::store::Shared;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Chains by the low bits of the 4-tuple hash, twice as many as sockets or more (linear hashing, W.
/// Litwin, 1980): with every two slots' worth of sockets one slot is split into itself and a new one,
/// so no operation and no look-up ever waits for more than one chain to be moved.
#[derive(Debug)]
pub(crate) struct TupleTable {
    heads: Segments<AtomicU64>,
    slots: AtomicU32,
    len: AtomicU32,
}

/// The slot of a hash among `slots`.
#[inline]
const fn slot_among(hash: u32, slots: u32) -> u32 {
    // The slots of the doubling that is under way, as far as they are there, else those before it.
    let wide = hash & (u32::MAX >> (slots - 1).leading_zeros());
    if wide < slots { wide } else { hash & (u32::MAX >> (slots - 1).leading_zeros() >> 1) }
}

impl TupleTable {
    /// More than one slot.
    pub(crate) fn new(slots: u32) -> Self {
        let heads = Segments::default();
        for slot in 0..slots {
            heads.ensure(slot, || AtomicU64::new(NIL));
        }
        Self { heads, slots: AtomicU32::new(slots), len: AtomicU32::new(0) }
    }

    /// How many slots there are. A walk that misses after a change of it starts again.
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        // Pairs with the store in `grown`: the new slot's chain is whole before it is walked.
        self.slots.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn slot(hash: u32, slots: u32) -> u32 {
        slot_among(hash, slots)
    }

    /// A slot's head.
    #[inline]
    pub(crate) fn head(&self, slot: u32) -> Option<&AtomicU64> {
        self.heads.get(slot)
    }

    #[inline]
    pub(crate) fn walk<'a>(&self, shared: &'a Shared, slot: u32) -> Option<Walk<'a>> {
        Some(Walk::new(&shared.entries, self.heads.get(slot)?))
    }

    /// Writer: one socket more, or less.
    pub(crate) fn add_len(&self, n: i32) {
        self.len.store(self.len.load(Ordering::Relaxed).wrapping_add_signed(n), Ordering::Relaxed);
    }

    /// Writer: the slot that is to be split into itself and the next new one, if there are too few.
    pub(crate) fn to_split(&self) -> Option<(u32, u32)> {
        let slots = self.slots.load(Ordering::Relaxed);
        if self.len.load(Ordering::Relaxed) <= slots / 2 || slots >= 1 << 31 {
            return None;
        }
        self.heads.ensure(slots, || AtomicU64::new(NIL))?;
        let low = 1 << (31 - slots.leading_zeros());
        Some((slots - low, slots))
    }

    /// Writer: the new slot is filled.
    pub(crate) fn grown(&self) {
        self.slots.store(self.slots.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        self.heads.bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Splitting moves a hash to the new slot or leaves it where it was.
    #[test]
    fn a_split_concerns_one_slot() {
        for slots in 2..200u32 {
            let low = 1 << (31 - slots.leading_zeros());
            for hash in (0..4096).chain([u32::MAX, 1 << 31]) {
                let (before, after) = (slot_among(hash, slots), slot_among(hash, slots + 1));
                assert!(before < slots);
                assert!(after == before || (after == slots && before == slots - low));
            }
        }
    }
}
