use super::*;
use crate::tuple::Direction;
use core::net::IpAddr;
use fourtuple_packet::protocol;
use proptest::prelude::*;

fn key() -> Key {
    Key::from_bytes(core::array::from_fn(|i| i as u8))
}

fn tuple(protocol: u8, src: &str, sport: u16, dst: &str, dport: u16) -> Tuple {
    let octets = |s: &str| match s.parse().expect("address") {
        IpAddr::V4(a) => {
            let mut b = [0; 16];
            b[..4].copy_from_slice(&a.octets());
            (b, Family::V4)
        }
        IpAddr::V6(a) => (a.octets(), Family::V6),
    };
    let ((src, family), (dst, _)) = (octets(src), octets(dst));
    Tuple { src, dst, sport, dport, family, protocol }
}

/// Calculated for the key bytes 00 to 0f from the published description of the kernel's arrangement since 6.5.
#[test]
fn linux65_vectors() {
    let tcp = tuple(protocol::TCP, "10.0.1.2", 1111, "10.0.2.2", 80);
    let back = tcp.inverse().expect("TCP has a reply");
    let ping = tuple(protocol::ICMP, "10.0.1.2", 7, "10.0.2.2", 8 << 8);
    let dns = tuple(protocol::UDP, "fd01::2", 1111, "fd02::2", 53);
    let vectors = [
        (tcp, 0, 0, 0x51c5_ca19, 83735, 327),
        (tcp, 5, 0, 0xe4c1_b427, 234_246, 915),
        (tcp, 0, 0xdead_beef, 0x273b_24bf, 40172, 156),
        (back, 0, 0, 0xf717_82c8, 253_022, 988),
        (ping, 0, 0, 0xe166_f790, 230_811, 901),
        (dns, 0, 0, 0x3bf1_2788, 61380, 239),
        (dns, 5, 0, 0xe4ff_c491, 234_495, 915),
    ];
    for (t, zone, mix, hash, of_262144, of_1024) in vectors {
        let h = TupleHash::Linux65.hash(&key(), &t, zone, mix);
        assert_eq!(h, hash, "{t} zone {zone} mix {mix:x}");
        assert_eq!(fourtuple_hash::reduce(h, 262_144), of_262144);
        assert_eq!(fourtuple_hash::reduce(h, 1024), of_1024);
    }
}

/// The 39 bytes written out, hashed as bytes.
fn linux65_by_bytes(t: &Tuple, zone: u16, mix: u32) -> u32 {
    let mut bytes = Vec::new();
    bytes.extend(t.src);
    bytes.extend(t.sport.to_be_bytes());
    bytes.extend(if t.family == Family::V4 { 2u16 } else { 10 }.to_le_bytes());
    bytes.extend(t.dst);
    bytes.extend(t.dport.to_be_bytes());
    bytes.push(t.protocol);
    let (k0, k1) = key().words();
    let key = Key::from_words(k0 ^ u64::from(zone), k1 ^ u64::from(mix));
    SipHash24::bytes(&key, &bytes) as u32
}

/// The four words built from the bytes as a little-endian machine loads them, hashed as 32 bytes.
fn four_words_by_bytes(t: &Tuple, zone: u16, mix: u32) -> u32 {
    let word = |a: &[u8; 16], i: usize| {
        u64::from(u32::from_le_bytes(a[i * 4..i * 4 + 4].try_into().expect("4")))
    };
    let a = (word(&t.src, 0) << 32) | word(&t.src, 3);
    let b = (word(&t.dst, 0) << 32) | word(&t.dst, 3);
    let port = |p: u16| u64::from(u16::from_le_bytes(p.to_be_bytes()));
    let c = ((port(t.sport) << 32) | (port(t.dport) << 16) | u64::from(t.protocol))
        ^ ((word(&t.src, 1) << 32) | word(&t.src, 2));
    let d = ((u64::from(zone) << 32) | u64::from(mix))
        .wrapping_add((word(&t.dst, 1) << 32) | word(&t.dst, 2));
    let bytes: Vec<u8> = [a, b, c, d].iter().flat_map(|w| w.to_le_bytes()).collect();
    SipHash24::bytes(&key(), &bytes) as u32
}

