//! The table: slab of connections, index of their tuples, timers.

use core::ops::{Index as Lookup, IndexMut};

use fourtuple_hash::{Key, reduce};
use fourtuple_packet::Instant;
use fourtuple_table::{Index, InsertError, Slab, TimerWheel};

use crate::connection::{ConnId, Connection, Status};
use crate::events::EndReason;
use crate::hash::TupleHash;
use crate::nets::{Hasher, Nets};
use crate::tuple::{Direction, Tuple, Zone};

/// Where a tuple was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    pub(crate) direction: Direction,
    /// The entry's time is up: it is to be removed, and does not count as found.
    pub(crate) expired: bool,
}

/// A node number is a slot number and a bit, and the index does not take the highest of all.
const MAX_SLOTS: usize = (1 << 31) - 1;

/// Timer ticks of 2^26 ns, 67 ms: expiry itself is exact, only the removal of what nobody asks for waits for a tick.
const TICK_NS: u64 = 1 << 26;

#[derive(Debug)]
pub(crate) struct Store {
    slab: Slab<Connection>,
    /// Both tuples of every confirmed connection: slot * 2 + direction.
    index: Index,
    wheel: TimerWheel,
    nets: Nets,
    /// The tick up to which the timers were looked at.
    looked: u64,
    /// Slots whose time is up and that wait for [`next_due`](Self::next_due).
    due: Vec<u32>,
}

pub(crate) const fn node(slot: u32, direction: Direction) -> u32 {
    slot << 1 | direction as u32
}

const fn of_node(node: u32) -> (u32, Direction) {
    let direction = if node & 1 == 0 { Direction::Original } else { Direction::Reply };
    (node >> 1, direction)
}

impl Store {
    pub(crate) fn new(layout: TupleHash, key: Key) -> Self {
        Self {
            slab: Slab::with_limit(MAX_SLOTS),
            index: Index::with_capacity(0),
            wheel: TimerWheel::new(TICK_NS).expect("a power of two"),
            nets: Nets::new(layout, key),
            looked: 0,
            due: Vec::new(),
        }
    }

    /// The hash under which [`find`](Self::find) looks a tuple up first.
    #[inline]
    pub(crate) fn hash(&mut self, tuple: &Tuple, zone: Zone, net: u32) -> u32 {
        self.nets.hash(net, tuple, zone.id_for(Direction::Original))
    }

    /// [`hash`](Self::hash) for many tuples of one zone and net.
    pub(crate) fn hasher(&mut self, zone: Zone, net: u32) -> Hasher {
        self.nets.hasher(net, zone.id_for(Direction::Original))
    }

    /// Asks the memory for the place of `hash` in the index.
    #[inline]
    pub(crate) fn prefetch_place(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Asks the memory for the entry that stands under `hash`, if one does, and names its node.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u32) -> Option<u32> {
        let found = self.index.find(hash, |_| true)?;
        self.slab.prefetch(of_node(found).0);
        Some(found)
    }

    /// The entry of a node that was the right one a while ago, or for another packet, if it has `tuple` in the
    /// zone id for the original direction: then [`find`](Self::find) would return the same, since no two confirmed
    /// entries share a key.
    #[inline]
    pub(crate) fn still_at(
        &self,
        now: Instant,
        named: u32,
        tuple: &Tuple,
        zone: Zone,
        net: u32,
    ) -> Option<Place> {
        let (slot, direction) = of_node(named);
        let conn = self.slab.get(slot)?;
        let zone = zone.id_for(Direction::Original);
        let same = conn.status.has(Status::CONFIRMED) && is_key(conn, direction, tuple, zone, net);
        same.then(|| place(slot, direction, conn, now))
    }

    /// The entry that has `tuple`, looked up in the zone as the kernel does: under the id for the original direction,
    /// then, if that is another one, under the id for the reply direction. `hash` is [`hash`](Self::hash) of the same.
    #[inline]
    pub(crate) fn find(
        &mut self,
        now: Instant,
        hash: u32,
        tuple: &Tuple,
        zone: Zone,
        net: u32,
    ) -> Option<Place> {
        let original = zone.id_for(Direction::Original);
        let reply = zone.id_for(Direction::Reply);
        let found = self.find_in(now, hash, tuple, original, net);
        if found.is_some() || original == reply {
            return found;
        }
        let hash = self.nets.hash(net, tuple, reply);
        self.find_in(now, hash, tuple, reply, net)
    }

