//! bind, and the conflict scan behind it.

use std::net::{SocketAddrV4, SocketAddrV6};

use crate::addr::{PLACEHOLDER, SockAddr, ip4, ip6, is_multicast6, mapped, needs_scope, unmap};
use crate::chain::{Step, Walk};
use crate::claims::{Claim, Relation};
use crate::entry::View;
use crate::errno::Errno;
use crate::hash::Seeds;
use crate::net::NetId;
use crate::profile::{Profile, Rule};
use crate::route::{AddressKind, DeviceId, Router};
use crate::sockets::{Flags, NONE, Socket, SocketId};
use crate::table::UdpTable;
use crate::writer::Writer;

/// Chains of the first table up to this length are scanned as they are; of longer ones the second
/// table is asked.
const LONG_CHAIN: u32 = 10;

impl<R: Router> UdpTable<R> {
    /// Binds a socket to an address and port; port 0 has one chosen.
    ///
    /// # Errors
    ///
    /// `EINVAL` (a port already, an address of the wrong length, a mapped address on a v6only socket, a
    /// link-local one without device), `EAFNOSUPPORT`, `EADDRNOTAVAIL` (not this host's address),
    /// `EACCES` (privileged port), `ENODEV` (scope), `EADDRINUSE` (conflict, no port left, group full).
    pub fn bind(&self, id: SocketId, addr: SockAddr) -> Result<(), Errno> {
        let mut w = self.write();
        let index = w.index(id)?;
        w.edit(index, |w| w.bind_any(index, addr))
    }

    /// Gives a socket without port one, as a first send without bind does.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if no port is left.
    pub fn autobind(&self, id: SocketId) -> Result<(), Errno> {
        let mut w = self.write();
        let index = w.index(id)?;
        w.edit(index, |w| w.implicit_bind(index))
    }
}

