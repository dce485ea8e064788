//! Known values: the published vectors, those of Linux' flow hash, and ranges.

mod tables;

use fourtuple_hash::{HalfKey, HalfSipHash13, HalfSipHash24, Key, SipHash24, reduce};

/// The bytes 00, 01, .. 3f.
fn counting() -> [u8; 64] {
    core::array::from_fn(|i| i as u8)
}

fn key() -> Key {
    Key::from_bytes(core::array::from_fn(|i| i as u8))
}

fn half_key() -> HalfKey {
    HalfKey::from_bytes(core::array::from_fn(|i| i as u8))
}

#[test]
fn siphash_2_4_gives_the_64_reference_vectors() {
    for (len, want) in tables::SIPHASH_2_4.into_iter().enumerate() {
        let got = SipHash24::bytes(&key(), &counting()[..len]);
        assert_eq!(got, want, "{len} bytes: {got:016x}, not {want:016x}");
    }
}

#[test]
fn halfsiphash_2_4_gives_the_64_reference_vectors() {
    for (len, want) in tables::HALF_2_4.into_iter().enumerate() {
        let got = HalfSipHash24::bytes(&half_key(), &counting()[..len]);
        assert_eq!(got, want, "{len} bytes: {got:08x}, not {want:08x}");
    }
}

#[test]
fn halfsiphash_1_3_gives_the_64_vectors_of_linux() {
    for (len, want) in tables::HALF_1_3.into_iter().enumerate() {
        let got = HalfSipHash13::bytes(&half_key(), &counting()[..len]);
        assert_eq!(got, want, "{len} bytes: {got:08x}, not {want:08x}");
    }
}

/// Each fixed-word form on the vectors' own input, so that no other implementation is needed.
#[test]
fn fixed_words_give_the_reference_vectors() {
    let k = &key();
    let w = |i: usize| u64::from_le_bytes(counting()[8 * i..8 * i + 8].try_into().unwrap());
    let h = |i: usize| u32::from_le_bytes(counting()[4 * i..4 * i + 4].try_into().unwrap());
    assert_eq!(SipHash24::blocks(k, &[], 0), 0x726f_db47_dd0e_0e31);
    assert_eq!(SipHash24::u32x1(k, h(0)), 0xcf27_94e0_2771_87b7);
    assert_eq!(SipHash24::u64x1(k, w(0)), 0x93f5_f579_9a93_2462);
    assert_eq!(SipHash24::u32x2(k, h(0), h(1)), 0x93f5_f579_9a93_2462);
    assert_eq!(SipHash24::u32x3(k, h(0), h(1), h(2)), 0x751e_8fbc_860e_e5fb);
    let last = 15 << 56 | 0x000e_0d0c_0b0a_0908;
    assert_eq!(SipHash24::blocks(k, &[w(0)], last), 0xa129_ca61_49be_45e5);
    assert_eq!(SipHash24::u64x2(k, w(0), w(1)), 0x3f2a_cc7f_57c2_9bdb);
    assert_eq!(SipHash24::u32x4(k, h(0), h(1), h(2), h(3)), 0x3f2a_cc7f_57c2_9bdb);
    assert_eq!(SipHash24::u64x3(k, w(0), w(1), w(2)), 0xb8ad_50c6_f649_af94);
    assert_eq!(SipHash24::u64x4(k, w(0), w(1), w(2), w(3)), 0x7127_512f_72f2_7cce);
    let half = &half_key();
    let want = tables::HALF_2_4;
    assert_eq!(HalfSipHash24::u32x1(half, h(0)), want[4]);
    assert_eq!(HalfSipHash24::u32x2(half, h(0), h(1)), want[8]);
    assert_eq!(HalfSipHash24::u32x3(half, h(0), h(1), h(2)), want[12]);
    assert_eq!(HalfSipHash24::u32x4(half, h(0), h(1), h(2), h(3)), want[16]);
}

/// The length in the last block is taken modulo 256, which no published vector reaches.
#[test]
fn lengths_wrap_at_256() {
    let input = [0x5a; 300];
    for len in [255, 256, 257, 263, 264, 300] {
        let want = siphasher::sip::SipHasher24::new_with_keys(3, 4).hash(&input[..len]);
        assert_eq!(SipHash24::bytes(&Key::from_words(3, 4), &input[..len]), want, "{len} bytes");
    }
}

/// The 39 bytes that Linux hashes for a tuple from 6.5 on.
fn linux_input(
    (src, src_word): ([u8; 16], u16),
    family: u16,
    (dst, dst_word): ([u8; 16], u16),
    protocol: u8,
) -> Vec<u8> {
    let mut input = src.to_vec();
    input.extend(src_word.to_be_bytes());
    input.extend(family.to_le_bytes());
    input.extend(dst);
    input.extend(dst_word.to_be_bytes());
    input.push(protocol);
    assert_eq!(input.len(), 39);
    input
}

/// Hash and bucket numbers of 262144 and 1024 for known tuples, zones and namespace mixes.
#[test]
fn linux_tuple_hashes_and_buckets() {
    let v4 = |a: [u8; 4]| core::array::from_fn(|i| a.get(i).copied().unwrap_or(0));
    let v6 = |high: u16| (u128::from(high) << 112 | 2).to_be_bytes();
    let (client, server) = (v4([10, 0, 1, 2]), v4([10, 0, 2, 2]));
    let tcp = linux_input((client, 1111), 2, (server, 80), 6);
    let back = linux_input((server, 80), 2, (client, 1111), 6);
    let ping = linux_input((client, 7), 2, (server, 0x0800), 1);
    let udp6 = linux_input((v6(0xfd01), 1111), 10, (v6(0xfd02), 53), 17);
    let rows = [
        (&tcp, 0, 0, 0x51c5_ca19, 83_735, 327),
        (&tcp, 5, 0, 0xe4c1_b427, 234_246, 915),
        (&tcp, 0, 0xdead_beef, 0x273b_24bf, 40_172, 156),
        (&back, 0, 0, 0xf717_82c8, 253_022, 988),
        (&ping, 0, 0, 0xe166_f790, 230_811, 901),
        (&udp6, 0, 0, 0x3bf1_2788, 61_380, 239),
        (&udp6, 5, 0, 0xe4ff_c491, 234_495, 915),
    ];
    let (k0, k1) = key().words();
    for (row, (input, zone, mix, hash, of_262144, of_1024)) in rows.into_iter().enumerate() {
        let got = SipHash24::bytes(&Key::from_words(k0 ^ zone, k1 ^ mix), input) as u32;
        assert_eq!(got, hash, "row {row}: {got:08x}, not {hash:08x}");
        assert_eq!(reduce(hash, 262_144), of_262144, "row {row}");
        assert_eq!(reduce(hash, 1024), of_1024, "row {row}");
    }
}

#[test]
fn reduce_at_the_edges() {
    assert_eq!(reduce(u32::MAX, 0), 0);
    assert_eq!(reduce(u32::MAX, 1), 0);
    assert_eq!(reduce(u32::MAX, u32::MAX), u32::MAX - 1);
    assert_eq!(reduce(0, u32::MAX), 0);
    // The step between two buckets, to the bit: 2^32 / 3 = 1431655765.33.
    assert_eq!(reduce(1_431_655_765, 3), 0);
    assert_eq!(reduce(1_431_655_766, 3), 1);
    assert_eq!(reduce(2_863_311_530, 3), 1);
    assert_eq!(reduce(2_863_311_531, 3), 2);
}
