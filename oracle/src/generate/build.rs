//! Packets byte by byte, with right checksums unless one asks for a wrong one.

use std::net::IpAddr;

/// Protocol numbers used here.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const UDPLITE: u8 = 136;

/// TCP flag bits.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
}

impl Way {
    pub(crate) fn back(self) -> Self {
        Self { src: self.dst, dst: self.src }
    }

    pub(crate) fn is_v6(self) -> bool {
        self.src.is_ipv6()
    }

    /// ICMP's protocol number in this family.
    pub(crate) fn icmp(self) -> u8 {
        if self.is_v6() { ICMPV6 } else { ICMP }
    }
}

/// The ones-complement sum of RFC 1071, not yet complemented, over 16-bit words.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(0, |sum, pair| {
        let word = u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    })
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// RFC 1071 checksum.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    fold(sum(bytes))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Checksum of an upper layer with its pseudo-header (RFC 9293 3.1, RFC 8200 8.1).
pub(crate) fn upper_checksum(way: Way, protocol: u8, length: usize, covered: &[u8]) -> u16 {
    let mut pseudo = octets(way.src);
    pseudo.extend(octets(way.dst));
    pseudo.extend((length as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    fold(sum(&pseudo) + sum(covered))
}

/// What of an IP header varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip {
    pub(crate) way: Way,
    pub(crate) protocol: u8,
    /// IPv4 identification.
    pub(crate) id: u16,
    /// IPv4 flags and offset, in header form.
    pub(crate) fragment: u16,
    /// TTL or hop limit.
    pub(crate) ttl: u8,
}

impl Ip {
    pub(crate) fn new(way: Way, protocol: u8) -> Self {
        Self { way, protocol, id: 0, fragment: 0, ttl: 64 }
    }

    /// The packet around `payload`.
    pub(crate) fn packet(&self, payload: &[u8]) -> Vec<u8> {
        self.with_options(&[], payload)
    }

    /// The same with IPv4 options (a multiple of four bytes); IPv6 has none.
    pub(crate) fn with_options(&self, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut bytes;
        if self.way.is_v6() {
            bytes = vec![0x60, 0, 0, 0];
            bytes.extend((payload.len() as u16).to_be_bytes());
            bytes.extend([self.protocol, self.ttl]);
            bytes.extend(octets(self.way.src));
            bytes.extend(octets(self.way.dst));
        } else {
            let header = 20 + options.len();
            bytes = vec![0x40 | (header / 4) as u8, 0];
            bytes.extend(((header + payload.len()) as u16).to_be_bytes());
            bytes.extend(self.id.to_be_bytes());
            bytes.extend(self.fragment.to_be_bytes());
            bytes.extend([self.ttl, self.protocol, 0, 0]);
            bytes.extend(octets(self.way.src));
            bytes.extend(octets(self.way.dst));
            bytes.extend(options);
            fix_header(&mut bytes);
        }
        bytes.extend(payload);
        bytes
    }
}

/// Recomputes an IPv4 header's checksum after a change; IPv6 has none.
pub(crate) fn fix_header(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        let header = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
        packet[10..12].fill(0);
        let sum = checksum(&packet[..header]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A TCP segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) sport: u16,
    pub(crate) dport: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    /// Option bytes; padded with zeros to a multiple of four.
    pub(crate) options: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

impl Segment {
    pub(crate) fn bytes(&self, way: Way) -> Vec<u8> {
        let options = self.options.len().next_multiple_of(4).min(40);
        let mut bytes = Vec::with_capacity(20 + options + self.data.len());
        bytes.extend(self.sport.to_be_bytes());
        bytes.extend(self.dport.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([((5 + options / 4) << 4) as u8, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(&self.options);
        bytes.resize(20 + options, 0);
        bytes.extend(&self.data);
        let sum = upper_checksum(way, TCP, bytes.len(), &bytes);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    pub(crate) fn packet(&self, way: Way) -> Vec<u8> {
        Ip::new(way, TCP).packet(&self.bytes(way))
    }

    /// Sequence space it takes.
    pub(crate) fn length(&self) -> u32 {
        let flags = (self.flags & SYN != 0) as u32 + (self.flags & FIN != 0) as u32;
        self.data.len() as u32 + flags
    }
}

/// A UDP datagram's bytes with the right length and checksum.
pub(crate) fn udp(way: Way, sport: u16, dport: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = ports(sport, dport);
    bytes.extend(((8 + data.len()) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    let sum = match upper_checksum(way, UDP, bytes.len(), &bytes) {
        0 => 0xffff,
        sum => sum,
    };
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Two ports.
pub(crate) fn ports(sport: u16, dport: u16) -> Vec<u8> {
    [sport.to_be_bytes(), dport.to_be_bytes()].concat()
}

/// An ICMP or ICMPv6 message: type, code, four bytes, then `body`, with the right checksum.
pub(crate) fn icmp(way: Way, kind: u8, code: u8, word: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(word);
    bytes.extend(body);
    let sum = if way.is_v6() {
        upper_checksum(way, ICMPV6, bytes.len(), &bytes)
    } else {
        checksum(&bytes)
    };
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Way = Way {
        src: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
        dst: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)),
    };

    #[test]
    fn checksum_of_rfc_1071() {
        // The example of RFC 1071, section 3.
        assert_eq!(!checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(checksum(&[0xff, 0xff, 0x00]), 0);
    }

    #[test]
    fn a_whole_sums_to_zero() {
        let segment =
            Segment { seq: 7, data: vec![1, 2, 3], options: vec![1], ..Segment::default() };
        let bytes = segment.bytes(WAY);
        assert_eq!(bytes.len(), 27);
        assert_eq!(upper_checksum(WAY, TCP, bytes.len(), &bytes), 0);
        let packet = segment.packet(WAY);
        assert_eq!(checksum(&packet[..20]), 0);
        assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
        let datagram = udp(WAY, 1, 2, &[9; 5]);
        assert_eq!(upper_checksum(WAY, UDP, datagram.len(), &datagram), 0);
    }
}
