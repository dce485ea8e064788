//! Socket options.

use std::net::{IpAddr, Ipv4Addr};

use crate::net::NetId;
use crate::route::DeviceId;

/// The address family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`.
    V6,
}

/// What a socket is created with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOptions {
    /// The namespace.
    pub net: NetId,
    /// The address family.
    pub family: Family,
    /// The owner: stored once, compared at every later bind with `SO_REUSEPORT`.
    pub uid: u32,
    /// Whether the caller has the capabilities to bind ports below `ip_unprivileged_port_start` and
    /// to set `IP_TRANSPARENT`. `None`: yes if `uid` is 0.
    pub privileged: Option<bool>,
    /// `IPV6_V6ONLY`. No effect on IPv4 sockets.
    pub v6only: bool,
    /// `SO_REUSEADDR`.
    pub reuseaddr: bool,
    /// `SO_REUSEPORT`.
    pub reuseport: bool,
    /// `SO_BROADCAST`.
    pub broadcast: bool,
    /// `IP_FREEBIND`.
    pub freebind: bool,
    /// `SO_BINDTODEVICE`.
    pub device: Option<DeviceId>,
}

impl SocketOptions {
    /// A plain socket of root's in the first namespace.
    #[must_use]
    pub const fn new(family: Family) -> Self {
        Self {
            net: NetId::FIRST,
            family,
            uid: 0,
            privileged: None,
            v6only: false,
            reuseaddr: false,
            reuseport: false,
            broadcast: false,
            freebind: false,
            device: None,
        }
    }
}

/// One `setsockopt`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetOption {
    /// `SO_REUSEADDR`.
    ReuseAddr(bool),
    /// `SO_REUSEPORT`.
    ReusePort(bool),
    /// `IPV6_V6ONLY`; not once the socket has a port.
    V6Only(bool),
    /// `SO_BROADCAST`.
    Broadcast(bool),
    /// `IP_FREEBIND`.
    FreeBind(bool),
    /// `IP_TRANSPARENT`; needs a privileged socket.
    Transparent(bool),
    /// `IP_BIND_ADDRESS_NO_PORT`.
    BindAddressNoPort(bool),
    /// `IP_RECVERR`.
    RecvErr4(bool),
    /// `IPV6_RECVERR`.
    RecvErr6(bool),
    /// `IP_MULTICAST_ALL`. Starts as true on IPv4 sockets and false on IPv6 ones.
    MulticastAll4(bool),
    /// `IPV6_MULTICAST_ALL`. Starts as true.
    MulticastAll6(bool),
    /// `UDP_NO_CHECK6_RX`: datagrams without a checksum are taken.
    NoCheck6Rx(bool),
    /// `IP_MTU_DISCOVER` is `IP_PMTUDISC_DONT`: "fragmentation needed" is no error.
    PmtuDont4(bool),
    /// `IPV6_MTU_DISCOVER` is `IPV6_PMTUDISC_DONT`.
    PmtuDont6(bool),
    /// `SO_BINDTODEVICE`; `None` clears it.
    Device(Option<DeviceId>),
    /// `SO_INCOMING_CPU`; `None` is the value -1.
    IncomingCpu(Option<u16>),
    /// `IP_LOCAL_PORT_RANGE`, lower and upper bound, 0 for unset.
    LocalPortRange(u16, u16),
    /// `IP_MULTICAST_IF`: the device, and the source address if not 0.0.0.0.
    MulticastIf4(Option<DeviceId>, Ipv4Addr),
    /// `IPV6_MULTICAST_IF`.
    MulticastIf6(Option<DeviceId>),
    /// `IP_UNICAST_IF`.
    UnicastIf(Option<DeviceId>),
}

/// A change of one multicast membership's source filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceChange {
    /// `IP_BLOCK_SOURCE`, `MCAST_BLOCK_SOURCE`: the source is no longer heard.
    Block(IpAddr),
    /// `IP_UNBLOCK_SOURCE`, `MCAST_UNBLOCK_SOURCE`: undoes a block.
    Unblock(IpAddr),
    /// `IP_ADD_SOURCE_MEMBERSHIP`, `MCAST_JOIN_SOURCE_GROUP`: only listed sources are heard; joins.
    Add(IpAddr),
    /// `IP_DROP_SOURCE_MEMBERSHIP`, `MCAST_LEAVE_SOURCE_GROUP`: undoes an add; leaves with the last.
    Drop(IpAddr),
}
