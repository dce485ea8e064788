//! Counting for the summary of `track`.

use std::collections::BTreeMap;

use fourtuple::conntrack::{
    Conntrack, EndReason, Reason, ReceivePath, TcpState, Verdict, VerdictKind,
};
use fourtuple::conntrack::{Direction, protocol_name};

use crate::feed::Read;
use crate::schema::{Connections, Damage, StateCount, Summary};
use crate::stamp::Stamper;

/// Counts made packet by packet; everything else is counted by the tracker or at the end.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    verdicts: [u64; VerdictKind::ALL.len()],
    opened: u64,
    reset: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn count(&mut self, verdict: &Verdict) {
        self.verdicts[verdict.kind as usize] += 1;
        self.opened += u64::from(verdict.change.created);
        self.reset += u64::from(verdict.change.ended);
    }

    /// Everything, at the end.
    pub(crate) fn summary(
        &self,
        read: &Read,
        path: &ReceivePath,
        stamper: &mut Stamper,
    ) -> Summary {
        let reasons = Reason::ALL.iter().map(|&r| (r.word(), path.count(r)));
        let span = read.earliest.zip(read.latest).map(|(first, last)| last.since(first));
        Summary {
            packets: read.packets,
            bytes: read.bytes,
            first: read.earliest.map(|at| stamper.stamp(at)),
            last: read.latest.map(|at| stamper.stamp(at)),
            span_ns: span.unwrap_or_default().as_nanos(),
            without_time: read.without_time,
            clock_backwards: path.conntrack().stats().clock_backwards,
            verdicts: VerdictKind::ALL
                .iter()
                .map(|&k| (k.word(), self.verdicts[k as usize]))
                .collect(),
            reasons: reasons.filter(|(_, count)| *count > 0).collect(),
            connections: self.connections(path),
            damage: read
                .damage
                .iter()
                .map(|e| Damage {
                    file: e.file().to_owned(),
                    offset: e.offset(),
                    error: e.to_string(),
                })
                .collect(),
        }
    }

    fn connections(&self, path: &ReceivePath) -> Connections {
        let conntrack = path.conntrack();
        let by_state = by_state(conntrack);
        let live = by_state.iter().map(|s| s.count).sum();
        let early = conntrack.stats().early_drop;
        let reopened = path.count(Reason::Reopened);
        // What ended in no other way has timed out, whether or not it was removed yet.
        let others = live + early + reopened + self.reset;
        let ended = [
            (EndReason::Timeout, self.opened.saturating_sub(others)),
            (EndReason::EarlyDrop, early),
            (EndReason::Reset, self.reset),
            (EndReason::Reopened, reopened),
        ];
        Connections {
            opened: self.opened,
            ended: ended
                .into_iter()
                .filter(|(_, n)| *n > 0)
                .map(|(why, n)| (why.word(), n))
                .collect(),
            live,
            peak: conntrack.peak() as u64,
            by_state,
        }
    }
}

fn by_state(conntrack: &Conntrack) -> Vec<StateCount> {
    let mut counts: BTreeMap<(u8, Option<TcpState>), u64> = BTreeMap::new();
    for (_, conn) in conntrack.connections() {
        let protocol = conn.tuple(Direction::Original).protocol;
        *counts.entry((protocol, conn.tcp_state())).or_default() += 1;
    }
    let mut by_name: Vec<StateCount> = Vec::new();
    for ((number, state), count) in counts {
        let (protocol, state) = (protocol_name(number), state.map(TcpState::name));
        // All protocols without a name are one.
        match by_name.iter_mut().find(|s| (s.protocol, s.state) == (protocol, state)) {
            Some(known) => known.count += count,
            None => by_name.push(StateCount { protocol, state, count }),
        }
    }
    by_name
}
