//! Link layers: from a captured frame to the IP packet inside it.

/// A link-layer header type, numbered as in pcap and pcapng files
/// (the LINKTYPE_ registry of the pcap file format; values below 65,536).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a 4-byte protocol family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// PPP with or without address and control bytes.
    pub const PPP: Self = Self(9);
    /// Raw IP, the number used by some BSD systems.
    pub const RAW_BSD: Self = Self(12);
    /// Raw IP, the number used by OpenBSD.
    pub const RAW_OPENBSD: Self = Self(14);
    /// Raw IPv4 or IPv6, told apart by the version field.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: a 4-byte protocol family in network order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}
