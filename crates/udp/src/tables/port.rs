//! The first table: by port. Every socket with a port is in it.

use super::BY_PORT;
use crate::chain::{Chain, Iter};
use crate::sockets::Sockets;

/// `slots` chains, a power of two; neighbouring ports stand in neighbouring slots.
#[derive(Debug)]
pub(crate) struct PortTable {
    slots: Box<[Chain]>,
}

impl PortTable {
    pub(crate) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        Self { slots: vec![Chain::EMPTY; slots].into_boxed_slice() }
    }

    #[inline]
    pub(crate) fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn count(&self, hash: u32) -> u32 {
        self.slots[self.slot(hash)].count
    }

    pub(crate) fn insert(&mut self, sockets: &mut Sockets, hash: u32, index: u32, back: bool) {
        let slot = self.slot(hash);
        if back {
            self.slots[slot].push_back::<BY_PORT>(sockets, index);
        } else {
            self.slots[slot].push_front::<BY_PORT>(sockets, index);
        }
    }

    pub(crate) fn remove(&mut self, sockets: &mut Sockets, hash: u32, index: u32) {
        let slot = self.slot(hash);
        self.slots[slot].unlink::<BY_PORT>(sockets, index);
    }

    pub(crate) fn chain<'a>(&self, sockets: &'a Sockets, hash: u32) -> Iter<'a, BY_PORT> {
        self.slots[self.slot(hash)].iter(sockets)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}
