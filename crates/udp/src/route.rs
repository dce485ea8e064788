//! Which addresses are this host's, and which source address a peer is reached from.
//!
//! The tables ask a [`Router`]; [`DeviceRoutes`] is one that knows no more than devices and their
//! addresses: the most specific prefix wins, and the first device that is not the loopback device
//! carries the default route.

use std::net::IpAddr;

use crate::errno::Errno;
use crate::net::NetId;

/// Index of a device, from 1; what the kernel calls an ifindex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub std::num::NonZeroU32);

impl DeviceId {
    /// The device of this index; `None` for 0, which means "no device".
    #[must_use]
    pub const fn new(index: u32) -> Option<Self> {
        match std::num::NonZeroU32::new(index) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// The index.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.get()
    }
}

/// The index of an optional device, 0 for none.
pub(crate) fn index_of(device: Option<DeviceId>) -> u32 {
    device.map_or(0, DeviceId::index)
}

/// What an address is to this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// One of this host's own.
    Local,
    /// 255.255.255.255, or the last address of a device's prefix.
    Broadcast,
    /// 224.0.0.0/4 or ff00::/8.
    Multicast,
    /// Somebody else's.
    Unicast,
}

/// What `connect` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteQuery {
    /// The namespace.
    pub net: NetId,
    /// The peer, any allowed.
    pub destination: IpAddr,
    /// The source, if it is already decided.
    pub source: Option<IpAddr>,
    /// The device to leave by, if it is decided.
    pub device: Option<DeviceId>,
    /// `IP_TRANSPARENT`: the source need not be local.
    pub any_source: bool,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destination: the query's, or what any stands for.
    pub destination: IpAddr,
    /// The source: the query's, or the one chosen.
    pub source: IpAddr,
    /// Whether the destination is a broadcast address.
    pub broadcast: bool,
}

/// The caller's knowledge of devices, addresses and routes.
pub trait Router {
    /// What `addr` is. `device` restricts IPv6 link-local addresses to one device.
    fn kind(&self, net: NetId, addr: IpAddr, device: Option<DeviceId>) -> AddressKind;

    /// Whether the device exists.
    fn has_device(&self, net: NetId, device: DeviceId) -> bool;

    /// The way to a peer.
    ///
    /// # Errors
    ///
    /// The errno that `connect` shall report, `ENETUNREACH` for no route.
    fn route(&self, query: &RouteQuery) -> Result<Route, Errno>;

    /// The device that a group is joined on if the caller names none.
    fn group_device(&self, net: NetId, group: IpAddr) -> Option<DeviceId>;
}
