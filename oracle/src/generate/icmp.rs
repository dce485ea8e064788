//! ICMP and ICMPv6: queries of every type, errors with every kind of quote, redirects.

use std::net::{IpAddr, Ipv6Addr};

use fastrand::Rng;

use super::build::{ACK, ICMP, ICMPV6, Ip, SYN, Segment, TCP, UDP, Way, fix_header, icmp, udp};
use super::{chance, host, hosts, pick, spoil};

/// Queries, answers and types that are neither.
pub(super) fn queries(rng: &mut Rng) -> Vec<Vec<u8>> {
    let way = hosts(rng);
    let ids = [rng.u16(..), 7];
    let asked = if way.is_v6() { pick(rng, &[128, 139]) } else { pick(rng, &[8, 13, 15, 17]) };
    (0..rng.usize(2..20))
        .map(|n| {
            let back = chance(rng, 45);
            let way = if back { way.back() } else { way };
            let kind = match rng.u8(..10) {
                0..=6 => answer(way, asked, back),
                7 if way.is_v6() => rng.u8(127..162),
                7 => rng.u8(..44),
                8 => pick(rng, &[0, 8, 13, 14, 15, 16, 17, 18, 19, 128, 129, 139, 140]),
                _ => rng.u8(..),
            };
            let code = if chance(rng, 85) { 0 } else { rng.u8(..) };
            let id = pick(rng, &ids).to_be_bytes();
            let word = [id[0], id[1], 0, n as u8];
            message(rng, way, kind, code, word)
        })
        .collect()
}

/// The type that answers `asked`, if this packet goes back.
fn answer(way: Way, asked: u8, back: bool) -> u8 {
    match (back, asked) {
        (false, _) => asked,
        (true, 8) if !way.is_v6() => 0,
        (true, _) => asked + 1,
    }
}

fn message(rng: &mut Rng, way: Way, kind: u8, code: u8, word: [u8; 4]) -> Vec<u8> {
    let body = vec![b'i'; pick(rng, &[0, 1, 32, 56])];
    let mut bytes = icmp(way, kind, code, word, &body);
    match rng.u8(..20) {
        0 => spoil(rng, &mut bytes, 2),
        1 => bytes.truncate(rng.usize(..9)),
        _ => {}
    }
    // The other family's ICMP is not this family's.
    let protocol = match rng.u8(..40) {
        0 => ICMP,
        1 => ICMPV6,
        _ => way.icmp(),
    };
    Ip::new(way, protocol).packet(&bytes)
}

/// One or two flows, then errors about them and about others.
pub(super) fn errors(rng: &mut Rng) -> Vec<Vec<u8>> {
    let way = hosts(rng);
    let mut packets = Vec::new();
    let mut said: Vec<(Way, Vec<u8>)> = Vec::new();
    for _ in 0..rng.usize(1..3) {
        flow(rng, way, &mut said);
    }
    packets.extend(said.iter().map(|(_, packet)| packet.clone()));
    for _ in 0..rng.usize(2..10) {
        let (quoted, quote) = said[rng.usize(..said.len())].clone();
        let error = error(rng, quoted, quote);
        // An error may itself be quoted later.
        if chance(rng, 20) {
            said.push((quoted.back(), error.clone()));
        }
        packets.push(error);
        if chance(rng, 25) {
            packets.push(said[rng.usize(..said.len())].1.clone());
        }
    }
    packets
}

/// A few packets of one flow.
fn flow(rng: &mut Rng, way: Way, said: &mut Vec<(Way, Vec<u8>)>) {
    let answered = chance(rng, 70);
    let back = way.back();
    match rng.u8(..4) {
        0 => {
            said.push((way, Ip::new(way, UDP).packet(&udp(way, 4000, 53, b"question"))));
            if answered {
                said.push((back, Ip::new(back, UDP).packet(&udp(back, 53, 4000, b"answer"))));
            }
        }
        1 => {
            let syn = Segment {
                sport: 4000,
                dport: 80,
                seq: 9,
                flags: SYN,
                window: 500,
                ..Segment::default()
            };
            said.push((way, syn.packet(way)));
            if answered {
                let both =
                    Segment { sport: 80, dport: 4000, seq: 70, ack: 10, flags: SYN | ACK, ..syn };
                said.push((back, both.packet(back)));
            }
        }
        2 => {
            let (ask, tell) = if way.is_v6() { (128, 129) } else { (8, 0) };
            let word = [0, 7, 0, 1];
            said.push((way, Ip::new(way, way.icmp()).packet(&icmp(way, ask, 0, word, b"ping"))));
            if answered {
                let bytes = icmp(back, tell, 0, word, b"ping");
                said.push((back, Ip::new(back, way.icmp()).packet(&bytes)));
            }
        }
        _ => {
            let protocol = pick(rng, &[47, 50, 132, 200]);
            said.push((way, Ip::new(way, protocol).packet(&[0; 16])));
            if answered {
                said.push((back, Ip::new(back, protocol).packet(&[0; 16])));
            }
        }
    }
}

