//! Transport headers: what a tuple and a protocol handler need of them.

use crate::ip::protocol;
use thiserror::Error;

/// A transport header.
#[derive(Clone, Copy, Debug)]
pub enum L4<'a> {
    /// TCP.
    Tcp(Tcp<'a>),
    /// UDP or UDP-Lite, as the packet's protocol says.
    Udp(Udp),
    /// ICMP or ICMPv6, as the packet's protocol says (over whichever IP family).
    Icmp(Icmp<'a>),
    /// SCTP.
    Sctp(Sctp<'a>),
    /// GRE.
    Gre(Gre),
    /// Any other protocol: tracked by addresses and number alone.
    Other,
    /// A header that cannot be read or contradicts itself.
    Malformed {
        /// Source and destination port, if at least these are there.
        ports: Option<(u16, u16)>,
        /// What is wrong.
        why: L4Error,
    },
}

/// What is wrong with a transport header (or, for IPv6, with the way to it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum L4Error {
    /// The packet is a fragment: its transport header is for reassembly to find.
    #[error("a fragment, not a whole datagram")]
    Fragment,
    /// IPv6 next header 59 (RFC 8200, section 4.7).
    #[error("the IPv6 header chain ends with 'no next header'")]
    NoNextHeader,
    /// An IPv6 extension header reaches beyond the packet.
    #[error("IPv6 extension header {protocol} reaches beyond the end of the packet")]
    ExtensionCut {
        /// Protocol number of that header.
        protocol: u8,
    },
    /// Fewer bytes than the fixed header has.
    #[error("{there} bytes cannot hold the {need} bytes of the transport header")]
    Short {
        /// Bytes there.
        there: u32,
        /// Bytes needed.
        need: u32,
    },
    /// TCP data offset below five words, or beyond the segment.
    #[error("TCP data offset says {says} bytes, {there} are there and 20 the least")]
    DataOffset {
        /// Header length in bytes by the data offset field.
        says: u32,
        /// Length of the segment.
        there: u32,
    },
    /// UDP length field below 8 or beyond the datagram.
    #[error("UDP length says {says} bytes, {there} are there and 8 the least")]
    UdpLength {
        /// Length field.
        says: u32,
        /// Bytes there.
        there: u32,
    },
    /// UDP-Lite checksum coverage 1 to 7, or beyond the datagram (RFC 3828, section 3.1).
    #[error("UDP-Lite coverage says {says} bytes, {there} are there and 8 the least")]
    Coverage {
        /// Coverage field.
        says: u32,
        /// Bytes there.
        there: u32,
    },
    /// UDP-Lite checksum field zero (RFC 3828, section 3.1).
    #[error("UDP-Lite checksum is zero")]
    CoverageWithoutChecksum,
    /// The capture cut the packet before the end of the transport header.
    #[error("the capture cut the transport header")]
    Cut,
}

/// TCP header (RFC 9293, section 3.1).
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    /// Window field, unscaled.
    pub window: u16,
    /// Payload length on the wire in bytes.
    pub payload_len: u32,
    /// Option bytes (may be empty): all of a SYN's, of other segments as many as the capture kept.
    pub options: &'a [u8],
}

/// TCP flag bits.
pub mod tcp_flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// Acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// Urgent pointer is significant.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// UDP or UDP-Lite header (RFC 768, RFC 3828).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Length field (UDP) or checksum coverage (UDP-Lite), as sent.
    pub length: u16,
    /// Checksum field, as sent.
    pub checksum: u16,
}

/// ICMP or ICMPv6 header (RFC 792, RFC 4443).
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a> {
    /// Type.
    pub ty: u8,
    /// Code.
    pub code: u8,
    /// Bytes 4 and 5: the identifier of queries.
    pub id: u16,
    /// What follows the 8-byte header: for errors, the quoted packet.
    pub body: &'a [u8],
}

/// SCTP common header (RFC 9260, section 3.1).
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a> {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Verification tag.
    pub tag: u32,
    /// Chunks, as far as the capture kept them.
    pub chunks: &'a [u8],
}

/// GRE header (RFC 2784; version 1: RFC 2637).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre {
    /// Version, 0 to 7; 0 if the header is shorter than four bytes.
    pub version: u8,
    /// Protocol type.
    pub protocol: u16,
    /// Version 1 with at least eight bytes: the receiver's call id.
    pub call_id: Option<u16>,
}

