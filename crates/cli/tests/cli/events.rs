use super::support::*;
use serde_json::json;

#[test]
fn text_as_conntrack_prints_it() {
    let scratch = Scratch::new();
    let packets = [
        (0, Tcp::client(SYN, 100, 0).build()),
        (MS, Tcp::server(SYN | ACK, 5000, 101).build()),
        (2 * MS, Tcp::client(ACK, 101, 5001).build()),
        (SECOND, udp(1, 1, 2, 2, 0)),
        (40 * SECOND, udp(1, 3, 2, 4, 0)),
    ];
    let file = scratch.pcap("a.pcap", &packets);
    let said = run("events", &[&file]).fine();
    assert_eq!(
        said.out.lines().collect::<Vec<_>>(),
        [
            "[1704067200.000000]\t    [NEW] tcp      6 120 SYN_SENT src=10.0.0.1 dst=10.0.0.2 sport=40000 dport=80 \
             [UNREPLIED] src=10.0.0.2 dst=10.0.0.1 sport=80 dport=40000 id=1",
            "[1704067200.001000]\t [UPDATE] tcp      6 60 SYN_RECV src=10.0.0.1 dst=10.0.0.2 sport=40000 dport=80 \
             src=10.0.0.2 dst=10.0.0.1 sport=80 dport=40000 id=1",
            "[1704067200.002000]\t [UPDATE] tcp      6 432000 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=40000 dport=80 \
             src=10.0.0.2 dst=10.0.0.1 sport=80 dport=40000 [ASSURED] id=1",
            "[1704067201.000000]\t    [NEW] udp      17 30 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 [UNREPLIED] \
             src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 id=2",
            "[1704067231.000000]\t[DESTROY] udp      17 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 packets=1 bytes=28 \
             [UNREPLIED] src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 packets=0 bytes=0 delta-time=30 id=2 end=timeout",
            "[1704067240.000000]\t    [NEW] udp      17 30 src=10.0.0.1 dst=10.0.0.2 sport=3 dport=4 [UNREPLIED] \
             src=10.0.0.2 dst=10.0.0.1 sport=4 dport=3 id=3",
        ]
    );
}

#[test]
fn json_is_numbered_without_gaps() {
    let scratch = Scratch::new();
    let mut packets = conversation();
    packets.push((60 * SECOND, udp(5, 5, 6, 6, 0)));
    let file = scratch.pcap("a.pcap", &packets);
    let all = run("events --format ndjson", &[&file]).fine().json();
    let short: Vec<_> = all
        .iter()
        .map(|e| {
            let id = e["connection"]["id"].as_u64().expect("id");
            (e["event"].as_str().expect("event"), id, e["packet"].as_u64(), e["changed"].clone())
        })
        .collect();
    assert_eq!(
        short[..4],
        [
            ("new", 1, Some(1), json!([])),
            ("update", 1, Some(2), json!(["reply", "protoinfo"])),
            ("update", 1, Some(3), json!(["assured", "protoinfo"])),
            ("new", 2, Some(7), json!([])),
        ]
    );
    let sequences: Vec<_> = all.iter().map(|e| e["sequence"].as_u64().expect("a number")).collect();
    assert_eq!(sequences, (1..=all.len() as u64).collect::<Vec<_>>());
    let destroyed: Vec<_> = all.iter().filter(|e| e["event"] == "destroy").collect();
    assert_eq!(destroyed.len(), 2, "UDP and ICMP after 30 s");
    for event in destroyed {
        assert_eq!(event["connection"]["end"], "timeout");
        assert_eq!(event["connection"]["stop"], event["time"]);
        assert_eq!(event["packet"], 11);
    }
}

#[test]
fn nothing_times_out_while_the_clock_is_frozen() {
    let scratch = Scratch::new();
    let packets = [(0, udp(1, 1, 2, 2, 0)), (1_000_000 * SECOND, udp(1, 3, 2, 4, 0))];
    let file = scratch.pcap("a.pcap", &packets);
    let events = |clock: &str| {
        run(&format!("events --format ndjson --clock {clock}"), &[&file]).fine().json().len()
    };
    assert_eq!(events("capture"), 3);
    assert_eq!(events("frozen"), 2);
}