    #[inline]
    fn find_in(
        &self,
        now: Instant,
        hash: u32,
        tuple: &Tuple,
        zone: u16,
        net: u32,
    ) -> Option<Place> {
        let slab = &self.slab;
        let found = self.index.find(hash, |n| {
            let (slot, direction) = of_node(n);
            slab.get(slot).is_some_and(|c| is_key(c, direction, tuple, zone, net))
        })?;
        let (slot, direction) = of_node(found);
        Some(place(slot, direction, &self[slot], now))
    }

    /// Adds an unconfirmed entry, whose original tuple has `hash`; `None` if there are no more slot numbers.
    pub(crate) fn add(&mut self, mut conn: Connection, hash: u32) -> Option<u32> {
        let net = conn.net;
        let [_, reply] = &conn.tuples;
        conn.hashes = [hash, self.nets.hash(net, reply, conn.zone.id_for(Direction::Reply))];
        let slot = self.slab.insert(conn).ok()?.index;
        self.nets.get(net).count += 1;
        Some(slot)
    }

    /// Sets the timer of a live slot.
    fn arm(&mut self, slot: u32, at: Instant) {
        self.wheel.arm(slot, at.as_nanos()).expect("slots are below MAX_SLOTS");
    }

    /// The confirmed entry that stands where the unconfirmed one in `slot` is to go. `fresh`: the original tuple was
    /// just looked up in vain.
    pub(crate) fn clash(&mut self, now: Instant, slot: u32, fresh: bool) -> Option<u32> {
        let conn = &self[slot];
        let Connection { tuples, hashes, zone, net, mirrored, .. } = *conn;
        for direction in [Direction::Original, Direction::Reply] {
            let known_free = fresh && (direction == Direction::Original || mirrored);
            if known_free {
                continue;
            }
            let i = direction.index();
            match self.find_in(now, hashes[i], &tuples[i], zone.id_for(direction), net) {
                Some(place) if place.expired => {
                    self.free(place.slot);
                }
                Some(place) => return Some(place.slot),
                None => {}
            }
        }
        None
    }

    /// Puts both tuples of an unconfirmed entry into the index and starts its time. `Err`: how many entries were
    /// looked at in vain for a free place.
    pub(crate) fn confirm(&mut self, now: Instant, slot: u32) -> Result<(), u32> {
        let hashes = self[slot].hashes;
        for direction in [Direction::Original, Direction::Reply] {
            let hash = hashes[direction.index()];
            if let Err(e) = self.index.insert(hash, node(slot, direction)) {
                if direction == Direction::Reply {
                    self.index.remove(hashes[0], node(slot, Direction::Original));
                }
                return Err(probed(&e));
            }
        }
        let conn = &mut self[slot];
        conn.status.set(Status::CONFIRMED);
        conn.start = now;
        conn.expires = now + conn.timeout;
        conn.armed = conn.expires;
        let expires = conn.expires;
        self.arm(slot, expires);
        Ok(())
    }

    /// Removes an entry, confirmed or not.
    pub(crate) fn free(&mut self, slot: u32) -> Option<Connection> {
        let conn = self.slab.remove(slot)?;
        self.nets.get(conn.net).count -= 1;
        if conn.status.has(Status::CONFIRMED) {
            for direction in [Direction::Original, Direction::Reply] {
                self.index.remove(conn.hashes[direction.index()], node(slot, direction));
            }
            self.wheel.disarm(slot);
        }
        Some(conn)
    }

    /// Tells the timers that an entry's end has moved forward. One that has moved back is found out when its old time
    /// comes, so that a packet's refresh touches nothing but its own entry.
    #[cold]
    pub(crate) fn rearm(&mut self, slot: u32) {
        let conn = &mut self[slot];
        conn.armed = conn.expires;
        let expires = conn.expires;
        self.arm(slot, expires);
    }

    /// False if no time can be up since the last look: nothing comes due within a tick.
    #[inline]
    pub(crate) fn may_be_due(&self, now: Instant) -> bool {
        now.as_nanos() / TICK_NS != self.looked
    }

    /// Gathers entries whose time is up at `now`, at most `budget`; true iff some may be left.
    pub(crate) fn collect_due(&mut self, now: Instant, budget: usize) -> bool {
        let (slab, due) = (&mut self.slab, &mut self.due);
        let progress = self.wheel.advance(now.as_nanos(), budget, |slot| {
            let conn = slab.get_mut(slot)?;
            if conn.is_expired(now) {
                due.push(slot);
                return None;
            }
            conn.armed = conn.expires;
            Some(conn.expires.as_nanos())
        });
        // The last one gathered is taken first.
        self.due.reverse();
        if !progress.backlog {
            self.looked = now.as_nanos() / TICK_NS;
        }
        progress.backlog
    }

    pub(crate) fn next_due(&mut self) -> Option<u32> {
        self.due.pop()
    }

