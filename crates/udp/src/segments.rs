//! Memory that grows and never moves: what was handed out once stays what it is, so that readers need
//! no lock to reach it.

use std::sync::OnceLock;

/// An array in parts, each twice as long as the one before; the first has 2^`FIRST` places.
pub(crate) struct Segments<T, const FIRST: u32 = 6, const PARTS: usize = 26> {
    parts: [OnceLock<Box<[T]>>; PARTS],
}

impl<T, const FIRST: u32, const PARTS: usize> Default for Segments<T, FIRST, PARTS> {
    fn default() -> Self {
        Self { parts: [const { OnceLock::new() }; PARTS] }
    }
}

impl<T, const FIRST: u32, const PARTS: usize> std::fmt::Debug for Segments<T, FIRST, PARTS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segments").field("places", &self.places()).finish_non_exhaustive()
    }
}

impl<T, const FIRST: u32, const PARTS: usize> Segments<T, FIRST, PARTS> {
    #[inline]
    const fn find(index: u32) -> (usize, usize) {
        let n = index as u64 + (1 << FIRST);
        let part = 63 - n.leading_zeros() - FIRST;
        (part as usize, (n - (1 << (FIRST + part))) as usize)
    }

    /// The place, if its part was made.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (part, offset) = Self::find(index);
        self.parts.get(part)?.get()?.get(offset)
    }

    /// The place; its part is made with `make` if it is not there. `None` beyond the limit.
    pub(crate) fn ensure(&self, index: u32, make: impl Fn() -> T) -> Option<&T> {
        let (part, offset) = Self::find(index);
        let size = 1usize << (FIRST + part as u32);
        let part = self.parts.get(part)?;
        part.get_or_init(|| (0..size).map(|_| make()).collect()).get(offset)
    }

    /// Places in the parts that were made.
    pub(crate) fn places(&self) -> usize {
        self.parts.iter().filter_map(OnceLock::get).map(|part| part.len()).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.places() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let s = Segments::<u32, 2, 5>::default();
        assert!(s.get(0).is_none());
        let mut seen = std::collections::BTreeSet::new();
        // 4 + 8 + 16 + 32 + 64.
        for i in 0..124 {
            let place: *const u32 = s.ensure(i, || 7).unwrap();
            assert!(seen.insert(place as usize), "place {i}");
            assert_eq!(s.get(i), Some(&7));
        }
        assert_eq!((s.places(), s.bytes()), (124, 496));
        assert!(s.ensure(124, || 7).is_none());
    }
}
