//! UDP and UDP-Lite both ways, right and wrong.

use fastrand::Rng;

use super::build::{Ip, UDP, UDPLITE, Way, ports, udp, upper_checksum};
use super::{chance, hosts, pick, spoil};

/// Two to twenty datagrams between two hosts.
pub(super) fn packets(rng: &mut Rng) -> Vec<Vec<u8>> {
    let way = hosts(rng);
    let lite = chance(rng, 25);
    let (sport, dport) = (pick(rng, &[0, 53, 5000, 65_535]), pick(rng, &[0, 53, 53, 4500]));
    // A host that talks to itself: both tuples of the flow may be equal.
    let way = if chance(rng, 10) { Way { src: way.dst, ..way } } else { way };
    (0..rng.usize(2..20))
        .map(|_| {
            let reply = chance(rng, 45);
            let (way, sport, dport) =
                if reply { (way.back(), dport, sport) } else { (way, sport, dport) };
            let data = vec![b'u'; pick(rng, &[0, 1, 7, 8, 100, 1400])];
            if lite {
                Ip::new(way, UDPLITE).packet(&udplite(rng, way, sport, dport, &data))
            } else {
                let mut bytes = udp(way, sport, dport, &data);
                if chance(rng, 35) {
                    harm(rng, way, &mut bytes);
                }
                Ip::new(way, UDP).packet(&bytes)
            }
        })
        .collect()
}

/// One thing wrong, or unusual and still right.
fn harm(rng: &mut Rng, way: Way, bytes: &mut Vec<u8>) {
    let length = bytes.len() as u16;
    match rng.u8(..6) {
        // No checksum.
        0 => bytes[6..8].fill(0),
        1 => spoil(rng, bytes, 6),
        2 => {
            let stated = pick(rng, &[0, 1, 7, 8, length - 1, length + 1, 65_535]);
            bytes[4..6].copy_from_slice(&stated.to_be_bytes());
            if chance(rng, 70) {
                let length = usize::from(stated).clamp(8, bytes.len());
                fix(way, bytes, length);
            }
        }
        // Cut inside the header or the data, with the IP length to match.
        3 => bytes.truncate(rng.usize(..bytes.len())),
        // Padding behind the datagram.
        4 => bytes.extend([0; 6]),
        _ => {
            bytes[6..8].fill(0);
            let stated = pick(rng, &[7, 8, length, length + 1]);
            bytes[4..6].copy_from_slice(&stated.to_be_bytes());
        }
    }
}

fn fix(way: Way, bytes: &mut [u8], length: usize) {
    bytes[6..8].fill(0);
    let sum = upper_checksum(way, UDP, length, &bytes[..length]);
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// UDP-Lite (RFC 3828): the length field is the coverage. Linux sums with UDP's protocol number,
/// so both that and the RFC's are made.
fn udplite(rng: &mut Rng, way: Way, sport: u16, dport: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = ports(sport, dport);
    let whole = 8 + data.len();
    let coverage = match rng.u8(..8) {
        0..=2 => 0,
        3 | 4 => 8,
        5 => whole,
        6 => rng.usize(..whole + 2),
        _ => whole + 1,
    };
    bytes.extend((coverage as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    let covered = if coverage == 0 { whole } else { coverage.min(whole) };
    let protocol = if chance(rng, 80) { UDP } else { UDPLITE };
    // Over IPv4 Linux takes only the low eight bits of the length into the pseudo-header.
    let whole = if chance(rng, 50) { whole } else { whole & 0xff };
    let sum = upper_checksum(way, protocol, whole, &bytes[..covered]);
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    match rng.u8(..10) {
        0 => bytes[6..8].fill(0),
        1 => spoil(rng, &mut bytes, 6),
        2 => bytes.truncate(rng.usize(..bytes.len())),
        _ => {}
    }
    bytes
}
