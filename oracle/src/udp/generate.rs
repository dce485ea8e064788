//! Scenarios worth asking about: few addresses and ports, so that sockets meet.

use fastrand::Rng;
use fourtuple_udp::scenario::{
    Addr, FilterChange, Number, Operation, OptionFields, SocketFields, Value,
};

use super::sandbox::DEVICES;

/// What a scenario is mostly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Focus {
    /// A bit of everything.
    Mixed,
    /// More than ten sockets on one port, which switches chains.
    Many,
    /// IPv6 and dual stack.
    Six,
    /// Copies to many.
    Multicast,
    /// Reuseport groups that members join and leave.
    Groups,
    /// Ports that the kernel chooses.
    Ports,
    /// ICMP errors.
    Errors,
}

impl Focus {
    const ALL: [Self; 7] = [
        Self::Mixed,
        Self::Many,
        Self::Six,
        Self::Multicast,
        Self::Groups,
        Self::Ports,
        Self::Errors,
    ];
}

/// A scenario and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What it is about.
    pub focus: Focus,
    /// What it was made from.
    pub seed: u64,
    /// The operations, without the devices.
    pub operations: Vec<Operation>,
}

impl Scenario {
    /// The scenario of `seed`, for a machine with so many CPUs.
    #[must_use]
    pub fn new(seed: u64, cpus: u16) -> Self {
        let mut rng = Rng::with_seed(seed);
        let focus = pick(&mut rng, &Focus::ALL);
        let length = match focus {
            Focus::Many => 150,
            _ => 60,
        };
        let cpu = (cpus > 1 && rng.u8(..) < 26).then_some(cpus);
        let home = rng.u16(..cpus.max(1));
        let mut maker = Maker { rng, focus, next: 1, live: Vec::new(), home, roam: cpu };
        let mut operations = maker.settings();
        while operations.len() < length {
            maker.step(&mut operations);
        }
        Self { focus, seed, operations }
    }

