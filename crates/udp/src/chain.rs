//! Chains of entries: read by anybody at any time, changed by one writer at a time.

#[cfg(feature = "hash4")]
use crate::entry::link;
use crate::entry::{Entry, Link, NIL, View, index_of};
use crate::segments::Segments;
use crate::sockets::NONE;
use crate::sync::{AtomicU64, Ordering};

/// All entries.
pub(crate) type Entries = Segments<Entry>;

/// One step along a chain.
#[derive(Debug)]
pub(crate) enum Step {
    /// An entry of it.
    At(View),
    /// It is read to its end, and every entry that stood in it throughout was met.
    End,
    /// The entry to come is used elsewhere by now: the walk must start again.
    Torn,
}

/// A walk along one chain.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    entries: &'a Entries,
    next: Link,
}

impl<'a> Walk<'a> {
    #[inline]
    pub(crate) fn new(entries: &'a Entries, head: &AtomicU64) -> Self {
        // Pairs with the stores of `push_front` and `replace`.
        Self { entries, next: head.load(Ordering::Acquire) }
    }

    /// The link to the entry to come.
    #[cfg(feature = "hash4")]
    pub(crate) fn position(&self) -> Link {
        self.next
    }

    #[inline]
    pub(crate) fn step(&mut self) -> Step {
        if self.next == NIL {
            return Step::End;
        }
        let entry = self.entries.get(index_of(self.next));
        match entry.and_then(|e| e.read(self.next as u32)) {
            Some((view, next)) => {
                self.next = next;
                Step::At(view)
            }
            None => Step::Torn,
        }
    }
}

/// The writer's side: free entries, and the way back along each chain.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    free: Vec<u32>,
    /// The entry before, by entry; [`NONE`] for the first.
    prev: Vec<u32>,
}

/// What chains must be told of a chain besides its head.
#[derive(Debug)]
pub(crate) struct Ring<'a> {
    pub(crate) head: &'a AtomicU64,
    /// The last entry, where the chain is appended to.
    pub(crate) tail: Option<&'a mut u32>,
}

impl Ends {
    /// Whether `n` entries can be made without failing.
    pub(crate) fn reserve(&mut self, entries: &Entries, n: usize) -> bool {
        while self.free.len() < n {
            let Ok(at) = u32::try_from(self.prev.len()) else { return false };
            if at == NONE || entries.ensure(at, Entry::new).is_none() {
                return false;
            }
            self.prev.push(NONE);
            self.free.push(at);
        }
        true
    }

    /// A new entry, in no chain yet; there must be one in reserve.
    pub(crate) fn make(&mut self, entries: &Entries, view: &View) -> Link {
        let at = self.free.pop();
        at.and_then(|at| Some(entries.get(at)?.write(at, view))).unwrap_or(NIL)
    }

    /// Gives back an entry that stands in no chain.
    pub(crate) fn give_back(&mut self, entry: Link) {
        self.free.push(index_of(entry));
    }

    fn set_prev(&mut self, of: Link, prev: u32) {
        if of != NIL {
            self.prev[index_of(of) as usize] = prev;
        }
    }

    pub(crate) fn push_front(&mut self, entries: &Entries, ring: Ring<'_>, new: Link) {
        let head = ring.head.load(Ordering::Relaxed);
        let Some(entry) = entries.get(index_of(new)) else { return };
        entry.next.store(head, Ordering::Relaxed);
        self.set_prev(new, NONE);
        self.set_prev(head, index_of(new));
        if let Some(tail) = ring.tail
            && head == NIL
        {
            *tail = index_of(new);
        }
        // Pairs with the load in `Walk::new`: the entry is whole before it can be found.
        ring.head.store(new, Ordering::Release);
    }

    /// Needs the chain's tail.
    pub(crate) fn push_back(&mut self, entries: &Entries, ring: Ring<'_>, new: Link) {
        let last = ring.tail.as_deref().copied().unwrap_or(NONE);
        let Some(before) = entries.get(last).filter(|_| last != NONE) else {
            return self.push_front(entries, ring, new);
        };
        self.set_prev(new, last);
        if let Some(tail) = ring.tail {
            *tail = index_of(new);
        }
        // Pairs with the load of the link in `Entry::read`.
        before.next.store(new, Ordering::Release);
    }

    /// Stores what comes behind `prev`, or first.
    fn set_next(&self, entries: &Entries, head: &AtomicU64, prev: u32, next: Link) {
        let place = match entries.get(prev) {
            Some(before) if prev != NONE => &before.next,
            _ => head,
        };
        place.store(next, Ordering::Release);
    }

    /// Puts `new` where `old` stands, and takes that out. A reader meets one of them.
    pub(crate) fn replace(&mut self, entries: &Entries, ring: Ring<'_>, old: Link, new: Link) {
        let (Some(from), Some(to)) = (entries.get(index_of(old)), entries.get(index_of(new)))
        else {
            return;
        };
        let next = from.next.load(Ordering::Relaxed);
        let prev = self.prev[index_of(old) as usize];
        to.next.store(next, Ordering::Relaxed);
        self.set_prev(new, prev);
        self.set_prev(next, index_of(new));
        if let Some(tail) = ring.tail
            && next == NIL
        {
            *tail = index_of(new);
        }
        self.set_next(entries, ring.head, prev, new);
        self.give_back(old);
    }

    /// Takes `old` out. Its own link stays, for readers who stand on it.
    pub(crate) fn unlink(&mut self, entries: &Entries, ring: Ring<'_>, old: Link) {
        let Some(entry) = entries.get(index_of(old)) else { return };
        let next = entry.next.load(Ordering::Relaxed);
        let prev = self.prev[index_of(old) as usize];
        self.set_prev(next, prev);
        if let Some(tail) = ring.tail
            && next == NIL
        {
            *tail = prev;
        }
        self.set_next(entries, ring.head, prev, next);
        self.give_back(old);
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.free.capacity() + self.prev.capacity()) * size_of::<u32>()
    }
}

/// The link to an entry as it is now. Writer only.
#[cfg(feature = "hash4")]
pub(crate) fn present(entries: &Entries, at: u32) -> Link {
    entries.get(at).map_or(NIL, |e| link(at, e.version()))
}
