//! One hash at a time: four words, the two-block layout, and the general implementation.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use fourtuple_hash::{HalfKey, HalfSipHash24, Key, SipHash13, SipHash24};
use siphasher::sip::{SipHasher13, SipHasher24};

const K0: u64 = 0x0706_0504_0302_0100;
const K1: u64 = 0x0f0e_0d0c_0b0a_0908;

fn one_at_a_time(c: &mut Criterion) {
    let key = Key::from_words(K0, K1);
    let half = HalfKey::from_words(K0 as u32, K1 as u32);
    let words = [1u64, 2, 3, 4];
    let mut bytes = [0u8; 32];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }

    let mut group = c.benchmark_group("one at a time");
    group.bench_function("SipHash-2-4, 4 words (32 bytes)", |b| {
        b.iter(|| {
            let [x, y, z, w] = black_box(words);
            SipHash24::u64x4(black_box(&key), x, y, z, w)
        });
    });
    group.bench_function("SipHash-2-4, 2 blocks (15 bytes)", |b| {
        b.iter(|| {
            let [x, y, ..] = black_box(words);
            SipHash24::blocks(black_box(&key), &[x], 15 << 56 | y)
        });
    });
    group.bench_function("SipHash-2-4, slice of 32 bytes", |b| {
        b.iter(|| SipHash24::bytes(black_box(&key), black_box(&bytes)));
    });
    group.bench_function("siphasher 2-4, 32 bytes", |b| {
        let hasher = SipHasher24::new_with_keys(K0, K1);
        b.iter(|| black_box(&hasher).hash(black_box(&bytes)));
    });
    group.bench_function("SipHash-1-3, 4 words (32 bytes)", |b| {
        b.iter(|| {
            let [x, y, z, w] = black_box(words);
            SipHash13::u64x4(black_box(&key), x, y, z, w)
        });
    });
    group.bench_function("siphasher 1-3, 32 bytes", |b| {
        let hasher = SipHasher13::new_with_keys(K0, K1);
        b.iter(|| black_box(&hasher).hash(black_box(&bytes)));
    });
    group.bench_function("HalfSipHash-2-4, 4 words (16 bytes)", |b| {
        b.iter(|| {
            let [x, y, z, w] = black_box([1u32, 2, 3, 4]);
            HalfSipHash24::u32x4(black_box(&half), x, y, z, w)
        });
    });
    group.finish();
}

criterion_group!(benches, one_at_a_time);
criterion_main!(benches);
