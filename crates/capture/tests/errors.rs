//! Each error, with the words a user sees: name, offset, numbers.

mod common;

use std::io::{self, Read};

use common::*;
use fourtuple_capture::{CaptureReader, Cause};

fn pcap() -> Vec<u8> {
    pcap_header(false, 0xa1b2_c3d4, (2, 4), 65_535, 1)
}

fn ng() -> Vec<u8> {
    [shb(false), idb(false, 1, 96, &[])].concat()
}

#[test]
fn no_file() {
    let error = CaptureReader::open("/no/such/file").unwrap_err();
    assert!(error.to_string().starts_with("/no/such/file: cannot be opened: "), "{error}");
    assert!(matches!(error.cause(), Cause::Open(_)));
}

#[test]
fn a_directory_is_an_io_error() {
    let error = CaptureReader::open(env!("CARGO_MANIFEST_DIR")).unwrap_err();
    assert!(matches!(error.cause(), Cause::Io(_)), "{error}");
}

#[test]
fn empty_and_foreign_files() {
    assert_eq!(failure(b""), (0, "a.cap: the file is empty".into()));
    for (bytes, text) in [
        (&b"hello world"[..], "68 65 6c 6c 6f 20 77 6f (text)"),
        (b"\x01\x02", "01 02"),
        (
            b"snoop\0\0\0\0\0\0\x02",
            "73 6e 6f 6f 70 00 00 00 (a snoop capture; convert it with editcap)",
        ),
        (b"BZh91AY&SY", "42 5a 68 39 31 41 59 26 (bzip2; decompress it first)"),
    ] {
        assert_eq!(failure(bytes), (0, format!("a.cap: not a capture: starts with {text}")));
    }
}

#[test]
fn blocks_before_the_section_header() {
    for big in [false, true] {
        for (block_type, block) in [(1, idb(big, 1, 0, &[])), (6, epb(big, 0, 0, 1, b"a", &[]))] {
            assert_eq!(
                failure(&block).1,
                format!(
                    "a.cap: at byte 0: a pcapng block of type {block_type} stands before the first \
                     section header block"
                )
            );
        }
    }
}

#[test]
fn pcap_headers() {
    assert_eq!(
        failure(&pcap()[..10]).1,
        "a.cap: at byte 0: the pcap file header has 24 bytes, but the file ends after 10 of them"
    );
    assert_eq!(
        failure(&pcap_header(false, 0xa1b2_c3d4, (7, 1), 0, 1)).1,
        "a.cap: at byte 0: pcap version 7.1 is not known"
    );
}

#[test]
fn pcap_records() {
    let mut file = pcap();
    file.extend(pcap_record(false, [0, 0, 3, 3], &[], b"abc"));
    let one = file.clone();
    file.extend(pcap_record(false, [0, 0, 70_000, 70_000], &[], b"only twelve!"));
    assert_eq!(
        failure(&file),
        (1, "a.cap: at byte 43: record 2 says 70000 bytes of data, but the file ends after 12 of them".into())
    );
    assert_eq!(
        failure(&file[..one.len() + 5]),
        (1, "a.cap: at byte 43: the header of record 2 has 16 bytes, but the file ends after 5 of them".into())
    );
    let long = [one, pcap_record(false, [0, 0, 262_145, 262_145], &[], b"")].concat();
    assert_eq!(
        failure(&long),
        (
            1,
            "a.cap: at byte 43: record 2 says 262145 bytes of data, more than the 262144 that a record of this file \
             may have"
                .into()
        )
    );
}

#[test]
fn pcapng_section_headers() {
    let mut bad = shb(false);
    bad[8..12].copy_from_slice(b"WHAT");
    assert_eq!(
        failure(&bad).1,
        "a.cap: at byte 0: the section header block has 0x57484154 where its byte-order magic 0x1a2b3c4d belongs"
    );
    assert_eq!(
        failure(&shb_with(true, (2, 0), [0xff; 8])).1,
        "a.cap: at byte 0: pcapng version 2.0 is not known"
    );
    assert_eq!(
        failure(&shb(false)[..20]).1,
        "a.cap: at byte 0: the section header block has 28 bytes, but the file ends after 20 of them"
    );
}

