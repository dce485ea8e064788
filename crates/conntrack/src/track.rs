//! The tracker: look up or make, hand to the protocol, confirm.

mod life;

use fourtuple_packet::{Instant, L4, L4Error, Packet, protocol};

use crate::connection::{ConnId, Connection, EventBits, Status};
use crate::events::{EndReason, Event, EventKind, Events};
use crate::hash::TupleHash;
use crate::icmp::{self, Precheck};
use crate::nets::Hasher;
use crate::protocol::{Handled, Hook, check_header, dispatch, first_state, no_tuple};
use crate::reason::{Reason, VerdictKind};
use crate::settings::Settings;
use crate::store::{Place, Store, node};
use crate::tcp;
use crate::tuple::{Direction, Tuple, Zone};
use crate::verdict::{Change, Detail, Verdict};
use fourtuple_hash::Key;

/// Where a packet meets the tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Zone of the packet (what a template from the raw table gives it).
    pub zone: Zone,
    /// Net (network namespace) id.
    pub net: u32,
    /// True iff checksums are to be verified, if the setting says so, too: at prerouting, not at output.
    pub verify: bool,
}

impl Default for Context {
    /// Zone 0 of net 0 at prerouting.
    fn default() -> Self {
        Self { zone: Zone::DEFAULT, net: 0, verify: true }
    }
}

/// Counters with the kernel's names (`conntrack -S`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets judged invalid by header, tuple or protocol.
    pub invalid: u64,
    /// Packets judged invalid by the ICMP check before the look-up.
    pub error: u64,
    /// Confirmations that failed.
    pub insert_failed: u64,
    /// Packets dropped: table full or unresolved clash.
    pub drop: u64,
    /// Entries evicted to make room.
    pub early_drop: u64,
    /// Clashes that were resolved.
    pub clash_resolve: u64,
    /// Confirmations refused because too many entries share a place.
    pub chaintoolong: u64,
    /// Times at which `now` went backwards and was held.
    pub clock_backwards: u64,
}

/// What is known of a packet of a batch before its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    /// Hash of [`Tuple::peek`]'s guess.
    hash: Option<u32>,
    /// Node of the index that may be the packet's.
    node: Option<u32>,
}

impl Hint {
    pub(crate) const NONE: Self = Self { hash: None, node: None };

    /// It may belong to this connection, in this direction.
    #[inline]
    pub(crate) const fn at(id: ConnId, direction: Direction) -> Self {
        Self { hash: None, node: Some(node(id.slot, direction)) }
    }
}

/// The outcome of [`Conntrack::receive`]: to be given to [`Conntrack::confirm`] when the packet has passed all rules, or
/// to [`Conntrack::discard`] when a rule dropped it.
#[must_use = "an unconfirmed connection stays in memory until it is confirmed or discarded"]
#[derive(Debug)]
pub struct Received {
    verdict: Verdict,
    slot: Option<u32>,
    unconfirmed: bool,
    /// True iff nothing happened between receive and confirm, so the original tuple is known to be free.
    fresh: bool,
}

impl Received {
    const fn without_entry(verdict: Verdict) -> Self {
        Self { verdict, slot: None, unconfirmed: false, fresh: false }
    }

    /// The verdict that rules see.
    pub const fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

/// A connection tracker.
///
/// No I/O and no clock: `now` is an argument. Memory is bounded by `nf_conntrack_max` per net and by the capacity given
/// for events.
#[derive(Debug)]
pub struct Conntrack {
    settings: Settings,
    store: Store,
    events: Events,
    stats: Stats,
    now: Instant,
    serial: u64,
    peak: usize,
    /// The connection that ended last, for whoever asks about the packet that ended it.
    ended: Option<Connection>,
}

/// Entries whose time is up that one call removes at most, so that no packet waits long.
const EXPIRE_BUDGET: usize = 64;

impl Conntrack {
    /// A tracker with an empty table. `key` is the secret of the tuple hash: nobody who sends packets may know it.
    pub fn new(settings: Settings, layout: TupleHash, key: Key) -> Self {
        Self {
            settings,
            store: Store::new(layout, key),
            events: Events::default(),
            stats: Stats::default(),
            now: Instant::ZERO,
            serial: 0,
            peak: 0,
            ended: None,
        }
    }

