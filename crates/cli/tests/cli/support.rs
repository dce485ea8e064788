//! Packets built by hand, captures written to a scratch folder, and the program run on them.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fourtuple::capture::{PacketInfo, PcapWriter, PcapngWriter, Precision, SectionInfo};
use fourtuple::packet::{Instant, LinkType};
use serde_json::Value;
use tempfile::TempDir;

/// 2024-01-01T00:00:00Z.
pub(crate) const NEW_YEAR: u64 = 1_704_067_200_000_000_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// What the program said.
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Standard output as JSON, a value a line.
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}"));
        self.out.lines().map(parse).collect()
    }

    /// Standard output, of a run that went well.
    pub(crate) fn fine(self) -> Self {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{}", self.out);
        self
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            status: output.status.code().expect("not killed by a signal"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fourtuple"));
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Runs the program with arguments split at blanks, and then `paths`.
pub(crate) fn run(arguments: &str, paths: &[&Path]) -> Said {
    run_words(&arguments.split_whitespace().collect::<Vec<_>>(), paths)
}

pub(crate) fn run_words(arguments: &[&str], paths: &[&Path]) -> Said {
    program().args(arguments).args(paths).output().expect("runs").into()
}

/// Runs the program with `bytes` as standard input.
pub(crate) fn run_on_stdin(arguments: &str, bytes: Vec<u8>) -> Said {
    let mut child = program()
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let said = child.wait_with_output().expect("ends").into();
    // A damaged capture is not read to its end.
    let _ = writer.join().expect("no panic");
    said
}

/// A frame with its time in nanoseconds since [`NEW_YEAR`].
pub(crate) type Timed = (u64, Vec<u8>);

/// A folder that goes away with the test.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("is written");
        path
    }

    /// A pcap file of raw IP packets.
    pub(crate) fn pcap(&self, name: &str, packets: &[Timed]) -> PathBuf {
        self.write(name, &pcap(packets))
    }
}

/// A pcap file of raw IP packets.
pub(crate) fn pcap(packets: &[Timed]) -> Vec<u8> {
    let mut writer =
        PcapWriter::new(Vec::new(), LinkType::RAW, 0, Precision::Nanos).expect("memory");
    for (after, packet) in packets {
        let at = Instant::from_nanos(NEW_YEAR + after);
        writer.write(at, packet.len() as u32, packet).expect("memory");
    }
    writer.into_inner().expect("memory")
}

/// A pcapng file of raw IP packets with a comment each.
pub(crate) fn pcapng(packets: &[Timed], comment: &str) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), &SectionInfo::default()).expect("memory");
    let interface = writer.interface_for(LinkType::RAW, 0).expect("memory");
    for (after, data) in packets {
        let packet = PacketInfo {
            interface,
            time: Instant::from_nanos(NEW_YEAR + after),
            wire_len: data.len() as u32,
            data,
            comment: Some(comment),
            flags: Some(1),
        };
        writer.write(&packet).expect("memory");
    }
    writer.into_inner().expect("memory")
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// A TCP segment between 10.0.0.A and 10.0.0.B.
#[derive(Clone)]
pub(crate) struct Tcp {
    from: u8,
    to: u8,
    sport: u16,
    dport: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    payload: usize,
}

impl Tcp {
    /// From host 1, port 40000, to host 2, port 80.
    pub(crate) fn client(flags: u8, seq: u32, ack: u32) -> Self {
        Self { from: 1, to: 2, sport: 40_000, dport: 80, flags, seq, ack, payload: 0 }
    }

    /// The other way.
    pub(crate) fn server(flags: u8, seq: u32, ack: u32) -> Self {
        Self { from: 2, to: 1, sport: 80, dport: 40_000, flags, seq, ack, payload: 0 }
    }

    pub(crate) fn sport(self, sport: u16) -> Self {
        Self { sport, ..self }
    }

    pub(crate) fn payload(self, payload: usize) -> Self {
        Self { payload, ..self }
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        const WINDOW: u16 = 1000;
        let mut segment = Vec::new();
        segment.extend(self.sport.to_be_bytes());
        segment.extend(self.dport.to_be_bytes());
        segment.extend(self.seq.to_be_bytes());
        segment.extend(self.ack.to_be_bytes());
        segment.extend([5 << 4, self.flags]);
        segment.extend(WINDOW.to_be_bytes());
        segment.extend([0; 4]);
        segment.resize(segment.len() + self.payload, b'x');
        ipv4(self.from, self.to, 6, segment, Some(16))
    }
}

