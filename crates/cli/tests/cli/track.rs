use super::support::*;
use serde_json::json;

/// A connection that a RST ends, one that times out, one that is evicted or stays.
fn endings() -> Vec<Timed> {
    vec![
        (0, Tcp::client(SYN, 100, 0).build()),
        (MS, Tcp::client(RST, 101, 0).build()),
        (SECOND, udp(1, 1, 2, 2, 0)),
        (2 * SECOND, Tcp::client(SYN, 100, 0).sport(41_000).build()),
        (100 * SECOND, udp6(1, 1, 2, 2, 0)),
    ]
}

#[test]
fn list_and_summary() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let said = run("track", &[&file]).fine();
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "ipv4     2 tcp      6 431999 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=40000 dport=80 packets=3 bytes=220 \
             src=10.0.0.2 dst=10.0.0.1 sport=80 dport=40000 packets=2 bytes=80 [ASSURED] mark=0 delta-time=0 id=1",
            "ipv4     2 udp      17 29 src=10.0.0.3 dst=10.0.0.4 sport=5353 dport=53 packets=1 bytes=58 \
             src=10.0.0.4 dst=10.0.0.3 sport=53 dport=5353 packets=1 bytes=88 mark=0 delta-time=0 id=2",
            "ipv4     2 icmp     1 29 src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=7 packets=1 bytes=28 [UNREPLIED] \
             src=10.0.0.2 dst=10.0.0.1 type=0 code=0 id=7 packets=0 bytes=0 mark=0 delta-time=0 id=3",
        ]
    );
    for line in [
        "          10 packets",
        "           3 new",
        "           5 established",
        "           2 invalid",
        "           1 tcp-seq-above-window",
        "           3 opened",
        "           3 at most at one time",
        "           1   tcp ESTABLISHED",
        "           1   udp",
        "           0.009000000 s, 2024-01-01T00:00:00.000000000Z to 2024-01-01T00:00:00.009000000Z",
    ] {
        assert!(lines.contains(&line), "{line:?} in\n{}", said.out);
    }
}

#[test]
fn json_list_and_summary() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let all = run("track --format ndjson", &[&file]).fine().json();
    assert_eq!(all.len(), 4);
    assert_eq!(
        all[1],
        json!({
            "id": 2, "protocol": "udp", "protonum": 17, "timeout": 29, "status": ["seen_reply", "confirmed"],
            "original": {"src": "10.0.0.3", "dst": "10.0.0.4", "sport": 5353, "dport": 53, "packets": 1, "bytes": 58},
            "reply": {"src": "10.0.0.4", "dst": "10.0.0.3", "sport": 53, "dport": 5353, "packets": 1, "bytes": 88},
            "zone": 0, "net": 0, "mark": 0, "start": "2024-01-01T00:00:00.006000000Z",
        })
    );
    let bytes: usize = conversation().iter().map(|(_, p)| p.len()).sum();
    assert_eq!(
        all[3],
        json!({"summary": {
            "packets": 10, "bytes": bytes,
            "first": "2024-01-01T00:00:00.000000000Z", "last": "2024-01-01T00:00:00.009000000Z", "span_ns": 9_000_000,
            "without_time": 0, "clock_backwards": 0,
            "verdicts": {"new": 3, "established": 5, "related": 0, "invalid": 2, "untracked": 0, "dropped": 0,
                "absorbed": 0, "skipped": 0},
            "reasons": {"new-flow": 3, "first-reply": 2, "two-way": 3, "tcp-seq-above-window": 1, "icmp-unknown-flow": 1},
            "connections": {"opened": 3, "ended": {}, "live": 3, "peak": 3, "by_state": [
                {"protocol": "icmp", "count": 1}, {"protocol": "tcp", "state": "ESTABLISHED", "count": 1},
                {"protocol": "udp", "count": 1}]},
            "damage": [],
        }})
    );
}

