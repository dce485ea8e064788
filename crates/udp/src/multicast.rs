//! Delivery of multicast and broadcast datagrams: a copy to every socket that matches.

use std::net::IpAddr;

use crate::addr::is_multicast4;
use crate::chain::{Step, Walk};
use crate::datagram::{Arrival, Datagram, Tuple, device_matches};
use crate::entry::View;
use crate::hash::Seeds;
use crate::profile::Profile;
use crate::sockets::{Flags, SocketId};
use crate::table::UdpTable;
use crate::tables::port::Seated;

/// Chains of the first table up to this length are walked as they are.
pub(crate) const LONG_CHAIN: u32 = 10;

/// How often a delivery is tried anew because sockets moved meanwhile.
const ROUNDS: usize = 16;

impl<R> UdpTable<R> {
    /// Whether the socket's own memberships let the datagram through.
    fn filter_allows(&self, s: &View, group: IpAddr, source: IpAddr, a: &Arrival) -> bool {
        let (flag, on_device) = match group {
            IpAddr::V4(_) => (Flags::MC_ALL4, true),
            // The kernel's IPv6 test looks at the group alone, wherever it was joined.
            IpAddr::V6(_) => (Flags::MC_ALL6, false),
        };
        let Some(filter) = self.shared.filter(s) else { return s.has(flag) };
        // The newest is asked first.
        let membership = filter.1.iter().rev().find(|m| {
            let d = m.device.index();
            m.group == group && (!on_device || d == a.dif || (a.sdif != 0 && d == a.sdif))
        });
        membership.map_or_else(|| s.has(flag), |m| m.allows(source))
    }

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
        let start = out.len();
        let (slot, slot_any) = (self.addresses.at(hash2), self.addresses.at(any));
        for _ in 0..ROUNDS {
            out.truncate(start);
            let moves = (slot.moves(), slot_any.moves());
            self.copies_to(datagram, &a, (hash2, any, Seeds::port(net, port)), out);
            crate::sync::fence(crate::sync::Ordering::Acquire);
            if !slot.moved_since(moves.0) && !slot_any.moved_since(moves.1) {
                break;
            }
        }
        unique(out, start);
    }

    fn copies_to(
        &self,
        datagram: &Datagram,
        a: &Arrival,
        (hash2, any, hash1): (u32, u32, u32),
        out: &mut Vec<SocketId>,
    ) {
        if self.profile == Profile::Linux && self.ports.count(hash1) <= LONG_CHAIN {
            self.copies_by_port(datagram, a, hash1, out);
            return;
        }
        let entries = &self.shared.entries;
        self.copies_along(datagram, a, out, || Walk::new(entries, &self.addresses.at(hash2).head));
        if self.addresses.slot(any) != self.addresses.slot(hash2) {
            self.copies_along(datagram, a, out, || {
                Walk::new(entries, &self.addresses.at(any).head)
            });
        }
        // In this profile connected sockets stand in the third table only.
        #[cfg(feature = "hash4")]
        if self.profile == Profile::Strict {
            let net = self.net(a.net);
            let hash4 = match datagram.tuple {
                Tuple::V4 { source: (from, sport), destination: (to, port) } => {
                    self.seeds.tuple4(net, to.to_bits(), port, from.to_bits(), sport)
                }
                Tuple::V6 { source: (from, sport), destination: (to, port) } => {
                    self.seeds.tuple6(net, to.to_bits(), port, from.to_bits(), sport)
                }
            };
            let start = out.len();
            loop {
                out.truncate(start);
                let slots = self.tuples.slots();
                let slot = crate::tables::tuple::TupleTable::slot(hash4, slots);
                let Some(head) = self.tuples.head(slot) else { return };
                self.copies_along(datagram, a, out, || Walk::new(entries, head));
                crate::sync::fence(crate::sync::Ordering::Acquire);
                if self.tuples.slots() == slots {
                    return;
                }
            }
        }
    }

    fn copies_along<'a>(
        &'a self,
        datagram: &Datagram,
        a: &Arrival,
        out: &mut Vec<SocketId>,
        walk: impl Fn() -> Walk<'a>,
    ) {
        let start = out.len();
        let mut at = walk();
        loop {
            match at.step() {
                Step::At(view) => {
                    let view = self.shared.whole(view);
                    if self.takes_copy(&view, datagram, a) {
                        out.push(view.id());
                    }
                }
                Step::End => return,
                Step::Torn => {
                    out.truncate(start);
                    at = walk();
                }
            }
        }
    }

    fn copies_by_port(
        &self,
        datagram: &Datagram,
        a: &Arrival,
        hash1: u32,
        out: &mut Vec<SocketId>,
    ) {
        let start = out.len();
        let mut walk = self.ports.walk(&self.shared, hash1);
        loop {
            match walk.step() {
                Seated::At(view) => {
                    if self.takes_copy(&view, datagram, a) {
                        out.push(view.id());
                    }
                }
                Seated::Gone => {}
                Seated::End => return,
                Seated::Torn => {
                    out.truncate(start);
                    walk = self.ports.walk(&self.shared, hash1);
                }
            }
        }
    }

    fn takes_copy(&self, s: &View, datagram: &Datagram, a: &Arrival) -> bool {
        match datagram.tuple {
            Tuple::V4 { source: (from, sport), destination: (to, port) } => {
                s.net == a.net
                    && s.port == port
                    && (s.p4() == 0 || s.p4() == from.to_bits())
                    && (s.peer_port == 0 || s.peer_port == sport)
                    && (s.r4() == 0 || s.r4() == to.to_bits())
                    && !s.has(Flags::V6ONLY)
                    && !(s.native6() && self.profile == Profile::Strict)
                    && device_matches(s.device, a.dif, a.sdif, a.accept)
                    && (!is_multicast4(to.to_bits())
                        || self.filter_allows(s, IpAddr::V4(to), IpAddr::V4(from), a))
            }
            Tuple::V6 { source: (from, sport), destination: (to, port) } => {
                s.net == a.net
                    && s.port == port
                    && s.is6()
                    && (s.p == 0 || s.p == from.to_bits())
                    && (s.peer_port == 0 || s.peer_port == sport)
                    && (s.r == 0 || s.r == to.to_bits())
                    && device_matches(s.device, a.dif, a.sdif, a.accept)
                    && self.filter_allows(s, IpAddr::V6(to), IpAddr::V6(from), a)
                    && (datagram.checksum || s.has(Flags::NO_CHECK6))
            }
        }
    }
}

/// Leaves one of each from `start` on: a socket that moves is met at both its places.
fn unique(out: &mut Vec<SocketId>, start: usize) {
    if out.len() - start < 2 {
        return;
    }
    let mut seen = std::collections::HashSet::new();
    let mut kept = start;
    for i in start..out.len() {
        let id = out[i];
        if seen.insert(id) {
            out[kept] = id;
            kept += 1;
        }
    }
    out.truncate(kept);
}
