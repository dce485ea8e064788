//! Packets for tests: bytes of IP packets with right checksums, and a path to feed them to.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use etherparse::{PacketBuilder, TcpHeader};
use fourtuple_conntrack::{
    Connection, Conntrack, PathOptions, ReceivePath, Settings, TupleHash, Verdict,
};
use fourtuple_hash::Key;
use fourtuple_packet::{Instant, LinkType};

pub use fourtuple_packet::tcp_flags::{ACK, FIN, PSH, RST, SYN, URG};

pub const CLIENT: [u8; 4] = [10, 0, 1, 2];
pub const SERVER: [u8; 4] = [10, 0, 2, 2];
pub const CLIENT6: [u8; 16] = [0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
pub const SERVER6: [u8; 16] = [0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// One TCP segment from client to server or back.
#[derive(Clone, Debug)]
pub struct Segment {
    pub reply: bool,
    pub sport: u16,
    pub dport: u16,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub len: usize,
    pub options: Vec<u8>,
}

/// A segment from the client (port 1111) to the server (port 80).
pub fn client(flags: u8, seq: u32, ack: u32) -> Segment {
    Segment {
        reply: false,
        sport: 1111,
        dport: 80,
        flags,
        seq,
        ack,
        window: 1000,
        len: 0,
        options: Vec::new(),
    }
}

/// A segment from the server to the client.
pub fn server(flags: u8, seq: u32, ack: u32) -> Segment {
    Segment { reply: true, ..client(flags, seq, ack) }
}

impl Segment {
    pub fn window(self, window: u16) -> Self {
        Self { window, ..self }
    }

    pub fn len(self, len: usize) -> Self {
        Self { len, ..self }
    }

    pub fn options(self, options: &[u8]) -> Self {
        Self { options: options.to_vec(), ..self }
    }

    pub fn ports(self, sport: u16, dport: u16) -> Self {
        Self { sport, dport, ..self }
    }

    /// The IPv4 packet.
    pub fn bytes(&self) -> Vec<u8> {
        let (src, dst, sport, dport) = match self.reply {
            false => (CLIENT, SERVER, self.sport, self.dport),
            true => (SERVER, CLIENT, self.dport, self.sport),
        };
        let mut header = TcpHeader::new(sport, dport, self.seq, self.window);
        header.acknowledgment_number = self.ack;
        header.fin = self.flags & FIN != 0;
        header.syn = self.flags & SYN != 0;
        header.rst = self.flags & RST != 0;
        header.psh = self.flags & PSH != 0;
        header.ack = self.flags & ACK != 0;
        header.urg = self.flags & URG != 0;
        header.set_options_raw(&self.options).expect("options fit");
        let mut out = Vec::new();
        PacketBuilder::ipv4(src, dst, 64)
            .tcp_header(header)
            .write(&mut out, &vec![0x61; self.len])
            .expect("writes to memory");
        out
    }
}

pub fn udp(src: [u8; 4], sport: u16, dst: [u8; 4], dport: u16, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let builder = PacketBuilder::ipv4(src, dst, 64).udp(sport, dport);
    builder.write(&mut out, &vec![0x62; len]).expect("writes to memory");
    out
}

pub fn udp6(src: [u8; 16], sport: u16, dst: [u8; 16], dport: u16, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let builder = PacketBuilder::ipv6(src, dst, 64).udp(sport, dport);
    builder.write(&mut out, &vec![0x62; len]).expect("writes to memory");
    out
}

/// An IPv4 packet of any protocol.
pub fn ipv4(src: [u8; 4], dst: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0];
    out.extend(src);
    out.extend(dst);
    out.extend(payload);
    let len = out.len() as u16;
    out[2..4].copy_from_slice(&len.to_be_bytes());
    fix_ip(&mut out);
    out
}

/// An IPv6 packet; `protocol` is the first next header.
pub fn ipv6(src: [u8; 16], dst: [u8; 16], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend([protocol, 255]);
    out.extend(src);
    out.extend(dst);
    out.extend(payload);
    out
}

/// An ICMP message with its checksum: type, code, the four bytes behind the checksum, body.
pub fn icmp(src: [u8; 4], dst: [u8; 4], ty: u8, code: u8, rest: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut message = vec![ty, code, 0, 0];
    message.extend(rest);
    message.extend(body);
    let sum = !sum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(src, dst, 1, &message)
}

/// An ICMPv6 message with its checksum.
pub fn icmp6(
    src: [u8; 16],
    dst: [u8; 16],
    ty: u8,
    code: u8,
    rest: [u8; 4],
    body: &[u8],
) -> Vec<u8> {
    let mut message = vec![ty, code, 0, 0];
    message.extend(rest);
    message.extend(body);
    let mut pseudo: Vec<u8> = src.into_iter().chain(dst).collect();
    pseudo.extend((message.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, 58]);
    pseudo.extend(&message);
    let sum = !sum(&pseudo);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv6(src, dst, 58, &message)
}

/// Puts the right IPv4 header checksum in.
pub fn fix_ip(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = !sum(&packet[..header]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// One's complement sum, the plain way.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A receive path with accounting on, fed at times in seconds.
pub struct Host {
    pub path: ReceivePath,
    pub now: f64,
}

impl Host {
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        Self::with_options(settings, PathOptions::default())
    }

    pub fn with_options(settings: Settings, options: PathOptions) -> Self {
        let settings = Settings { acct: true, ..settings };
        let conntrack = Conntrack::new(settings, TupleHash::Compact, Key::from_words(1, 2));
        Self { path: ReceivePath::new(conntrack, options), now: 1000.0 }
    }

    pub fn wait(&mut self, seconds: f64) {
        self.now += seconds;
    }

    pub fn instant(&self) -> Instant {
        Instant::from_nanos((self.now * 1e9) as u64)
    }

    pub fn ip(&mut self, packet: &[u8]) -> Verdict {
        let now = self.instant();
        self.path.frame(now, LinkType::RAW, packet, packet.len() as u32)
    }

    pub fn tcp(&mut self, segment: Segment) -> Verdict {
        self.ip(&segment.bytes())
    }

    /// Shakes hands: client sequence number 1000, server 5000, windows 1000, no options. Next are 1001 and 5001.
    pub fn handshake(&mut self) {
        self.tcp(client(SYN, 1000, 0));
        self.tcp(server(SYN | ACK, 5000, 1001));
        self.tcp(client(ACK, 1001, 5001));
    }

    /// The connection of a verdict.
    pub fn conn(&self, verdict: &Verdict) -> &Connection {
        let id = verdict.connection.expect("a connection");
        self.path.conntrack().connection(id).expect("known")
    }

    /// Seconds that the verdict's connection has left.
    pub fn left(&self, verdict: &Verdict) -> u64 {
        self.conn(verdict).remaining(self.instant()).as_secs()
    }
}

/// The words of verdict, direction and reason.
pub fn words(v: &Verdict) -> (&'static str, &'static str, &'static str) {
    (v.kind.word(), v.direction.map_or("-", |d| d.name()), v.reason.word())
}