    /// Looks the packet up, makes an unconfirmed connection for it if there is none, and moves the connection's state.
    pub fn receive(&mut self, now: Instant, packet: &Packet<'_>, context: &Context) -> Received {
        self.receive_hinted(now, packet, context, Hint::NONE)
    }

    /// [`receive`](Self::receive), with what a first look may have found out.
    #[inline]
    fn receive_hinted(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        context: &Context,
        hint: Hint,
    ) -> Received {
        let now = self.tick(now);
        if let L4::Malformed { .. } | L4::Icmp(_) = packet.l4
            && let Some(verdict) = self.before_lookup(packet, context)
        {
            return Received::without_entry(verdict);
        }
        let Some(tuple) = Tuple::of(packet) else {
            let (reason, detail) = no_tuple(packet);
            return Received::without_entry(self.invalid(reason, detail, None));
        };
        let (zone, net) = (context.zone, context.net);
        let mut reopened = false;
        if let Some(node) = hint.node
            && let Some(place) = self.store.still_at(now, node, &tuple, zone, net)
            && !place.expired
        {
            match self.existing(now, packet, context, place) {
                Some(received) => return received,
                None => reopened = true,
            }
        }
        let hash = hint.hash.filter(|_| Tuple::peek_is_exact(packet));
        let hash = hash.unwrap_or_else(|| self.store.hash(&tuple, zone, net));
        debug_assert_eq!(hash, self.store.hash(&tuple, zone, net), "a hint for another packet");
        self.look_up(now, packet, context, (&tuple, hash), reopened)
    }

    /// [`receive`](Self::receive) behind the checks. Out of line: nearly all packets of a batch do without.
    #[inline(never)]
    fn look_up(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        context: &Context,
        (tuple, hash): (&Tuple, u32),
        mut reopened: bool,
    ) -> Received {
        loop {
            match self.store.find(now, hash, tuple, context.zone, context.net) {
                Some(place) if place.expired => self.end(place.slot, EndReason::Timeout),
                Some(place) => match self.existing(now, packet, context, place) {
                    Some(received) => return received,
                    None => reopened = true,
                },
                None => return self.create(now, packet, context, (tuple, hash), reopened),
            }
        }
    }

    /// Puts an unconfirmed connection into the table, or finishes an established connection's packet. The verdict is
    /// that of `receive`, unless confirmation fails.
    pub fn confirm(&mut self, received: Received) -> Verdict {
        let Received { mut verdict, slot, unconfirmed, fresh } = received;
        let Some(slot) = slot else { return verdict };
        if unconfirmed {
            if let Err(failed) = self.insert(slot, fresh, &mut verdict) {
                return failed;
            }
        } else {
            self.deliver(slot, EventKind::Update);
        }
        verdict
    }

    /// Forgets the unconfirmed connection of a packet that was dropped by a rule. State changes of a confirmed
    /// connection stay, as in the kernel.
    pub fn discard(&mut self, received: Received) {
        if let (Some(slot), true) = (received.slot, received.unconfirmed) {
            self.store.free(slot);
        }
    }

    /// [`receive`](Self::receive) and [`confirm`](Self::confirm) in one.
    pub fn track(&mut self, now: Instant, packet: &Packet<'_>, context: &Context) -> Verdict {
        self.track_hinted(now, packet, context, Hint::NONE)
    }

    /// What hashes the tuples of a batch.
    pub(crate) fn hasher(&mut self, context: &Context) -> Hasher {
        self.store.hasher(context.zone, context.net)
    }

    /// First stage of tracking a packet in a batch, of which [`Tuple::peek`] made `tuple`: hashes that, and asks the memory
    /// for the place in the table.
    #[inline]
    pub(crate) fn hint(&self, tuple: &Tuple, hasher: &Hasher) -> Hint {
        let hash = hasher.hash(tuple);
        self.store.prefetch_place(hash);
        Hint { hash: Some(hash), node: None }
    }

    /// Second stage, when the place may have arrived: asks the memory for the connection.
    #[inline]
    pub(crate) fn prefetch(&self, hint: &mut Hint) {
        hint.node = hint.hash.and_then(|hash| self.store.prefetch_entry(hash));
    }

