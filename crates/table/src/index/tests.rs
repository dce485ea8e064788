use alloc::vec::Vec;

use super::*;

/// SplitMix64's finaliser: a fixed, well-mixed sequence for tests.
fn mixed(i: u32) -> u32 {
    let mut z = u64::from(i).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 32) as u32
}

/// The invariant that searches rest on, checked for every entry.
fn check(index: &Index) {
    let mut count = 0;
    for table in [&index.main, &index.old] {
        for (at, words) in table.words().chunks(LANES).enumerate() {
            for (hash, _) in words.iter().filter_map(|&w| entry(w)) {
                count += 1;
                let way = table.distance(table.start(hash), at);
                assert!(table.run(hash, way) == way, "a gap before bucket {at} of {hash:#x}");
            }
        }
    }
    assert_eq!(count, index.len());
}

#[test]
fn buckets_lie_on_cache_lines() {
    for buckets in [1, 4, 64, 4096, 1 << 16] {
        assert_eq!(Table::new(buckets).address() % 64, 0);
    }
}

#[test]
fn capacity_is_what_was_asked_for_and_zero_costs_nothing() {
    let empty = Index::with_capacity(0);
    assert_eq!((empty.memory(), empty.capacity(), empty.find(0, |_| true)), (0, 0, None));
    for entries in [1, 24, 25, 1000, 6 << 10, (6 << 10) + 1] {
        let mut index = Index::with_capacity(entries);
        let (capacity, memory) = (index.capacity(), index.memory());
        assert!(capacity >= entries);
        for i in 0..capacity as u32 {
            index.insert(mixed(i), i).unwrap();
        }
        assert_eq!(index.memory(), memory, "grew before {capacity} entries");
        index.insert(1, 1).unwrap();
        assert!(index.memory() > memory);
    }
}

#[test]
fn hash_zero_is_not_a_free_lane() {
    let mut index = Index::with_capacity(10);
    assert_eq!(index.find(0, |_| true), None);
    index.insert(0, 0).unwrap();
    assert_eq!(index.find(0, |_| true), Some(0));
    assert!(index.remove(0, 0) && !index.remove(0, 0));
    assert_eq!(index.find(0, |_| true), None);
}

#[test]
fn last_slot_is_refused_and_the_one_before_is_not() {
    let mut index = Index::with_capacity(0);
    assert_eq!(index.insert(5, u32::MAX), Err(InsertError::SlotOutOfRange));
    assert!(!index.remove(5, u32::MAX));
    index.insert(5, u32::MAX - 1).unwrap();
    assert_eq!(index.find(5, |_| true), Some(u32::MAX - 1));
}

#[test]
fn eq_sees_only_equal_hashes() {
    let mut index = Index::with_capacity(0);
    for i in 0..5000 {
        index.insert(mixed(i), i).unwrap();
    }
    for i in 0..5000 {
        let found = index.find(mixed(i), |slot| {
            assert_eq!(mixed(slot), mixed(i));
            slot == i
        });
        assert_eq!(found, Some(i));
    }
}

#[test]
fn every_entry_is_found_at_every_moment_of_growth() {
    let mut index = Index::with_capacity(0);
    let mut moments = 0;
    for i in 0..3000 {
        index.insert(mixed(i), i).unwrap();
        moments += usize::from(index.is_growing());
        if i % 7 == 0 || index.is_growing() {
            check(&index);
            assert!((0..=i).all(|j| index.find(mixed(j), |slot| slot == j).is_some()));
            assert_eq!(index.find(mixed(i + 1), |_| true), None);
        }
    }
    assert!(moments > 100, "growth is meant to take many steps, took {moments}");
}

#[test]
fn removal_during_growth_keeps_the_rest() {
    let mut index = Index::with_capacity(6 * 256);
    let n = index.capacity() as u32 + 1;
    (0..n).for_each(|i| index.insert(mixed(i), i).unwrap());
    assert!(index.is_growing());
    for i in 0..n {
        assert!(index.remove(mixed(i), i));
        check(&index);
    }
    assert!(index.is_empty() && !index.is_growing());
}

#[test]
fn growth_moves_a_bounded_number_of_buckets() {
    let mut index = Index::with_capacity(6 << 12);
    for i in 0..6 << 13 {
        let before = index.old.live();
        index.insert(mixed(i), i).unwrap();
        if before != 0 {
            assert!(before - index.old.live() <= MOVED_PER_WRITE);
        }
    }
}

