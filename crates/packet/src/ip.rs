//! IPv4 and IPv6: from the first byte of the IP header to a [`Packet`].

use crate::l4::{self, L4, L4Error};
use thiserror::Error;

/// Protocol numbers (IANA) that this project treats by name.
pub mod protocol {
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// DCCP (RFC 4340).
    pub const DCCP: u8 = 33;
    /// GRE (RFC 2784, RFC 2637 for version 1).
    pub const GRE: u8 = 47;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: u8 = 136;

    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const AUTHENTICATION: u8 = 51;
    pub(crate) const NO_NEXT: u8 = 59;
    pub(crate) const DESTINATION: u8 = 60;
}

/// Address family of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An address of either family in 16 bytes, network order; IPv4 in the first four, the rest zero,
/// as the kernel's tuple holds it.
pub type Address = [u8; 16];

/// Where a fragment sits in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identification: 16 bits for IPv4, 32 for IPv6.
    pub id: u32,
    /// Offset of this fragment's payload in the datagram's, in bytes (a multiple of 8).
    pub offset: u32,
    /// True iff more fragments follow.
    pub more: bool,
    /// IPv6: offset of the fragment header from the start of the packet. IPv4: 0.
    pub header_at: u32,
    /// IPv6: offset, from the start of the packet, of the "next header" byte that names the fragment header. IPv4: 0.
    pub chain_at: u32,
}

/// One IP packet, parsed: addresses, lengths, and what connection tracking asks of its transport header.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// Family.
    pub family: Family,
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Time to live, hop limit for IPv6.
    pub ttl: u8,
    /// Transport protocol behind all extension headers.
    pub protocol: u8,
    /// The packet from its IP header on, without link-layer padding. Shorter than `len` if the capture cut it.
    pub bytes: &'a [u8],
    /// Length of the IP packet on the wire in bytes, header included: what accounting counts.
    pub len: u32,
    /// Offset of the transport header in `bytes`. It may equal `bytes.len()`.
    pub l4_offset: usize,
    /// Set for a fragment; an IPv6 atomic fragment (offset 0, no more) included.
    pub fragment: Option<Fragment>,
    /// The transport header.
    pub l4: L4<'a>,
    /// True iff the length field was zero and the length was taken from the frame (a packet that the capturing
    /// host's card was yet to cut into segments).
    pub offloaded: bool,
}

/// Why bytes are not an IP packet that a Linux host would take in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IpError {
    /// No bytes, or a version other than 4 or 6.
    #[error("IP version {0} is neither 4 nor 6")]
    Version(u8),
    /// Fewer bytes on the wire than a header has.
    #[error("{there} bytes cannot hold the {need} bytes of an IP header")]
    HeaderShort {
        /// Bytes on the wire.
        there: u32,
        /// Bytes that the header has.
        need: u32,
    },
    /// The IPv4 header length field is below five words.
    #[error("IPv4 header length {0} is below 20 bytes")]
    HeaderLength(u8),
    /// The length field says more than is on the wire.
    #[error("the length field says {says} bytes, {there} are there")]
    LengthBeyond {
        /// Length of the packet by its own header.
        says: u32,
        /// Bytes on the wire.
        there: u32,
    },
    /// The IPv4 total length is smaller than the header.
    #[error("the total length {says} is smaller than the header of {header} bytes")]
    LengthBelowHeader {
        /// Total length field.
        says: u32,
        /// Header length in bytes.
        header: u32,
    },
    /// The IPv6 hop-by-hop header reaches beyond the packet.
    #[error("the IPv6 hop-by-hop header ends at byte {says}, the packet at {there}")]
    HopByHop {
        /// Where it ends by its own length, from the start of the packet.
        says: u32,
        /// Length of the packet.
        there: u32,
    },
    /// An option of the hop-by-hop header reaches beyond that header (RFC 8200, section 4.2).
    #[error(
        "the hop-by-hop option at byte {at} has {size} bytes, its header ends at byte {header_end}"
    )]
    HopByHopOption {
        /// Where the option starts.
        at: u32,
        /// Its size.
        size: u32,
        /// Where the header ends.
        header_end: u32,
    },
    /// IPv4 header checksum wrong (RFC 791, section 3.1).
    #[error("the IPv4 header checksum is {found:#06x}, {expected:#06x} would be right")]
    Checksum {
        /// Checksum in the packet.
        found: u16,
        /// Checksum that the header should carry.
        expected: u16,
    },
    /// The capture holds too few bytes of a packet that was whole on the wire.
    #[error("the capture kept {kept} bytes and cut the IP header")]
    Cut {
        /// Bytes in the capture.
        kept: u32,
    },
}

