//! Type-stable slots: where entries live, and whose numbers the index and the wheel hold.

use alloc::vec::Vec;
use core::{error, fmt};

/// Entries of a chunk. Chunks are allocated whole and never moved or freed.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 16;
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
enum State<T> {
    /// With the next free slot.
    Free(u32),
    Taken(T),
}

/// Slots side by side. Generations lie apart from the entries, so that entries of whole cache lines stay on whole cache
/// lines; who looks an entry up by its number does not touch them.
#[derive(Debug)]
struct Chunk<T> {
    slots: Vec<State<T>>,
    generations: Vec<u32>,
}

impl<T> Chunk<T> {
    fn new() -> Self {
        Self { slots: Vec::with_capacity(CHUNK), generations: Vec::with_capacity(CHUNK) }
    }

    fn push(&mut self, value: T) {
        self.slots.push(State::Taken(value));
        self.generations.push(0);
    }

    fn memory(&self) -> usize {
        self.slots.len() * (size_of::<State<T>>() + size_of::<u32>())
    }
}

/// Slots of one type, found by number, recycled last in first out.
///
/// Memory grows by chunks of 65,536 slots: no entry ever moves, no growth needs the old and the new
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
    chunks: Vec<Chunk<T>>,
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

/// From so many entries on, the first chunk asks for huge pages.
const LARGE: usize = 4096;

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
        if let Some(state) = self.state_mut(head) {
            let State::Free(next) = *state else {
                unreachable!("a taken slot on the free list");
            };
            *state = State::Taken(value);
            self.free = next;
            self.len += 1;
            return Ok(SlotId { index: head, generation: self.generation(head) });
        }
        let index = self.made;
        if index == NONE {
            return Err(Full(value));
        }
        match self.chunks.last_mut() {
            Some(chunk) if chunk.slots.len() < CHUNK => {
                // Not before: a small table would not fill one.
                if index as usize == LARGE {
                    crate::memory::ask_for_huge_pages(&chunk.slots);
                }
                chunk.push(value);
            }
            _ => {
                let mut chunk = Chunk::new();
                if !self.chunks.is_empty() {
                    crate::memory::ask_for_huge_pages(&chunk.slots);
                }
                chunk.push(value);
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
        let state = self.state_mut(index)?;
        if let State::Free(_) = state {
            return None;
        }
        let State::Taken(value) = core::mem::replace(state, State::Free(free)) else {
            return None;
        };
        let chunk = &mut self.chunks[(index >> CHUNK_BITS) as usize];
        let generation = &mut chunk.generations[index as usize % CHUNK];
        *generation = generation.wrapping_add(1);
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
        self.state(index)?.value()
    }

    /// The entry in slot `index`, to change.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.state_mut(index)? {
            State::Taken(value) => Some(value),
            State::Free(_) => None,
        }
    }

    /// The entry that `id` was given for; `None` if it was removed, whoever lives there now.
    /// (2^32 removals from the same slot later an id could be taken for a new one.)
    #[inline]
    #[must_use]
    pub fn get_by_id(&self, id: SlotId) -> Option<&T> {
        let value = self.get(id.index)?;
        (self.generation(id.index) == id.generation).then_some(value)
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
        if let Some(state) = self.state(index) {
            crate::memory::prefetch(state);
        }
    }

    /// Slot number with current generation, if slot `index` is taken.
    #[must_use]
    pub fn id(&self, index: u32) -> Option<SlotId> {
        self.get(index)?;
        Some(SlotId { index, generation: self.generation(index) })
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

    /// Bytes of the slots made so far, free ones included, without what the entries own themselves. The rest of the last
    /// chunk is address space that no memory stands behind yet.
    #[must_use]
    pub fn memory(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(Chunk::memory).sum();
        chunks + self.chunks.capacity() * size_of::<Chunk<T>>()
    }

    /// All entries with their ids, by slot number.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { slab: self, next: 0, left: self.len as usize }
    }

    #[inline]
    fn state(&self, index: u32) -> Option<&State<T>> {
        self.chunks.get((index >> CHUNK_BITS) as usize)?.slots.get(index as usize % CHUNK)
    }

    #[inline]
    fn state_mut(&mut self, index: u32) -> Option<&mut State<T>> {
        self.chunks.get_mut((index >> CHUNK_BITS) as usize)?.slots.get_mut(index as usize % CHUNK)
    }

    /// The generation of a slot that was made.
    fn generation(&self, index: u32) -> u32 {
        self.chunks[(index >> CHUNK_BITS) as usize].generations[index as usize % CHUNK]
    }
}

impl<T> State<T> {
    #[inline]
    fn value(&self) -> Option<&T> {
        match self {
            Self::Taken(value) => Some(value),
            Self::Free(_) => None,
        }
    }
}

/// Iterator over the entries of a [`Slab`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    slab: &'a Slab<T>,
    next: u32,
    left: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (SlotId, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let index = self.next;
            self.next = index.saturating_add(1);
            if let Some(value) = self.slab.get(index) {
                self.left -= 1;
                return Some((SlotId { index, generation: self.slab.generation(index) }, value));
            }
        }
        None
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
