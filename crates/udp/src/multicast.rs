//! Delivery of multicast and broadcast datagrams: a copy to every socket that matches.

use std::net::IpAddr;

use crate::addr::{is_multicast4, unmap};
use crate::datagram::{Arrival, Datagram, Tuple, device_matches};
use crate::hash::Seeds;
use crate::profile::Profile;
use crate::route::Router;
use crate::sockets::{Flags, Socket, SocketId};
use crate::table::UdpTable;

/// Chains of the first table up to this length are walked as they are.
pub(crate) const LONG_CHAIN: u32 = 10;

/// Whether the socket's own memberships let the datagram through.
fn filter_allows(s: &Socket, group: IpAddr, source: IpAddr, a: &Arrival) -> bool {
    let (flag, on_device) = match group {
        IpAddr::V4(_) => (Flags::MC_ALL4, true),
        // The kernel's IPv6 test looks at the group alone, wherever it was joined.
        IpAddr::V6(_) => (Flags::MC_ALL6, false),
    };
    let membership = s.rare.as_ref().and_then(|rare| {
        // The newest is asked first.
        rare.memberships.iter().rev().find(|m| {
            let d = m.device.index();
            m.group == group && (!on_device || d == a.dif || (a.sdif != 0 && d == a.sdif))
        })
    });
    membership.map_or_else(|| s.has(flag), |m| m.allows(source))
}

impl<R: Router> UdpTable<R> {
    /// Every socket that gets a copy of a datagram to a multicast or broadcast address. They are added
    /// to `out` in the order of the chains; the caller answers for the host having joined the group.
    pub fn deliver(&self, datagram: &Datagram, out: &mut Vec<SocketId>) {
        let Some(a) = self.arrival(datagram) else {
            return;
        };
        let net = self.net(a.net);
        let (hash2, any, port) = match datagram.tuple {
            Tuple::V4 { destination: (to, port), .. } => {
                (Seeds::address4(net, to.to_bits(), port), Seeds::address4(net, 0, port), port)
            }
            Tuple::V6 { destination: (to, port), .. } => {
                (Seeds::address6(net, to.to_bits(), port), Seeds::address4(net, 0, port), port)
            }
        };
        let mut take = |index: u32| {
            if self.takes_copy(&self.sockets[index], datagram, &a) {
                out.push(self.sockets.id(index));
            }
        };
        let hash1 = Seeds::port(net, port);
        if self.profile == Profile::Linux && self.ports.count(hash1) <= LONG_CHAIN {
            self.ports.chain(&self.sockets, hash1).for_each(take);
            return;
        }
        self.addresses.chain(&self.sockets, hash2).for_each(&mut take);
        if self.addresses.slot(any) != self.addresses.slot(hash2) {
            self.addresses.chain(&self.sockets, any).for_each(&mut take);
        }
        // In this profile connected sockets stand in the third table only.
        #[cfg(feature = "hash4")]
        if self.profile == Profile::Strict {
            let hash4 = match datagram.tuple {
                Tuple::V4 { source: (from, sport), destination: (to, port) } => {
                    self.seeds.tuple4(net, to.to_bits(), port, from.to_bits(), sport)
                }
                Tuple::V6 { source: (from, sport), destination: (to, port) } => {
                    self.seeds.tuple6(net, to.to_bits(), port, from.to_bits(), sport)
                }
            };
            self.tuples.chain(&self.sockets, hash4).for_each(take);
        }
    }

    fn takes_copy(&self, s: &Socket, datagram: &Datagram, a: &Arrival) -> bool {
        match datagram.tuple {
            Tuple::V4 { source: (from, sport), destination: (to, port) } => {
                let native6 = s.is6() && s.r6 != 0 && unmap(s.r6).is_none();
                s.net == a.net
                    && s.port == port
                    && (s.p4 == 0 || s.p4 == from.to_bits())
                    && (s.peer_port == 0 || s.peer_port == sport)
                    && (s.r4 == 0 || s.r4 == to.to_bits())
                    && !s.has(Flags::V6ONLY)
                    && !(native6 && self.profile == Profile::Strict)
                    && device_matches(s.device, a.dif, a.sdif, a.accept)
                    && (!is_multicast4(to.to_bits())
                        || filter_allows(s, IpAddr::V4(to), IpAddr::V4(from), a))
            }
            Tuple::V6 { source: (from, sport), destination: (to, port) } => {
                s.net == a.net
                    && s.port == port
                    && s.is6()
                    && (s.p6 == 0 || s.p6 == from.to_bits())
                    && (s.peer_port == 0 || s.peer_port == sport)
                    && (s.r6 == 0 || s.r6 == to.to_bits())
                    && device_matches(s.device, a.dif, a.sdif, a.accept)
                    && filter_allows(s, IpAddr::V6(to), IpAddr::V6(from), a)
                    && (datagram.checksum || s.has(Flags::NO_CHECK6))
            }
        }
    }
}