impl<'a> Packet<'a> {
    /// Parses the IP packet at the start of `bytes`, of which `wire_len` bytes were on the wire (link-layer padding
    /// included; at least `bytes.len()`).
    ///
    /// What is checked is what a Linux host checks before its netfilter hooks (`ip_rcv`, `ip6_rcv`): version, header
    /// length, length field, IPv4 header checksum. A transport header that cannot be read is not an error here but an
    /// [`L4::Malformed`]: connection tracking calls such packets invalid rather than dropping them.
    #[inline(always)]
    pub fn parse(bytes: &'a [u8], wire_len: u32) -> Result<Self, IpError> {
        let wire_len = wire_len.max(bytes.len() as u32);
        match bytes.first() {
            Some(b) if b >> 4 == 4 => Self::parse_v4(bytes, wire_len),
            Some(b) if b >> 4 == 6 => Self::parse_v6(bytes, wire_len, true),
            Some(b) => Err(IpError::Version(b >> 4)),
            None if wire_len > 0 => Err(IpError::Cut { kept: 0 }),
            None => Err(IpError::HeaderShort { there: 0, need: 20 }),
        }
    }

    #[inline(always)]
    fn parse_v4(bytes: &'a [u8], wire_len: u32) -> Result<Self, IpError> {
        let kept = bytes.len() as u32;
        if wire_len < 20 {
            return Err(IpError::HeaderShort { there: wire_len, need: 20 });
        }
        let Some(h) = bytes.first_chunk::<20>() else {
            return Err(IpError::Cut { kept });
        };
        let header = u32::from(h[0] & 15) * 4;
        if header < 20 {
            return Err(IpError::HeaderLength(header as u8));
        }
        if wire_len < header {
            return Err(IpError::HeaderShort { there: wire_len, need: header });
        }
        if kept < header {
            return Err(IpError::Cut { kept });
        }
        let header_len = header as usize;
        let sum = match header_len {
            20 => crate::checksum::sum_of_20(h),
            _ => crate::checksum::sum(&bytes[..header_len]),
        };
        if sum != 0xffff {
            let found = u16::from_be_bytes([h[10], h[11]]);
            let expected = crate::checksum::expected(sum, found);
            return Err(IpError::Checksum { found, expected });
        }
        let mut len = u32::from(u16::from_be_bytes([h[2], h[3]]));
        // A segmentation offload super-packet: larger than any single frame, and its length is not filled in yet.
        let offloaded = len == 0 && wire_len > MAX_FRAME_PAYLOAD;
        if offloaded {
            len = wire_len;
        }
        if len > wire_len {
            return Err(IpError::LengthBeyond { says: len, there: wire_len });
        }
        if len < header {
            return Err(IpError::LengthBelowHeader { says: len, header });
        }
        let bytes = &bytes[..bytes.len().min(len as usize)];
        let frag = u16::from_be_bytes([h[6], h[7]]);
        let fragment = (frag & 0x3fff != 0).then(|| Fragment {
            id: u32::from(u16::from_be_bytes([h[4], h[5]])),
            offset: u32::from(frag & 0x1fff) * 8,
            more: frag & 0x2000 != 0,
            header_at: 0,
            chain_at: 0,
        });
        let protocol = h[9];
        let l4 = match fragment {
            Some(_) => L4::Malformed { ports: None, why: L4Error::Fragment },
            None => l4::parse(protocol, &bytes[header_len..], len - header),
        };
        Ok(Self {
            family: Family::V4,
            src: v4_address([h[12], h[13], h[14], h[15]]),
            dst: v4_address([h[16], h[17], h[18], h[19]]),
            ttl: h[8],
            protocol,
            bytes,
            len,
            l4_offset: header_len,
            fragment,
            l4,
            offloaded,
        })
    }

    /// A datagram as connection tracking sees it behind reassembly: what the host checks of a header on arrival is not
    /// checked again, and a further IPv6 fragment header that does not say "later part" is passed over.
    pub fn parse_reassembled(bytes: &'a [u8], wire_len: u32) -> Result<Self, IpError> {
        match bytes.first() {
            Some(b) if b >> 4 == 6 => {
                Self::parse_v6(bytes, wire_len.max(bytes.len() as u32), false)
                    .map(|p| p.unassembled())
            }
            _ => Self::parse(bytes, wire_len),
        }
    }

