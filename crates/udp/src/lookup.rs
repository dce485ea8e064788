//! The search for the one socket of a unicast datagram.

use crate::chain::{Step, Walk};
use crate::datagram::{Arrival, Datagram, Tuple};
use crate::entry::View;
use crate::hash::Seeds;
use crate::lookup4::Key4;
use crate::lookup6::Key6;
use crate::net::Net;
use crate::profile::{Profile, Rule};
use crate::reuseport::Choice;
use crate::route::index_of;
use crate::selector::{LookupProgram, ProgramInput, ProgramVerdict};
use crate::sockets::{Flags, SocketId};
use crate::sync::{Ordering, fence};
use crate::table::UdpTable;
use crate::tables::port::Seated;
use crate::trace::{Event, Mismatch, NoTrace, Table, Trace};

/// How often a look-up is tried anew because a socket moved meanwhile, before every socket of the port
/// is looked at.
const ROUNDS: usize = 32;

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
    /// The score of a socket for datagrams to `addr`. `cpu` is its `SO_INCOMING_CPU`.
    fn score(
        &self,
        s: &View,
        addr: Self::Addr,
        a: &Arrival,
        profile: Profile,
        cpu: i32,
    ) -> Result<i32, Mismatch>;
    /// Whether a socket is connected to exactly this 4-tuple, and allowed on the device.
    fn is_tuple(&self, s: &View, a: &Arrival) -> Result<(), Mismatch>;
    fn input(&self, a: &Arrival, hash: u32) -> ProgramInput;
}

/// What a scored scan came to.
#[derive(Debug, Clone, Copy)]
enum Scan {
    Nothing,
    Socket {
        view: View,
        by_group: bool,
    },
    /// A group's selector refused.
    Refused,
}

/// The outcome of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    found: Option<Found>,
    /// No socket that could matter moved meanwhile, or the outcome does not hang on it.
    sure: bool,
}

fn found(view: &View, via: Via, by_group: bool) -> Option<Found> {
    Some(Found { socket: view.id(), via, by_group })
}

impl<R> UdpTable<R> {
    #[inline]
    pub(crate) fn arrival(&self, d: &Datagram) -> Option<Arrival> {
        let (udp, tcp) = self.nets.get(d.net)?.accepts();
        Some(Arrival {
            net: d.net,
            dif: index_of(d.device),
            sdif: index_of(d.slave),
            cpu: d.cpu.map_or(-1, i32::from),
            accept: udp,
            tuple_accept: if self.profile.has(Rule::TupleUsesTcpSetting) { tcp } else { udp },
            packet: true,
        })
    }

    /// The socket that a unicast datagram to this host belongs to; `None` is "port unreachable".
    ///
    /// Cost: one chain of the second table, plus one of the third if the slot counts sockets there. Look-up
    /// programs may be run more than once for a datagram that comes while sockets move.
    #[must_use]
    pub fn lookup(&self, datagram: &Datagram) -> Option<Found> {
        self.lookup_traced(datagram, &mut NoTrace)
    }

