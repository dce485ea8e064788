//! Changing the table: one writer at a time, look-ups going on meanwhile.
//!
//! An operation works on a copy of its socket. When it is done the copy is *committed*: entries of the
//! new state are put into their places first, then the moves are counted, then the old entries are
//! taken out. A look-up thus finds the socket at its old place or at its new one; one that comes to
//! each at the wrong moment finds the count changed and looks again.

use std::ops::Deref;
use std::sync::{MutexGuard, PoisonError};

use crate::chain::Ring;
use crate::claims::{Claim, Claims};
use crate::entry::{Link, NIL, View};
use crate::errno::Errno;
use crate::groups::GroupKeys;
use crate::memberships::Joined;
use crate::profile::Profile;
use crate::sockets::{Flags, NONE, Rare, Socket, SocketId};
use crate::store::Sockets;
use crate::sync::Ordering;
use crate::table::UdpTable;

/// What only writers use.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sockets: Sockets,
    pub(crate) groups: GroupKeys,
    pub(crate) claims: Claims,
    pub(crate) joined: Joined,
    pub(crate) draws: u64,
}

/// The one writer of a table.
#[derive(Debug)]
pub(crate) struct Writer<'a, R> {
    pub(crate) table: &'a UdpTable<R>,
    pub(crate) state: MutexGuard<'a, State>,
    /// The socket that is being changed: its index, and its copy.
    open: u32,
    now: Socket,
}

impl<R> Deref for Writer<'_, R> {
    type Target = UdpTable<R>;

    fn deref(&self) -> &UdpTable<R> {
        self.table
    }
}

/// The most entries that one operation makes before it gives one back: two of the new state, one for
/// each that a split of a slot moves (which come one by one).
const RESERVE: usize = 4;

impl<R> UdpTable<R> {
    /// Becomes the writer. If an earlier one panicked in a router its changes were not committed.
    pub(crate) fn write(&self) -> Writer<'_, R> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Socket::new(crate::options::Family::V4, crate::net::NetId::FIRST);
        Writer { table: self, state, open: NONE, now }
    }
}

