//! Reassembly under random splits, orders, duplicates, overlaps and floods.

use fourtuple_packet::{Instant, Limits, Outcome, Packet, Reassembler};
use proptest::prelude::*;

const NOW: Instant = Instant::from_nanos(5);

/// A fragment packet with `payload` at `offset`.
fn fragment(v6: bool, id: u16, offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut p = if v6 {
        let word = (offset as u16 | u16::from(more)).to_be_bytes();
        let len = (payload.len() as u16 + 8).to_be_bytes();
        let mut p = vec![0x60, 0, 0, 0, len[0], len[1], 44, 64];
        p.extend([0xfd; 16]);
        p.extend([0xfe; 16]);
        p.extend([253, 0, word[0], word[1], 0, 0]);
        p.extend(id.to_be_bytes());
        p
    } else {
        let word = ((offset / 8) as u16 | (u16::from(more) << 13)).to_be_bytes();
        let len = (payload.len() as u16 + 20).to_be_bytes();
        let id = id.to_be_bytes();
        let mut p = vec![0x45, 0, len[0], len[1], id[0], id[1], word[0], word[1], 64, 253, 0, 0];
        p.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let mut sum: u32 = p.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        p[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        p
    };
    p.extend(payload);
    p
}

/// The payload of the datagram that a packet completes.
fn completes(r: &mut Reassembler, bytes: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(bytes, bytes.len() as u32).unwrap();
    match r.push(NOW, &packet, 0) {
        Outcome::Complete(d) => {
            assert!(!d.cut && d.len as usize == d.bytes.len());
            let whole = Packet::parse(d.bytes, d.len).unwrap();
            assert_eq!((whole.src, whole.dst, whole.protocol), (packet.src, packet.dst, 253));
            assert!(whole.fragment.is_none() && whole.len == d.len);
            Some(whole.l4_bytes().to_vec())
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_split_in_any_order_gives_the_datagram_back(
        v6 in any::<bool>(),
        len in 9usize..3000,
        cuts in prop::collection::btree_set(1usize..375, 1..12),
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        order in any::<u64>(),
    ) {
        let whole: Vec<u8> = (0..len).map(|i| (i * 31 + i / 256) as u8).collect();
        let mut ends: Vec<usize> = cuts.iter().map(|c| c * 8).filter(|&c| c < len).collect();
        ends.push(len);
        prop_assume!(ends.len() > 1);
        let mut from = 0;
        let mut parts = Vec::new();
        for to in ends {
            parts.push(fragment(v6, 1, from, to < len, &whole[from..to]));
            from = to;
        }
        for i in again {
            parts.push(i.get(&parts).clone());
        }
        // Fisher-Yates with a small generator of its own, so that a failure shrinks to few parts.
        let mut state = order | 1;
        for i in (1..parts.len()).rev() {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            parts.swap(i, (state >> 33) as usize % (i + 1));
        }
        let mut r = Reassembler::default();
        let mut times = 0;
        for p in &parts {
            if let Some(payload) = completes(&mut r, p) {
                prop_assert_eq!(&payload, &whole);
                times += 1;
            }
        }
        prop_assert!(times >= 1);
        let c = r.counters();
        prop_assert_eq!((c.completed, c.failed, c.refused), (times, 0, 0));
    }

    /// Fragments that fit together or not: a datagram is never made of parts of fragments, and each fragment's bytes
    /// are where it said.
    #[test]
    fn what_completes_is_made_of_whole_fragments(
        v6 in any::<bool>(),
        cuts in prop::collection::vec((0usize..6, 1usize..5, 0usize..8, any::<bool>()), 1..40),
    ) {
        let mut r = Reassembler::default();
        let mut sent = Vec::new();
        for (n, (offset, units, odd, more)) in cuts.into_iter().enumerate() {
            // The odd bytes of an IPv4 fragment that is not the last are cut off.
            let len = units * 8 + if more && v6 { 0 } else { odd };
            let used = if more { units * 8 } else { len };
            // Each fragment consists of its own number.
            let bytes = fragment(v6, 1, offset * 8, more, &vec![n as u8; len]);
            sent.push((offset * 8, used));
            let Some(payload) = completes(&mut r, &bytes) else { continue };
            let mut at = 0;
            for part in payload.chunk_by(|a, b| a == b) {
                prop_assert_eq!(sent[usize::from(part[0])], (at, part.len()));
                at += part.len();
            }
        }
        // What is left is accounted for.
        r.expire(Instant::from_nanos(u64::MAX));
        prop_assert_eq!(r.memory(), (0, 0));
        prop_assert_eq!(r.incomplete().count(), 0);
    }

    #[test]
    fn memory_stays_below_the_mark(
        packets in prop::collection::vec((any::<bool>(), 0u16..200, 0usize..8000, any::<bool>(), 0usize..1400), 1..400),
        mark in 0usize..60_000,
    ) {
        let limits = Limits { v4_high_thresh: mark, v6_high_thresh: mark, ..Limits::default() };
        let mut r = Reassembler::new(limits);
        for (v6, id, offset, more, len) in packets {
            let bytes = fragment(v6, id, offset * 8, more, &vec![0; len]);
            let packet = Packet::parse(&bytes, bytes.len() as u32).unwrap();
            let _ = r.push(NOW, &packet, 0);
            let (v4, v6) = r.memory();
            prop_assert!(v4.max(v6) <= mark + 2304 + 200);
            // The bytes held are fewer than what is charged for them.
            let held: u32 = r.incomplete().map(|d| d.have).sum();
            prop_assert!(held as usize <= v4 + v6);
        }
    }
}
