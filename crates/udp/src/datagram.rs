//! What is looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::net::NetId;
use crate::route::DeviceId;

/// Sender and destination of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tuple {
    /// IPv4.
    V4 {
        /// The sender.
        source: (Ipv4Addr, u16),
        /// The address and port it is sent to.
        destination: (Ipv4Addr, u16),
    },
    /// IPv6.
    V6 {
        /// The sender.
        source: (Ipv6Addr, u16),
        /// The address and port it is sent to.
        destination: (Ipv6Addr, u16),
    },
}

impl Tuple {
    /// A tuple of two addresses; `None` if they are of different families.
    #[must_use]
    pub const fn new(source: SocketAddr, destination: SocketAddr) -> Option<Self> {
        match (source, destination) {
            (SocketAddr::V4(s), SocketAddr::V4(d)) => {
                Some(Self::V4 { source: (*s.ip(), s.port()), destination: (*d.ip(), d.port()) })
            }
            (SocketAddr::V6(s), SocketAddr::V6(d)) => {
                Some(Self::V6 { source: (*s.ip(), s.port()), destination: (*d.ip(), d.port()) })
            }
            _ => None,
        }
    }

    /// The sender.
    #[must_use]
    pub const fn source(&self) -> (IpAddr, u16) {
        match *self {
            Self::V4 { source: (a, p), .. } => (IpAddr::V4(a), p),
            Self::V6 { source: (a, p), .. } => (IpAddr::V6(a), p),
        }
    }

    /// The address and port it is sent to.
    #[must_use]
    pub const fn destination(&self) -> (IpAddr, u16) {
        match *self {
            Self::V4 { destination: (a, p), .. } => (IpAddr::V4(a), p),
            Self::V6 { destination: (a, p), .. } => (IpAddr::V6(a), p),
        }
    }

    /// The same with the ends exchanged.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        match *self {
            Self::V4 { source, destination } => {
                Self::V4 { source: destination, destination: source }
            }
            Self::V6 { source, destination } => {
                Self::V6 { source: destination, destination: source }
            }
        }
    }
}

/// A datagram, as far as the tables look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// The namespace it arrived in.
    pub net: NetId,
    /// Its addresses and ports.
    pub tuple: Tuple,
    /// The arrival device; for one that is enslaved to a VRF, the VRF.
    pub device: Option<DeviceId>,
    /// The arrival device if it is enslaved to a VRF.
    pub slave: Option<DeviceId>,
    /// The CPU the look-up runs on, for `SO_INCOMING_CPU`.
    pub cpu: Option<u16>,
    /// Whether the UDP checksum is other than zero.
    pub checksum: bool,
}

impl Datagram {
    /// A datagram of the first namespace, with a checksum, from nowhere in particular.
    #[must_use]
    pub const fn new(tuple: Tuple) -> Self {
        Self { net: NetId::FIRST, tuple, device: None, slave: None, cpu: None, checksum: true }
    }
}

/// The numbers a search compares, besides addresses and ports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) net: NetId,
    pub(crate) dif: u32,
    pub(crate) sdif: u32,
    pub(crate) cpu: i32,
    /// `udp_l3mdev_accept`.
    pub(crate) accept: bool,
    /// The setting that the 4-tuple table and early demultiplexing obey.
    pub(crate) tuple_accept: bool,
    /// Whether there is a packet that programs can look at.
    pub(crate) packet: bool,
}

/// The device test: an unbound socket sees a VRF's datagrams only if the setting lets it.
#[inline]
pub(crate) const fn device_matches(bound: u32, dif: u32, sdif: u32, accept: bool) -> bool {
    if bound == 0 { sdif == 0 || accept } else { bound == dif || bound == sdif }
}