/// Parses the transport header of `protocol`, of which `len` bytes were on the wire and `bytes` are kept.
///
/// `bytes` must not be longer than `len`.
#[inline(always)]
pub(crate) fn parse(protocol: u8, bytes: &[u8], len: u32) -> L4<'_> {
    match protocol {
        protocol::TCP => tcp(bytes, len),
        protocol::UDP => udp(bytes, len),
        protocol::UDP_LITE => udp_lite(bytes, len),
        protocol::ICMP | protocol::ICMPV6 => icmp(bytes, len),
        protocol::SCTP => sctp(bytes, len),
        protocol::GRE => gre(bytes, len),
        _ => L4::Other,
    }
}

fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// The error for a header of `need` bytes when `bytes` of `len` are kept.
fn short(bytes: &[u8], len: u32, need: u32) -> L4<'_> {
    let ports = (bytes.len() >= 4).then(|| (be16(bytes, 0), be16(bytes, 2)));
    let why = if len >= need { L4Error::Cut } else { L4Error::Short { there: len, need } };
    L4::Malformed { ports, why }
}

#[inline(always)]
fn tcp(bytes: &[u8], len: u32) -> L4<'_> {
    let Some(h) = bytes.first_chunk::<20>() else {
        return short(bytes, len, 20);
    };
    let ports = Some((be16(h, 0), be16(h, 2)));
    let header = u32::from(h[12] >> 4) * 4;
    if header < 20 || header > len {
        return L4::Malformed { ports, why: L4Error::DataOffset { says: header, there: len } };
    }
    let options = match bytes.get(20..header as usize) {
        Some(options) => options,
        // A SYN's options decide about all that follows; other segments' hold time stamps and SACK blocks.
        None if h[13] & tcp_flags::SYN == 0 => &bytes[20..],
        None => return L4::Malformed { ports, why: L4Error::Cut },
    };
    L4::Tcp(Tcp {
        sport: be16(h, 0),
        dport: be16(h, 2),
        seq: be32(h, 4),
        ack: be32(h, 8),
        flags: h[13],
        window: be16(h, 14),
        payload_len: len - header,
        options,
    })
}

fn udp_header(h: &[u8; 8]) -> Udp {
    Udp { sport: be16(h, 0), dport: be16(h, 2), length: be16(h, 4), checksum: be16(h, 6) }
}

fn udp(bytes: &[u8], len: u32) -> L4<'_> {
    let Some(h) = bytes.first_chunk::<8>() else {
        return short(bytes, len, 8);
    };
    let udp = udp_header(h);
    let says = u32::from(udp.length);
    if says > len || says < 8 {
        let why = L4Error::UdpLength { says, there: len };
        return L4::Malformed { ports: Some((udp.sport, udp.dport)), why };
    }
    L4::Udp(udp)
}

fn udp_lite(bytes: &[u8], len: u32) -> L4<'_> {
    let Some(h) = bytes.first_chunk::<8>() else {
        return short(bytes, len, 8);
    };
    let udp = udp_header(h);
    let ports = Some((udp.sport, udp.dport));
    let says = u32::from(udp.length);
    if says != 0 && (says < 8 || says > len) {
        return L4::Malformed { ports, why: L4Error::Coverage { says, there: len } };
    }
    if udp.checksum == 0 {
        return L4::Malformed { ports, why: L4Error::CoverageWithoutChecksum };
    }
    L4::Udp(udp)
}

fn icmp(bytes: &[u8], len: u32) -> L4<'_> {
    let Some(h) = bytes.first_chunk::<8>() else {
        let why = if len >= 8 { L4Error::Cut } else { L4Error::Short { there: len, need: 8 } };
        return L4::Malformed { ports: None, why };
    };
    L4::Icmp(Icmp { ty: h[0], code: h[1], id: be16(h, 4), body: &bytes[8..] })
}

fn sctp(bytes: &[u8], len: u32) -> L4<'_> {
    let Some(h) = bytes.first_chunk::<12>() else {
        return short(bytes, len, 12);
    };
    let chunks = &bytes[12..];
    L4::Sctp(Sctp { sport: be16(h, 0), dport: be16(h, 2), tag: be32(h, 4), chunks })
}

fn gre(bytes: &[u8], len: u32) -> L4<'_> {
    let Some(h) = bytes.first_chunk::<4>() else {
        if len >= 4 {
            return L4::Malformed { ports: None, why: L4Error::Cut };
        }
        return L4::Gre(Gre { version: 0, protocol: 0, call_id: None });
    };
    let version = h[1] & 7;
    let call_id = bytes.get(6..8).map(|b| be16(b, 0));
    if version == 1 && call_id.is_none() && len >= 8 {
        return L4::Malformed { ports: None, why: L4Error::Cut };
    }
    L4::Gre(Gre { version, protocol: be16(h, 2), call_id })
}
