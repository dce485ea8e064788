//! Why a frame gives no IP packet.

use super::{LinkType, names};
use core::fmt;
use thiserror::Error;

/// Why a frame gives no IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The link type is not read.
    #[error("link type {} ({}) is not supported", .0.name().unwrap_or("unknown"), .0)]
    Unsupported(LinkType),
    /// The frame carries something other than IP.
    #[error("not IP: {what}")]
    NotIp {
        /// What it carries.
        what: NotIp,
    },
    /// The capture cut the frame within its link-layer headers.
    #[error("the capture kept {kept} bytes of the frame, its link-layer headers need {need}")]
    Cut {
        /// Bytes in the capture.
        kept: u32,
        /// Bytes needed so far, from the start of the frame.
        need: u32,
    },
    /// The frame was on the wire with less than its own headers say.
    #[error("the frame of {there} bytes ends before the {need} bytes that its headers ask for")]
    Short {
        /// Bytes on the wire.
        there: u32,
        /// Bytes needed so far, from the start of the frame.
        need: u32,
    },
}

/// What a frame carries in place of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotIp {
    /// An EtherType other than IP's and those of the wrappers; below 0x600, one of Linux's own numbers.
    EtherType(u16),
    /// A PPP protocol number.
    PppProtocol(u16),
    /// A BSD address family.
    Family(u32),
    /// PPPoE discovery, or a PPPoE code other than that of session data.
    PppoeDiscovery,
    /// A first PPPoE byte other than version 1, type 1.
    PppoeVersion(u8),
    /// IEEE 802.2 with these service access points (spanning tree, for one).
    Llc {
        /// Destination service access point.
        dsap: u8,
        /// Source service access point.
        ssap: u8,
    },
    /// IEEE 802.2 SNAP of another organisation or with another type.
    Snap {
        /// Organisation, 24 bits.
        oui: u32,
        /// Type within that organisation's numbers.
        ty: u16,
    },
    /// A cooked capture of a device with protocol numbers of its own, by ARP hardware type.
    Hardware(u16),
    /// An MPLS stack above something whose first four bits are no IP version.
    Mpls {
        /// Those bits.
        nibble: u8,
    },
}

impl From<NotIp> for LinkError {
    fn from(what: NotIp) -> Self {
        Self::NotIp { what }
    }
}

impl fmt::Display for NotIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EtherType(ty) => match names::ether_type(ty) {
                Some(name) => f.write_str(name),
                None => write!(f, "EtherType {ty:#06x}"),
            },
            Self::PppProtocol(ty) => match names::ppp(ty) {
                Some(name) => f.write_str(name),
                None => write!(f, "PPP protocol {ty:#06x}"),
            },
            Self::Family(family) => write!(f, "address family {family}"),
            Self::PppoeDiscovery => f.write_str("PPPoE discovery"),
            Self::PppoeVersion(byte) => {
                write!(f, "PPPoE of version {}, type {}", byte >> 4, byte & 15)
            }
            Self::Llc { dsap, ssap } => match names::llc(dsap) {
                Some(name) => f.write_str(name),
                None => write!(f, "802.2 from access point {ssap:#04x} to {dsap:#04x}"),
            },
            Self::Snap { oui, ty } => match names::snap(oui, ty) {
                Some(name) => f.write_str(name),
                None => write!(f, "802.2 SNAP {oui:06x}, type {ty:#06x}"),
            },
            Self::Hardware(824) => f.write_str("netlink messages"),
            Self::Hardware(801..=803) => f.write_str("802.11 frames in a cooked capture"),
            Self::Hardware(ty) => write!(f, "frames of ARP hardware type {ty}"),
            Self::Mpls { nibble: 0 } => f.write_str("MPLS pseudowire"),
            Self::Mpls { nibble: 1 } => f.write_str("MPLS associated channel"),
            Self::Mpls { nibble } => {
                write!(f, "MPLS payload that starts with {nibble:#x}")
            }
        }
    }
}
