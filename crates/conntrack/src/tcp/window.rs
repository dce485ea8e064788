//! The window check: is a segment within what its receiver has allowed, and what does it teach?
//!
//! After G. van Rooij, "Real Stateful TCP Packet Filtering in IP Filter" (2001), with the changes Linux has made since.
//! Per side the tracker keeps `end` (highest sequence number sent, plus one), `maxend` (highest that the other side has
//! allowed) and `maxwin` (largest window offered). A segment of sender *s* to receiver *r* is good iff
//!
//! 1. `seq <= s.maxend`: it starts within the window *r* offered (with the next one allowed for keep-alives and probes),
//! 2. `ack <= r.end`: it acknowledges, SACK included, only what *r* has sent,
//! 3. `end >= s.end - r.maxwin`: it is not older than a window,
//! 4. `ack >= r.end - max(66000, s.maxwin)`: nor is its acknowledgement.
//!
//! Breaking 1 by more than a window, or 2, makes it invalid; 3, 4 and the smaller overshoots are let through without
//! an effect.

use fourtuple_packet::{Tcp, tcp_flags};

use super::{Side, SideFlags, TcpState, TcpTrack, after, before, options};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::tcp::Kind;
use crate::tuple::Direction;
use crate::verdict::Detail;

/// Largest unscaled window plus some slack: acknowledgements this far behind are still plausible.
const MAX_ACK_LAG: u32 = 66000;

/// Outcome of the window check.
pub(super) enum Window {
    /// In the window: everything was updated.
    Accept,
    /// Outside, but let through by liberality: the state machine goes on, the window learns nothing.
    Liberal(Reason, Detail),
    /// Passes without an effect.
    Ignore(Reason, Detail),
    /// Not part of the connection.
    Invalid(Reason, Detail),
}

/// A segment as the check sees it.
struct Segment<'a> {
    tcp: &'a Tcp<'a>,
    direction: Direction,
    kind: Kind,
    seq: u32,
    end: u32,
    ack: u32,
    sack: u32,
}

/// Checks `tcp` and, where it is in the window, learns from it.
pub(super) fn check(
    track: &mut TcpTrack,
    settings: &Settings,
    direction: Direction,
    kind: Kind,
    tcp: &Tcp<'_>,
) -> Window {
    let mut s = Segment {
        tcp,
        direction,
        kind,
        seq: tcp.seq,
        end: super::segment_end(tcp),
        ack: tcp.ack,
        sack: tcp.ack,
    };
    let receiver = &track.sides[direction.other().index()];
    if receiver.flags.has(SideFlags::SACK_PERM) {
        s.sack = options::highest_sack(tcp.options, s.ack);
    }
    if first_of_sender(track, &s) {
        return Window::Accept;
    }
    let state = track.state;
    let [sender, receiver] = sides(track, direction);
    settle_numbers(&mut s, state, sender, receiver);
    if let Some(outside) = outside(&s, sender, receiver) {
        let liberal = settings.tcp_be_liberal || sender.flags.has(SideFlags::BE_LIBERAL);
        return match outside {
            Window::Ignore(_, detail) | Window::Invalid(_, detail) if liberal => {
                Window::Liberal(Reason::TcpLiberal, detail)
            }
            outside => outside,
        };
    }
    learn(&s, sender, receiver);
    if s.kind == Kind::Ack {
        count_retransmission(track, &s);
    }
    Window::Accept
}

/// Sender's and receiver's records.
fn sides(track: &mut TcpTrack, direction: Direction) -> [&mut Side; 2] {
    let [original, reply] = &mut track.sides;
    match direction {
        Direction::Original => [original, reply],
        Direction::Reply => [reply, original],
    }
}

/// Sets the sender's record up from its first segment, or anew from a SYN with a new sequence number. True iff there
/// is nothing more to check: a SYN of a simultaneous open.
fn first_of_sender(track: &mut TcpTrack, s: &Segment<'_>) -> bool {
    let is_syn = s.tcp.flags & tcp_flags::SYN != 0;
    let has_ack = s.tcp.flags & tcp_flags::ACK != 0;
    let opening = matches!(track.state, TcpState::SynSent | TcpState::SynRecv);
    let [sender, receiver] = sides(track, s.direction);
    if sender.maxwin == 0 {
        if is_syn {
            start_from_syn(s, sender, receiver);
            return !has_ack;
        }
        // Picked up: this side is heard for the first time, in the middle.
        sender.end = s.end;
        let window = u32::from(s.tcp.window) << sender.scale;
        sender.maxwin = window.max(1);
        sender.maxend = s.end.wrapping_add(sender.maxwin);
        if receiver.maxwin == 0 {
            receiver.end = s.sack;
            receiver.maxend = s.sack;
        } else if s.sack == receiver.end.wrapping_add(1) {
            // An answer to a keep-alive, which repeats the last byte.
            receiver.end = receiver.end.wrapping_add(1);
        }
    } else if is_syn && after(s.end, sender.end) && opening {
        start_from_syn(s, sender, receiver);
        return s.direction == Direction::Reply && !has_ack;
    }
    false
}

