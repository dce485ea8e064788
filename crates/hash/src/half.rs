//! HalfSipHash-C-D with a 32-bit result.

use crate::HalfKey;

/// HalfSipHash with `C` rounds for each block and `D` rounds at the end; 32-bit result.
///
/// SipHash with 32-bit words: 4-byte blocks, a 64-bit key. It is quick where 64-bit arithmetic is
/// not, and its short key and state make it **weaker**: fit for a table whose hashes nobody sees, not
/// for a message authentication code. Use it through [`HalfSipHash24`] or [`HalfSipHash13`].
///
/// Every function takes the key first and gives the hash of a byte string; the forms of fixed words
/// hash the little-endian bytes of their arguments, in order.
///
/// ```
/// use fourtuple_hash::{HalfKey, HalfSipHash24};
///
/// let key = HalfKey::from_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
/// assert_eq!(HalfSipHash24::u32x1(&key, 0x0302_0100), 0x8946_6e2a);
/// assert_eq!(HalfSipHash24::bytes(&key, &[0, 1, 2, 3]), 0x8946_6e2a);
/// ```
#[derive(Debug)]
pub enum HalfSipHash<const C: usize, const D: usize> {}

/// HalfSipHash-2-4.
pub type HalfSipHash24 = HalfSipHash<2, 4>;

/// HalfSipHash-1-3, which is Linux' `hsiphash` on 32-bit machines.
pub type HalfSipHash13 = HalfSipHash<1, 3>;

/// The four words a hash is made in. Passed by value, so that it stays in registers.
#[derive(Clone, Copy)]
struct State {
    v0: u32,
    v1: u32,
    v2: u32,
    v3: u32,
}

impl State {
    #[inline]
    const fn new(key: &HalfKey) -> Self {
        let (k0, k1) = key.words();
        Self { v0: k0, v1: k1, v2: k0 ^ 0x6c79_6765, v3: k1 ^ 0x7465_6462 }
    }

    #[inline]
    fn rounds<const R: usize>(mut self) -> Self {
        for _ in 0..R {
            self.v0 = self.v0.wrapping_add(self.v1);
            self.v2 = self.v2.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(5) ^ self.v0;
            self.v3 = self.v3.rotate_left(8) ^ self.v2;
            self.v0 = self.v0.rotate_left(16);

            self.v2 = self.v2.wrapping_add(self.v1);
            self.v0 = self.v0.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(13) ^ self.v2;
            self.v3 = self.v3.rotate_left(7) ^ self.v0;
            self.v2 = self.v2.rotate_left(16);
        }
        self
    }

    #[inline]
    fn block<const C: usize>(mut self, m: u32) -> Self {
        self.v3 ^= m;
        self = self.rounds::<C>();
        self.v0 ^= m;
        self
    }

    #[inline]
    fn finish<const D: usize>(mut self) -> u32 {
        self.v2 ^= 0xff;
        self = self.rounds::<D>();
        self.v1 ^ self.v3
    }
}

/// Last block of an input of `len` bytes whose bytes beyond the full blocks are `rest`.
#[inline]
const fn last(len: u32, rest: u32) -> u32 {
    len << 24 | rest
}

impl<const C: usize, const D: usize> HalfSipHash<C, D> {
    /// Hash of the 4 bytes of one 32-bit word.
    #[inline]
    #[must_use]
    pub fn u32x1(key: &HalfKey, a: u32) -> u32 {
        State::new(key).block::<C>(a).block::<C>(last(4, 0)).finish::<D>()
    }

    /// Hash of the 8 bytes of two 32-bit words.
    #[inline]
    #[must_use]
    pub fn u32x2(key: &HalfKey, a: u32, b: u32) -> u32 {
        State::new(key).block::<C>(a).block::<C>(b).block::<C>(last(8, 0)).finish::<D>()
    }

    /// Hash of the 12 bytes of three 32-bit words.
    #[inline]
    #[must_use]
    pub fn u32x3(key: &HalfKey, a: u32, b: u32, c: u32) -> u32 {
        State::new(key)
            .block::<C>(a)
            .block::<C>(b)
            .block::<C>(c)
            .block::<C>(last(12, 0))
            .finish::<D>()
    }

    /// Hash of the 16 bytes of four 32-bit words.
    #[inline]
    #[must_use]
    pub fn u32x4(key: &HalfKey, a: u32, b: u32, c: u32, d: u32) -> u32 {
        State::new(key)
            .block::<C>(a)
            .block::<C>(b)
            .block::<C>(c)
            .block::<C>(d)
            .block::<C>(last(16, 0))
            .finish::<D>()
    }

    /// Hash of a byte string.
    #[inline]
    #[must_use]
    pub fn bytes(key: &HalfKey, input: &[u8]) -> u32 {
        let (full, rest) = input.as_chunks::<4>();
        let mut state = State::new(key);
        for block in full {
            state = state.block::<C>(u32::from_le_bytes(*block));
        }
        let mut tail = [0; 4];
        tail[..rest.len()].copy_from_slice(rest);
        // The cast and the shift leave the length modulo 256, as the definition wants it.
        let end = last(input.len() as u32, u32::from_le_bytes(tail));
        state.block::<C>(end).finish::<D>()
    }
}