fn compact_by_bytes(t: &Tuple, zone: u16) -> u32 {
    let n = if t.family == Family::V4 { 4 } else { 16 };
    let mut bytes = Vec::new();
    bytes.extend(&t.src[..n]);
    bytes.extend(&t.dst[..n]);
    bytes.extend(t.sport.to_le_bytes());
    bytes.extend(t.dport.to_le_bytes());
    bytes.push(t.protocol);
    bytes.extend(zone.to_le_bytes());
    assert_eq!(bytes.len(), if n == 4 { 15 } else { 39 });
    SipHash24::bytes(&key(), &bytes) as u32
}

fn any_tuple() -> impl Strategy<Value = Tuple> {
    let v4 = any::<[u8; 4]>().prop_map(|a| {
        let mut b = [0; 16];
        b[..4].copy_from_slice(&a);
        b
    });
    let pair = prop_oneof![
        (v4.clone(), v4).prop_map(|(s, d)| (Family::V4, s, d)),
        any::<([u8; 16], [u8; 16])>().prop_map(|(s, d)| (Family::V6, s, d)),
    ];
    (pair, any::<(u16, u16, u8)>()).prop_map(|((family, src, dst), (sport, dport, protocol))| {
        Tuple { src, dst, sport, dport, family, protocol }
    })
}

proptest! {
    #[test]
    fn layouts_equal_their_bytes(t in any_tuple(), zone: u16, mix: u32) {
        prop_assert_eq!(TupleHash::Linux65.hash(&key(), &t, zone, mix), linux65_by_bytes(&t, zone, mix));
        prop_assert_eq!(TupleHash::FourWords.hash(&key(), &t, zone, mix), four_words_by_bytes(&t, zone, mix));
        prop_assert_eq!(TupleHash::Compact.hash(&key(), &t, zone, 0), compact_by_bytes(&t, zone));
    }

    #[test]
    fn inverse_of_inverse_is_the_tuple(t in any_tuple()) {
        if let Some(inverse) = t.inverse() {
            prop_assert_eq!(inverse.inverse(), Some(t));
        }
    }
}

/// The flaw that made Linux give the arrangement up: inside one /64, source address and source port can be chosen so
/// that the folded word stays the same, and then every key gives the same hash. `Compact` tells the tuples apart.
#[test]
fn four_words_collide_by_construction() {
    let base = tuple(protocol::UDP, "2001:db8::1", 1000, "2001:db8:1::1", 53);
    let mut hashes = std::collections::HashSet::new();
    for sport in 1000..1100u16 {
        let mut t = base;
        t.sport = sport;
        // Word 1 of the source (the upper half of c) takes back what the port changed.
        let fold = u32::from(sport.swap_bytes()) ^ u32::from(base.sport.swap_bytes());
        let word = u32::from_le_bytes(base.src[4..8].try_into().expect("4")) ^ fold;
        t.src[4..8].copy_from_slice(&word.to_le_bytes());
        for k in 0..3u64 {
            let key = Key::from_words(k, !k);
            let same = TupleHash::FourWords.hash(&key, &base, 0, 0);
            assert_eq!(TupleHash::FourWords.hash(&key, &t, 0, 0), same);
        }
        hashes.insert(TupleHash::Compact.hash(&key(), &t, 0, 0));
    }
    assert!(hashes.len() > 95, "only {} different hashes", hashes.len());
}

#[test]
fn a_net_has_its_own_compact_key() {
    let t = tuple(protocol::TCP, "10.0.1.2", 1111, "10.0.2.2", 80);
    let layout = TupleHash::Compact;
    let by_net = |net| layout.hash(&layout.net_key(&key(), net), &t, 0, net);
    assert_ne!(by_net(0), by_net(1));
    assert_eq!(Direction::Original.other(), Direction::Reply);
}
