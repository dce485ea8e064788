//! A table with the sockets of a listing, and what of the host ss does not tell.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fourtuple::udp::{
    AddressKind, Config, DeviceId, Errno, NetId, Profile, Route, RouteQuery, Router, SocketId,
    UdpTable,
};

use super::args::{Ask, HostAddress};
use super::describe::show;
use super::place::Placer;
use crate::ss;

/// Devices and addresses of the host. Every peer can be reached: it was, when its socket connected.
#[derive(Debug)]
pub(super) struct HostRouter {
    /// The one of index 1 first, which is the loopback device.
    devices: Vec<String>,
    own: HashSet<IpAddr>,
    /// What was given, with prefix lengths and devices.
    given: Vec<HostAddress>,
}

impl HostRouter {
    pub(super) fn device(&self, name: &str) -> Option<DeviceId> {
        let place = self.devices.iter().position(|d| d == name)?;
        DeviceId::new(u32::try_from(place + 1).ok()?)
    }

    /// The device of a name; a new one if there is none.
    fn intern(&mut self, name: &str) -> Option<DeviceId> {
        if self.device(name).is_none() {
            self.devices.push(name.to_owned());
        }
        self.device(name)
    }

    fn name(&self, device: DeviceId) -> &str {
        self.devices.get(device.index() as usize - 1).map_or("?", String::as_str)
    }

    /// Whether the host's addresses were given.
    pub(super) fn has_given(&self) -> bool {
        !self.given.is_empty()
    }

    pub(super) fn is_own(&self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        addr.is_loopback() || self.own.contains(&addr)
    }

    fn is_broadcast(&self, addr: IpAddr) -> bool {
        let IpAddr::V4(addr) = addr else { return false };
        let last = |g: &HostAddress| match g.addr {
            IpAddr::V4(own) if g.len < 31 => own.to_bits() | (u32::MAX >> g.len) == addr.to_bits(),
            _ => false,
        };
        addr.is_broadcast() || self.given.iter().any(last)
    }

    /// What a destination is; any address that is no more than this is one of the host's.
    pub(super) fn what(&self, addr: IpAddr) -> AddressKind {
        if addr.is_multicast() {
            AddressKind::Multicast
        } else if self.is_broadcast(addr) {
            AddressKind::Broadcast
        } else if self.is_own(addr) {
            AddressKind::Local
        } else {
            AddressKind::Unicast
        }
    }
}

impl Router for HostRouter {
    fn kind(&self, _: NetId, addr: IpAddr, _: Option<DeviceId>) -> AddressKind {
        self.what(addr)
    }

    fn has_device(&self, _: NetId, device: DeviceId) -> bool {
        device.index() as usize <= self.devices.len()
    }

    fn route(&self, query: &RouteQuery) -> Result<Route, Errno> {
        let six = query.destination.is_ipv6();
        let any = || {
            let own = self.own.iter().find(|a| a.is_ipv6() == six).copied();
            let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
            own.unwrap_or(if six { v6 } else { v4 })
        };
        let source = query.source.filter(|s| !s.is_unspecified()).unwrap_or_else(any);
        Ok(Route { destination: query.destination, source, broadcast: false })
    }

    fn group_device(&self, _: NetId, _: IpAddr) -> Option<DeviceId> {
        None
    }
}

/// The sockets of a listing in a table.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) table: UdpTable<HostRouter>,
    /// In the listing's order. The number of a socket is its place here, from 1.
    pub(super) sockets: Vec<ss::Socket>,
    numbers: HashMap<SocketId, usize>,
    by_port: HashMap<u16, Vec<usize>>,
    /// Sockets at one address and port, by number.
    pub(super) shared: Vec<Shared>,
    /// What arrives by no device in particular comes by this one.
    pub(super) usual: Option<DeviceId>,
    /// Whether that was concluded.
    pub(super) usual_is_guess: bool,
}

/// Unconnected sockets of one address and port.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) numbers: Vec<usize>,
    /// Whether they have one owner, and so can be a reuseport group.
    pub(super) one_owner: bool,
}

/// A socket that could not be placed.
pub(super) struct Misfit {
    pub(super) line: usize,
    errno: Errno,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the socket cannot stand beside those before it ({})", self.errno)
    }
}

/// Slots of the table: the kernel's largest, so that few sockets share one by chance.
const SLOTS: u32 = 1 << 16;

impl Host {
    /// Places the sockets, the last of the listing first: ss lists the newest of a port first.
    pub(super) fn new(
        sockets: Vec<ss::Socket>,
        ask: &Ask,
        profile: Profile,
    ) -> (Self, Vec<Misfit>) {
        let mut router = HostRouter {
            devices: vec!["lo".to_owned()],
            own: HashSet::new(),
            given: ask.address.clone(),
        };
        for device in ask.address.iter().filter_map(|a| a.device.as_deref()) {
            router.intern(device);
        }
        for device in sockets.iter().filter_map(|s| s.device.as_deref()) {
            router.intern(device);
        }
        for device in ask.datagram.iter().filter_map(|d| d.device.as_deref()) {
            router.intern(device);
        }
        let of_sockets = sockets.iter().map(|s| s.local.addr.to_canonical());
        let bound = of_sockets
            .filter(|a| !a.is_unspecified() && !a.is_multicast() && !router.is_broadcast(*a));
        router.own = match ask.address.is_empty() {
            true => bound.collect(),
            false => ask.address.iter().map(|a| a.addr).collect(),
        };
        let others = router.devices.len() - 1;
        let (usual, usual_is_guess) = match &ask.device {
            Some(name) => (router.intern(name), false),
            None if others == 1 => (DeviceId::new(2), true),
            None => (None, false),
        };
        let shared = shared(&sockets);
        let config = Config { slots: SLOTS, ..Config::new(profile) };
        let mut host = Self {
            table: UdpTable::with_router(&config, router),
            sockets,
            numbers: HashMap::new(),
            by_port: HashMap::new(),
            shared,
            usual,
            usual_is_guess,
        };
        let misfits = host.place_all();
        (host, misfits)
    }

