//! One connection: tuples, status, time-out, counters, protocol state.

use core::fmt;
use fourtuple_packet::{Instant, Span};

use crate::tcp::{TcpState, TcpTrack};
use crate::tuple::{Direction, Tuple, Zone};

/// A connection's handle: good until the connection ends, never mistaken for a later one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    /// Slot in the slab.
    pub(crate) slot: u32,
    /// The connection's number, counted from 1 by order of confirmation; 0 while unconfirmed.
    pub(crate) serial: u64,
}

impl ConnId {
    /// The number that people see: 1 for the first connection confirmed.
    pub const fn number(self) -> u64 {
        self.serial
    }
}

/// Status bits (`CTA_STATUS`, enum ip_conntrack_status).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

impl Status {
    /// Born from an expectation.
    pub const EXPECTED: Self = Self(0x0001);
    /// A packet of the reply direction was accepted.
    pub const SEEN_REPLY: Self = Self(0x0002);
    /// Not to be evicted early.
    pub const ASSURED: Self = Self(0x0004);
    /// In the table.
    pub const CONFIRMED: Self = Self(0x0008);
    /// Being removed.
    pub const DYING: Self = Self(0x0200);
    /// Packets no longer refresh the time-out.
    pub const FIXED_TIMEOUT: Self = Self(0x0400);

    const NAMES: [(Self, &'static str); 16] = [
        (Self::EXPECTED, "expected"),
        (Self::SEEN_REPLY, "seen_reply"),
        (Self::ASSURED, "assured"),
        (Self::CONFIRMED, "confirmed"),
        (Self(0x0010), "src_nat"),
        (Self(0x0020), "dst_nat"),
        (Self(0x0040), "seq_adjust"),
        (Self(0x0080), "src_nat_done"),
        (Self(0x0100), "dst_nat_done"),
        (Self::DYING, "dying"),
        (Self::FIXED_TIMEOUT, "fixed_timeout"),
        (Self(0x0800), "template"),
        (Self(0x1000), "nat_clash"),
        (Self(0x2000), "helper"),
        (Self(0x4000), "offload"),
        (Self(0x8000), "hw_offload"),
    ];

    /// True iff all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Names of the bits that are set, lowest first.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(bit, _)| self.has(*bit)).map(|(_, name)| name)
    }
}

/// Packets and bytes of one direction. Bytes are of the IP packet, header included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What happened to a connection since its last event (enum ip_conntrack_events).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventBits(pub u16);

impl EventBits {
    /// New.
    pub const NEW: Self = Self(1 << 0);
    /// Ended.
    pub const DESTROY: Self = Self(1 << 2);
    /// First reply.
    pub const REPLY: Self = Self(1 << 3);
    /// Became assured.
    pub const ASSURED: Self = Self(1 << 4);
    /// Protocol state changed.
    pub const PROTOINFO: Self = Self(1 << 5);
    /// Mark changed.
    pub const MARK: Self = Self(1 << 7);

    /// True iff all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// State of the protocol's own tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proto {
    /// TCP.
    Tcp(TcpTrack),
    /// UDP: the moment from which on two-way traffic makes it a stream.
    Udp {
        /// Two seconds after the first packet.
        stream_after: Instant,
    },
    /// UDP-Lite, ICMP, ICMPv6 and protocols without a tracker of their own: nothing to keep.
    Stateless,
}

