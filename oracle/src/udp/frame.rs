//! Frames and packets that go in, and the refusals that come out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// One's complement sum.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(0, |sum, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        sum + u32::from(u16::from_be_bytes([pair[0], low]))
    })
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, length: usize) -> u32 {
    let ends = match (src, dst) {
        (IpAddr::V4(a), IpAddr::V4(b)) => sum(&a.octets()) + sum(&b.octets()),
        (IpAddr::V6(a), IpAddr::V6(b)) => sum(&a.octets()) + sum(&b.octets()),
        _ => 0,
    };
    ends + u32::from(protocol) + length as u32
}

fn ip(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(40 + payload.len());
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let total = (20 + payload.len()) as u16;
            out.extend([0x45, 0]);
            out.extend(total.to_be_bytes());
            out.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
            out.extend(src.octets());
            out.extend(dst.octets());
            let check = fold(sum(&out)).to_be_bytes();
            out[10..12].copy_from_slice(&check);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            out.extend([0x60, 0, 0, 0]);
            out.extend((payload.len() as u16).to_be_bytes());
            out.extend([protocol, 64]);
            out.extend(src.octets());
            out.extend(dst.octets());
        }
        _ => {}
    }
    out.extend(payload);
    out
}

/// An IP packet with a datagram; without `checksum` that of UDP is zero.
pub(super) fn datagram(
    (src, sport): (IpAddr, u16),
    (dst, dport): (IpAddr, u16),
    data: &[u8],
    checksum: bool,
) -> Vec<u8> {
    let length = 8 + data.len();
    let mut udp = Vec::with_capacity(length);
    udp.extend(sport.to_be_bytes());
    udp.extend(dport.to_be_bytes());
    udp.extend((length as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(data);
    if checksum {
        let check = match fold(pseudo(src, dst, UDP, length) + sum(&udp)) {
            0 => 0xffff,
            check => check,
        };
        udp[6..8].copy_from_slice(&check.to_be_bytes());
    }
    ip(src, dst, UDP, &udp)
}

/// An IP packet with an ICMP error of `kind` and `code` about `quoted`.
pub(super) fn icmp_error(
    src: IpAddr,
    dst: IpAddr,
    (kind, code): (u8, u8),
    quoted: &[u8],
) -> Vec<u8> {
    /// What "too big" says.
    const MTU: u32 = 1400;
    let v6 = dst.is_ipv6();
    let big = if v6 { kind == 2 } else { (kind, code) == (3, 4) };
    let mut body = vec![kind, code, 0, 0];
    body.extend(if big { MTU } else { 0 }.to_be_bytes());
    body.extend(quoted);
    let protocol = if v6 { ICMP6 } else { ICMP };
    let start = if v6 { pseudo(src, dst, ICMP6, body.len()) } else { 0 };
    let check = fold(start + sum(&body)).to_be_bytes();
    body[2..4].copy_from_slice(&check);
    ip(src, dst, protocol, &body)
}

/// An Ethernet frame for the device `mac` with `packet` to `dst` in it.
pub(super) fn ethernet(mac: [u8; 6], dst: IpAddr, packet: &[u8]) -> Vec<u8> {
    let to = match dst {
        // The sandbox's subnets are of 256 addresses.
        IpAddr::V4(v4) if v4.octets()[3] == 255 => [0xff; 6],
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            [1, 0, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(v6) if v6.is_multicast() => {
            let o = v6.octets();
            [0x33, 0x33, o[12], o[13], o[14], o[15]]
        }
        _ => mac,
    };
    let kind: u16 = if dst.is_ipv4() { 0x0800 } else { 0x86dd };
    let mut out = Vec::with_capacity(14 + packet.len());
    out.extend(to);
    out.extend([2, 0, 0, 0, 0, 0xee]);
    out.extend(kind.to_be_bytes());
    out.extend(packet);
    out
}

/// The identification that [`datagram`]'s data carries, if `packet` is a port unreachable about one.
pub(super) fn refused(packet: &[u8]) -> Option<u64> {
    let icmp = match packet.first()? >> 4 {
        4 if packet.get(9) == Some(&ICMP) => {
            let icmp = packet.get(usize::from(packet[0] & 15) * 4..)?;
            (icmp.first_chunk() == Some(&[3, 3])).then_some(icmp)?
        }
        6 if packet.get(6) == Some(&ICMP6) => {
            let icmp = packet.get(40..)?;
            (icmp.first_chunk() == Some(&[1, 4])).then_some(icmp)?
        }
        _ => return None,
    };
    quoted(icmp)
}

/// The same for the ICMP message alone, as an ICMPv6 raw socket hands it out.
pub(super) fn refused6(icmp: &[u8]) -> Option<u64> {
    if icmp.first_chunk() == Some(&[1, 4]) { quoted(icmp) } else { None }
}

fn quoted(icmp: &[u8]) -> Option<u64> {
    let inner = icmp.get(8..)?;
    let header = if inner.first()? >> 4 == 4 { usize::from(inner[0] & 15) * 4 } else { 40 };
    Some(u64::from_be_bytes(*inner.get(header + 8..)?.first_chunk()?))
}

/// Sender of an error about a datagram to `dst`: any host of that side will do.
pub(super) fn reporter(dst: IpAddr, device: &str) -> IpAddr {
    match (dst.is_ipv4(), device) {
        (true, "d1") => Ipv4Addr::new(10, 2, 0, 9).into(),
        (true, _) => Ipv4Addr::new(10, 1, 0, 9).into(),
        (false, "d1") => Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, 9).into(),
        (false, _) => Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 9).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_carries_the_identification_of_what_it_quotes() {
        for (a, b, code) in [("10.1.0.9", "10.1.0.1", (3, 3)), ("fd01::9", "fd01::1", (1, 4))] {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            let sent = datagram((a, 9000), (b, 5000), &77_u64.to_be_bytes(), true);
            assert_eq!(refused(&sent), None);
            let error = icmp_error(b, a, code, &sent);
            assert_eq!(refused(&error), Some(77));
            let other = icmp_error(b, a, (code.0, code.1 + 5), &sent);
            assert_eq!(refused(&other), None);
            assert_eq!(refused(&error[..error.len() - 1]), None);
        }
    }

    #[test]
    fn checksums_add_up_to_all_ones() {
        let (a, b): (IpAddr, IpAddr) = ("10.1.0.9".parse().unwrap(), "10.1.0.1".parse().unwrap());
        let sent = datagram((a, 9000), (b, 5000), b"odd", true);
        assert_eq!(fold(sum(&sent[..20])), 0);
        assert_eq!(fold(pseudo(a, b, UDP, 11) + sum(&sent[20..])), 0);
        assert_eq!(datagram((a, 9000), (b, 5000), b"odd", false)[26..28], [0, 0]);
    }
}
