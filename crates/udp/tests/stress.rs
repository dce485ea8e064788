//! Look-ups while sockets move, on real threads: no socket that stays bound is ever missed, and none is
//! found that the datagram does not belong to.
//!
//! `FOURTUPLE_STRESS_SECONDS` says for how long, 2 if it is not set, shared by the profiles.
#![cfg(not(loom))]

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fourtuple_udp::{
    Config, Datagram, DeviceId, Family, Found, NetId, Profile, SetOption, SockAddr, SocketId,
    SocketOptions, Tuple, UdpTable,
};

fn addr(text: &str) -> SockAddr {
    text.parse::<SocketAddr>().unwrap().into()
}

fn datagram(from: &str, to: &str) -> Datagram {
    Datagram::new(Tuple::new(from.parse().unwrap(), to.parse().unwrap()).unwrap())
}

fn from_port(d: &Datagram, port: u16) -> Datagram {
    let (source, destination) = (d.tuple.source(), d.tuple.destination());
    let tuple = Tuple::new(SocketAddr::new(source.0, port), SocketAddr::from(destination));
    Datagram { tuple: tuple.unwrap(), ..*d }
}

fn seconds() -> f64 {
    let given = std::env::var("FOURTUPLE_STRESS_SECONDS").ok();
    given.map_or(2.0, |s| s.parse().expect("FOURTUPLE_STRESS_SECONDS is a number"))
}

struct World {
    table: UdpTable,
    /// Bound to any address of both kinds and to one; each moves all the time. The datagram is its
    /// peer's, and it takes it at any moment.
    moving: Vec<(SocketId, SockAddr, Datagram)>,
    /// A socket that reconnects between two peers, and their datagrams.
    torn: (SocketId, [SockAddr; 2], [Datagram; 2]),
    /// Never touched: connected ones, and the datagram of each.
    still: Vec<(SocketId, Datagram)>,
    /// Members of a reuseport group that connect and disconnect, and anybody's datagram.
    group: (Vec<SocketId>, Datagram),
    stop: AtomicBool,
}

const STILL: u16 = 400;
/// Ports of peers of the sockets that come and go.
const PASSING: std::ops::Range<u16> = 20_000..24_000;

impl World {
    fn new(profile: Profile) -> Self {
        let mut config = Config::new(profile);
        // Few slots, so that chains are shared.
        config.slots = 128;
        let mut table = UdpTable::new(&config);
        let ip = |s: &str| -> IpAddr { s.parse().unwrap() };
        let addresses = [(ip("10.1.0.1"), 24), (ip("fd01::1"), 64)];
        table.router_mut().add(NetId::FIRST, "d0", &addresses);
        let shared = |local: &str, port: bool| {
            let family = if local.starts_with('[') { Family::V6 } else { Family::V4 };
            let mut options = SocketOptions::new(family);
            (options.reuseaddr, options.reuseport) = (!port, port);
            let s = table.create(&options).unwrap();
            table.bind(s, addr(local)).unwrap();
            s
        };
        let moving = [
            ("0.0.0.0:5001", "10.1.0.9:9000", "10.1.0.1:5001"),
            ("10.1.0.1:5002", "10.1.0.9:9000", "10.1.0.1:5002"),
            ("[::]:5003", "[fd01::9]:9000", "[fd01::1]:5003"),
            ("[::]:5004", "10.1.0.9:9000", "10.1.0.1:5004"),
            ("[fd01::1]:5005", "[fd01::9]:9000", "[fd01::1]:5005"),
            // The same slots of the first table, and so on: neighbours in every chain.
            ("0.0.0.0:5129", "10.1.0.9:9000", "10.1.0.1:5129"),
        ]
        .map(|(local, peer, to)| (shared(local, false), addr(peer), datagram(peer, to)));
        let still = (0..STILL).map(|n| {
            let peer = format!("10.1.0.10:{}", 9000 + n);
            let s = shared("10.1.0.1:5001", false);
            table.connect(s, addr(&peer)).unwrap();
            (s, datagram(&peer, "10.1.0.1:5001"))
        });
        let still = still.collect();
        let peers = ["10.1.0.11:1", "10.1.0.12:2"];
        let torn = shared("10.1.0.1:5006", false);
        table.connect(torn, addr(peers[0])).unwrap();
        let torn = (torn, peers.map(addr), peers.map(|p| datagram(p, "10.1.0.1:5006")));
        let members = (0..3).map(|_| shared("10.1.0.1:5007", true)).collect();
        let group = (members, datagram("10.1.0.99:1", "10.1.0.1:5007"));
        let stop = AtomicBool::new(false);
        Self { moving: moving.to_vec(), still, torn, group, stop, table }
    }

