//! TCP: two peers with a memory of their own, and every way to break what they agreed on.
//!
//! The peers know what each has sent, acknowledged and offered. From that come the edges that
//! matter to anybody who checks windows: the next sequence number, the far end of the peer's
//! window, the oldest byte still of interest, the highest and the lowest sensible ack. Most
//! departures aim at an edge, at one below or at one above it.

use fastrand::Rng;

use super::build::{ACK, FIN, Ip, PSH, RST, SYN, Segment, TCP, Way};
use super::{chance, hosts, pick, spoil};

/// Lowest ack distance that Linux still accepts (`MAXACKWINCONST`), an edge worth aiming at.
const ACK_SLACK: u32 = 66_000;

#[derive(Clone, Debug)]
struct Peer {
    port: u16,
    isn: u32,
    /// Next sequence number to send.
    next: u32,
    /// Highest ack sent.
    acked: u32,
    /// Window last offered, raw, and the largest so far, scaled.
    window: u16,
    offered: u32,
    /// Furthest end of a window it ever granted: ack plus scaled window.
    granted: u32,
    /// Shift count in its SYN, if any.
    scale: Option<u8>,
    sack: bool,
    stamps: bool,
    closed: bool,
}

/// Two peers and what they said.
struct Talk {
    way: Way,
    peers: [Peer; 2],
    said: Vec<(usize, Segment)>,
    packets: Vec<Vec<u8>>,
}

impl Talk {
    fn new(rng: &mut Rng) -> Self {
        let way = hosts(rng);
        let (sport, dport) = (pick(rng, &[1024, 40_000, 40_001]), pick(rng, &[80, 443]));
        let peers = [peer(rng, sport), peer(rng, dport)];
        Self { way, peers, said: Vec::new(), packets: Vec::new() }
    }

    fn way(&self, from: usize) -> Way {
        if from == 0 { self.way } else { self.way.back() }
    }

    /// A segment as the protocol would have it.
    fn segment(&self, from: usize, flags: u8, data: usize) -> Segment {
        let (me, other) = (&self.peers[from], &self.peers[1 - from]);
        Segment {
            sport: me.port,
            dport: other.port,
            seq: if flags & SYN != 0 { me.isn } else { me.next },
            ack: if flags & ACK != 0 { other.next } else { 0 },
            flags,
            window: me.window,
            options: if flags & SYN != 0 { syn_options(me) } else { plain_options(me) },
            data: vec![b'x'; data],
            ..Segment::default()
        }
    }

    /// Sends it and lets the peers remember, whether it was proper or not.
    fn say(&mut self, from: usize, segment: Segment) {
        let me = &mut self.peers[from];
        let end = segment.seq.wrapping_add(segment.length());
        // What lies far off is a probe and not the stream's new end.
        if end.wrapping_sub(me.next) < 1 << 20 {
            me.next = end;
        }
        if segment.flags & ACK != 0 && segment.ack.wrapping_sub(me.acked) < 1 << 20 {
            me.acked = segment.ack;
        }
        let shift = if segment.flags & SYN != 0 { 0 } else { me.scale.unwrap_or(0).min(14) };
        let offer = u32::from(segment.window) << shift;
        me.offered = me.offered.max(offer);
        if segment.flags & ACK != 0 {
            // A closed window still takes the one byte of a probe.
            let end = segment.ack.wrapping_add(offer.max(1));
            if me.granted == 0 || end.wrapping_sub(me.granted) < 1 << 31 {
                me.granted = end;
            }
        }
        me.closed |= segment.flags & FIN != 0;
        self.packets.push(segment.packet(self.way(from)));
        self.said.push((from, segment));
    }

    fn send(&mut self, from: usize, flags: u8, data: usize) {
        let segment = self.segment(from, flags, data);
        self.say(from, segment);
    }

    fn handshake(&mut self) {
        self.send(0, SYN, 0);
        self.send(1, SYN | ACK, 0);
        // Scaling counts only if both offer it (RFC 7323, 2.2).
        if self.peers.iter().any(|peer| peer.scale.is_none()) {
            self.peers.iter_mut().for_each(|peer| peer.scale = peer.scale.map(|_| 0));
        }
        self.send(0, ACK, 0);
    }

