//! Type-stable slots: where entries live, and whose numbers the index and the wheel hold.

use alloc::vec::Vec;
use core::{error, fmt, slice};

/// Entries of a chunk. Chunks are allocated whole and never moved or freed.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 12;
/// End of the free list. Also the number of slots that there can be, so no slot has it as number.
const NONE: u32 = u32::MAX;

/// A slot number, and which of the slot's successive tenants is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId {
    /// The slot, below [`u32::MAX`].
    pub index: u32,
    /// Removals this slot has seen, modulo 2^32.
    pub generation: u32,
}

/// The slab is at its limit; the value that found no room is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the slab holds as many entries as its limit allows")
    }
}

impl<T> error::Error for Full<T> {}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    /// With the next free slot.
    Free(u32),
    Taken(T),
}

/// Slots of one type, found by number, recycled last in first out.
///
/// Memory grows by chunks of 4096 slots: no entry ever moves, no growth needs the old and the new
/// memory at once, and each insertion does a bounded amount of work. Slots are not given back to
/// the system before the slab is dropped, and never hold another type.
///
/// ```
/// use fourtuple_table::Slab;
///
/// let mut slab = Slab::with_limit(1);
/// let a = slab.insert("a")?;
/// assert_eq!(slab.insert("b").unwrap_err().0, "b");
/// assert_eq!(slab.remove(a.index), Some("a"));
/// let c = slab.insert("c")?; // the same slot, another generation
/// assert_eq!((slab.get_by_id(a), slab.get_by_id(c)), (None, Some(&"c")));
/// # Ok::<(), fourtuple_table::Full<&str>>(())
/// ```
#[derive(Debug)]
pub struct Slab<T> {
    /// Every chunk but the last is full to its capacity.
    chunks: Vec<Vec<Slot<T>>>,
    /// Slots made so far, free or taken.
    made: u32,
    free: u32,
    len: u32,
    limit: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    /// An empty slab with the greatest limit, 2^32 - 1 entries. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: Vec::new(), made: 0, free: NONE, len: 0, limit: NONE }
    }

    /// An empty slab that takes at most `limit` entries (2^32 - 1 if that is less).
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self { limit: u32::try_from(limit).unwrap_or(NONE), ..Self::new() }
    }

    /// Puts `value` into the slot freed last, or into a new one.
    ///
    /// # Errors
    /// [`Full`] with the value at the limit.
    pub fn insert(&mut self, value: T) -> Result<SlotId, Full<T>> {
        if self.len >= self.limit {
            return Err(Full(value));
        }
        let head = self.free;
        if let Some(slot) = self.slot_mut(head) {
            let next = match slot.state {
                State::Free(next) => next,
                State::Taken(_) => unreachable_list_end(),
            };
            slot.state = State::Taken(value);
            let generation = slot.generation;
            self.free = next;
            self.len += 1;
            return Ok(SlotId { index: head, generation });
        }
        let index = self.made;
        if index == NONE {
            return Err(Full(value));
        }
        let slot = Slot { generation: 0, state: State::Taken(value) };
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(slot),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(slot);
                self.chunks.push(chunk);
            }
        }
        self.made += 1;
        self.len += 1;
        Ok(SlotId { index, generation: 0 })
    }

    /// Takes the entry out of slot `index`, if there is one, and ends its generation.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(index)?;
        if let State::Free(_) = slot.state {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        let State::Taken(value) = core::mem::replace(&mut slot.state, State::Free(free)) else {
            return None;
        };
        self.free = index;
        self.len -= 1;
        Some(value)
    }

    /// As [`remove`](Self::remove), but only if `id`'s generation is the current one.
    pub fn remove_by_id(&mut self, id: SlotId) -> Option<T> {
        self.get_by_id(id)?;
        self.remove(id.index)
    }

    /// The entry in slot `index`.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.slot(index)?.value()
    }

    /// The entry in slot `index`, to change.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match &mut self.slot_mut(index)?.state {
            State::Taken(value) => Some(value),
            State::Free(_) => None,
        }
    }

    /// The entry that `id` was given for; `None` if it was removed, whoever lives there now.
    /// (2^32 removals from the same slot later an id could be taken for a new one.)
    #[inline]
    #[must_use]
    pub fn get_by_id(&self, id: SlotId) -> Option<&T> {
        let slot = self.slot(id.index)?;
        if slot.generation == id.generation { slot.value() } else { None }
    }

    /// As [`get_by_id`](Self::get_by_id), to change.
    #[inline]
    pub fn get_mut_by_id(&mut self, id: SlotId) -> Option<&mut T> {
        self.get_by_id(id)?;
        self.get_mut(id.index)
    }

    /// Asks the memory for slot `index`, so that [`get`](Self::get) some 100 ns later does not wait.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(slot) = self.slot(index) {
            crate::memory::prefetch(slot);
        }
    }

    /// Slot number with current generation, if slot `index` is taken.
    #[must_use]
    pub fn id(&self, index: u32) -> Option<SlotId> {
        let slot = self.slot(index)?;
        slot.value()?;
        Some(SlotId { index, generation: slot.generation })
    }

    /// Entries in the slab.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most entries that the slab takes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Bytes allocated for slots, without what the entries own themselves.
    #[must_use]
    pub fn memory(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|c| c.capacity() * size_of::<Slot<T>>()).sum();
        chunks + self.chunks.capacity() * size_of::<Vec<Slot<T>>>()
    }

    /// All entries with their ids, by slot number.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { chunks: self.chunks.iter(), slots: [].iter(), next: 0, left: self.len as usize }
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        self.chunks.get((index >> CHUNK_BITS) as usize)?.get(index as usize % CHUNK)
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        self.chunks.get_mut((index >> CHUNK_BITS) as usize)?.get_mut(index as usize % CHUNK)
    }
}

/// A taken slot on the free list would be a fault of this file. Ending the list there loses slots
/// and nothing else.
fn unreachable_list_end() -> u32 {
    debug_assert!(false, "a taken slot on the free list");
    NONE
}

impl<T> Slot<T> {
    #[inline]
    fn value(&self) -> Option<&T> {
        match &self.state {
            State::Taken(value) => Some(value),
            State::Free(_) => None,
        }
    }
}

/// Iterator over the entries of a [`Slab`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    chunks: slice::Iter<'a, Vec<Slot<T>>>,
    slots: slice::Iter<'a, Slot<T>>,
    next: u32,
    left: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (SlotId, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(slot) = self.slots.next() else {
                self.slots = self.chunks.next()?.iter();
                continue;
            };
            let index = self.next;
            self.next = index.saturating_add(1);
            if let Some(value) = slot.value() {
                self.left -= 1;
                return Some((SlotId { index, generation: slot.generation }, value));
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<'a, T> IntoIterator for &'a Slab<T> {
    type Item = (SlotId, &'a T);
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
