//! The second table: by port and local address, with the counter that says whether a look-up in the
//! third can succeed.

use super::BY_ADDRESS;
use crate::chain::{Chain, Iter};
use crate::sockets::Sockets;

/// A chain, and how many sockets of this slot's (port, address) pairs are in the third table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressSlot {
    chain: Chain,
    #[cfg(feature = "hash4")]
    tuples: u32,
}

/// `slots` chains, a power of two.
#[derive(Debug)]
pub(crate) struct AddressTable {
    slots: Box<[AddressSlot]>,
}

impl AddressTable {
    pub(crate) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        let slot = AddressSlot {
            chain: Chain::EMPTY,
            #[cfg(feature = "hash4")]
            tuples: 0,
        };
        Self { slots: vec![slot; slots].into_boxed_slice() }
    }

    #[inline]
    pub(crate) fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    pub(crate) fn count(&self, hash: u32) -> u32 {
        self.slots[self.slot(hash)].chain.count
    }

    pub(crate) fn insert(&mut self, sockets: &mut Sockets, hash: u32, index: u32, back: bool) {
        let slot = self.slot(hash);
        let chain = &mut self.slots[slot].chain;
        if back {
            chain.push_back::<BY_ADDRESS>(sockets, index);
        } else {
            chain.push_front::<BY_ADDRESS>(sockets, index);
        }
    }

    pub(crate) fn remove(&mut self, sockets: &mut Sockets, hash: u32, index: u32) {
        let slot = self.slot(hash);
        self.slots[slot].chain.unlink::<BY_ADDRESS>(sockets, index);
    }

    #[inline]
    pub(crate) fn chain<'a>(&self, sockets: &'a Sockets, hash: u32) -> Iter<'a, BY_ADDRESS> {
        self.slots[self.slot(hash)].chain.iter(sockets)
    }

    /// Sockets in the third table whose port and address fall into this slot.
    #[cfg(feature = "hash4")]
    #[inline]
    pub(crate) fn tuples(&self, hash: u32) -> u32 {
        self.slots[self.slot(hash)].tuples
    }

    #[cfg(feature = "hash4")]
    pub(crate) fn add_tuple(&mut self, hash: u32) {
        let slot = self.slot(hash);
        self.slots[slot].tuples += 1;
    }

    #[cfg(feature = "hash4")]
    pub(crate) fn drop_tuple(&mut self, hash: u32) {
        let slot = self.slot(hash);
        self.slots[slot].tuples -= 1;
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_slot() {
        assert_eq!(size_of::<AddressSlot>(), if cfg!(feature = "hash4") { 16 } else { 12 });
    }
}
