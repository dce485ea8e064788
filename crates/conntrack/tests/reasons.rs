//! Every reason of the closed set is produced by a packet here.

mod support;

use std::collections::BTreeSet;

use fourtuple_conntrack::{
    Conntrack, Context, CutPackets, PathOptions, Reason, ReceivePath, Settings, TupleHash, Verdict,
    VerdictKind,
};
use fourtuple_hash::Key;
use fourtuple_packet::{Instant, LinkType, Packet};
use support::*;

fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

/// A host after a handshake and one more reply, so that every number is known: client next 1001, server next 5001.
fn established() -> Host {
    let mut host = Host::new();
    host.handshake();
    host
}

fn ethernet(host: &mut Host, frame: &[u8]) -> Verdict {
    let now = host.instant();
    host.path.frame(now, LinkType::ETHERNET, frame, frame.len() as u32)
}

/// Packets that belong to connections.
fn accepted() -> Vec<(Reason, Verdict)> {
    let mut out = Vec::new();
    let mut host = Host::new();
    out.push((Reason::NewFlow, host.tcp(client(SYN, 1000, 0))));
    out.push((Reason::Unreplied, host.tcp(client(SYN, 1000, 0))));
    out.push((Reason::FirstReply, host.tcp(server(SYN | ACK, 5000, 1001))));
    out.push((Reason::TwoWay, host.tcp(client(ACK, 1001, 5001))));
    out.push((Reason::TcpIgnored, host.tcp(client(SYN, 9000, 0))));
    out.push((Reason::TcpResynced, host.tcp(server(SYN | ACK, 7000, 9001))));

    out.push((Reason::PickedUp, Host::new().tcp(client(ACK, 1, 1))));
    let mut host = established();
    host.tcp(client(RST | ACK, 1001, 5001));
    out.push((Reason::Reopened, host.tcp(client(SYN, 90_000, 0))));

    // A SYN on a half-closed connection, and the ACK that challenges it.
    let mut host = established();
    host.tcp(client(FIN | ACK, 1001, 5001));
    host.tcp(server(FIN | ACK, 5001, 1002));
    host.tcp(client(SYN, 70_000, 0));
    out.push((Reason::TcpChallengeAck, host.tcp(server(ACK, 5002, 1002))));

    out.push((Reason::TcpOvershoot, established().tcp(client(ACK, 2500, 5001).len(10))));
    let mut host = established();
    host.tcp(client(ACK, 1001, 5001).len(1000));
    host.tcp(server(ACK, 5001, 2001));
    host.tcp(client(ACK, 2001, 5001).len(1000));
    host.tcp(server(ACK, 5001, 3001));
    out.push((Reason::TcpOldData, host.tcp(client(ACK, 1001, 5001).len(10))));
    out.push((
        Reason::TcpOldAck,
        established().tcp(client(ACK, 1001, 5001u32.wrapping_sub(67_000))),
    ));
    let liberal = settings(|s| s.tcp_be_liberal = true);
    let mut host = Host::with(liberal);
    host.handshake();
    out.push((Reason::TcpLiberal, host.tcp(client(ACK, 900_000, 5001))));
    out.push((Reason::TcpRstInexact, established().tcp(server(RST, 5002, 0))));
    let mut host = Host::new();
    host.tcp(client(SYN, 1000, 0));
    out.push((Reason::TcpRstUnanswered, host.tcp(client(RST, 1001, 0))));

    out.push((Reason::GenericTracker, Host::new().ip(&ipv4(CLIENT, SERVER, 47, &[0, 0, 8, 0]))));
    let query = udp(CLIENT, 1111, SERVER, 53, 20);
    let mut host = Host::new();
    host.ip(&query);
    out.push((Reason::IcmpError, host.ip(&icmp(SERVER, CLIENT, 3, 3, [0; 4], &query))));
    out
}

