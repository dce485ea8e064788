use super::*;
use crate::testing::{ipv4, ipv6};
use proptest::prelude::*;

/// RFC 1071, section 4.1, in the plainest way.
fn naive(bytes: &[u8]) -> u16 {
    let mut acc = 0u64;
    for chunk in bytes.chunks(2) {
        acc += u64::from(u16::from_be_bytes([chunk[0], *chunk.get(1).unwrap_or(&0)]));
    }
    while acc > 0xffff {
        acc = (acc & 0xffff) + (acc >> 16);
    }
    acc as u16
}

proptest! {
    #[test]
    fn sum_equals_the_naive_one(bytes in prop::collection::vec(any::<u8>(), 0..300), skip in 0usize..40) {
        let tail = &bytes[skip.min(bytes.len())..];
        prop_assert_eq!(sum(tail), naive(tail));
    }

    #[test]
    fn sum_of_20_equals_the_naive_one(bytes in any::<[u8; 20]>()) {
        prop_assert_eq!(sum_of_20(&bytes), naive(&bytes));
    }

    #[test]
    fn sum_of_large_ones_carries(fill in prop::sample::select(vec![0u8, 0xff, 0x80]), len in 0usize..70_000) {
        let bytes = vec![fill; len];
        prop_assert_eq!(sum(&bytes), naive(&bytes));
    }

    #[test]
    fn crc_equals_the_bitwise_one(bytes in prop::collection::vec(any::<u8>(), 0..100), split in 0usize..100) {
        let mut bitwise = !0u32;
        for &b in &bytes {
            bitwise ^= u32::from(b);
            for _ in 0..8 {
                bitwise = (bitwise >> 1) ^ if bitwise & 1 == 1 { 0x82f6_3b78 } else { 0 };
            }
        }
        let (a, b) = bytes.split_at(split.min(bytes.len()));
        let mut crc = crc32c::Crc::default();
        crc.update(a);
        crc.update(b);
        prop_assert_eq!(crc.finish(), !bitwise);
    }

    #[test]
    fn a_flipped_bit_is_found(payload in prop::collection::vec(any::<u8>(), 0..100), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        for v6 in [false, true] {
            let mut l4 = tcp_segment(&payload);
            finish(&mut l4, v6, 6, 16);
            let mut flipped = l4.clone();
            // The data offset is left alone: a change of it makes the segment malformed.
            let i = at.index(l4.len());
            prop_assume!(i != 12);
            flipped[i] ^= 1 << bit;
            prop_assert_eq!(check(v6, 6, &l4, ChecksumRule::Linux), Checksum::Ok);
            let is_bad = matches!(check(v6, 6, &flipped, ChecksumRule::Linux), Checksum::Bad { .. });
            prop_assert!(is_bad);
        }
    }
}

fn tcp_segment(payload: &[u8]) -> Vec<u8> {
    let mut h = vec![0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0];
    h.extend(payload);
    h
}

fn check(v6: bool, proto: u8, l4: &[u8], rule: ChecksumRule) -> Checksum {
    let bytes = if v6 { ipv6(proto, l4) } else { ipv4(proto, l4) };
    let packet = Packet::parse(&bytes, bytes.len() as u32).unwrap();
    packet.verify_checksum_by(rule)
}

