//! Packets worth asking about: seeded, repeatable, and made without the tracker's help.
//!
//! A [`Case`] is all that a comparison needs: settings, and steps that are raw IP packets or
//! waits. The same kind and seed give the same case on every machine.
//!
//! ```no_run
//! use fourtuple_oracle::{Judge, generate::{Case, Step}};
//!
//! let case = Case::any(7);
//! let mut judge = Judge::new(&case.settings)?;
//! for step in &case.steps {
//!     match step {
//!         Step::Packet(packet) => println!("{:?}", judge.packet(packet)?.verdict),
//!         Step::Wait(pause) => std::thread::sleep(*pause),
//!     }
//! }
//! # Ok::<(), fourtuple_oracle::Error>(())
//! ```

mod build;
mod extension;
mod fragment;
mod generic;
mod icmp;
mod tcp;
mod udp;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use build::Way;
use fastrand::Rng;

use crate::settings::Settings;

/// One step of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An IP packet, from the IP header on.
    Packet(Vec<u8>),
    /// Time passes.
    Wait(Duration),
}

/// A sequence to put to the kernel and to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What kind it is.
    pub kind: Kind,
    /// The seed it was made from.
    pub seed: u64,
    /// Settings under which it runs.
    pub settings: Settings,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Kinds of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// TCP peers that follow the protocol and then break it.
    TcpTalk,
    /// One TCP packet of any flags at any window edge in any state, then what follows.
    TcpShot,
    /// UDP and UDP-Lite both ways, lengths and checksums wrong.
    Udp,
    /// ICMP and ICMPv6 queries of every type.
    Query,
    /// ICMP and ICMPv6 errors with every kind of quote, redirects.
    IcmpError,
    /// Fragments in any order, overlapping, doubled, missing.
    Fragment,
    /// IPv6 extension header chains.
    Extension,
    /// Other protocols, and IP headers that are wrong.
    Generic,
    /// Several of the above interleaved on the same addresses.
    Mixed,
    /// Short real time-outs and waits. Slow; not among [`Kind::QUICK`].
    Waiting,
}

impl Kind {
    /// Every kind that runs without waiting.
    pub const QUICK: [Self; 9] = [
        Self::TcpTalk,
        Self::TcpShot,
        Self::Udp,
        Self::Query,
        Self::IcmpError,
        Self::Fragment,
        Self::Extension,
        Self::Generic,
        Self::Mixed,
    ];
}

impl Case {
    /// The case of this kind and seed.
    #[must_use]
    pub fn new(kind: Kind, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ (kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let settings = if kind == Kind::Waiting { impatient(&mut rng) } else { settings(&mut rng) };
        let steps = steps(kind, seed, &mut rng);
        Self { kind, seed, settings, steps }
    }

    /// A quick case of a kind drawn from the seed; TCP comes most often.
    #[must_use]
    pub fn any(seed: u64) -> Self {
        let kind = match Rng::with_seed(seed).u8(..16) {
            0..=3 => Kind::TcpTalk,
            4..=7 => Kind::TcpShot,
            8 => Kind::Udp,
            9 => Kind::Query,
            10 | 11 => Kind::IcmpError,
            12 => Kind::Fragment,
            13 => Kind::Extension,
            14 => Kind::Generic,
            _ => Kind::Mixed,
        };
        Self::new(kind, seed)
    }

    /// The packets, without the waits.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.steps.iter().filter_map(|step| match step {
            Step::Packet(packet) => Some(&packet[..]),
            Step::Wait(_) => None,
        })
    }
}

fn steps(kind: Kind, seed: u64, rng: &mut Rng) -> Vec<Step> {
    let packets = match kind {
        Kind::TcpTalk => tcp::talk(rng),
        Kind::TcpShot => tcp::shot(rng, seed),
        Kind::Udp => udp::packets(rng),
        Kind::Query => icmp::queries(rng),
        Kind::IcmpError => icmp::errors(rng),
        Kind::Fragment => fragment::packets(rng),
        Kind::Extension => extension::packets(rng),
        Kind::Generic => generic::packets(rng),
        Kind::Mixed => mixed(rng),
        Kind::Waiting => return waiting(rng),
    };
    packets.into_iter().map(Step::Packet).collect()
}

/// Draws from several kinds in turn, keeping each one's order.
fn mixed(rng: &mut Rng) -> Vec<Vec<u8>> {
    let kinds = &Kind::QUICK[..8];
    let mut queues: Vec<_> = (0..rng.usize(2..5))
        .map(|_| {
            let kind = kinds[rng.usize(..kinds.len())];
            let seed = rng.u64(..);
            steps(kind, seed, rng).into_iter()
        })
        .collect();
    let mut packets = Vec::new();
    while !queues.is_empty() {
        let chosen = rng.usize(..queues.len());
        match queues[chosen].next() {
            Some(Step::Packet(packet)) => packets.push(packet),
            Some(Step::Wait(_)) => {}
            None => drop(queues.swap_remove(chosen)),
        }
    }
    packets
}