#[test]
fn pcapng_block_lengths() {
    let at = ng().len();
    let broken = |block: Vec<u8>| failure(&[ng(), block].concat());
    let with_length = |mut block: Vec<u8>, length: u32| {
        block[4..8].copy_from_slice(&length.to_le_bytes());
        block
    };
    let packet = epb(false, 0, 0, 4, b"data", &[]);
    for (block, text) in [
        (
            with_length(packet.clone(), 8),
            "the block of type 6 says 8 bytes, less than a block of this type has",
        ),
        (
            with_length(packet.clone(), 35),
            "the block of type 6 says 35 bytes, which is not a multiple of 4",
        ),
        (
            with_length(block(false, 77, b"four"), 8),
            "the block of type 77 says 8 bytes, less than a block of this type has",
        ),
        (
            with_length(packet.clone(), 64),
            "the block of type 6 (record 1) says 64 bytes, but the file ends after 36 of them",
        ),
        (
            packet[..20].to_vec(),
            "the block of type 6 (record 1) says 36 bytes, but the file ends after 20 of them",
        ),
        (
            packet[..7].to_vec(),
            "the header of a block has 8 bytes, but the file ends after 7 of them",
        ),
        (
            with_length(block(false, 77, b"four"), 0xffff_fff0),
            "the block of type 77 says 4294967280 bytes, but the file ends after 16 of them",
        ),
        (
            with_length(packet.clone(), 0xffff_fff0),
            "the block of type 6 says 4294967280 bytes, over 16 MiB more than its packet",
        ),
        (
            with_length(idb(false, 1, 0, &[]), 0xffff_fff0),
            "the block of type 1 says 4294967280 bytes, more than the 16 MiB that a header block may have",
        ),
        (
            [packet[..32].to_vec(), vec![99, 0, 0, 0]].concat(),
            "the block of type 6 says 36 bytes at its start and 99 at its end",
        ),
        (
            [block(false, 77, b"four")[..12].to_vec(), vec![99, 0, 0, 0]].concat(),
            "the block of type 77 says 16 bytes at its start and 99 at its end",
        ),
    ] {
        assert_eq!(broken(block), (0, format!("a.cap: at byte {at}: {text}")));
    }
}

#[test]
fn pcapng_packets() {
    let at = ng().len();
    let mut longer = epb(false, 0, 0, 4, b"data", &[]);
    longer[20..24].copy_from_slice(&9_u32.to_le_bytes());
    let mut absurd = longer.clone();
    absurd[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    for (block, text) in [
        (longer, "record 1 says 9 bytes of data, but its block has room for 4"),
        (
            absurd,
            "record 1 says 4294967295 bytes of data, more than the 262144 that a record of this file may have",
        ),
        (
            epb(false, 7, 0, 1, b"a", &[]),
            "record 1 is of interface 7, but the section has described 1",
        ),
        (
            obsolete(false, 1, 0, 1, b"a"),
            "record 1 is of interface 1, but the section has described 1",
        ),
        (spb(false, 50, b"four"), "record 1 says 50 bytes of data, but its block has room for 4"),
    ] {
        let file = [ng(), block].concat();
        assert_eq!(failure(&file), (0, format!("a.cap: at byte {at}: {text}")));
    }
    // Interfaces do not outlive their section.
    let file = [ng(), shb(false), spb(false, 1, b"a")].concat();
    assert!(
        failure(&file).1.ends_with("record 1 is of interface 0, but the section has described 0")
    );
}

#[test]
fn too_many_interfaces() {
    let mut file = shb(false);
    for _ in 0..65_537 {
        file.extend(idb(false, 1, 0, &[]));
    }
    assert!(failure(&file).1.ends_with("the section describes more than 65536 interfaces"));
}

/// Gives some bytes, then fails.
struct Failing(io::Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 => Err(io::Error::other("the disk is gone")),
            n => Ok(n),
        }
    }
}

#[test]
fn a_failing_source_is_told_from_damage() {
    let mut file = pcap();
    file.extend(pcap_record(false, [0, 0, 3, 3], &[], b"abc"));
    let whole = file.len();
    let reader = CaptureReader::from_reader("x", Failing(io::Cursor::new(file.clone()))).unwrap();
    let (all, error) = drain(reader);
    assert_eq!(all.len(), 1);
    let error = error.unwrap();
    assert_eq!(error.to_string(), format!("x: at byte {whole}: reading failed: the disk is gone"));

    use std::io::Write;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&file).unwrap();
    let mut gz = gz.finish().unwrap();
    gz.truncate(gz.len() - 4);
    let reader = CaptureReader::from_reader("x", Failing(io::Cursor::new(gz))).unwrap();
    let (all, error) = drain(reader);
    assert_eq!(all.len(), 1);
    assert!(matches!(error.unwrap().cause(), Cause::Io(_)));
}

/// Counts what is asked for, gives a header and then a length that lies.
#[test]
fn a_lying_length_allocates_little() {
    // 128 MiB said, and allowed by the snap length; 10 bytes there. The buffer may not grow for it.
    struct Watch(io::Cursor<Vec<u8>>);
    impl Read for Watch {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            assert!(buf.len() <= 256 << 10, "asked for {} bytes at once", buf.len());
            self.0.read(buf)
        }
    }
    let mut file = pcap_header(false, 0xa1b2_c3d4, (2, 4), u32::MAX, 1);
    file.extend(pcap_record(false, [0, 0, 128 << 20, 128 << 20], &[], b"0123456789"));
    let (all, error) =
        drain(CaptureReader::from_reader("x", Watch(io::Cursor::new(file))).unwrap());
    assert!(all.is_empty());
    assert!(matches!(error.unwrap().cause(), Cause::RecordCut { says: 134_217_728, have: 10, .. }));
}
