//! SipHash-C-D with a 64-bit result.

use crate::Key;

/// SipHash with `C` rounds for each block and `D` rounds at the end; 64-bit result.
///
/// Use it through [`SipHash24`] or [`SipHash13`]. It has no values: there is nothing to keep between
/// two hashes. Every function takes the key first, and each gives the hash of a byte string; the
/// forms of fixed words hash the little-endian bytes of their arguments, in order.
#[derive(Debug)]
pub enum SipHash<const C: usize, const D: usize> {}

/// SipHash-2-4, the authors' recommendation, and what Linux uses for flow tables.
pub type SipHash24 = SipHash<2, 4>;

/// SipHash-1-3: fewer rounds, for hash tables whose values nobody sees. Linux' `hsiphash` on 64-bit
/// machines is its low half.
pub type SipHash13 = SipHash<1, 3>;

/// The four words a hash is made in. Passed by value, so that it stays in registers.
#[derive(Clone, Copy)]
struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline]
    const fn new(key: &Key) -> Self {
        let (k0, k1) = key.words();
        // The constants spell "somepseudorandomlygeneratedbytes" (paper, section 2.1).
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline]
    fn rounds<const R: usize>(mut self) -> Self {
        for _ in 0..R {
            self.v0 = self.v0.wrapping_add(self.v1);
            self.v2 = self.v2.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(13) ^ self.v0;
            self.v3 = self.v3.rotate_left(16) ^ self.v2;
            self.v0 = self.v0.rotate_left(32);

            self.v2 = self.v2.wrapping_add(self.v1);
            self.v0 = self.v0.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(17) ^ self.v2;
            self.v3 = self.v3.rotate_left(21) ^ self.v0;
            self.v2 = self.v2.rotate_left(32);
        }
        self
    }

    #[inline]
    fn block<const C: usize>(mut self, m: u64) -> Self {
        self.v3 ^= m;
        self = self.rounds::<C>();
        self.v0 ^= m;
        self
    }

    #[inline]
    fn finish<const D: usize>(mut self) -> u64 {
        self.v2 ^= 0xff;
        self = self.rounds::<D>();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

/// Last block of an input of `len` bytes whose bytes beyond the full blocks are `rest`.
#[inline]
const fn last(len: u64, rest: u64) -> u64 {
    len << 56 | rest
}

/// Two 32-bit words as the 64-bit word with the same little-endian bytes.
#[inline]
const fn pair(a: u32, b: u32) -> u64 {
    (b as u64) << 32 | a as u64
}

impl<const C: usize, const D: usize> SipHash<C, D> {
    /// Hash of the 8 bytes of one 64-bit word.
    #[inline]
    #[must_use]
    pub fn u64x1(key: &Key, a: u64) -> u64 {
        State::new(key).block::<C>(a).block::<C>(last(8, 0)).finish::<D>()
    }

    /// Hash of the 16 bytes of two 64-bit words.
    #[inline]
    #[must_use]
    pub fn u64x2(key: &Key, a: u64, b: u64) -> u64 {
        State::new(key).block::<C>(a).block::<C>(b).block::<C>(last(16, 0)).finish::<D>()
    }

    /// Hash of the 24 bytes of three 64-bit words.
    #[inline]
    #[must_use]
    pub fn u64x3(key: &Key, a: u64, b: u64, c: u64) -> u64 {
        State::new(key)
            .block::<C>(a)
            .block::<C>(b)
            .block::<C>(c)
            .block::<C>(last(24, 0))
            .finish::<D>()
    }

    /// Hash of the 32 bytes of four 64-bit words.
    #[inline]
    #[must_use]
    pub fn u64x4(key: &Key, a: u64, b: u64, c: u64, d: u64) -> u64 {
        State::new(key)
            .block::<C>(a)
            .block::<C>(b)
            .block::<C>(c)
            .block::<C>(d)
            .block::<C>(last(32, 0))
            .finish::<D>()
    }

    /// Hash of the 4 bytes of one 32-bit word.
    #[inline]
    #[must_use]
    pub fn u32x1(key: &Key, a: u32) -> u64 {
        State::new(key).block::<C>(last(4, a as u64)).finish::<D>()
    }

    /// Hash of the 8 bytes of two 32-bit words.
    #[inline]
    #[must_use]
    pub fn u32x2(key: &Key, a: u32, b: u32) -> u64 {
        Self::u64x1(key, pair(a, b))
    }

    /// Hash of the 12 bytes of three 32-bit words.
    #[inline]
    #[must_use]
    pub fn u32x3(key: &Key, a: u32, b: u32, c: u32) -> u64 {
        State::new(key).block::<C>(pair(a, b)).block::<C>(last(12, c as u64)).finish::<D>()
    }

    /// Hash of the 16 bytes of four 32-bit words.
    #[inline]
    #[must_use]
    pub fn u32x4(key: &Key, a: u32, b: u32, c: u32, d: u32) -> u64 {
        Self::u64x2(key, pair(a, b), pair(c, d))
    }

    /// Hash of `N` full 8-byte blocks and a last block given whole.
    ///
    /// `last` holds up to seven more input bytes in its low bytes (little-endian) and in its top byte
    /// the input's length in bytes modulo 256: 8 * `N` plus the number of those bytes. The function
    /// does not look at it. With the right length the result is [`bytes`](Self::bytes) of that input;
    /// a layout that puts something else there has to see for itself that no two inputs coincide.
    ///
    /// ```
    /// use fourtuple_hash::{Key, SipHash24};
    ///
    /// let key = Key::from_words(1, 2);
    /// let input = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    /// let hash = SipHash24::blocks(&key, &[0x0706_0504_0302_0100], 11 << 56 | 0x0a_0908);
    /// assert_eq!(hash, SipHash24::bytes(&key, &input));
    /// ```
    // Always: a call would spill the four words, and callers hash many inputs in a loop.
    #[inline(always)]
    #[must_use]
    pub fn blocks<const N: usize>(key: &Key, blocks: &[u64; N], last: u64) -> u64 {
        let mut state = State::new(key);
        for &m in blocks {
            state = state.block::<C>(m);
        }
        state.block::<C>(last).finish::<D>()
    }

    /// Hash of a byte string.
    #[inline]
    #[must_use]
    pub fn bytes(key: &Key, input: &[u8]) -> u64 {
        let (full, rest) = input.as_chunks::<8>();
        let mut state = State::new(key);
        for block in full {
            state = state.block::<C>(u64::from_le_bytes(*block));
        }
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        // The shift leaves the length modulo 256, as the definition wants it.
        let end = last(input.len() as u64, u64::from_le_bytes(tail));
        state.block::<C>(end).finish::<D>()
    }
}
