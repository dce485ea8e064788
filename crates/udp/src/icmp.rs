//! ICMP errors: which socket they belong to, and what it is told.

use crate::datagram::{Datagram, Tuple};
use crate::errno::Errno;
use crate::route::Router;
use crate::sockets::{Flags, SocketId};
use crate::table::UdpTable;
use crate::trace::{NoTrace, Trace};

/// An ICMP or ICMPv6 error about a datagram that this host sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// The quoted datagram, as it was sent: the source is the local end. The device is the one the
    /// error arrived on.
    pub quoted: Datagram,
    /// ICMP type; ICMPv6 type for a quoted IPv6 datagram.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
}

/// What an error does to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpReport {
    /// Nothing: the type carries no error, or the socket did not ask for soft errors.
    Ignored,
    /// The socket error is set.
    SocketError(Errno),
    /// The socket error is set and a record goes to the error queue (`IP_RECVERR`, `IPV6_RECVERR`).
    Queued(Errno),
}

/// The socket an error belongs to, and what it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpDelivery {
    /// The socket.
    pub socket: SocketId,
    /// What it is told.
    pub report: IcmpReport,
}

/// The errno of an ICMP error for UDP, and whether it is hard. `None`: nothing reaches a socket.
/// `pmtu_dont`: path MTU discovery is switched off.
#[must_use]
pub const fn icmp4_errno(kind: u8, code: u8, pmtu_dont: bool) -> Option<(Errno, bool)> {
    Some(match (kind, code) {
        (3, 0 | 11) => (Errno::ENETUNREACH, false),
        (3, 1 | 12) => (Errno::EHOSTUNREACH, false),
        (3, 2) => (Errno::ENOPROTOOPT, true),
        (3, 3) => (Errno::ECONNREFUSED, true),
        (3, 4) if pmtu_dont => return None,
        (3, 4) => (Errno::EMSGSIZE, true),
        (3, 5) => (Errno::EOPNOTSUPP, false),
        (3, 6 | 9) => (Errno::ENETUNREACH, true),
        (3, 7) => (Errno::EHOSTDOWN, true),
        (3, 8) => (Errno::ENONET, true),
        (3, 10 | 13..=15) => (Errno::EHOSTUNREACH, true),
        (11, 0) => (Errno::EHOSTUNREACH, false),
        (12, _) => (Errno::EPROTO, true),
        _ => return None,
    })
}

/// The same for ICMPv6.
#[must_use]
pub const fn icmp6_errno(kind: u8, code: u8, pmtu_dont: bool) -> Option<(Errno, bool)> {
    Some(match (kind, code) {
        (1, 0) => (Errno::ENETUNREACH, false),
        (1, 1 | 5 | 6) => (Errno::EACCES, true),
        (1, 2 | 3) => (Errno::EHOSTUNREACH, false),
        (1, 4) => (Errno::ECONNREFUSED, true),
        (1, _) => (Errno::EPROTO, true),
        (2, _) => (Errno::EMSGSIZE, !pmtu_dont),
        (3, _) => (Errno::EHOSTUNREACH, false),
        (4, _) => (Errno::EPROTO, true),
        // Informational messages start at 128.
        (0..128, _) => (Errno::EPROTO, false),
        _ => return None,
    })
}

impl<R: Router> UdpTable<R> {
    /// The socket that an ICMP error belongs to; `None` counts as an ICMP input error.
    #[must_use]
    pub fn icmp_error(&self, error: &IcmpError) -> Option<IcmpDelivery> {
        self.icmp_error_traced(error, &mut NoTrace)
    }

    /// [`icmp_error`](Self::icmp_error), telling `trace` every step of the look-up.
    pub fn icmp_error_traced(
        &self,
        error: &IcmpError,
        trace: &mut impl Trace,
    ) -> Option<IcmpDelivery> {
        let mut arrival = self.arrival(&error.quoted)?;
        arrival.packet = false;
        let found = self.search(&error.quoted.tuple.reversed(), &arrival, trace)?;
        let s = self.shared.view(found.socket.index)?;
        let (recverr, errno) = match error.quoted.tuple {
            Tuple::V4 { .. } => (
                s.has(Flags::RECVERR4),
                icmp4_errno(error.kind, error.code, s.has(Flags::PMTU_DONT4)),
            ),
            Tuple::V6 { .. } => (
                s.has(Flags::RECVERR6),
                icmp6_errno(error.kind, error.code, s.has(Flags::PMTU_DONT6)),
            ),
        };
        let report = match errno {
            Some((errno, _)) if recverr => IcmpReport::Queued(errno),
            Some((errno, true)) if s.connected() => IcmpReport::SocketError(errno),
            _ => IcmpReport::Ignored,
        };
        Some(IcmpDelivery { socket: found.socket, report })
    }
}