/// A few packets, with pauses that let short time-outs run out or nearly so.
fn waiting(rng: &mut Rng) -> Vec<Step> {
    // UDP most often: it alone has a time of its own, two seconds, that no setting names.
    let kinds = [Kind::TcpTalk, Kind::Udp, Kind::Udp, Kind::Query, Kind::IcmpError, Kind::Generic];
    let kind = pick(rng, &kinds);
    let seed = rng.u64(..);
    let mut steps = steps(kind, seed, rng);
    steps.truncate(24);
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..=steps.len());
        // Well off the whole seconds, also in sum, where a tick more or less would decide.
        let pause = [350, 1350, 2350][rng.usize(..3)];
        steps.insert(at, Step::Wait(Duration::from_millis(pause)));
    }
    steps
}

/// The kernel's defaults, or one or two of them changed.
fn settings(rng: &mut Rng) -> Settings {
    // Behind an invalid FIN or RST only 120 seconds and more are cut: lengthened time-outs are never below.
    if rng.u8(..) < 24 {
        return Settings::unlengthened()
            .with("nf_conntrack_tcp_timeout_established", pick(rng, &[100, 117, 123, 200]))
            .with("nf_conntrack_tcp_timeout_unacknowledged", pick(rng, &[7, 90]));
    }
    let mut settings = Settings::default();
    if rng.u8(..) < 100 {
        for _ in 0..rng.u8(1..3) {
            let (name, value) = match rng.u8(..8) {
                0 => ("nf_conntrack_tcp_be_liberal", 1),
                1 => ("nf_conntrack_tcp_loose", 0),
                2 => ("nf_conntrack_tcp_ignore_invalid_rst", 1),
                3 => ("nf_conntrack_checksum", 0),
                4 => ("nf_conntrack_tcp_max_retrans", [0, 1, 2, 10, 255][rng.usize(..5)]),
                5 => ("nf_conntrack_tcp_timeout_max_retrans", [20, 90, 100_000][rng.usize(..3)]),
                6 => ("nf_conntrack_tcp_timeout_unacknowledged", [7, 80, 200_000][rng.usize(..3)]),
                _ => ("nf_conntrack_tcp_timeout_close", [200, 2000][rng.usize(..2)]),
            };
            settings = settings.with(name, value);
        }
    }
    settings
}

/// Real time-outs of two or four seconds: never neighbours, so that what the kernel rounds down
/// to whole seconds still tells which one was set.
fn impatient(rng: &mut Rng) -> Settings {
    let mut settings = Settings::unlengthened();
    let names: Vec<_> =
        settings.iter().map(|(name, _)| name).filter(|name| name.contains("timeout")).collect();
    for name in names {
        settings = settings.with(name, pick(rng, &[2, 4]));
    }
    if chance(rng, 60) {
        // Else an unanswered flow has ended when its two seconds are over.
        settings = settings.with("nf_conntrack_udp_timeout", 4);
    }
    settings
}

/// Two hosts of a family: few enough that cases meet, and the special addresses that matter.
fn hosts(rng: &mut Rng) -> Way {
    let six = rng.u8(..3) == 0;
    let (a, b) = (rng.u8(1..4), rng.u8(4..7));
    Way { src: host(six, a), dst: host(six, b) }
}

fn host(six: bool, number: u8) -> IpAddr {
    if six {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()).into()
    } else {
        Ipv4Addr::new(192, 0, 2, number).into()
    }
}

/// One of `choices`.
fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

/// True `percent` times of a hundred.
fn chance(rng: &mut Rng, percent: u8) -> bool {
    rng.u8(..100) < percent
}

/// Changes bytes so that a checksum is wrong: one bit anywhere from `from` on.
fn spoil(rng: &mut Rng, packet: &mut [u8], from: usize) {
    if from < packet.len() {
        let at = rng.usize(from..packet.len());
        packet[at] ^= 1 << rng.u8(..8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_case() {
        for kind in Kind::QUICK.into_iter().chain([Kind::Waiting]) {
            for seed in 0..200 {
                let case = Case::new(kind, seed);
                assert_eq!(case, Case::new(kind, seed));
                assert!(case.packets().count() > 0, "{kind:?} {seed} is empty");
                assert!(case.packets().all(|packet| packet.len() < 65_536));
            }
            assert_ne!(Case::new(kind, 1).steps, Case::new(kind, 2).steps);
        }
    }

    #[test]
    fn only_waiting_cases_wait() {
        let waits = |case: Case| case.steps.iter().any(|step| matches!(step, Step::Wait(_)));
        assert!((0..500).all(|seed| !waits(Case::any(seed))));
        assert!((0..50).all(|seed| waits(Case::new(Kind::Waiting, seed))));
    }
}