    /// Last stage: [`track`](Self::track), with the hint of the same packet and context. Packets in between may have
    /// changed the table.
    #[inline]
    pub(crate) fn track_hinted(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        context: &Context,
        hint: Hint,
    ) -> Verdict {
        let mut received = self.receive_hinted(now, packet, context, hint);
        if received.slot.is_none() {
            return received.verdict;
        }
        received.fresh = true;
        self.confirm(received)
    }

    /// Moves the clock and removes entries whose time is up, a bounded number of them. The clock never goes back.
    pub fn advance(&mut self, now: Instant) {
        self.tick(now);
    }

    /// Removes every entry whose time is up at `now`, however many there are.
    pub fn expire_all(&mut self, now: Instant) {
        let now = self.tick(now);
        while self.expire(now, usize::MAX) {}
    }

    /// The moment of the last call.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Settings in force.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes settings; entries keep the time-outs they have until their next packet.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Counters.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Entries, unconfirmed and expired ones that were not removed yet included (`nf_conntrack_count` over all nets).
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// True iff there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most entries there have been.
    pub const fn peak(&self) -> usize {
        self.peak
    }

    /// Bytes of memory that entries, index and timers take.
    pub fn memory(&self) -> usize {
        self.store.memory()
    }

    /// Confirmed connections whose time is not up, in no particular order.
    pub fn connections(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.store
            .iter()
            .filter(|(_, c)| c.status.has(Status::CONFIRMED) && !c.is_expired(self.now))
    }

    /// A connection by its handle, also the one that ended last.
    pub fn connection(&self, id: ConnId) -> Option<&Connection> {
        let live = self.store.get(id.slot).filter(|c| c.serial == id.serial);
        live.or_else(|| self.ended.as_ref().filter(|c| c.serial == id.serial))
    }

    /// The connection that a packet with this tuple would belong to, and in which direction.
    pub fn find(&mut self, tuple: &Tuple, zone: Zone, net: u32) -> Option<(ConnId, Direction)> {
        let hash = self.store.hash(tuple, zone, net);
        let place = self.store.find(self.now, hash, tuple, zone, net)?;
        (!place.expired).then(|| (self.store.id(place.slot), place.direction))
    }

    /// Sets a connection's mark; false if the connection has ended.
    pub fn set_mark(&mut self, id: ConnId, mark: u32) -> bool {
        let Some(conn) = self.store.get_mut(id.slot).filter(|c| c.serial == id.serial) else {
            return false;
        };
        if conn.mark != mark {
            conn.mark = mark;
            conn.events.set(EventBits::MARK);
            if conn.status.has(Status::CONFIRMED) {
                self.deliver(id.slot, EventKind::Update);
            }
        }
        true
    }

    /// Deletes a connection; false if it has ended already.
    pub fn delete(&mut self, id: ConnId) -> bool {
        let live = self.store.get(id.slot).is_some_and(|c| c.serial == id.serial && id.serial != 0);
        if live {
            self.end(id.slot, EndReason::Deleted);
        }
        live
    }

    /// Deletes all confirmed connections.
    pub fn flush(&mut self) {
        for slot in self.store.confirmed_slots() {
            self.end(slot, EndReason::Deleted);
        }
    }

    /// Makes events from now on, of which `capacity` wait at most; further ones are counted as lost.
    pub fn enable_events(&mut self, capacity: usize) {
        self.events.enable(capacity);
    }

    /// The oldest waiting event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.next()
    }

    /// Events that found no room.
    pub const fn lost_events(&self) -> u64 {
        self.events.lost()
    }

    /// Holds the clock if it goes back, and expires.
    #[inline]
    fn tick(&mut self, now: Instant) -> Instant {
        if now < self.now {
            self.stats.clock_backwards += 1;
            return self.now;
        }
        self.now = now;
        if self.store.may_be_due(now) {
            self.expire(now, EXPIRE_BUDGET);
        }
        now
    }