    /// [`lookup`](Self::lookup) of each datagram; the answer to `datagrams[i]` goes to `out[i]`. What one
    /// slice has more than the other is not touched.
    pub fn lookup_batch(&self, datagrams: &[Datagram], out: &mut [Option<Found>]) {
        for (datagram, out) in datagrams.iter().zip(out) {
            *out = self.lookup(datagram);
        }
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

    #[inline]
    fn unicast<K: Key>(&self, key: &K, a: &Arrival, trace: &mut impl Trace) -> Option<Found> {
        if key.port() == 0 {
            return None;
        }
        let hash2 = key.hash2(self.net(a.net), key.destination());
        let round = self.round(key, hash2, a, trace);
        if round.sure { round.found } else { self.again(key, hash2, a, trace) }
    }

    /// Rounds until one is sure; a socket that is found in none of them is looked for where no bound
    /// socket ever leaves.
    #[cold]
    fn again<K: Key>(
        &self,
        key: &K,
        hash2: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Option<Found> {
        let mut last = None;
        for _ in 0..ROUNDS {
            let round = self.round(key, hash2, a, trace);
            if round.sure {
                return round.found;
            }
            last = round.found;
        }
        if last.is_some() {
            return last;
        }
        let hash1 = Seeds::port(self.net(a.net), key.port());
        let view = self
            .best_by_port(key, key.destination(), hash1, a, trace)
            .or_else(|| self.best_by_port(key, K::ANY, hash1, a, trace))?;
        found(&view, Via::Table(Table::Hash), false)
    }

    #[inline]
    fn round<K: Key>(&self, key: &K, hash2: u32, a: &Arrival, trace: &mut impl Trace) -> Round {
        let moves = self.addresses.at(hash2).moves();
        if let Some(view) = self.by_tuple(key, hash2, a, trace) {
            return Round { found: found(&view, Via::Table(Table::Hash4), false), sure: true };
        }
        let round = self.by_score(key, hash2, a, trace);
        // What a walk above read is read before this.
        fence(Ordering::Acquire);
        Round { sure: round.sure && !self.addresses.at(hash2).moved_since(moves), ..round }
    }

    fn by_score<K: Key>(&self, key: &K, hash2: u32, a: &Arrival, trace: &mut impl Trace) -> Round {
        let sure = |found| Round { found, sure: true };
        let net = self.net(a.net);
        let to = key.destination();
        trace.event(|| Event::Search(Table::Hash2, self.addresses.slot(hash2)));
        let exact = self.scan(key, to, hash2, a, trace);
        let at_address = Via::Table(Table::Hash2);
        if let Scan::Socket { view, by_group } = &exact
            && view.connected()
        {
            return sure(found(view, at_address, *by_group));
        }
        if let Some(programs) = net.programs() {
            match self.run_programs(programs.as_slice(), key, a, trace) {
                ProgramVerdict::Pass => {}
                ProgramVerdict::Drop => return sure(None),
                ProgramVerdict::Select { socket, expand } => {
                    return sure(Some(Found { socket, via: Via::Program, by_group: expand }));
                }
            }
        }
        match &exact {
            Scan::Socket { view, by_group } => return sure(found(view, at_address, *by_group)),
            Scan::Refused => return sure(None),
            Scan::Nothing => {}
        }
        let any = key.hash2(net, K::ANY);
        let moves = self.addresses.at(any).moves();
        trace.event(|| Event::Search(Table::Hash2Any, self.addresses.slot(any)));
        let wide = self.scan(key, K::ANY, any, a, trace);
        let result = match &wide {
            Scan::Socket { view, by_group } => found(view, Via::Table(Table::Hash2Any), *by_group),
            // The kernel looks here for sockets that are just moving. What it finds beside those is
            // the defect of the rule's name.
            _ if self.profile.has(Rule::PlaceholderReachable) => {
                let hash1 = Seeds::port(net, key.port());
                trace.event(|| Event::Search(Table::Hash, self.ports.slot(hash1)));
                let best = self.best_by_port(key, to, hash1, a, trace);
                best.and_then(|view| found(&view, Via::Table(Table::Hash), false))
            }
            _ => None,
        };
        fence(Ordering::Acquire);
        Round { found: result, sure: !self.addresses.at(any).moved_since(moves) }
    }

    #[cfg(not(feature = "hash4"))]
    fn by_tuple<K: Key>(&self, _: &K, _: u32, _: &Arrival, _: &mut impl Trace) -> Option<View> {
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
    ) -> Option<View> {
        if self.addresses.at(hash2).tuples() == 0 {
            trace.event(|| Event::TupleSkipped);
            return None;
        }
        let hash4 = key.hash4(&self.seeds, self.net(a.net));
        self.by_hash4(key, hash4, a, trace)
    }

    #[cfg(feature = "hash4")]
    #[inline]
    fn by_hash4<K: Key>(
        &self,
        key: &K,
        hash4: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Option<View> {
        'again: loop {
            let slots = self.tuples.slots();
            let slot = crate::tables::tuple::TupleTable::slot(hash4, slots);
            trace.event(|| Event::Search(Table::Hash4, slot as usize));
            let mut walk = self.tuples.walk(&self.shared, slot)?;
            let mut best = None;
            loop {
                let view = match walk.step() {
                    Step::At(view) => self.shared.whole(view),
                    Step::Torn => continue 'again,
                    Step::End => break,
                };
                let matched = key.is_tuple(&view, a);
                trace.event(|| Event::Tuple(view.id(), matched));
                if matched.is_err() {
                    continue;
                }
                // The first one, unless a later one is bound to the device.
                if self.profile.has(Rule::TupleIgnoresDevice) || view.device != 0 {
                    return Some(view);
                }
                if best.is_none() {
                    best = Some(view);
                }
            }
            // Whoever was moved to a new slot meanwhile was put there before the slot was counted.
            fence(Ordering::Acquire);
            if best.is_some() || self.tuples.slots() == slots {
                return best;
            }
        }
    }

    /// A socket's score.
    #[inline]
    fn score<K: Key>(
        &self,
        key: &K,
        s: &View,
        addr: K::Addr,
        a: &Arrival,
    ) -> Result<i32, Mismatch> {
        let cpu = if a.cpu >= 0 { self.shared.cpu(s.index) } else { -1 };
        key.score(s, addr, a, self.profile, cpu)
    }

    /// The highest score of one chain of the second table, the first of equals.
    #[inline]
    fn scan<K: Key>(
        &self,
        key: &K,
        addr: K::Addr,
        hash2: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Scan {
        let head = &self.addresses.at(hash2).head;
        let mut walk = Walk::new(&self.shared.entries, head);
        let (mut best, mut result) = (K::FLOOR, Scan::Nothing);
        loop {
            let s = match walk.step() {
                Step::At(view) => self.shared.whole(view),
                Step::End => return result,
                Step::Torn => {
                    walk = Walk::new(&self.shared.entries, head);
                    (best, result) = (K::FLOOR, Scan::Nothing);
                    continue;
                }
            };
            let score = self.score(key, &s, addr, a);
            trace.event(|| Event::Score(s.id(), score));
            let Ok(score) = score else { continue };
            if score <= best {
                continue;
            }
            best = score;
            if s.connected() {
                result = Scan::Socket { view: s, by_group: false };
                continue;
            }
            match self.ask_group(key, addr, &s, a, trace) {
                Choice::Nobody => result = Scan::Socket { view: s, by_group: false },
                Choice::Member(m) if self.answers_early(&s) => {
                    return Scan::Socket { view: m, by_group: true };
                }
                Choice::Drop if self.answers_early(&s) => return Scan::Refused,
                Choice::Drop => result = Scan::Refused,
                Choice::Member(m) => {
                    result = Scan::Socket { view: m, by_group: true };
                    if let Ok(score) = self.score(key, &m, addr, a) {
                        best = best.max(score);
                    }
                }
            }
        }
    }

    /// Whether the group of `s` answers without the rest of the chain being read.
    fn answers_early(&self, s: &View) -> bool {
        // In the other profile all sockets of a group score alike but for the CPU, and the group has
        // seen to that: with the first of it asked, the others have nothing to add.
        self.profile.has(Rule::GroupReturnsEarly)
            && self.group_with(s.index).is_none_or(|g| !g.has_conns())
    }

    fn ask_group<K: Key>(
        &self,
        key: &K,
        addr: K::Addr,
        s: &View,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Choice {
        if !s.has(Flags::REUSEPORT) {
            return Choice::Nobody;
        }
        let Some(group) = self.group_with(s.index) else { return Choice::Nobody };
        let hash = key.flow(&self.seeds, self.net(a.net), addr);
        let input = a.packet.then_some(|| key.input(a, hash));
        let choice = self.choose(s, a.cpu, hash, input);
        trace.event(|| match choice {
            Choice::Drop => Event::GroupDrop,
            Choice::Nobody | Choice::Member(_) => Event::Group {
                through: s.id(),
                size: group.count() as usize,
                chosen: match choice {
                    Choice::Member(m) => Some(m.id()),
                    _ => None,
                },
            },
        });
        choice
    }

    /// The programs of the namespace in order: the last selection counts, and any selection more than
    /// a drop.
    fn run_programs<K: Key>(
        &self,
        programs: &[std::sync::Arc<dyn LookupProgram>],
        key: &K,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> ProgramVerdict {
        let hash = key.hash4(&self.seeds, self.net(a.net));
        let input = key.input(a, hash);
        let mut verdict = ProgramVerdict::Pass;
        for program in programs {
            match program.run(&input) {
                ProgramVerdict::Pass => {}
                ProgramVerdict::Drop => {
                    if verdict == ProgramVerdict::Pass {
                        verdict = ProgramVerdict::Drop;
                    }
                }
                ProgramVerdict::Select { socket, expand } => {
                    let Some(s) = self.shared.view(socket.index).filter(|s| s.id() == socket)
                    else {
                        continue;
                    };
                    // An IPv4 datagram may go to a dual-stack socket, an IPv6 one to IPv6 ones only.
                    let six = input.destination.0.is_ipv6();
                    if s.net != a.net || (six && !s.is6()) || (!six && s.has(Flags::V6ONLY)) {
                        continue;
                    }
                    let member = match self.choose(&s, a.cpu, hash, Some(|| input)) {
                        Choice::Member(m) if expand => Some(m),
                        Choice::Drop if expand => {
                            verdict = ProgramVerdict::Drop;
                            continue;
                        }
                        _ => None,
                    };
                    verdict = ProgramVerdict::Select {
                        socket: member.map_or(socket, |m| m.id()),
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
        addr: K::Addr,
        hash1: u32,
        a: &Arrival,
        trace: &mut impl Trace,
    ) -> Option<View> {
        let mut best = (K::FLOOR, None);
        let mut walk = self.ports.walk(&self.shared, hash1);
        loop {
            let view = match walk.step() {
                Seated::At(view) => view,
                Seated::Gone => continue,
                Seated::End => return best.1,
                Seated::Torn => {
                    walk = self.ports.walk(&self.shared, hash1);
                    best = (K::FLOOR, None);
                    continue;
                }
            };
            let score = self.score(key, &view, addr, a);
            trace.event(|| Event::Score(view.id(), score));
            if let Ok(score) = score
                && score > best.0
            {
                best = (score, Some(view));
            }
        }
    }

    /// Early demultiplexing: a connected socket that is found without scoring, or nothing, in which
    /// case the datagram goes the ordinary way. Whether it is switched on is the caller's affair
    /// ([`NetConfig::udp_early_demux`](crate::NetConfig::udp_early_demux)), as is leaving it out for
    /// datagrams from the loopback device.
    #[must_use]
    pub fn early_demux(&self, datagram: &Datagram) -> Option<Found> {
        let a = self.arrival(datagram)?;
        let view = match datagram.tuple {
            Tuple::V4 { source, destination } => self.early(&Key4::new(source, destination), &a),
            Tuple::V6 { source, destination } => self.early(&Key6::new(source, destination), &a),
        };
        found(&view?, Via::EarlyDemux, false)
    }

    fn early<K: Key>(&self, key: &K, a: &Arrival) -> Option<View> {
        let hash2 = key.hash2(self.net(a.net), key.destination());
        if !self.profile.has(Rule::EarlyDemuxFirst) {
            return self.by_tuple(key, hash2, a, &mut NoTrace);
        }
        let head = &self.addresses.at(hash2).head;
        loop {
            match Walk::new(&self.shared.entries, head).step() {
                Step::At(view) => {
                    let first = self.shared.whole(view);
                    let matches = first.connected() && key.is_tuple(&first, a).is_ok();
                    return matches.then_some(first);
                }
                Step::End => return None,
                Step::Torn => {}
            }
        }
    }
}
