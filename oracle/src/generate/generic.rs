//! Protocols without a tracker of their own, GRE, and IP headers that are wrong.

use fastrand::Rng;

use super::build::{Ip, UDP, fix_header, udp};
use super::{chance, hosts, pick};

/// Packets of any protocol number both ways.
pub(super) fn packets(rng: &mut Rng) -> Vec<Vec<u8>> {
    let way = hosts(rng);
    let usual = pick(rng, &[0, 2, 4, 33, 47, 47, 50, 51, 89, 103, 253]);
    (0..rng.usize(2..14))
        .map(|_| {
            let way = if chance(rng, 45) { way.back() } else { way };
            let protocol = if chance(rng, 75) { usual } else { rng.u8(..) };
            if chance(rng, 15) {
                let data = udp(way, 4000, 53, b"header");
                return header(rng, Ip::new(way, UDP).packet(&data));
            }
            let payload = match protocol {
                47 => gre(rng),
                _ => vec![0; pick(rng, &[0, 1, 3, 4, 8, 20, 60])],
            };
            let ip = Ip::new(way, protocol);
            if way.is_v6() || chance(rng, 80) {
                return ip.packet(&payload);
            }
            // IPv4 options: no-operations and an end.
            ip.with_options(&[1, 1, 1, 0], &payload)
        })
        .collect()
}

/// GRE of version 0, of version 1 (PPTP) with few call ids, and of none.
fn gre(rng: &mut Rng) -> Vec<u8> {
    let version = pick(rng, &[0, 0, 1, 1, 1, 2, 7]);
    let kind = if chance(rng, 80) { 0x880b_u16 } else { 0x0800 };
    let mut bytes = vec![0x20, version];
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 4, 0, rng.u8(1..4), 0, 0, 0, 1]);
    if chance(rng, 15) {
        bytes.truncate(rng.usize(..9));
    }
    bytes
}

/// One field of the IP header changed, mostly with the checksum made right again.
fn header(rng: &mut Rng, mut packet: Vec<u8>) -> Vec<u8> {
    let six = packet[0] >> 4 == 6;
    match rng.u8(..7) {
        0 => packet[0] = packet[0] & 0xf0 | rng.u8(..16),
        1 => packet.truncate(rng.usize(1..packet.len())),
        2 => {
            let at = if six { 5 } else { 3 };
            packet[at] = packet[at].wrapping_add(pick(rng, &[1, 255, 200]));
        }
        3 => packet[if six { 7 } else { 8 }] = pick(rng, &[0, 1]),
        4 => packet.extend([0; 9]),
        5 => packet[if six { 6 } else { 9 }] = rng.u8(..),
        _ if !six => {
            packet[10] ^= 1;
            return packet;
        }
        _ => packet[1] = rng.u8(..),
    }
    if packet.len() >= 20 {
        fix_header(&mut packet);
    }
    packet
}
