//! TCP: states, window, retransmissions, time-outs.

mod options;
mod table;
mod window;

use fourtuple_packet::{Span, Tcp, tcp_flags};

pub use table::{Kind, TcpState};

use crate::connection::{Connection, EventBits, Proto, Status};
use crate::protocol::{Handled, Hook};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::tuple::Direction;
use crate::verdict::Detail;
use table::Target;
use window::Window;

/// Flags of one side (IP_CT_TCP_FLAG_*); the last two live only in the record of the last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SideFlags(pub u8);

impl SideFlags {
    /// Announced window scaling.
    pub const WINDOW_SCALE: Self = Self(0x01);
    /// Permits SACK.
    pub const SACK_PERM: Self = Self(0x02);
    /// Sent the first FIN.
    pub const CLOSE_INIT: Self = Self(0x04);
    /// Its window is not enforced.
    pub const BE_LIBERAL: Self = Self(0x08);
    /// Sent data that is not acknowledged yet.
    pub const DATA_UNACKNOWLEDGED: Self = Self(0x10);
    /// Its highest acknowledgement is known.
    pub const MAXACK_SET: Self = Self(0x20);
    const CHALLENGE_ACK: Self = Self(0x40);
    const SIMULTANEOUS_OPEN: Self = Self(0x80);

    /// True iff all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    const fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// Names of the bits that are set, lowest first.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [(SideFlags, &str); 8] = [
            (SideFlags::WINDOW_SCALE, "window_scale"),
            (SideFlags::SACK_PERM, "sack_perm"),
            (SideFlags::CLOSE_INIT, "close_init"),
            (SideFlags::BE_LIBERAL, "be_liberal"),
            (SideFlags::DATA_UNACKNOWLEDGED, "data_unacknowledged"),
            (SideFlags::MAXACK_SET, "maxack_set"),
            (SideFlags::CHALLENGE_ACK, "challenge_ack"),
            (SideFlags::SIMULTANEOUS_OPEN, "simultaneous_open"),
        ];
        NAMES.into_iter().filter(move |(bit, _)| self.has(*bit)).map(|(_, name)| name)
    }
}

/// What is known of one side's sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Highest sequence number sent, plus one (`td_end`).
    pub end: u32,
    /// Highest sequence number that the other side allows (`td_maxend`).
    pub maxend: u32,
    /// Largest window this side has offered, scaled (`td_maxwin`); 0 until it was heard.
    pub maxwin: u32,
    /// Highest acknowledgement this side has sent (`td_maxack`), once `MAXACK_SET`.
    pub maxack: u32,
    /// Window scale, 0 to 14 (`td_scale`).
    pub scale: u8,
    /// Flags.
    pub flags: SideFlags,
}

/// The last packet that was recorded: by the window check (ACKs), or because it was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    index: Kind,
    dir: Direction,
    seq: u32,
    ack: u32,
    end: u32,
    win: u16,
    wscale: u8,
    flags: SideFlags,
}

/// The TCP tracker's state of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpTrack {
    sides: [Side; 2],
    state: TcpState,
    last: Last,
    retrans: u8,
}

impl TcpTrack {
    /// Current state.
    pub const fn state(&self) -> TcpState {
        self.state
    }

    /// What is known of the side that sends in direction `dir`.
    pub const fn side(&self, dir: Direction) -> &Side {
        &self.sides[dir.index()]
    }

    fn new(original: Side, reply: Side) -> Self {
        let last = Last {
            index: Kind::None,
            dir: Direction::Original,
            seq: 0,
            ack: 0,
            end: 0,
            win: 0,
            wscale: 0,
            flags: SideFlags(0),
        };
        Self { sides: [original, reply], state: TcpState::None, last, retrans: 0 }
    }
}

/// `a` is after `b` in sequence space (RFC 9293, section 3.4: arithmetic modulo 2^32).
const fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

const fn before(a: u32, b: u32) -> bool {
    after(b, a)
}

/// Sequence number after the segment; SYN and FIN take one each.
fn segment_end(tcp: &Tcp<'_>) -> u32 {
    let syn = u32::from(tcp.flags & tcp_flags::SYN != 0);
    let fin = u32::from(tcp.flags & tcp_flags::FIN != 0);
    tcp.seq.wrapping_add(tcp.payload_len).wrapping_add(syn).wrapping_add(fin)
}

