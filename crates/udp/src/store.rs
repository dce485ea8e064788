//! Where sockets are kept: entries and seats for everybody, the rest for the writer.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

#[cfg(feature = "hash4")]
use crate::chain::present;
use crate::chain::{Ends, Entries};
use crate::entry::{Link, NIL, Seat, View, index_of};
use crate::net::NetId;
use crate::segments::Segments;
use crate::sockets::{Flags, Membership, NONE, Rare, Socket, SocketId};
use crate::sync::{AtomicU64, Ordering};

/// What look-ups read of sockets.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) entries: Entries,
    pub(crate) seats: Segments<Seat>,
    /// The IPv4 halves of the sockets with [`Flags::ODD4`].
    odd: Segments<AtomicU64>,
    /// Multicast memberships of the sockets with [`Flags::MEMBER`], with the socket's generation.
    filters: Segments<ArcSwapOption<(u32, Vec<Membership>)>>,
}

impl Shared {
    /// A socket's state as it is at some moment of the call; `None` if it is closed.
    #[inline]
    pub(crate) fn view(&self, index: u32) -> Option<View> {
        let seat = self.seats.get(index)?;
        loop {
            // Pairs with the store of `seat.entry` in a commit.
            let entry = seat.entry.load(Ordering::Acquire);
            if entry == NIL {
                return None;
            }
            // An entry that is used again is no longer the seat's: the seat says which is.
            if let Some((view, _)) = self.entries.get(index_of(entry))?.read(entry as u32) {
                return Some(self.whole(view));
            }
        }
    }

    /// The view with the IPv4 halves that are kept elsewhere.
    #[inline]
    pub(crate) fn whole(&self, mut view: View) -> View {
        if view.has(Flags::ODD4) {
            let odd = self.odd.get(view.index);
            view.odd = odd.map_or(0, |odd| odd.load(Ordering::Relaxed));
        }
        view
    }

    #[inline]
    pub(crate) fn cpu(&self, index: u32) -> i32 {
        self.seats.get(index).map_or(-1, Seat::cpu)
    }

    #[inline]
    pub(crate) fn group(&self, index: u32) -> u32 {
        // Pairs with the store in `add_member`: the group is whole before it is found.
        self.seats.get(index).map_or(NONE, |s| s.group.load(Ordering::Acquire))
    }

    /// The memberships of the socket in `view`.
    pub(crate) fn filter(&self, view: &View) -> Option<Arc<(u32, Vec<Membership>)>> {
        if !view.has(Flags::MEMBER) {
            return None;
        }
        self.filters.get(view.index)?.load_full().filter(|f| f.0 == view.generation)
    }

    pub(crate) fn set_filter(&self, id: SocketId, memberships: &[Membership]) {
        let filter =
            (!memberships.is_empty()).then(|| Arc::new((id.generation, memberships.to_vec())));
        if let Some(place) = self.filters.ensure(id.index, ArcSwapOption::empty) {
            place.store(filter);
        }
    }

    pub(crate) fn set_odd(&self, view: &View) {
        if view.has(Flags::ODD4)
            && let Some(odd) = self.odd.ensure(view.index, || AtomicU64::new(0))
        {
            odd.store(view.odd, Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.bytes() + self.seats.bytes() + self.odd.bytes() + self.filters.bytes()
    }
}

/// What only the writer reads of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cold {
    flags: u32,
    uid: u32,
    hash2: u32,
    #[cfg(feature = "hash4")]
    hash4: u32,
    /// The entry in the third table, if the socket has one in the second as well.
    #[cfg(feature = "hash4")]
    entry4: u32,
    /// The socket before in the port's chain.
    pub(crate) port_prev: u32,
    /// Place among the group's members.
    pub(crate) group_pos: u32,
}

/// The writer's half of the sockets.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    cold: Vec<Cold>,
    free: Vec<u32>,
    rares: HashMap<u32, Rare>,
    pub(crate) ends: Ends,
}