#[test]
fn flood_of_equal_hashes_is_refused_without_growth() {
    // The last bucket, so that the chain goes round the end.
    for hash in [0, 0x8000_0000, u32::MAX] {
        let mut index = Index::with_capacity(6 << 14);
        let memory = index.memory();
        let mut taken = 0;
        let error = loop {
            match index.insert(hash, taken) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error, InsertError::ProbeLimit { probed: MAX_PROBE + LANES });
        assert_eq!(taken as usize, MAX_PROBE + LANES);
        for slot in 0..100_000 {
            assert!(index.insert(hash, slot).is_err());
        }
        assert_eq!((index.memory(), index.len()), (memory, taken as usize));
        check(&index);
        (0..taken).for_each(|slot| assert!(index.remove(hash, slot)));
        assert!(index.is_empty());
    }
}

#[test]
fn flood_from_nothing_grows_with_its_entries_only() {
    let mut index = Index::with_capacity(0);
    let mut taken = 0usize;
    for slot in 0..200_000 {
        taken += usize::from(index.insert(77, slot).is_ok());
        assert!(index.memory() <= 64 * 1024);
    }
    assert!(taken <= 2 * (MAX_PROBE + LANES), "{taken}");
    check(&index);
}

#[test]
fn floods_through_many_growths_do_not_add_up() {
    let mut index = Index::with_capacity(0);
    for i in 0..100_000 {
        index.insert(mixed(i), i).ok();
        index.insert(0xffff_fff0, i).ok();
    }
    let flood = index.iter().filter(|&(hash, _)| hash == 0xffff_fff0).count();
    assert!(flood <= 2 * MAX_PROBE, "{flood} entries of one hash");
    check(&index);
    assert!(index.probe_stats().miss_max <= 2 * MAX_RUN, "{:?}", index.probe_stats());
}

#[test]
fn churn_leaves_probe_lengths_as_they_were() {
    let mut index = Index::with_capacity(6 << 10);
    let n = index.capacity() as u32 - 1;
    (0..n).for_each(|i| index.insert(mixed(i), i).unwrap());
    let fresh = index.probe_stats();
    let memory = index.memory();
    for i in n..n + 1_000_000 {
        assert!(index.remove(mixed(i - n), i - n));
        index.insert(mixed(i), i).unwrap();
    }
    check(&index);
    let churned = index.probe_stats();
    // An early growth is allowed to happen; a table that only gets slower is not.
    assert!(index.memory() <= memory * 2);
    assert!(churned.miss_mean() < 2.5, "{fresh:?} -> {churned:?}");
    assert!(churned.miss_max <= EARLY_RUN + 8, "{fresh:?} -> {churned:?}");
}

#[test]
fn which_buckets_are_full_does_not_depend_on_history() {
    let mut direct = Index::with_capacity(6 << 8);
    let mut churned = Index::with_capacity(6 << 8);
    (0..1400).for_each(|i| direct.insert(mixed(i), i).unwrap());
    (0..1400).rev().for_each(|i| churned.insert(mixed(i), i).unwrap());
    for i in 1400..50_000 {
        churned.insert(mixed(i), i).unwrap();
        assert!(churned.remove(mixed(i), i));
    }
    let counts = |index: &Index| -> Vec<usize> {
        index.main.words().chunks(LANES).map(|b| b.iter().filter(|w| **w != 0).count()).collect()
    };
    assert_eq!(counts(&direct), counts(&churned));
}

#[test]
fn iter_gives_every_entry_once_while_growing() {
    let mut index = Index::with_capacity(6 * 64);
    (0..400).for_each(|i| index.insert(mixed(i), i).unwrap());
    assert!(index.is_growing());
    let mut slots: Vec<u32> = index
        .iter()
        .map(|(hash, slot)| {
            assert_eq!(hash, mixed(slot));
            slot
        })
        .collect();
    slots.sort_unstable();
    assert!(slots.into_iter().eq(0..400));
}

/// The figures in the documentation of [`Index`], and the reason for its load limit.
#[test]
fn probe_lengths_are_the_documented_ones() {
    let buckets = 1 << 17;
    let mut index = Index { main: Table::new(buckets), ..Index::default() };
    let mut n = 0u32;
    let documented =
        [(4, 1.01, 1.06, 5), (5, 1.03, 1.22, 9), (6, 1.10, 1.74, 17), (7, 1.33, 4.67, 59)];
    for (eighths, hit, miss, longest) in documented {
        while (n as usize) < buckets * eighths {
            let word = word(mixed(n), n).unwrap();
            index.main.place(word, usize::MAX).unwrap();
            n += 1;
        }
        let stats = index.probe_stats();
        assert!((stats.hit_mean() - hit).abs() < 0.006, "{eighths}/8: {stats:?}");
        assert!((stats.miss_mean() - miss).abs() < 0.006, "{eighths}/8: {stats:?}");
        assert_eq!(stats.hit_max, longest, "{eighths}/8");
    }
}
