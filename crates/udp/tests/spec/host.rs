//! A host with a few devices, and short names for what the tests do on it.

use std::net::{IpAddr, SocketAddr};

use fourtuple_hash::Key;
use fourtuple_udp::{
    Config, Datagram, Delivery, DeviceId, Errno, Family, Found, NetConfig, NetId, NoTrace, Profile,
    SetOption, SockAddr, SocketId, SocketOptions, Tuple, UdpTable,
};

pub(crate) const LINUX: Profile = Profile::Linux;
pub(crate) const STRICT: Profile = Profile::Strict;
pub(crate) const BOTH: [Profile; 2] = [LINUX, STRICT];
/// Whether the third table is there.
pub(crate) const HASH4: bool = cfg!(feature = "hash4");

/// Devices: lo (1), d0 (2) with 10.1.0.1/24, 10.1.0.2/24, fd01::1/64, fe80::1/64, and d1 (3) with
/// 10.2.0.1/24, fd02::1/64.
pub(crate) struct Host {
    pub(crate) t: UdpTable,
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn dev(index: u32) -> Option<DeviceId> {
    DeviceId::new(index)
}

pub(crate) const D0: u32 = 2;
pub(crate) const D1: u32 = 3;

pub(crate) fn addr(text: &str) -> SockAddr {
    text.parse::<SocketAddr>().unwrap().into()
}

pub(crate) fn datagram(from: &str, to: &str) -> Datagram {
    Datagram::new(Tuple::new(from.parse().unwrap(), to.parse().unwrap()).unwrap())
}

impl Host {
    pub(crate) fn new(profile: Profile) -> Self {
        Self::with(profile, 1024, |_| {})
    }

    pub(crate) fn with(profile: Profile, slots: u32, f: impl FnOnce(&mut NetConfig)) -> Self {
        let mut config = Config::new(profile);
        config.slots = slots;
        config.key = Key::from_words(7, 9);
        f(&mut config.net);
        let mut t = UdpTable::new(&config);
        let d0 =
            [(ip("10.1.0.1"), 24), (ip("10.1.0.2"), 24), (ip("fd01::1"), 64), (ip("fe80::1"), 64)];
        t.router_mut().add(NetId::FIRST, "d0", &d0);
        t.router_mut().add(NetId::FIRST, "d1", &[(ip("10.2.0.1"), 24), (ip("fd02::1"), 64)]);
        Self { t }
    }

    pub(crate) fn sock(&mut self, family: Family, f: impl FnOnce(&mut SocketOptions)) -> SocketId {
        let mut options = SocketOptions::new(family);
        f(&mut options);
        self.t.create(&options).unwrap()
    }

    pub(crate) fn v4(&mut self) -> SocketId {
        self.sock(Family::V4, |_| {})
    }

    pub(crate) fn v6(&mut self) -> SocketId {
        self.sock(Family::V6, |_| {})
    }

    /// A socket of the family of `local`, with SO_REUSEADDR, bound.
    pub(crate) fn shared(&mut self, local: &str) -> SocketId {
        self.bound(local, |o| o.reuseaddr = true)
    }

    /// The same with SO_REUSEPORT.
    pub(crate) fn member(&mut self, local: &str) -> SocketId {
        self.bound(local, |o| o.reuseport = true)
    }

    pub(crate) fn bound(&mut self, local: &str, f: impl FnOnce(&mut SocketOptions)) -> SocketId {
        let family = if local.starts_with('[') { Family::V6 } else { Family::V4 };
        let s = self.sock(family, f);
        self.bind(s, local).unwrap();
        s
    }

    pub(crate) fn bind(&mut self, s: SocketId, local: &str) -> Result<(), Errno> {
        self.t.bind(s, addr(local))
    }

    pub(crate) fn connect(&mut self, s: SocketId, peer: &str) -> Result<(), Errno> {
        self.t.connect(s, addr(peer))
    }

    pub(crate) fn set(&mut self, s: SocketId, option: SetOption) {
        self.t.set(s, option).unwrap();
    }

    pub(crate) fn local(&self, s: SocketId) -> String {
        let (addr, port) = self.t.info(s).unwrap().local;
        SocketAddr::new(addr, port).to_string()
    }

    pub(crate) fn peer(&self, s: SocketId) -> Option<String> {
        let peer = self.t.info(s).unwrap().peer;
        peer.map(|(addr, port)| SocketAddr::new(addr, port).to_string())
    }

    pub(crate) fn found(&self, from: &str, to: &str) -> Option<Found> {
        self.t.lookup(&datagram(from, to))
    }

    /// Who gets a unicast datagram, by look-up alone.
    pub(crate) fn to(&self, from: &str, to: &str) -> Option<SocketId> {
        self.found(from, to).map(|f| f.socket)
    }

    /// The same with an arrival device.
    pub(crate) fn by(&self, device: u32, from: &str, to: &str) -> Option<SocketId> {
        let mut d = datagram(from, to);
        d.device = dev(device);
        self.t.lookup(&d).map(|f| f.socket)
    }

    pub(crate) fn on_cpu(&self, cpu: u16, from: &str, to: &str) -> Option<SocketId> {
        let mut d = datagram(from, to);
        d.cpu = Some(cpu);
        self.t.lookup(&d).map(|f| f.socket)
    }

    pub(crate) fn receive(&self, device: u32, from: &str, to: &str) -> Delivery {
        let mut d = datagram(from, to);
        d.device = dev(device);
        self.t.receive(&d, &mut NoTrace)
    }

    /// Who gets copies of a datagram that arrives on d0, sorted.
    pub(crate) fn copies(&self, from: &str, to: &str) -> Vec<SocketId> {
        match self.receive(D0, from, to) {
            Delivery::Copies(mut sockets) => {
                sockets.sort_unstable();
                sockets
            }
            Delivery::Dropped(_) => Vec::new(),
            other => panic!("{other:?}"),
        }
    }
}