impl Sockets {
    /// Puts a socket in; `None` if there is no more place.
    pub(crate) fn insert(&mut self, shared: &Shared, mut socket: Socket) -> Option<SocketId> {
        if !self.ends.reserve(&shared.entries, 1) {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.cold.len()).ok().filter(|&i| i != NONE)?;
                shared.seats.ensure(index, Seat::new)?;
                self.cold.push(Cold::empty());
                index
            }
        };
        let seat = shared.seats.get(index)?;
        socket.generation = seat.generation.load(Ordering::Relaxed);
        let entry = self.ends.make(&shared.entries, &View::of(&socket, index));
        seat.set_cpu(-1);
        seat.group.store(NONE, Ordering::Relaxed);
        self.store_cold(index, &socket);
        seat.entry.store(entry, Ordering::Release);
        Some(SocketId { index, generation: socket.generation })
    }

    /// Takes out a socket that stands in no chain.
    pub(crate) fn remove(&mut self, shared: &Shared, index: u32) {
        let Some(seat) = shared.seats.get(index) else { return };
        let entry = seat.entry.swap(NIL, Ordering::AcqRel);
        let generation = seat.generation.load(Ordering::Relaxed).wrapping_add(1);
        seat.generation.store(generation, Ordering::Release);
        self.ends.give_back(entry);
        self.cold[index as usize] = Cold::empty();
        self.rares.remove(&index);
        self.free.push(index);
    }

    pub(crate) fn store_cold(&mut self, index: u32, s: &Socket) {
        let differs = s.s4 != s.r4 || s.s6 != s.r6;
        if differs || self.rares.get(&index).is_some_and(|r| r.source.is_some()) {
            self.rare_mut(index).source = differs.then_some((s.s4, s.s6));
        }
        let cold = &mut self.cold[index as usize];
        (cold.flags, cold.uid, cold.hash2) = (s.flags.bits(), s.uid, s.hash2);
        #[cfg(feature = "hash4")]
        {
            cold.hash4 = s.hash4;
        }
    }

    /// A socket as it is.
    pub(crate) fn load(&self, shared: &Shared, index: u32) -> Socket {
        let cold = &self.cold[index as usize];
        let flags = Flags::from_all_bits(cold.flags);
        let mut s = Socket::new(crate::options::Family::V4, NetId::FIRST);
        (s.flags, s.uid, s.hash2) = (flags, cold.uid, cold.hash2);
        #[cfg(feature = "hash4")]
        {
            s.hash4 = cold.hash4;
        }
        let Some(view) = shared.view(index) else { return s };
        (s.r4, s.p4) = (view.r4(), view.p4());
        if view.is6() {
            (s.r6, s.p6) = (view.r, view.p);
        }
        (s.device, s.generation, s.net) = (view.device, view.generation, view.net);
        (s.port, s.peer_port) = (view.port, view.peer_port);
        let source = self.rares.get(&index).and_then(|r| r.source);
        (s.s4, s.s6) = source.unwrap_or((s.r4, s.r6));
        s
    }

    /// The index of a live socket.
    pub(crate) fn find(&self, shared: &Shared, id: SocketId) -> Option<u32> {
        let cold = self.cold.get(id.index as usize)?;
        let generation = shared.seats.get(id.index)?.generation.load(Ordering::Relaxed);
        let live = Flags::from_all_bits(cold.flags).has(Flags::IN_USE);
        (generation == id.generation && live).then_some(id.index)
    }

    pub(crate) fn id(shared: &Shared, index: u32) -> SocketId {
        let seat = shared.seats.get(index);
        let generation = seat.map_or(0, |s| s.generation.load(Ordering::Relaxed));
        SocketId { index, generation }
    }

    pub(crate) fn cold(&self, index: u32) -> &Cold {
        &self.cold[index as usize]
    }

    pub(crate) fn cold_mut(&mut self, index: u32) -> &mut Cold {
        &mut self.cold[index as usize]
    }

    pub(crate) fn rare(&self, index: u32) -> Option<&Rare> {
        self.rares.get(&index)
    }

    pub(crate) fn rare_mut(&mut self, index: u32) -> &mut Rare {
        self.rares.entry(index).or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.cold.len() - self.free.len()
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = u32> {
        let live = |c: &Cold| Flags::from_all_bits(c.flags).has(Flags::IN_USE);
        self.cold.iter().enumerate().filter(move |(_, c)| live(c)).map(|(i, _)| i as u32)
    }

    /// Bytes held, what few sockets have not counted.
    pub(crate) fn bytes(&self) -> usize {
        self.cold.capacity() * size_of::<Cold>()
            + self.free.capacity() * size_of::<u32>()
            + self.ends.bytes()
    }

    /// The entries a socket has: in the second table (or in none), and in the third.
    pub(crate) fn places(&self, shared: &Shared, index: u32, s: &Socket) -> Places {
        let seat = shared.seats.get(index);
        let first = seat.map_or(NIL, |s| s.entry.load(Ordering::Relaxed));
        let mut places = Places { idle: NIL, by_address: NIL, by_tuple: NIL };
        match (s.in_hash2(), s.in_hash4()) {
            (true, false) => places.by_address = first,
            (false, true) => places.by_tuple = first,
            (false, false) => places.idle = first,
            (true, true) => {
                places.by_address = first;
                #[cfg(feature = "hash4")]
                {
                    places.by_tuple = present(&shared.entries, self.cold(index).entry4);
                }
            }
        }
        places
    }

    #[cfg(feature = "hash4")]
    pub(crate) fn set_entry4(&mut self, index: u32, entry: Link) {
        self.cold[index as usize].entry4 = index_of(entry);
    }

    #[cfg(feature = "hash4")]
    pub(crate) fn hash4(&self, index: u32) -> u32 {
        self.cold[index as usize].hash4
    }
}

