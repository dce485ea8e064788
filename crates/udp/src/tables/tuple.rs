//! The third table: by 4-tuple. It grows with the number of connected sockets.

use super::BY_TUPLE;
use crate::chain::{Chain, Iter};
use crate::sockets::Sockets;

/// Chains by the low bits of the 4-tuple hash, as many as there are sockets or more.
#[derive(Debug)]
pub(crate) struct TupleTable {
    slots: Box<[Chain]>,
    len: usize,
}

impl TupleTable {
    pub(crate) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        Self { slots: vec![Chain::EMPTY; slots].into_boxed_slice(), len: 0 }
    }

    #[inline]
    pub(crate) fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    pub(crate) fn insert(&mut self, sockets: &mut Sockets, hash: u32, index: u32) {
        if self.len >= self.slots.len() && self.slots.len() < 1 << 31 {
            self.grow(sockets);
        }
        let slot = self.slot(hash);
        self.slots[slot].push_front::<BY_TUPLE>(sockets, index);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, sockets: &mut Sockets, hash: u32, index: u32) {
        let slot = self.slot(hash);
        self.slots[slot].unlink::<BY_TUPLE>(sockets, index);
        self.len -= 1;
    }

    #[inline]
    pub(crate) fn chain<'a>(&self, sockets: &'a Sockets, hash: u32) -> Iter<'a, BY_TUPLE> {
        self.slots[self.slot(hash)].iter(sockets)
    }

    /// Doubles the slots. The order among sockets of one hash, which decides who wins, stays.
    fn grow(&mut self, sockets: &mut Sockets) {
        let mut bigger = vec![Chain::EMPTY; self.slots.len() * 2].into_boxed_slice();
        let mask = bigger.len() - 1;
        for chain in &self.slots {
            let mut next = chain.head;
            while next != crate::sockets::NONE {
                let index = next;
                next = sockets[index].links[BY_TUPLE].next;
                let slot = sockets[index].hash4 as usize & mask;
                bigger[slot].push_back::<BY_TUPLE>(sockets, index);
            }
        }
        self.slots = bigger;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::NetId;
    use crate::options::Family;
    use crate::sockets::Socket;

    #[test]
    fn growth_keeps_the_order_of_equal_hashes() {
        let mut sockets = Sockets::default();
        let mut table = TupleTable::new(4);
        for i in 0..40u32 {
            let mut socket = Socket::new(Family::V4, NetId::FIRST);
            socket.hash4 = i % 10;
            let id = sockets.insert(socket).unwrap();
            table.insert(&mut sockets, i % 10, id.index);
        }
        assert_eq!((table.len(), table.slots.len()), (40, 64));
        for hash in 0..10 {
            let chain: Vec<u32> = table.chain(&sockets, hash).collect();
            assert_eq!(chain, [hash + 30, hash + 20, hash + 10, hash]);
        }
    }
}