/// Fills in the checksum of a whole segment by the naive sum over a pseudo-header written out.
fn finish(l4: &mut [u8], v6: bool, proto: u8, field: usize) {
    let bytes = if v6 { ipv6(proto, l4) } else { ipv4(proto, l4) };
    let mut all = if v6 { bytes[8..40].to_vec() } else { bytes[12..20].to_vec() };
    all.extend((l4.len() as u32).to_be_bytes());
    all.extend(u32::from(proto).to_be_bytes());
    l4[field..field + 2].fill(0);
    all.extend(&*l4);
    let sum = !naive(&all);
    l4[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn known_sums() {
    // RFC 1071, section 3.
    assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    assert_eq!(sum(&[]), 0);
    assert_eq!(sum(&[0xab]), 0xab00);
    // RFC 3720, appendix B.4.
    for (bytes, crc) in [
        (vec![0u8; 32], 0x8a91_36aa_u32),
        (vec![0xff; 32], 0x62a8_ab43),
        ((0..32).collect(), 0x46dd_794e),
    ] {
        let mut c = crc32c::Crc::default();
        c.update(&bytes);
        assert_eq!(c.finish(), crc);
    }
}

#[test]
fn bad_ones_tell_what_would_be_right() {
    let mut l4 = tcp_segment(b"odd");
    finish(&mut l4, false, 6, 16);
    let right = u16::from_be_bytes([l4[16], l4[17]]);
    l4[16] ^= 0x55;
    let found = u16::from_be_bytes([l4[16], l4[17]]);
    assert_eq!(check(false, 6, &l4, ChecksumRule::Linux), Checksum::Bad { found, expected: right });
}

#[test]
fn udp_zero_is_absent_and_short_length_is_linux_bad() {
    let udp = |len: u8| vec![0, 53, 0, 54, 0, len, 0, 0, 1, 2, 3, 4];
    assert_eq!(check(true, 17, &udp(12), ChecksumRule::Linux), Checksum::Absent);
    let mut whole = udp(12);
    finish(&mut whole, false, 17, 6);
    assert_eq!(check(false, 17, &whole, ChecksumRule::Linux), Checksum::Ok);
    assert_eq!(check(false, 17, &whole, ChecksumRule::Standard), Checksum::Ok);
    // Two bytes behind the datagram that its length field ends.
    let mut short = udp(10);
    finish(&mut short[..10], false, 17, 6);
    assert_eq!(check(false, 17, &short, ChecksumRule::Standard), Checksum::Ok);
    assert!(matches!(check(false, 17, &short, ChecksumRule::Linux), Checksum::Bad { .. }));
}

#[test]
fn udp_lite_by_either_rule() {
    let covered = |coverage: u8, proto: u8| {
        let mut l4 = vec![0, 53, 0, 54, 0, coverage, 0, 0, 1, 2, 3, 4];
        let end = if coverage == 0 { 12 } else { usize::from(coverage) };
        // The pseudo-header has the whole length, whatever is covered.
        let bytes = ipv4(136, &l4);
        let mut all = bytes[12..20].to_vec();
        all.extend([0, 0, 0, 12, 0, 0, 0, proto]);
        all.extend(&l4[..end]);
        let sum = !naive(&all);
        l4[6..8].copy_from_slice(&sum.to_be_bytes());
        l4
    };
    for coverage in [0, 8, 10, 12] {
        assert_eq!(check(false, 136, &covered(coverage, 17), ChecksumRule::Linux), Checksum::Ok);
        assert_eq!(
            check(false, 136, &covered(coverage, 136), ChecksumRule::Standard),
            Checksum::Ok
        );
        assert!(matches!(
            check(false, 136, &covered(coverage, 136), ChecksumRule::Linux),
            Checksum::Bad { .. }
        ));
        assert!(matches!(
            check(false, 136, &covered(coverage, 17), ChecksumRule::Standard),
            Checksum::Bad { .. }
        ));
    }
}

#[test]
fn icmp_of_both_families() {
    let mut v4 = vec![8, 0, 0, 0, 0, 1, 0, 2, 9];
    let sum = !naive(&v4);
    v4[2..4].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(check(false, 1, &v4, ChecksumRule::Linux), Checksum::Ok);
    v4[8] = 8;
    assert!(matches!(check(false, 1, &v4, ChecksumRule::Linux), Checksum::Bad { .. }));
    let mut v6 = vec![128, 0, 0, 0, 0, 1, 0, 2, 9];
    finish(&mut v6, true, 58, 2);
    assert_eq!(check(true, 58, &v6, ChecksumRule::Linux), Checksum::Ok);
    // The other family's ICMP is not looked at.
    assert_eq!(check(false, 58, &v6, ChecksumRule::Linux), Checksum::NotCovered);
    assert_eq!(check(true, 1, &v4, ChecksumRule::Linux), Checksum::NotCovered);
    // All zeros: the kernel sums the IP header along.
    assert_eq!(check(false, 1, &[0; 16], ChecksumRule::Linux), Checksum::Ok);
}

#[test]
fn sctp_crc() {
    let mut l4 = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0, 4];
    let mut crc = crc32c::Crc::default();
    crc.update(&l4);
    let right = crc.finish().to_le_bytes();
    let Checksum::BadCrc { found: 0, expected } = check(false, 132, &l4, ChecksumRule::Linux)
    else {
        panic!("a zero CRC is wrong");
    };
    assert_eq!(expected, u32::from_be_bytes(right));
    l4[8..12].copy_from_slice(&right);
    assert_eq!(check(true, 132, &l4, ChecksumRule::Linux), Checksum::Ok);
}

#[test]
fn what_cannot_be_checked_says_why() {
    let mut l4 = tcp_segment(b"payload");
    finish(&mut l4, false, 6, 16);
    let bytes = ipv4(6, &l4);
    let cut = Packet::parse(&bytes[..bytes.len() - 1], bytes.len() as u32).unwrap();
    assert_eq!(cut.verify_checksum(), Checksum::NotCheckable(Unverifiable::Cut));
    let cut = Packet::parse(&bytes[..30], bytes.len() as u32).unwrap();
    assert_eq!(cut.verify_checksum(), Checksum::NotCheckable(Unverifiable::Cut));
    assert_eq!(
        check(false, 6, &l4[..19], ChecksumRule::Linux),
        Checksum::NotCheckable(Unverifiable::Malformed)
    );
    assert_eq!(check(false, 47, &[0; 8], ChecksumRule::Linux), Checksum::NotCovered);
    let mut fragment = ipv4(6, &l4);
    fragment[6] = 0x20;
    crate::testing::finish_ipv4(&mut fragment);
    let packet = Packet::parse(&fragment, fragment.len() as u32).unwrap();
    assert_eq!(packet.verify_checksum(), Checksum::NotCheckable(Unverifiable::Fragment));
    // A super-packet without total length.
    let mut big = ipv4(6, &tcp_segment(&[0; 3000]));
    big[2..4].fill(0);
    crate::testing::finish_ipv4(&mut big);
    let packet = Packet::parse(&big, big.len() as u32).unwrap();
    assert_eq!(packet.verify_checksum(), Checksum::NotCheckable(Unverifiable::Offloaded));
}

#[test]
fn offload_left_overs_are_recognised() {
    for v6 in [false, true] {
        let mut l4 = tcp_segment(b"x");
        let bytes = if v6 { ipv6(6, &l4) } else { ipv4(6, &l4) };
        let packet = Packet::parse(&bytes, bytes.len() as u32).unwrap();
        assert!(!packet.looks_offloaded());
        let partial = packet.pseudo_header(6, l4.len() as u32);
        l4[16..18].copy_from_slice(&partial.to_be_bytes());
        let bytes = if v6 { ipv6(6, &l4) } else { ipv4(6, &l4) };
        let packet = Packet::parse(&bytes, bytes.len() as u32).unwrap();
        assert!(packet.looks_offloaded());
        assert!(matches!(packet.verify_checksum(), Checksum::Bad { .. }));
    }
}