    #[inline(never)]
    fn parse_v6(bytes: &'a [u8], wire_len: u32, arrival: bool) -> Result<Self, IpError> {
        if wire_len < 40 {
            return Err(IpError::HeaderShort { there: wire_len, need: 40 });
        }
        let Some(h) = bytes.first_chunk::<40>() else {
            return Err(IpError::Cut { kept: bytes.len() as u32 });
        };
        let mut len = u32::from(u16::from_be_bytes([h[4], h[5]])) + 40;
        // Payload length zero: a jumbogram, or a super-packet (BIG TCP) if a hop-by-hop header does not say so; in
        // both cases the frame is the only other source of the length. With no next header it is simply empty.
        let offloaded = len == 40 && h[6] != protocol::NO_NEXT && wire_len > MAX_FRAME_PAYLOAD;
        if offloaded {
            len = wire_len;
        }
        if len > wire_len {
            return Err(IpError::LengthBeyond { says: len, there: wire_len });
        }
        let bytes = &bytes[..bytes.len().min(len as usize)];
        if arrival && h[6] == protocol::HOP_BY_HOP {
            hop_by_hop_fits(bytes, len)?;
        }
        let walk = walk(bytes, len, h[6]);
        let partial = walk.fragment.is_some_and(|f| f.offset != 0 || f.more);
        let l4 = match walk.end {
            Ok(()) if partial => L4::Malformed { ports: None, why: L4Error::Fragment },
            _ => walk.l4(bytes, len),
        };
        Ok(Self {
            family: Family::V6,
            src: h[8..24].try_into().expect("16 bytes"),
            dst: h[24..40].try_into().expect("16 bytes"),
            ttl: h[7],
            protocol: walk.protocol,
            bytes,
            len,
            l4_offset: walk.at,
            fragment: walk.fragment,
            l4,
            offloaded,
        })
    }

    /// This packet as connection tracking sees it when reassembly lets it through
    /// ([`crate::Outcome::PassThrough`]): the transport header of a first IPv6 fragment is read, "more fragments" or
    /// not. Any other packet is unchanged.
    #[must_use]
    pub fn unassembled(&self) -> Self {
        let mut packet = self.clone();
        if self.family == Family::V6 && self.fragment.is_some() {
            packet.l4 = walk(self.bytes, self.len, self.bytes[6]).l4(self.bytes, self.len);
            // Its checksum is verified as if it were whole.
            packet.fragment = None;
        }
        packet
    }

    /// True for what reassembly has a say about: fragments, and packets whose IPv6 fragment header is cut.
    #[inline]
    pub fn is_for_reassembly(&self) -> bool {
        let cut = L4Error::ExtensionCut { protocol: protocol::FRAGMENT };
        self.fragment.is_some() || matches!(self.l4, L4::Malformed { why, .. } if why == cut)
    }

    /// Bytes of the transport header and payload that the capture kept.
    pub fn l4_bytes(&self) -> &'a [u8] {
        self.bytes.get(self.l4_offset..).unwrap_or(&[])
    }

    /// Length of the transport header and payload on the wire.
    pub fn l4_len(&self) -> u32 {
        self.len.saturating_sub(self.l4_offset as u32)
    }

    /// True iff the capture kept fewer bytes than were on the wire.
    pub fn is_cut(&self) -> bool {
        (self.bytes.len() as u32) < self.len
    }
}

/// Fails unless the hop-by-hop header behind the fixed header ends within the packet (`ipv6_parse_hopopts`: of all
/// extension headers it is the one that is looked at before the hooks). Its options are not judged here.
fn hop_by_hop_fits(bytes: &[u8], len: u32) -> Result<(), IpError> {
    let says = match bytes.get(41) {
        Some(&units) => 40 + (u32::from(units) + 1) * 8,
        None if (bytes.len() as u32) < len && len >= 42 => return Ok(()),
        None => 48,
    };
    if says > len {
        return Err(IpError::HopByHop { says, there: len });
    }
    let Some(mut options) = bytes.get(42..says as usize) else { return Ok(()) };
    while let [kind, rest @ ..] = options {
        let size = match (kind, rest) {
            (0, _) => 1,
            (_, [size, ..]) => usize::from(*size) + 2,
            (_, []) => 2,
        };
        let Some(after) = options.get(size..) else {
            let at = says - options.len() as u32;
            return Err(IpError::HopByHopOption { at, size: size as u32, header_end: says });
        };
        options = after;
    }
    Ok(())
}

/// Larger than the payload of any frame on a wire with the standard maximum size (IEEE 802.3, with tags).
const MAX_FRAME_PAYLOAD: u32 = 1514;

/// Puts an IPv4 address into the first of 16 bytes; by arithmetic, so that it never goes through memory in parts.
#[inline]
pub(crate) fn v4_address(b: [u8; 4]) -> Address {
    u128::from(u32::from_le_bytes(b)).to_le_bytes()
}

