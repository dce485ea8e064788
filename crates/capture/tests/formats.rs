//! Each variant of each format, made by hand.

mod common;

use common::*;
use fourtuple_capture::{ByteOrder, Direction, Format, PcapVariant, Resolution};

const T: u64 = 1_700_000_000;

#[test]
fn pcap_in_both_orders_and_resolutions() {
    for big in [false, true] {
        for (magic, resolution, unit) in
            [(0xa1b2_c3d4, Resolution::MICROS, 1000), (0xa1b2_3c4d, Resolution::NANOS, 1)]
        {
            let mut file = pcap_header(big, magic, (2, 4), 65_535, 101);
            file.extend(pcap_record(big, [T as u32, 123_456, 3, 90], &[], b"abc"));
            file.extend(pcap_record(big, [T as u32 + 1, 0, 0, 0], &[], b""));
            let reader = open(&file).unwrap();
            let format = reader.format();
            assert_eq!(format.format, Format::Pcap(PcapVariant::Standard));
            assert_eq!(format.byte_order == ByteOrder::Big, big);
            assert_eq!(format.resolution, Some(resolution));
            assert_eq!(reader.interfaces()[0].snaplen, 65_535);
            assert_eq!(reader.offset(), 24);
            let (all, error) = drain(reader);
            assert!(error.is_none());
            let first = Got {
                number: 1,
                offset: 24,
                time: Some(T * 1_000_000_000 + 123_456 * unit),
                link_type: 101,
                interface: 0,
                wire_len: 90,
                data: b"abc".to_vec(),
                comment: None,
                flags: None,
            };
            assert_eq!(all[0], first);
            assert_eq!((all[1].number, all[1].offset, all[1].data.len()), (2, 43, 0));
            assert_eq!(all.len(), 2);
        }
    }
}

#[test]
fn modified_pcap_has_longer_record_headers() {
    for big in [false, true] {
        let mut file = pcap_header(big, 0xa1b2_cd34, (2, 4), 65_535, 1);
        for data in [&b"first"[..], b"2nd"] {
            let len = data.len() as u32;
            file.extend(pcap_record(big, [7, 5, len, len], b"ifixprtp", data));
        }
        let reader = open(&file).unwrap();
        assert_eq!(reader.format().format, Format::Pcap(PcapVariant::Modified));
        let (all, error) = drain(reader);
        assert!(error.is_none());
        assert_eq!(all[0].data, b"first");
        assert_eq!(all[0].time, Some(7_000_005_000));
        assert_eq!((all[1].data.as_slice(), all[1].offset), (&b"2nd"[..], 24 + 24 + 5));
    }
}

#[test]
fn ixia_pcap_has_a_longer_file_header() {
    for big in [false, true] {
        for magic in [0x1c00_01ac, 0x1c00_01ab] {
            let mut file = pcap_header(big, magic, (2, 4), 65_535, 1);
            file.extend(u32b(big, 19));
            file.extend(pcap_record(big, [7, 5, 3, 3], &[], b"abc"));
            let reader = open(&file).unwrap();
            assert_eq!(reader.format().format, Format::Pcap(PcapVariant::Ixia));
            let (all, error) = drain(reader);
            assert!(error.is_none());
            assert_eq!((all[0].data.as_slice(), all[0].time), (&b"abc"[..], Some(7_000_005_000)));
        }
    }
}

#[test]
fn old_versions_order_the_lengths_differently() {
    for (version, numbers) in [
        ((2, 2), [0, 0, 90, 3]),
        ((543, 0), [0, 0, 90, 3]),
        ((2, 3), [0, 0, 90, 3]),
        ((2, 3), [0, 0, 3, 90]),
        ((2, 4), [0, 0, 3, 90]),
    ] {
        let mut file = pcap_header(false, 0xa1b2_c3d4, version, 65_535, 1);
        file.extend(pcap_record(false, numbers, &[], b"abc"));
        let all = read_whole(&file);
        assert_eq!((all[0].wire_len, all[0].data.as_slice()), (90, &b"abc"[..]), "{version:?}");
    }
}

#[test]
fn the_upper_bits_of_the_link_type_are_the_fcs_length() {
    let file = pcap_header(false, 0xa1b2_c3d4, (2, 4), 65_535, 0x2400_0001);
    let reader = open(&file).unwrap();
    assert_eq!((reader.interfaces()[0].link_type.0, reader.interfaces()[0].fcs_len), (1, Some(4)));
    let file = pcap_header(false, 0xa1b2_c3d4, (2, 4), 65_535, 0x2000_0114);
    let reader = open(&file).unwrap();
    assert_eq!((reader.interfaces()[0].link_type.0, reader.interfaces()[0].fcs_len), (276, None));
}

#[test]
fn a_record_longer_than_the_snap_length_is_delivered_whole() {
    let mut file = pcap_header(false, 0xa1b2_c3d4, (2, 4), 2, 1);
    file.extend(pcap_record(false, [0, 0, 5, 4], &[], b"hello"));
    let all = read_whole(&file);
    assert_eq!((all[0].data.as_slice(), all[0].wire_len), (&b"hello"[..], 4));
}

