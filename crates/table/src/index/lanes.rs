//! The questions to a bucket: is this hash in it, in which lanes, and is there a free one.
//!
//! Compilers make vector code of a plain "or" or "and" over eight compares: two vector compares of
//! the whole line, one test. They give it up, for eight branches or a trip through the stack, when
//! the lanes are asked for at the same place. So this is asked apart, out of line, of the few
//! buckets that hold the hash.

use super::table::Bucket;

/// True if some lane holds `hash`. A free lane looks like hash 0.
#[inline(always)]
pub(super) fn holds(bucket: &Bucket, hash: u32) -> bool {
    bucket.iter().fold(false, |any, &word| any | ((word >> 32) as u32 == hash))
}

/// Bit `i` for each lane `i` that holds `hash`, without branches: none could be foreseen.
#[inline(never)]
pub(super) fn holding(bucket: &Bucket, hash: u32) -> u32 {
    let bit = |(lane, &word): (usize, &u64)| u32::from((word >> 32) as u32 == hash) << lane;
    bucket.iter().enumerate().map(bit).fold(0, |lanes, bit| lanes | bit)
}

/// True if no lane is free.
#[inline(always)]
pub(super) fn is_full(bucket: &Bucket) -> bool {
    bucket.iter().fold(true, |full, &word| full & (word as u32 != 0))
}