impl<R> Writer<'_, R> {
    pub(crate) fn index(&self, id: SocketId) -> Result<u32, Errno> {
        self.state.sockets.find(&self.table.shared, id).ok_or(Errno::EBADF)
    }

    /// A socket as the operation has left it so far.
    pub(crate) fn socket(&self, index: u32) -> Socket {
        if index == self.open {
            return self.now;
        }
        self.state.sockets.load(&self.table.shared, index)
    }

    /// The socket of the operation, to change it.
    pub(crate) fn socket_mut(&mut self, index: u32) -> &mut Socket {
        debug_assert_eq!(index, self.open);
        &mut self.now
    }

    pub(crate) fn rare(&self, index: u32) -> Option<&Rare> {
        self.state.sockets.rare(index)
    }

    pub(crate) fn rare_mut(&mut self, index: u32) -> &mut Rare {
        self.state.sockets.rare_mut(index)
    }

    /// Changes a socket, what it claims of its port, and where it stands.
    pub(crate) fn edit<T>(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Self) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let table = self.table;
        if !self.state.sockets.ends.reserve(&table.shared.entries, RESERVE) {
            return Err(Errno::ENOMEM);
        }
        let before = self.state.sockets.load(&table.shared, index);
        (self.open, self.now) = (index, before);
        let result = change(self);
        let after = self.now;
        self.open = NONE;
        if table.profile == Profile::Strict {
            self.claim(&before, &after);
        }
        self.commit(index, &before, after);
        result
    }

    fn claim(&mut self, before: &Socket, after: &Socket) {
        let claim = |s: &Socket| s.hashed().then(|| (s.net, s.port, Claim::of(s)));
        let (before, after) = (claim(before), claim(after));
        if before == after {
            return;
        }
        let claims = &mut self.state.claims;
        if let Some((net, port, claim)) = before {
            claims.remove(net, port, &claim);
        }
        if let Some((net, port, claim)) = after {
            claims.add(net, port, claim);
        }
    }

    /// Puts a socket's new state where look-ups find it.
    fn commit(&mut self, index: u32, before: &Socket, mut after: Socket) {
        let table = self.table;
        let to_front = after.has(Flags::TO_FRONT);
        let (back, port_back) = (after.has(Flags::TO_BACK), after.has(Flags::PORT_BACK));
        for order in [Flags::TO_FRONT, Flags::TO_BACK, Flags::PORT_BACK] {
            after.flags.set(order, false);
        }
        if after == *before && !to_front {
            return;
        }
        let Some(seat) = table.shared.seats.get(index) else { return };
        let view = View::of(&after, index);
        let changed = View::of(before, index) != view;
        let old = self.state.sockets.places(&table.shared, index, before);
        table.shared.set_odd(&view);

        // In.
        let (by_address, out2) = self.enter_addresses(
            before,
            &after,
            &view,
            old.by_address,
            changed || to_front,
            (to_front, back),
        );
        #[cfg(feature = "hash4")]
        let (by_tuple, out4) = self.enter_tuples(before, &after, &view, old.by_tuple, changed);
        #[cfg(not(feature = "hash4"))]
        let by_tuple = NIL;
        let primary = match (by_address, by_tuple) {
            (NIL, NIL) => self.state.sockets.ends.make(&table.shared.entries, &view),
            (NIL, tuple) => tuple,
            (address, _) => address,
        };
        // Pairs with the load in `Shared::view`.
        seat.entry.store(primary, Ordering::Release);
        #[cfg(feature = "hash4")]
        self.state.sockets.set_entry4(index, by_tuple);
        self.state.sockets.store_cold(index, &after);
        if after.hashed() && !before.hashed() {
            let hash1 = table.hash1_of(&after);
            table.ports.insert(&table.shared, &mut self.state.sockets, hash1, index, port_back);
        }
        // Between.
        if before.hashed() && after.hashed() && (changed || to_front) {
            table.addresses.at(before.hash2).moved();
            if table.addresses.slot(before.hash2) != table.addresses.slot(after.hash2) {
                table.addresses.at(after.hash2).moved();
            }
        }
        // Out.
        if out2 != NIL {
            self.leave_addresses(before.hash2, out2);
        }
        #[cfg(feature = "hash4")]
        self.finish_tuples(before, &after, out4);
        if old.idle != NIL {
            self.state.sockets.ends.give_back(old.idle);
        }
        if before.hashed() && !after.hashed() {
            let hash1 = table.hash1_of(before);
            table.ports.remove(&table.shared, &mut self.state.sockets, hash1, index);
        }
    }

    /// The entry in the second table after a commit, and the one to be taken out of it.
    fn enter_addresses(
        &mut self,
        before: &Socket,
        after: &Socket,
        view: &View,
        old: Link,
        changed: bool,
        (to_front, back): (bool, bool),
    ) -> (Link, Link) {
        let table = self.table;
        let entries = &table.shared.entries;
        if !after.in_hash2() {
            return (NIL, old);
        }
        let slot = table.addresses.at(after.hash2);
        let stays = before.in_hash2()
            && !to_front
            && table.addresses.slot(before.hash2) == table.addresses.slot(after.hash2);
        if stays && !changed {
            return (old, NIL);
        }
        let ends = &mut self.state.sockets.ends;
        let new = ends.make(entries, view);
        let mut tail = slot.tail();
        let ring = Ring { head: &slot.head, tail: Some(&mut tail) };
        if stays {
            ends.replace(entries, ring, old, new);
        } else {
            if back {
                ends.push_back(entries, ring, new);
            } else {
                ends.push_front(entries, ring, new);
            }
            slot.add_count(1);
        }
        slot.set_tail(tail);
        (new, if stays { NIL } else { old })
    }

    fn leave_addresses(&mut self, hash2: u32, old: Link) {
        let slot = self.table.addresses.at(hash2);
        let mut tail = slot.tail();
        let ring = Ring { head: &slot.head, tail: Some(&mut tail) };
        self.state.sockets.ends.unlink(&self.table.shared.entries, ring, old);
        slot.set_tail(tail);
        slot.add_count(u32::MAX);
    }
}