impl<R: Router> Writer<'_, R> {
    pub(crate) fn implicit_bind(&mut self, index: u32) -> Result<(), Errno> {
        if self.socket(index).port != 0 {
            return Ok(());
        }
        self.take_port(index, 0).map_err(|_| Errno::EAGAIN)
    }

    pub(crate) fn bind_any(&mut self, index: u32, addr: SockAddr) -> Result<(), Errno> {
        match (addr, self.socket(index).is6()) {
            (SockAddr::V4(a), false) => self.bind4(index, a),
            (SockAddr::Unspec, false) => {
                self.bind4(index, SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0))
            }
            (SockAddr::V6(_), false) => Err(Errno::EAFNOSUPPORT),
            (SockAddr::V6(a), true) => self.bind6(index, a),
            // Shorter than an IPv6 socket address, which is tested before the family.
            (SockAddr::V4(_) | SockAddr::Unspec, true) => Err(Errno::EINVAL),
        }
    }

    /// Privileged ports, then sockets that have a port.
    fn check_bindable(&self, s: &Socket, port: u16) -> Result<(), Errno> {
        let start = self.net(s.net).config().unprivileged_port_start;
        if port != 0 && port < start && !s.has(Flags::PRIVILEGED) {
            return Err(Errno::EACCES);
        }
        if s.port != 0 { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn check_address4(&self, s: &Socket, addr: u32) -> Result<AddressKind, Errno> {
        let kind = self.router.kind(s.net, ip4(addr), None);
        let nonlocal = s.has(Flags::FREEBIND)
            || s.has(Flags::TRANSPARENT)
            || self.net(s.net).config().nonlocal_bind4;
        if addr != 0 && kind == AddressKind::Unicast && !nonlocal {
            return Err(Errno::EADDRNOTAVAIL);
        }
        Ok(kind)
    }

    fn bind4(&mut self, index: u32, addr: SocketAddrV4) -> Result<(), Errno> {
        let s = self.socket(index);
        let (r, port) = (addr.ip().to_bits(), addr.port());
        let kind = self.check_address4(&s, r)?;
        self.check_bindable(&s, port)?;
        let sends_from = matches!(kind, AddressKind::Local | AddressKind::Unicast);
        let s = self.socket_mut(index);
        s.r4 = r;
        s.s4 = if sends_from { r } else { 0 };
        if let Err(errno) = self.bind_port(index, port) {
            let s = self.socket_mut(index);
            (s.r4, s.s4) = (0, 0);
            return Err(errno);
        }
        let s = self.socket_mut(index);
        (s.p4, s.peer_port) = (0, 0);
        s.flags.set(Flags::ADDR_LOCK, s.has(Flags::ADDR_LOCK) || r != 0);
        Ok(())
    }

    fn bind6(&mut self, index: u32, addr: SocketAddrV6) -> Result<(), Errno> {
        let (r, port) = (addr.ip().to_bits(), addr.port());
        self.check_bindable(&self.socket(index), port)?;
        let shadow = self.check_address6(index, r, addr.scope_id())?;
        let s = self.socket_mut(index);
        let v6only = s.has(Flags::V6ONLY);
        s.r4 = shadow;
        s.s4 = shadow;
        s.r6 = r;
        if !is_multicast6(r) {
            s.s6 = r;
        }
        if r != 0 && unmap(r).is_none() {
            s.flags.set(Flags::V6ONLY, true);
        }
        if let Err(errno) = self.bind_port(index, port) {
            let s = self.socket_mut(index);
            s.flags.set(Flags::V6ONLY, v6only);
            (s.r4, s.s4, s.r6, s.s6) = (0, 0, 0, 0);
            return Err(errno);
        }
        let s = self.socket_mut(index);
        (s.p4, s.peer_port) = (0, 0);
        s.flags.set(Flags::ADDR_LOCK, s.has(Flags::ADDR_LOCK) || r != 0);
        Ok(())
    }

    /// The IPv4 half of a socket bound to `r`. A scope id binds the device as well.
    fn check_address6(&mut self, index: u32, r: u128, scope: u32) -> Result<u32, Errno> {
        let s = self.socket(index);
        if let Some(v4) = unmap(r) {
            if s.has(Flags::V6ONLY) {
                return Err(Errno::EINVAL);
            }
            self.check_address4(&s, v4)?;
            return Ok(v4);
        }
        if r == 0 {
            return Ok(0);
        }
        let mut device = s.device;
        if needs_scope(r) {
            if scope != 0 {
                device = scope;
            }
            if device == 0 {
                return Err(Errno::EINVAL);
            }
        }
        if self.profile.has(Rule::DeviceKeptAfterFailure) {
            self.socket_mut(index).device = device;
        }
        let s = self.socket(index);
        let device_id = DeviceId::new(device);
        if device_id.is_some_and(|d| !self.router.has_device(s.net, d)) {
            return Err(Errno::ENODEV);
        }
        let nonlocal = s.has(Flags::FREEBIND)
            || s.has(Flags::TRANSPARENT)
            || self.net(s.net).config().nonlocal_bind6;
        let kind = self.router.kind(s.net, ip6(r), device_id);
        if kind == AddressKind::Unicast && !nonlocal {
            return Err(Errno::EADDRNOTAVAIL);
        }
        self.socket_mut(index).device = device;
        Ok(PLACEHOLDER)
    }

    /// The port part of a bind: `IP_BIND_ADDRESS_NO_PORT` leaves port 0 to connect or send.
    fn bind_port(&mut self, index: u32, port: u16) -> Result<(), Errno> {
        if port == 0 && self.socket(index).has(Flags::NO_PORT) {
            return Ok(());
        }
        self.take_port(index, port)?;
        let s = self.socket_mut(index);
        s.flags.set(Flags::PORT_BY_BIND, true);
        s.flags.set(Flags::PORT_LOCK, s.has(Flags::PORT_LOCK) || port != 0);
        Ok(())
    }

    /// Finds or checks a port, joins the reuseport group and enters the tables.
    pub(crate) fn take_port(&mut self, index: u32, port: u16) -> Result<(), Errno> {
        let port = if port == 0 {
            self.free_port(index).ok_or(Errno::EADDRINUSE)?
        } else {
            self.check_port(index, port)?;
            port
        };
        self.socket_mut(index).port = port;
        if self.socket(index).has(Flags::REUSEPORT)
            && let Err(errno) = self.join_group(index)
        {
            self.socket_mut(index).port = 0;
            return Err(errno);
        }
        self.hash_in(index);
        Ok(())
    }

    fn check_port(&self, index: u32, port: u16) -> Result<(), Errno> {
        let s = self.socket(index);
        let conflict = if self.profile.has(Rule::FirstOverlapDecides) {
            self.conflict_linux(index, port)
        } else {
            self.conflict_strict(
                s.net,
                port,
                &Claim::of(&s),
                self.shared.group(index) != NONE,
                None,
            )
        };
        if conflict { Err(Errno::EADDRINUSE) } else { Ok(()) }
    }

    /// Which chain is scanned depends on how long it is, and the first overlap in it decides.
    fn conflict_linux(&self, index: u32, port: u16) -> bool {
        let s = self.socket(index);
        let net = self.net(s.net);
        let hash1 = Seeds::port(net, port);
        let count = self.ports.count(hash1);
        // `::ffff:0.0.0.0` is any as well here.
        if count > LONG_CHAIN && !s.any() && s.r6 != mapped(0) {
            let hash2 = if s.is6() {
                Seeds::address6(net, s.r6, port)
            } else {
                Seeds::address4(net, s.r4, port)
            };
            if count >= self.addresses.at(hash2).count() {
                let any = Seeds::address4(net, 0, port);
                return self.first_overlap(index, port, self.at_address(hash2))
                    || (self.addresses.slot(any) != self.addresses.slot(hash2)
                        && self.first_overlap(index, port, self.at_address(any)));
            }
        }
        self.first_overlap(index, port, self.ports.chain(&self.shared, hash1))
    }

    /// The sockets of one chain of the second table.
    pub(crate) fn at_address(&self, hash2: u32) -> impl Iterator<Item = View> {
        let mut walk = Walk::new(&self.table.shared.entries, &self.table.addresses.at(hash2).head);
        std::iter::from_fn(move || match walk.step() {
            Step::At(view) => Some(view),
            Step::End | Step::Torn => None,
        })
    }

    fn first_overlap(&self, index: u32, port: u16, chain: impl Iterator<Item = View>) -> bool {
        let s = self.socket(index);
        let claim = Claim::of(&s);
        let grouped = self.shared.group(index) != NONE;
        for e in chain {
            if e.index == index || e.net != s.net || e.port != port {
                continue;
            }
            match claim.relation(&Claim::of(&self.socket(e.index)), grouped) {
                Relation::Apart => {}
                Relation::Shared => return false,
                Relation::Conflict => return true,
            }
        }
        false
    }

    /// Whether any socket of the port forbids `claim`. `own` is a claim of the asker's that does not
    /// count (once).
    pub(crate) fn conflict_strict(
        &self,
        net: NetId,
        port: u16,
        claim: &Claim,
        grouped: bool,
        own: Option<&Claim>,
    ) -> bool {
        self.state.claims.on(net, port).iter().any(|(e, count)| {
            let others = count - u32::from(own == Some(e));
            others > 0 && claim.relation(e, grouped) == Relation::Conflict
        })
    }

    /// In [`Profile::Strict`] a hashed socket may not change into `wanted` if others forbid it.
    pub(crate) fn check_change(&self, index: u32, wanted: &Socket) -> Result<(), Errno> {
        debug_assert_eq!(self.profile, Profile::Strict);
        let s = self.socket(index);
        let (before, after) = (Claim::of(&s), Claim::of(wanted));
        // Who overlaps already, by flags that were cleared since, is no new conflict.
        let new_conflict = |(e, count): &(Claim, u32)| {
            let others = count - u32::from(before == *e);
            others > 0
                && after.relation(e, false) == Relation::Conflict
                && before.relation(e, false) != Relation::Conflict
        };
        if before != after && self.state.claims.on(s.net, s.port).iter().any(new_conflict) {
            return Err(Errno::EADDRINUSE);
        }
        if wanted.connected() && self.duplicate(index, wanted) {
            return Err(Errno::EADDRINUSE);
        }
        Ok(())
    }
}
