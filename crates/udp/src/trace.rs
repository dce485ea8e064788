//! What a look-up did, for those who ask.

use crate::sockets::SocketId;

/// A table, or the part of one that a search reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// The table by 4-tuple.
    Hash4,
    /// The table by port and address, the datagram's destination.
    Hash2,
    /// The table by port and address, any address.
    Hash2Any,
    /// The table by port.
    Hash,
}

impl Table {
    /// The table's name in results: `hash4`, `hash2`, `hash2-any`, `hash`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hash4 => "hash4",
            Self::Hash2 => "hash2",
            Self::Hash2Any => "hash2-any",
            Self::Hash => "hash",
        }
    }
}

/// Why a socket in a searched chain is no candidate. The first reason that holds is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// Another namespace.
    Net,
    /// Another port that shares the slot.
    Port,
    /// The socket does not take datagrams of this IP version.
    Family,
    /// Another local address.
    Address,
    /// Connected to another address.
    Peer,
    /// Connected to another port.
    PeerPort,
    /// Bound to another device.
    Device,
}

impl Mismatch {
    /// A few words for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Net => "other namespace",
            Self::Port => "other port",
            Self::Family => "other address family",
            Self::Address => "other local address",
            Self::Peer => "other peer address",
            Self::PeerPort => "other peer port",
            Self::Device => "other device",
        }
    }
}

/// One step of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The port-and-address slot counts no socket of the 4-tuple table: that one is not read.
    TupleSkipped,
    /// A table is read, in the given slot.
    Search(Table, usize),
    /// A socket of the 4-tuple table matched or not.
    Tuple(SocketId, Result<(), Mismatch>),
    /// A socket scored so much, or was disqualified.
    Score(SocketId, Result<i32, Mismatch>),
    /// A reuseport group of `size` chose; `None`: no member may have the datagram.
    Group {
        /// The member through which the group was found.
        through: SocketId,
        /// How many members it has.
        size: usize,
        /// The member chosen.
        chosen: Option<SocketId>,
    },
    /// A group's selector refused the datagram.
    GroupDrop,
    /// A look-up program selected a socket, or refused the datagram.
    Program(Option<SocketId>),
}

/// Takes the steps of a look-up. [`NoTrace`] costs nothing: the calls vanish when compiled.
pub trait Trace {
    /// Takes one step. `event` is only called if somebody listens.
    fn event(&mut self, event: impl FnOnce() -> Event);
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTrace;

impl Trace for NoTrace {
    #[inline(always)]
    fn event(&mut self, _event: impl FnOnce() -> Event) {}
}

impl Trace for Vec<Event> {
    fn event(&mut self, event: impl FnOnce() -> Event) {
        self.push(event());
    }
}