/// A connection.
///
/// The order of fields is that of use: what decides whether a packet belongs here, then what every packet changes, then
/// what only the first and the last packet touch. Entries begin on cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Connection {
    pub(crate) tuples: [Tuple; 2],
    pub(crate) net: u32,
    pub(crate) zone: Zone,
    pub(crate) status: Status,
    pub(crate) events: EventBits,
    /// True iff original and reply tuple are the same: then every packet counts as a reply.
    pub(crate) mirrored: bool,
    pub(crate) acct: bool,
    pub(crate) timestamp: bool,
    pub(crate) serial: u64,
    /// The time-out as last set; counts from confirmation for a connection that is not confirmed.
    pub(crate) timeout: Span,
    /// End of life of a confirmed connection.
    pub(crate) expires: Instant,
    /// When the timer wheel will look at this entry: at or before `expires`.
    pub(crate) armed: Instant,
    pub(crate) counters: [Counters; 2],
    pub(crate) proto: Proto,
    pub(crate) mark: u32,
    /// Hashes under which the two tuples stand in the table, or will when confirmed.
    pub(crate) hashes: [u32; 2],
    pub(crate) start: Instant,
}

impl Connection {
    /// The tuple of direction `dir`.
    pub const fn tuple(&self, dir: Direction) -> &Tuple {
        &self.tuples[dir.index()]
    }

    /// Number of the connection, from 1 by order of confirmation; 0 while unconfirmed.
    pub const fn number(&self) -> u64 {
        self.serial
    }

    /// Status bits.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Zone.
    pub const fn zone(&self) -> Zone {
        self.zone
    }

    /// Net (network namespace) id.
    pub const fn net(&self) -> u32 {
        self.net
    }

    /// Mark.
    pub const fn mark(&self) -> u32 {
        self.mark
    }

    /// Packets and bytes of direction `dir`; `None` if the entry was made without accounting.
    pub fn counters(&self, dir: Direction) -> Option<Counters> {
        self.acct.then(|| self.counters[dir.index()])
    }

    /// When the entry was confirmed; `None` if it was made without time stamps.
    pub fn start(&self) -> Option<Instant> {
        self.timestamp.then_some(self.start)
    }

    /// Time left at `now`. For an unconfirmed entry the whole time-out.
    pub fn remaining(&self, now: Instant) -> Span {
        if self.status.has(Status::CONFIRMED) { self.expires.since(now) } else { self.timeout }
    }

    /// When the entry ends if nothing refreshes it.
    pub const fn expires(&self) -> Instant {
        self.expires
    }

    /// The time-out as last set.
    pub const fn timeout(&self) -> Span {
        self.timeout
    }

    /// Protocol state.
    pub const fn proto(&self) -> &Proto {
        &self.proto
    }

    /// TCP state, `None` for other protocols.
    pub const fn tcp_state(&self) -> Option<TcpState> {
        match &self.proto {
            Proto::Tcp(t) => Some(t.state()),
            _ => None,
        }
    }

    /// Expired entries are never found (`nf_ct_is_expired`).
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.expires <= now
    }

    /// True iff the timers would look at this entry too late.
    pub(crate) fn needs_rearm(&self) -> bool {
        self.expires < self.armed
    }

    /// Sets the time-out, from now on for a confirmed entry (`nf_ct_refresh`).
    pub(crate) fn refresh(&mut self, now: Instant, timeout: Span) {
        if self.status.has(Status::FIXED_TIMEOUT) {
            return;
        }
        self.timeout = timeout;
        if self.status.has(Status::CONFIRMED) {
            self.expires = now + timeout;
        }
    }

    /// Counts a packet of `len` bytes in direction `dir`.
    pub(crate) fn account(&mut self, dir: Direction, len: u32) {
        if self.acct {
            let c = &mut self.counters[dir.index()];
            c.packets += 1;
            c.bytes += u64::from(len);
        }
    }

    /// Switches a status bit on and notes the event, once.
    pub(crate) fn set_once(&mut self, bit: Status, event: EventBits) {
        if !self.status.has(bit) {
            self.status.set(bit);
            self.events.set(event);
        }
    }
}

/// `tcp 10.0.0.1:1111 > 10.0.0.2:80 ESTABLISHED`.
impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tuples[0])?;
        match self.tcp_state() {
            Some(state) => write!(f, " {state}"),
            None => Ok(()),
        }
    }
}
