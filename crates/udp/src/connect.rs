//! connect, disconnect, and both ends in one step.

use std::net::{SocketAddrV4, SocketAddrV6};

use crate::addr::{
    LOOPBACK4, PLACEHOLDER, SockAddr, ip4, ip6, is_multicast4, is_multicast6, mapped, needs_scope,
    unmap,
};
#[cfg(feature = "hash4")]
use crate::chain::Step;
use crate::claims::{Claim, Relation};
use crate::entry::View;
use crate::errno::Errno;
use crate::options::SocketOptions;
use crate::profile::{Profile, Rule};
use crate::route::{DeviceId, RouteQuery, Router};
use crate::sockets::{Flags, Socket, SocketId};
use crate::table::UdpTable;
use crate::writer::Writer;

impl<R: Router> UdpTable<R> {
    /// Connects a socket; `Unspec` disconnects it.
    ///
    /// A socket without port gets one first, and keeps it even if the rest fails.
    ///
    /// # Errors
    ///
    /// `EAGAIN` (no port left), `EINVAL`, `EAFNOSUPPORT`, `EACCES` (broadcast without
    /// `SO_BROADCAST`), what the router reports (`ENETUNREACH`, ...); in [`Profile::Strict`]
    /// `EADDRINUSE` for a 4-tuple that another socket has.
    pub fn connect(&self, id: SocketId, addr: SockAddr) -> Result<(), Errno> {
        let mut w = self.write();
        let index = w.index(id)?;
        if addr == SockAddr::Unspec {
            return w.edit(index, |w| w.disconnect_any(index));
        }
        w.edit(index, |w| {
            w.implicit_bind(index)?;
            w.connect_any(index, addr)
        })
    }

    /// Disconnects a socket: `connect` with `AF_UNSPEC`.
    ///
    /// # Errors
    ///
    /// `EBADF`; in [`Profile::Strict`] `EADDRINUSE` if the wider address would conflict with another
    /// socket's, and nothing has changed then.
    pub fn disconnect(&self, id: SocketId) -> Result<(), Errno> {
        self.connect(id, SockAddr::Unspec)
    }

    /// Makes a socket that is bound to `local` and connected to `peer` in one step: it is never seen
    /// unconnected, so no other peer's datagram can reach it.
    ///
    /// In [`Profile::Strict`] the port may belong to other sockets of the same owner, a listener for
    /// example: only the 4-tuple must be new. In [`Profile::Linux`] the rules of `bind` hold.
    ///
    /// # Errors
    ///
    /// Those of `create`, `bind` and `connect`. No socket is left behind.
    pub fn connect_from(
        &self,
        options: &SocketOptions,
        local: SockAddr,
        peer: SockAddr,
    ) -> Result<SocketId, Errno> {
        if peer == SockAddr::Unspec {
            return Err(Errno::EINVAL);
        }
        let mut w = self.write();
        let id = w.create(options)?;
        let index = id.index;
        let result = w.edit(index, |w| w.bind_and_connect(index, local, peer));
        if let Err(errno) = result {
            w.close(id)?;
            return Err(errno);
        }
        Ok(id)
    }
}

