//! The datagrams of one family that wait for fragments: found by key, kept in order of time.

use super::queue::Queue;
use super::types::Incomplete;
use crate::ip::{Address, Family};
use crate::time::{Instant, Span};
use std::collections::HashMap;

/// What tells datagrams apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) src: Address,
    pub(super) dst: Address,
    pub(super) id: u32,
    pub(super) protocol: u8,
    pub(super) user: u32,
}

/// End of a list.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    key: Key,
    deadline: Instant,
    /// Neighbours in order of time; of a free slot, `next` is the next free one.
    before: u32,
    next: u32,
    /// Number of its last fragment among all of its source.
    source_count: u32,
    counts_source: bool,
    queue: Queue,
}

/// Fragments that came from a source while datagrams of it wait.
#[derive(Debug, Default)]
struct Source {
    fragments: u32,
    datagrams: u32,
}

#[derive(Debug)]
pub(super) struct Store {
    /// Keys are chosen by whoever sends: this needs a keyed hash, and the standard library's default is one
    /// (SipHash-1-3, random key).
    by_key: HashMap<Key, u32>,
    /// Likewise.
    sources: HashMap<Address, Source>,
    slots: Vec<Slot>,
    free: u32,
    oldest: u32,
    newest: u32,
    charged: usize,
    /// Emptied buffers for datagrams to come.
    spare: Vec<Queue>,
}

/// Buffers kept for reuse.
const SPARE: usize = 8;

impl Default for Store {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            sources: HashMap::new(),
            slots: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            charged: 0,
            spare: Vec::new(),
        }
    }
}

impl Store {
    /// Memory in use as Linux counts it.
    pub(super) const fn charged(&self) -> usize {
        self.charged
    }

    /// Removes up to `most` datagrams whose time is up, oldest first.
    pub(super) fn expire(&mut self, now: Instant, most: usize) -> usize {
        let mut n = 0;
        while n < most && self.oldest != NONE && self.slots[self.oldest as usize].deadline <= now {
            self.remove(self.oldest);
            n += 1;
        }
        n
    }

    /// The slot of `key`, made if it is not there; and whether one was there whose time was up.
    pub(super) fn find_or_make(
        &mut self,
        key: Key,
        now: Instant,
        timeout: Span,
        counts_source: bool,
    ) -> (u32, bool) {
        let mut expired = false;
        if let Some(&at) = self.by_key.get(&key) {
            if now < self.slots[at as usize].deadline {
                return (at, false);
            }
            self.remove(at);
            expired = true;
        }
        let slot = Slot {
            key,
            deadline: now + timeout,
            before: NONE,
            next: NONE,
            source_count: 0,
            counts_source,
            queue: self.spare.pop().unwrap_or_default(),
        };
        self.charged += slot.queue.charge();
        let at = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            self.slots[at as usize] = slot;
            at
        };
        if counts_source {
            self.sources.entry(key.src).or_default().datagrams += 1;
        }
        self.by_key.insert(key, at);
        self.link(at);
        (at, expired)
    }

    /// Counts a fragment of the datagram's source, and says whether more than `most` came since the datagram's last
    /// (`ip_frag_too_far`).
    pub(super) fn too_far(&mut self, at: u32, most: u32) -> bool {
        let slot = &mut self.slots[at as usize];
        let Some(source) = self.sources.get_mut(&slot.key.src) else {
            return false;
        };
        source.fragments = source.fragments.wrapping_add(1);
        let before = core::mem::replace(&mut slot.source_count, source.fragments);
        !slot.queue.is_empty() && source.fragments.wrapping_sub(before) > most
    }

    /// Empties the datagram and gives it its full time again.
    pub(super) fn restart(&mut self, at: u32, now: Instant, timeout: Span) {
        self.with_queue(at, Queue::clear);
        self.unlink(at);
        self.slots[at as usize].deadline = now + timeout;
        self.link(at);
    }

    pub(super) fn queue(&mut self, at: u32) -> &mut Queue {
        &mut self.slots[at as usize].queue
    }

    /// Changes a queue and accounts for what that does to its charge.
    pub(super) fn with_queue<T>(&mut self, at: u32, change: impl FnOnce(&mut Queue) -> T) -> T {
        let queue = &mut self.slots[at as usize].queue;
        let before = queue.charge();
        let answer = change(queue);
        self.charged = self.charged - before + queue.charge();
        answer
    }

    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        let slot = &mut self.slots[at as usize];
        let mut queue = core::mem::take(&mut slot.queue);
        self.charged -= queue.charge();
        self.by_key.remove(&slot.key);
        if slot.counts_source
            && let Some(source) = self.sources.get_mut(&slot.key.src)
        {
            source.datagrams -= 1;
            if source.datagrams == 0 {
                self.sources.remove(&slot.key.src);
            }
        }
        slot.next = self.free;
        self.free = at;
        if self.spare.len() < SPARE && queue.is_worth_keeping() {
            queue.clear();
            self.spare.push(queue);
        }
    }

    fn link(&mut self, at: u32) {
        let newest = core::mem::replace(&mut self.newest, at);
        let slot = &mut self.slots[at as usize];
        (slot.before, slot.next) = (newest, NONE);
        match self.slots.get_mut(newest as usize) {
            Some(slot) => slot.next = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Slot { before, next, .. } = self.slots[at as usize];
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.next = next,
            None => self.oldest = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(slot) => slot.before = before,
            None => self.newest = before,
        }
    }

    /// The datagrams that wait, oldest first.
    pub(super) fn waiting(&self, family: Family) -> impl Iterator<Item = Incomplete> + '_ {
        let mut at = self.oldest;
        core::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.next;
            Some(Incomplete {
                family,
                src: slot.key.src,
                dst: slot.key.dst,
                id: slot.key.id,
                fragments: slot.queue.fragments(),
                have: slot.queue.have(),
                total: slot.queue.total(),
                deadline: slot.deadline,
            })
        })
    }
}
