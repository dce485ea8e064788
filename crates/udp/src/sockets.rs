//! The sockets themselves: a slab of fixed-size entries, indexed by a small id.

use std::net::{IpAddr, Ipv4Addr};

use crate::net::NetId;
use crate::options::Family;
use crate::route::DeviceId;

/// A socket. An id is never given to a second socket (until 2^32 sockets used its place).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The place in the slab: small, dense, and used again after a close.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }
}

/// End of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// The booleans of a socket in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u32);

macro_rules! flags {
    ($($name:ident = $bit:literal,)*) => {
        impl Flags { $(pub(crate) const $name: Self = Self(1 << $bit);)* }
    };
}

// The lower sixteen are what look-ups read.
flags! {
    FAMILY6 = 0,
    CONNECTED = 1,
    V6ONLY = 2,
    REUSEPORT = 3,
    MC_ALL4 = 4,
    MC_ALL6 = 5,
    RECVERR4 = 6,
    RECVERR6 = 7,
    NO_CHECK6 = 8,
    PMTU_DONT4 = 9,
    PMTU_DONT6 = 10,
    // The IPv4 halves of R and P do not follow from the IPv6 ones.
    ODD4 = 11,
    // There are memberships in multicast groups.
    MEMBER = 12,
    // To be appended to its port's chain.
    PORT_BACK = 14,
    IN_USE = 16,
    HASHED = 17,
    REUSE = 18,
    ADDR_LOCK = 19,
    PORT_LOCK = 20,
    // The port was chosen by bind, whether or not the caller named it.
    PORT_BY_BIND = 21,
    BROADCAST = 22,
    FREEBIND = 23,
    TRANSPARENT = 24,
    NO_PORT = 25,
    IN_HASH2 = 26,
    PRIVILEGED = 28,
    // Made by connect_from beside sockets that bind would not have allowed.
    BY_TUPLE = 29,
    // To be put at the head of its chain of the second table, though it stands in it already.
    TO_FRONT = 30,
    // To be appended to its chain of the second table.
    TO_BACK = 31,
}

#[cfg(feature = "hash4")]
flags! {
    IN_HASH4 = 27,
}

impl Flags {
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits as u32)
    }

    /// Those that look-ups read.
    pub(crate) const fn bits16(self) -> u16 {
        self.0 as u16
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn from_all_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, flag: Self, on: bool) {
        if on {
            self.0 |= flag.0;
        } else {
            self.0 &= !flag.0;
        }
    }
}

/// One membership in a multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Whether a source was ever listed.
    pub(crate) listed: bool,
    pub(crate) group: IpAddr,
    pub(crate) device: DeviceId,
    /// Exclude mode: the listed sources are the ones that are not heard.
    pub(crate) exclude: bool,
    pub(crate) sources: Vec<IpAddr>,
}

/// What only few sockets have, and what no unicast look-up reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rare {
    pub(crate) memberships: Vec<Membership>,
    pub(crate) port_range: (u16, u16),
    pub(crate) multicast_if4: u32,
    pub(crate) multicast_source4: u32,
    pub(crate) multicast_if6: u32,
    pub(crate) unicast_if: u32,
    /// S of both families where it differs from R.
    pub(crate) source: Option<(u32, u128)>,
}

/// A socket, unpacked for its writer. Addresses are numbers in host order; "any" is 0.
///
/// `r` is the address received on, `s` the one sent from, `p` the peer's; each for both families,
/// because a dual-stack socket takes part in both kinds of look-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Socket {
    pub(crate) r6: u128,
    pub(crate) p6: u128,
    pub(crate) s6: u128,
    pub(crate) r4: u32,
    pub(crate) p4: u32,
    pub(crate) s4: u32,
    pub(crate) flags: Flags,
    /// Index of the device the socket is bound to; 0 for none.
    pub(crate) device: u32,
    pub(crate) uid: u32,
    pub(crate) generation: u32,
    /// Hash of port and address under which the socket stands in the second table.
    pub(crate) hash2: u32,
    /// Hash of the 4-tuple under which the socket stands in the third table.
    #[cfg(feature = "hash4")]
    pub(crate) hash4: u32,
    pub(crate) net: NetId,
    pub(crate) port: u16,
    pub(crate) peer_port: u16,
}

impl Socket {
    pub(crate) fn new(family: Family, net: NetId) -> Self {
        let mut flags = Flags::default();
        flags.set(Flags::IN_USE, true);
        flags.set(Flags::FAMILY6, family == Family::V6);
        // The default of IP_MULTICAST_ALL differs by family, that of IPV6_MULTICAST_ALL does not.
        flags.set(Flags::MC_ALL4, family == Family::V4);
        flags.set(Flags::MC_ALL6, true);
        Self {
            r6: 0,
            p6: 0,
            s6: 0,
            r4: 0,
            p4: 0,
            s4: 0,
            flags,
            device: 0,
            uid: 0,
            generation: 0,
            hash2: 0,
            #[cfg(feature = "hash4")]
            hash4: 0,
            net,
            port: 0,
            peer_port: 0,
        }
    }

    #[inline]
    pub(crate) const fn is6(&self) -> bool {
        self.flags.has(Flags::FAMILY6)
    }

    #[inline]
    pub(crate) const fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    #[inline]
    pub(crate) const fn connected(&self) -> bool {
        self.flags.has(Flags::CONNECTED)
    }

    #[inline]
    pub(crate) const fn hashed(&self) -> bool {
        self.flags.has(Flags::HASHED)
    }

    #[inline]
    pub(crate) const fn in_hash2(&self) -> bool {
        self.flags.has(Flags::IN_HASH2)
    }

    #[inline]
    pub(crate) const fn in_hash4(&self) -> bool {
        #[cfg(feature = "hash4")]
        return self.flags.has(Flags::IN_HASH4);
        #[cfg(not(feature = "hash4"))]
        return false;
    }

    /// Whether R is the family's any. `::ffff:0.0.0.0` is not.
    #[inline]
    pub(crate) const fn any(&self) -> bool {
        if self.is6() { self.r6 == 0 } else { self.r4 == 0 }
    }

    /// `getsockname`.
    pub(crate) fn local(&self) -> (IpAddr, u16) {
        let addr = if self.is6() {
            crate::addr::ip6(if self.r6 == 0 { self.s6 } else { self.r6 })
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(if self.r4 == 0 { self.s4 } else { self.r4 }))
        };
        (addr, self.port)
    }

    /// `getpeername`; `None` is `ENOTCONN`, which a peer with port 0 gets too.
    pub(crate) fn peer(&self) -> Option<(IpAddr, u16)> {
        if !self.connected() || self.peer_port == 0 {
            return None;
        }
        let addr = if self.is6() { crate::addr::ip6(self.p6) } else { crate::addr::ip4(self.p4) };
        Some((addr, self.peer_port))
    }
}
