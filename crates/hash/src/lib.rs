//! Keyed hashing for flow tables: SipHash and HalfSipHash over a few fixed words.
//!
//! A flow table takes its keys from the network, so whoever sends the packets chooses what is
//! hashed. With a public hash function they can choose thousands of flows that meet in one bucket,
//! and each packet then walks a list. The remedy is a pseudo-random function under a secret key:
//! without the key nobody can predict a bucket. Linux uses SipHash-2-4 for its connection tracking
//! table and the 32-bit forms (`hsiphash`) where less is at stake; this crate has both.
//!
//! * [`SipHash24`], [`SipHash13`]: 128-bit [`Key`], 64-bit result.
//! * [`HalfSipHash24`], [`HalfSipHash13`]: 64-bit [`HalfKey`], 32-bit result.
//! * [`reduce`]: from a 32-bit hash to a bucket number, without a division.
//!
//! # Example
//!
//! ```
//! use fourtuple_hash::{Key, SipHash24, reduce};
//!
//! // A process would take `Key::process()` or `Key::random()?`; a fixed key makes runs repeat.
//! let key: Key = "000102030405060708090a0b0c0d0e0f".parse()?;
//!
//! // Four words at once: the 32 bytes 00, 01, .. 1f, each word little-endian.
//! let hash = SipHash24::u64x4(
//!     &key,
//!     0x0706_0504_0302_0100,
//!     0x0f0e_0d0c_0b0a_0908,
//!     0x1716_1514_1312_1110,
//!     0x1f1e_1d1c_1b1a_1918,
//! );
//! assert_eq!(hash, 0x7127_512f_72f2_7cce);
//!
//! // The same bytes as a slice give the same value.
//! let bytes: Vec<u8> = (0x00..=0x1f).collect();
//! assert_eq!(SipHash24::bytes(&key, &bytes), hash);
//!
//! // Bucket in a table of 1024: the low half of the hash, scaled.
//! assert!(reduce(hash as u32, 1024) < 1024);
//!
//! // A key never shows itself.
//! assert_eq!(format!("{key:?}"), "Key(..)");
//! # Ok::<(), fourtuple_hash::KeyError>(())
//! ```
//!
//! # Why fixed words
//!
//! SipHash as published takes a string of bytes of any length. An implementation for that keeps a
//! buffer, a fill level and a length, and decides for each piece how much of it fits. A flow's key
//! is none of that: it is always the same few words, and they are in registers already. The forms
//! named `u64x1` .. `u64x4` and `u32x1` .. `u32x4` feed them straight to the rounds: no memory, no
//! loop over a length, no branch. Their results are *defined* as those of the byte string made of
//! the arguments in little-endian order, so every one can be checked against any other SipHash.
//!
//! One hash at a time that alone is worth little: each round waits for the one before, and in
//! `benches/siphash.rs` four words and 32 bytes through a general implementation come out within a
//! few per cent of each other. What a hash costs is the number of rounds: with N full blocks
//! SipHash-C-D takes (N + 1) * C + D, the one more block being the last, which carries the length.
//!
//! | form | input bytes | SipHash-2-4 rounds |
//! |---|---|---|
//! | `u64x1`, `u32x2` | 8 | 8 |
//! | `u32x3` | 12 | 8 |
//! | `blocks::<1>` with 7 bytes in the last block | 15 | 8 |
//! | `u64x2`, `u32x4` | 16 | 10 |
//! | `u64x3` | 24 | 12 |
//! | `u64x4` | 32 | 14 |
//!
//! The last block has room for seven bytes beside the length, and a whole number of words leaves
//! them empty. [`SipHash::blocks`] takes the last block as it is, so a layout can fill them: the
//! 15 bytes of an IPv4 flow with its zone need eight rounds, where 16 bytes need ten and four words
//! fourteen.
//!
//! # Keys
//!
//! [`Key`] and [`HalfKey`] have a [`Debug`](core::fmt::Debug) that prints no bit of them, and neither
//! `Display` nor any serialisation. [`Key::derive`] makes one independent key for each number (a
//! network id, a table) out of one secret. Keys from the operating system need the feature `std`.
//!
//! # Features
//!
//! * `std` (on by default): `Key::random` and `Key::process`, through `getrandom`. Without it the
//!   crate needs nothing but `core`.
//!
//! # Vectors
//!
//! The tests hold the 64 vectors of SipHash-2-4 and the 64 of HalfSipHash-2-4 (32-bit result) that
//! the authors publish with their reference implementation, and the 64 of HalfSipHash-1-3 from
//! Linux' own test (`hsiphash` of a 32-bit machine). Vector n is the hash of the n bytes 00, 01, ..
//! under the key 00, 01, .. (16 or 8 bytes). Each form is further compared with an implementation
//! that shares no line with this one, on random keys and words.
//!
//! # Sources
//!
//! * J.-P. Aumasson, D. J. Bernstein: SipHash: a fast short-input PRF. INDOCRYPT 2012.
//! * HalfSipHash has no paper; it is defined by the same authors' reference implementation.
//! * D. Lemire: Fast random integer generation in an interval. ACM TOMACS 29 (1), 2019
//!   (preprint 2016), for [`reduce`].

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod half;
mod key;
mod reduce;
mod sip;

pub use half::{HalfSipHash, HalfSipHash13, HalfSipHash24};
pub use key::{HalfKey, Key, KeyError};
pub use reduce::reduce;
pub use sip::{SipHash, SipHash13, SipHash24};
