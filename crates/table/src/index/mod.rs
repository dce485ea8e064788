//! The tuple index: from a keyed 32-bit hash to slot numbers.

mod lanes;
mod range;
mod table;
#[cfg(test)]
mod tests;

use core::{error, fmt};

use table::{LANES, Table, entry, word};

/// Most entries that an insertion passes before it gives up with [`InsertError::ProbeLimit`]:
/// 64 buckets of 8.
///
/// With a keyed hash of some quality a table never gets there (see [`Index`]); a flood of equal
/// hashes does, and then costs at most 64 consecutive cache lines per operation.
pub const MAX_PROBE: usize = MAX_RUN * LANES;

const MAX_RUN: usize = 64;
/// A run of full buckets this long makes a table grow early, if it is at least half full.
const EARLY_RUN: usize = MAX_RUN / 2;
/// Entries for each bucket above which a table grows: load 3/4.
const LOAD: usize = 6;
const MIN_BUCKETS: usize = 4;
/// 16 GiB where addresses have 64 bits, 256 MiB elsewhere.
const MAX_BUCKETS: usize = if usize::BITS >= 64 { 1 << 28 } else { 1 << 22 };
/// Old buckets moved by each insertion and removal. A table of `n` buckets grows at no more than
/// `6n` entries into one with room for `12n`; `n / 2` writes empty it, so that growths never pile
/// up.
const MOVED_PER_WRITE: usize = 2;

/// Keyed hash in, slot number out. Keys live elsewhere (in a [`Slab`](crate::Slab), say); the index
/// stores 8 bytes for each entry, eight entries in a bucket of one cache line.
///
/// **Hashes** must come from a keyed function if their input comes from outside. All 32 bits are
/// compared before `eq` is asked: with `n` entries a search asks about `n / 2^32` times in vain.
///
/// **Growth** is online: above 3/4 load a table of twice the size is made (of lazily zeroed
/// memory), and each later insertion or removal moves two old buckets, so at most 16 entries.
/// Searches look into both meanwhile. Stored hashes are used for moving, no key is hashed again.
///
/// **Probe lengths.** Buckets, that is cache lines, looked at in a table of 2^17 buckets with
/// random hashes:
///
/// | load | hit, mean | miss, mean | hit, longest |
/// |------|-----------|------------|--------------|
/// | 1/2  | 1.01      | 1.06       | 5            |
/// | 5/8  | 1.03      | 1.22       | 9            |
/// | 3/4  | 1.10      | 1.74       | 17           |
/// | 7/8  | 1.33      | 4.67       | 59           |
///
/// which is why the limit is 3/4. Larger tables have longer longest runs; a run of 32 full buckets
/// makes a table that is at least half full grow before its time, so that random hashes stay away
/// from [`MAX_PROBE`] at every size. Removal fills gaps: churn leaves no tombstones.
///
/// **Limits.** Slots below [`u32::MAX`]; 2^28 buckets, that is 1.6 * 10^9 entries in 16 GiB. At
/// 2^27 entries, one search in 32 asks `eq` once in vain. An allocation that the system refuses
/// aborts the program, as everywhere in `alloc`.
///
/// ```
/// use fourtuple_table::Index;
///
/// let names = ["ann", "bob"];
/// let mut index = Index::with_capacity(names.len());
/// index.insert(0x1234_5678, 0)?;
/// index.insert(0x1234_5678, 1)?; // equal hashes are told apart by `eq`
/// assert_eq!(index.find(0x1234_5678, |slot| names[slot as usize] == "bob"), Some(1));
/// assert!(index.remove(0x1234_5678, 1));
/// assert_eq!(index.find(0x1234_5678, |slot| names[slot as usize] == "bob"), None);
/// # Ok::<(), fourtuple_table::InsertError>(())
/// ```
#[derive(Debug, Default)]
pub struct Index {
    main: Table,
    /// What growth has not moved yet; no live buckets otherwise.
    old: Table,
    len: usize,
}

