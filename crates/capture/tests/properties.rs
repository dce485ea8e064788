//! What holds for every capture: written is read, a cut loses only what is behind it, and nothing panics.

mod common;

use common::*;
use fourtuple_capture::{
    CaptureError, CaptureReader, Cause, InterfaceInfo, LinkType, PacketInfo, PcapWriter,
    PcapngWriter, Precision, SectionInfo, WriteError,
};
use fourtuple_packet::Instant;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Packet {
    interface: u32,
    time: u64,
    wire_len: u32,
    data: Vec<u8>,
    comment: Option<String>,
    flags: Option<u32>,
}

fn packet() -> impl Strategy<Value = Packet> {
    let data = proptest::collection::vec(any::<u8>(), 0..100);
    let comment = proptest::option::of("\\PC{0,40}");
    (0..3_u32, any::<u64>(), any::<u32>(), data, comment, proptest::option::of(any::<u32>()))
        .prop_map(|(interface, time, wire_len, data, comment, flags)| Packet {
            interface,
            time,
            wire_len,
            data,
            comment,
            flags,
        })
}

const LINK_TYPES: [u16; 3] = [1, 101, 276];

fn write_ng(packets: &[Packet], section: &SectionInfo<'_>) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), section).unwrap();
    for link_type in LINK_TYPES {
        let link_type = LinkType(link_type);
        writer.add_interface(&InterfaceInfo { link_type, snaplen: 0, name: Some("veth") }).unwrap();
    }
    for p in packets {
        let packet = PacketInfo {
            interface: p.interface,
            time: Instant::from_nanos(p.time),
            wire_len: p.wire_len,
            data: &p.data,
            comment: p.comment.as_deref(),
            flags: p.flags,
        };
        writer.write(&packet).unwrap();
    }
    writer.into_inner().unwrap()
}

fn write_pcap(packets: &[Packet], precision: Precision) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), LinkType(276), 100, precision).unwrap();
    for p in packets {
        let time = Instant::from_nanos(p.time % (1 << 61));
        writer.write(time, p.wire_len, &p.data).unwrap();
    }
    writer.into_inner().unwrap()
}