/// Invalid TCP, UDP, UDP-Lite, SCTP, GRE packets.
fn invalid_transport() -> Vec<(Reason, Verdict)> {
    let mut out = Vec::new();
    out.push((Reason::NoNextHeader, Host::new().ip(&ipv6(CLIENT6, SERVER6, 59, &[]))));
    out.push((Reason::ExtensionCut, Host::new().ip(&ipv6(CLIENT6, SERVER6, 60, &[6]))));
    out.push((Reason::HeaderShort, Host::new().ip(&ipv4(CLIENT, SERVER, 6, &[4, 87, 0]))));
    let payload = [0x20, 1, 8, 0, 0, 0, 0, 9];
    out.push((Reason::GrePayload, Host::new().ip(&ipv4(CLIENT, SERVER, 47, &payload))));

    let mut bytes = client(SYN, 1, 0).bytes();
    bytes[32] = 0x40;
    out.push((Reason::TcpDataOffset, Host::new().ip(&bytes)));
    let mut bytes = client(SYN, 1, 0).bytes();
    bytes[36] ^= 1;
    out.push((Reason::TcpChecksum, Host::new().ip(&bytes)));
    out.push((Reason::TcpFlags, Host::new().tcp(client(SYN | FIN, 1, 0))));
    out.push((Reason::TcpNotAStart, Host::new().tcp(client(SYN | ACK, 1, 1))));
    let strict = settings(|s| s.tcp_loose = false);
    out.push((Reason::TcpLooseOff, Host::with(strict).tcp(client(ACK, 1, 1))));
    let mut host = Host::new();
    host.tcp(client(SYN, 1000, 0));
    out.push((Reason::TcpState, host.tcp(client(ACK, 1001, 1))));
    out.push((Reason::TcpRstOld, established().tcp(server(RST, 5000, 0))));
    out.push((Reason::TcpSeqAboveWindow, established().tcp(client(ACK, 4000, 5001))));
    out.push((Reason::TcpAckUnsent, established().tcp(client(ACK, 1001, 5002))));

    let mut bytes = udp(CLIENT, 1111, SERVER, 53, 20);
    bytes[25] = 200;
    out.push((Reason::UdpLength, Host::new().ip(&bytes)));
    let mut bytes = udp(CLIENT, 1111, SERVER, 53, 20);
    bytes[30] ^= 1;
    out.push((Reason::UdpChecksum, Host::new().ip(&bytes)));
    let lite = |coverage: u16, checksum: u16| {
        let words = [1111, 53, coverage, checksum];
        let payload: Vec<u8> = words.iter().flat_map(|w: &u16| w.to_be_bytes()).collect();
        Host::new().ip(&ipv4(CLIENT, SERVER, 136, &payload))
    };
    out.push((Reason::UdpliteCoverage, lite(3, 1)));
    out.push((Reason::UdpliteChecksum, lite(8, 1)));
    out.push((Reason::SctpChecksum, Host::new().ip(&ipv4(CLIENT, SERVER, 132, &[1; 16]))));
    out
}

fn invalid_icmp() -> Vec<(Reason, Verdict)> {
    let mut out = Vec::new();
    let query = udp(CLIENT, 1111, SERVER, 53, 20);
    let mut bytes = icmp(CLIENT, SERVER, 8, 0, [0, 7, 0, 1], b"ping");
    bytes[30] ^= 1;
    out.push((Reason::IcmpChecksum, Host::new().ip(&bytes)));
    out.push((Reason::IcmpType, Host::new().ip(&icmp(CLIENT, SERVER, 19, 0, [0; 4], b""))));
    out.push((Reason::IcmpFamily, Host::new().ip(&ipv4(CLIENT, SERVER, 58, &[128; 8]))));
    let reply = icmp(SERVER, CLIENT, 0, 0, [0, 7, 0, 1], b"");
    out.push((Reason::IcmpNotAQuery, Host::new().ip(&reply)));
    let short = icmp(SERVER, CLIENT, 3, 3, [0; 4], &query[..23]);
    out.push((Reason::IcmpQuoteUnreadable, Host::new().ip(&short)));
    let error = icmp(SERVER, CLIENT, 3, 3, [0; 4], &query);
    let about_error = icmp(CLIENT, SERVER, 11, 0, [0; 4], &error);
    out.push((Reason::IcmpQuoteNoReply, Host::new().ip(&about_error)));
    out.push((Reason::IcmpUnknownFlow, Host::new().ip(&error)));
    let mut host = Host::new();
    host.ip(&query);
    let elsewhere = icmp(SERVER, [10, 0, 3, 3], 3, 3, [0; 4], &query);
    out.push((Reason::IcmpWrongDestination, host.ip(&elsewhere)));
    let redirect = icmp6(CLIENT6, SERVER6, 137, 0, [0; 4], &[0; 40]);
    out.push((Reason::RedirectRefused, Host::new().ip(&redirect)));
    let neighbour = icmp6(CLIENT6, SERVER6, 135, 0, [0; 4], &SERVER6);
    out.push((Reason::Icmpv6Neighbour, Host::new().ip(&neighbour)));
    out
}

/// A source address and port that share their four folded words with every other `n`.
fn colliding(n: u16) -> Vec<u8> {
    let mut src = CLIENT6;
    let sport = 1024 + n;
    let fold = u32::from(sport.swap_bytes()) ^ u32::from(1024u16.swap_bytes());
    for (byte, change) in src[4..8].iter_mut().zip(fold.to_le_bytes()) {
        *byte ^= change;
    }
    udp6(src, sport, SERVER6, 53, 4)
}