/// Why [`Index::insert`] refused an entry. The index is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InsertError {
    /// Every bucket within reach of the hash is full: too many equal or neighbouring hashes.
    ProbeLimit {
        /// Entries passed, at least [`MAX_PROBE`] of them or as many as the index holds.
        probed: usize,
    },
    /// Slot [`u32::MAX`] cannot be stored.
    SlotOutOfRange,
    /// The index has its greatest size, and is filled to its load limit.
    Full,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProbeLimit { probed } => {
                write!(f, "no free lane near the hash's bucket: {probed} entries passed")
            }
            Self::SlotOutOfRange => write!(f, "slot numbers end before {}", u32::MAX),
            Self::Full => write!(f, "the index has reached its greatest size"),
        }
    }
}

impl error::Error for InsertError {}

impl Index {
    /// An index that takes `entries` without growing; 0 allocates nothing. More than the greatest
    /// size counts as the greatest size.
    #[must_use]
    pub fn with_capacity(entries: usize) -> Self {
        if entries == 0 {
            return Self::default();
        }
        let buckets = entries.div_ceil(LOAD).clamp(MIN_BUCKETS, MAX_BUCKETS).next_power_of_two();
        Self { main: Table::new(buckets), ..Self::default() }
    }

    /// The first slot stored under `hash` that `eq` accepts. `eq` is called for slots whose whole
    /// hash is equal, in no particular order.
    #[inline]
    pub fn find(&self, hash: u32, mut eq: impl FnMut(u32) -> bool) -> Option<u32> {
        if let Some(slot) = self.main.find(hash, &mut eq) {
            return Some(slot);
        }
        if self.old.live() == 0 { None } else { self.old.find(hash, &mut eq) }
    }

