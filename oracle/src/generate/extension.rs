//! IPv6 extension header chains, whole and broken.

use fastrand::Rng;

use super::build::{Ip, SYN, Segment, TCP, UDP, Way, icmp, udp};
use super::{chance, host, pick};

/// Packets of two flows behind chains of headers.
pub(super) fn packets(rng: &mut Rng) -> Vec<Vec<u8>> {
    let way = Way { src: host(true, rng.u8(1..4)), dst: host(true, rng.u8(4..7)) };
    (0..rng.usize(2..10))
        .map(|_| {
            let way = if chance(rng, 40) { way.back() } else { way };
            let (protocol, payload) = upper(rng, way);
            let (first, bytes) = chain(rng, protocol, payload);
            let mut packet = Ip::new(way, first).packet(&bytes);
            if chance(rng, 10) {
                // The IP length says less than is there, or the packet ends early.
                let length = rng.usize(..=bytes.len());
                packet.truncate(40 + length);
                packet[4..6].copy_from_slice(&(length as u16).to_be_bytes());
            }
            packet
        })
        .collect()
}

fn upper(rng: &mut Rng, way: Way) -> (u8, Vec<u8>) {
    match rng.u8(..6) {
        0 => {
            let segment =
                Segment { sport: 4000, dport: 80, flags: SYN, window: 9, ..Segment::default() };
            (TCP, segment.bytes(way))
        }
        1 => (58, icmp(way, pick(rng, &[128, 129, 1, 135]), 0, [0, 7, 0, 1], &[0; 8])),
        2 => (pick(rng, &[50, 59, 135, 139, 140, 253, 1, 4, 41, 132]), vec![0; rng.usize(..20)]),
        _ => {
            let ports = pick(rng, &[(4000, 53), (53, 4000)]);
            (UDP, udp(way, ports.0, ports.1, b"data"))
        }
    }
}

/// Puts headers in front; gives the first one's number and the bytes behind the IPv6 header.
fn chain(rng: &mut Rng, protocol: u8, payload: Vec<u8>) -> (u8, Vec<u8>) {
    let (mut next, mut bytes) = (protocol, payload);
    for n in 0..pick(rng, &[0, 1, 1, 2, 3, 8]) {
        let kind = pick(rng, &[60, 60, 43, 51, 44, 0]);
        let mut header = vec![next, 0];
        match kind {
            44 => {
                // An atomic fragment, now and then a later one.
                let offset = if chance(rng, 85) { 0_u16 } else { pick(rng, &[1, 8, 9]) };
                header.extend(offset.to_be_bytes());
                header.extend([0, 0, 0, n]);
            }
            51 => {
                // AH counts words of four, less two.
                let words = rng.u8(1..5);
                header[1] = words;
                header.resize((usize::from(words) + 2) * 4, 0);
            }
            _ => {
                let blocks = rng.u8(..3);
                header[1] = blocks;
                let room = (usize::from(blocks) + 1) * 8 - 4;
                // PadN over the whole of it; a routing header of type 1 with nothing left.
                header.extend([1, if kind == 43 { 0 } else { room as u8 }]);
                header.resize(room + 4, 0);
            }
        }
        if chance(rng, 4) {
            header[1] = pick(rng, &[0, 1, 30, 255]);
        }
        header.append(&mut bytes);
        bytes = header;
        next = kind;
    }
    (next, bytes)
}
