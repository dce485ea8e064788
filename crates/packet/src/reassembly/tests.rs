//! The cases of these tests were sent through a veth pair to Linux 6.18.44 with connection tracking on; the expected
//! outcomes are what its rule counters and `/proc/net/snmp` showed.

use super::*;
use crate::l4::{L4, L4Error};
use crate::testing::{finish_ipv4, ipv4, ipv6};

mod bounds;

const UDP: u8 = 17;

/// A UDP datagram of `len` bytes, no two 8-byte units alike.
fn datagram(len: usize) -> Vec<u8> {
    let mut d = vec![0x12, 0x34, 0, 53, (len >> 8) as u8, len as u8, 0, 0];
    d.extend((8..len).map(|i| (i * 7 + i / 256) as u8));
    d
}

/// A fragment with bytes `range` of `whole`.
struct Cut {
    v6: bool,
    id: u16,
    from: usize,
    to: usize,
    more: bool,
}

impl Cut {
    fn packet(&self, whole: &[u8]) -> Vec<u8> {
        let payload = &whole[self.from..self.to];
        let id = self.id.to_be_bytes();
        let word = self.from as u16;
        if self.v6 {
            let [hi, lo] = (word | u16::from(self.more)).to_be_bytes();
            let header = [UDP, 0, hi, lo, 0, 0, id[0], id[1]];
            ipv6(44, &[&header[..], payload].concat())
        } else {
            let mut p = ipv4(UDP, payload);
            p[4..6].copy_from_slice(&id);
            let word = (word / 8) | (u16::from(self.more) << 13);
            p[6..8].copy_from_slice(&word.to_be_bytes());
            finish_ipv4(&mut p);
            p
        }
    }
}

const AT: Instant = Instant::from_nanos(1_000_000_000);

fn push<'a>(r: &'a mut Reassembler, now: Instant, bytes: &[u8]) -> Outcome<'a> {
    let packet = Packet::parse(bytes, bytes.len() as u32).unwrap();
    r.push(now, &packet, 0)
}

