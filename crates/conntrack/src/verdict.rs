//! What the tracker answers for one packet, with the numbers behind it.

use core::fmt;
use fourtuple_packet::{
    FragmentError, IpError, L4Error, LinkError, QuoteError, RedirectError, tcp_flags,
};

use crate::connection::ConnId;
use crate::reason::{Reason, VerdictKind};
use crate::tcp::{Kind, TcpState};
use crate::tuple::Direction;

/// The answer for one packet.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// What rules would see.
    pub kind: VerdictKind,
    /// Direction of the packet in its connection; `None` without one.
    pub direction: Option<Direction>,
    /// Why, as one of a closed set.
    pub reason: Reason,
    /// The numbers behind the reason; [`fmt::Display`] makes prose of them.
    pub detail: Detail,
    /// The packet's connection. For an invalid packet, the one whose tuple it bears, although rules would not see it.
    pub connection: Option<ConnId>,
    /// What the packet did to its connection.
    pub change: Change,
}

/// What a packet did to its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// True iff this packet made the entry.
    pub created: bool,
    /// True iff this packet ended the entry.
    pub ended: bool,
    /// TCP state before and after, where it changed.
    pub state: Option<(TcpState, TcpState)>,
}

impl Verdict {
    /// A verdict without a connection.
    pub(crate) const fn without(kind: VerdictKind, reason: Reason, detail: Detail) -> Self {
        Self {
            kind,
            direction: None,
            reason,
            detail,
            connection: None,
            change: Change { created: false, ended: false, state: None },
        }
    }
}

/// Numbers behind a verdict. Kept as they are, so that nothing is formatted until somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// Nothing to add to the reason.
    None,
    /// Transport header.
    L4(L4Error),
    /// IP header.
    Ip(IpError),
    /// Link-layer header.
    Link(LinkError),
    /// Packet quoted in an ICMP error.
    Quote(QuoteError),
    /// ICMPv6 redirect.
    Redirect(RedirectError),
    /// Fragment.
    Fragment(FragmentError),
    /// A 16-bit checksum.
    Checksum {
        /// Checksum in the packet.
        found: u16,
        /// Checksum that would be right.
        expected: u16,
        /// True iff the field holds what a sender leaves for its card to finish.
        offload: bool,
    },
    /// A CRC32c.
    Crc {
        /// Checksum in the packet.
        found: u32,
        /// Checksum that would be right.
        expected: u32,
    },
    /// TCP flags.
    Flags(u8),
    /// A kind of TCP packet in a state.
    State {
        /// The packet's kind.
        kind: Kind,
        /// The connection's state.
        state: TcpState,
        /// The packet's direction.
        direction: Direction,
    },
    /// A sequence number and the upper edge of the window.
    SeqAbove {
        /// Sequence number of the segment.
        seq: u32,
        /// Upper edge: the highest sequence number the receiver has allowed.
        edge: u32,
        /// Largest window the receiver has offered, scaled; 0 if it was never seen.
        window: u32,
    },
    /// An acknowledgement of what was not sent.
    AckAbove {
        /// Acknowledged sequence number, SACK edges included.
        ack: u32,
        /// The highest sequence number the other side has sent.
        end: u32,
    },
    /// A segment that ends below the window.
    EndBelow {
        /// Sequence number after the segment.
        end: u32,
        /// Lower edge of the window.
        edge: u32,
    },
    /// An acknowledgement below the window.
    AckBelow {
        /// Acknowledged sequence number.
        ack: u32,
        /// Lowest acceptable one.
        edge: u32,
    },
    /// RST and what its receiver has acknowledged.
    Rst {
        /// Sequence number of the RST.
        seq: u32,
        /// Highest acknowledgement sent by the RST's receiver.
        expected: u32,
    },
    /// ICMP type and code.
    Icmp {
        /// Type.
        ty: u8,
        /// Code.
        code: u8,
    },
    /// The table is full.
    Full {
        /// Entries, the refused one included.
        count: u32,
        /// The limit.
        max: u32,
    },
    /// Entries looked at for a free place.
    Probed(u32),
    /// Tracked by the generic tracker, for now, although Linux has one of its own.
    Generic(u8),
}

impl From<L4Error> for Detail {
    fn from(e: L4Error) -> Self {
        Self::L4(e)
    }
}

struct FlagNames(u8);

impl fmt::Display for FlagNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(u8, &str); 8] = [
            (tcp_flags::FIN, "FIN"),
            (tcp_flags::SYN, "SYN"),
            (tcp_flags::RST, "RST"),
            (tcp_flags::PSH, "PSH"),
            (tcp_flags::ACK, "ACK"),
            (tcp_flags::URG, "URG"),
            (tcp_flags::ECE, "ECE"),
            (tcp_flags::CWR, "CWR"),
        ];
        let mut sep = "";
        for (bit, name) in NAMES {
            if self.0 & bit != 0 {
                write!(f, "{sep}{name}")?;
                sep = "+";
            }
        }
        if sep.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => Ok(()),
            Self::L4(e) => write!(f, "{e}"),
            Self::Ip(e) => write!(f, "{e}"),
            Self::Link(e) => write!(f, "{e}"),
            Self::Quote(e) => write!(f, "{e}"),
            Self::Redirect(e) => write!(f, "{e}"),
            Self::Fragment(e) => write!(f, "{e}"),
            Self::Checksum { found, expected, offload } => {
                write!(f, "checksum {found:#06x}, right would be {expected:#06x}")?;
                if offload {
                    f.write_str("; it covers the pseudo-header only, as a sender leaves it for its card to finish")?;
                }
                Ok(())
            }
            Self::Crc { found, expected } => {
                write!(f, "checksum {found:#010x}, right would be {expected:#010x}")
            }
            Self::Flags(flags) => write!(f, "flags {}", FlagNames(flags)),
            Self::State { kind, state, direction } => {
                write!(f, "{kind} in {} direction while {state}", direction.name())
            }
            Self::SeqAbove { seq, edge, window } => {
                let by = seq.wrapping_sub(edge);
                write!(f, "sequence {seq} is {by} above the window's upper edge {edge}")?;
                match window {
                    0 => f.write_str("; the receiver's window was never seen"),
                    w => write!(f, "; the receiver's largest window was {w}"),
                }
            }
            Self::AckAbove { ack, end } => {
                let by = ack.wrapping_sub(end);
                write!(
                    f,
                    "acknowledges {ack}, {by} beyond {end}, the last that the other side was seen to send"
                )
            }
            Self::EndBelow { end, edge } => {
                write!(f, "the segment ends at {end}, not above the window's lower edge {edge}")
            }
            Self::AckBelow { ack, edge } => {
                write!(f, "acknowledges {ack}, not above the lowest acceptable {edge}")
            }
            Self::Rst { seq, expected } => {
                let by = seq.wrapping_sub(expected) as i32;
                let (by, side) =
                    if by < 0 { (by.unsigned_abs(), "before") } else { (by as u32, "after") };
                write!(f, "RST sequence {seq} is {by} {side} the acknowledged {expected}")
            }
            Self::Icmp { ty, code } => write!(f, "type {ty} code {code}"),
            Self::Full { count, max } => write!(f, "{count} entries, nf_conntrack_max is {max}"),
            Self::Probed(n) => write!(f, "{n} entries share the place"),
            Self::Generic(protocol) => {
                let name = crate::tuple::protocol_name(protocol);
                write!(
                    f,
                    "{name} is tracked by the generic tracker: addresses and ports only, no states yet"
                )
            }
        }
    }
}
