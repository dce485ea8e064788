//! Events: what happened to connections, in order.

use std::collections::VecDeque;

use fourtuple_packet::Instant;

use crate::connection::{Connection, EventBits};

/// Kind of an event message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The connection was confirmed.
    New,
    /// Its status, state or mark changed.
    Update,
    /// It ended.
    Destroy,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its time-out ran out.
    Timeout,
    /// Evicted because the table was full and it was not assured.
    EarlyDrop,
    /// A RST before any reply was recorded.
    Reset,
    /// A SYN reopened it.
    Reopened,
    /// Deleted or flushed by the user.
    Deleted,
}

impl EndReason {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Timeout, Self::EarlyDrop, Self::Reset, Self::Reopened, Self::Deleted];

    /// The word in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::EarlyDrop => "early-drop",
            Self::Reset => "reset",
            Self::Reopened => "reopened",
            Self::Deleted => "deleted",
        }
    }
}

/// One event. A packet makes at most one for its connection, delivered when the packet has passed.
#[derive(Clone, Debug)]
pub struct Event {
    /// Number of the event, from 1, without gaps except where events were lost.
    pub sequence: u64,
    /// Kind.
    pub kind: EventKind,
    /// When it happened: for the end by time-out, the moment it ran out.
    pub at: Instant,
    /// What changed.
    pub bits: EventBits,
    /// Why the connection ended, for [`EventKind::Destroy`].
    pub end: Option<EndReason>,
    /// The connection as it was just after the event.
    pub connection: Connection,
}

/// A bounded queue of events. When it is full the new event is counted as lost, as a netlink socket does it.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    capacity: usize,
    sequence: u64,
    lost: u64,
}

impl Events {
    pub(crate) fn enable(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    pub(crate) const fn enabled(&self) -> bool {
        self.capacity > 0
    }

    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    /// Queues an event; `connection` is only copied if there is room.
    pub(crate) fn push(
        &mut self,
        kind: EventKind,
        at: Instant,
        bits: EventBits,
        end: Option<EndReason>,
        connection: &Connection,
    ) {
        if !self.enabled() {
            return;
        }
        self.sequence += 1;
        if self.queue.len() >= self.capacity {
            self.lost += 1;
            return;
        }
        let connection = connection.clone();
        let sequence = self.sequence;
        self.queue.push_back(Event { sequence, kind, at, bits, end, connection });
    }
}
