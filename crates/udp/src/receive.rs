//! The way of a datagram from the IP layer to its sockets.

use crate::addr::unmap;
use crate::datagram::{Datagram, Tuple};
use crate::devices::DeviceRoutes;
use crate::entry::View;
use crate::hash::Seeds;
use crate::lookup::{Found, Via};
use crate::multicast::LONG_CHAIN;
use crate::profile::Rule;
use crate::reuseport::Choice;
use crate::route::{AddressKind, Router, index_of};
use crate::selector::ProgramInput;
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
    /// Tells a socket that it got a datagram, on the datagram's CPU. In
    /// [`Profile::Linux`](crate::Profile::Linux) this is what writes over `SO_INCOMING_CPU` of sockets
    /// with a peer, of the datagram's family.
    pub fn note_received(&self, id: SocketId, datagram: &Datagram) {
        if !self.profile.has(Rule::CpuOverwritten) {
            return;
        }
        let view = self.shared.view(id.index).filter(|view| view.id() == id);
        let (Some(view), Some(cpu)) = (view, datagram.cpu.map(i32::from)) else {
            return;
        };
        let peer = match datagram.tuple {
            Tuple::V4 { .. } => view.p4() != 0,
            Tuple::V6 { .. } => view.p != 0,
        };
        // Nearly always it is the CPU of the datagram before, and there is nothing to write.
        if peer && self.shared.cpu(id.index) != cpu {
            let mut w = self.write();
            if let Ok(index) = w.index(id) {
                w.set_incoming_cpu(index, cpu);
            }
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
                let listens = datagram
                    .device
                    .is_some_and(|d| self.write().host_listens(datagram.net, to, d, source));
                if listens {
                    self.early_multicast(&datagram).unwrap_or_else(|| self.copies(&datagram))
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

    /// What early demultiplexing does with an IPv4 multicast datagram that one unconnected member of a
    /// reuseport group alone would get: the group is asked, as if the datagram were a unicast one.
    fn early_multicast(&self, datagram: &Datagram) -> Option<Delivery> {
        let Tuple::V4 { source: (from, sport), destination: (to, port) } = datagram.tuple else {
            return None;
        };
        let config = self.net_config(datagram.net)?;
        let early = self.profile.has(Rule::EarlyDemuxAsksGroup)
            && config.ip_early_demux
            && config.udp_early_demux
            && !self.by_loopback(datagram);
        let net = self.net(datagram.net);
        if !early || self.ports.count(Seeds::port(net, port)) > LONG_CHAIN {
            return None;
        }
        let mut wanted = Vec::new();
        self.deliver(datagram, &mut wanted);
        let &[only] = wanted.as_slice() else { return None };
        let view = self.shared.view(only.index).filter(|view| !view.connected())?;
        let hash = self.seeds.tuple4(net, to.to_bits(), port, from.to_bits(), sport);
        let input = || ProgramInput {
            net: datagram.net,
            source: (from.into(), sport),
            destination: (to.into(), port),
            device: index_of(datagram.device),
            hash,
        };
        let cpu = datagram.cpu.map_or(-1, i32::from);
        match self.choose(&view, cpu, hash, Some(input)) {
            Choice::Nobody => None,
            Choice::Drop => Some(Delivery::Dropped(DropReason::NoListener)),
            Choice::Member(member) => {
                let socket = member.id();
                Some(Delivery::Unicast(Found { socket, via: Via::EarlyDemux, by_group: true }))
            }
        }
    }

    fn by_loopback(&self, datagram: &Datagram) -> bool {
        self.router.devices().iter().any(|d| d.loopback && Some(d.id) == datagram.device)
    }

    fn receive_unicast(&self, datagram: &Datagram, trace: &mut impl Trace) -> Delivery {
        let loopback = self.by_loopback(datagram);
        let mut datagram = *datagram;
        if loopback {
            // What the host sends to an address of its own counts as arriving at that one's device.
            let (to, _) = datagram.tuple.destination();
            let owner = self.router.local(datagram.net, to, None);
            datagram.device = owner.map_or(datagram.device, |(device, _)| Some(device.id));
        }
        let datagram = &datagram;
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
        let takes = |s: View| s.has(Flags::NO_CHECK6);
        let v6 = matches!(datagram.tuple, Tuple::V6 { destination: (to, _), .. }
            if unmap(to.to_bits()).is_none());
        if v6 && !datagram.checksum && !self.shared.view(found.socket.index).is_some_and(takes) {
            return Delivery::Dropped(DropReason::ZeroChecksum);
        }
        Delivery::Unicast(found)
    }
}
