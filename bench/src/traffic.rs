//! Frames of numbered UDP and TCP connections, with right checksums.

use std::ops::Range;

use anyhow::Result;
use etherparse::PacketBuilder;
use fourtuple::conntrack::Frame;
use fourtuple::{Instant, LinkType};

use crate::random::Random;

/// Bytes of data in each packet of an established connection.
pub(crate) const DATA: usize = 64;

/// Capture time between two frames.
const GAP_NS: u64 = 100;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Udp,
    Tcp,
}

#[derive(Clone, Copy)]
struct Peers {
    /// Next sequence number of client and server.
    seq: [u32; 2],
    /// Whose turn it is to send.
    side: usize,
}

/// Connections, and the frames last made of them. Making frames is not part of any figure.
pub(crate) struct Traffic {
    protocol: Protocol,
    peers: Vec<Peers>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    now: u64,
}

const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

impl Traffic {
    pub(crate) fn new(protocol: Protocol, connections: usize) -> Self {
        let peers = (0..connections as u32).map(|i| {
            let seq = [i.wrapping_mul(0x9e37_79b9), i.wrapping_mul(0x85eb_ca6b)];
            Peers { seq, side: 0 }
        });
        let peers = peers.collect();
        Self { protocol, peers, bytes: Vec::new(), ends: Vec::new(), now: 0 }
    }

    /// Frames that make these connections answered ones: a question and its answer, or TCP's three-way handshake.
    pub(crate) fn open(&mut self, connections: Range<usize>) -> Result<()> {
        self.clear();
        for i in connections {
            match self.protocol {
                Protocol::Udp => {
                    self.frame(i, 0, 0, DATA)?;
                    self.frame(i, 1, 0, DATA)?;
                }
                Protocol::Tcp => {
                    self.frame(i, 0, SYN, 0)?;
                    self.frame(i, 1, SYN | ACK, 0)?;
                    self.frame(i, 0, ACK, 0)?;
                }
            }
        }
        Ok(())
    }

    /// The first frame of each of these connections.
    pub(crate) fn first(&mut self, connections: Range<usize>) -> Result<()> {
        self.clear();
        for i in connections {
            match self.protocol {
                Protocol::Udp => self.frame(i, 0, 0, DATA)?,
                Protocol::Tcp => self.frame(i, 0, SYN, 0)?,
            }
        }
        Ok(())
    }

    /// `count` frames of random connections, all open: each connection's two ends send in turn.
    pub(crate) fn established(&mut self, count: usize, r: &mut Random) -> Result<()> {
        self.clear();
        for _ in 0..count {
            let i = r.below(self.peers.len());
            let side = self.peers[i].side;
            self.peers[i].side = 1 - side;
            self.frame(i, side, PSH | ACK, DATA)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn frame(&mut self, i: usize, side: usize, flags: u8, size: usize) -> Result<()> {
        let [_, a, b, c] = (i as u32).to_be_bytes();
        let (client, server) = ([10, a, b, c], [172, 16, b & 3, c & 15]);
        let ports = (1024 + (i % 60_000) as u16, 443);
        let (src, dst, (sport, dport)) = match side {
            0 => (client, server, ports),
            _ => (server, client, (ports.1, ports.0)),
        };
        let mac = [2, 0, 0, 0, 0, 1];
        let ip = PacketBuilder::ethernet2(mac, mac).ipv4(src, dst, 64);
        let data = &[0x5a; DATA][..size];
        let peers = &mut self.peers[i];
        match self.protocol {
            Protocol::Udp => ip.udp(sport, dport).write(&mut self.bytes, data)?,
            Protocol::Tcp => {
                let mut tcp = ip.tcp(sport, dport, peers.seq[side], 65_000);
                if flags & SYN != 0 {
                    tcp = tcp.syn();
                }
                if flags & ACK != 0 {
                    tcp = tcp.ack(peers.seq[1 - side]);
                }
                if flags & PSH != 0 {
                    tcp = tcp.psh();
                }
                tcp.write(&mut self.bytes, data)?;
                let taken = size as u32 + u32::from(flags & SYN != 0);
                peers.seq[side] = peers.seq[side].wrapping_add(taken);
            }
        }
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// The frames last made. They take up capture time once.
    pub(crate) fn frames(&mut self) -> Vec<Frame<'_>> {
        let mut start = 0;
        let mut frames = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            self.now += GAP_NS;
            let data = &self.bytes[start..end];
            let now = Instant::from_nanos(self.now);
            frames.push(Frame { now, link: LinkType::ETHERNET, data, wire_len: data.len() as u32 });
            start = end;
        }
        frames
    }
}
