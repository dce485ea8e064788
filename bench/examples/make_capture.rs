//! Makes a large capture of mixed flows, seeded, with right checksums: the input of the benchmark beside other tools.
//!
//! `cargo run --release -p fourtuple-bench --example make_capture -- --size 1GiB OUT.pcap`
//!
//! A fixed number of flows is alive at any time; a random one sends a train of packets, then the next, and a flow that
//! has ended is replaced by a new one. TCP flows shake hands, send both ways, acknowledge and close; UDP flows ask and are
//! answered; pings are answered.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Parser;
use etherparse::PacketBuilder;

/// Make a capture of mixed TCP, UDP and ICMP flows over IPv4 and IPv6.
#[derive(Parser)]
struct Args {
    /// Stop when the file has about this size: bytes, or with MiB or GiB.
    #[arg(long, default_value = "1GiB", value_parser = parse_size)]
    size: u64,
    /// Flows alive at a time.
    #[arg(long, default_value_t = 20_000)]
    flows: usize,
    /// Packets per second of capture time.
    #[arg(long, default_value_t = 250_000)]
    rate: u64,
    /// Seed: the same one gives the same file.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write, classic pcap with nanoseconds.
    out: PathBuf,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("'{unit}' is not a unit: use KiB, MiB or GiB")),
    };
    let number: u64 = number.parse().map_err(|e| format!("'{text}': {e}"))?;
    number.checked_mul(factor).ok_or_else(|| format!("'{text}' is too large"))
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, seeded, good enough to mix traffic.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Tcp,
    Udp,
    Ping,
}

struct Flow {
    kind: Kind,
    v6: bool,
    client: u32,
    server: u32,
    sport: u16,
    dport: u16,
    /// Packets with data (TCP: or bare acknowledgements) between opening and close.
    data: u32,
    step: u32,
    /// Next sequence number of client and server.
    seq: [u32; 2],
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

impl Flow {
    fn new(r: &mut Random) -> Self {
        let kind = match r.below(100) {
            0..60 => Kind::Tcp,
            60..95 => Kind::Udp,
            _ => Kind::Ping,
        };
        // Most flows are short, a few are long: the usual shape.
        let data = match r.below(100) {
            0..50 => 2 + r.below(6),
            50..90 => 6 + r.below(40),
            _ => 40 + r.below(800),
        };
        let dport = [80, 443, 443, 443, 53, 853, 8080, 22, 123, 5060][r.below(10) as usize];
        Self {
            kind,
            v6: r.below(5) == 0,
            client: r.below(1 << 18) as u32,
            server: r.below(1 << 14) as u32,
            sport: 1024 + r.below(64_512) as u16,
            dport,
            data: data as u32,
            step: 0,
            seq: [r.next() as u32, r.next() as u32],
        }
    }