    /// Entries of one net.
    pub(crate) fn count(&mut self, net: u32) -> u32 {
        self.nets.get(net).count
    }

    /// Entries of all nets.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.slab.memory() + self.index.memory() + self.wheel.memory()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Connection> {
        self.slab.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Connection> {
        self.slab.get_mut(slot)
    }

    pub(crate) fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, serial: self[slot].serial }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.slab.iter().map(|(id, c)| (ConnId { slot: id.index, serial: c.serial }, c))
    }

    pub(crate) fn confirmed_slots(&self) -> Vec<u32> {
        let confirmed = self.iter().filter(|(_, c)| c.status.has(Status::CONFIRMED));
        confirmed.map(|(id, _)| id.slot).collect()
    }

    /// Entries to evict so that a tuple of `hash` finds room: the kernel goes over eight of its buckets from its own on,
    /// removes the expired ones, and stops at the first bucket with an entry that is not assured; those of that bucket
    /// go. Here a kernel bucket is a range of hashes.
    pub(crate) fn early_drop_victims(
        &self,
        now: Instant,
        hash: u32,
        net: u32,
        buckets: u32,
    ) -> Vec<(u32, EndReason)> {
        const RANGE: u32 = 8;
        // What the kernel rounds any number of buckets up to; it also bounds the work for a packet to a 64th of the table.
        const FEWEST: u32 = 512;
        let buckets = buckets.max(FEWEST);
        let first = reduce(hash, buckets);
        let mut victims = Vec::new();
        for i in 0..RANGE {
            let bucket = (first + i) % buckets;
            let mut dropped = false;
            let slab = &self.slab;
            let visit = |n: u32| {
                let (slot, _) = of_node(n);
                let Some(conn) =
                    slab.get(slot).filter(|_| !victims.iter().any(|(s, _)| *s == slot))
                else {
                    return;
                };
                if conn.is_expired(now) {
                    victims.push((slot, EndReason::Timeout));
                } else if conn.net == net && !conn.status.has(Status::ASSURED) {
                    victims.push((slot, EndReason::EarlyDrop));
                    dropped = true;
                }
            };
            let (low, high) = hash_range(bucket, buckets);
            self.index.for_each_in(low..=high, visit);
            if dropped {
                return victims;
            }
        }
        // Nothing was killed for the packet's sake; what had expired makes room all the same.
        victims
    }
}

/// The hashes that fall into `bucket` of `buckets`: the inverse of the multiply-shift reduction.
fn hash_range(bucket: u32, buckets: u32) -> (u32, u32) {
    let lowest = |b: u32| ((u64::from(b) << 32).div_ceil(u64::from(buckets))) as u32;
    let low = lowest(bucket);
    let high = if bucket + 1 == buckets { u32::MAX } else { lowest(bucket + 1) - 1 };
    (low, high)
}

fn probed(e: &InsertError) -> u32 {
    match e {
        InsertError::ProbeLimit { probed } => *probed as u32,
        // The greatest size is reached: whatever was looked at, there is no place.
        _ => 0,
    }
}

fn place(slot: u32, direction: Direction, conn: &Connection, now: Instant) -> Place {
    // With both tuples equal the reply node is the one in front.
    let direction = if conn.mirrored { Direction::Reply } else { direction };
    Place { slot, direction, expired: conn.is_expired(now) }
}

fn is_key(c: &Connection, direction: Direction, tuple: &Tuple, zone: u16, net: u32) -> bool {
    c.tuples[direction.index()] == *tuple && c.zone.id_for(direction) == zone && c.net == net
}

impl Lookup<u32> for Store {
    type Output = Connection;

    fn index(&self, slot: u32) -> &Connection {
        self.slab.get(slot).expect("a live slot")
    }
}

impl IndexMut<u32> for Store {
    fn index_mut(&mut self, slot: u32) -> &mut Connection {
        self.slab.get_mut(slot).expect("a live slot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_ranges_partition_the_hashes() {
        for buckets in [1, 2, 3, 1000, 1024, 262_144, 262_143] {
            let mut next = 0u64;
            for bucket in [0, 1, buckets / 2, buckets - 1] {
                let (low, high) = hash_range(bucket.min(buckets - 1), buckets);
                assert_eq!(reduce(low, buckets), bucket.min(buckets - 1));
                assert_eq!(reduce(high, buckets), bucket.min(buckets - 1));
            }
            for bucket in 0..buckets.min(1024) {
                let (low, high) = hash_range(bucket, buckets);
                assert_eq!(u64::from(low), next);
                next = u64::from(high) + 1;
            }
        }
    }
}
