//! The questions to a bucket: in which lanes is this hash, and is there a free lane.
//!
//! Two forms of the same: one for machines with SSE2 (every x86-64), one for all others. The second is what the first
//! is tested against.

use super::table::Bucket;

/// Bit `i` for each lane `i` that holds `hash`. A free lane looks like hash 0.
#[inline(always)]
pub(super) fn holding(bucket: &Bucket, hash: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        sse2::holding(bucket, hash)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        portable::holding(bucket, hash)
    }
}

/// True if no lane is free.
#[inline(always)]
pub(super) fn is_full(bucket: &Bucket) -> bool {
    bucket.iter().fold(true, |full, &word| full & (word as u32 != 0))
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::Bucket;

    /// Without branches: none could be foreseen.
    pub(super) fn holding(bucket: &Bucket, hash: u32) -> u32 {
        let bit = |(lane, &word): (usize, &u64)| u32::from((word >> 32) as u32 == hash) << lane;
        bucket.iter().enumerate().map(bit).fold(0, |lanes, bit| lanes | bit)
    }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use core::arch::x86_64::{
        __m128i, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128,
        _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_shuffle_ps,
    };

    use super::Bucket;

    /// The hashes of two lanes each stand at the odd places of a vector: the odd places of two vectors are put side by
    /// side and compared at once, and the eight answers are packed to a byte each.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) fn holding(bucket: &Bucket, hash: u32) -> u32 {
        /// Places 1 and 3 of both operands.
        const ODD: i32 = 0b11_01_11_01;
        let lanes: *const __m128i = bucket.as_ptr().cast();
        // SAFETY: SSE2 is part of every x86-64. The four loads of 16 bytes each lie within the 64 bytes of the bucket,
        // and are of the kind that needs no alignment.
        unsafe {
            let wanted = _mm_set1_epi32(hash as i32);
            let pair = |at: usize| {
                let low = _mm_castsi128_ps(_mm_loadu_si128(lanes.add(at)));
                let high = _mm_castsi128_ps(_mm_loadu_si128(lanes.add(at + 1)));
                let hashes = _mm_castps_si128(_mm_shuffle_ps::<ODD>(low, high));
                _mm_cmpeq_epi32(hashes, wanted)
            };
            let words = _mm_packs_epi32(pair(0), pair(2));
            let bytes = _mm_packs_epi16(words, words);
            (_mm_movemask_epi8(bytes) & 0xff) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_form_equals_the_portable_one(
            lanes in prop::array::uniform8((0u32..3, any::<u32>())),
            hash in 0u32..3,
        ) {
            let bucket = lanes.map(|(hash, slot)| u64::from(hash) << 32 | u64::from(slot));
            prop_assert_eq!(super::holding(&bucket, hash), super::portable::holding(&bucket, hash));
        }
    }
}
