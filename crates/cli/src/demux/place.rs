//! The sockets of a listing, bound and connected one after the other.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};

use fourtuple::udp::{
    DeviceId, Errno, Family, Profile, SetOption, SockAddr, SocketId, SocketOptions, UdpTable,
};

use super::host::HostRouter;
use crate::ss;

/// From this many connected sockets on a port on, they are placed by [`Flags::CROWDED`].
const CROWD: usize = 64;

/// What a socket sets before it is bound.
#[derive(Clone, Copy)]
struct Flags {
    reuseaddr: bool,
    reuseport: bool,
}

impl Flags {
    /// The sockets do stand beside each other, whatever allowed it. With SO_REUSEADDR on both sides
    /// every bind passes, but in the profile of Linux it looks at all sockets of the port first.
    const ALONE: Self = Self { reuseaddr: true, reuseport: false };
    const GROUPED: Self = Self { reuseaddr: true, reuseport: true };
    /// With SO_REUSEPORT the first one that overlaps settles it: a hundred thousand binds take no
    /// hundred thousand steps each.
    const CROWDED: Self = Self { reuseaddr: false, reuseport: true };
}

/// Places sockets in a table.
pub(super) struct Placer<'a> {
    table: &'a mut UdpTable<HostRouter>,
    /// Ports with many connected sockets.
    crowded: HashSet<u16>,
    /// Sockets that have SO_REUSEPORT until all are placed.
    for_now: Vec<SocketId>,
}

impl<'a> Placer<'a> {
    pub(super) fn new(table: &'a mut UdpTable<HostRouter>, all: &[ss::Socket]) -> Self {
        let mut connected: HashMap<u16, usize> = HashMap::new();
        if table.profile() == Profile::Linux {
            for s in all.iter().filter(|s| s.connected) {
                *connected.entry(s.local.port).or_default() += 1;
            }
        }
        let crowded = connected.into_iter().filter(|(_, n)| *n >= CROWD).map(|(port, _)| port);
        Self { table, crowded: crowded.collect(), for_now: Vec::new() }
    }

    /// Places a socket, newer than those before it; `grouped`: it is in a reuseport group.
    pub(super) fn place(&mut self, s: &ss::Socket, grouped: bool) -> Result<SocketId, Errno> {
        if grouped {
            return self.bind_and_connect(s, Flags::GROUPED);
        }
        if !self.crowded.contains(&s.local.port) {
            return self.bind_and_connect(s, Flags::ALONE);
        }
        if !s.connected {
            let id = self.bind_and_connect(s, Flags::GROUPED)?;
            self.for_now.push(id);
            return Ok(id);
        }
        match self.bind_and_connect(s, Flags::CROWDED) {
            Ok(id) => {
                // For those to come that have it, too.
                self.table.set(id, SetOption::ReuseAddr(true))?;
                Ok(id)
            }
            Err(_) => self.bind_and_connect(s, Flags::ALONE),
        }
    }

    /// All sockets are placed.
    pub(super) fn finish(self) {
        for id in self.for_now {
            // It is open, and the option cannot fail.
            let _ = self.table.set(id, SetOption::ReusePort(false));
        }
    }

    fn bind_and_connect(&mut self, s: &ss::Socket, flags: Flags) -> Result<SocketId, Errno> {
        let family = if s.local.addr.is_ipv6() { Family::V6 } else { Family::V4 };
        let device = s.device.as_deref().and_then(|name| self.table.router().device(name));
        let mut options = SocketOptions::new(family);
        options.uid = s.uid;
        options.privileged = Some(true);
        options.v6only = s.v6only && s.local.addr.is_unspecified();
        options.reuseaddr = flags.reuseaddr;
        options.reuseport = flags.reuseport;
        options.broadcast = true;
        options.freebind = true;
        options.device = device;
        let id = self.table.create(&options)?;
        match self.move_in(id, s, device) {
            Ok(()) => Ok(id),
            Err(errno) => {
                self.table.close(id)?;
                Err(errno)
            }
        }
    }

    fn move_in(
        &mut self,
        id: SocketId,
        s: &ss::Socket,
        device: Option<DeviceId>,
    ) -> Result<(), Errno> {
        self.table.bind(id, at(&s.local, device))?;
        match &s.peer {
            Some(peer) if s.connected => self.table.connect(id, at(peer, device)),
            // An IPv6 socket after a disconnect.
            Some(peer) => {
                let peer = ss::End { port: peer.port.max(1), ..peer.clone() };
                self.table.connect(id, at(&peer, device))?;
                self.table.disconnect(id)
            }
            None => Ok(()),
        }
    }
}

/// An end as bind and connect take it.
fn at(end: &ss::End, device: Option<DeviceId>) -> SockAddr {
    match end.addr {
        IpAddr::V4(ip) => SockAddr::V4(SocketAddrV4::new(ip, end.port)),
        IpAddr::V6(ip) => {
            let scope = device.filter(|_| ip.is_unicast_link_local() || ip.is_multicast());
            SockAddr::V6(SocketAddrV6::new(ip, end.port, 0, scope.map_or(0, DeviceId::index)))
        }
    }
}
