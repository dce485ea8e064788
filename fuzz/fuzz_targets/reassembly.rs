//! Any sequence of fragments: no panic, memory within its limit, whole datagrams that parse.
#![no_main]

use fourtuple_packet::{Instant, Limits, Outcome, Packet, Reassembler};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let limits = Limits { v4_high_thresh: 1 << 16, v6_high_thresh: 1 << 16, ..Limits::default() };
    let mut reassembler = Reassembler::new(limits);
    let mut rest = input;
    let mut now = 0u64;
    // Records of length (1), seconds to wait (1), bytes.
    while let [len, wait, tail @ ..] = rest {
        let (bytes, after) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = after;
        now += u64::from(*wait) * 100_000_000;
        let mut bytes = bytes.to_vec();
        fix_v4_checksum(&mut bytes);
        let Ok(packet) = Packet::parse(&bytes, bytes.len() as u32) else { continue };
        if let Outcome::Complete(datagram) = reassembler.push(Instant::from_nanos(now), &packet, 0)
        {
            let whole = Packet::parse_reassembled(datagram.bytes, datagram.len);
            let whole = whole.expect("a whole datagram is a packet");
            assert_eq!(whole.src, packet.src);
            assert_eq!(whole.dst, packet.dst);
        }
        let (v4, v6) = reassembler.memory();
        assert!(v4.max(v6) <= 1 << 17, "{v4} and {v6} bytes held");
    }
});

/// A fuzzer cannot guess checksums: put the right one in, so that fragments get past the header check.
fn fix_v4_checksum(bytes: &mut [u8]) {
    let Some(first) = bytes.first() else { return };
    let header = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header < 20 || bytes.len() < header {
        return;
    }
    bytes[10..12].fill(0);
    let mut sum: u32 =
        bytes[..header].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