/// Links to the entries of a socket, [`NIL`] where it has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) idle: Link,
    pub(crate) by_address: Link,
    pub(crate) by_tuple: Link,
}

impl Cold {
    const fn empty() -> Self {
        Self {
            flags: 0,
            uid: 0,
            hash2: 0,
            #[cfg(feature = "hash4")]
            hash4: 0,
            #[cfg(feature = "hash4")]
            entry4: NONE,
            port_prev: NONE,
            group_pos: 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::options::Family;

    #[test]
    fn a_closed_id_stays_closed() {
        let shared = Shared::default();
        let mut sockets = Sockets::default();
        let a = sockets.insert(&shared, Socket::new(Family::V4, NetId::FIRST)).unwrap();
        sockets.remove(&shared, a.index);
        assert_eq!(sockets.find(&shared, a), None);
        let b = sockets.insert(&shared, Socket::new(Family::V4, NetId::FIRST)).unwrap();
        assert_eq!(b.index, a.index);
        assert_eq!(sockets.find(&shared, a), None);
        assert_eq!(sockets.find(&shared, b), Some(b.index));
        assert_eq!(sockets.len(), 1);
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let shared = Shared::default();
        let mut sockets = Sockets::default();
        for family in [Family::V4, Family::V6] {
            let mut s = Socket::new(family, NetId(4));
            (s.r4, s.s4, s.p4, s.device, s.uid) = (5, 6, 7, 8, 9);
            if family == Family::V6 {
                (s.r6, s.s6, s.p6) = (1 << 90, 2, 3);
            }
            let id = sockets.insert(&shared, s).unwrap();
            shared.set_odd(&View::of(&s, id.index));
            assert_eq!(sockets.load(&shared, id.index), s);
        }
    }

    /// What the third table costs in each socket, and without it is gone.
    #[test]
    fn size_of_the_writers_part() {
        assert_eq!(size_of::<Cold>(), if cfg!(feature = "hash4") { 28 } else { 20 });
    }
}