/// Starts tracking from the first packet of a tuple, or says why it cannot.
pub(crate) fn start(settings: &Settings, tcp: &Tcp<'_>) -> Result<TcpTrack, Handled> {
    let kind = Kind::of(tcp.flags);
    let end = segment_end(tcp);
    match table::target(Direction::Original, kind, TcpState::None) {
        Target::State(TcpState::SynSent) => {
            let maxwin = u32::from(tcp.window).max(1);
            let mut side = Side { end, maxend: end, maxwin, ..Side::default() };
            options::announced(tcp.options, &mut side.scale, &mut side.flags);
            Ok(TcpTrack::new(side, Side::default()))
        }
        Target::State(_) if settings.tcp_loose => {
            // In the middle: scaling is unknown, so neither side's window can be enforced.
            let maxwin = u32::from(tcp.window).max(1);
            let flags = SideFlags(SideFlags::SACK_PERM.0 | SideFlags::BE_LIBERAL.0);
            let maxend = end.wrapping_add(maxwin);
            let side = Side { end, maxend, maxwin, flags, ..Side::default() };
            Ok(TcpTrack::new(side, Side { flags, ..Side::default() }))
        }
        Target::State(_) => Err(Handled::Invalid(Reason::TcpLooseOff, Detail::Flags(tcp.flags))),
        Target::Invalid | Target::Ignore => {
            Err(Handled::Invalid(Reason::TcpNotAStart, Detail::Flags(tcp.flags)))
        }
    }
}

/// True iff the flags are a combination that some endpoint may send.
pub(crate) const fn flags_allowed(flags: u8) -> bool {
    table::flags_allowed(flags)
}

/// Where the state machine goes with a packet, before the window check.
enum Step {
    /// To this state, from `old` as the state machine is to see it.
    Go { target: TcpState, old: TcpState, check_window: bool },
    /// To `SYN_RECV` with a SYN/ACK whose SYN was ignored: the entry has adopted both.
    Resync,
    /// Nowhere.
    Done(Handled),
}

/// Handles a packet of a connection. Flags and checksum were checked.
pub(crate) fn handle(hook: &Hook<'_>, conn: &mut Connection, tcp: &Tcp<'_>) -> Handled {
    let Connection { status, proto: Proto::Tcp(track), .. } = conn else {
        unreachable!("a TCP tuple has a TCP connection");
    };
    let status = *status;
    let (settings, dir) = (hook.settings, hook.direction);
    let kind = Kind::of(tcp.flags);
    let mut note = None;
    let (target, old, check_window) = match step(hook, status, track, kind, tcp) {
        Step::Go { target, old, check_window } => (target, old, check_window),
        Step::Resync => {
            note = Some((Reason::TcpResynced, Detail::None));
            (TcpState::SynRecv, TcpState::SynSent, true)
        }
        Step::Done(handled) => return handled,
    };
    if kind == Kind::Rst && target != TcpState::Close {
        let expected = track.sides[dir.other().index()].maxack;
        note = Some((Reason::TcpRstInexact, Detail::Rst { seq: tcp.seq, expected }));
    }
    if check_window {
        match window::check(track, settings, dir, kind, tcp) {
            Window::Accept => {}
            Window::Liberal(reason, detail) => note = Some((reason, detail)),
            Window::Ignore(reason, detail) => {
                return Handled::Accept { note: Some((reason, detail)), ended: false };
            }
            Window::Invalid(reason, detail) => {
                shorten_after_invalid_close(hook, conn, kind);
                return Handled::Invalid(reason, detail);
            }
        }
    }
    commit(hook, conn, tcp, Commit { kind, old, target, note })
}

