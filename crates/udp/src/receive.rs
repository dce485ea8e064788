//! The way of a datagram from the IP layer to its sockets.

use crate::addr::unmap;
use crate::datagram::{Datagram, Tuple};
use crate::devices::DeviceRoutes;
use crate::lookup::Found;
use crate::profile::Rule;
use crate::route::{AddressKind, Router};
use crate::sockets::{Flags, SocketId};
use crate::table::UdpTable;
use crate::trace::Trace;

/// Why a datagram reaches no socket, and nobody is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The destination is not this host's.
    NotLocal,
    /// Nobody on this host has joined the group on the arrival device, or not for this source.
    GroupNotJoined,
    /// A multicast or broadcast datagram that no socket takes.
    NoListener,
    /// An IPv6 datagram without checksum, for a socket that does not take such.
    ZeroChecksum,
}

impl DropReason {
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotLocal => "not-local",
            Self::GroupNotJoined => "group-not-joined",
            Self::NoListener => "no-listener",
            Self::ZeroChecksum => "zero-checksum",
        }
    }
}

/// Where a datagram goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// To one socket.
    Unicast(Found),
    /// A copy to each of these, at least one.
    Copies(Vec<SocketId>),
    /// Nowhere: "port unreachable" is sent back.
    PortUnreachable,
    /// Nowhere, silently.
    Dropped(DropReason),
}

impl<R: Router> UdpTable<R> {
    /// Tells a socket that it got a datagram on a CPU. In [`Profile::Linux`](crate::Profile::Linux)
    /// this is what writes over `SO_INCOMING_CPU` of sockets with a peer.
    pub fn note_received(&mut self, id: SocketId, cpu: u16) {
        let Some(index) = self.sockets.find(id) else {
            return;
        };
        let s = &self.sockets[index];
        let peer = if s.is6() { s.p6 != 0 } else { s.p4 != 0 };
        if peer && self.profile.has(Rule::CpuOverwritten) {
            self.set_incoming_cpu(index, i32::from(cpu));
        }
    }
}

impl UdpTable<DeviceRoutes> {
    /// The way of a datagram through the receive path: kind of destination, memberships, early
    /// demultiplexing (not for the loopback device), look-up or copies.
    ///
    /// A datagram without arrival device is taken to come by the device its source is behind.
    pub fn receive(&self, datagram: &Datagram, trace: &mut impl Trace) -> Delivery {
        let mut datagram = *datagram;
        let (source, _) = datagram.tuple.source();
        let (to, _) = datagram.tuple.destination();
        if datagram.device.is_none() {
            datagram.device = self.router.arrival_device(datagram.net, source);
        }
        let unspecified = to.is_unspecified();
        match self.router.kind(datagram.net, to, datagram.device) {
            AddressKind::Unicast => Delivery::Dropped(DropReason::NotLocal),
            AddressKind::Broadcast if unspecified => Delivery::Dropped(DropReason::NotLocal),
            AddressKind::Broadcast => self.copies(&datagram),
            AddressKind::Multicast => {
                let listens =
                    datagram.device.is_some_and(|d| self.host_listens(datagram.net, to, d, source));
                if listens {
                    self.copies(&datagram)
                } else {
                    Delivery::Dropped(DropReason::GroupNotJoined)
                }
            }
            AddressKind::Local => self.receive_unicast(&datagram, trace),
        }
    }

    fn copies(&self, datagram: &Datagram) -> Delivery {
        let mut out = Vec::new();
        self.deliver(datagram, &mut out);
        if out.is_empty() {
            Delivery::Dropped(DropReason::NoListener)
        } else {
            Delivery::Copies(out)
        }
    }

    fn receive_unicast(&self, datagram: &Datagram, trace: &mut impl Trace) -> Delivery {
        let devices = self.router.devices();
        let loopback = devices.iter().any(|d| d.loopback && Some(d.id) == datagram.device);
        let config = self.net_config(datagram.net);
        let early = config.is_some_and(|c| c.ip_early_demux && c.udp_early_demux) && !loopback;
        let early = if early { self.early_demux(datagram) } else { None };
        let Some(found) = early.or_else(|| self.lookup_traced(datagram, trace)) else {
            return match datagram.tuple {
                // A checksum of zero is not acceptable where no socket says that it is.
                Tuple::V6 { .. } if !datagram.checksum => {
                    Delivery::Dropped(DropReason::ZeroChecksum)
                }
                _ => Delivery::PortUnreachable,
            };
        };
        let s = &self.sockets[found.socket.index];
        let v6 = matches!(datagram.tuple, Tuple::V6 { destination: (to, _), .. }
            if unmap(to.to_bits()).is_none());
        if v6 && !datagram.checksum && !s.has(Flags::NO_CHECK6) {
            return Delivery::Dropped(DropReason::ZeroChecksum);
        }
        Delivery::Unicast(found)
    }
}
