use super::support::*;
use serde_json::{Value, json};

fn lines(arguments: &str) -> Vec<Value> {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    run(&format!("explain --format ndjson {arguments}"), &[&file]).fine().json()
}

fn numbers(arguments: &str) -> Vec<u64> {
    lines(arguments).iter().map(|l| l["packet"].as_u64().expect("a number")).collect()
}

#[test]
fn verdicts_directions_reasons() {
    let all = lines("");
    let short: Vec<_> = all
        .iter()
        .map(|l| {
            let word = |k: &str| l[k].as_str().unwrap_or("-").to_owned();
            (word("verdict"), word("direction"), word("reason"), l["connection"]["id"].as_u64())
        })
        .collect();
    let expected = [
        ("new", "original", "new-flow", Some(1)),
        ("established", "reply", "first-reply", Some(1)),
        ("established", "original", "two-way", Some(1)),
        ("established", "original", "two-way", Some(1)),
        ("established", "reply", "two-way", Some(1)),
        ("invalid", "-", "tcp-seq-above-window", Some(1)),
        ("new", "original", "new-flow", Some(2)),
        ("established", "reply", "first-reply", Some(2)),
        ("new", "original", "new-flow", Some(3)),
        ("invalid", "-", "icmp-unknown-flow", None),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(v, d, r, id)| (v.to_owned(), d.to_owned(), r.to_owned(), id))
        .collect();
    assert_eq!(short, expected);
}

#[test]
fn the_object_is_as_the_contract_has_it() {
    let all = lines("");
    assert_eq!(
        all[1],
        json!({
            "packet": 2, "time": "2024-01-01T00:00:00.001000000Z", "verdict": "established",
            "direction": "reply", "reason": "first-reply", "detail": "",
            "connection": {
                "id": 1, "protocol": "tcp", "protonum": 6, "state": "SYN_RECV", "timeout": 60,
                "status": ["seen_reply", "confirmed"],
                "original": {"src": "10.0.0.1", "dst": "10.0.0.2", "sport": 40000, "dport": 80, "packets": 1, "bytes": 40},
                "reply": {"src": "10.0.0.2", "dst": "10.0.0.1", "sport": 80, "dport": 40000, "packets": 1, "bytes": 40},
                "zone": 0, "net": 0, "mark": 0, "start": "2024-01-01T00:00:00.000000000Z",
                "tcp": {"original": {"wscale": 0, "flags": []}, "reply": {"wscale": 0, "flags": ["maxack_set"]}},
            },
            "change": {"created": false, "ended": false, "state": ["SYN_SENT", "SYN_RECV"]},
            "length": 40,
            "tuple": {"protocol": "tcp", "protonum": 6, "src": "10.0.0.2", "dst": "10.0.0.1", "sport": 80, "dport": 40000},
            "tcp": {"flags": ["syn", "ack"], "seq": 5000, "ack": 101, "window": 1000, "payload": 0},
        })
    );
    // The server acknowledged 201 and offers 1000 bytes.
    let detail = all[5]["detail"].as_str().expect("text");
    assert!(
        detail.starts_with("sequence 100000 is 98799 above the window's upper edge 1201"),
        "{detail}"
    );
    assert_eq!(all[5]["direction"], Value::Null);
    assert_eq!(all[9]["connection"], Value::Null);
    assert_eq!(all[9]["detail"], "type 3 code 3");
    let ping = &all[8];
    assert_eq!(
        ping["connection"]["original"],
        json!({"src": "10.0.0.1", "dst": "10.0.0.2", "type": 8, "code": 0, "id": 7, "packets": 1, "bytes": 28})
    );
    assert_eq!(ping["connection"]["reply"]["type"], 0);
    assert!(ping["connection"].get("state").is_none() && ping["connection"].get("tcp").is_none());
}

