//! Rules of connection tracking, each as the live kernel showed it (Linux 6.18): handshakes, windows, resets, time-outs,
//! streams. After [`Host::handshake`] the client's next sequence number is 1001, the server's 5001, and both windows are
//! 1000, unscaled.

mod support;

use fourtuple_conntrack::{Settings, Status, TcpState};
use fourtuple_packet::LinkType;
use support::*;

fn established() -> Host {
    let mut host = Host::new();
    host.handshake();
    host
}

fn kind(host: &mut Host, segment: Segment) -> &'static str {
    host.tcp(segment).kind.word()
}

#[test]
fn handshake_data_and_close() {
    let mut host = Host::new();
    let steps = [
        (client(SYN, 1000, 0), "new", TcpState::SynSent, 120),
        (server(SYN | ACK, 5000, 1001), "established", TcpState::SynRecv, 60),
        (client(ACK, 1001, 5001), "established", TcpState::Established, 432_000),
        (client(ACK | PSH, 1001, 5001).len(100), "established", TcpState::Established, 300),
        (server(ACK, 5001, 1101), "established", TcpState::Established, 432_000),
        (client(FIN | ACK, 1101, 5001), "established", TcpState::FinWait, 120),
        (server(ACK, 5001, 1102), "established", TcpState::CloseWait, 60),
        (server(FIN | ACK, 5001, 1102), "established", TcpState::LastAck, 30),
        (client(ACK, 1102, 5002), "established", TcpState::TimeWait, 120),
    ];
    for (i, (segment, word, state, left)) in steps.into_iter().enumerate() {
        let verdict = host.tcp(segment);
        assert_eq!(verdict.kind.word(), word, "step {i}");
        assert_eq!(host.conn(&verdict).tcp_state(), Some(state), "step {i}");
        assert_eq!(host.left(&verdict), left, "step {i}");
        let assured = host.conn(&verdict).status().has(Status::ASSURED);
        assert_eq!(assured, i >= 2, "step {i}");
    }
}

/// The edges of the window: what is in it, what passes without an effect, what is invalid.
#[test]
fn window_edges() {
    // A segment may start at the upper edge, 2001.
    assert_eq!(words(&established().tcp(client(ACK, 2001, 5001).len(10))).2, "two-way");
    for seq in [2002, 2500] {
        assert_eq!(words(&established().tcp(client(ACK, seq, 5001).len(10))).2, "tcp-overshoot");
    }
    assert_eq!(
        words(&established().tcp(client(ACK, 4000, 5001).len(10))).2,
        "tcp-seq-above-window"
    );
    // An acknowledgement of what was sent, and of one byte more.
    assert_eq!(words(&established().tcp(client(ACK, 1001, 5001))).2, "two-way");
    assert_eq!(words(&established().tcp(client(ACK, 1001, 5002))).2, "tcp-ack-unsent");
    // The server may acknowledge later what overshot.
    let mut host = established();
    host.tcp(client(ACK, 2500, 5001).len(10));
    assert_eq!(words(&host.tcp(server(ACK, 5001, 2510))).2, "two-way");
    assert_eq!(words(&host.tcp(server(ACK, 5001, 2511))).2, "tcp-ack-unsent");
}

#[test]
fn sequence_numbers_wrap() {
    let mut host = Host::new();
    host.tcp(client(SYN, u32::MAX - 5, 0));
    host.tcp(server(SYN | ACK, u32::MAX, u32::MAX - 4));
    host.tcp(client(ACK, u32::MAX - 4, 0));
    assert_eq!(kind(&mut host, client(ACK | PSH, u32::MAX - 4, 0).len(20)), "established");
    assert_eq!(words(&host.tcp(server(ACK, 0, 15))).2, "two-way");
    assert_eq!(words(&host.tcp(server(ACK, 0, 17))).2, "tcp-ack-unsent");
}

/// Scaling is in force only if both sides offer it.
#[test]
fn window_scaling() {
    let scale = [3, 3, 7, 1];
    for (theirs, in_force) in [(&scale[..], true), (&[][..], false)] {
        let mut host = Host::new();
        host.tcp(client(SYN, 1000, 0).options(&scale));
        host.tcp(server(SYN | ACK, 5000, 1001).options(theirs));
        host.tcp(client(ACK, 1001, 5001));
        host.tcp(server(ACK, 5001, 1001));
        // Window 1000 shifted by 7 lets 100,000 bytes ahead through.
        let far = host.tcp(client(ACK, 101_001, 5001).len(1));
        assert_eq!(far.kind.word() == "established", in_force, "{far:?}");
    }
}