/// Sends fragments of a datagram of 96 bytes; a letter each for what became of them: Waiting, Complete, dUplicate,
/// Overlap, Beyond end, other Last, Empty, Pass through.
fn letters(v6: bool, cuts: &[(usize, usize, bool)]) -> String {
    let whole = datagram(96);
    let mut r = Reassembler::default();
    cuts.iter()
        .map(|&(from, to, more)| {
            let bytes = Cut { v6, id: 7, from, to, more }.packet(&whole);
            match push(&mut r, AT, &bytes) {
                Outcome::Waiting => 'W',
                Outcome::Complete(d) => {
                    let header = if v6 { 40 } else { 20 };
                    let len = d.bytes.len() - header;
                    assert_eq!(&d.bytes[header..], &whole[..len], "{cuts:?}");
                    assert!(!d.cut && d.len as usize == d.bytes.len());
                    'C'
                }
                Outcome::Dropped(FragmentError::Duplicate { .. }) => 'U',
                Outcome::Dropped(FragmentError::Overlap { .. }) => 'O',
                Outcome::Dropped(FragmentError::BeyondEnd { .. }) => 'B',
                Outcome::Dropped(FragmentError::OtherEnd { .. }) => 'L',
                Outcome::Dropped(FragmentError::Empty { .. }) => 'E',
                Outcome::PassThrough(_) => 'P',
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

#[test]
fn as_the_kernel_did() {
    const M: bool = true;
    const L: bool = false;
    type Case<'a> = (&'a [(usize, usize, bool)], &'a str, &'a str);
    let cases: &[Case<'_>] = &[
        // In order, reversed, exact duplicate.
        (&[(0, 32, M), (32, 64, M), (64, 96, L)], "WWC", "WWC"),
        (&[(64, 96, L), (32, 64, M), (0, 32, M)], "WWC", "WWC"),
        (&[(0, 32, M), (0, 32, M), (32, 96, L)], "WUC", "WUC"),
        // Within a run, or across the seam of two appended ones: a duplicate.
        (&[(0, 32, M), (32, 64, M), (8, 24, M), (64, 96, L)], "WWUC", "WWUC"),
        (&[(0, 32, M), (32, 64, M), (24, 40, M), (64, 96, L)], "WWUC", "WWUC"),
        // Across the seam of two that came in the other order: an overlap.
        (&[(32, 64, M), (0, 32, M), (24, 40, M), (64, 96, L)], "WWOW", "WWOW"),
        (&[(0, 32, M), (24, 64, M), (32, 64, M), (64, 96, L)], "WOWW", "WOWW"),
        (&[(0, 32, M), (24, 64, M), (0, 32, M), (32, 64, M), (64, 96, L)], "WOWWC", "WOWWC"),
        // Beyond the end, other ends.
        (&[(64, 80, L), (80, 96, M), (0, 32, M), (32, 64, M)], "WBWW", "WBWC"),
        (&[(64, 80, L), (80, 96, L), (0, 64, M)], "WLW", "WLC"),
        (&[(64, 96, L), (64, 80, L), (0, 64, M)], "WLW", "WLC"),
        // Not a multiple of eight.
        (&[(0, 30, M), (24, 96, L)], "WC", "PW"),
        (&[(0, 30, M), (0, 32, M), (32, 96, L)], "WOW", "PWC"),
        // Empty.
        (&[(0, 32, M), (32, 32, M), (32, 96, L)], "WEW", "WEC"),
        (&[(0, 96, M), (96, 96, L)], "WE", "WE"),
        // A duplicate that says where the end is.
        (&[(0, 32, M), (32, 96, M), (64, 96, L), (0, 32, M)], "WWUU", "WWUU"),
        (&[(0, 32, M), (32, 88, M), (64, 88, L), (88, 96, L)], "WWUL", "WWUL"),
        // Small first fragment.
        (&[(0, 8, M), (8, 96, L)], "WC", "WC"),
    ];
    for (cuts, v4, v6) in cases {
        assert_eq!(letters(false, cuts), *v4, "IPv4 {cuts:?}");
        assert_eq!(letters(true, cuts), *v6, "IPv6 {cuts:?}");
    }
    // An atomic fragment; the IPv4 packet with the same fields is no fragment.
    assert_eq!(letters(true, &[(0, 96, L)]), "C");
}

#[test]
fn atomic_fragments_that_contradict_an_empty_one() {
    let mut r = Reassembler::default();
    let empty = ipv6(44, &[59, 0, 0, 0, 0, 0, 3, 0x87]);
    assert_eq!(push(&mut r, AT, &empty), Outcome::Dropped(FragmentError::Empty { offset: 0 }));
    let full = ipv6(44, b"\x3b\0\0\0\0\0\x03\x8712345678");
    assert_eq!(
        push(&mut r, AT, &full),
        Outcome::Dropped(FragmentError::OtherEnd { end: 8, known: 0 })
    );
}

#[test]
fn first_fragments_without_all_headers_pass() {
    let cases: [(u8, usize, bool); 6] = [
        (6, 16, true),
        (6, 24, false),
        (17, 8, false),
        (58, 8, false),
        (253, 0, true),
        (253, 8, false),
    ];
    for (proto, len, passes) in cases {
        for more in [0, 1] {
            let rest = [&[proto, 0, 0, more, 0, 0, 0, 1][..], &vec![0; len]].concat();
            let mut r = Reassembler::default();
            let bytes = ipv6(44, &rest);
            let outcome = push(&mut r, AT, &bytes);
            assert_eq!(
                matches!(outcome, Outcome::PassThrough(PassThrough::HeadersTruncated { .. })),
                passes,
                "{proto} {len} {outcome:?}"
            );
        }
    }
    // Extension headers count.
    let options = ipv6(44, &[60, 0, 0, 1, 0, 0, 0, 1, 17, 1, 1, 4, 0, 0, 0, 0]);
    assert_eq!(
        push(&mut Reassembler::default(), AT, &options),
        Outcome::PassThrough(PassThrough::HeadersTruncated { need: 72, there: 56 })
    );
    // "No next header" is collected like data.
    let none = ipv6(44, b"\x3b\0\0\x01\0\0\0\x0112345678");
    assert_eq!(push(&mut Reassembler::default(), AT, &none), Outcome::Waiting);
}

#[test]
fn passed_fragments_can_be_judged() {
    let bytes = ipv6(44, &[253, 0, 0, 1, 0, 0, 0, 1]);
    let packet = Packet::parse(&bytes, bytes.len() as u32).unwrap();
    assert!(matches!(packet.l4, L4::Malformed { why: L4Error::Fragment, .. }));
    assert!(matches!(packet.unassembled().l4, L4::Other));
    let whole = datagram(16);
    let bytes = Cut { v6: true, id: 1, from: 0, to: 12, more: true }.packet(&whole);
    let packet = Packet::parse(&bytes, bytes.len() as u32).unwrap();
    assert!(matches!(
        packet.unassembled().l4,
        L4::Malformed {
            ports: Some((0x1234, 53)),
            why: L4Error::UdpLength { says: 16, there: 12 }
        }
    ));
}

#[test]
fn cut_fragment_headers_and_jumbograms() {
    for rest in [
        &[17, 0, 0][..],
        &[17, 0, 0, 8],
        &[17, 0, 0, 8, 0, 0, 0],
        // Nothing behind it: found by the kernel as judge.
        &[59, 0, 0, 0],
        &[59, 0, 0, 1, 0, 0, 0],
    ] {
        let outcome_of = ipv6(44, rest);
        let mut r = Reassembler::default();
        assert_eq!(
            push(&mut r, AT, &outcome_of),
            Outcome::Dropped(FragmentError::HeaderCut),
            "{rest:?}"
        );
    }
    // A payload length of zero is not looked into, and with offset zero the kernel lets it through.
    assert_eq!(push(&mut Reassembler::default(), AT, &ipv6(44, &[])), Outcome::NotFragment);
    let bytes = ipv6(44, &[251, 0, 0, 0]);
    assert_eq!(push(&mut Reassembler::default(), AT, &bytes), Outcome::NotFragment);
    let mut jumbo = ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    jumbo[4..6].fill(0);
    jumbo.resize(2000, 0);
    assert_eq!(
        push(&mut Reassembler::default(), AT, &jumbo),
        Outcome::PassThrough(PassThrough::Jumbo)
    );
    assert_eq!(
        push(&mut Reassembler::default(), AT, &ipv4(17, &datagram(8))),
        Outcome::NotFragment
    );
}

/// Pushes fragments of `step` bytes of a datagram of `len` and gives the last outcome's error.
fn all_of(v6: bool, len: usize, step: usize) -> Result<usize, FragmentError> {
    let whole = datagram(len);
    let mut r = Reassembler::default();
    for from in (0..len).step_by(step) {
        let to = len.min(from + step);
        let bytes = Cut { v6, id: 9, from, to, more: to < len }.packet(&whole);
        match push(&mut r, AT, &bytes) {
            Outcome::Waiting => {}
            Outcome::Complete(d) => {
                assert_eq!(d.fragments as usize, len.div_ceil(step));
                return Ok(d.bytes.len());
            }
            Outcome::Dropped(e) => return Err(e),
            other => panic!("{other:?}"),
        }
    }
    panic!("never complete");
}

#[test]
fn the_largest_datagrams() {
    assert_eq!(all_of(false, 65_515, 1400), Ok(65_535));
    assert_eq!(all_of(false, 65_516, 1400), Err(FragmentError::TooLong { len: 65_536 }));
    assert_eq!(all_of(false, 65_528, 24), Err(FragmentError::TooLong { len: 65_548 }));
    assert_eq!(all_of(true, 65_535, 1400), Ok(65_575));
    assert_eq!(all_of(true, 65_536, 1400), Err(FragmentError::Offset { end: 65_536 }));
}

#[test]
fn ecn_bits_are_merged_or_refused() {
    let merged = |first: u8, second: u8| {
        let whole = datagram(32);
        let mut answers = Vec::new();
        for v6 in [false, true] {
            let mut r = Reassembler::default();
            let mut parts = [(0, 16, true), (16, 32, false)]
                .map(|(from, to, more)| Cut { v6, id: 1, from, to, more }.packet(&whole));
            for (p, ecn) in parts.iter_mut().zip([first, second]) {
                if v6 {
                    p[1] |= ecn << 4;
                } else {
                    p[1] |= ecn;
                    finish_ipv4(p);
                }
            }
            assert_eq!(push(&mut r, AT, &parts[0]), Outcome::Waiting);
            answers.push(match push(&mut r, AT, &parts[1]) {
                Outcome::Complete(d) => {
                    assert!(Packet::parse(d.bytes, d.len).is_ok());
                    Ok(if v6 { d.bytes[1] >> 4 & 3 } else { d.bytes[1] & 3 })
                }
                Outcome::Dropped(e) => Err(e),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(answers[0], answers[1]);
        answers[0]
    };
    assert_eq!(merged(0, 2), Err(FragmentError::Ecn));
    assert_eq!(merged(3, 0), Err(FragmentError::Ecn));
    assert_eq!(merged(2, 3), Ok(3));
    assert_eq!(merged(1, 3), Ok(3));
    assert_eq!(merged(2, 1), Ok(2));
    assert_eq!(merged(0, 0), Ok(0));
}

#[test]
fn headers_are_rebuilt() {
    let whole = datagram(32);
    let cut = |v6, from, to| Cut { v6, id: 0x1234, from, to, more: to < 32 };
    let mut r = Reassembler::default();
    push(&mut r, AT, &cut(false, 16, 32).packet(&whole));
    let Outcome::Complete(d) = push(&mut r, AT, &cut(false, 0, 16).packet(&whole)) else {
        panic!("complete");
    };
    assert_eq!(d.bytes, ipv4(UDP, &whole));
    assert_eq!(d.fragments, 2);

    // IPv6 with a destination options header before the fragment header.
    let mut r = Reassembler::default();
    let options = [44, 0, 1, 4, 0, 0, 0, 0];
    let plain = cut(true, 0, 16).packet(&whole);
    let first = ipv6(60, &[&options[..], &plain[40..]].concat());
    push(&mut r, AT, &first);
    let Outcome::Complete(d) = push(&mut r, AT, &cut(true, 16, 32).packet(&whole)) else {
        panic!("complete");
    };
    let options = [UDP, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(d.bytes, ipv6(60, &[&options[..], &whole].concat()));
}

#[test]
fn users_protocols_and_families_are_kept_apart() {
    let whole = datagram(32);
    let mut r = Reassembler::default();
    let first = Cut { v6: false, id: 1, from: 0, to: 16, more: true }.packet(&whole);
    let second = Cut { v6: false, id: 1, from: 16, to: 32, more: false }.packet(&whole);
    push(&mut r, AT, &first);
    let packet = Packet::parse(&second, second.len() as u32).unwrap();
    assert_eq!(r.push(AT, &packet, 1), Outcome::Waiting);
    // Another protocol: another datagram over IPv4, the same over IPv6.
    let mut other = second.clone();
    other[9] = 253;
    finish_ipv4(&mut other);
    assert_eq!(push(&mut r, AT, &other), Outcome::Waiting);
    let first = Cut { v6: true, id: 1, from: 0, to: 16, more: true }.packet(&whole);
    let mut second = Cut { v6: true, id: 1, from: 16, to: 32, more: false }.packet(&whole);
    second[40] = 253;
    push(&mut r, AT, &first);
    assert!(matches!(push(&mut r, AT, &second), Outcome::Complete(_)));
}

#[test]
fn a_cut_fragment_ends_the_bytes_not_the_datagram() {
    let whole = datagram(96);
    for v6 in [false, true] {
        let cut = |from, to| Cut { v6, id: 7, from, to, more: to < 96 }.packet(&whole);
        let header = if v6 { 40 } else { 20 };
        for backwards in [false, true] {
            let mut r = Reassembler::default();
            let mut parts = [cut(0, 32), cut(32, 64), cut(64, 96)];
            if backwards {
                parts.reverse();
            }
            let mut done = false;
            for (i, p) in parts.iter().enumerate() {
                // Five bytes of the middle one are missing.
                let kept = p.len() - if i == 1 { 5 } else { 0 };
                let packet = Packet::parse(&p[..kept], p.len() as u32).unwrap();
                if let Outcome::Complete(d) = r.push(AT, &packet, 0) {
                    done = true;
                    assert!(d.cut);
                    assert_eq!(d.len as usize, header + 96);
                    assert_eq!(&d.bytes[header..], &whole[..59]);
                    let whole = Packet::parse(d.bytes, d.len).unwrap();
                    assert!(whole.is_cut() && matches!(whole.l4, L4::Udp(_)));
                }
            }
            assert!(done);
        }
    }
}