    /// Sequence numbers at the edges for a packet of `length` from `from`.
    fn seq_edge(&self, rng: &mut Rng, from: usize, length: u32) -> u32 {
        let (me, other) = (&self.peers[from], &self.peers[1 - from]);
        let right = other.granted;
        let edge = match rng.u8(..13) {
            0..=2 => me.next,
            3 => right,
            4 => right.wrapping_sub(length),
            5 => me.next.wrapping_sub(other.offered),
            6 => me.next.wrapping_sub(other.offered).wrapping_sub(length),
            7 => other.acked,
            8 => me.isn,
            9 => 0,
            10 => right.wrapping_add(other.offered),
            11 => me.next.wrapping_sub(length),
            _ => rng.u32(..),
        };
        nudge(rng, edge)
    }

    /// Ack numbers at the edges for a packet from `from`.
    fn ack_edge(&self, rng: &mut Rng, from: usize) -> u32 {
        let (me, other) = (&self.peers[from], &self.peers[1 - from]);
        let edge = match rng.u8(..10) {
            0..=2 => other.next,
            3 => other.next.wrapping_sub(ACK_SLACK),
            4 => other.next.wrapping_sub(ACK_SLACK.max(me.offered)),
            5 => other.isn,
            6 => me.acked,
            7 => 0,
            8 => other.next.wrapping_add(1000),
            _ => rng.u32(..),
        };
        nudge(rng, edge)
    }

    /// Follows the protocol for a packet or two.
    fn behave(&mut self, rng: &mut Rng) {
        let from = rng.usize(..2);
        match rng.u8(..12) {
            0..=4 => {
                let data = pick(rng, &[1, 10, 100, 536, 1460]);
                self.send(from, ACK | PSH, data);
                if chance(rng, 70) {
                    self.send(1 - from, ACK, 0);
                }
            }
            5..=6 => self.send(from, ACK, 0),
            7 => {
                self.peers[from].window = window(rng);
                self.send(from, ACK, 0);
            }
            8 => {
                // Keep-alive: one below the next number, with or without its garbage byte.
                let mut probe = self.segment(from, ACK, rng.usize(..2));
                probe.seq = probe.seq.wrapping_sub(1);
                self.say(from, probe);
                self.send(1 - from, ACK, 0);
            }
            9..=10 if !self.peers[from].closed => {
                self.send(from, FIN | ACK, 0);
                if chance(rng, 60) {
                    self.send(1 - from, ACK, 0);
                }
            }
            _ => {
                let flags = pick(rng, &[RST, RST | ACK]);
                if chance(rng, 40) {
                    self.send(from, flags, 0);
                } else {
                    self.send(from, ACK, 1);
                }
            }
        }
    }

    /// Breaks it.
    fn misbehave(&mut self, rng: &mut Rng) {
        let from = rng.usize(..2);
        match rng.u8(..14) {
            0..=3 => self.aimed(rng, from),
            4 => {
                // Any combination of the eight flags.
                let flags = rng.u8(..);
                let data = rng.usize(..3);
                self.send(from, flags, data);
            }
            5 | 6 => self.repeat(rng),
            7 | 8 => self.reopen(rng, from),
            9 => self.selective(rng, from),
            10 => self.malformed(rng, from),
            11 => {
                // RST against what the receiver has acknowledged.
                let mut reset = self.segment(from, pick(rng, &[RST, RST | ACK]), 0);
                let acked = self.peers[1 - from].acked;
                reset.seq = pick(rng, &[0, acked, acked.wrapping_sub(1), acked.wrapping_add(1)]);
                self.say(from, reset);
            }
            12 => {
                // A hole: what comes next is sent before what is missing.
                let mut late = self.segment(from, ACK, 100);
                let mut early = late.clone();
                early.seq = early.seq.wrapping_add(100);
                late.data.truncate(pick(rng, &[50, 100]));
                self.say(from, early);
                self.say(from, late);
            }
            _ => {
                // A SYN that nobody asked for, its challenge, and the reset it provokes.
                self.send(from, SYN, 0);
                let challenge = self.segment(1 - from, ACK, 0);
                let answer = Segment { seq: challenge.ack, ..self.segment(from, RST, 0) };
                self.say(1 - from, challenge);
                if chance(rng, 50) {
                    self.say(from, answer);
                }
            }
        }
    }

