//! What other programs say: captures of public test suites, `pcap-parser`, and tshark and tcpdump where they are.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;
use fourtuple_capture::{
    CaptureReader, Cause, InterfaceInfo, LinkType, PacketInfo, PcapWriter, PcapngWriter, Precision,
    SectionInfo,
};
use fourtuple_packet::Instant;
use pcap_parser::{Block, PcapBlockOwned, PcapError};

fn captures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    if folder.join("index.tsv").is_file() {
        return Some(folder);
    }
    println!("skipped: ../shared/captures is not there");
    None
}

/// File name and number of packets.
fn index(folder: &Path) -> Vec<(String, usize)> {
    let text = std::fs::read_to_string(folder.join("index.tsv")).unwrap();
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let packets = head.iter().position(|&h| h == "packets").unwrap();
    lines.map(|l| (l[0].to_owned(), l[packets].parse().unwrap())).collect()
}

#[test]
fn captures_of_other_projects_are_read_to_their_end() {
    let Some(folder) = captures() else { return };
    let index = index(&folder);
    assert!(index.len() >= 50);
    for (file, packets) in index {
        let (all, error) = drain(CaptureReader::open(folder.join(&file)).unwrap());
        assert_eq!(all.len(), packets, "{file}: {error:?}");
        match error {
            Some(e) if file == "format--pcpp-fuzz-5717750942269440.pcap" => {
                assert!(matches!(e.cause(), Cause::RecordTooLong { number: 3, .. }), "{e}");
            }
            Some(e) => panic!("{e}"),
            None => assert!(!file.contains("fuzz-57177"), "the cut in {file} went unnoticed"),
        }
    }
}

/// Data and wire length of each packet, as `pcap-parser` finds them.
fn other_voice(path: &Path) -> Vec<(Vec<u8>, u32)> {
    let file = std::fs::File::open(path).unwrap();
    let mut reader = pcap_parser::create_reader(1 << 20, file).unwrap();
    let (mut all, mut starved) = (Vec::new(), false);
    loop {
        match reader.next() {
            Ok((used, block)) => {
                starved = false;
                match block {
                    PcapBlockOwned::Legacy(b) => all.push((b.data.to_vec(), b.origlen)),
                    PcapBlockOwned::NG(Block::EnhancedPacket(b)) => {
                        all.push((b.data[..b.caplen as usize].to_vec(), b.origlen));
                    }
                    PcapBlockOwned::NG(Block::SimplePacket(b)) => {
                        all.push((
                            b.data[..b.data.len().min(b.origlen as usize)].to_vec(),
                            b.origlen,
                        ));
                    }
                    _ => {}
                }
                reader.consume(used);
            }
            // Twice in a row: there is no more.
            Err(PcapError::Incomplete(_)) if !starved => {
                starved = true;
                reader.refill().unwrap();
            }
            Err(_) => return all,
        }
    }
}

#[test]
fn pcap_parser_finds_the_same_packets() {
    let Some(folder) = captures() else { return };
    let mut compared = 0;
    for (file, _) in index(&folder) {
        // It reads no gzip.
        if file.ends_with(".gz") {
            continue;
        }
        let path = folder.join(&file);
        let mut reader = CaptureReader::open(&path).unwrap();
        if reader.format().compression.is_some() {
            continue;
        }
        let mut ours = Vec::new();
        while let Some(Ok(record)) = reader.next() {
            ours.push((record.data.to_vec(), record.wire_len));
        }
        assert!(ours == other_voice(&path), "{file}");
        compared += 1;
    }
    assert!(compared >= 50, "{compared}");
}

/// The standard output of a program, or none if it is not installed.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(done) => {
            let errors = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{program}: {errors}");
            Some(String::from_utf8(done.stdout).unwrap())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} not found");
            None
        }
        Err(e) => panic!("{program}: {e}"),
    }
}

/// IPv4, UDP from 10.0.0.1 port 4000 to 10.0.0.2 port 53, 2 bytes of data.
const DATAGRAM: [u8; 30] = [
    0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x0f, 0xa0, 0, 53, 0, 10,
    0, 0, b'h', b'i',
];

fn with_comments(path: &Path) {
    let section = SectionInfo {
        hardware: Some("a machine"),
        os: Some("Linux"),
        application: Some("fourtuple test"),
        comment: Some("a section"),
    };
    let mut writer = PcapngWriter::new(std::fs::File::create(path).unwrap(), &section).unwrap();
    let first = writer
        .add_interface(&InterfaceInfo { link_type: LinkType::RAW, snaplen: 0, name: Some("veth0") })
        .unwrap();
    let second = writer.interface_for(LinkType::IPV4, 30).unwrap();
    for (interface, comment, data) in [
        (first, Some("new: größer"), &DATAGRAM[..]),
        (second, None, &DATAGRAM[..29]),
        (second, Some("x"), &DATAGRAM[..]),
    ] {
        let time = Instant::from_nanos(1_700_000_000_123_456_789);
        let packet = PacketInfo { interface, time, wire_len: 30, data, comment, flags: Some(1) };
        writer.write(&packet).unwrap();
    }
    writer.into_inner().unwrap();
}

#[test]
fn tshark_reads_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    with_comments(&path);
    let path = path.to_str().unwrap();
    let fields = [
        "-r",
        path,
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.comment",
        "-e",
        "frame.interface_id",
        "-e",
        "frame.cap_len",
        "-e",
        "udp.dstport",
        "-e",
        "frame.interface_name",
        "-e",
        "frame.packet_flags_direction",
    ];
    let Some(text) = output("tshark", &fields) else {
        return;
    };
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split('|').collect()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    // Directions are printed in hex or not, by version.
    let first = ["1700000000.123456789", "new: größer", "0", "30", "53", "veth0"];
    assert_eq!(lines[0][..6], first, "{text}");
    assert!(lines.iter().all(|l| l[6].ends_with('1')), "{text}");
    assert_eq!(lines[1][1..4], ["", "1", "29"], "{text}");
    assert_eq!(lines[2][1..5], ["x", "1", "30", "53"], "{text}");
}

#[test]
fn tcpdump_reads_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let time = Instant::from_nanos(1_700_000_000_123_456_789);
    let classic = folder.path().join("a.pcap");
    let file = std::fs::File::create(&classic).unwrap();
    let mut writer = PcapWriter::new(file, LinkType::RAW, 0, Precision::Nanos).unwrap();
    writer.write(time, 30, &DATAGRAM).unwrap();
    writer.into_inner().unwrap();

    // libpcap wants one link type and one snap length a file.
    let blocks = folder.path().join("a.pcapng");
    let file = std::fs::File::create(&blocks).unwrap();
    let mut writer = PcapngWriter::new(file, &SectionInfo::default()).unwrap();
    let interface = writer.interface_for(LinkType::RAW, 0).unwrap();
    let comment = Some("a comment that is not a multiple of four");
    writer
        .write(&PacketInfo { interface, time, wire_len: 30, data: &DATAGRAM, comment, flags: None })
        .unwrap();
    writer.into_inner().unwrap();

    for path in [classic, blocks] {
        let arguments = ["--nano", "-tt", "-n", "-r", path.to_str().unwrap()];
        let Some(text) = output("tcpdump", &arguments) else {
            return;
        };
        let start = "1700000000.123456789 IP 10.0.0.1.4000 > 10.0.0.2.53";
        assert!(text.starts_with(start), "{}: {text}", path.display());
    }
}
