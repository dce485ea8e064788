//! Entries by a range of hashes: buckets are in the order of hashes, so a range is a run of buckets.

use core::ops::RangeInclusive;

use super::Index;
use super::lanes::is_full;
use super::table::{Bucket, Table, entry};

impl Index {
    /// Calls `visit` for every entry whose hash lies in `range`, in no particular order, some perhaps twice. Looks at
    /// the buckets of that range and at the full ones behind it, not at the table.
    ///
    /// ```
    /// use fourtuple_table::Index;
    ///
    /// let mut index = Index::with_capacity(3);
    /// for (hash, slot) in [(10, 0), (20, 1), (0xffff_0000, 2)] {
    ///     index.insert(hash, slot)?;
    /// }
    /// let mut seen = Vec::new();
    /// index.for_each_in(15..=0xffff_0000, |slot| seen.push(slot));
    /// seen.sort();
    /// assert_eq!(seen, [1, 2]);
    /// # Ok::<(), fourtuple_table::InsertError>(())
    /// ```
    pub fn for_each_in(&self, range: RangeInclusive<u32>, mut visit: impl FnMut(u32)) {
        for table in [&self.main, &self.old] {
            table.for_each_in(&range, &mut visit);
        }
    }
}

impl Table {
    fn for_each_in(&self, range: &RangeInclusive<u32>, visit: &mut impl FnMut(u32)) {
        let live = self.live();
        if live == 0 || range.is_empty() {
            return;
        }
        let (first, last) = (self.home(*range.start()), self.home(*range.end()));
        let mut visit_bucket = |bucket: &Bucket| {
            let entries = bucket.iter().filter_map(|&word| entry(word));
            entries.filter(|(hash, _)| range.contains(hash)).for_each(|(_, slot)| visit(slot));
        };
        // Homes that a shrinking table has lost start at bucket 0; so does what runs over its end.
        let mut at = first;
        while at < live {
            let Some(bucket) = self.bucket(at) else {
                return;
            };
            visit_bucket(bucket);
            if at >= last && !is_full(bucket) {
                return;
            }
            at += 1;
        }
        for at in 0..first.min(live) {
            let Some(bucket) = self.bucket(at) else {
                return;
            };
            visit_bucket(bucket);
            if !is_full(bucket) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::super::Index;

    proptest! {
        /// Against a scan of everything, also while the index grows and where runs are long.
        #[test]
        fn as_a_scan(
            hashes in prop::collection::vec(prop_oneof![any::<u32>(), 0u32..3, u32::MAX - 3..], 0..400),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
            a in prop_oneof![any::<u32>(), 0u32..3],
            b in prop_oneof![any::<u32>(), Just(u32::MAX)],
        ) {
            let mut index = Index::with_capacity(0);
            let mut stored = Vec::new();
            for (slot, &hash) in hashes.iter().enumerate() {
                if index.insert(hash, slot as u32).is_ok() {
                    stored.push((hash, slot as u32));
                }
            }
            for at in removed {
                if !stored.is_empty() {
                    let (hash, slot) = stored.swap_remove(at.index(stored.len()));
                    prop_assert!(index.remove(hash, slot));
                }
            }
            let range = a.min(b)..=a.max(b);
            let mut seen = BTreeSet::new();
            index.for_each_in(range.clone(), |slot| { seen.insert(slot); });
            let expected: BTreeSet<u32> =
                stored.iter().filter(|(hash, _)| range.contains(hash)).map(|&(_, slot)| slot).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