#[test]
fn how_connections_end() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &endings());
    let all = run("track --ended --format ndjson", &[&file]).fine().json();
    let ends: Vec<_> = all[..all.len() - 1]
        .iter()
        .map(|c| (c["id"].as_u64().expect("id"), c["end"].as_str(), c["stop"].as_str()))
        .collect();
    assert_eq!(
        ends,
        [
            (1, Some("reset"), Some("2024-01-01T00:00:00.001000000Z")),
            (2, Some("timeout"), Some("2024-01-01T00:00:31.000000000Z")),
            (3, None, None),
            (4, None, None),
        ]
    );
    let counts = &all[all.len() - 1]["summary"]["connections"];
    assert_eq!(counts["ended"], json!({"reset": 1, "timeout": 1}));
    assert_eq!((counts["opened"].as_u64(), counts["live"].as_u64()), (Some(4), Some(2)));
    // Without --ended the same counts, and only what is left.
    let plain = run("track --format ndjson", &[&file]).fine().json();
    assert_eq!(plain.len(), 3);
    assert_eq!(plain[2]["summary"], all[4]["summary"]);
    let text = run("track --ended", &[&file]).fine().out;
    let first = text.lines().next().expect("a line");
    assert!(first.starts_with("[DESTROY] ipv4     2 tcp      6 CLOSE src=10.0.0.1"), "{first}");
    assert!(first.ends_with("id=1 end=reset"), "{first}");
}

/// The causes that the summary works out agree with the events, also where the table is full and where a SYN reopens.
#[test]
fn counted_causes_agree_with_events() {
    let mut packets = Vec::new();
    for round in 0..3u64 {
        let at = round * 40 * SECOND;
        // Closed by both sides, then opened again from the same port.
        let seq = 100 + round as u32 * 100_000;
        for (i, p) in [
            Tcp::client(SYN, seq, 0),
            Tcp::server(SYN | ACK, 5000, seq + 1),
            Tcp::client(ACK, seq + 1, 5001),
            Tcp::server(FIN | ACK, 5001, seq + 1),
            Tcp::client(FIN | ACK, seq + 1, 5002),
            Tcp::server(ACK, 5002, seq + 2),
        ]
        .iter()
        .enumerate()
        {
            packets.push((at + i as u64 * MS, p.build()));
        }
        for port in 0..50u16 {
            packets.push((at + SECOND + u64::from(port) * MS, udp(1, 1000 + port, 2, 53, 1)));
        }
    }
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &packets);
    let options = "--set nf_conntrack_max=20 --set nf_conntrack_buckets=1 --hash-key 000102030405060708090a0b0c0d0e0f --format ndjson";
    let summary = run(&format!("track {options}"), &[&file]).fine().json();
    let ended = summary.last().expect("summary")["summary"]["connections"]["ended"].clone();
    let mut by_event = std::collections::BTreeMap::<String, u64>::new();
    for event in run(&format!("events {options}"), &[&file]).fine().json() {
        if let Some(cause) = event["connection"]["end"].as_str() {
            *by_event.entry(cause.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(ended, json!(by_event));
    for cause in ["early-drop", "reopened", "timeout"] {
        assert!(by_event.contains_key(cause), "{cause} in {by_event:?}");
    }
}

#[test]
fn time_that_is_missing_or_goes_back() {
    let scratch = Scratch::new();
    let back = [
        (10 * SECOND, udp(1, 1, 2, 2, 0)),
        (5 * SECOND, udp(2, 2, 1, 1, 0)),
        (11 * SECOND, udp(1, 1, 2, 2, 0)),
    ];
    let file = scratch.pcap("a.pcap", &back);
    let all = run("track --format ndjson", &[&file]).fine().json();
    let summary = &all.last().expect("summary")["summary"];
    assert_eq!(summary["clock_backwards"], 1);
    assert_eq!(summary["first"], "2024-01-01T00:00:05.000000000Z");
    let text = run("track", &[&file]).fine().out;
    assert!(text.contains("1 packets came with an earlier time"), "{text}");

    // A simple packet block has no time: it takes that of the packet before.
    let mut bytes = pcapng(&[(SECOND, udp(1, 1, 2, 2, 0))], "x");
    let packet = udp(2, 2, 1, 1, 0);
    let length = (16 + packet.len() as u32).to_le_bytes();
    let size = (packet.len() as u32).to_le_bytes();
    bytes.extend([&3_u32.to_le_bytes()[..], &length, &size, &packet, &length].concat());
    let file = scratch.write("b.pcapng", &bytes);
    let all = run("explain --format ndjson", &[&file]).fine().json();
    assert_eq!(all[1]["time"], all[0]["time"]);
    let all = run("track --format ndjson", &[&file]).fine().json();
    assert_eq!(all.last().expect("summary")["summary"]["without_time"], 1);
}