    /// Removes entries whose time is up; true iff some may be left.
    #[cold]
    fn expire(&mut self, now: Instant, budget: usize) -> bool {
        let backlog = self.store.collect_due(now, budget);
        while let Some(slot) = self.store.next_due() {
            self.end(slot, EndReason::Timeout);
        }
        backlog
    }

    /// What is decided without a look-up: missing headers, and ICMP.
    #[inline(never)]
    fn before_lookup(&mut self, packet: &Packet<'_>, context: &Context) -> Option<Verdict> {
        if let L4::Malformed { why, .. } = packet.l4 {
            let reason = match why {
                L4Error::Cut => {
                    let detail = Detail::L4(why);
                    return Some(Verdict::without(
                        VerdictKind::Skipped,
                        Reason::CutByCapture,
                        detail,
                    ));
                }
                L4Error::NoNextHeader => Some(Reason::NoNextHeader),
                L4Error::ExtensionCut { .. } => Some(Reason::ExtensionCut),
                L4Error::Fragment => Some(Reason::FragmentUnassembled),
                _ => None,
            };
            if let Some(reason) = reason {
                return Some(self.invalid(reason, Detail::L4(why), None));
            }
        }
        if !matches!(packet.protocol, protocol::ICMP | protocol::ICMPV6) {
            return None;
        }
        match icmp::precheck(&self.settings, context.verify, packet) {
            Precheck::Track => None,
            Precheck::ErrorAbout(tuple) => Some(self.related(packet, context, &tuple)),
            Precheck::Done(verdict) => {
                if verdict.kind == VerdictKind::Invalid {
                    self.stats.error += 1;
                }
                Some(verdict)
            }
        }
    }

    /// An ICMP error about a connection that has `tuple`, the inverse of the quoted packet's.
    fn related(&mut self, packet: &Packet<'_>, context: &Context, tuple: &Tuple) -> Verdict {
        let L4::Icmp(icmp) = packet.l4 else { unreachable!("the check was for ICMP") };
        let detail = Detail::Icmp { ty: icmp.ty, code: icmp.code };
        let hash = self.store.hash(tuple, context.zone, context.net);
        let place = self.store.find(self.now, hash, tuple, context.zone, context.net);
        let Some(place) = place.filter(|p| !p.expired) else {
            self.stats.error += 1;
            return Verdict::without(VerdictKind::Invalid, Reason::IcmpUnknownFlow, detail);
        };
        let conn = &self.store[place.slot];
        let id = self.store.id(place.slot);
        // The error goes to whoever sent the quoted packet, by the address the sender is known under on this side.
        if packet.dst != conn.tuple(place.direction).dst {
            self.stats.error += 1;
            let without =
                Verdict::without(VerdictKind::Invalid, Reason::IcmpWrongDestination, detail);
            return Verdict { connection: Some(id), ..without };
        }
        Verdict {
            direction: Some(place.direction),
            connection: Some(id),
            ..Verdict::without(VerdictKind::Related, Reason::IcmpError, detail)
        }
    }

    fn invalid(&mut self, reason: Reason, detail: Detail, connection: Option<ConnId>) -> Verdict {
        self.stats.invalid += 1;
        Verdict { connection, ..Verdict::without(VerdictKind::Invalid, reason, detail) }
    }