/// The table's outcome and the special transitions.
fn step(hook: &Hook<'_>, status: Status, track: &mut TcpTrack, kind: Kind, tcp: &Tcp<'_>) -> Step {
    let dir = hook.direction;
    let old = track.state;
    let last = track.last;
    let go = |target| Step::Go { target, old, check_window: true };
    match table::target(dir, kind, old) {
        Target::Invalid => {
            let detail = Detail::State { kind, state: old, direction: dir };
            Step::Done(Handled::Invalid(Reason::TcpState, detail))
        }
        Target::State(TcpState::SynSent) if matches!(old, TcpState::TimeWait | TcpState::Close) => {
            let closed = track.sides.iter().any(|s| s.flags.has(SideFlags::CLOSE_INIT));
            if closed || (last.dir == dir && last.index == Kind::Rst) {
                return Step::Done(Handled::Reopen);
            }
            ignored(hook, track, kind, tcp)
        }
        Target::Ignore => ignored(hook, track, kind, tcp),
        Target::State(TcpState::TimeWait)
            if old == TcpState::LastAck
                && kind == Kind::Ack
                && last.dir != dir
                && last.index == Kind::Syn
                && last.flags.has(SideFlags::CHALLENGE_ACK) =>
        {
            track.last.flags.clear(SideFlags::CHALLENGE_ACK);
            let note = Some((Reason::TcpChallengeAck, Detail::None));
            Step::Done(Handled::Accept { note, ended: false })
        }
        Target::State(TcpState::SynSent2) => {
            track.last.flags.set(SideFlags::SIMULTANEOUS_OPEN);
            go(TcpState::SynSent2)
        }
        Target::State(TcpState::SynRecv)
            if dir == Direction::Reply
                && kind == Kind::Ack
                && last.flags.has(SideFlags::SIMULTANEOUS_OPEN) =>
        {
            go(TcpState::Established)
        }
        Target::State(TcpState::Close) if kind == Kind::Rst => reset(hook, status, track, tcp),
        Target::State(target) => go(target),
    }
}

/// A packet that the state machine ignores: it may still show that the entry is out of step with the endpoints.
fn ignored(hook: &Hook<'_>, track: &mut TcpTrack, kind: Kind, tcp: &Tcp<'_>) -> Step {
    let dir = hook.direction;
    let last = &mut track.last;
    if kind == Kind::SynAck && last.index == Kind::Syn && last.dir != dir && tcp.ack == last.end {
        // The endpoints agree on the SYN that was ignored: adopt it.
        last.flags.clear(SideFlags::CHALLENGE_ACK);
        let other = Side {
            end: last.end,
            maxend: last.end,
            maxwin: u32::from(last.win).max(1),
            scale: last.wscale,
            flags: last.flags,
            maxack: track.sides[dir.other().index()].maxack,
        };
        let own = &mut track.sides[dir.index()];
        let liberal = own.flags.0 & SideFlags::BE_LIBERAL.0;
        *own = Side { flags: SideFlags(liberal), ..Side::default() };
        track.sides[dir.other().index()] = other;
        return Step::Resync;
    }
    last.index = kind;
    last.dir = dir;
    last.seq = tcp.seq;
    last.end = segment_end(tcp);
    last.win = tcp.window;
    if kind == Kind::Syn && dir == Direction::Original {
        let (mut scale, mut flags) = (0, SideFlags(0));
        options::announced(tcp.options, &mut scale, &mut flags);
        if track.state == TcpState::LastAck {
            // The endpoint may answer with a challenge ACK (RFC 5961, section 4).
            flags.set(SideFlags::CHALLENGE_ACK);
        }
        last.wscale = scale;
        last.flags = flags;
    }
    if kind == Kind::Ack && dir == Direction::Reply && track.state == TcpState::SynSent {
        last.ack = tcp.ack;
    }
    let detail = Detail::State { kind, state: track.state, direction: dir };
    Step::Done(Handled::Accept { note: Some((Reason::TcpIgnored, detail)), ended: false })
}

/// A RST: does it close the connection (RFC 5961, section 3)?
fn reset(hook: &Hook<'_>, status: Status, track: &TcpTrack, tcp: &Tcp<'_>) -> Step {
    let dir = hook.direction;
    let old = track.state;
    let last = &track.last;
    let go = |target, check_window| Step::Go { target, old, check_window };
    if matches!(
        old,
        TcpState::FinWait
            | TcpState::CloseWait
            | TcpState::LastAck
            | TcpState::TimeWait
            | TcpState::Close
    ) {
        return go(TcpState::Close, false);
    }
    let mut target = TcpState::Close;
    let receiver = &track.sides[dir.other().index()];
    if receiver.flags.has(SideFlags::MAXACK_SET) && last.index != Kind::Syn {
        let assured = old == TcpState::Established && status.has(Status::ASSURED);
        if tcp.seq == 0 && !assured {
            return go(TcpState::Close, true);
        }
        if before(tcp.seq, receiver.maxack) && !hook.settings.tcp_ignore_invalid_rst {
            let detail = Detail::Rst { seq: tcp.seq, expected: receiver.maxack };
            return Step::Done(Handled::Invalid(Reason::TcpRstOld, detail));
        }
        let follows_own_ack = last.index == Kind::Ack && last.dir == dir && tcp.seq == last.end;
        if !assured || tcp.seq == receiver.maxack || follows_own_ack {
            return go(TcpState::Close, true);
        }
        target = old;
    }
    let answers = tcp.ack == last.end
        && ((status.has(Status::SEEN_REPLY) && last.index == Kind::Syn && last.dir != dir)
            || (!status.has(Status::ASSURED) && last.index == Kind::Ack));
    let answers_reply_ack = old == TcpState::SynSent
        && last.index == Kind::Ack
        && last.dir == Direction::Reply
        && tcp.seq == last.ack;
    go(target, !(answers || answers_reply_ack))
}

