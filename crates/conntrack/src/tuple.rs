//! Tuples: one direction's key of a flow, and its inverse.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use fourtuple_packet::{Address, Family, Gre, L4, Packet, Quoted, QuotedL4, protocol};

use crate::icmp;

/// Which of a connection's two tuples a packet matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// As the connection's first packet went.
    Original,
    /// As its answers go.
    Reply,
}

impl Direction {
    /// 0 for original, 1 for reply, as the kernel numbers them.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }

    /// `original` or `reply`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Reply => "reply",
        }
    }
}

/// One direction's flow key (`struct nf_conntrack_tuple` without the direction bit, which takes no part in
/// comparison or hashing).
///
/// The two port words mean, by protocol: TCP, UDP, UDP-Lite, SCTP: the ports; ICMP and ICMPv6: `sport` is the
/// identifier and `dport` holds type (high byte) and code (low byte); GRE version 1: the keys; others: both zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address, IPv4 in the first four bytes.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Source port word.
    pub sport: u16,
    /// Destination port word.
    pub dport: u16,
    /// Address family.
    pub family: Family,
    /// Transport protocol number.
    pub protocol: u8,
}

impl Tuple {
    /// The tuple of `packet`, or `None` if its transport header does not give one.
    pub fn of(packet: &Packet<'_>) -> Option<Self> {
        let (sport, dport) = match packet.l4 {
            L4::Tcp(h) => (h.sport, h.dport),
            L4::Udp(h) => (h.sport, h.dport),
            L4::Sctp(h) => (h.sport, h.dport),
            L4::Icmp(h) => (h.id, u16::from_be_bytes([h.ty, h.code])),
            L4::Gre(h) => gre_words(h)?,
            L4::Other => (0, 0),
            L4::Malformed { ports, .. } => ports?,
        };
        let Packet { family, src, dst, protocol, .. } = *packet;
        Some(Self { src, dst, sport, dport, family, protocol })
    }

    /// A guess at the tuple of the IP packet at the start of `bytes`, from the few bytes that decide it in an ordinary
    /// TCP or UDP packet. Nothing is checked: for a packet that is not ordinary the guess may be wrong, or `None`.
    #[inline]
    pub(crate) fn peek(bytes: &[u8]) -> Option<Self> {
        const V4_WITHOUT_OPTIONS: u8 = 0x45;
        let (family, header, next) = match *bytes.first()? {
            V4_WITHOUT_OPTIONS => (Family::V4, 20, 9),
            b if b >> 4 == 6 => (Family::V6, 40, 6),
            _ => return None,
        };
        let ports = bytes.get(header..)?.first_chunk::<4>()?;
        let protocol = bytes[next];
        if !matches!(protocol, protocol::TCP | protocol::UDP) {
            return None;
        }
        let (mut src, mut dst) = ([0; 16], [0; 16]);
        match family {
            Family::V4 => {
                src[..4].copy_from_slice(&bytes[12..16]);
                dst[..4].copy_from_slice(&bytes[16..20]);
            }
            Family::V6 => {
                src.copy_from_slice(&bytes[8..24]);
                dst.copy_from_slice(&bytes[24..40]);
            }
        }
        let sport = u16::from_be_bytes([ports[0], ports[1]]);
        let dport = u16::from_be_bytes([ports[2], ports[3]]);
        Some(Self { src, dst, sport, dport, family, protocol })
    }

    /// True iff packets with this tuple go the other way on a flow of packets with `other`: TCP and UDP only.
    #[inline]
    pub(crate) fn is_reverse_of(&self, other: &Self) -> bool {
        self.src == other.dst
            && self.dst == other.src
            && self.sport == other.dport
            && self.dport == other.sport
            && self.protocol == other.protocol
            && self.family == other.family
    }

    /// True if [`peek`](Self::peek) at this packet's bytes gives [`of`](Self::of) it: then its transport header is where
    /// `peek` looks for it.
    #[inline]
    pub(crate) const fn peek_is_exact(packet: &Packet<'_>) -> bool {
        let header = match packet.family {
            Family::V4 => 20,
            Family::V6 => 40,
        };
        packet.l4_offset == header && packet.fragment.is_none()
    }

    /// The tuple of a packet quoted in an ICMP error.
    pub fn of_quoted(quoted: &Quoted) -> Option<Self> {
        let (sport, dport) = match quoted.l4 {
            QuotedL4::Ports(sport, dport) => (sport, dport),
            QuotedL4::Icmp { ty, code, id } => (id, u16::from_be_bytes([ty, code])),
            QuotedL4::Gre(h) => gre_words(h)?,
            QuotedL4::None => (0, 0),
        };
        let Quoted { family, src, dst, protocol, .. } = *quoted;
        Some(Self { src, dst, sport, dport, family, protocol })
    }