proptest! {
    #[test]
    fn written_pcapng_is_read(packets in proptest::collection::vec(packet(), 0..20), os in proptest::option::of("\\PC{0,9}")) {
        let section = SectionInfo { os: os.as_deref(), ..SectionInfo::default() };
        let all = read_whole(&write_ng(&packets, &section));
        prop_assert_eq!(all.len(), packets.len());
        for (got, p) in all.iter().zip(&packets) {
            prop_assert_eq!(got.time, Some(p.time));
            prop_assert_eq!((got.interface, got.wire_len, got.flags), (p.interface, p.wire_len, p.flags));
            prop_assert_eq!(got.link_type, LINK_TYPES[p.interface as usize]);
            prop_assert_eq!(&got.data, &p.data);
            prop_assert_eq!(&got.comment, &p.comment);
        }
    }

    #[test]
    fn written_pcap_is_read(packets in proptest::collection::vec(packet(), 0..20), nanos: bool) {
        let (precision, unit) = if nanos { (Precision::Nanos, 1) } else { (Precision::Micros, 1000) };
        let all = read_whole(&write_pcap(&packets, precision));
        prop_assert_eq!(all.len(), packets.len());
        for (got, p) in all.iter().zip(&packets) {
            prop_assert_eq!(got.time, Some(p.time % (1 << 61) / unit * unit));
            prop_assert_eq!((got.link_type, got.wire_len), (276, p.wire_len));
            prop_assert_eq!(&got.data, &p.data);
        }
    }

    /// Batches deliver what single reads do, from whole and from damaged files, also where the buffer ends in a record.
    #[test]
    fn batches_are_single_reads(
        packets in proptest::collection::vec(packet(), 0..20),
        ng: bool,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        most in 1_usize..9,
        repeat in prop_oneof![Just(1_usize), Just(200)],
    ) {
        let packets: Vec<_> = packets.iter().cycle().take(packets.len() * repeat).cloned().collect();
        let mut file = match ng {
            true => write_ng(&packets, &SectionInfo::default()),
            false => write_pcap(&packets, Precision::Nanos),
        };
        for (at, change) in flips {
            let at = at.index(file.len());
            file[at] ^= change;
        }
        let open = || CaptureReader::from_reader("memory", std::io::Cursor::new(file.clone()));
        let (Ok(mut single), Ok(mut batched)) = (open(), open()) else { return Ok(()) };
        let keep = |r: &fourtuple_capture::Record<'_>| {
            (r.number, r.offset, r.time, r.link_type, r.wire_len, r.data.to_vec(), r.flags)
        };
        loop {
            match batched.next_batch(most) {
                Some(Ok(batch)) => {
                    prop_assert!((1..=most).contains(&batch.len()));
                    for record in batch.records() {
                        let one = single.next().expect("a record").expect("a record");
                        prop_assert_eq!(keep(&record), keep(&one));
                    }
                }
                Some(Err(e)) => {
                    let one = single.next().expect("an error").expect_err("an error");
                    prop_assert_eq!(e.to_string(), one.to_string());
                    prop_assert!(batched.next_batch(most).is_none());
                    break;
                }
                None => {
                    prop_assert!(single.next().is_none());
                    break;
                }
            }
        }
    }

    #[test]
    fn flipped_bytes_never_panic(
        packets in proptest::collection::vec(packet(), 0..8),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
        ng: bool,
    ) {
        let clean = if ng {
            write_ng(&packets, &SectionInfo::default())
        } else {
            write_pcap(&packets, Precision::Nanos)
        };
        let mut file = clean.clone();
        let mut first = file.len();
        for (at, with) in &flips {
            let at = at.index(file.len());
            file[at] ^= with;
            first = first.min(at);
        }
        let (all, error) = read(&file);
        // What ends before the first changed byte is as it was.
        let want = read_whole(&clean);
        let ends = want.iter().skip(1).map(|r| r.offset).chain([clean.len() as u64]);
        let whole = want.iter().zip(ends).take_while(|(_, end)| *end <= first as u64).count();
        if first >= 24 {
            prop_assert!(all.len() >= whole);
            prop_assert_eq!(&all[..whole], &want[..whole]);
        }
        if let Some(error) = error {
            prop_assert!(error.offset() <= file.len() as u64);
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), start in 0..7_usize) {
        let starts: [&[u8]; 7] = [
            b"", b"\xa1\xb2\xc3\xd4\0\x02\0\x04", b"\x34\xcd\xb2\xa1\x02\0\x04\0", b"\x1c\0\x01\xac\0\x02\0\x04",
            b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0", b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"\x28\xb5\x2f\xfd",
        ];
        let (_, error) = read(&[starts[start], &bytes].concat());
        if let Some(error) = error {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

fn modified() -> Vec<u8> {
    let mut file = pcap_header(true, 0xa1b2_cd34, (2, 4), 100, 1);
    for data in [&b"abc"[..], b"", b"defgh"] {
        let len = data.len() as u32;
        file.extend(pcap_record(true, [1, 2, len, len], b"ifixprtp", data));
    }
    file
}

fn all_blocks() -> Vec<u8> {
    let comment = [option(true, 1, b"why"), option(true, 0, &[])].concat();
    [
        shb(true),
        idb(true, 1, 0, &option(true, 9, &[9])),
        epb(true, 0, 5, 9, b"first", &comment),
        block(true, 5, b"statistics"),
        spb(true, 3, b"two"),
        shb(false),
        idb(false, 101, 0, &[]),
        obsolete(false, 0, 5, 9, b"three"),
        block(false, 0xbad, b"unknown"),
        epb(false, 0, 5, 9, b"", &[]),
    ]
    .concat()
}

/// The start of the thing that contains byte `cut`, from a list of starts.
fn start_of(starts: &[u64], cut: u64) -> u64 {
    *starts.iter().rfind(|&&s| s <= cut).unwrap()
}

#[test]
fn a_cut_anywhere_delivers_what_is_before_and_names_the_right_byte() {
    let pcap = write_pcap_of(&[b"abc", b"", b"defgh"]);
    for (file, mut starts) in
        [(pcap, vec![0]), (modified(), vec![0]), (all_blocks(), block_starts(&all_blocks()))]
    {
        let want = read_whole(&file);
        starts.extend(want.iter().map(|r| r.offset));
        starts.sort_unstable();
        // A cut between two things is not to be noticed, and the file header is one thing.
        let clean: Vec<u64> =
            starts.iter().copied().filter(|&s| s > 0).chain([file.len() as u64]).collect();
        for cut in 8..=file.len() {
            let (all, error) = read(&file[..cut]);
            let cut = cut as u64;
            let ends = want.iter().map(|r| *clean.iter().find(|&&s| s > r.offset).unwrap());
            let whole = want.iter().zip(ends).filter(|(_, end)| *end <= cut).count();
            assert_eq!(all, want[..whole], "cut at {cut}");
            match error {
                None => assert!(clean.contains(&cut), "a cut at {cut} went unnoticed"),
                Some(e) => {
                    assert!(!clean.contains(&cut), "cut at {cut}: {e}");
                    assert_eq!(e.offset(), start_of(&starts, cut), "cut at {cut}: {e}");
                    assert!(says(&e).contains(&(cut - e.offset())), "cut at {cut}: {e}");
                }
            }
        }
    }
}

/// How many bytes there were, counted from the error's offset (two ways for records, whose header counts or not).
fn says(error: &CaptureError) -> Vec<u64> {
    match *error.cause() {
        Cause::HeaderCut { have, .. }
        | Cause::RecordHeaderCut { have, .. }
        | Cause::BlockCut { have, .. } => vec![have],
        Cause::RecordCut { have, .. } => vec![have + 16, have + 24],
        ref other => panic!("{other:?}"),
    }
}

fn write_pcap_of(packets: &[&[u8]]) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), LinkType::RAW, 0, Precision::Micros).unwrap();
    for data in packets {
        writer.write(Instant::from_nanos(1), data.len() as u32, data).unwrap();
    }
    writer.into_inner().unwrap()
}

