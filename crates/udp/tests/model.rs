//! Look-ups after random operations, against a model that scans all sockets and knows no table.
//!
//! The model follows only what the outside can see (`info`, `group_of`) and the times at which a
//! socket entered or moved; which of two equals comes first is decided by those.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use fourtuple_hash_key::key;
use fourtuple_udp::{
    Config, Datagram, DeviceId, Family, NetId, Profile, SetOption, SockAddr, SocketId,
    SocketOptions, Tuple, UdpTable,
};
use proptest::prelude::*;

/// The crate's key type, without a dependency of its own in every test.
mod fourtuple_hash_key {
    pub(crate) fn key() -> fourtuple_hash::Key {
        fourtuple_hash::Key::from_words(0x1234, 0x5678)
    }
}

#[derive(Debug, Clone)]
enum Op {
    Create { six: bool, reuseaddr: bool, reuseport: bool, v6only: bool },
    Bind { who: usize, addr: usize, port: u16 },
    Connect { who: usize, addr: usize, port: u16 },
    Disconnect { who: usize },
    Device { who: usize, device: u32 },
    Cpu { who: usize, cpu: Option<u16> },
    Close { who: usize },
}

const LOCAL4: [&str; 3] = ["0.0.0.0", "10.1.0.1", "10.1.0.2"];
const LOCAL6: [&str; 4] = ["::", "fd01::1", "::ffff:10.1.0.1", "::ffff:0.0.0.0"];
const PEER4: [&str; 2] = ["10.1.0.9", "10.1.0.10"];
const PEER6: [&str; 3] = ["fd01::9", "fd01::10", "::ffff:10.1.0.9"];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let who = 0usize..64;
    let port = prop_oneof![4 => Just(5000u16), 1 => Just(5001)];
    let pport = prop_oneof![4 => Just(9000u16), 1 => Just(9001), 1 => Just(0)];
    let op = prop_oneof![
        3 => (any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(six, reuseaddr, reuseport, v6only)| Op::Create {
                six, reuseaddr, reuseport, v6only: v6only && six }),
        5 => (who.clone(), 0usize..12, port).prop_map(|(who, addr, port)| Op::Bind { who, addr, port }),
        4 => (who.clone(), 0usize..12, pport)
            .prop_map(|(who, addr, port)| Op::Connect { who, addr, port }),
        1 => who.clone().prop_map(|who| Op::Disconnect { who }),
        1 => (who.clone(), 0u32..3).prop_map(|(who, device)| Op::Device { who, device }),
        1 => (who.clone(), prop::option::of(0u16..2)).prop_map(|(who, cpu)| Op::Cpu { who, cpu }),
        1 => who.prop_map(|who| Op::Close { who }),
    ];
    prop::collection::vec(op, 1..60)
}

/// What the model knows of a socket.
#[derive(Debug, Clone)]
struct Seen {
    id: SocketId,
    six: bool,
    v6only: bool,
    reuseport: bool,
    cpu: i32,
    /// The IPv6 peer that Linux keeps.
    kept: Option<IpAddr>,
    /// The IPv4 half of R is the placeholder.
    placeholder: bool,
    peer: Option<(IpAddr, u16)>,
    /// Place in the order of the scored tables: higher comes first.
    scored: i64,
    /// The same in the 4-tuple table, and the tuple it is registered under.
    tuple: Option<(i64, (IpAddr, IpAddr, u16, u16))>,
}

struct Model {
    table: UdpTable,
    profile: Profile,
    sockets: Vec<Seen>,
    time: i64,
}

fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

impl Model {
    fn new(profile: Profile) -> Self {
        let mut config = Config::new(profile);
        config.slots = 65536;
        config.key = key();
        let mut table = UdpTable::new(&config);
        let ip = |s: &str| -> IpAddr { s.parse().unwrap() };
        let d0 = [(ip("10.1.0.1"), 24), (ip("10.1.0.2"), 24), (ip("fd01::1"), 64)];
        table.router_mut().add(NetId::FIRST, "d0", &d0);
        Self { table, profile, sockets: Vec::new(), time: 0 }
    }

    fn now(&mut self) -> i64 {
        self.time += 1;
        self.time
    }

    fn local(&self, i: usize) -> (IpAddr, u16) {
        self.table.info(self.sockets[i].id).unwrap().local
    }

    fn bound(&self, i: usize) -> bool {
        self.table.info(self.sockets[i].id).unwrap().bound
    }