fn start_from_syn(s: &Segment<'_>, sender: &mut Side, receiver: &mut Side) {
    sender.end = s.end;
    sender.maxend = s.end;
    sender.maxwin = u32::from(s.tcp.window).max(1);
    options::announced(s.tcp.options, &mut sender.scale, &mut sender.flags);
    // Scaling is in force only if both sides offer it (RFC 7323, section 2.2).
    let both =
        sender.flags.has(SideFlags::WINDOW_SCALE) && receiver.flags.has(SideFlags::WINDOW_SCALE);
    if s.direction == Direction::Reply && !both {
        sender.scale = 0;
        receiver.scale = 0;
    }
}

/// Puts plausible numbers where the segment carries none.
fn settle_numbers(s: &mut Segment<'_>, state: TcpState, sender: &Side, receiver: &Side) {
    let flags = s.tcp.flags;
    let no_ack = flags & tcp_flags::ACK == 0;
    let rst = flags & tcp_flags::RST != 0;
    // Some stacks send RST+ACK with acknowledgement zero.
    if no_ack || (rst && s.ack == 0) {
        s.ack = receiver.end;
        s.sack = receiver.end;
    }
    // A RST that answers a SYN has no sequence number of its own (RFC 9293, section 3.5.2).
    if rst && s.seq == 0 && state == TcpState::SynSent {
        s.seq = sender.end;
        s.end = sender.end;
    }
}

/// Which of the four conditions the segment breaks, if any.
fn outside(s: &Segment<'_>, sender: &mut Side, receiver: &Side) -> Option<Window> {
    let lower_edge = sender.end.wrapping_sub(receiver.maxwin).wrapping_sub(1);
    let lag = MAX_ACK_LAG.max(sender.maxwin);
    let lowest_ack = receiver.end.wrapping_sub(lag).wrapping_sub(1);
    if !before(s.seq, sender.maxend.wrapping_add(1)) {
        let detail = Detail::SeqAbove { seq: s.seq, edge: sender.maxend, window: receiver.maxwin };
        let overshoot = s.end.wrapping_sub(sender.maxend).wrapping_add(1);
        let tolerable = receiver.maxwin != 0
            && after(s.end, lower_edge)
            && after(s.sack, lowest_ack)
            && overshoot <= receiver.maxwin
            && !after(s.sack, receiver.end);
        if !tolerable {
            return Some(Window::Invalid(Reason::TcpSeqAboveWindow, detail));
        }
        // The receiver may well take it: a later acknowledgement of it must not look unsent.
        sender.end = s.end;
        sender.flags.set(SideFlags::DATA_UNACKNOWLEDGED);
        return Some(Window::Ignore(Reason::TcpOvershoot, detail));
    }
    if after(s.sack, receiver.end) {
        let detail = Detail::AckAbove { ack: s.sack, end: receiver.end };
        return Some(Window::Invalid(Reason::TcpAckUnsent, detail));
    }
    if receiver.maxwin != 0 && !after(s.end, lower_edge) {
        let detail = Detail::EndBelow { end: s.end, edge: lower_edge };
        return Some(Window::Ignore(Reason::TcpOldData, detail));
    }
    if !after(s.sack, lowest_ack) {
        let detail = Detail::AckBelow { ack: s.sack, edge: lowest_ack };
        return Some(Window::Ignore(Reason::TcpOldAck, detail));
    }
    None
}

/// Updates both records from a segment in the window.
fn learn(s: &Segment<'_>, sender: &mut Side, receiver: &mut Side) {
    let mut window = u32::from(s.tcp.window);
    if s.tcp.flags & tcp_flags::SYN == 0 {
        window <<= sender.scale;
    }
    let reach = window.wrapping_add(s.sack.wrapping_sub(s.ack));
    sender.maxwin = sender.maxwin.max(reach);
    if after(s.end, sender.end) {
        sender.end = s.end;
        sender.flags.set(SideFlags::DATA_UNACKNOWLEDGED);
    }
    if s.tcp.flags & tcp_flags::ACK != 0 {
        let first = !sender.flags.has(SideFlags::MAXACK_SET);
        if first || after(s.ack, sender.maxack) {
            sender.maxack = s.ack;
            sender.flags.set(SideFlags::MAXACK_SET);
        }
    }
    if receiver.maxwin != 0 && after(s.end, sender.maxend) {
        receiver.maxwin = receiver.maxwin.wrapping_add(s.end.wrapping_sub(sender.maxend));
    }
    let allowed = s.sack.wrapping_add(window);
    if after(allowed, receiver.maxend.wrapping_sub(1)) {
        // At window zero one byte may still be sent as a probe (RFC 9293, section 3.8.6.1).
        receiver.maxend = allowed.wrapping_add(u32::from(window == 0));
    }
    if s.ack == receiver.end {
        receiver.flags.clear(SideFlags::DATA_UNACKNOWLEDGED);
    }
}

/// Counts identical ACKs in a row.
fn count_retransmission(track: &mut TcpTrack, s: &Segment<'_>) {
    let last = &mut track.last;
    let same = last.dir == s.direction
        && last.seq == s.seq
        && last.ack == s.ack
        && last.end == s.end
        && last.win == s.tcp.window;
    if same {
        // Wraps after 255, as the kernel's 8-bit counter does.
        track.retrans = track.retrans.wrapping_add(1);
    } else {
        last.dir = s.direction;
        last.seq = s.seq;
        last.ack = s.ack;
        last.end = s.end;
        last.win = s.tcp.window;
        track.retrans = 0;
    }
}