/// Outcome of a walk over IPv6 extension headers.
pub(crate) struct Walk {
    pub(crate) protocol: u8,
    /// Offset of its first byte, at most the number of bytes there.
    pub(crate) at: usize,
    /// The same by the headers' own lengths, which may reach beyond the packet.
    pub(crate) announced: usize,
    /// The first fragment header: the one that reassembly acts on.
    pub(crate) fragment: Option<Fragment>,
    /// The last one seen; with more than one, the walk ended at this one if its offset is not zero.
    pub(crate) last_fragment: Option<Fragment>,
    pub(crate) end: Result<(), L4Error>,
}

impl Walk {
    /// The transport header that the walk led to.
    fn l4<'a>(&self, bytes: &'a [u8], len: u32) -> L4<'a> {
        let why = match (self.end, self.last_fragment) {
            (Ok(()), Some(f)) if f.offset != 0 => L4Error::Fragment,
            (Ok(()), _) => {
                let l4 = bytes.get(self.at..).unwrap_or(&[]);
                return l4::parse(self.protocol, l4, len.saturating_sub(self.at as u32));
            }
            (Err(why), _) => why,
        };
        L4::Malformed { ports: None, why }
    }
}

/// Walks the extension headers of an IPv6 packet of `len` bytes on the wire (RFC 8200, section 4; which headers are
/// skipped is `nf_ct_get_l4proto`'s choice: AH is, ESP, HIP, shim6 and mobility are not).
///
/// At a fragment header with a non-zero offset the walk ends: what follows is payload. As in Linux 6.18, only the
/// bytes of a header that are needed to go on must be there, two (four of a fragment header); one whose length field
/// reaches beyond the packet is passed over, and what it announces is then found to have no bytes.
#[inline]
pub(crate) fn walk(bytes: &[u8], len: u32, first: u8) -> Walk {
    match first {
        protocol::TCP | protocol::UDP | protocol::ICMPV6 => Walk {
            protocol: first,
            at: 40,
            announced: 40,
            fragment: None,
            last_fragment: None,
            end: Ok(()),
        },
        _ => walk_from(bytes, len, first, 40, 6),
    }
}

/// [`walk`] from the header of type `first` at offset `at` on, which the byte at `chain_at` names.
pub(crate) fn walk_from(bytes: &[u8], len: u32, first: u8, at: usize, chain_at: usize) -> Walk {
    let (mut protocol, mut at, mut chain_at) = (first, at, chain_at);
    let mut fragment = None;
    let mut last_fragment = None;
    // The header that reached beyond the end of the packet, if one did.
    let mut beyond = None;
    let end = loop {
        let need = match protocol {
            protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::DESTINATION
            | protocol::AUTHENTICATION => 2,
            protocol::FRAGMENT => 4,
            protocol::NO_NEXT => break Err(L4Error::NoNextHeader),
            _ => break Ok(()),
        };
        let Some(h) = bytes.get(at..).filter(|h| h.len() >= need) else {
            let protocol = beyond.unwrap_or(protocol);
            break Err(missing(bytes, len, at + need, protocol));
        };
        let size = match protocol {
            protocol::FRAGMENT => 8,
            protocol::AUTHENTICATION => (usize::from(h[1]) + 2) * 4,
            _ => (usize::from(h[1]) + 1) * 8,
        };
        if h.len() < size {
            if (bytes.len() as u32) < len {
                break Err(missing(bytes, len, at + size, protocol));
            }
            beyond = Some(protocol);
        }
        if protocol == protocol::FRAGMENT {
            let offset = u32::from(u16::from_be_bytes([h[2], h[3]]) & 0xfff8);
            if let Some(&[next, _, _, low, i0, i1, i2, i3]) = h.first_chunk::<8>() {
                let f = Fragment {
                    id: u32::from_be_bytes([i0, i1, i2, i3]),
                    offset,
                    more: low & 1 != 0,
                    header_at: at as u32,
                    chain_at: chain_at as u32,
                };
                fragment.get_or_insert(f);
                last_fragment = Some(f);
                if offset != 0 {
                    protocol = next;
                    at += size;
                    break Ok(());
                }
            } else if offset != 0 || h[0] == protocol::NO_NEXT {
                // Reassembly drops it. With another header behind, Linux 6.18 goes on.
                break Err(L4Error::ExtensionCut { protocol });
            }
        }
        chain_at = at;
        protocol = h[0];
        at += size;
    };
    Walk { protocol, at: at.min(bytes.len()), announced: at, fragment, last_fragment, end }
}

/// The error where a header of `protocol` needs the packet's bytes up to `need`, beyond those kept.
fn missing(bytes: &[u8], len: u32, need: usize, protocol: u8) -> L4Error {
    if (bytes.len() as u32) < len && need as u32 <= len {
        L4Error::Cut
    } else {
        L4Error::ExtensionCut { protocol }
    }
}

#[cfg(test)]
mod tests;