    /// The next packet: from which side, flags, payload length; `None` when the flow is over.
    fn next(&mut self, r: &mut Random) -> Option<(usize, u8, usize)> {
        let step = self.step;
        self.step += 1;
        let size = match r.below(10) {
            0..6 => r.below(160),
            6..9 => 100 + r.below(400),
            _ => 1300,
        } as usize;
        if !matches!(self.kind, Kind::Tcp) {
            return (step < self.data).then_some(((step % 2) as usize, 0, size));
        }
        match step {
            0 => Some((0, SYN, 0)),
            1 => Some((1, SYN | ACK, 0)),
            2 => Some((0, ACK, 0)),
            _ => match (step - 3).checked_sub(self.data) {
                None => {
                    let side = usize::from(r.below(3) != 0);
                    let bare = r.below(3) == 0;
                    Some(if bare { (side, ACK, 0) } else { (side, ACK | PSH, size) })
                }
                Some(0) => Some((0, FIN | ACK, 0)),
                Some(1) => Some((1, FIN | ACK, 0)),
                Some(2) => Some((0, ACK, 0)),
                Some(_) => None,
            },
        }
    }
}

fn emit(
    flow: &mut Flow,
    (side, flags, size): (usize, u8, usize),
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let ends = |v: [u32; 2]| if side == 0 { v } else { [v[1], v[0]] };
    let [src, dst] = ends([flow.client, flow.server]);
    let [sport, dport] =
        if side == 0 { [flow.sport, flow.dport] } else { [flow.dport, flow.sport] };
    let mac = |a: u32| [2, 0, 0, (a >> 16) as u8, (a >> 8) as u8, a as u8];
    let v4 = |a: u32, client: bool| {
        [if client { 10 } else { 172 }, (a >> 16) as u8, (a >> 8) as u8, a as u8]
    };
    let v6 = |a: u32, client: bool| {
        let mut b = [0u8; 16];
        b[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        b[7] = u8::from(client);
        b[12..].copy_from_slice(&a.to_be_bytes());
        b
    };
    let link = PacketBuilder::ethernet2(mac(src), mac(dst));
    let ip = if flow.v6 {
        link.ipv6(v6(src, side == 0), v6(dst, side != 0), 64)
    } else {
        link.ipv4(v4(src, side == 0), v4(dst, side != 0), 64)
    };
    let payload = &payload[..size];
    match flow.kind {
        Kind::Tcp => {
            let mut tcp = ip.tcp(sport, dport, flow.seq[side], 65_000);
            if flags & ACK != 0 {
                tcp = tcp.ack(flow.seq[1 - side]);
            }
            if flags & SYN != 0 {
                tcp = tcp.syn();
            }
            if flags & FIN != 0 {
                tcp = tcp.fin();
            }
            if flags & PSH != 0 {
                tcp = tcp.psh();
            }
            tcp.write(out, payload)?;
            let taken = size as u32 + u32::from(flags & (SYN | FIN) != 0);
            flow.seq[side] = flow.seq[side].wrapping_add(taken);
        }
        Kind::Udp => ip.udp(sport, dport).write(out, payload)?,
        Kind::Ping => {
            let n = flow.step as u16 / 2;
            match (flow.v6, side) {
                (false, 0) => ip.icmpv4_echo_request(flow.sport, n).write(out, payload)?,
                (false, _) => ip.icmpv4_echo_reply(flow.sport, n).write(out, payload)?,
                (true, 0) => ip.icmpv6_echo_request(flow.sport, n).write(out, payload)?,
                (true, _) => ip.icmpv6_echo_reply(flow.sport, n).write(out, payload)?,
            }
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.flows == 0 || args.rate == 0 {
        bail!("--flows and --rate must be at least 1");
    }
    let file = File::create(&args.out).with_context(|| format!("{}", args.out.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    // Header of a classic pcap file with nanoseconds, Ethernet, in this machine's byte order.
    for word in [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 262_144, 1] {
        out.write_all(&u32::to_ne_bytes(word))?;
    }
    let mut r = Random(args.seed);
    let payload: Vec<u8> = (0..2048).map(|_| r.next() as u8).collect();
    let mut flows: Vec<Flow> = (0..args.flows).map(|_| Flow::new(&mut r)).collect();
    let mut frame = Vec::with_capacity(2048);
    let (mut written, mut packets, mut total_flows) = (24u64, 0u64, args.flows as u64);
    let gap = 1_000_000_000 / args.rate;
    let mut now = 1_700_000_000_000_000_000u64;
    // Packets of a flow come in trains (Jain and Routhier, 1986), most of them short.
    let (mut i, mut train) = (0, 0);
    while written < args.size {
        if train == 0 {
            i = r.below(flows.len() as u64) as usize;
            train = 1 + if r.below(4) == 0 { r.below(16) } else { r.below(3) };
        }
        train -= 1;
        let Some(step) = flows[i].next(&mut r) else {
            flows[i] = Flow::new(&mut r);
            total_flows += 1;
            continue;
        };
        frame.clear();
        emit(&mut flows[i], step, &payload, &mut frame)?;
        let len = frame.len() as u32;
        for word in [(now / 1_000_000_000) as u32, (now % 1_000_000_000) as u32, len, len] {
            out.write_all(&word.to_ne_bytes())?;
        }
        out.write_all(&frame)?;
        written += 16 + u64::from(len);
        packets += 1;
        now += gap / 2 + r.below(gap);
    }
    out.flush()?;
    println!("{packets} packets, {total_flows} flows, {written} bytes, seed {}", args.seed);
    Ok(())
}