#[test]
fn a_record_larger_than_the_buffer_is_read() {
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let mut file = pcap_header(false, 0xa1b2_c3d4, (2, 4), 4_000_000, 1);
    file.extend(pcap_record(false, [0, 0, 1, 1], &[], b"x"));
    file.extend(pcap_record(false, [0, 0, 3_000_000, 3_000_000], &[], &data));
    file.extend(pcap_record(false, [0, 0, 1, 1], &[], b"y"));
    let all = read_whole(&file);
    assert_eq!(all[1].data, data);
    assert_eq!((all[2].data.as_slice(), all[2].offset), (&b"y"[..], 24 + 17 + 3_000_016));
}

#[test]
fn pcapng_sections_interfaces_and_packet_blocks() {
    for big in [false, true] {
        let mut file = shb(big);
        file.extend(idb(big, 1, 0, &[]));
        let nanos = [option(big, 2, b"eth1"), option(big, 9, &[9]), option(big, 0, &[])].concat();
        file.extend(idb(big, 101, 96, &nanos));
        let options = [
            option(big, 2, &u32b(big, 2)),
            option(big, 1, "grüß".as_bytes()),
            option(big, 1, b"2"),
        ]
        .concat();
        let at = file.len() as u64;
        file.extend(epb(big, 1, T * 1_000_000_000 + 1, 60, b"hello", &options));
        file.extend(block(big, 5, b"statistics"));
        file.extend(obsolete(big, 0, T * 1_000_000, 70, b"old"));
        file.extend(block(big, 0x8000_0bad, &[0; 1000]));
        file.extend(spb(big, 4, b"simp"));
        // A second section in the other order, whose interface 0 is another.
        let other = !big;
        file.extend(shb_with(other, (1, 2), [0, 0, 0, 0, 0, 0, 0, 40]));
        file.extend(idb(other, 113, 3, &option(other, 14, &i64_bytes(other, 10))));
        file.extend(spb(other, 400, b"cut"));
        file.extend(epb(other, 0, 1, 1, b"z", &[]));

        let mut reader = open(&file).unwrap();
        assert_eq!(reader.format().format, Format::Pcapng);
        assert_eq!(reader.format().resolution, None);
        {
            let first = reader.next().unwrap().unwrap();
            assert_eq!((first.number, first.offset), (1, at));
            assert_eq!(first.time.unwrap().as_nanos(), T * 1_000_000_000 + 1);
            assert_eq!((first.link_type.0, first.interface, first.wire_len), (101, 1, 60));
            assert_eq!(first.data, b"hello");
            assert_eq!(first.comment, Some("grüß"));
            assert_eq!(first.comments().collect::<Vec<_>>(), ["grüß", "2"]);
            assert_eq!((first.flags, first.direction()), (Some(2), Some(Direction::Outbound)));
        }
        assert_eq!(reader.interfaces().len(), 2);
        assert_eq!(reader.interfaces()[1].name.as_deref(), Some("eth1"));
        assert_eq!(reader.interfaces()[1].snaplen, 96);
        let (rest, error) = drain(reader);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(rest[0].time, Some(T * 1_000_000_000));
        assert_eq!(
            (rest[0].data.as_slice(), rest[0].wire_len, rest[0].link_type),
            (&b"old"[..], 70, 1)
        );
        assert_eq!((rest[1].data.as_slice(), rest[1].time), (&b"simp"[..], None));
        assert_eq!((rest[2].data.as_slice(), rest[2].wire_len), (&b"cut"[..], 400));
        assert_eq!((rest[2].link_type, rest[2].number), (113, 4));
        assert_eq!(rest[3].time, Some(10_000_001_000));
        assert_eq!(rest.len(), 4);
    }
}

fn i64_bytes(big: Big, n: i64) -> [u8; 8] {
    if big { n.to_be_bytes() } else { n.to_le_bytes() }
}

#[test]
fn binary_resolution_and_fcs_length() {
    let mut file = shb(false);
    file.extend(idb(
        false,
        1,
        0,
        &[option(false, 9, &[0x80 | 20]), option(false, 13, &[32])].concat(),
    ));
    file.extend(epb(false, 0, 3 << 19, 1, b"a", &[]));
    let mut reader = open(&file).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().time.unwrap().as_nanos(), 1_500_000_000);
    assert_eq!(reader.interfaces()[0].resolution, Resolution::Binary(20));
    assert_eq!(reader.interfaces()[0].fcs_len, Some(4));
}

#[test]
fn a_bad_option_does_not_lose_the_packet() {
    let mut file = [shb(false), idb(false, 1, 0, &[])].concat();
    // Says 200 bytes, has 4.
    file.extend(epb(false, 0, 0, 1, b"a", &[1, 0, 200, 0, b'x', b'x', b'x', b'x']));
    // Not UTF-8.
    file.extend(epb(false, 0, 0, 1, b"b", &option(false, 1, &[0xff, 0xfe])));
    // After the end of options nothing counts.
    let after = [option(false, 0, &[]), option(false, 1, b"no")].concat();
    file.extend(epb(false, 0, 0, 1, b"c", &after));
    let all = read_whole(&file);
    assert_eq!(all.iter().map(|r| r.data[0]).collect::<Vec<_>>(), b"abc");
    assert!(all.iter().all(|r| r.comment.is_none()));
}

#[test]
fn a_huge_block_of_no_use_is_passed_over() {
    let mut file = [shb(false), idb(false, 1, 0, &[])].concat();
    file.extend(block(false, 0x0bad, &vec![7; 20 << 20]));
    file.extend(epb(false, 0, 0, 1, b"a", &[]));
    assert_eq!(read_whole(&file)[0].data, b"a");
}