/// An error about `quote`, which went `quoted`'s way; sometimes wrong in one respect.
fn error(rng: &mut Rng, quoted: Way, mut quote: Vec<u8>) -> Vec<u8> {
    let six = quoted.is_v6();
    harm(rng, &mut quote, six);
    // Who reports: the far end, or a router on the path; whom: the sender, or somebody else.
    let src = if chance(rng, 50) { quoted.dst } else { host(six, rng.u8(200..203)) };
    let dst = if chance(rng, 88) { quoted.src } else { pick(rng, &[quoted.dst, host(six, 99)]) };
    let way = Way { src, dst };
    if six && chance(rng, 20) {
        return redirect(rng, way, &quote);
    }
    let kind = if six {
        pick(rng, &[1, 2, 3, 4, 1, 3, 0, 5, 100, 127])
    } else {
        pick(rng, &[3, 3, 4, 5, 11, 11, 12, 10])
    };
    let code = if chance(rng, 70) { rng.u8(..6) } else { rng.u8(..) };
    let word = if chance(rng, 50) { [0; 4] } else { [rng.u8(..), 0, 5, 220] };
    let mut bytes = icmp(way, kind, code, word, &quote);
    match rng.u8(..25) {
        0 => spoil(rng, &mut bytes, 2),
        1 => bytes.truncate(rng.usize(..12).min(bytes.len())),
        _ => {}
    }
    Ip::new(way, way.icmp()).packet(&bytes)
}

/// What may be wrong with, or unusual about, a quoted packet.
fn harm(rng: &mut Rng, quote: &mut Vec<u8>, six: bool) {
    let header = if six { 40 } else { 20 };
    match rng.u8(..14) {
        // Cut: around the header's end and the few bytes that matter behind it.
        0..=2 => quote.truncate(rng.usize(..header + 12).min(quote.len())),
        3 => quote.truncate(header + pick(rng, &[0, 3, 4, 7, 8]).min(quote.len() - header)),
        // A header checksum that is wrong, as routers quote it after lowering the TTL.
        4 if !six => quote[10] ^= 0x55,
        // A later fragment, a first one.
        5 if !six => {
            let offset = pick(rng, &[1_u16, 0x2000, 0x2001, 0x4000]);
            quote[6..8].copy_from_slice(&offset.to_be_bytes());
            fix_header(quote);
        }
        // Another flow: a port or an address that nobody used.
        6 => {
            let at = pick(rng, &[header, header + 1, header + 2, header - 1]);
            if let Some(byte) = quote.get_mut(at) {
                *byte ^= 0x40;
            }
        }
        // Another protocol, a length that is wrong, a strange version or header length.
        7 => quote[if six { 6 } else { 9 }] = pick(rng, &[TCP, UDP, ICMP, ICMPV6, 59, 44]),
        8 => quote[if six { 5 } else { 3 }] = rng.u8(..),
        9 => quote[0] = pick(rng, &[0x45, 0x46, 0x44, 0x4f, 0x60, 0x65]),
        _ => {}
    }
}

/// An ICMPv6 redirect (RFC 4861, 4.5), proper or not.
fn redirect(rng: &mut Rng, way: Way, quote: &[u8]) -> Vec<u8> {
    let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let src = if chance(rng, 85) { IpAddr::V6(link_local) } else { way.src };
    let way = Way { src, ..way };
    let mut body = vec![0; 32];
    let kind = if chance(rng, 85) { 4 } else { pick(rng, &[1, 2, 5]) };
    let length = if chance(rng, 90) { (quote.len() + 8).div_ceil(8) as u8 } else { 0 };
    body.extend([kind, length, 0, 0, 0, 0, 0, 0]);
    body.extend(quote);
    if chance(rng, 10) {
        body.truncate(rng.usize(..44));
    }
    let code = if chance(rng, 90) { 0 } else { 1 };
    let bytes = icmp(way, 137, code, [0; 4], &body);
    let ttl = if chance(rng, 85) { 255 } else { 64 };
    Ip { ttl, ..Ip::new(way, ICMPV6) }.packet(&bytes)
}