    /// A packet whose tuple is in the table; `None` if it ended the entry and is to start over.
    #[inline]
    fn existing(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        context: &Context,
        place: Place,
    ) -> Option<Received> {
        let Place { slot, direction, .. } = place;
        let hook = Hook { settings: &self.settings, now, direction, len: packet.len };
        let conn = &mut self.store[slot];
        let id = ConnId { slot, serial: conn.serial };
        let (seen_reply, state) = (conn.status.has(Status::SEEN_REPLY), conn.tcp_state());
        let handled = match check_header(hook.settings, context.verify, packet) {
            Ok(()) => dispatch(&hook, conn, packet),
            Err(handled) => handled,
        };
        let rearm = conn.needs_rearm();
        let (note, ended) = match handled {
            Handled::Accept { note, ended } => (note, ended),
            Handled::Invalid(reason, detail) => {
                if rearm {
                    self.store.rearm(slot);
                }
                let verdict = self.invalid(reason, detail, Some(id));
                return Some(Received::without_entry(verdict));
            }
            Handled::Reopen => {
                self.end(slot, EndReason::Reopened);
                return None;
            }
        };
        // An entry that its first reply ends is gone before that reply is noted.
        if direction == Direction::Reply && !ended {
            conn.set_once(Status::SEEN_REPLY, EventBits::REPLY);
        }
        let moved = state.zip(conn.tcp_state()).filter(|(from, to)| from != to);
        let mut verdict = accepted(conn, direction, seen_reply);
        (verdict.reason, verdict.detail) = note.unwrap_or((verdict.reason, Detail::None));
        verdict.connection = Some(id);
        verdict.change = Change { created: false, ended, state: moved };
        if ended {
            self.end(slot, EndReason::Reset);
            return Some(Received::without_entry(verdict));
        }
        // The usual packet leaves nothing to do for `confirm`.
        let slot_to_finish = (conn.events != EventBits::default()).then_some(slot);
        if rearm {
            self.store.rearm(slot);
        }
        Some(Received { verdict, slot: slot_to_finish, unconfirmed: false, fresh: false })
    }

    /// The first packet of a tuple.
    fn create(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        context: &Context,
        (tuple, hash): (&Tuple, u32),
        reopened: bool,
    ) -> Received {
        let refused = Received::without_entry;
        let Some(reply) = tuple.inverse() else {
            let detail = Detail::Icmp { ty: tuple.icmp_type(), code: tuple.icmp_code() };
            return refused(self.invalid(Reason::IcmpNotAQuery, detail, None));
        };
        if let Err(verdict) = self.make_room(hash, context.net) {
            return refused(verdict);
        }
        let hook =
            Hook { settings: &self.settings, now, direction: Direction::Original, len: packet.len };
        let mut conn = self.blank(tuple, &reply, context);
        let handled = check_header(hook.settings, context.verify, packet)
            .and_then(|()| first_state(&hook, packet))
            .map(|proto| {
                conn.proto = proto;
                dispatch(&hook, &mut conn, packet)
            })
            .unwrap_or_else(|refusal| refusal);
        let note = match handled {
            Handled::Accept { note, .. } => note,
            Handled::Invalid(reason, detail) => {
                return refused(self.invalid(reason, detail, None));
            }
            Handled::Reopen => unreachable!("a new connection is not closed"),
        };
        let usual = match conn.tcp_state() {
            _ if reopened => Reason::Reopened,
            Some(tcp::TcpState::Established) => Reason::PickedUp,
            _ => Reason::NewFlow,
        };
        // That a picked-up connection's first ACK is beyond what was seen says nothing: say that it was picked up.
        let note = note.filter(|_| usual == Reason::NewFlow);
        let (reason, detail) = note.unwrap_or((usual, Detail::None));
        let verdict = Verdict {
            direction: Some(Direction::Original),
            change: Change {
                created: true,
                ended: false,
                state: conn.tcp_state().map(|to| (tcp::TcpState::None, to)),
            },
            ..Verdict::without(VerdictKind::New, reason, detail)
        };
        let Some(slot) = self.store.add(conn, hash) else {
            self.stats.drop += 1;
            let count = self.store.count(context.net);
            let detail = Detail::Full { count, max: count };
            return refused(Verdict::without(VerdictKind::Dropped, Reason::TableFull, detail));
        };
        self.peak = self.peak.max(self.store.len());
        Received { verdict, slot: Some(slot), unconfirmed: true, fresh: false }
    }
}

/// Verdict, direction and usual reason of an accepted packet: by the status before it.
fn accepted(conn: &Connection, direction: Direction, seen_reply: bool) -> Verdict {
    let (kind, reason) = match (direction, seen_reply) {
        (_, true) => (VerdictKind::Established, Reason::TwoWay),
        (Direction::Reply, false) => (VerdictKind::Established, Reason::FirstReply),
        (Direction::Original, false) if conn.status.has(Status::EXPECTED) => {
            (VerdictKind::Related, Reason::Unreplied)
        }
        (Direction::Original, false) => (VerdictKind::New, Reason::Unreplied),
    };
    Verdict { direction: Some(direction), ..Verdict::without(kind, reason, Detail::None) }
}
