//! Range reduction.

/// Maps a 32-bit hash to `0..n`: `(hash * n) >> 32`, in 64-bit arithmetic.
///
/// One multiplication in place of a division, for any `n`, not only powers of two. If `hash` is
/// uniform, each of the `n` results comes up for either the floor or the ceiling of 2^32 / n hashes.
/// The result is decided by the *high* bits of the hash, so it is only good for hashes whose high
/// bits are good, as those of SipHash are. For `n` = 0 the result is 0.
///
/// Linux calls it `reciprocal_scale` and finds the bucket of a connection by it; the argument is in
/// Lemire's "Fast random integer generation in an interval" (2016).
///
/// ```
/// use fourtuple_hash::reduce;
///
/// assert_eq!(reduce(0x51c5_ca19, 262_144), 83_735);
/// assert_eq!(reduce(u32::MAX, 1000), 999);
/// ```
#[inline]
#[must_use]
pub const fn reduce(hash: u32, n: u32) -> u32 {
    ((hash as u64 * n as u64) >> 32) as u32
}