    /// Linux: enters the 4-tuple table once; later moves happen in a rehash only.
    fn enter_tuple(&mut self, i: usize) {
        if !cfg!(feature = "hash4") {
            return;
        }
        let now = self.now();
        let key = self.tuple_of(i);
        let s = &mut self.sockets[i];
        if s.tuple.is_none() {
            s.tuple = Some((now, key));
        }
    }

    fn tuple_of(&self, i: usize) -> (IpAddr, IpAddr, u16, u16) {
        let (local, port) = self.local(i);
        let (peer, pport) = self.sockets[i].peer.unwrap();
        (canonical(local), canonical(peer), port, pport)
    }

    fn settled(&mut self, i: usize) {
        let now = self.now();
        let connected = self.table.info(self.sockets[i].id).unwrap().connected;
        self.sockets[i].scored = now;
        let tuple = connected && self.sockets[i].peer.is_some_and(|p| p.1 != 0);
        self.sockets[i].tuple = None;
        if tuple && cfg!(feature = "hash4") {
            self.sockets[i].tuple = Some((now, self.tuple_of(i)));
        }
    }

    fn apply(&mut self, op: &Op) {
        if let Op::Create { six, reuseaddr, reuseport, v6only } = *op {
            let mut options = SocketOptions::new(if six { Family::V6 } else { Family::V4 });
            (options.reuseaddr, options.reuseport, options.v6only) = (reuseaddr, reuseport, v6only);
            let id = self.table.create(&options).unwrap();
            self.sockets.push(Seen {
                id,
                six,
                v6only,
                reuseport,
                cpu: -1,
                kept: None,
                placeholder: false,
                peer: None,
                scored: 0,
                tuple: None,
            });
            return;
        }
        if self.sockets.is_empty() {
            return;
        }
        let n = self.sockets.len();
        match *op {
            Op::Create { .. } => {}
            Op::Bind { who, addr, port } => self.bind(who % n, addr, port),
            Op::Connect { who, addr, port } => self.connect(who % n, addr, port),
            Op::Disconnect { who } => self.disconnect(who % n),
            Op::Device { who, device } => self.device(who % n, device),
            Op::Cpu { who, cpu } => {
                let s = &mut self.sockets[who % n];
                s.cpu = cpu.map_or(-1, i32::from);
                self.table.set(s.id, SetOption::IncomingCpu(cpu)).unwrap();
            }
            Op::Close { who } => {
                let s = self.sockets.remove(who % n);
                self.table.close(s.id).unwrap();
            }
        }
    }

    fn bind(&mut self, i: usize, addr: usize, port: u16) {
        let six = self.sockets[i].six;
        let addr: IpAddr = if six {
            LOCAL6[addr % LOCAL6.len()].parse().unwrap()
        } else {
            LOCAL4[addr % LOCAL4.len()].parse().unwrap()
        };
        if self.table.bind(self.sockets[i].id, SockAddr::new(addr, port)).is_err() {
            return;
        }
        let now = self.now();
        let tail = six && self.sockets[i].reuseport && self.profile == Profile::Linux;
        let s = &mut self.sockets[i];
        s.scored = if tail { -now } else { now };
        s.peer = None;
        if let IpAddr::V6(v6) = addr
            && !v6.is_unspecified()
            && v6.to_ipv4_mapped().is_none()
        {
            (s.v6only, s.placeholder) = (true, true);
        }
    }

    fn connect(&mut self, i: usize, addr: usize, port: u16) {
        let addr: IpAddr = if self.sockets[i].six {
            PEER6[addr % PEER6.len()].parse().unwrap()
        } else {
            PEER4[addr % PEER4.len()].parse().unwrap()
        };
        let (was_bound, before) = (self.bound(i), self.local(i));
        let result = self.table.connect(self.sockets[i].id, SockAddr::new(addr, port));
        if !was_bound && self.bound(i) {
            // The port was chosen on the way: a bind to any.
            let now = self.now();
            let tail =
                self.sockets[i].six && self.sockets[i].reuseport && self.profile == Profile::Linux;
            self.sockets[i].scored = if tail { -now } else { now };
        }
        if result.is_err() {
            return;
        }
        let after = self.local(i);
        let s = &mut self.sockets[i];
        s.peer = Some((addr, port));
        s.kept = s.six.then_some(addr);
        let native = matches!(addr, IpAddr::V6(a) if a.to_ipv4_mapped().is_none());
        let was_any =
            before.0.is_unspecified() || before.0 == IpAddr::V6("::ffff:0.0.0.0".parse().unwrap());
        match self.profile {
            Profile::Strict => {
                self.sockets[i].placeholder = native;
                self.settled(i);
            }
            Profile::Linux => {
                if was_any && native {
                    s.placeholder = true;
                }
                if canonical(before.0) != canonical(after.0) {
                    let now = self.now();
                    self.sockets[i].scored = now;
                }
                self.enter_tuple(i);
            }
        }
    }

