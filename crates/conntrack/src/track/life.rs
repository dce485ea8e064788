//! An entry's life: made, given room, confirmed, merged, ended.

use fourtuple_packet::{Instant, Span, protocol};

use super::{Conntrack, Context};
use crate::connection::{Connection, Counters, EventBits, Proto, Status};
use crate::events::{EndReason, EventKind};
use crate::reason::{Reason, VerdictKind};
use crate::tuple::Tuple;
use crate::verdict::{Change, Detail, Verdict};

impl Conntrack {
    /// A connection without protocol state.
    pub(super) fn blank(&self, original: &Tuple, reply: &Tuple, context: &Context) -> Connection {
        Connection {
            serial: 0,
            tuples: [*original, *reply],
            hashes: [0; 2],
            zone: context.zone,
            net: context.net,
            status: Status(0),
            mark: 0,
            timeout: Span::ZERO,
            expires: Instant::ZERO,
            armed: Instant::ZERO,
            start: Instant::ZERO,
            timestamp: self.settings.timestamp,
            acct: self.settings.acct,
            mirrored: original == reply,
            events: EventBits::default(),
            counters: [Counters::default(); 2],
            proto: Proto::Stateless,
        }
    }

    /// Checks `nf_conntrack_max`, and evicts neighbours of `hash` if need be.
    pub(super) fn make_room(&mut self, hash: u32, net: u32) -> Result<(), Verdict> {
        let max = self.settings.max;
        let count = self.store.count(net) + 1;
        if max == 0 || count <= max {
            return Ok(());
        }
        let victims = self.store.early_drop_victims(self.now, hash, net, self.settings.buckets);
        if victims.is_empty() {
            self.stats.drop += 1;
            let detail = Detail::Full { count, max };
            return Err(Verdict::without(VerdictKind::Dropped, Reason::TableFull, detail));
        }
        for (slot, end) in victims {
            if end == EndReason::EarlyDrop {
                self.stats.early_drop += 1;
            }
            self.end(slot, end);
        }
        Ok(())
    }

    /// Confirms: the entry gets its number, its place in the table, and its time-out starts to run.
    pub(super) fn insert(
        &mut self,
        slot: u32,
        fresh: bool,
        verdict: &mut Verdict,
    ) -> Result<(), Verdict> {
        let now = self.now;
        if let Some(winner) = self.store.clash(now, slot, fresh) {
            return self.resolve_clash(slot, winner, verdict);
        }
        if let Err(probed) = self.store.confirm(now, slot) {
            self.store.free(slot);
            self.stats.chaintoolong += 1;
            self.stats.insert_failed += 1;
            let detail = Detail::Probed(probed);
            return Err(Verdict::without(VerdictKind::Dropped, Reason::ChainTooLong, detail));
        }
        self.serial += 1;
        let conn = &mut self.store[slot];
        conn.serial = self.serial;
        conn.events = EventBits::NEW;
        verdict.connection = Some(self.store.id(slot));
        self.deliver(slot, EventKind::New);
        Ok(())
    }

    /// Two packets of one flow were new at once; `winner` was confirmed first.
    fn resolve_clash(
        &mut self,
        slot: u32,
        winner: u32,
        verdict: &mut Verdict,
    ) -> Result<(), Verdict> {
        let (loser, other) = (&self.store[slot], &self.store[winner]);
        let [original, reply] = loser.tuples;
        let same_flow = other.zone == loser.zone
            && (other.tuples == loser.tuples || other.tuples == [reply, original]);
        // What keeps state per packet cannot be merged after the fact.
        let mergeable = !matches!(
            original.protocol,
            protocol::TCP | protocol::SCTP | protocol::ICMP | protocol::ICMPV6
        );
        let bytes = loser.counters[0];
        self.store.free(slot);
        if !(same_flow && mergeable) {
            self.stats.drop += 1;
            self.stats.insert_failed += 1;
            return Err(Verdict::without(VerdictKind::Dropped, Reason::Clash, Detail::None));
        }
        self.stats.clash_resolve += 1;
        let id = self.store.id(winner);
        let conn = &mut self.store[winner];
        if conn.acct {
            conn.counters[0].packets += 1;
            conn.counters[0].bytes += bytes.bytes;
        }
        verdict.connection = Some(id);
        verdict.change = Change::default();
        Ok(())
    }

    /// Sends what a connection has gathered as one event.
    #[inline]
    pub(super) fn deliver(&mut self, slot: u32, kind: EventKind) {
        // A packet that was queued between receive and confirm may have lost its entry meanwhile.
        let Some(conn) = self.store.get_mut(slot) else {
            return;
        };
        let bits = conn.events;
        if bits == EventBits::default() {
            return;
        }
        conn.events = EventBits::default();
        if self.events.enabled() {
            self.events.push(kind, self.now, bits, None, &self.store[slot]);
        }
    }

    /// Ends a connection.
    pub(super) fn end(&mut self, slot: u32, why: EndReason) {
        let Some(mut conn) = self.store.free(slot) else {
            return;
        };
        conn.status.set(Status::DYING);
        let at = if why == EndReason::Timeout { conn.expires } else { self.now };
        self.events.push(EventKind::Destroy, at, EventBits::DESTROY, Some(why), &conn);
        self.ended = Some(conn);
    }
}