fn dropped() -> Vec<(Reason, Verdict)> {
    let mut out = Vec::new();
    let two = settings(|s| (s.max, s.buckets) = (2, 1 << 31));
    let mut host = Host::with(two);
    for port in 1..=2 {
        host.ip(&udp(CLIENT, port, SERVER, 53, 4));
    }
    out.push((Reason::TableFull, host.ip(&udp(CLIENT, 3, SERVER, 53, 4))));

    let conntrack =
        Conntrack::new(Settings::default(), TupleHash::FourWords, Key::from_words(5, 6));
    let mut path = ReceivePath::new(conntrack, PathOptions::default());
    let verdicts = (0..u16::MAX - 1024).map(|n| {
        let bytes = colliding(n);
        path.frame(Instant::ZERO, LinkType::RAW, &bytes, bytes.len() as u32)
    });
    let refused = verdicts.into_iter().find(|v| v.kind == VerdictKind::Dropped);
    out.push((Reason::ChainTooLong, refused.expect("a flood is refused")));

    // Two packets of one TCP tuple between receive and confirm.
    let mut conntrack =
        Conntrack::new(Settings::default(), TupleHash::Compact, Key::from_words(1, 2));
    let bytes = client(SYN, 1000, 0).bytes();
    let packet = Packet::parse(&bytes, bytes.len() as u32).expect("a packet");
    let first = conntrack.receive(Instant::ZERO, &packet, &Context::default());
    let second = conntrack.receive(Instant::ZERO, &packet, &Context::default());
    conntrack.confirm(first);
    out.push((Reason::Clash, conntrack.confirm(second)));

    let mut bytes = udp(CLIENT, 1, SERVER, 53, 4);
    bytes[3] = 200;
    fix_ip(&mut bytes);
    out.push((Reason::IpHeader, Host::new().ip(&bytes)));
    bytes[8] ^= 1;
    out.push((Reason::IpChecksum, Host::new().ip(&bytes)));
    out
}

/// A fragment of a UDP datagram, `at` in units of 8 bytes.
fn fragment(at: u16, more: bool, len: usize) -> Vec<u8> {
    let mut bytes = ipv4(CLIENT, SERVER, 17, &vec![0; len]);
    let word = at | if more { 0x2000 } else { 0 };
    bytes[6..8].copy_from_slice(&word.to_be_bytes());
    fix_ip(&mut bytes);
    bytes
}

fn fragments() -> Vec<(Reason, Verdict)> {
    let mut out = Vec::new();
    let mut host = Host::new();
    out.push((Reason::FragmentWaiting, host.ip(&fragment(0, true, 64))));
    out.push((Reason::FragmentDuplicate, host.ip(&fragment(0, true, 64))));
    out.push((Reason::FragmentOverlap, host.ip(&fragment(4, true, 64))));
    out.push((Reason::FragmentRefused, Host::new().ip(&fragment(0, true, 4))));
    let tight = settings(|s| s.ipfrag_high_thresh = 1);
    let mut host = Host::with(tight);
    host.ip(&fragment(0, true, 64));
    let mut other = fragment(0, true, 64);
    other[5] = 9;
    fix_ip(&mut other);
    out.push((Reason::FragmentMemory, host.ip(&other)));
    // A middle fragment whose length is not a multiple of 8 goes on as it is.
    let payload = [17, 0, 0, 9, 0, 0, 0, 9, 1, 2, 3, 4, 5];
    out.push((Reason::FragmentUnassembled, Host::new().ip(&ipv6(CLIENT6, SERVER6, 44, &payload))));
    out
}

fn skipped() -> Vec<(Reason, Verdict)> {
    let mut out = Vec::new();
    let mut host = Host::new();
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    out.push((Reason::NotIp, ethernet(&mut host, &arp)));
    out.push((Reason::LinkHeaderBad, ethernet(&mut host, &[0; 9])));
    let query = udp(CLIENT, 1111, SERVER, 53, 20);
    let mpls = [&[2; 12][..], &[0x88, 0x47, 0, 1, 1, 64], &query].concat();
    out.push((Reason::Mpls, ethernet(&mut host, &mpls)));
    let now = host.instant();
    out.push((Reason::LinkTypeUnknown, host.path.frame(now, LinkType(147), &query, 48)));
    let cut = host.path.frame(now, LinkType::RAW, &query[..24], query.len() as u32);
    out.push((Reason::CutByCapture, cut));
    out
}

#[test]
fn every_reason_is_produced() {
    let all = [accepted(), invalid_transport(), invalid_icmp(), dropped(), fragments(), skipped()]
        .concat();
    let mut produced = BTreeSet::new();
    for (reason, verdict) in all {
        assert_eq!(verdict.reason, reason, "{verdict:?}");
        assert!(reason.verdicts().contains(&verdict.kind), "{verdict:?}");
        produced.insert(reason);
    }
    let missing: Vec<_> = Reason::ALL.iter().filter(|r| !produced.contains(r)).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}

/// With MPLS looked into, and with packets that the capture cut dropped, the answers change.
#[test]
fn path_options() {
    let query = udp(CLIENT, 1111, SERVER, 53, 20);
    let mpls = [&[2; 12][..], &[0x88, 0x47, 0, 1, 1, 64], &query].concat();
    let options = PathOptions { mpls: true, cut: CutPackets::Drop, ..PathOptions::default() };
    let mut host = Host::with_options(Settings::default(), options);
    assert_eq!(ethernet(&mut host, &mpls).reason, Reason::NewFlow);
    let now = host.instant();
    let cut = host.path.frame(now, LinkType::RAW, &query[..40], query.len() as u32);
    assert_eq!((cut.kind, cut.reason), (VerdictKind::Dropped, Reason::IpHeader));
    let cut = Host::new().path.frame(now, LinkType::RAW, &query[..40], query.len() as u32);
    assert_eq!((cut.kind, cut.reason), (VerdictKind::New, Reason::NewFlow));
}