    /// What a reply to a packet with this tuple carries; `None` for ICMP types that have no reply
    /// (`nf_ct_invert_tuple`).
    pub fn inverse(&self) -> Option<Self> {
        let (sport, dport) = match self.protocol {
            protocol::ICMP => (self.sport, self.inverse_icmp_word(icmp::inverse_v4)?),
            protocol::ICMPV6 => (self.sport, self.inverse_icmp_word(icmp::inverse_v6)?),
            _ => (self.dport, self.sport),
        };
        Some(Self { src: self.dst, dst: self.src, sport, dport, ..*self })
    }

    fn inverse_icmp_word(&self, inverse: fn(u8) -> Option<u8>) -> Option<u16> {
        let [ty, code] = self.dport.to_be_bytes();
        Some(u16::from_be_bytes([inverse(ty)?, code]))
    }

    /// ICMP type, meaningful for ICMP and ICMPv6.
    pub const fn icmp_type(&self) -> u8 {
        self.dport.to_be_bytes()[0]
    }

    /// ICMP code, meaningful for ICMP and ICMPv6.
    pub const fn icmp_code(&self) -> u8 {
        self.dport.to_be_bytes()[1]
    }

    /// Source address in the standard library's form.
    pub fn src_ip(&self) -> IpAddr {
        ip(self.family, &self.src)
    }

    /// Destination address in the standard library's form.
    pub fn dst_ip(&self) -> IpAddr {
        ip(self.family, &self.dst)
    }
}

/// GRE's port words: the keys of version 1 with payload PPP, else zero. Version 1 with another payload has none
/// (RFC 2637, section 4.1). The source key comes from a PPTP helper, which is not attached here: zero.
fn gre_words(h: Gre) -> Option<(u16, u16)> {
    const PPP: u16 = 0x880b;
    match h.call_id {
        Some(key) if h.version == 1 => (h.protocol == PPP).then_some((0, key)),
        _ => Some((0, 0)),
    }
}

/// An address in the standard library's form.
pub fn ip(family: Family, address: &Address) -> IpAddr {
    match family {
        Family::V4 => {
            let [a, b, c, d, ..] = *address;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        Family::V6 => IpAddr::V6(Ipv6Addr::from(*address)),
    }
}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `tcp 10.0.0.1:1111 > 10.0.0.2:80`, `icmp 10.0.0.1 > 10.0.0.2 type 8 code 0 id 7`.
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = (self.src_ip(), self.dst_ip());
        let name = protocol_name(self.protocol);
        match self.protocol {
            protocol::ICMP | protocol::ICMPV6 => {
                let (ty, code, id) = (self.icmp_type(), self.icmp_code(), self.sport);
                write!(f, "{name} {src} > {dst} type {ty} code {code} id {id}")
            }
            protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
                match self.family {
                    Family::V4 => write!(f, "{name} {src}:{} > {dst}:{}", self.sport, self.dport),
                    Family::V6 => {
                        write!(f, "{name} [{src}]:{} > [{dst}]:{}", self.sport, self.dport)
                    }
                }
            }
            protocol::GRE if self.dport != 0 => {
                write!(f, "{name} {src} > {dst} key {:#x}", self.dport)
            }
            _ if name == "unknown" => write!(f, "protocol {} {src} > {dst}", self.protocol),
            _ => write!(f, "{name} {src} > {dst}"),
        }
    }
}

/// Protocol name as `conntrack -L` prints it: `unknown` for the ones it has no name for.
pub const fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::UDP_LITE => "udplite",
        protocol::ICMP => "icmp",
        protocol::ICMPV6 => "icmpv6",
        protocol::SCTP => "sctp",
        protocol::GRE => "gre",
        _ => "unknown",
    }
}

/// A conntrack zone: an id and the directions for which it counts; in the others the id is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone {
    /// The id, 0 for the default zone.
    pub id: u16,
    /// Directions for which the id counts.
    pub dirs: ZoneDirs,
}

/// Directions for which a [`Zone`]'s id counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneDirs {
    /// Both, the usual case.
    Both,
    /// Only the original direction.
    Original,
    /// Only the reply direction.
    Reply,
}

impl Zone {
    /// Zone 0, both directions.
    pub const DEFAULT: Self = Self { id: 0, dirs: ZoneDirs::Both };

    /// Zone `id`, both directions.
    pub const fn both(id: u16) -> Self {
        Self { id, dirs: ZoneDirs::Both }
    }

    /// The id that counts for tuples of direction `dir`.
    pub const fn id_for(self, dir: Direction) -> u16 {
        match (self.dirs, dir) {
            (ZoneDirs::Original, Direction::Reply) | (ZoneDirs::Reply, Direction::Original) => 0,
            _ => self.id,
        }
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::DEFAULT
    }
}
