//! Addresses as socket calls take them, and the classes the kernel sorts them into.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The argument of `bind` and `connect`. Its form, not the socket's, is the address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SockAddr {
    /// `AF_UNSPEC`: a disconnect in `connect`, and 0.0.0.0 port 0 in `bind` of an IPv4 socket.
    Unspec,
    /// `AF_INET`.
    V4(SocketAddrV4),
    /// `AF_INET6`; the scope id is the index of a device, 0 for none.
    V6(SocketAddrV6),
}

impl SockAddr {
    /// An address without scope.
    #[must_use]
    pub fn new(addr: IpAddr, port: u16) -> Self {
        SocketAddr::new(addr, port).into()
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(addr: SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(a) => Self::V4(a),
            SocketAddr::V6(a) => Self::V6(a),
        }
    }
}

/// The placeholder Linux writes into the IPv4 half of an IPv6 socket with an IPv6 address.
pub(crate) const PLACEHOLDER: u32 = 0x7f00_0006;
/// 127.0.0.1.
pub(crate) const LOOPBACK4: u32 = 0x7f00_0001;
const MAPPED_PREFIX: u128 = 0xffff_0000_0000;

/// `::ffff:a.b.c.d` of a.b.c.d.
#[inline]
pub(crate) const fn mapped(v4: u32) -> u128 {
    MAPPED_PREFIX | v4 as u128
}

/// The IPv4 address inside a mapped one.
#[inline]
pub(crate) const fn unmap(v6: u128) -> Option<u32> {
    if v6 & !0xffff_ffff == MAPPED_PREFIX { Some(v6 as u32) } else { None }
}

/// Link-local addresses, for which the device is part of the address (RFC 4007).
pub(crate) const fn needs_scope(v6: u128) -> bool {
    let link_unicast = v6 >> 118 == 0xfe80 >> 6;
    // Interface-local (1) and link-local (2) multicast.
    let link_multicast = v6 >> 120 == 0xff && matches!((v6 >> 112) & 0xf, 1 | 2);
    link_unicast || link_multicast
}

pub(crate) const fn is_multicast4(v4: u32) -> bool {
    v4 >> 28 == 0xe
}

pub(crate) const fn is_multicast6(v6: u128) -> bool {
    v6 >> 120 == 0xff
}

pub(crate) fn ip4(v4: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(v4))
}

pub(crate) fn ip6(v6: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(v6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(s: &str) -> u128 {
        s.parse::<Ipv6Addr>().unwrap().to_bits()
    }

    #[test]
    fn classes() {
        assert_eq!(unmap(v6("::ffff:1.2.3.4")), Some(0x0102_0304));
        assert_eq!(unmap(v6("::1.2.3.4")), None);
        assert_eq!(mapped(0x0102_0304), v6("::ffff:1.2.3.4"));
        assert!(needs_scope(v6("fe80::1")) && needs_scope(v6("febf::1")));
        assert!(!needs_scope(v6("fec0::1")) && !needs_scope(v6("fd00::1")));
        assert!(needs_scope(v6("ff02::1")) && needs_scope(v6("ff11::1")));
        assert!(!needs_scope(v6("ff05::1")));
        assert!(is_multicast4(0xe000_0001) && !is_multicast4(0xdfff_ffff));
    }
}
