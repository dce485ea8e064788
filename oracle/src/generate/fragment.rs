//! Fragments of IPv4 and IPv6 datagrams in any order, doubled, overlapping, missing.

use fastrand::Rng;

use super::build::{ACK, Ip, SYN, Segment, TCP, UDP, Way, icmp, udp};
use super::{chance, hosts, pick};

/// A piece of a datagram: where it starts, its bytes, and whether more follow.
#[derive(Clone, Debug)]
struct Piece {
    offset: usize,
    bytes: Vec<u8>,
    more: bool,
}

/// One to three datagrams in pieces.
pub(super) fn packets(rng: &mut Rng) -> Vec<Vec<u8>> {
    let way = hosts(rng);
    let mut packets = Vec::new();
    for n in 0..rng.usize(1..4) {
        let back = n > 0 && chance(rng, 50);
        let way = if back { way.back() } else { way };
        let (protocol, bytes) = datagram(rng, way, back);
        // The same number again now and then, so that datagrams get into each other's queue.
        let id = if chance(rng, 80) { 100 + n as u32 } else { 100 };
        let mut pieces = cut(rng, &bytes);
        harm(rng, &mut pieces);
        if chance(rng, 60) {
            rng.shuffle(&mut pieces);
        }
        packets.extend(pieces.iter().map(|piece| wrap(rng, way, protocol, id, piece)));
    }
    packets
}

fn datagram(rng: &mut Rng, way: Way, back: bool) -> (u8, Vec<u8>) {
    let data = vec![b'f'; pick(rng, &[0, 8, 40, 100, 1000])];
    let (sport, dport) = if back { (53, 4000) } else { (4000, 53) };
    match rng.u8(..4) {
        0 => {
            let flags = if back { SYN | ACK } else { SYN };
            let segment =
                Segment { sport, dport, seq: 5, flags, window: 100, data, ..Segment::default() };
            (TCP, segment.bytes(way))
        }
        1 => {
            let kind = match (way.is_v6(), back) {
                (true, _) => 128 + u8::from(back),
                (false, true) => 0,
                (false, false) => 8,
            };
            (way.icmp(), icmp(way, kind, 0, [0, 7, 0, 1], &data))
        }
        2 => (200, data),
        _ => (UDP, udp(way, sport, dport, &data)),
    }
}

/// Cuts at multiples of eight.
fn cut(rng: &mut Rng, bytes: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    loop {
        let size = pick(rng, &[8, 8, 16, 24, 64, 512]);
        let end = (at + size).min(bytes.len());
        let more = end < bytes.len();
        pieces.push(Piece { offset: at, bytes: bytes[at..end].to_vec(), more });
        if !more || pieces.len() > 12 {
            // The rest in one, so that a long datagram ends too.
            if more {
                pieces.push(Piece { offset: end, bytes: bytes[end..].to_vec(), more: false });
            }
            return pieces;
        }
        at = end;
    }
}

/// One departure, or none.
fn harm(rng: &mut Rng, pieces: &mut Vec<Piece>) {
    let at = rng.usize(..pieces.len());
    let last = pieces.len() - 1;
    match rng.u8(..14) {
        // One is missing.
        0 => {
            pieces.remove(at);
        }
        1 => pieces.insert(rng.usize(..=last), pieces[at].clone()),
        // Overlap at the left, at the right, inside, around.
        2 if pieces[at].offset >= 8 => {
            let mut piece = pieces[at].clone();
            piece.offset -= 8;
            pieces.insert(rng.usize(..=last), piece);
        }
        3 => {
            let mut piece = pieces[at].clone();
            piece.bytes.extend([0; 8]);
            pieces.insert(rng.usize(..=last), piece);
        }
        4 => {
            let mut piece = pieces[at].clone();
            piece.bytes.truncate(8);
            piece.more = true;
            pieces.push(piece);
        }
        // Two ends; an end in the middle; no end.
        5 => pieces[at].more = false,
        6 => pieces[last].more = true,
        // A middle piece that is not a multiple of eight, an empty one.
        7 => pieces[at].bytes.push(0),
        8 => pieces[at].bytes.clear(),
        // Beyond the largest datagram.
        9 => pieces[at].offset = 65_528,
        _ => {}
    }
    if pieces.is_empty() {
        pieces.push(Piece { offset: 8, bytes: vec![0; 8], more: true });
    }
}

fn wrap(rng: &mut Rng, way: Way, protocol: u8, id: u32, piece: &Piece) -> Vec<u8> {
    let words = (piece.offset / 8) as u16;
    if way.is_v6() {
        let mut bytes = vec![protocol, 0];
        bytes.extend((words << 3 | u16::from(piece.more)).to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend(&piece.bytes);
        return Ip::new(way, 44).packet(&bytes);
    }
    // Don't-fragment on a fragment is odd and allowed.
    let keep = if chance(rng, 5) { 0x4000 } else { 0 };
    let fragment = u16::from(piece.more) << 13 | words | keep;
    Ip { id: id as u16, fragment, ..Ip::new(way, protocol) }.packet(&piece.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_whole_again() {
        let mut rng = Rng::with_seed(3);
        for length in [0, 7, 8, 9, 1000] {
            let whole: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let pieces = cut(&mut rng, &whole);
            let mut again: Vec<u8> = Vec::new();
            for piece in &pieces {
                assert_eq!(piece.offset, again.len());
                again.extend(&piece.bytes);
            }
            assert_eq!(again, whole);
            assert!(
                pieces.iter().rev().skip(1).all(|piece| piece.more && piece.bytes.len() % 8 == 0)
            );
            assert!(!pieces.last().unwrap().more);
        }
    }
}