#[test]
fn text_says_the_same() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let said = run("explain", &[&file]).fine();
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(lines.len(), 10);
    assert_eq!(
        lines[3],
        "     4 2024-01-01T00:00:00.003000000Z ESTABLISHED original tcp 10.0.0.1:40000 > 10.0.0.2:80 \
         [.] seq 101:201 ack 5001 win 1000 len 100 | #1 ESTABLISHED | two-way"
    );
    assert_eq!(
        lines[0],
        "     1 2024-01-01T00:00:00.000000000Z NEW         original tcp 10.0.0.1:40000 > 10.0.0.2:80 \
         [S] seq 100 win 1000 len 0 | #1 NONE->SYN_SENT | new-flow"
    );
    assert!(
        lines[5].contains("INVALID     -        tcp")
            && lines[5].contains(
                "| #1 ESTABLISHED | tcp-seq-above-window: sequence 100000 is 98799 above"
            ),
        "{}",
        lines[5]
    );
    assert!(
        lines[6].contains(" udp 10.0.0.3:5353 > 10.0.0.4:53 len 30 | #2 | new-flow"),
        "{}",
        lines[6]
    );
}

#[test]
fn filters_choose_what_is_printed_and_not_what_is_tracked() {
    assert_eq!(numbers("--only invalid"), [6, 10]);
    assert_eq!(numbers("--only INVALID,new"), [1, 6, 7, 9, 10]);
    assert_eq!(numbers("--reason two-way,icmp-unknown-flow"), [3, 4, 5, 10]);
    assert_eq!(numbers("--packets 2-3,9-"), [2, 3, 9, 10]);
    assert_eq!(numbers("--connection 2,3"), [7, 8, 9]);
    assert_eq!(numbers("--only established --packets 3-"), [3, 4, 5, 8]);
    // Number 2 is a reply although number 1 is not printed.
    assert_eq!(lines("--packets 2")[0]["direction"], "reply");
    assert_eq!(lines("--packets 11-"), Vec::<Value>::new());
}

#[test]
fn expressions() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let numbers = |filter: &str| -> Vec<u64> {
        let said =
            run_words(&["explain", "--format", "ndjson", "--filter", filter], &[&file]).fine();
        said.json().iter().map(|l| l["packet"].as_u64().expect("a number")).collect()
    };
    assert_eq!(numbers("host 10.0.0.3 and port 53"), [7, 8]);
    assert_eq!(numbers("src 10.0.0.4"), [8]);
    assert_eq!(numbers("not tcp"), [7, 8, 9, 10]);
    assert_eq!(numbers("icmp or (udp and dst port 53)"), [7, 9, 10]);
    assert_eq!(numbers("ip6"), Vec::<u64>::new());
    let said = run_words(&["explain", "--filter", "host 10.0.0.1 and port x"], &[&file]);
    assert_eq!((said.status, said.out.as_str()), (2, ""));
    assert!(
        said.err.contains(
            "column 24: expected a port number, not 'x'\n\n  host 10.0.0.1 and port x\n                         ^"
        ),
        "{}",
        said.err
    );
}

#[test]
fn frames_without_ip_and_families() {
    use fourtuple::capture::{PcapWriter, Precision};
    use fourtuple::packet::{Instant, LinkType};
    let mut writer =
        PcapWriter::new(Vec::new(), LinkType::ETHERNET, 0, Precision::Nanos).expect("memory");
    let frame = |ty: u16, payload: &[u8]| [&[2; 12][..], &ty.to_be_bytes(), payload].concat();
    let vlan = [&[0x00, 0x2a][..], &[0x86, 0xdd], &udp6(1, 1000, 2, 2000, 5)].concat();
    for (i, f) in
        [frame(0x0806, &[0; 28]), frame(0x8100, &vlan), frame(0x0800, b"\x45")].iter().enumerate()
    {
        let at = Instant::from_nanos(NEW_YEAR + i as u64);
        writer.write(at, f.len() as u32, f).expect("memory");
    }
    let scratch = Scratch::new();
    let file = scratch.write("a.pcap", &writer.into_inner().expect("memory"));
    let all = run("explain --format ndjson", &[&file]).fine().json();
    let [arp, six, short] = &all[..] else { panic!("three packets") };
    assert_eq!(
        (arp["verdict"].as_str(), arp["reason"].as_str()),
        (Some("skipped"), Some("not-ip"))
    );
    assert_eq!((arp["length"].as_u64(), arp.get("tuple")), (Some(42), None));
    assert_eq!(six["vlan"], 42);
    assert_eq!(
        six["tuple"],
        json!({"protocol": "udp", "protonum": 17, "src": "2001:db8::1", "dst": "2001:db8::2", "sport": 1000, "dport": 2000})
    );
    assert_eq!(
        (short["verdict"].as_str(), short["reason"].as_str()),
        (Some("dropped"), Some("ip-header"))
    );
    let text = run("explain", &[&file]).fine().out;
    assert!(text.contains("SKIPPED     -        frame of 42 bytes | not-ip: "), "{text}");
    assert!(
        text.contains("udp [2001:db8::1]:1000 > [2001:db8::2]:2000 len 5 | #1 | new-flow"),
        "{text}"
    );
}