    /// Asks the memory for the first bucket that a search for `hash` looks into: a search some 100 ns later
    /// does not wait for it.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        if let Some(bucket) = self.main.bucket(self.main.start(hash)) {
            crate::memory::prefetch(bucket);
        }
    }

    /// Stores `slot` under `hash`. Whether an equal key is there already is the caller's to check:
    /// the same pair twice is stored twice.
    ///
    /// # Errors
    /// See [`InsertError`]. Growth follows the number of entries alone, so that a flood of equal
    /// hashes ends in [`InsertError::ProbeLimit`] instead of an ever larger table.
    pub fn insert(&mut self, hash: u32, slot: u32) -> Result<(), InsertError> {
        let word = word(hash, slot).ok_or(InsertError::SlotOutOfRange)?;
        self.move_some();
        if self.len >= self.capacity() {
            self.grow()?;
        }
        // An old chain will end up behind the new one: both count, or a flood could fill one after
        // the other and make the joined chain longer at every growth.
        let behind = match self.old.live() {
            0 => 0,
            _ => self.old.run(hash, MAX_RUN + 1),
        };
        let limit = |passed| InsertError::ProbeLimit { probed: (behind + passed) * LANES };
        let most = MAX_RUN.checked_sub(behind).ok_or_else(|| limit(0))?;
        let passed = self.main.place(word, most).map_err(limit)?;
        self.len += 1;
        if behind + passed >= EARLY_RUN && self.len >= self.main.live() * LANES / 2 {
            // At the greatest size a long run is only slow.
            let _ = self.grow();
        }
        Ok(())
    }

    /// Takes one entry of exactly this hash and slot out. False if there is none.
    pub fn remove(&mut self, hash: u32, slot: u32) -> bool {
        self.move_some();
        let Some(word) = word(hash, slot) else {
            return false;
        };
        let removed = self.main.remove(word) || self.old.remove(word);
        self.len -= usize::from(removed);
        removed
    }

    /// Entries stored.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries at which the next growth begins.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.main.live() * LOAD
    }

    /// Bytes allocated (not all of them touched yet, after a growth).
    #[must_use]
    pub fn memory(&self) -> usize {
        self.main.memory() + self.old.memory()
    }

    /// True while a growth is being carried out by insertions and removals.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.old.live() != 0
    }

    /// All entries as `(hash, slot)`, in no particular order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { words: self.main.words().iter(), rest: self.old.words().iter() }
    }

    /// Measures the chains; reads the whole table. Counts the larger table only while growing.
    #[must_use]
    pub fn probe_stats(&self) -> ProbeStats {
        let table = &self.main;
        let mut stats = ProbeStats { buckets: table.live(), ..ProbeStats::default() };
        for at in 0..table.live() {
            for (hash, _) in table.bucket(at).into_iter().flatten().filter_map(|&w| entry(w)) {
                let looked = table.distance(table.start(hash), at) + 1;
                stats.entries += 1;
                stats.hit_total += looked as u64;
                stats.hit_max = stats.hit_max.max(looked);
            }
        }
        // Runs from the back, twice round, because a run may cross the end.
        let mut run = 0;
        for turn in [false, true] {
            for at in (0..table.live()).rev() {
                let full = table.bucket(at).is_some_and(|b| b.iter().all(|&word| word != 0));
                run = if full { (run + 1).min(table.live()) } else { 0 };
                if turn {
                    stats.miss_total += run as u64 + 1;
                    stats.miss_max = stats.miss_max.max(run + 1);
                }
            }
        }
        stats
    }

    fn grow(&mut self) -> Result<(), InsertError> {
        // Cannot be so when the load limit calls, see MOVED_PER_WRITE; may be so for an early
        // growth.
        if self.old.live() != 0 {
            return if self.len < self.capacity() { Ok(()) } else { Err(InsertError::Full) };
        }
        let buckets = (self.main.live() * 2).max(MIN_BUCKETS);
        if buckets > MAX_BUCKETS {
            return Err(InsertError::Full);
        }
        self.old = core::mem::replace(&mut self.main, Table::new(buckets));
        Ok(())
    }

    #[inline]
    fn move_some(&mut self) {
        if self.old.live() != 0 {
            self.move_buckets();
        }
    }

    fn move_buckets(&mut self) {
        for _ in 0..MOVED_PER_WRITE {
            for word in self.old.pop().into_iter().flatten().filter(|&word| word != 0) {
                // Admission is over for these; there is room, as the load is below one.
                let placed = self.main.place(word, usize::MAX);
                debug_assert!(placed.is_ok());
            }
        }
    }
}

/// Iterator over the entries of an [`Index`].
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    words: core::slice::Iter<'a, u64>,
    rest: core::slice::Iter<'a, u64>,
}

impl Iterator for Iter<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<Self::Item> {
        self.words.by_ref().chain(self.rest.by_ref()).find_map(|&word| entry(word))
    }
}

impl<'a> IntoIterator for &'a Index {
    type Item = (u32, u32);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Chain lengths of an [`Index`], in buckets (cache lines) looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeStats {
    /// Entries counted.
    pub entries: usize,
    /// Buckets of the table.
    pub buckets: usize,
    /// Buckets looked at if every entry is searched once.
    pub hit_total: u64,
    /// The most buckets for one entry.
    pub hit_max: usize,
    /// Buckets looked at if one absent hash is searched for each bucket.
    pub miss_total: u64,
    /// The most buckets for an absent hash.
    pub miss_max: usize,
}

impl ProbeStats {
    /// Mean number of buckets for a hit; 0 without entries.
    #[must_use]
    pub fn hit_mean(&self) -> f64 {
        self.hit_total as f64 / self.entries.max(1) as f64
    }

    /// Mean number of buckets for a miss; 0 without buckets.
    #[must_use]
    pub fn miss_mean(&self) -> f64 {
        self.miss_total as f64 / self.buckets.max(1) as f64
    }
}