    /// A packet whose numbers lie at the edges.
    fn aimed(&mut self, rng: &mut Rng, from: usize) {
        let flags = pick(rng, &[ACK, ACK, ACK | PSH, FIN | ACK, RST, RST | ACK, SYN, SYN | ACK]);
        let data = if flags & (RST | SYN) == 0 { pick(rng, &[0, 0, 1, 2, 1000]) } else { 0 };
        self.shoot(rng, from, flags, data);
    }

    fn shoot(&mut self, rng: &mut Rng, from: usize, flags: u8, data: usize) {
        let mut segment = self.segment(from, flags, data);
        // Mostly one number at a time: an edge shows only if everything else is in order.
        let (seq, ack) = pick(
            rng,
            &[
                (true, false),
                (true, false),
                (false, true),
                (false, true),
                (true, true),
                (false, false),
            ],
        );
        if seq {
            segment.seq = self.seq_edge(rng, from, segment.length());
        }
        if ack && (flags & ACK != 0 || chance(rng, 10)) {
            segment.ack = self.ack_edge(rng, from);
        }
        if chance(rng, 20) {
            segment.window = window(rng);
        }
        self.say(from, segment);
    }

    /// An earlier packet again, up to one more than the usual retransmission limit.
    fn repeat(&mut self, rng: &mut Rng) {
        if self.said.is_empty() {
            return self.send(0, SYN, 0);
        }
        // Mostly the last one, since only identical ones in a row count as retransmissions.
        let at = if chance(rng, 60) { self.said.len() - 1 } else { rng.usize(..self.said.len()) };
        let (from, segment) = self.said[at].clone();
        // Now and then until an eight-bit counter wraps.
        let times = if chance(rng, 2) { rng.usize(250..262) } else { rng.usize(1..6) };
        for _ in 0..times {
            self.say(from, segment.clone());
        }
    }

    /// A new connection on the same ports, from either side.
    fn reopen(&mut self, rng: &mut Rng, from: usize) {
        let next = self.peers[from].next;
        self.peers[from].isn = match rng.u8(..4) {
            0 => next,
            1 => next.wrapping_add(100_000),
            2 => next.wrapping_sub(100_000),
            _ => rng.u32(..),
        };
        let mut syn = self.segment(from, SYN, 0);
        syn.ack = 0;
        self.peers[from].next = syn.seq;
        self.peers[from].closed = false;
        self.say(from, syn);
        if chance(rng, 70) {
            self.send(1 - from, SYN | ACK, 0);
            if chance(rng, 70) {
                self.send(from, ACK, 0);
            }
        }
    }

    /// SACK blocks, sane and otherwise.
    fn selective(&mut self, rng: &mut Rng, from: usize) {
        let mut segment = self.segment(from, ACK, 0);
        let mut blocks = Vec::new();
        let count = rng.usize(1..4);
        for _ in 0..count {
            let left = self.ack_edge(rng, from);
            blocks.extend(left.to_be_bytes());
            let right =
                if chance(rng, 70) { self.ack_edge(rng, from) } else { left.wrapping_add(10) };
            blocks.extend(right.to_be_bytes());
        }
        let length = if chance(rng, 85) { 2 + blocks.len() as u8 } else { rng.u8(..) };
        // Behind a time stamp, too: without SACK such an area is passed over unread.
        segment.options = if chance(rng, 40) { STAMPS.to_vec() } else { Vec::new() };
        segment.options.extend([1, 1, 5, length]);
        segment.options.extend(blocks);
        if chance(rng, 50) {
            segment.ack = self.peers[from].acked;
        }
        self.say(from, segment);
    }