    /// The operations that make the devices every scenario runs with.
    #[must_use]
    pub fn devices() -> Vec<Operation> {
        let device = |(name, addresses): (&str, &[&str])| Operation::Device {
            name: name.to_owned(),
            addresses: addresses.iter().map(|&text| text.to_owned()).collect(),
        };
        DEVICES.into_iter().map(device).collect()
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn addr(text: &str) -> Addr {
    let none = |_| Addr { ip: std::net::Ipv4Addr::UNSPECIFIED.into(), scope: None };
    text.parse().unwrap_or_else(none)
}

const BIND4: &[&str] = &[
    "0.0.0.0",
    "0.0.0.0",
    "127.0.0.1",
    "127.0.0.6",
    "10.1.0.1",
    "10.1.0.1",
    "10.1.0.2",
    "10.2.0.1",
    "224.1.1.1",
    "10.1.0.255",
    "9.9.9.9",
    "255.255.255.255",
];
const BIND6: &[&str] = &[
    "::",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%d0",
    "fe80::1%d1",
    "ff02::7%d0",
    "fd01::1",
    "fd01::1",
    "fd02::1",
    "::ffff:10.1.0.1",
    "::ffff:127.0.0.1",
    "::ffff:127.0.0.6",
    "::ffff:0.0.0.0",
    "ff05::5",
    "fd09::9",
];
const PEER4: &[&str] = &[
    "10.1.0.9",
    "10.1.0.9",
    "10.1.0.9",
    "10.1.0.10",
    "10.2.0.9",
    "127.0.0.1",
    "127.0.0.1",
    "0.0.0.0",
    "8.8.8.8",
    "10.1.0.255",
    "224.1.1.1",
    "10.1.0.1",
];
const PEER6: &[&str] = &[
    "fd01::9",
    "fd01::9",
    "fd02::9",
    "fe80::9",
    "fe80::9%d0",
    "fe80::9%d1",
    "ff02::7%d0",
    "ff05::5",
    "::1",
    "::",
    "::ffff:10.1.0.9",
    "::ffff:10.1.0.9",
    "::ffff:127.0.0.1",
    "fd08::8",
];
/// Arrival device, source, destination.
const UNICAST: &[(&str, &str, &str)] = &[
    ("d0", "10.1.0.9", "10.1.0.1"),
    ("d0", "10.1.0.9", "10.1.0.1"),
    ("d0", "10.1.0.10", "10.1.0.1"),
    ("d0", "10.1.0.9", "10.1.0.2"),
    ("d0", "8.8.8.8", "10.1.0.1"),
    // An address of the other device: hosts accept it.
    ("d0", "10.1.0.9", "10.2.0.1"),
    ("d1", "10.2.0.9", "10.2.0.1"),
    ("d1", "10.2.0.9", "10.1.0.1"),
    ("lo", "127.0.0.1", "127.0.0.1"),
    ("lo", "127.0.0.1", "127.0.0.6"),
    ("lo", "10.1.0.1", "10.1.0.1"),
    ("d0", "10.1.0.9", "10.1.0.77"),
];
const UNICAST6: &[(&str, &str, &str)] = &[
    ("d0", "fd01::9", "fd01::1"),
    ("d0", "fd01::9", "fd01::1"),
    ("d0", "fd01::9", "fd02::1"),
    ("d1", "fd02::9", "fd02::1"),
    ("lo", "::1", "::1"),
    ("lo", "fd01::1", "fd01::1"),
    ("d0", "fe80::9", "fe80::1"),
];
/// Flows that a sandbox must refuse before it is used.
pub(super) const ANSWERED: [(&str, &str, &str); 8] = [
    ("d0", "10.1.0.9", "10.1.0.1"),
    ("d0", "10.1.0.9", "10.2.0.1"),
    ("d1", "10.2.0.9", "10.2.0.1"),
    ("d0", "fd01::9", "fd01::1"),
    ("d0", "fd01::9", "fd02::1"),
    ("d1", "fd02::9", "fd02::1"),
    ("d0", "fe80::9", "fe80::1"),
    ("lo", "::1", "::1"),
];
const COPIES: &[(&str, &str, &str)] = &[
    ("d0", "10.1.0.9", "224.1.1.1"),
    ("d0", "10.1.0.9", "224.1.1.2"),
    ("d1", "10.2.0.9", "224.1.1.1"),
    ("d0", "10.1.0.9", "10.1.0.255"),
    ("d0", "10.1.0.9", "255.255.255.255"),
    ("d0", "fd01::9", "ff05::5"),
    ("d1", "fd02::9", "ff05::5"),
    ("d0", "fe80::9", "ff02::7"),
];

/// Where most meet: binds, peers and datagrams, IPv4 and IPv6.
const HOME_BIND: [&[&str]; 2] = [&["10.1.0.1", "10.1.0.1", "0.0.0.0"], &["fd01::1", "::"]];
const HOME_PEER: [&[&str]; 2] = [&["10.1.0.9"], &["fd01::9", "fd01::9", "::ffff:10.1.0.9"]];
const HOME_SEND: &[(&str, &str, &str)] =
    &[("d0", "10.1.0.9", "10.1.0.1"), ("d0", "10.1.0.9", "10.1.0.1"), ("d0", "fd01::9", "fd01::1")];

struct Maker {
    rng: Rng,
    focus: Focus,
    next: Number,
    live: Vec<(Number, u8)>,
    /// The CPU datagrams arrive on.
    home: u16,
    /// The number of CPUs, if they arrive on all.
    roam: Option<u16>,
}

impl Maker {
    fn of(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    /// Whether to stay where most meet.
    fn at_home(&mut self) -> bool {
        let percent = match self.focus {
            Focus::Groups | Focus::Errors => 85,
            Focus::Multicast => 20,
            _ => 45,
        };
        self.of(percent)
    }

    fn sysctl(name: &str, value: &str) -> Operation {
        Operation::Sysctl { name: name.to_owned(), value: Value::Text(value.to_owned()) }
    }

    /// What is set before the first socket.
    fn settings(&mut self) -> Vec<Operation> {
        let range = match self.focus {
            Focus::Ports => pick(&mut self.rng, &["40000 40000", "40000 40003", "40000 40015"]),
            _ => "40000 40000",
        };
        let mut out = vec![Self::sysctl("net.ipv4.ip_local_port_range", range)];
        if self.focus == Focus::Ports && self.of(40) {
            out.push(Self::sysctl("net.ipv4.ip_local_reserved_ports", "40001-40002,5001"));
        }
        for (name, value) in [
            ("net.ipv4.udp_early_demux", "0"),
            ("net.ipv4.ip_early_demux", "0"),
            ("net.ipv4.ip_nonlocal_bind", "1"),
            ("net.ipv6.ip_nonlocal_bind", "1"),
            ("net.ipv6.bindv6only", "1"),
            ("net.ipv4.ip_unprivileged_port_start", "5001"),
        ] {
            if self.of(5) {
                out.push(Self::sysctl(name, value));
            }
        }
        out
    }

    fn step(&mut self, out: &mut Vec<Operation>) {
        let (share, most) = match self.focus {
            Focus::Many => (45, 40),
            Focus::Groups => (25, 14),
            _ => (20, 14),
        };
        if self.live.is_empty() || (self.live.len() < most && self.of(share)) {
            self.socket(out);
            return;
        }
        let (id, family) = pick(&mut self.rng, &self.live);
        let errors = self.focus == Focus::Errors;
        match self.rng.u8(..80) {
            0..10 => out.push(self.bind(id, family)),
            10..28 => out.push(self.connect(id, family)),
            28..34 => out.push(Operation::Disconnect { id }),
            34..38 => {
                self.live.retain(|&(live, _)| live != id);
                out.push(Operation::Close { id });
            }
            38..44 => out.push(self.set(id)),
            44..49 => out.push(self.membership(id, family)),
            49..51 => out.push(Operation::Autobind { id }),
            51..53 => out.push(self.icmp()),
            53..66 if errors => out.push(self.icmp()),
            _ => {
                let send = self.send();
                if self.of(15) {
                    // The same flow must come to the same socket.
                    out.push(send.clone());
                }
                out.push(send);
            }
        }
    }

    fn socket(&mut self, out: &mut Vec<Operation>) {
        let six = match self.focus {
            Focus::Six => 75,
            _ => 33,
        };
        let family = if self.of(six) { 6 } else { 4 };
        let mut o = OptionFields::default();
        let kind = self.rng.u8(..100);
        o.reuseaddr = (kind < 45).then_some(true);
        o.reuseport = (35..75).contains(&kind).then_some(true);
        let focus = self.focus;
        match focus {
            Focus::Many if self.of(60) => (o.reuseaddr, o.reuseport) = (Some(true), None),
            Focus::Groups if self.of(80) => (o.reuseaddr, o.reuseport) = (None, Some(true)),
            _ => {}
        }
        o.v6only = (family == 6 && self.of(25)).then(|| self.rng.u8(..4) != 0);
        o.broadcast = self.of(10).then_some(true);
        o.freebind = self.of(8).then_some(true);
        o.recverr = self.of(if self.focus == Focus::Errors { 30 } else { 5 }).then_some(true);
        if family == 6 {
            o.recverr6 = o.recverr.filter(|_| self.of(50));
            o.no_check6_rx = self.of(8).then_some(true);
        }
        o.device = self.of(10).then(|| Some(pick(&mut self.rng, &["d0", "d1", "lo"]).to_owned()));
        if self.focus == Focus::Ports && self.of(40) {
            o.local_port_range = Some(self.range());
        }
        let owner = self.of(if self.focus == Focus::Groups { 3 } else { 10 });
        let id = self.next;
        self.next += 1;
        self.live.push((id, family));
        out.push(Operation::Socket(SocketFields {
            id,
            family,
            uid: if owner { 1000 } else { 0 },
            privileged: (owner && self.of(50)).then_some(true),
            options: o,
        }));
        if self.of(80) {
            out.push(self.bind(id, family));
        }
    }

    fn range(&mut self) -> (u16, u16) {
        let low = pick(&mut self.rng, &[0, 39_999, 40_000, 40_002, 40_003]);
        let high = pick(&mut self.rng, &[0, 40_003, 40_004, 40_008, 41_000]);
        (low, high)
    }

    /// One of `own`, now and then one of the other family's.
    fn of_family(&mut self, family: u8, own: [&[&str]; 2], strange: u8) -> Addr {
        let six = (family == 6) != self.of(strange);
        addr(pick(&mut self.rng, own[usize::from(six)]))
    }

    fn bind(&mut self, id: Number, family: u8) -> Operation {
        if self.focus != Focus::Ports && self.at_home() {
            let at = self.of_family(family, HOME_BIND, 1);
            return Operation::Bind { id, addr: at, port: 5000 };
        }
        let at = self.of_family(family, [BIND4, BIND6], 2);
        let ports: &[u16] = match self.focus {
            Focus::Ports => &[0, 0, 0, 5000, 40_000, 40_001],
            _ => &[5000, 5000, 5000, 5000, 5001, 0, 0, 80],
        };
        Operation::Bind { id, addr: at, port: pick(&mut self.rng, ports) }
    }

    fn connect(&mut self, id: Number, family: u8) -> Operation {
        if self.at_home() {
            let to = self.of_family(family, HOME_PEER, 2);
            return Operation::Connect { id, addr: to, port: 9000 };
        }
        let to = self.of_family(family, [PEER4, PEER6], 8);
        let port = pick(&mut self.rng, &[9000, 9000, 9000, 9000, 9001, 0]);
        Operation::Connect { id, addr: to, port }
    }

    fn set(&mut self, id: Number) -> Operation {
        let mut o = OptionFields::default();
        let on = Some(self.rng.bool());
        let device = |rng: &mut Rng, from: &[Option<&str>]| pick(rng, from).map(str::to_owned);
        match self.rng.u8(..19) {
            0 => o.reuseaddr = on,
            1 | 2 => o.reuseport = on,
            3 => o.v6only = on,
            4 => o.broadcast = on,
            5 => o.freebind = on,
            6 => o.transparent = on,
            7 => o.bind_address_no_port = on,
            8 => o.recverr = on,
            9 => o.recverr6 = on,
            10 => o.multicast_all = on,
            11 => o.multicast_all6 = on,
            12 => o.no_check6_rx = on,
            13 => o.pmtu_dont = on,
            14 => o.pmtu_dont6 = on,
            15 => o.incoming_cpu = Some(pick(&mut self.rng, &[0, 1, -1])),
            16 if self.focus == Focus::Ports => o.local_port_range = Some(self.range()),
            16 => {
                let to = device(&mut self.rng, &[Some("d0"), Some("d1"), None]);
                match self.rng.bool() {
                    true => o.multicast_if = Some(to),
                    false => o.multicast_if6 = Some(to),
                }
            }
            _ => {
                let from = [Some("d0"), Some("d1"), Some("lo"), None];
                o.device = Some(device(&mut self.rng, &from));
            }
        }
        Operation::Set { id, options: o }
    }

    fn membership(&mut self, id: Number, family: u8) -> Operation {
        let v4 = family == 4 || self.of(30);
        let group = if v4 { pick(&mut self.rng, &["224.1.1.1", "224.1.1.2"]) } else { "ff05::5" };
        let group = addr(if !v4 && self.of(20) { "ff02::7" } else { group });
        let device = Some(pick(&mut self.rng, &["d0", "d0", "d1"]).to_owned());
        let sources: &[&str] =
            if v4 { &["10.1.0.9", "10.1.0.10"] } else { &["fd01::9", "fd02::9"] };
        let source = addr(pick(&mut self.rng, sources));
        let change = match self.rng.u8(..12) {
            0 => FilterChange::Block,
            1 => FilterChange::Unblock,
            2 | 3 => FilterChange::Add,
            4 => FilterChange::Drop,
            5 | 6 => return Operation::Leave { id, group, device },
            _ => return Operation::Join { id, group, device },
        };
        Operation::Source { id, group, device, change, source }
    }

    fn send(&mut self) -> Operation {
        let kind = self.rng.u8(..100);
        let home = self.at_home();
        let copies = if self.focus == Focus::Multicast { 70 } else { 12 };
        let from = match kind {
            _ if kind < copies => COPIES,
            _ if home => HOME_SEND,
            _ if self.focus == Focus::Six && self.of(60) => UNICAST6,
            _ if self.of(30) => UNICAST6,
            _ => UNICAST,
        };
        let (device, src, dst) = pick(&mut self.rng, from);
        let cpu = self.roam.map_or(self.home, |cpus| self.rng.u16(..cpus));
        Operation::Send {
            src: addr(src),
            sport: pick(&mut self.rng, &[9000, 9000, 9000, 9001, 0]),
            dst: addr(dst),
            dport: if home { 5000 } else { pick(&mut self.rng, &[5000, 5000, 5001, 40_000]) },
            device: Some(device.to_owned()),
            n: 1,
            cpu: Some(cpu),
            checksum: !self.of(4),
        }
    }

    fn icmp(&mut self) -> Operation {
        let six = self.of(35);
        // The local end first.
        let ends: &[(&str, &str, &str)] = if six {
            &[("d0", "fd01::1", "fd01::9"), ("d1", "fd02::1", "fd02::9")]
        } else {
            &[
                ("d0", "10.1.0.1", "10.1.0.9"),
                ("d0", "10.1.0.1", "8.8.8.8"),
                ("d1", "10.2.0.1", "10.2.0.9"),
            ]
        };
        let (device, src, dst) = pick(&mut self.rng, ends);
        let (kind, code) = match (six, self.rng.u8(..8)) {
            (false, 0) => (11, 0),
            (false, 1) => (12, 0),
            (false, 2..5) => (3, 3),
            (false, _) => (3, self.rng.u8(..16)),
            (true, 0) => (2, 0),
            (true, 1) => (3, 0),
            (true, 2) => (4, 0),
            (true, 3..6) => (1, 4),
            (true, _) => (1, self.rng.u8(..8)),
        };
        Operation::Icmp {
            kind,
            code,
            src: addr(src),
            sport: pick(&mut self.rng, &[5000, 5000, 5000, 5001, 40_000]),
            dst: addr(dst),
            dport: pick(&mut self.rng, &[9000, 9000, 9000, 9001]),
            device: Some(device.to_owned()),
            cpu: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_scenario_and_reads_back() {
        for seed in 0..50 {
            let scenario = Scenario::new(seed, 2);
            assert_eq!(scenario, Scenario::new(seed, 2));
            for op in &scenario.operations {
                let line = serde_json::to_string(op).unwrap();
                assert_eq!(Operation::parse(&line).unwrap(), *op, "{line}");
            }
        }
        assert_ne!(Scenario::new(0, 2).operations, Scenario::new(1, 2).operations);
    }

    #[test]
    fn every_address_is_one() {
        let ends = [UNICAST, UNICAST6, COPIES].concat();
        let ends = ends.iter().flat_map(|&(_, src, dst)| [src, dst]);
        for text in [BIND4, BIND6, PEER4, PEER6].concat().into_iter().chain(ends) {
            assert_eq!(addr(text).to_string(), text);
        }
    }

    #[test]
    fn scenarios_run_on_the_table_without_a_cause_to_complain() {
        use fourtuple_udp::{Config, Profile, scenario::Runner};
        for seed in 0..200 {
            let mut runner = Runner::new(&Config::new(Profile::Linux));
            for op in Scenario::devices().iter().chain(&Scenario::new(seed, 2).operations) {
                runner.apply(op).unwrap();
            }
        }
    }
}