fn block_starts(file: &[u8]) -> Vec<u64> {
    let (mut at, mut starts) = (0, Vec::new());
    while at < file.len() {
        starts.push(at as u64);
        let b = [file[at + 4], file[at + 5], file[at + 6], file[at + 7]];
        at += u32::from_be_bytes(b).min(u32::from_le_bytes(b)) as usize;
    }
    starts
}

#[test]
fn long_comments_are_cut_between_characters() {
    for lead in 0..4 {
        let comment = format!("{}{}", "x".repeat(lead), "€".repeat(30_000));
        let packet = Packet {
            interface: 0,
            time: 1,
            wire_len: 1,
            data: vec![1],
            comment: Some(comment.clone()),
            flags: Some(1),
        };
        let all = read_whole(&write_ng(&[packet], &SectionInfo::default()));
        let got = all[0].comment.as_deref().unwrap();
        assert!(comment.starts_with(got));
        assert!(got.len() <= 65_535 && got.len() > 65_535 - 3, "{}", got.len());
        assert_eq!(all[0].flags, Some(1));
    }
}

#[test]
fn what_does_not_fit_is_not_written() {
    let mut pcap = PcapWriter::new(Vec::new(), LinkType::RAW, 4, Precision::Micros).unwrap();
    let late = Instant::from_nanos((1 << 32) * 1_000_000_000);
    assert!(matches!(
        pcap.write(Instant::ZERO, 5, b"12345"),
        Err(WriteError::TooLong { len: 5, limit: 4 })
    ));
    assert!(matches!(
        pcap.write(late, 1, b"1"),
        Err(WriteError::TimeOutOfRange { seconds: 0x1_0000_0000 })
    ));
    pcap.write(Instant::from_nanos((1 << 32) * 1_000_000_000 - 1), 4, b"1234").unwrap();
    let all = read_whole(&pcap.into_inner().unwrap());
    assert_eq!((all.len(), all[0].data.as_slice()), (1, &b"1234"[..]));

    let mut ng = PcapngWriter::new(Vec::new(), &SectionInfo::default()).unwrap();
    let any = ng.interface_for(LinkType::RAW, 0).unwrap();
    let short = ng.interface_for(LinkType::RAW, 4).unwrap();
    assert_eq!((any, short), (0, 1));
    assert_eq!(ng.interface_for(LinkType::RAW, 4).unwrap(), 1);
    let packet = |interface, data| PacketInfo {
        interface,
        time: Instant::ZERO,
        wire_len: 9,
        data,
        comment: Some("c"),
        flags: None,
    };
    let huge = vec![0; 262_145];
    assert!(matches!(
        ng.write(&packet(short, b"12345")),
        Err(WriteError::TooLong { len: 5, limit: 4 })
    ));
    assert!(matches!(
        ng.write(&packet(any, &huge)),
        Err(WriteError::TooLong { len: 262_145, limit: 262_144 })
    ));
    assert!(matches!(
        ng.write(&packet(2, b"1")),
        Err(WriteError::UndefinedInterface { interface: 2, added: 2 })
    ));
    ng.write(&packet(any, &huge[1..])).unwrap();
    let all = read_whole(&ng.into_inner().unwrap());
    assert_eq!((all.len(), all[0].data.len()), (1, 262_144));
}