/// A RST closes at the expected number only; inside the window it shortens the time-out, before it it is invalid.
#[test]
fn reset_numbers() {
    let cases = [
        (5000, "invalid", TcpState::Established, 432_000),
        (5001, "established", TcpState::Close, 10),
        (5002, "established", TcpState::Established, 10),
    ];
    for (seq, word, state, left) in cases {
        let mut host = established();
        let verdict = host.tcp(server(RST, seq, 0));
        assert_eq!(verdict.kind.word(), word, "{seq}");
        assert_eq!(host.conn(&verdict).tcp_state(), Some(state), "{seq}");
        assert_eq!(host.left(&verdict), left, "{seq}");
    }
    assert_eq!(words(&established().tcp(server(RST, 50_000, 0))).2, "tcp-seq-above-window");
    let settings = Settings { tcp_ignore_invalid_rst: true, ..Settings::default() };
    let mut host = Host::with(settings);
    host.handshake();
    assert_eq!(kind(&mut host, server(RST, 5000, 0)), "established");
}

/// The entry is gone before its first reply is noted: only that and the acknowledgement differ from an ordinary RST.
#[test]
fn a_first_reply_that_ends_the_entry() {
    let mut host = Host::new();
    host.tcp(client(SYN, 1000, 0));
    let verdict = host.tcp(server(RST | ACK, 0, 1001));
    assert!(verdict.change.ended);
    let names: Vec<_> = host.conn(&verdict).status().names().collect();
    assert_eq!(names, ["confirmed", "dying"]);
    assert!(host.path.conntrack().is_empty());
}

/// A RST whose acknowledgement happens to equal the end of its own side's SYN is no answer to it.
#[test]
fn a_reset_does_not_answer_its_own_side() {
    let mut host = Host::new();
    host.tcp(client(SYN, 1000, 0));
    host.tcp(server(SYN, u32::MAX, 0));
    assert_ne!(words(&host.tcp(server(RST, 400_000, 0))).2, "first-reply");
    let id = host.tcp(client(SYN, 1000, 0));
    assert_ne!(host.conn(&id).tcp_state(), Some(TcpState::Close));
}

/// Only a SYN/ACK that answers an ignored SYN is said to resynchronise, whether or not a reply was seen before.
#[test]
fn resynchronisation_is_told_apart() {
    let mut host = Host::new();
    host.tcp(client(SYN, 1000, 0));
    assert_eq!(words(&host.tcp(server(ACK, 7000, 900))).2, "tcp-ignored");
    assert_eq!(words(&host.tcp(server(SYN | ACK, 5000, 1001))).2, "two-way");
    // A SYN into a connection that was picked up and has no reply yet.
    let mut host = Host::new();
    assert_eq!(words(&host.tcp(client(ACK, 1000, 5000))).2, "picked-up");
    assert_eq!(words(&host.tcp(client(SYN, 9000, 0))).2, "tcp-ignored");
    let verdict = host.tcp(server(SYN | ACK, 7000, 9001));
    assert_eq!(words(&verdict).2, "tcp-resynced");
    assert_eq!(host.conn(&verdict).tcp_state(), Some(TcpState::SynRecv));
}

/// Identical ACKs, a window of zero and unacknowledged data cut the five days to five minutes.
#[test]
fn shorter_time_outs() {
    let mut host = established();
    for n in 1..=4 {
        let verdict = host.tcp(client(ACK, 1001, 5001));
        assert_eq!(host.left(&verdict), if n >= 3 { 300 } else { 432_000 }, "copy {n}");
    }
    let verdict = established().tcp(client(ACK, 1001, 5001).window(0));
    assert_eq!(verdict.kind.word(), "established");
    let mut host = established();
    let verdict = host.tcp(client(ACK, 1001, 5001).window(0));
    assert_eq!(host.left(&verdict), 300);
}

#[test]
fn a_retransmitted_syn_does_not_refresh() {
    let mut host = Host::new();
    host.tcp(client(SYN, 1000, 0));
    host.wait(100.0);
    let verdict = host.tcp(client(SYN, 1000, 0));
    assert_eq!(host.left(&verdict), 20);
    host.wait(20.0);
    let verdict = host.tcp(client(SYN, 1000, 0));
    assert!(verdict.change.created, "the old entry is never found again");
}

#[test]
fn simultaneous_open() {
    let mut host = Host::new();
    host.tcp(client(SYN, 1000, 0));
    let verdict = host.tcp(server(SYN, 5000, 0));
    assert_eq!(host.conn(&verdict).tcp_state(), Some(TcpState::SynSent2));
    let verdict = host.tcp(client(SYN | ACK, 1000, 5001));
    assert_eq!(host.conn(&verdict).tcp_state(), Some(TcpState::SynRecv));
    let verdict = host.tcp(server(ACK, 5001, 1001));
    assert_eq!(host.conn(&verdict).tcp_state(), Some(TcpState::Established));
}