    fn disconnect(&mut self, i: usize) {
        let before = self.local(i).0;
        if self.table.disconnect(self.sockets[i].id).is_err() {
            return;
        }
        let s = &mut self.sockets[i];
        s.peer = None;
        let after = self.table.info(s.id).unwrap();
        if !after.bound {
            s.tuple = None;
        }
        if after.local.0.is_unspecified() {
            s.placeholder = false;
        }
        match self.profile {
            Profile::Strict => {
                s.kept = None;
                if after.bound {
                    self.settled(i);
                }
            }
            Profile::Linux => {
                if before != after.local.0 && after.bound {
                    let now = self.now();
                    self.sockets[i].scored = now;
                    self.sockets[i].tuple = None;
                }
            }
        }
    }

    fn device(&mut self, i: usize, device: u32) {
        let id = self.sockets[i].id;
        if self.table.set(id, SetOption::Device(DeviceId::new(device))).is_err() {
            return;
        }
        if !self.bound(i) {
            return;
        }
        match self.profile {
            Profile::Strict => self.settled(i),
            // A rehash: the second table is left alone, the third follows the present peer.
            Profile::Linux => {
                let Some((_, old)) = self.sockets[i].tuple else {
                    return;
                };
                let now = self.now();
                let (local, port) = self.local(i);
                let zero = if matches!(canonical(local), IpAddr::V4(_)) {
                    "0.0.0.0".parse().unwrap()
                } else {
                    // Disconnected, Linux keeps the peer's IPv6 address.
                    self.sockets[i].kept.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
                };
                let (peer, pport) = self.sockets[i].peer.unwrap_or((zero, 0));
                let new = (canonical(local), canonical(peer), port, pport);
                if new != old {
                    self.sockets[i].tuple = Some((now, new));
                }
            }
        }
    }

    /// The peer address as a score sees it, for one IP version.
    fn peer_for(&self, s: &Seen, six: bool) -> Option<IpAddr> {
        if !six {
            return s.peer.map(|p| canonical(p.0)).filter(IpAddr::is_ipv4);
        }
        match s.peer {
            Some((p, _)) => Some(p),
            None if self.profile == Profile::Linux => s.kept,
            None => None,
        }
    }

    fn score(&self, s: &Seen, d: &Datagram, addr: IpAddr) -> Option<i32> {
        let info = self.table.info(s.id).unwrap();
        let (from, sport) = d.tuple.source();
        let six = from.is_ipv6();
        if !info.bound || info.local.1 != d.tuple.destination().1 {
            return None;
        }
        let weight = if six && self.profile == Profile::Linux { 1 } else { 4 };
        let mut score = 0;
        if six {
            (s.six && info.local.0 == addr).then_some(())?;
        } else {
            // A mapped any is an IPv4 any.
            let mine = canonical(info.local.0);
            let mine = if mine.is_unspecified() { "0.0.0.0".parse().unwrap() } else { mine };
            (!s.v6only && !s.placeholder && mine == addr).then_some(())?;
            score += if s.six { 1 } else { 2 };
        }
        if let Some(peer) = self.peer_for(s, six) {
            (peer == from).then_some(())?;
            score += weight;
        }
        if let Some((_, pport)) = s.peer.filter(|p| p.1 != 0) {
            (pport == sport).then_some(())?;
            score += weight;
        }
        if info.device.is_some() {
            (info.device == d.device).then_some(())?;
            score += weight;
        }
        Some(score + i32::from(d.cpu.is_some_and(|c| i32::from(c) == s.cpu)))
    }

    fn by_tuple(&self, d: &Datagram) -> Option<SocketId> {
        let (from, sport) = d.tuple.source();
        let (to, port) = d.tuple.destination();
        let key = (to, from, port, sport);
        let now_at = |s: &Seen| {
            let info = self.table.info(s.id).unwrap();
            let peer = s.peer.map(|(p, q)| (canonical(p), q));
            info.bound && peer == Some((from, sport)) && canonical(info.local.0) == to
        };
        let fits = |s: &&Seen| {
            let device = self.table.info(s.id).unwrap().device;
            s.tuple.is_some_and(|t| t.1 == key)
                && now_at(s)
                && (device.is_none() || device == d.device)
        };
        let rank = |s: &&Seen| {
            let device = self.table.info(s.id).unwrap().device.is_some();
            (device && self.profile == Profile::Strict, s.tuple.map(|t| t.0))
        };
        self.sockets.iter().filter(fits).max_by_key(rank).map(|s| s.id)
    }