#[test]
fn fragments() {
    let whole = udp(1, 1000, 2, 2000, 56);
    let piece = |from: usize, to: usize, more: u8| {
        let mut p = ipv4(1, 2, 17, whole[20 + from..20 + to].to_vec(), None);
        p[6] = more << 5;
        p[7] = (from / 8) as u8;
        p[10..12].fill(0);
        let mut sum: u32 = p[..20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
        sum = (sum & 0xffff) + (sum >> 16);
        p[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        p
    };
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &[(0, piece(0, 32, 1)), (1, piece(32, 64, 0))]);
    let all = run("explain --format ndjson", &[&file]).fine().json();
    assert_eq!(all[0]["verdict"], "absorbed");
    assert_eq!(all[0]["fragment"], json!({"id": 0, "offset": 0, "more": true}));
    assert_eq!(all[0]["tuple"]["src"], "10.0.0.1");
    assert_eq!(all[1]["verdict"], "new");
    assert_eq!(all[1]["connection"]["original"]["dport"], 2000);
    let text = run("explain", &[&file]).fine().out;
    assert!(
        text.contains("udp 10.0.0.1 > 10.0.0.2 frag 0x0 at 0+ len 32 | fragment-waiting"),
        "{text}"
    );
}

#[test]
fn several_captures_are_one_stream() {
    let scratch = Scratch::new();
    let packets = conversation();
    let (first, second) = packets.split_at(2);
    let (a, b) = (scratch.pcap("a.pcap", first), scratch.pcap("b.pcap", second));
    let all = run("explain --format ndjson", &[&a, &b]).fine().json();
    assert_eq!(all[2]["packet"], 1);
    assert_eq!(all[2]["file"], b.display().to_string());
    assert_eq!(
        (all[2]["verdict"].as_str(), all[2]["connection"]["id"].as_u64()),
        (Some("established"), Some(1))
    );
    let text = run("explain", &[&a, &b]).fine().out;
    let headings = text.lines().filter(|l| l.starts_with("==> ")).collect::<Vec<_>>();
    assert_eq!(headings, [format!("==> {} <==", a.display()), format!("==> {} <==", b.display())]);
}

#[test]
fn a_reset_that_ends_its_connection() {
    let scratch = Scratch::new();
    let packets = [
        (0, Tcp::client(SYN, 100, 0).build()),
        (MS, Tcp::client(RST, 101, 0).build()),
        (2 * MS, Tcp::client(FIN | ACK, 101, 1).build()),
    ];
    let file = scratch.pcap("a.pcap", &packets);
    let all = run("explain --format ndjson", &[&file]).fine().json();
    assert_eq!(all[1]["reason"], "tcp-rst-unanswered");
    assert_eq!(all[1]["change"]["ended"], true);
    assert_eq!(all[1]["connection"]["id"], 1);
    assert_eq!(all[2]["reason"], "tcp-not-a-start");
    let text = run("explain", &[&file]).fine().out;
    assert!(
        text.lines().nth(1).is_some_and(|l| l.contains("ended | tcp-rst-unanswered")),
        "{text}"
    );
}