/// A UDP datagram from host `from` to host `to`.
pub(crate) fn udp(from: u8, sport: u16, to: u8, dport: u16, payload: usize) -> Vec<u8> {
    ipv4(from, to, 17, udp_header(sport, dport, payload), Some(6))
}

fn udp_header(sport: u16, dport: u16, payload: usize) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(sport.to_be_bytes());
    datagram.extend(dport.to_be_bytes());
    datagram.extend((8 + payload as u16).to_be_bytes());
    datagram.extend([0; 2]);
    datagram.resize(8 + payload, b'x');
    datagram
}

/// A UDP datagram between 2001:db8::FROM and 2001:db8::TO.
pub(crate) fn udp6(from: u8, sport: u16, to: u8, dport: u16, payload: usize) -> Vec<u8> {
    let mut datagram = udp_header(sport, dport, payload);
    let address = |host: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()).octets();
    let mut pseudo = [address(from), address(to)].concat();
    pseudo.extend([0, 0, 0, datagram.len() as u8, 0, 0, 0, 17]);
    put_checksum(&mut datagram, &pseudo, 6);
    let mut packet = vec![0x60, 0, 0, 0, 0, datagram.len() as u8, 17, 64];
    packet.extend([address(from), address(to)].concat());
    packet.extend(datagram);
    packet
}

/// An ICMP message from host `from` to host `to`; `rest` begins with the identifier.
pub(crate) fn icmp(from: u8, to: u8, ty: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![ty, code, 0, 0];
    message.extend(rest);
    put_checksum(&mut message, &[], 2);
    ipv4(from, to, 1, message, None)
}

/// An IPv4 packet; the transport checksum at `checksum_at` is filled in.
pub(crate) fn ipv4(
    from: u8,
    to: u8,
    protocol: u8,
    mut payload: Vec<u8>,
    checksum_at: Option<usize>,
) -> Vec<u8> {
    let address = |host: u8| Ipv4Addr::new(10, 0, 0, host).octets();
    if let Some(at) = checksum_at {
        let mut pseudo = [address(from), address(to)].concat();
        pseudo.extend([0, protocol]);
        pseudo.extend((payload.len() as u16).to_be_bytes());
        put_checksum(&mut payload, &pseudo, at);
    }
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    packet.extend([address(from), address(to)].concat());
    put_checksum(&mut packet, &[], 10);
    packet.extend(payload);
    packet
}

/// RFC 1071.
fn put_checksum(bytes: &mut [u8], pseudo: &[u8], at: usize) {
    bytes[at..at + 2].fill(0);
    let words = |b: &[u8]| -> u32 {
        b.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c.get(1).copied().unwrap_or(0))).sum()
    };
    let mut sum = words(pseudo) + words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// A bit of everything, a millisecond apart.
///
/// | packet | |
/// |---|---|
/// | 1 to 3 | handshake: the client begins at 100, the server at 5000; windows of 1000 |
/// | 4, 5 | 100 bytes from the client, acknowledged |
/// | 6 | a segment far above the server's window |
/// | 7 | a UDP query from host 3 |
/// | 8 | its answer |
/// | 9 | a ping |
/// | 10 | port unreachable about a UDP datagram that was never sent |
pub(crate) fn conversation() -> Vec<Timed> {
    let quoted = udp(1, 7, 9, 9, 0);
    let mut unreachable = vec![0; 4];
    unreachable.extend(quoted);
    vec![
        (0, Tcp::client(SYN, 100, 0).build()),
        (MS, Tcp::server(SYN | ACK, 5000, 101).build()),
        (2 * MS, Tcp::client(ACK, 101, 5001).build()),
        (3 * MS, Tcp::client(ACK, 101, 5001).payload(100).build()),
        (4 * MS, Tcp::server(ACK, 5001, 201).build()),
        (5 * MS, Tcp::client(ACK, 100_000, 5001).payload(10).build()),
        (6 * MS, udp(3, 5353, 4, 53, 30)),
        (7 * MS, udp(4, 53, 3, 5353, 60)),
        (8 * MS, icmp(1, 2, 8, 0, &[0, 7, 0, 1])),
        (9 * MS, icmp(9, 1, 3, 3, &unreachable)),
    ]
}