    fn place_all(&mut self) -> Vec<Misfit> {
        let groups = self.shared.iter().filter(|s| s.one_owner);
        let grouped: HashSet<usize> = groups.flat_map(|s| s.numbers.iter().copied()).collect();
        let mut misfits = Vec::new();
        let mut placer = Placer::new(&mut self.table, &self.sockets);
        for number in (1..=self.sockets.len()).rev() {
            let socket = &self.sockets[number - 1];
            match placer.place(socket, grouped.contains(&number)) {
                Ok(id) => {
                    self.numbers.insert(id, number);
                    self.by_port.entry(socket.local.port).or_default().push(number);
                }
                Err(errno) => misfits.push(Misfit { line: socket.line, errno }),
            }
        }
        placer.finish();
        self.by_port.values_mut().for_each(|numbers| numbers.reverse());
        misfits.reverse();
        misfits
    }

    pub(super) fn number(&self, id: SocketId) -> usize {
        self.numbers.get(&id).copied().unwrap_or(0)
    }

    /// The sockets with a local port, by number.
    pub(super) fn on_port(&self, port: u16) -> &[usize] {
        self.by_port.get(&port).map_or(&[], Vec::as_slice)
    }

    pub(super) fn socket(&self, number: usize) -> Option<&ss::Socket> {
        self.sockets.get(number.checked_sub(1)?)
    }

    pub(super) fn device_name(&self, device: DeviceId) -> &str {
        self.table.router().name(device)
    }

    /// The device that a datagram to `to` comes in by; `named`: what it says itself.
    pub(super) fn arrival(&self, to: IpAddr, named: Option<&str>) -> Option<DeviceId> {
        let router = self.table.router();
        let owner = || {
            let own = router.given.iter().find(|g| g.addr == to);
            own.and_then(|g| router.device(g.device.as_deref()?))
        };
        match named {
            Some(name) => router.device(name),
            None if to.is_loopback() => router.device("lo"),
            None => owner().or(self.usual),
        }
    }

    /// `socket 3 10.0.0.1:53 named[612]`.
    pub(super) fn name(&self, number: usize) -> String {
        self.socket(number)
            .map_or_else(|| "a socket".to_owned(), |s| format!("socket {number} {}", Shown(s)))
    }
}

/// The unconnected sockets that have address, port and device in common.
fn shared(sockets: &[ss::Socket]) -> Vec<Shared> {
    let mut places: HashMap<_, Vec<usize>> = HashMap::new();
    let mut order = Vec::new();
    for (i, s) in sockets.iter().enumerate().filter(|(_, s)| !s.connected && s.peer.is_none()) {
        let key = (s.local.addr, s.local.port, s.v6only, s.device.as_deref());
        let numbers = places.entry(key).or_default();
        if numbers.is_empty() {
            order.push(key);
        }
        numbers.push(i + 1);
    }
    let several = order.into_iter().filter_map(|key| places.remove(&key)).filter(|n| n.len() > 1);
    several
        .map(|numbers| {
            let one_owner =
                numbers.iter().all(|n| sockets[n - 1].uid == sockets[numbers[0] - 1].uid);
            Shared { numbers, one_owner }
        })
        .collect()
}

/// Where a socket is bound, as ss writes it: `10.0.0.1%eth0:53`.
pub(super) struct Place<'a>(pub(super) &'a ss::Socket);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ss::Socket { local, device, .. } = self.0;
        match (device, local.addr) {
            (None, addr) => f.write_str(&show(addr, local.port)),
            (Some(device), IpAddr::V4(addr)) => write!(f, "{addr}%{device}:{}", local.port),
            (Some(device), IpAddr::V6(addr)) => write!(f, "[{addr}]%{device}:{}", local.port),
        }
    }
}

/// A socket for people: `10.0.0.1%eth0:53 to 10.0.0.9:4000 named[612]`.
pub(super) struct Shown<'a>(pub(super) &'a ss::Socket);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0;
        Place(s).fmt(f)?;
        if let Some(peer) = &s.peer {
            write!(f, " to {}", show(peer.addr, peer.port))?;
        }
        if s.v6only && s.local.addr.is_unspecified() {
            f.write_str(" v6only")?;
        }
        for (i, p) in s.processes.iter().enumerate().take(2) {
            write!(f, "{}{}[{}]", if i == 0 { " " } else { "," }, p.name, p.pid)?;
        }
        match s.processes.len() {
            0..=2 => Ok(()),
            n => write!(f, " and {} more", n - 2),
        }
    }
}
