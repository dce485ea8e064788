//! The search for the one socket of a unicast datagram.

use crate::datagram::{Arrival, Datagram, Tuple};
use crate::hash::Seeds;
use crate::lookup4::Key4;
use crate::lookup6::Key6;
use crate::net::Net;
use crate::profile::{Profile, Rule};
use crate::reuseport::Choice;
use crate::route::{Router, index_of};
use crate::selector::{ProgramInput, ProgramVerdict};
use crate::sockets::{Flags, NONE, Socket, SocketId};
use crate::table::UdpTable;
use crate::trace::{Event, Mismatch, NoTrace, Table, Trace};

/// Where a socket was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Via {
    /// A table.
    Table(Table),
    /// Early demultiplexing, before any table.
    EarlyDemux,
    /// A look-up program chose it.
    Program,
}

impl Via {
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table(table) => table.name(),
            Self::EarlyDemux => "early-demux",
            Self::Program => "program",
        }
    }
}

/// A socket, and how it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The socket.
    pub socket: SocketId,
    /// Where it was found.
    pub via: Via,
    /// Whether a reuseport group chose it.
    pub by_group: bool,
}

/// A datagram as one family's search sees it.
pub(crate) trait Key: Copy {
    /// The search starts with this score to beat.
    const FLOOR: i32;
    /// "Any" of the family.
    const ANY: Self::Addr;
    /// An address of the family.
    type Addr: Copy;

    fn destination(&self) -> Self::Addr;
    fn port(&self) -> u16;
    /// Hash of the destination port and an address.
    fn hash2(&self, net: &Net, addr: Self::Addr) -> u32;
    /// Hash of the 4-tuple.
    fn hash4(&self, seeds: &Seeds, net: &Net) -> u32 {
        self.flow(seeds, net, self.destination())
    }
    /// Hash of the 4-tuple with `addr` as destination. A group at the any address is asked with that
    /// address, so that a flow's member there does not hang on the datagram's destination.
    fn flow(&self, seeds: &Seeds, net: &Net, addr: Self::Addr) -> u32;
    /// The score of a socket for datagrams to `addr`.
    fn score(
        &self,
        s: &Socket,
        addr: Self::Addr,
        a: &Arrival,
        profile: Profile,
    ) -> Result<i32, Mismatch>;
    /// Whether a socket is connected to exactly this 4-tuple, and allowed on the device.
    fn is_tuple(&self, s: &Socket, a: &Arrival) -> Result<(), Mismatch>;
    fn input(&self, a: &Arrival, hash: u32) -> ProgramInput;
}

/// What a scored scan came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    Nothing,
    Socket {
        index: u32,
        by_group: bool,
    },
    /// A group's selector refused.
    Refused,
}

impl<R: Router> UdpTable<R> {
    pub(crate) fn arrival(&self, d: &Datagram) -> Option<Arrival> {
        let config = self.net_config(d.net)?;
        let tcp = self.profile.has(Rule::TupleUsesTcpSetting);
        Some(Arrival {
            net: d.net,
            dif: index_of(d.device),
            sdif: index_of(d.slave),
            cpu: d.cpu.map_or(-1, i32::from),
            accept: config.udp_l3mdev_accept,
            tuple_accept: if tcp { config.tcp_l3mdev_accept } else { config.udp_l3mdev_accept },
            packet: true,
        })
    }

    /// The socket that a unicast datagram to this host belongs to; `None` is "port unreachable".
    ///
    /// Cost: one chain of the second table, plus one of the third if the slot counts sockets there.
    #[must_use]
    pub fn lookup(&self, datagram: &Datagram) -> Option<Found> {
        self.lookup_traced(datagram, &mut NoTrace)
    }

    /// [`lookup`](Self::lookup), telling `trace` every step.
    pub fn lookup_traced(&self, datagram: &Datagram, trace: &mut impl Trace) -> Option<Found> {
        let arrival = self.arrival(datagram)?;
        self.search(&datagram.tuple, &arrival, trace)
    }

    pub(crate) fn search(
        &self,
        tuple: &Tuple,
        arrival: &Arrival,
        trace: &mut impl Trace,
    ) -> Option<Found> {
        match *tuple {
            Tuple::V4 { source, destination } => {
                self.unicast(&Key4::new(source, destination), arrival, trace)
            }
            Tuple::V6 { source, destination } => {
                self.unicast(&Key6::new(source, destination), arrival, trace)
            }
        }
    }

