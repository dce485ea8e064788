//! The second table: by port and local address, with the counter that says whether a look-up in the
//! third can succeed.

use crate::entry::NIL;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A chain, and what look-ups want to know beside it.
#[derive(Debug)]
pub(crate) struct AddressSlot {
    pub(crate) head: AtomicU64,
    /// How many sockets of this slot's (port, address) pairs are in the third table.
    #[cfg(feature = "hash4")]
    tuples: AtomicU32,
    /// Counts the moves of sockets from or to this slot. A look-up during which it changed may have
    /// missed a socket at both its places.
    moves: AtomicU32,
    /// Sockets in the chain. Read by writers only.
    count: AtomicU32,
    /// The chain's last entry. For writers only.
    tail: AtomicU32,
}

/// `slots` chains, a power of two.
#[derive(Debug)]
pub(crate) struct AddressTable {
    slots: Box<[AddressSlot]>,
}

impl AddressTable {
    pub(crate) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        let slot = || AddressSlot {
            head: AtomicU64::new(NIL),
            #[cfg(feature = "hash4")]
            tuples: AtomicU32::new(0),
            moves: AtomicU32::new(0),
            count: AtomicU32::new(0),
            tail: AtomicU32::new(crate::sockets::NONE),
        };
        Self { slots: (0..slots).map(|_| slot()).collect() }
    }

    #[inline]
    pub(crate) fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    #[inline]
    pub(crate) fn at(&self, hash: u32) -> &AddressSlot {
        &self.slots[hash as usize & (self.slots.len() - 1)]
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

impl AddressSlot {
    /// Sockets in the third table whose port and address fall into this slot.
    #[cfg(feature = "hash4")]
    #[inline]
    pub(crate) fn tuples(&self) -> u32 {
        self.tuples.load(Ordering::Acquire)
    }

    /// Before the look-up that [`moved_since`](Self::moved_since) is asked about.
    #[inline]
    pub(crate) fn moves(&self) -> u32 {
        // Pairs with `moved`: who reads the count of a move finds the socket at its new place.
        self.moves.load(Ordering::Acquire)
    }

    /// Whether a socket moved since `moves` was read. If one was missed at its old place because it
    /// had been taken out, that was read by an acquiring load, and so the count is seen here.
    #[inline]
    pub(crate) fn moved_since(&self, moves: u32) -> bool {
        self.moves.load(Ordering::Relaxed) != moves
    }

    /// Writer: between a socket's entry into its new place and its leaving the old one.
    pub(crate) fn moved(&self) {
        bump(&self.moves, 1);
    }

    #[cfg(feature = "hash4")]
    pub(crate) fn add_tuple(&self) {
        bump(&self.tuples, 1);
    }

    #[cfg(feature = "hash4")]
    pub(crate) fn drop_tuple(&self) {
        bump(&self.tuples, u32::MAX);
    }

    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Writer: one more in the chain, or one less.
    pub(crate) fn add_count(&self, n: u32) {
        bump(&self.count, n);
    }

    pub(crate) fn tail(&self) -> u32 {
        self.tail.load(Ordering::Relaxed)
    }

    pub(crate) fn set_tail(&self, tail: u32) {
        self.tail.store(tail, Ordering::Relaxed);
    }
}

/// Adds to a number that one writer at a time changes.
fn bump(number: &AtomicU32, n: u32) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_slot() {
        // The counter of the third table's sockets uses what would be padding.
        assert_eq!(size_of::<AddressSlot>(), 24);
    }
}