/// A query and its answer keep the short time-out; a stream begins two seconds after the first packet.
#[test]
fn udp_streams() {
    let (query, answer) = (udp(CLIENT, 1111, SERVER, 53, 20), udp(SERVER, 53, CLIENT, 1111, 80));
    let mut host = Host::new();
    host.ip(&query);
    host.ip(&answer);
    host.wait(2.0);
    let verdict = host.ip(&query);
    assert_eq!(
        (host.left(&verdict), host.conn(&verdict).status().has(Status::ASSURED)),
        (30, false)
    );
    host.wait(0.001);
    let verdict = host.ip(&answer);
    assert_eq!(
        (host.left(&verdict), host.conn(&verdict).status().has(Status::ASSURED)),
        (120, true)
    );
    host.wait(119.9);
    assert_eq!(words(&host.ip(&query)).2, "two-way");
    host.wait(120.0);
    assert_eq!(words(&host.ip(&query)).2, "new-flow");
}

/// Source and destination the same: the reply tuple is met first.
#[test]
fn a_packet_to_oneself_is_its_own_reply() {
    let own = udp(CLIENT, 7, CLIENT, 7, 4);
    let mut host = Host::new();
    assert_eq!(words(&host.ip(&own)), ("new", "original", "new-flow"));
    assert_eq!(words(&host.ip(&own)), ("established", "reply", "first-reply"));
}

#[test]
fn echo_by_identifier() {
    let ping =
        |src, dst, ty, id: u8, sequence: u8| icmp(src, dst, ty, 0, [0, id, 0, sequence], b"x");
    let mut host = Host::new();
    assert_eq!(words(&host.ip(&ping(CLIENT, SERVER, 8, 7, 1))).0, "new");
    assert_eq!(words(&host.ip(&ping(SERVER, CLIENT, 0, 8, 1))).2, "icmp-not-a-query");
    // The sequence number does not matter.
    assert_eq!(words(&host.ip(&ping(SERVER, CLIENT, 0, 7, 9))).2, "first-reply");
    let verdict = host.ip(&ping(CLIENT, SERVER, 8, 7, 2));
    assert_eq!((words(&verdict).2, host.left(&verdict)), ("two-way", 30));
    host.wait(30.0);
    assert_eq!(words(&host.ip(&ping(SERVER, CLIENT, 0, 7, 2))).2, "icmp-not-a-query");
}

/// Entries that are not assured make room; assured ones stay, and then the new packet is dropped.
#[test]
fn table_pressure() {
    // As few buckets as there can be: some entries are always neighbours.
    const MAX: u16 = 600;
    let settings = Settings { max: MAX.into(), buckets: 1, ..Settings::default() };
    let mut host = Host::with(settings.clone());
    host.handshake();
    for port in 1..MAX {
        assert_eq!(words(&host.ip(&udp(CLIENT, port, SERVER, 53, 4))).2, "new-flow");
    }
    assert_eq!(host.path.conntrack().len(), MAX.into());
    for port in 1000..1100 {
        assert_eq!(words(&host.ip(&udp(CLIENT, port, SERVER, 53, 4))).2, "new-flow");
        assert!(host.path.conntrack().len() <= MAX.into());
    }
    let evicted = host.path.conntrack().stats().early_drop;
    assert!((1..400).contains(&evicted), "{evicted} evicted");
    assert_eq!(words(&host.tcp(client(ACK, 1001, 5001))).2, "two-way", "the assured one stayed");

    let mut host = Host::with(settings);
    for port in 2000..2000 + MAX {
        host.tcp(client(SYN, 1000, 0).ports(port, 80));
        host.tcp(server(SYN | ACK, 5000, 1001).ports(port, 80));
        host.tcp(client(ACK, 1001, 5001).ports(port, 80));
    }
    assert_eq!(words(&host.ip(&udp(CLIENT, 9, SERVER, 53, 4))).2, "table-full");
    assert_eq!(host.path.conntrack().len(), MAX.into());
}

/// What the capture cut is not held against the packet.
#[test]
fn cut_packets() {
    let query = udp(CLIENT, 1111, SERVER, 53, 200);
    let error = icmp(SERVER, CLIENT, 3, 3, [0; 4], &query);
    let cut = |packet: &[u8], kept: usize| {
        let mut host = Host::new();
        host.ip(&query);
        let now = host.instant();
        let wire_len = packet.len() as u32;
        words(&host.path.frame(now, LinkType::RAW, &packet[..kept], wire_len))
    };
    assert_eq!(cut(&error, 60).2, "icmp-error");
    assert_eq!(cut(&error, 46), ("skipped", "-", "cut-by-capture"));
    // Options of a SYN decide about the connection, other segments' can be done without.
    let stamp = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let syn = client(SYN, 1000, 0).options(&stamp).bytes();
    let ack = client(ACK, 1000, 1).options(&stamp).len(100).bytes();
    assert_eq!(cut(&syn, 46).2, "cut-by-capture");
    assert_eq!(cut(&ack, 46).2, "picked-up");
}