    fn unicast<K: Key>(&self, key: &K, a: &Arrival, trace: &mut impl Trace) -> Option<Found> {
        if key.port() == 0 {
            return None;
        }
        let net = self.net(a.net);
        let to = key.destination();
        let hash2 = key.hash2(net, to);
        let found = |index: u32, table: Table, by_group: bool| {
            let socket = self.sockets.id(index);
            Some(Found { socket, via: Via::Table(table), by_group })
        };
        if let Some(index) = self.by_tuple(key, hash2, a, trace) {
            return found(index, Table::Hash4, false);
        }
        trace.event(|| Event::Search(Table::Hash2, self.addresses.slot(hash2)));
        let exact = self.scan(key, to, hash2, a, trace);
        if let Scan::Socket { index, by_group } = exact
            && self.sockets[index].connected()
        {
            return found(index, Table::Hash2, by_group);
        }
        if !net.programs.is_empty() {
            match self.run_programs(key, a, trace) {
                ProgramVerdict::Pass => {}
                ProgramVerdict::Drop => return None,
                ProgramVerdict::Select { socket, expand } => {
                    return Some(Found { socket, via: Via::Program, by_group: expand });
                }
            }
        }
        match exact {
            Scan::Socket { index, by_group } => return found(index, Table::Hash2, by_group),
            Scan::Refused => return None,
            Scan::Nothing => {}
        }
        let any = key.hash2(net, K::ANY);
        trace.event(|| Event::Search(Table::Hash2Any, self.addresses.slot(any)));
        let wide = self.scan(key, K::ANY, any, a, trace);
        if let Scan::Socket { index, by_group } = wide {
            return found(index, Table::Hash2Any, by_group);
        }
        // The kernel looks here for sockets that are just moving. In a table that changes under
        // `&mut` none is; what else it finds is the defect of the rule's name.
        if !self.profile.has(Rule::PlaceholderReachable) {
            return None;
        }
        let hash1 = Seeds::port(net, key.port());
        trace.event(|| Event::Search(Table::Hash, self.ports.slot(hash1)));
        let index = self.best_by_port(key, hash1, a, trace)?;
        found(index, Table::Hash, false)
    }

    #[cfg(not(feature = "hash4"))]
    fn by_tuple<K: Key>(&self, _: &K, _: u32, _: &Arrival, _: &mut impl Trace) -> Option<u32> {
        None
    }