    /// Sockets that may get the datagram; more than one only through a group.
    fn expected(&self, d: &Datagram) -> Vec<SocketId> {
        if let Some(id) = self.by_tuple(d) {
            return vec![id];
        }
        let (to, _) = d.tuple.destination();
        let any: IpAddr = if to.is_ipv4() { "0.0.0.0" } else { "::" }.parse().unwrap();
        for addr in [to, any] {
            let mut order: Vec<&Seen> = self.sockets.iter().collect();
            if self.profile == Profile::Strict {
                order.retain(|s| s.tuple.is_none());
            }
            order.sort_by_key(|s| std::cmp::Reverse(s.scored));
            let mut best: Option<(i32, &Seen)> = None;
            for s in order {
                let Some(score) = self.score(s, d, addr) else {
                    continue;
                };
                if best.is_none_or(|(b, _)| score > b) {
                    best = Some((score, s));
                    // A group that was never connected answers at once.
                    if self.profile == Profile::Linux && !self.group(s).is_empty() {
                        return vec![];
                    }
                }
            }
            if let Some((_, s)) = best {
                let group = self.group(s);
                return if group.is_empty() { vec![s.id] } else { group };
            }
        }
        Vec::new()
    }

    /// The unconnected members of the group that answers for `s`.
    fn group(&self, s: &Seen) -> Vec<SocketId> {
        if self.table.info(s.id).unwrap().connected || !s.reuseport {
            return Vec::new();
        }
        let members = self.table.group_of(s.id).into_iter();
        members.filter(|&m| !self.table.info(m).unwrap().connected).collect()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let froms = ["10.1.0.9", "10.1.0.10", "fd01::9", "fd01::10"];
        let tos = ["10.1.0.1", "10.1.0.2", "fd01::1"];
        for (from, to) in froms.iter().flat_map(|f| tos.iter().map(move |t| (f, t))) {
            for sport in [9000, 9001] {
                for cpu in [None, Some(0)] {
                    let from = SocketAddr::new(from.parse().unwrap(), sport);
                    let to = SocketAddr::new(to.parse().unwrap(), 5000);
                    let Some(tuple) = Tuple::new(from, to) else {
                        continue;
                    };
                    let mut d = Datagram::new(tuple);
                    d.device = DeviceId::new(2);
                    d.cpu = cpu;
                    self.check_one(&d)?;
                }
            }
        }
        Ok(())
    }

    fn check_one(&self, d: &Datagram) -> Result<(), TestCaseError> {
        let found = self.table.lookup(d);
        let expected = self.expected(d);
        // With groups in Linux the order of the chain decides too much for a model this small: then
        // only the winner's own fitness is tested.
        let grouped = self.profile == Profile::Linux
            && self.sockets.iter().any(|s| !self.table.group_of(s.id).is_empty());
        if grouped {
            if let Some(f) = found {
                let s = self.sockets.iter().find(|s| s.id == f.socket).unwrap();
                let (to, _) = d.tuple.destination();
                let any: IpAddr = if to.is_ipv4() { "0.0.0.0" } else { "::" }.parse().unwrap();
                // A group may choose a member that would not fit by itself.
                let members = self.table.group_of(s.id);
                let fits = self.by_tuple(d) == Some(s.id)
                    || self.sockets.iter().any(|o| {
                        (o.id == s.id || (f.by_group && members.contains(&o.id)))
                            && (self.score(o, d, to).is_some() || self.score(o, d, any).is_some())
                    });
                prop_assert!(fits, "{d:?} to {s:?}");
            }
            return Ok(());
        }
        match found {
            None => prop_assert!(expected.is_empty(), "{d:?}: nobody, expected {expected:?}"),
            Some(f) => {
                prop_assert!(expected.contains(&f.socket), "{d:?}: {f:?}, expected {expected:?}");
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn strict_is_a_linear_scan(ops in ops()) {
        let mut model = Model::new(Profile::Strict);
        for op in &ops {
            model.apply(op);
            model.check()?;
        }
    }

    #[test]
    fn linux_is_a_linear_scan(ops in ops()) {
        let mut model = Model::new(Profile::Linux);
        for op in &ops {
            model.apply(op);
            model.check()?;
        }
    }
}