#[cfg(feature = "hash4")]
impl<R> Writer<'_, R> {
    /// Whether the socket is counted among the third table's in one slot before and after.
    fn counts_alike(&self, before: &Socket, after: &Socket) -> bool {
        let slot = |s: &Socket| s.in_hash4().then(|| self.table.addresses.slot(s.hash2));
        slot(before) == slot(after)
    }

    /// The entry in the third table after a commit, and the one to be taken out of it.
    fn enter_tuples(
        &mut self,
        before: &Socket,
        after: &Socket,
        view: &View,
        old: Link,
        changed: bool,
    ) -> (Link, Link) {
        let table = self.table;
        let entries = &table.shared.entries;
        if !after.in_hash4() {
            return (NIL, old);
        }
        if !before.in_hash4() {
            self.split_if_full();
        }
        if !self.counts_alike(before, after) {
            table.addresses.at(after.hash2).add_tuple();
        }
        let slots = table.tuples.slots();
        let slot = |hash| crate::tables::tuple::TupleTable::slot(hash, slots);
        let Some(head) = table.tuples.head(slot(after.hash4)) else { return (NIL, old) };
        let stays = before.in_hash4() && slot(before.hash4) == slot(after.hash4);
        if stays && !changed {
            return (old, NIL);
        }
        let ends = &mut self.state.sockets.ends;
        let new = ends.make(entries, view);
        let ring = Ring { head, tail: None };
        if stays {
            ends.replace(entries, ring, old, new);
            return (new, NIL);
        }
        ends.push_front(entries, ring, new);
        if !before.in_hash4() {
            table.tuples.add_len(1);
        }
        (new, old)
    }

    /// Takes `old` out of the third table, and the socket off the count of what is in it.
    fn finish_tuples(&mut self, before: &Socket, after: &Socket, old: Link) {
        let table = self.table;
        if before.in_hash4() && !self.counts_alike(before, after) {
            table.addresses.at(before.hash2).drop_tuple();
        }
        if before.in_hash4() && !after.in_hash4() {
            table.tuples.add_len(-1);
        }
        if old == NIL {
            return;
        }
        let slot = crate::tables::tuple::TupleTable::slot(before.hash4, table.tuples.slots());
        if let Some(head) = table.tuples.head(slot) {
            let ring = Ring { head, tail: None };
            self.state.sockets.ends.unlink(&table.shared.entries, ring, old);
        }
    }

    /// Moves the sockets of one slot that belong into the next new one there: copies of them first,
    /// then the slot is made known, then the old ones are taken out.
    fn split_if_full(&mut self) {
        use crate::chain::{Step, Walk};

        let table = self.table;
        let Some((from, to)) = table.tuples.to_split() else { return };
        let (Some(head), Some(new_head)) = (table.tuples.head(from), table.tuples.head(to)) else {
            return;
        };
        let entries = &table.shared.entries;
        let belongs = |sockets: &Sockets, view: &View| {
            let hash = sockets.hash4(view.index);
            crate::tables::tuple::TupleTable::slot(hash, to + 1) == to
        };
        let mut moving = Vec::new();
        let mut walk = Walk::new(entries, head);
        loop {
            let at = walk.position();
            let Step::At(view) = walk.step() else { break };
            if belongs(&self.state.sockets, &view) {
                moving.push((at, view));
            }
        }
        if !self.state.sockets.ends.reserve(entries, moving.len() + RESERVE) {
            return;
        }
        // From the last: each is put in front, and their order stays.
        for (old, view) in moving.iter().rev() {
            let new = self.state.sockets.ends.make(entries, view);
            let ring = Ring { head: new_head, tail: None };
            self.state.sockets.ends.push_front(entries, ring, new);
            if let Some(seat) = table.shared.seats.get(view.index)
                && seat.entry.load(Ordering::Relaxed) == *old
            {
                seat.entry.store(new, Ordering::Release);
            }
            self.state.sockets.set_entry4(view.index, new);
        }
        table.tuples.grown();
        for (old, _) in moving {
            self.state.sockets.ends.unlink(entries, Ring { head, tail: None }, old);
        }
    }
}
