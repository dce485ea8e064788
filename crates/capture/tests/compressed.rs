//! gzip and zstd: whole, in several pieces, cut and damaged.

mod common;

use std::io::Write;

use common::*;
use fourtuple_capture::{Cause, Compression};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// A pcap file of `n` records of hard to compress data.
fn pcap(n: u32) -> Vec<u8> {
    let mut file = pcap_header(false, 0xa1b2_c3d4, (2, 4), 65_535, 1);
    let mut state = 1_u32;
    for i in 0..n {
        let data: Vec<u8> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 27) as u8
            })
            .collect();
        file.extend(pcap_record(false, [i, 0, 200, 200], &[], &data));
    }
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

type Compress = fn(&[u8]) -> Vec<u8>;

fn kinds() -> [(Compression, Compress); 2] {
    [(Compression::Gzip, gzip), (Compression::Zstd, zstd)]
}

#[test]
fn whole_and_in_pieces() {
    let plain = pcap(1000);
    let want = read_whole(&plain);
    for (kind, compress) in kinds() {
        let reader = open(&compress(&plain)).unwrap();
        assert_eq!(reader.format().compression, Some(kind));
        let (all, error) = drain(reader);
        assert!(error.is_none(), "{}", error.unwrap());
        assert_eq!(all, want);
        // Cut anywhere, even inside the file header.
        for cut in [10, 24, 100, 150_000] {
            let pieces = [compress(&plain[..cut]), compress(&[]), compress(&plain[cut..])].concat();
            assert_eq!(read_whole(&pieces), want);
        }
    }
}

#[test]
fn zstd_skippable_frames_are_passed_over() {
    let skippable = b"\x53\x2a\x4d\x18\x05\0\0\0hello";
    let plain = pcap(3);
    let file = [&skippable[..], &zstd(&plain), skippable, &zstd(&[]), skippable].concat();
    assert_eq!(read_whole(&file), read_whole(&plain));
    let (all, error) = read(&file[..file.len() - 1]);
    assert_eq!(all.len(), 3);
    assert!(matches!(error.unwrap().cause(), Cause::Damaged { .. }));
}

#[test]
fn nothing_inside() {
    for (_, compress) in kinds() {
        assert_eq!(failure(&compress(b"")).1, "a.cap: the file is empty");
        let text = failure(&compress(&gzip(b"x"))).1;
        assert!(text.ends_with("(gzip within a compressed file)"), "{text}");
    }
}

#[test]
fn offsets_are_those_of_the_decompressed_stream() {
    let plain = pcap(3);
    for (kind, compress) in kinds() {
        assert_eq!(
            failure(&compress(&plain[..plain.len() - 1])),
            (
                2,
                format!(
                    "a.cap: at byte 456 of the decompressed {kind} stream: record 3 says 200 bytes of data, but the \
                     file ends after 199 of them"
                )
            )
        );
    }
}

/// A cut file gives every record whose compressed bytes are there. Zstd decodes block by block of 128 KiB, so up to
/// that much before the cut is not to be had.
#[test]
fn cut_files_give_what_was_before() {
    let plain = pcap(2000);
    let want = read_whole(&plain);
    for (kind, compress) in kinds() {
        let file = compress(&plain);
        for eighths in 1..8 {
            let cut = file.len() * eighths / 8;
            let (all, error) = read(&file[..cut]);
            let error = error.expect("an error");
            assert!(matches!(error.cause(), Cause::Damaged { how, .. } if *how == kind), "{error}");
            assert!(error.to_string().contains(&format!("the {kind} data is damaged or cut")));
            assert_eq!(all, want[..all.len()]);
            let lost = 2000 * eighths / 8 - all.len().min(2000 * eighths / 8);
            assert!(lost < 700, "{kind}: {lost} records lost at {eighths}/8");
        }
    }
}

#[test]
fn every_cut_of_a_small_file_is_an_error() {
    let plain = pcap(3);
    for (_, compress) in kinds() {
        let file = compress(&plain);
        for cut in 8..file.len() {
            let (all, error) = read(&file[..cut]);
            assert!(error.is_some(), "cut at {cut} of {}", file.len());
            assert_eq!(all, read_whole(&plain)[..all.len()]);
        }
    }
}

#[test]
fn damage_is_found_and_what_was_before_is_right() {
    let plain = pcap(2000);
    let want = read_whole(&plain);
    for (kind, compress) in kinds() {
        let file = compress(&plain);
        // The very end is the checksum of the data.
        let mut last = file.clone();
        let end = last.len() - if kind == Compression::Gzip { 8 } else { 1 };
        last[end] ^= 0x55;
        let (all, error) = read(&last);
        assert_eq!(all, want, "{kind}: the data itself is whole");
        assert!(matches!(error.expect("an error").cause(), Cause::Damaged { .. }), "{kind}");
    }
}

/// Whatever is hit behind the headers, it is noticed, if only by the checksum at the end.
#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let plain = pcap(1000);
    for (kind, compress) in kinds() {
        let file = compress(&plain);
        for step in 0..40 {
            let mut bad = file.clone();
            let at = 24 + (file.len() - 24) * step / 40;
            bad[at] ^= 1 << (step % 8);
            let (all, error) = read(&bad);
            assert!(error.is_some(), "{kind}: a flip at {at} of {} went unnoticed", file.len());
            assert!(all.len() <= 1000 * 20);
        }
    }
}