/// An invalid FIN or RST that follows one of the other direction: the connection is probably over although the tracker
/// could not follow, so a long time-out is cut.
fn shorten_after_invalid_close(hook: &Hook<'_>, conn: &mut Connection, kind: Kind) {
    const WORTH_CUTTING: Span = Span::from_secs(120);
    if !matches!(kind, Kind::Fin | Kind::Rst)
        || !conn.status.has(Status::ASSURED)
        || conn.status.has(Status::FIXED_TIMEOUT)
    {
        return;
    }
    let remaining = conn.remaining(hook.now);
    let Proto::Tcp(track) = &mut conn.proto else {
        return;
    };
    let last = &mut track.last;
    if matches!(last.index, Kind::Fin | Kind::Rst) && last.dir != hook.direction {
        let cut = hook.settings.tcp_timeout_unacknowledged.span();
        if remaining >= WORTH_CUTTING && remaining > cut {
            conn.refresh(hook.now, cut);
        }
    } else {
        last.index = kind;
        last.dir = hook.direction;
    }
}

struct Commit {
    kind: Kind,
    old: TcpState,
    target: TcpState,
    note: Option<(Reason, Detail)>,
}

/// Enters the new state, and sets time-out, status and counters.
fn commit(hook: &Hook<'_>, conn: &mut Connection, tcp: &Tcp<'_>, c: Commit) -> Handled {
    let Commit { kind, old, target, note } = c;
    let dir = hook.direction;
    let Proto::Tcp(track) = &mut conn.proto else { unreachable!("checked by the caller") };
    track.last.index = kind;
    track.last.dir = dir;
    track.state = target;
    if old != target && target == TcpState::FinWait {
        track.sides[dir.index()].flags.set(SideFlags::CLOSE_INIT);
    }
    let mut timeout = timeout(hook.settings, track, kind, target);
    if old != target {
        conn.events.set(EventBits::PROTOINFO);
    }
    if !conn.status.has(Status::SEEN_REPLY) {
        if kind == Kind::Rst {
            conn.account(dir, hook.len);
            let note = Some((Reason::TcpRstUnanswered, Detail::Flags(tcp.flags)));
            return Handled::Accept { note, ended: true };
        }
        if kind == Kind::Syn && old == TcpState::SynSent {
            // A retransmitted SYN does not keep an unanswered entry alive.
            return Handled::Accept { note, ended: false };
        }
        if target == TcpState::Established {
            timeout = timeout.min(hook.settings.tcp_timeout_unacknowledged.span());
        }
    } else if matches!(old, TcpState::SynRecv | TcpState::Established)
        && target == TcpState::Established
    {
        conn.set_once(Status::ASSURED, EventBits::ASSURED);
    }
    conn.refresh(hook.now, timeout);
    conn.account(dir, hook.len);
    Handled::Accept { note, ended: false }
}

/// The time-out that the packet leaves behind.
fn timeout(settings: &Settings, track: &TcpTrack, kind: Kind, target: TcpState) -> Span {
    let of_state = settings.tcp_timeouts[target as usize];
    let retrans = settings.tcp_timeout_max_retrans;
    let unacknowledged = settings.tcp_timeout_unacknowledged;
    let waiting = track.sides.iter().any(|s| s.flags.has(SideFlags::DATA_UNACKNOWLEDGED));
    let chosen = if track.retrans >= settings.tcp_max_retrans && of_state > retrans {
        retrans
    } else if kind == Kind::Rst {
        settings.tcp_timeouts[TcpState::Close as usize]
    } else if waiting && of_state > unacknowledged {
        unacknowledged
    } else if track.last.win == 0 && of_state > retrans {
        retrans
    } else {
        of_state
    };
    chosen.span()
}