    /// Connects, connects again, disconnects, and changes options of what moves.
    fn move_sockets(&self) {
        let t = &self.table;
        let mut n = 0usize;
        while !self.stop.load(Ordering::Relaxed) {
            n += 1;
            let (s, peer, _) = &self.moving[n % self.moving.len()];
            match n / self.moving.len() % 4 {
                0 => t.connect(*s, *peer).unwrap(),
                1 => t.set(*s, SetOption::RecvErr4(n.is_multiple_of(5))).unwrap(),
                2 => t.connect(*s, *peer).unwrap(),
                _ => t.disconnect(*s).unwrap(),
            }
            t.connect(self.torn.0, self.torn.1[n % 2]).unwrap();
            // At least one of the group stays in it.
            let member = self.group.0[1 + n % 2];
            if n.is_multiple_of(3) {
                t.disconnect(member).unwrap();
            } else {
                let peer = format!("10.1.0.8:{}", 1 + n % 7);
                t.connect(member, addr(&peer)).unwrap();
            }
        }
    }

    /// Sockets come and go on the port of those that are never touched, and on others.
    fn pass(&self) {
        let t = &self.table;
        let mut options = SocketOptions::new(Family::V4);
        options.reuseaddr = true;
        let mut open = std::collections::VecDeque::new();
        let mut round = 0u16;
        while !self.stop.load(Ordering::Relaxed) {
            for peer_port in PASSING {
                let peer = SockAddr::new("10.1.0.10".parse().unwrap(), peer_port);
                let local = if round.is_multiple_of(2) { "10.1.0.1:5001" } else { "10.1.0.1:5129" };
                open.push_back(t.connect_from(&options, addr(local), peer).unwrap());
                let keep = if round.is_multiple_of(3) { 1000 } else { 3 };
                while open.len() > keep {
                    t.close(open.pop_front().unwrap()).unwrap();
                }
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
            }
            round = round.wrapping_add(1);
        }
    }

    fn get(&self, d: &Datagram, batch: bool) -> Option<Found> {
        if !batch {
            return self.table.lookup(d);
        }
        let (mut out, all) = ([None; 3], [*d; 3]);
        self.table.lookup_batch(&all, &mut out);
        out[0]
    }

    fn look(&self, looked: &AtomicU64, batch: bool) {
        let mut n = 0usize;
        while !self.stop.load(Ordering::Relaxed) {
            n += 1;
            let (s, _, d) = &self.moving[n % self.moving.len()];
            let got = self.get(d, batch).map(|f| f.socket);
            assert_eq!(got, Some(*s), "{d:?} was missed or went elsewhere");
            let (s, d) = &self.still[n % self.still.len()];
            let got = self.get(d, batch).map(|f| f.socket);
            assert_eq!(got, Some(*s), "{d:?} of a socket that nobody touches");
            // Either peer's datagram goes to it or to nobody, and never to another.
            let got = self.get(&self.torn.2[n % 2], batch).map(|f| f.socket);
            assert!(got.is_none_or(|s| s == self.torn.0), "{got:?}");
            let d = from_port(&self.group.1, 1000 + (n % 5000) as u16);
            let got = self.get(&d, batch).map(|f| f.socket);
            assert!(got.is_some_and(|s| self.group.0.contains(&s)), "{got:?} of the group");
            // Those that come and go take their peer's only.
            let port = PASSING.start + (n % PASSING.len()) as u16;
            let d = from_port(&self.still[0].1, port);
            let got = self.get(&d, batch).map(|f| f.socket);
            let others = self.still.iter().any(|s| got == Some(s.0));
            assert!(!others, "{d:?} went to another connected socket");
        }
        looked.fetch_add(5 * n as u64, Ordering::Relaxed);
    }
}

fn stress(profile: Profile) {
    let world = World::new(profile);
    let (looked, end) =
        (AtomicU64::new(0), Instant::now() + Duration::from_secs_f64(seconds() / 2.0));
    std::thread::scope(|scope| {
        scope.spawn(|| world.move_sockets());
        scope.spawn(|| world.pass());
        let readers = [false, true].map(|batch| {
            let (world, looked) = (&world, &looked);
            scope.spawn(move || world.look(looked, batch))
        });
        // A reader that fails ends the test at once.
        while Instant::now() < end && readers.iter().all(|r| !r.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        world.stop.store(true, Ordering::Relaxed);
    });
    println!("{profile:?}: {} look-ups", looked.load(Ordering::Relaxed));
    assert!(looked.load(Ordering::Relaxed) > 0);
    // And nothing is left behind.
    for s in world.table.sockets().collect::<Vec<_>>() {
        world.table.close(s).unwrap();
    }
    assert_eq!((world.table.usage().sockets, world.table.usage().tuples), (0, 0));
}

#[test]
fn strict() {
    stress(Profile::Strict);
}

#[test]
fn linux() {
    stress(Profile::Linux);
}

/// What a device change does to look-ups: nothing, where the device is the one datagrams come by.
#[test]
fn devices() {
    for profile in [Profile::Strict, Profile::Linux] {
        let world = World::new(profile);
        let device = DeviceId::new(2);
        let (s, peer, mut d) = world.moving[1];
        d.device = device;
        world.table.connect(s, peer).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..20_000 {
                    let on = if n % 2 == 0 { device } else { None };
                    world.table.set(s, SetOption::Device(on)).unwrap();
                }
                world.stop.store(true, Ordering::Relaxed);
            });
            while !world.stop.load(Ordering::Relaxed) {
                assert_eq!(world.table.lookup(&d).map(|f| f.socket), Some(s));
            }
        });
    }
}