    /// Header faults.
    fn malformed(&mut self, rng: &mut Rng, from: usize) {
        let mut segment = self.segment(from, pick(rng, &[ACK, SYN, SYN | ACK]), rng.usize(..4));
        if chance(rng, 30) {
            // Garbage where options stand: lengths 0 and 1, or past the end.
            segment.options = (0..rng.usize(1..12)).map(|_| rng.u8(..10)).collect();
            return self.say(from, segment);
        }
        let way = self.way(from);
        let mut bytes = segment.bytes(way);
        match rng.u8(..4) {
            0 => spoil(rng, &mut bytes, 4),
            1 => bytes.truncate(rng.usize(..20)),
            2 => bytes[12] = rng.u8(..16) << 4 | bytes[12] & 15,
            _ => bytes[16..18].fill(0),
        }
        self.packets.push(Ip::new(way, TCP).packet(&bytes));
    }
}

fn peer(rng: &mut Rng, port: u16) -> Peer {
    let isn = match rng.u8(..6) {
        // Numbers wrap within the first packets.
        0 | 1 => u32::MAX - rng.u32(..3000),
        2 => rng.u32(..2),
        3 => 0x7fff_ff00 + rng.u32(..512),
        _ => rng.u32(..),
    };
    let scale = chance(rng, 60).then(|| rng.u8(..16));
    Peer {
        port,
        isn,
        next: isn,
        acked: 0,
        window: window(rng),
        offered: 0,
        granted: 0,
        scale,
        sack: chance(rng, 50),
        stamps: chance(rng, 20),
        closed: false,
    }
}

fn window(rng: &mut Rng) -> u16 {
    pick(rng, &[0, 1, 2, 100, 1000, 8192, 65_535, 65_535])
}

fn nudge(rng: &mut Rng, edge: u32) -> u32 {
    match rng.u8(..6) {
        0 => edge.wrapping_sub(1),
        1 => edge.wrapping_add(1),
        2 if chance(rng, 20) => edge.wrapping_add(2),
        _ => edge,
    }
}

const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];

fn syn_options(peer: &Peer) -> Vec<u8> {
    let mut options = vec![2, 4, 5, 180];
    if peer.sack {
        options.extend([4, 2]);
    }
    if peer.stamps {
        options.extend(&STAMPS[2..]);
    }
    if let Some(scale) = peer.scale {
        options.extend([1, 3, 3, scale]);
    }
    options
}

fn plain_options(peer: &Peer) -> Vec<u8> {
    if peer.stamps { STAMPS.to_vec() } else { Vec::new() }
}

/// A conversation of ten to forty packets that keeps to the protocol less and less.
pub(super) fn talk(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut talk = Talk::new(rng);
    match rng.u8(..10) {
        // Picked up in the middle.
        0 => {
            let from = rng.usize(..2);
            talk.peers[0].next = talk.peers[0].isn.wrapping_add(5000);
            talk.peers[1].next = talk.peers[1].isn.wrapping_add(7000);
            talk.send(from, ACK, 10);
        }
        // Simultaneous open.
        1 => {
            talk.send(0, SYN, 0);
            talk.send(1, SYN, 0);
            talk.send(0, SYN | ACK, 0);
            talk.send(1, pick(rng, &[SYN | ACK, ACK]), 0);
        }
        // Data on the SYN, and on its answer.
        2 => {
            talk.send(0, SYN, 20);
            let data = pick(rng, &[0, 30]);
            talk.send(1, SYN | ACK, data);
            talk.send(0, ACK, 0);
        }
        // No opening at all: the first packet is anything.
        3 => talk.misbehave(rng),
        // The SYN again and again before its answer.
        4 => {
            talk.send(0, SYN, 0);
            talk.repeat(rng);
            talk.send(1, SYN | ACK, 0);
            talk.repeat(rng);
            talk.send(0, ACK, 0);
        }
        _ => talk.handshake(),
    }
    let length = rng.usize(10..40);
    let trouble = pick(rng, &[10, 30, 60]);
    while talk.packets.len() < length {
        if chance(rng, trouble) {
            talk.misbehave(rng);
        } else {
            talk.behave(rng);
        }
    }
    talk.packets
}

