//! Searches and writes of the index, cold and warm: 10^3 entries stay in the first cache, 10^6 do
//! not.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fourtuple_table::Index;

/// A bijection of the numbers from 0, mixed well enough to stand for a keyed hash.
fn mixed(i: u32) -> u32 {
    let mut x = i.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995;
    x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

fn filled(entries: u32) -> Index {
    let mut index = Index::with_capacity(entries as usize);
    for i in 0..entries {
        index.insert(mixed(i), i).expect("random hashes have room");
    }
    index
}

fn index(c: &mut Criterion) {
    let mut group = c.benchmark_group("index");
    group.throughput(Throughput::Elements(1));
    for entries in [1_000u32, 1_000_000] {
        let mut index = filled(entries);
        // An order that hardware cannot foresee: another bijection, folded into the range.
        let pick = |n: u32| ((u64::from(mixed(n ^ 0xdead_beef)) * u64::from(entries)) >> 32) as u32;

        let mut n = 0;
        group.bench_function(BenchmarkId::new("find/hit", entries), |b| {
            b.iter(|| {
                n += 1;
                let key = pick(n);
                index.find(black_box(mixed(key)), |slot| slot == key)
            });
        });
        group.bench_function(BenchmarkId::new("find/miss", entries), |b| {
            b.iter(|| {
                n += 1;
                index.find(black_box(mixed(entries + pick(n))), |_| false)
            });
        });
        let mut oldest = 0;
        group.bench_function(BenchmarkId::new("insert+remove", entries), |b| {
            b.iter(|| {
                let fresh = oldest + entries;
                index.insert(black_box(mixed(fresh)), fresh).expect("random hashes have room");
                let removed = index.remove(mixed(oldest), oldest);
                oldest += 1;
                removed
            });
        });
    }
    group.finish();
}

criterion_group!(benches, index);
criterion_main!(benches);
