//! The first table: by port. Every socket with a port is in it, from its bind to its close.

use crate::entry::{Link, NIL, View, index_of, link};
use crate::sockets::NONE;
use crate::store::{Shared, Sockets};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

#[derive(Debug)]
struct PortSlot {
    head: AtomicU64,
    count: AtomicU32,
    /// The last socket. For writers only.
    tail: AtomicU32,
}

/// `slots` chains, a power of two; neighbouring ports stand in neighbouring slots.
#[derive(Debug)]
pub(crate) struct PortTable {
    slots: Box<[PortSlot]>,
}

/// One step along the chain of a port.
#[derive(Debug)]
pub(crate) enum Seated {
    /// A socket.
    At(View),
    /// One that was closed.
    Gone,
    /// The chain is read to its end.
    End,
    /// The socket to come stands elsewhere by now: the walk must start again.
    Torn,
}

/// A walk along one chain.
#[derive(Debug)]
pub(crate) struct PortWalk<'a> {
    shared: &'a Shared,
    next: Link,
}

impl PortWalk<'_> {
    pub(crate) fn step(&mut self) -> Seated {
        if self.next == NIL {
            return Seated::End;
        }
        let (index, stay) = (index_of(self.next), self.next as u32);
        let Some(seat) = self.shared.seats.get(index) else { return Seated::Torn };
        if seat.stay.load(Ordering::Acquire) != stay {
            return Seated::Torn;
        }
        let view = self.shared.view(index);
        let next = seat.next.load(Ordering::Acquire);
        // A link of a later stay was stored after that stay's number.
        fence(Ordering::Acquire);
        if seat.stay.load(Ordering::Relaxed) != stay {
            return Seated::Torn;
        }
        self.next = next;
        view.map_or(Seated::Gone, Seated::At)
    }
}

impl PortTable {
    pub(crate) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        let slot = || PortSlot {
            head: AtomicU64::new(NIL),
            count: AtomicU32::new(0),
            tail: AtomicU32::new(NONE),
        };
        Self { slots: (0..slots).map(|_| slot()).collect() }
    }

    #[inline]
    pub(crate) fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn count(&self, hash: u32) -> u32 {
        self.slots[self.slot(hash)].count.load(Ordering::Relaxed)
    }

    pub(crate) fn walk<'a>(&self, shared: &'a Shared, hash: u32) -> PortWalk<'a> {
        let head = self.slots[self.slot(hash)].head.load(Ordering::Acquire);
        PortWalk { shared, next: head }
    }

    /// The chain's sockets, for a writer.
    pub(crate) fn chain<'a>(&self, shared: &'a Shared, hash: u32) -> impl Iterator<Item = View> {
        let mut walk: PortWalk<'a> = self.walk(shared, hash);
        std::iter::from_fn(move || {
            loop {
                match walk.step() {
                    Seated::At(view) => return Some(view),
                    Seated::Gone => {}
                    Seated::End | Seated::Torn => return None,
                }
            }
        })
    }

    pub(crate) fn insert(
        &self,
        shared: &Shared,
        sockets: &mut Sockets,
        hash: u32,
        index: u32,
        back: bool,
    ) {
        let slot = &self.slots[self.slot(hash)];
        let Some(seat) = shared.seats.get(index) else { return };
        let stay = seat.stay.load(Ordering::Relaxed).wrapping_add(1);
        seat.stay.store(stay, Ordering::Relaxed);
        // Pairs with the fence in `PortWalk::step`.
        fence(Ordering::Release);
        let own = link(index, stay);
        let (head, tail) = (slot.head.load(Ordering::Relaxed), slot.tail.load(Ordering::Relaxed));
        slot.count.store(slot.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if head == NIL {
            slot.tail.store(index, Ordering::Relaxed);
        }
        if back && head != NIL {
            seat.next.store(NIL, Ordering::Relaxed);
            sockets.cold_mut(index).port_prev = tail;
            slot.tail.store(index, Ordering::Relaxed);
            if let Some(last) = shared.seats.get(tail) {
                last.next.store(own, Ordering::Release);
            }
            return;
        }
        seat.next.store(head, Ordering::Relaxed);
        sockets.cold_mut(index).port_prev = NONE;
        if head != NIL {
            sockets.cold_mut(index_of(head)).port_prev = index;
        }
        slot.head.store(own, Ordering::Release);
    }

    /// Takes a socket out. Its own link stays, for readers who stand on it.
    pub(crate) fn remove(&self, shared: &Shared, sockets: &mut Sockets, hash: u32, index: u32) {
        let slot = &self.slots[self.slot(hash)];
        let Some(seat) = shared.seats.get(index) else { return };
        let next = seat.next.load(Ordering::Relaxed);
        let prev = sockets.cold(index).port_prev;
        if next == NIL {
            slot.tail.store(prev, Ordering::Relaxed);
        } else {
            sockets.cold_mut(index_of(next)).port_prev = prev;
        }
        match shared.seats.get(prev) {
            Some(before) if prev != NONE => before.next.store(next, Ordering::Release),
            _ => slot.head.store(next, Ordering::Release),
        }
        slot.count.store(slot.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}