/// Brings a connection into the state that the seed says, fires one packet of the direction and
/// flags that the seed says with numbers at the edges, and goes on so that what the packet left
/// behind shows. Seeds 0 to 1,663 walk through all states, directions and sets of six flags.
pub(super) fn shot(rng: &mut Rng, seed: u64) -> Vec<Vec<u8>> {
    let mut talk = Talk::new(rng);
    into_state(&mut talk, rng, seed % 13);
    let from = (seed / 13 % 2) as usize;
    let mut flags = (seed / 26 % 64) as u8;
    if seed >= 13 * 26 * 64 && chance(rng, 70) {
        // Beyond the walk, mostly flags that get past the first check.
        flags = pick(rng, &[SYN, SYN | ACK, FIN | ACK, ACK, RST, RST | ACK]);
    }
    let data = pick(rng, &[0, 0, 1, 500]);
    talk.shoot(rng, from, flags, data);
    for _ in 0..rng.usize(1..4) {
        match rng.u8(..5) {
            0 => talk.misbehave(rng),
            1 => {
                let back = 1 - from;
                talk.aimed(rng, back);
            }
            _ => talk.behave(rng),
        }
    }
    talk.packets
}

fn into_state(talk: &mut Talk, rng: &mut Rng, state: u64) {
    match state {
        0 => {}
        1 => talk.send(0, SYN, 0),
        2 => {
            talk.send(0, SYN, 0);
            talk.send(1, SYN, 0);
        }
        3 => {
            talk.send(0, SYN, 0);
            talk.send(1, SYN | ACK, 0);
        }
        // Established by an acknowledgement that came before the SYN+ACK was answered.
        4 => {
            talk.handshake();
            talk.send(0, ACK, 100);
        }
        5 => {
            // Picked up in the middle, seen from one side only.
            talk.peers[0].next = talk.peers[0].isn.wrapping_add(5000);
            talk.peers[1].next = talk.peers[1].isn.wrapping_add(7000);
            talk.send(0, ACK, 10);
        }
        _ => {
            talk.handshake();
            if chance(rng, 50) {
                talk.send(1, ACK | PSH, 200);
                talk.send(0, ACK, 0);
            }
            let first = rng.usize(..2);
            let closing: &[(usize, u8)] = match state {
                6 => &[],
                7 => &[(0, FIN | ACK)],
                8 => &[(0, FIN | ACK), (1, ACK)],
                9 => &[(0, FIN | ACK), (1, FIN | ACK)],
                10 => &[(0, FIN | ACK), (1, FIN | ACK), (0, ACK)],
                11 => &[(0, RST)],
                _ => &[(0, FIN | ACK), (1, RST | ACK)],
            };
            for &(side, flags) in closing {
                talk.send(side ^ first, flags, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::build::upper_checksum;

    #[test]
    fn a_handshake_is_what_the_rfc_says() {
        let mut talk = Talk::new(&mut Rng::with_seed(1));
        talk.handshake();
        let [(_, syn), (_, both), (_, ack)] = &talk.said[..] else { panic!() };
        assert_eq!((syn.flags, both.flags, ack.flags), (SYN, SYN | ACK, ACK));
        assert_eq!(both.ack, syn.seq.wrapping_add(1));
        assert_eq!((ack.seq, ack.ack), (both.ack, both.seq.wrapping_add(1)));
        for (packet, (from, _)) in talk.packets.iter().zip(&talk.said) {
            let way = talk.way(*from);
            let bytes = &packet[if way.is_v6() { 40 } else { 20 }..];
            assert_eq!(upper_checksum(way, TCP, bytes.len(), bytes), 0);
        }
    }

    #[test]
    fn the_walk_covers_states_directions_and_flags() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..1664 {
            seen.insert((seed % 13, seed / 13 % 2, seed / 26 % 64));
        }
        assert_eq!(seen.len(), 1664);
    }
}
