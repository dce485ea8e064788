//! Agreement with implementations that share no line with this crate, on random keys and words.

use fourtuple_hash::{
    HalfKey, HalfSipHash, HalfSipHash13, HalfSipHash24, Key, SipHash13, SipHash24, reduce,
};
use proptest::prelude::*;
use siphasher::sip::{SipHasher13, SipHasher24};

/// HalfSipHash on a byte string, written from the definition in the plainest way: the padded input
/// is made in full, arithmetic is on wide numbers and cut afterwards.
fn half_model(c: usize, d: usize, key: (u32, u32), input: &[u8]) -> u32 {
    const WORD: u64 = 1 << 32;
    fn add_rotate_xor(v: &mut [u64; 4], to: usize, from: usize, by: u32) {
        v[to] = (v[to] + v[from]) % WORD;
        let wide = v[from] << by;
        v[from] = ((wide % WORD) + wide / WORD) ^ v[to];
    }
    fn swap_halves(x: &mut u64) {
        *x = (*x % 65_536) * 65_536 + *x / 65_536;
    }
    fn round(v: &mut [u64; 4]) {
        add_rotate_xor(v, 0, 1, 5);
        swap_halves(&mut v[0]);
        add_rotate_xor(v, 2, 3, 8);
        add_rotate_xor(v, 0, 3, 7);
        add_rotate_xor(v, 2, 1, 13);
        swap_halves(&mut v[2]);
    }
    let (k0, k1) = (u64::from(key.0), u64::from(key.1));
    // "lyge" and "tedb", of the constants of SipHash.
    let mut v = [k0, k1, k0 ^ 0x6c79_6765, k1 ^ 0x7465_6462];
    let mut padded = input.to_vec();
    while padded.len() % 4 != 3 {
        padded.push(0);
    }
    padded.push((input.len() % 256) as u8);
    for block in padded.chunks(4) {
        let m = block.iter().rev().fold(0, |m, &byte| m * 256 + u64::from(byte));
        v[3] ^= m;
        (0..c).for_each(|_| round(&mut v));
        v[0] ^= m;
    }
    v[2] ^= 255;
    (0..d).for_each(|_| round(&mut v));
    (v[1] ^ v[3]) as u32
}

fn le64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn le32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A property for one alias of `SipHash` and its counterpart: every form.
macro_rules! sip_agrees {
    ($name:ident, $ours:ident, $theirs:ident) => {
        proptest! {
            #[test]
            fn $name(
                k0: u64,
                k1: u64,
                w: [u64; 4],
                h: [u32; 4],
                input in prop::collection::vec(any::<u8>(), 0..600),
            ) {
                let key = &Key::from_words(k0, k1);
                let want = |bytes: &[u8]| $theirs::new_with_keys(k0, k1).hash(bytes);
                prop_assert_eq!($ours::bytes(key, &input), want(&input));

                prop_assert_eq!($ours::u64x1(key, w[0]), want(&le64(&w[..1])));
                prop_assert_eq!($ours::u64x2(key, w[0], w[1]), want(&le64(&w[..2])));
                prop_assert_eq!($ours::u64x3(key, w[0], w[1], w[2]), want(&le64(&w[..3])));
                prop_assert_eq!($ours::u64x4(key, w[0], w[1], w[2], w[3]), want(&le64(&w)));

                prop_assert_eq!($ours::u32x1(key, h[0]), want(&le32(&h[..1])));
                prop_assert_eq!($ours::u32x2(key, h[0], h[1]), want(&le32(&h[..2])));
                prop_assert_eq!($ours::u32x3(key, h[0], h[1], h[2]), want(&le32(&h[..3])));
                prop_assert_eq!($ours::u32x4(key, h[0], h[1], h[2], h[3]), want(&le32(&h)));

                // Blocks: 0, 1 and 4 full ones, then each number of bytes in the last.
                for rest in 0..8u64 {
                    let tail = w[3] & ((1u64 << (8 * rest)) - 1);
                    let with = |full: &[u64]| {
                        let mut bytes = le64(full);
                        bytes.extend(&tail.to_le_bytes()[..rest as usize]);
                        want(&bytes)
                    };
                    prop_assert_eq!($ours::blocks(key, &[], rest << 56 | tail), with(&[]));
                    prop_assert_eq!(
                        $ours::blocks(key, &[w[0]], (8 + rest) << 56 | tail),
                        with(&w[..1])
                    );
                    prop_assert_eq!($ours::blocks(key, &w, (32 + rest) << 56 | tail), with(&w));
                }
            }
        }
    };
}

sip_agrees!(siphash_2_4_agrees_with_siphasher, SipHash24, SipHasher24);
sip_agrees!(siphash_1_3_agrees_with_siphasher, SipHash13, SipHasher13);

/// The same for `HalfSipHash` and the model above.
macro_rules! half_agrees {
    ($name:ident, $ours:ty, $c:literal, $d:literal) => {
        proptest! {
            #[test]
            fn $name(
                k0: u32,
                k1: u32,
                h: [u32; 4],
                input in prop::collection::vec(any::<u8>(), 0..600),
            ) {
                let key = &HalfKey::from_words(k0, k1);
                let want = |bytes: &[u8]| half_model($c, $d, (k0, k1), bytes);
                prop_assert_eq!(<$ours>::bytes(key, &input), want(&input));
                prop_assert_eq!(<$ours>::u32x1(key, h[0]), want(&le32(&h[..1])));
                prop_assert_eq!(<$ours>::u32x2(key, h[0], h[1]), want(&le32(&h[..2])));
                prop_assert_eq!(<$ours>::u32x3(key, h[0], h[1], h[2]), want(&le32(&h[..3])));
                prop_assert_eq!(<$ours>::u32x4(key, h[0], h[1], h[2], h[3]), want(&le32(&h)));
            }
        }
    };
}

half_agrees!(halfsiphash_2_4_agrees_with_the_model, HalfSipHash24, 2, 4);
half_agrees!(halfsiphash_1_3_agrees_with_the_model, HalfSipHash13, 1, 3);
// Numbers of rounds that no alias has: neither is fixed anywhere inside.
half_agrees!(halfsiphash_4_8_agrees_with_the_model, HalfSipHash<4, 8>, 4, 8);

proptest! {
    #[test]
    fn reduce_is_the_floor_of_the_scaled_hash(hash: u32, n: u32) {
        let got = u128::from(reduce(hash, n));
        let scaled = u128::from(hash) * u128::from(n);
        prop_assert!(got << 32 <= scaled && scaled < (got + 1) << 32);
        prop_assert!(n == 0 || got < u128::from(n));
    }

    #[test]
    fn reduce_never_falls(hash in 0..u32::MAX, n: u32) {
        let step = reduce(hash + 1, n) - reduce(hash, n);
        prop_assert!(step <= 1);
    }
}
