//! States, kinds of packets, and the transition table (Linux 6.18, confirmed cell by cell on a live kernel).

use core::fmt;
use fourtuple_packet::tcp_flags::{ACK, CWR, ECE, FIN, PSH, RST, SYN, URG};

use crate::tuple::Direction;

/// State of a TCP connection as the tracker sees it (enum tcp_conntrack).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TcpState {
    /// No packet accepted yet.
    #[default]
    None,
    /// SYN seen.
    SynSent,
    /// SYN/ACK seen.
    SynRecv,
    /// Handshake complete, or picked up.
    Established,
    /// One side has sent FIN.
    FinWait,
    /// That FIN is acknowledged.
    CloseWait,
    /// Both sides have sent FIN.
    LastAck,
    /// The last FIN is acknowledged.
    TimeWait,
    /// Reset.
    Close,
    /// SYN from both sides (simultaneous open).
    SynSent2,
}

impl TcpState {
    /// Number of states.
    pub const COUNT: usize = 10;

    /// All states.
    pub const ALL: [Self; Self::COUNT] = [
        Self::None,
        Self::SynSent,
        Self::SynRecv,
        Self::Established,
        Self::FinWait,
        Self::CloseWait,
        Self::LastAck,
        Self::TimeWait,
        Self::Close,
        Self::SynSent2,
    ];

    /// Name as `conntrack -L` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::SynSent => "SYN_SENT",
            Self::SynRecv => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::FinWait => "FIN_WAIT",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
            Self::Close => "CLOSE",
            Self::SynSent2 => "SYN_SENT2",
        }
    }
}

impl fmt::Display for TcpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Kind of a packet: the first of these that applies, RST before SYN before FIN before ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SYN without ACK.
    Syn,
    /// SYN with ACK.
    SynAck,
    /// FIN.
    Fin,
    /// ACK.
    Ack,
    /// RST.
    Rst,
    /// None of these flags.
    None,
}

impl Kind {
    pub(super) const fn of(flags: u8) -> Self {
        if flags & RST != 0 {
            Self::Rst
        } else if flags & SYN != 0 {
            if flags & ACK != 0 { Self::SynAck } else { Self::Syn }
        } else if flags & FIN != 0 {
            Self::Fin
        } else if flags & ACK != 0 {
            Self::Ack
        } else {
            Self::None
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Syn => "SYN",
            Self::SynAck => "SYN/ACK",
            Self::Fin => "FIN",
            Self::Ack => "ACK",
            Self::Rst => "RST",
            Self::None => "packet without flags",
        })
    }
}

/// True iff an endpoint may send this combination of flags; PSH, ECE and CWR are free.
pub(super) const fn flags_allowed(flags: u8) -> bool {
    const SYN_URG: u8 = SYN | URG;
    const SYN_ACK: u8 = SYN | ACK;
    const RST_ACK: u8 = RST | ACK;
    const FIN_ACK: u8 = FIN | ACK;
    const FIN_ACK_URG: u8 = FIN | ACK | URG;
    const ACK_URG: u8 = ACK | URG;
    matches!(
        flags & !(PSH | ECE | CWR),
        SYN | SYN_URG | SYN_ACK | RST | RST_ACK | FIN_ACK | FIN_ACK_URG | ACK | ACK_URG
    )
}

/// Outcome of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    State(TcpState),
    Invalid,
    Ignore,
}

/// The outcome for a packet of `kind` in `direction` while the connection is in `state`.
pub(super) const fn target(direction: Direction, kind: Kind, state: TcpState) -> Target {
    TABLE[direction as usize][kind as usize][state as usize]
}

const X: Target = Target::Invalid;
const IG: Target = Target::Ignore;
const SS: Target = Target::State(TcpState::SynSent);
const SR: Target = Target::State(TcpState::SynRecv);
const ES: Target = Target::State(TcpState::Established);
const FW: Target = Target::State(TcpState::FinWait);
const CW: Target = Target::State(TcpState::CloseWait);
const LA: Target = Target::State(TcpState::LastAck);
const TW: Target = Target::State(TcpState::TimeWait);
const CL: Target = Target::State(TcpState::Close);
const S2: Target = Target::State(TcpState::SynSent2);

/// Direction, kind, state. Columns: NONE, SYN_SENT, SYN_RECV, ESTABLISHED, FIN_WAIT, CLOSE_WAIT, LAST_ACK, TIME_WAIT,
/// CLOSE, SYN_SENT2.
#[rustfmt::skip]
const TABLE: [[[Target; TcpState::COUNT]; 6]; 2] = [
    [
        /* SYN     */ [SS, SS, IG, IG, IG, IG, IG, SS, SS, S2],
        /* SYN/ACK */ [X,  X,  SR, X,  X,  X,  X,  X,  X,  SR],
        /* FIN     */ [X,  X,  FW, FW, LA, LA, LA, TW, CL, X ],
        /* ACK     */ [ES, X,  ES, ES, CW, CW, TW, TW, CL, X ],
        /* RST     */ [X,  CL, CL, CL, CL, CL, CL, CL, CL, CL],
        /* none    */ [X;  TcpState::COUNT],
    ],
    [
        /* SYN     */ [X,  S2, X,  X,  X,  X,  X,  SS, X,  S2],
        /* SYN/ACK */ [X,  SR, IG, IG, IG, IG, IG, IG, IG, SR],
        /* FIN     */ [X,  X,  FW, FW, LA, LA, LA, TW, CL, X ],
        /* ACK     */ [X,  IG, SR, ES, CW, CW, TW, TW, CL, IG],
        /* RST     */ [X,  CL, CL, CL, CL, CL, CL, CL, CL, CL],
        /* none    */ [X;  TcpState::COUNT],
    ],
];