impl<R: Router> Writer<'_, R> {
    fn bind_and_connect(
        &mut self,
        index: u32,
        local: SockAddr,
        peer: SockAddr,
    ) -> Result<(), Errno> {
        if self.profile == Profile::Linux {
            self.bind_any(index, local)?;
            return self.connect_any(index, peer);
        }
        let port = match local {
            SockAddr::V4(a) => a.port(),
            SockAddr::V6(a) => a.port(),
            SockAddr::Unspec => 0,
        };
        if port == 0 {
            self.bind_any(index, local)?;
            return self.connect_any(index, peer);
        }
        // The address is checked by a bind without port; the port is taken without asking sockets of
        // the same owner, and the connect that follows refuses a 4-tuple that exists.
        let without = match local {
            SockAddr::V4(a) => SockAddr::V4(SocketAddrV4::new(*a.ip(), 0)),
            SockAddr::V6(a) => SockAddr::V6(SocketAddrV6::new(*a.ip(), 0, 0, a.scope_id())),
            SockAddr::Unspec => local,
        };
        let s = self.socket(index);
        let start = self.net(s.net).config().unprivileged_port_start;
        if port < start && !s.has(Flags::PRIVILEGED) {
            return Err(Errno::EACCES);
        }
        self.socket_mut(index).flags.set(Flags::NO_PORT, true);
        self.bind_any(index, without)?;
        let s = self.socket_mut(index);
        s.flags.set(Flags::NO_PORT, false);
        let claim = Claim::of(s);
        let foreign =
            self.state.claims.on(self.socket(index).net, port).iter().any(|(e, _)| {
                e.uid() != claim.uid() && claim.relation(e, false) == Relation::Conflict
            });
        if foreign {
            return Err(Errno::EADDRINUSE);
        }
        let s = self.socket_mut(index);
        s.port = port;
        s.flags.set(Flags::PORT_BY_BIND, true);
        s.flags.set(Flags::PORT_LOCK, true);
        s.flags.set(Flags::BY_TUPLE, true);
        self.hash_in(index);
        self.connect_any(index, peer)
    }

    fn connect_any(&mut self, index: u32, addr: SockAddr) -> Result<(), Errno> {
        let six = self.socket(index).is6();
        let mut wanted = match (addr, six) {
            (SockAddr::V4(a), false) => self.plan4(index, a)?,
            (SockAddr::V6(_), false) => return Err(Errno::EAFNOSUPPORT),
            (SockAddr::V4(a), true) if !self.socket(index).has(Flags::V6ONLY) => {
                self.plan_mapped(index, a)?
            }
            (SockAddr::V4(_), true) => return Err(Errno::EAFNOSUPPORT),
            (SockAddr::V6(a), true) => self.plan6(index, a)?,
            (SockAddr::Unspec, _) => return Err(Errno::EINVAL),
        };
        wanted.flags.set(Flags::CONNECTED, true);
        if self.profile == Profile::Strict {
            self.check_change(index, &wanted)?;
            self.adopt(index, &wanted);
            return self.settle(index);
        }
        let widened = self.socket(index).r4 != wanted.r4 || self.socket(index).r6 != wanted.r6;
        self.adopt(index, &wanted);
        if widened {
            self.rehash_linux(index);
        }
        if let Some(group) = self.group_with(index) {
            group.set_has_conns();
        }
        self.enter_tuples_linux(index);
        Ok(())
    }

    /// Takes over what a connect changes; links, hashes and group stay.
    fn adopt(&mut self, index: u32, wanted: &Socket) {
        let s = self.socket_mut(index);
        (s.r4, s.r6, s.s4, s.s6) = (wanted.r4, wanted.r6, wanted.s4, wanted.s6);
        (s.p4, s.p6, s.peer_port) = (wanted.p4, wanted.p6, wanted.peer_port);
        (s.device, s.flags) = (wanted.device, wanted.flags);
    }

    /// The socket as a connect sees it. In [`Profile::Strict`] addresses that an earlier connect chose
    /// are forgotten.
    fn before_connect(&self, index: u32) -> Socket {
        let mut s = self.socket(index);
        if self.profile.has(Rule::SourceKeptAtReconnect) || !s.connected() {
            return s;
        }
        if !s.has(Flags::ADDR_LOCK) {
            (s.r4, s.r6, s.s4, s.s6) = (0, 0, 0, 0);
        } else {
            // The source of a socket bound to a group or broadcast address is connect's choice.
            if s.s4 != s.r4 {
                s.s4 = 0;
            }
            if s.s6 != s.r6 {
                s.s6 = 0;
            }
        }
        s
    }

    fn plan4(&self, index: u32, addr: SocketAddrV4) -> Result<Socket, Errno> {
        let mut s = self.before_connect(index);
        let to = addr.ip().to_bits();
        let multicast_source = self.rare(index).map_or(0, |r| r.multicast_source4);
        let source = match s.s4 {
            0 if is_multicast4(to) => multicast_source,
            s4 => s4,
        };
        let route = self.router.route(&RouteQuery {
            net: s.net,
            destination: ip4(to),
            source: (source != 0).then(|| ip4(source)),
            device: DeviceId::new(self.out_device4(index, to)),
            any_source: s.has(Flags::TRANSPARENT),
        })?;
        if route.broadcast && !s.has(Flags::BROADCAST) {
            return Err(Errno::EACCES);
        }
        let (std::net::IpAddr::V4(to), std::net::IpAddr::V4(from)) =
            (route.destination, route.source)
        else {
            return Err(Errno::ENETUNREACH);
        };
        s.p4 = to.to_bits();
        s.peer_port = addr.port();
        if s.s4 == 0 {
            s.s4 = from.to_bits();
        }
        if s.r4 == 0 {
            s.r4 = from.to_bits();
        }
        Ok(s)
    }

    /// An IPv6 socket to an IPv4 peer.
    fn plan_mapped(&self, index: u32, addr: SocketAddrV4) -> Result<Socket, Errno> {
        let mut s = self.plan4(index, addr)?;
        s.p6 = mapped(s.p4);
        if s.s6 == 0 || s.s6 == mapped(0) {
            s.s6 = mapped(s.s4);
        }
        if s.r6 == 0 || s.r6 == mapped(0) {
            s.r6 = mapped(s.r4);
        }
        Ok(s)
    }

    fn plan6(&mut self, index: u32, addr: SocketAddrV6) -> Result<Socket, Errno> {
        let mut s = self.before_connect(index);
        let to = match addr.ip().to_bits() {
            0 if unmap(s.r6).is_some() => mapped(LOOPBACK4),
            0 => 1,
            to => to,
        };
        if let Some(v4) = unmap(to) {
            if s.has(Flags::V6ONLY) {
                return Err(Errno::ENETUNREACH);
            }
            return self.plan_mapped(index, SocketAddrV4::new(v4.into(), addr.port()));
        }
        if needs_scope(to) {
            self.scope_to_device(index, &mut s, to, addr.scope_id())?;
            if self.profile.has(Rule::DeviceKeptAfterFailure) {
                self.socket_mut(index).device = s.device;
            }
        }
        let multicast_if = self.rare(index).map_or(0, |r| r.multicast_if6);
        let device = if s.device == 0 && is_multicast6(to) { multicast_if } else { s.device };
        let route = self.router.route(&RouteQuery {
            net: s.net,
            destination: ip6(to),
            source: (s.s6 != 0).then(|| ip6(s.s6)),
            device: DeviceId::new(device),
            any_source: s.has(Flags::TRANSPARENT),
        })?;
        let std::net::IpAddr::V6(from) = route.source else {
            return Err(Errno::ENETUNREACH);
        };
        // Found out as late as this: without a route it is ENETUNREACH.
        if unmap(s.s6).is_some() {
            return Err(Errno::EAFNOSUPPORT);
        }
        s.p6 = to;
        s.peer_port = addr.port();
        // What an earlier mapped peer left in the IPv4 half stays, as in the kernel: no IPv4 datagram
        // reaches a socket with this R anyway.
        if s.s6 == 0 {
            s.s6 = from.to_bits();
        }
        if s.r6 == 0 {
            s.r6 = from.to_bits();
            s.r4 = PLACEHOLDER;
        }
        Ok(s)
    }

    /// The device by which the kernel would send from this socket to an IPv4 address.
    fn out_device4(&self, index: u32, destination: u32) -> u32 {
        let s = self.socket(index);
        if s.device != 0 {
            return s.device;
        }
        let Some(rare) = self.rare(index) else { return 0 };
        if is_multicast4(destination) { rare.multicast_if4 } else { rare.unicast_if }
    }

    fn scope_to_device(
        &self,
        index: u32,
        s: &mut Socket,
        to: u128,
        scope: u32,
    ) -> Result<(), Errno> {
        if scope != 0 {
            if s.device != 0 && s.device != scope {
                return Err(Errno::EINVAL);
            }
            s.device = scope;
        }
        if s.device == 0 && is_multicast6(to) {
            s.device = self.rare(index).map_or(0, |r| r.multicast_if6);
        }
        if s.device == 0 { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn disconnect_any(&mut self, index: u32) -> Result<(), Errno> {
        let mut s = self.socket(index);
        s.flags.set(Flags::CONNECTED, false);
        (s.p4, s.peer_port) = (0, 0);
        if !self.profile.has(Rule::V6PeerKept) {
            s.p6 = 0;
        }
        if self.profile.has(Rule::DeviceLostAtDisconnect) {
            s.device = 0;
        }
        let unlocked = !s.has(Flags::ADDR_LOCK);
        if unlocked {
            (s.r4, s.r6, s.s4, s.s6) = (0, 0, 0, 0);
        }
        let keeps_port = if self.profile.has(Rule::BoundPortLost) {
            s.has(Flags::PORT_LOCK)
        } else {
            s.has(Flags::PORT_BY_BIND)
        };
        if self.profile == Profile::Linux {
            self.adopt(index, &s);
            if unlocked && keeps_port {
                self.rehash_linux(index);
            }
            if !keeps_port {
                self.unhash(index);
            }
            return Ok(());
        }
        if keeps_port && s.hashed() {
            self.check_change(index, &s)?;
            // Without its tuple such a socket has to pass as any other.
            let claim = Claim::of(&self.socket(index));
            if s.has(Flags::BY_TUPLE)
                && self.conflict_strict(s.net, s.port, &Claim::of(&s), false, Some(&claim))
            {
                return Err(Errno::EADDRINUSE);
            }
        }
        s.flags.set(Flags::BY_TUPLE, false);
        self.adopt(index, &s);
        if !keeps_port {
            self.unhash(index);
        }
        self.settle(index)
    }

    /// Whether another socket is connected to the same 4-tuple on the same device.
    pub(crate) fn duplicate(&self, index: u32, wanted: &Socket) -> bool {
        debug_assert_eq!(self.profile, Profile::Strict);
        let same = |o: &View| {
            let addresses = if wanted.is6() && unmap(wanted.r6).is_none() {
                o.is6() && o.r == wanted.r6 && o.p == wanted.p6
            } else {
                o.r4() == wanted.r4 && o.p4() == wanted.p4 && !o.native6()
            };
            o.index != index
                && o.connected()
                && o.net == wanted.net
                && o.port == wanted.port
                && o.peer_port == wanted.peer_port
                && o.device == wanted.device
                && addresses
        };
        #[cfg(feature = "hash4")]
        if wanted.peer_port != 0 {
            return self.at_tuple(self.tuple_hash(wanted)).any(|o| same(&o));
        }
        self.at_address(self.hash2_of(wanted)).any(|o| same(&o))
    }

    /// The sockets of one chain of the third table.
    #[cfg(feature = "hash4")]
    fn at_tuple(&self, hash4: u32) -> impl Iterator<Item = View> {
        let table = self.table;
        let slot = crate::tables::tuple::TupleTable::slot(hash4, table.tuples.slots());
        let mut walk = table.tuples.walk(&table.shared, slot);
        std::iter::from_fn(move || match walk.as_mut()?.step() {
            Step::At(view) => Some(view),
            Step::End | Step::Torn => None,
        })
    }
}
