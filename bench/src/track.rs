//! The whole receive path, packet by packet and in batches.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fourtuple::conntrack::Frame;
use fourtuple::{
    Conntrack, Key, PathOptions, ReceivePath, Settings, TupleHash, Verdict, VerdictKind,
};

use crate::measure::{Case, Plan, Row, Sample, rounds};
use crate::random::Random;
use crate::traffic::{DATA, Protocol, Traffic};

/// Connections whose frames are made at a time.
const CHUNK: usize = 16_384;

const BOTH: [Protocol; 2] = [Protocol::Udp, Protocol::Tcp];

/// A tracker with open connections, and what its packets are made of.
struct Host {
    path: ReceivePath,
    traffic: Traffic,
    r: Random,
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &connections in plan.connections {
        let mut hosts = [Host::open(BOTH[0], connections)?, Host::open(BOTH[1], connections)?];
        let mut cases = Vec::new();
        for (which, protocol) in BOTH.into_iter().enumerate() {
            let name = |how| format!("{how}, {protocol:?} established, {DATA} bytes of data");
            cases.push(Case::new(name("ReceivePath::frames"), move |h: &mut [Host; 2], p| {
                h[which].established(p, batch)
            }));
            cases.push(Case::new(name("ReceivePath::frame"), move |h: &mut [Host; 2], p| {
                h[which].established(p, single)
            }));
        }
        rows.extend(rounds(plan, "track", Some(connections), &mut hosts, cases)?);
        for host in &hosts {
            ensure!(host.path.conntrack().len() == connections, "connections were lost or gained");
        }
    }
    for &connections in plan.opened {
        let cases = BOTH.map(|protocol| {
            Case::new(format!("ReceivePath::frames, {protocol:?}, new"), move |(): &mut (), _| {
                open_new(protocol, connections)
            })
        });
        rows.extend(rounds(plan, "open", Some(connections), &mut (), cases.into())?);
    }
    Ok(rows)
}

/// Without a limit on entries; all else as the kernel's defaults are, checksums verified.
fn path() -> ReceivePath {
    let settings = Settings { max: 0, ..Settings::default() };
    let key = Key::from_words(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    ReceivePath::new(Conntrack::new(settings, TupleHash::default(), key), PathOptions::default())
}

impl Host {
    fn open(protocol: Protocol, connections: usize) -> Result<Self> {
        let (mut path, mut traffic) = (path(), Traffic::new(protocol, connections));
        for from in (0..connections).step_by(CHUNK) {
            traffic.open(from..connections.min(from + CHUNK))?;
            path.frames(traffic.frames(), |_, _, _| {});
        }
        Ok(Self { path, traffic, r: Random(7) })
    }

    fn established(
        &mut self,
        plan: &Plan,
        run: fn(&mut ReceivePath, &[Frame<'_>], VerdictKind) -> (Duration, usize),
    ) -> Result<Sample> {
        self.traffic.established(plan.operations, &mut self.r)?;
        let frames = self.traffic.frames();
        let (elapsed, right) = run(&mut self.path, &frames, VerdictKind::Established);
        ensure!(right == frames.len(), "{right} of {} packets were established", frames.len());
        Ok(Sample { operations: frames.len(), elapsed })
    }
}

/// Opens connections in an empty tracker: what is timed has the table's growth and the memory's first touch in it.
fn open_new(protocol: Protocol, connections: usize) -> Result<Sample> {
    let (mut path, mut traffic) = (path(), Traffic::new(protocol, connections));
    let mut elapsed = Duration::ZERO;
    for from in (0..connections).step_by(CHUNK) {
        traffic.first(from..connections.min(from + CHUNK))?;
        let frames = traffic.frames();
        let (took, right) = batch(&mut path, &frames, VerdictKind::New);
        ensure!(right == frames.len(), "{right} of {} packets were new", frames.len());
        elapsed += took;
    }
    ensure!(path.conntrack().len() == connections, "not every packet opened a connection");
    Ok(Sample { operations: connections, elapsed })
}

/// The time, and how many verdicts were of `kind`.
fn batch(path: &mut ReceivePath, frames: &[Frame<'_>], kind: VerdictKind) -> (Duration, usize) {
    let mut right = 0;
    let start = Instant::now();
    path.frames(black_box(frames).iter().copied(), |_, _, verdict| right += taken(&verdict, kind));
    (start.elapsed(), right)
}

/// As [`batch`], but every frame by itself.
fn single(path: &mut ReceivePath, frames: &[Frame<'_>], kind: VerdictKind) -> (Duration, usize) {
    let mut right = 0;
    let start = Instant::now();
    for frame in black_box(frames) {
        let verdict = path.frame(frame.now, frame.link, frame.data, frame.wire_len);
        right += taken(&verdict, kind);
    }
    (start.elapsed(), right)
}

#[inline(always)]
fn taken(verdict: &Verdict, kind: VerdictKind) -> usize {
    usize::from(black_box(verdict).kind == kind)
}
