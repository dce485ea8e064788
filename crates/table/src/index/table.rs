//! One open-addressed table of buckets, linear probing by bucket, deletion by backward fill.
//!
//! The invariant all of this rests on: for an entry in bucket `b` with start bucket `s`, every
//! bucket on the way from `s` to `b` is full. So a search may stop at the first bucket with a free
//! lane, and a removal that opens a lane in a full bucket has to fill it from further on. Which
//! buckets are full depends on the set of entries only, not on the order in which they came and
//! went: churn leaves nothing behind.
//!
//! A table that is being emptied loses its buckets from the end. What remains is a ring of `live`
//! buckets; entries whose home is gone start at bucket 0, where their way went on anyway.

use alloc::vec;
use alloc::vec::Vec;

use super::lanes::{holding, is_full};

/// Entries of a bucket: words of one 64-byte cache line.
pub(super) const LANES: usize = 8;
/// Bytes of a cache line, and of a bucket.
const LINE: usize = 64;
/// Emptied buckets are given back to the allocator in pieces of this many (1 MiB), so that no
/// single step pays for unmapping a large table.
const RELEASE: usize = (1 << 20) / LINE;

/// `hash << 32 | slot + 1`, zero if free.
pub(super) type Bucket = [u64; LANES];

/// The word for an entry; `None` for the one slot number that has no word.
pub(super) fn word(hash: u32, slot: u32) -> Option<u64> {
    Some(u64::from(hash) << 32 | u64::from(slot.checked_add(1)?))
}

/// Hash and slot of a word; `None` if the lane is free.
#[inline]
pub(super) fn entry(word: u64) -> Option<(u32, u32)> {
    let slot = (word as u32).checked_sub(1)?;
    Some(((word >> 32) as u32, slot))
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// Up to seven words of padding, then the buckets.
    ///
    /// Not a vector of `repr(align(64))` buckets: allocators zero over-aligned memory by hand,
    /// touching every page of a new table at once, while plain words come from `calloc`, lazily.
    words: Vec<u64>,
    /// Words to skip so that buckets lie on cache lines.
    offset: usize,
    /// Buckets in use; less than at the beginning only while the table is being emptied.
    live: usize,
    /// `32 - log2(buckets at the beginning)`.
    shift: u32,
}

impl Table {
    /// A table of `buckets`, a power of two of at most 2^32, all free.
    pub(super) fn new(buckets: usize) -> Self {
        debug_assert!(buckets.is_power_of_two());
        let words = vec![0u64; buckets * LANES + (LANES - 1)];
        crate::memory::ask_for_huge_pages(&words);
        let misaligned = words.as_ptr() as usize % LINE;
        let offset = (LINE - misaligned) % LINE / size_of::<u64>();
        Self { words, offset, live: buckets, shift: 32 - buckets.trailing_zeros() }
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The words of all live buckets, free lanes included.
    pub(super) fn words(&self) -> &[u64] {
        self.words.get(self.offset..self.offset + self.live * LANES).unwrap_or(&[])
    }

    /// Address of the first bucket, for the test that it lies on a cache line.
    #[cfg(test)]
    pub(super) fn address(&self) -> usize {
        self.words().as_ptr() as usize
    }

    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> Option<&Bucket> {
        self.words.get(self.offset + at * LANES..)?.first_chunk()
    }

    fn bucket_mut(&mut self, at: usize) -> Option<&mut Bucket> {
        self.words.get_mut(self.offset + at * LANES..)?.first_chunk_mut()
    }

    /// First bucket on the way of `hash`: multiply-shift with a power of two, that is the top bits,
    /// so that bucket `b` of a table becomes buckets `2b` and `2b + 1` of one twice its size.
    #[inline(always)]
    pub(super) fn start(&self, hash: u32) -> usize {
        let home = self.home(hash);
        if home < self.live { home } else { 0 }
    }

    /// The bucket of `hash` in the table as it was made.
    #[inline(always)]
    pub(super) fn home(&self, hash: u32) -> usize {
        (u64::from(hash) >> self.shift) as usize
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        if at + 1 < self.live { at + 1 } else { 0 }
    }

    /// Steps on the ring from `from` to `to`.
    pub(super) fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.live - from }
    }

    #[inline(always)]
    pub(super) fn find(&self, hash: u32, eq: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.start(hash);
        for _ in 0..self.live {
            let bucket = self.bucket(at)?;
            let mut left = holding(bucket, hash);
            while left != 0 {
                let lane = left.trailing_zeros() as usize % LANES;
                if let Some((_, slot)) = entry(bucket[lane])
                    && eq(slot)
                {
                    return Some(slot);
                }
                left &= left - 1;
            }
            if !is_full(bucket) {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// Full buckets in a row from the start of `hash`, counted up to `most`.
    pub(super) fn run(&self, hash: u32, most: usize) -> usize {
        let mut at = self.start(hash);
        for run in 0..most.min(self.live) {
            if !self.bucket(at).is_some_and(is_full) {
                return run;
            }
            at = self.next(at);
        }
        most.min(self.live)
    }

    /// Puts `word` into the first free lane on its way, no more than `most` full buckets off.
    /// `Ok` and `Err` carry the number of full buckets passed.
    pub(super) fn place(&mut self, word: u64, most: usize) -> Result<usize, usize> {
        let mut at = self.start((word >> 32) as u32);
        let reach = most.saturating_add(1).min(self.live);
        for passed in 0..reach {
            let Some(bucket) = self.bucket_mut(at) else {
                return Err(passed);
            };
            if let Some(lane) = bucket.iter_mut().find(|lane| **lane == 0) {
                *lane = word;
                return Ok(passed);
            }
            at = self.next(at);
        }
        Err(reach)
    }

    pub(super) fn remove(&mut self, word: u64) -> bool {
        let mut at = self.start((word >> 32) as u32);
        for _ in 0..self.live {
            let Some(bucket) = self.bucket_mut(at) else {
                return false;
            };
            let full = is_full(bucket);
            if let Some(lane) = bucket.iter().position(|&lane| lane == word) {
                bucket[lane] = 0;
                if full {
                    self.fill(at, lane);
                }
                return true;
            }
            if !full {
                return false;
            }
            at = self.next(at);
        }
        false
    }

    /// Restores the invariant after a lane of the full bucket `hole` was freed.
    fn fill(&mut self, mut hole: usize, mut lane: usize) {
        let mut at = hole;
        for _ in 1..self.live {
            at = self.next(at);
            let Some(&bucket) = self.bucket(at) else {
                return;
            };
            let gap = self.distance(hole, at);
            let crosses = |&word: &u64| {
                entry(word).is_some_and(|(hash, _)| self.distance(self.start(hash), at) >= gap)
            };
            if let Some(from) = bucket.iter().position(crosses) {
                if let Some(to) = self.bucket_mut(hole) {
                    to[lane] = bucket[from];
                }
                if let Some(source) = self.bucket_mut(at) {
                    source[from] = 0;
                }
                (hole, lane) = (at, from);
            }
            if !is_full(&bucket) {
                return;
            }
        }
    }

    /// Takes the last live bucket off the table, and gives its words.
    pub(super) fn pop(&mut self) -> Option<Bucket> {
        let last = self.live.checked_sub(1)?;
        let bucket = *self.bucket(last)?;
        self.live = last;
        if last == 0 {
            self.words = Vec::new();
        } else if last.is_multiple_of(RELEASE) {
            // In place with the usual allocators. One that moves the words may cost the
            // alignment, not the contents.
            self.words.truncate(self.offset + last * LANES);
            self.words.shrink_to_fit();
        }
        Some(bucket)
    }
}