    /// The third table, if the slot of the second counts anything in it.
    #[cfg(feature = "hash4")]
    #[inline]
    fn by_tuple<K: Key>(
        &self,
        key: &K,
        hash2: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Option<u32> {
        if self.addresses.tuples(hash2) == 0 {
            trace.event(|| Event::TupleSkipped);
            return None;
        }
        let hash4 = key.hash4(&self.seeds, self.net(a.net));
        trace.event(|| Event::Search(Table::Hash4, self.tuples.slot(hash4)));
        let mut best = None;
        for index in self.tuples.chain(&self.sockets, hash4) {
            let s = &self.sockets[index];
            let matched = key.is_tuple(s, a);
            trace.event(|| Event::Tuple(self.sockets.id(index), matched));
            if matched.is_err() {
                continue;
            }
            // The first one, unless a later one is bound to the device.
            if self.profile.has(Rule::TupleIgnoresDevice) || s.device != 0 {
                return Some(index);
            }
            if best.is_none() {
                best = Some(index);
            }
        }
        best
    }

    /// The highest score of one chain of the second table, the first of equals.
    fn scan<K: Key>(
        &self,
        key: &K,
        addr: K::Addr,
        hash2: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Scan {
        let mut best = K::FLOOR;
        let mut result = Scan::Nothing;
        for index in self.addresses.chain(&self.sockets, hash2) {
            let s = &self.sockets[index];
            let score = key.score(s, addr, a, self.profile);
            trace.event(|| Event::Score(self.sockets.id(index), score));
            let Ok(score) = score else { continue };
            if score <= best {
                continue;
            }
            best = score;
            if s.connected() {
                result = Scan::Socket { index, by_group: false };
                continue;
            }
            match self.ask_group(key, addr, index, a, trace) {
                Choice::Nobody => result = Scan::Socket { index, by_group: false },
                Choice::Member(m) if self.answers_early(index) => {
                    return Scan::Socket { index: m, by_group: true };
                }
                Choice::Drop if self.answers_early(index) => return Scan::Refused,
                Choice::Drop => result = Scan::Refused,
                Choice::Member(m) => {
                    result = Scan::Socket { index: m, by_group: true };
                    if let Ok(score) = key.score(&self.sockets[m], addr, a, self.profile) {
                        best = best.max(score);
                    }
                }
            }
        }
        result
    }

    /// Whether the group of `index` answers without the rest of the chain being read.
    fn answers_early(&self, index: u32) -> bool {
        let group = self.sockets[index].group;
        self.profile.has(Rule::GroupReturnsEarly)
            && (group == NONE || !self.groups[group].has_conns)
    }

    fn ask_group<K: Key>(
        &self,
        key: &K,
        addr: K::Addr,
        index: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Choice {
        let s = &self.sockets[index];
        if !s.has(Flags::REUSEPORT) || s.group == NONE {
            return Choice::Nobody;
        }
        let hash = key.flow(&self.seeds, self.net(a.net), addr);
        let input = a.packet.then_some(|| key.input(a, hash));
        let choice = self.choose(index, a.cpu, hash, input);
        trace.event(|| match choice {
            Choice::Drop => Event::GroupDrop,
            Choice::Nobody | Choice::Member(_) => Event::Group {
                through: self.sockets.id(index),
                size: self.groups[s.group].members.len(),
                chosen: match choice {
                    Choice::Member(m) => Some(self.sockets.id(m)),
                    _ => None,
                },
            },
        });
        choice
    }

    /// The programs of the namespace in order: the last selection counts, and any selection more than
    /// a drop.
    fn run_programs<K: Key>(&self, key: &K, a: &Arrival, trace: &mut impl Trace) -> ProgramVerdict {
        let net = self.net(a.net);
        let hash = key.hash4(&self.seeds, net);
        let input = key.input(a, hash);
        let mut verdict = ProgramVerdict::Pass;
        for program in &net.programs {
            match program.run(&input) {
                ProgramVerdict::Pass => {}
                ProgramVerdict::Drop => {
                    if verdict == ProgramVerdict::Pass {
                        verdict = ProgramVerdict::Drop;
                    }
                }
                ProgramVerdict::Select { socket, expand } => {
                    let Some(index) = self.sockets.find(socket) else {
                        continue;
                    };
                    let s = &self.sockets[index];
                    // An IPv4 datagram may go to a dual-stack socket, an IPv6 one to IPv6 ones only.
                    let six = input.destination.0.is_ipv6();
                    if s.net != a.net || (six && !s.is6()) || (!six && s.has(Flags::V6ONLY)) {
                        continue;
                    }
                    let member = match self.choose(index, a.cpu, hash, Some(|| input)) {
                        Choice::Member(m) if expand => Some(m),
                        Choice::Drop if expand => {
                            verdict = ProgramVerdict::Drop;
                            continue;
                        }
                        _ => None,
                    };
                    verdict = ProgramVerdict::Select {
                        socket: member.map_or(socket, |m| self.sockets.id(m)),
                        expand: member.is_some(),
                    };
                }
            }
        }
        match verdict {
            ProgramVerdict::Pass => {}
            ProgramVerdict::Drop => trace.event(|| Event::Program(None)),
            ProgramVerdict::Select { socket, .. } => trace.event(|| Event::Program(Some(socket))),
        }
        verdict
    }

    fn best_by_port<K: Key>(
        &self,
        key: &K,
        hash1: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Option<u32> {
        let mut best = (K::FLOOR, None);
        for index in self.ports.chain(&self.sockets, hash1) {
            let score = key.score(&self.sockets[index], key.destination(), a, self.profile);
            trace.event(|| Event::Score(self.sockets.id(index), score));
            if let Ok(score) = score
                && score > best.0
            {
                best = (score, Some(index));
            }
        }
        best.1
    }

    /// Early demultiplexing: a connected socket that is found without scoring, or nothing, in which
    /// case the datagram goes the ordinary way. Whether it is switched on is the caller's affair
    /// ([`NetConfig::udp_early_demux`](crate::NetConfig::udp_early_demux)), as is leaving it out for
    /// datagrams from the loopback device.
    #[must_use]
    pub fn early_demux(&self, datagram: &Datagram) -> Option<Found> {
        let a = self.arrival(datagram)?;
        let index = match datagram.tuple {
            Tuple::V4 { source, destination } => self.early(&Key4::new(source, destination), &a),
            Tuple::V6 { source, destination } => self.early(&Key6::new(source, destination), &a),
        };
        let socket = self.sockets.id(index?);
        Some(Found { socket, via: Via::EarlyDemux, by_group: false })
    }

    fn early<K: Key>(&self, key: &K, a: &Arrival) -> Option<u32> {
        let hash2 = key.hash2(self.net(a.net), key.destination());
        if self.profile.has(Rule::EarlyDemuxFirst) {
            let first = self.addresses.chain(&self.sockets, hash2).next()?;
            let s = &self.sockets[first];
            return (s.connected() && key.is_tuple(s, a).is_ok()).then_some(first);
        }
        self.by_tuple(key, hash2, a, &mut NoTrace)
    }
}
