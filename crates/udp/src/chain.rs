//! Chains through the slab: doubly linked, newest first, by index.

use crate::sockets::{Link, NONE, Sockets};

/// The two ends of a chain and its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) count: u32,
}

impl Chain {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, count: 0 };

    /// Links `index` in as the first of list `L`.
    pub(crate) fn push_front<const L: usize>(&mut self, sockets: &mut Sockets, index: u32) {
        sockets[index].links[L] = Link { prev: NONE, next: self.head };
        if self.head == NONE {
            self.tail = index;
        } else {
            let head = self.head;
            sockets[head].links[L].prev = index;
        }
        self.head = index;
        self.count += 1;
    }

    /// Links `index` in as the last of list `L`.
    pub(crate) fn push_back<const L: usize>(&mut self, sockets: &mut Sockets, index: u32) {
        sockets[index].links[L] = Link { prev: self.tail, next: NONE };
        if self.tail == NONE {
            self.head = index;
        } else {
            let tail = self.tail;
            sockets[tail].links[L].next = index;
        }
        self.tail = index;
        self.count += 1;
    }

    /// Takes `index`, which must be in this chain, out of list `L`.
    pub(crate) fn unlink<const L: usize>(&mut self, sockets: &mut Sockets, index: u32) {
        let Link { prev, next } = sockets[index].links[L];
        if prev == NONE {
            debug_assert_eq!(self.head, index);
            self.head = next;
        } else {
            sockets[prev].links[L].next = next;
        }
        if next == NONE {
            debug_assert_eq!(self.tail, index);
            self.tail = prev;
        } else {
            sockets[next].links[L].prev = prev;
        }
        sockets[index].links[L] = Link::OUT;
        self.count -= 1;
    }

    /// The chain's sockets, first to last.
    #[inline]
    pub(crate) fn iter<'a, const L: usize>(&self, sockets: &'a Sockets) -> Iter<'a, L> {
        Iter { sockets, next: self.head }
    }
}

/// A walk along one chain.
#[derive(Debug)]
pub(crate) struct Iter<'a, const L: usize> {
    sockets: &'a Sockets,
    next: u32,
}

impl<const L: usize> Iterator for Iter<'_, L> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let index = self.next;
        if index == NONE {
            return None;
        }
        self.next = self.sockets[index].links[L].next;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::NetId;
    use crate::options::Family;
    use crate::sockets::Socket;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_as_a_deque(ops in prop::collection::vec((0u8..3, 0u32..12), 0..80)) {
            let mut sockets = Sockets::default();
            for _ in 0..12 {
                sockets.insert(Socket::new(Family::V4, NetId::FIRST)).unwrap();
            }
            let mut chain = Chain::EMPTY;
            let mut model = VecDeque::new();
            for (op, i) in ops {
                match (op, model.contains(&i)) {
                    (0, false) => { chain.push_front::<0>(&mut sockets, i); model.push_front(i); }
                    (1, false) => { chain.push_back::<0>(&mut sockets, i); model.push_back(i); }
                    (2, true) => { chain.unlink::<0>(&mut sockets, i); model.retain(|&x| x != i); }
                    _ => {}
                }
                prop_assert!(chain.iter::<0>(&sockets).eq(model.iter().copied()));
                prop_assert_eq!(chain.count as usize, model.len());
                let real = |i: u32| Some(i).filter(|&i| i != NONE);
                let back: Vec<u32> =
                    std::iter::successors(real(chain.tail), |&i| real(sockets[i].links[0].prev))
                        .collect();
                prop_assert!(back.iter().rev().eq(model.iter()));
            }
        }
    }
}
