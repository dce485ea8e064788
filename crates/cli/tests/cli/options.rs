//! Options that every command shares.

use super::support::*;

fn verdicts(arguments: &str, packets: &[Timed]) -> Vec<String> {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", packets);
    let said = run(&format!("explain --format ndjson {arguments}"), &[&file]).fine();
    let both = |l: &serde_json::Value| {
        format!("{} {}", l["verdict"].as_str().unwrap_or("?"), l["reason"].as_str().unwrap_or("?"))
    };
    said.json().iter().map(both).collect()
}

#[test]
fn settings_change_verdicts() {
    let midstream = [(0, Tcp::client(ACK, 100, 200).payload(5).build())];
    assert_eq!(verdicts("", &midstream), ["new picked-up"]);
    assert_eq!(verdicts("--set nf_conntrack_tcp_loose=0", &midstream), ["invalid tcp-loose-off"]);
    let liberal = verdicts("--set net.netfilter.nf_conntrack_tcp_be_liberal=1", &conversation());
    assert_eq!(liberal[5], "established tcp-liberal");
    let mut broken = Tcp::client(SYN, 1, 0).build();
    *broken.last_mut().expect("bytes") ^= 1;
    let broken = [(0, broken)];
    assert_eq!(verdicts("", &broken), ["invalid tcp-checksum"]);
    assert_eq!(verdicts("--set nf_conntrack_checksum=0", &broken), ["new new-flow"]);
    // The last of two counts.
    let twice = "--set nf_conntrack_checksum=0 --set nf_conntrack_checksum=1";
    assert_eq!(verdicts(twice, &broken), ["invalid tcp-checksum"]);
}

#[test]
fn counters_and_time_stamps_can_be_switched_off() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &[(0, udp(1, 1, 2, 2, 0))]);
    let off = "--set nf_conntrack_acct=0 --set nf_conntrack_timestamp=0";
    let said = run(&format!("track {off}"), &[&file]).fine();
    assert_eq!(
        said.out.lines().next(),
        Some(
            "ipv4     2 udp      17 30 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 [UNREPLIED] \
             src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 mark=0 id=1"
        )
    );
    let all = run(&format!("track --format ndjson {off}"), &[&file]).fine().json();
    assert!(
        all[0].get("start").is_none() && all[0]["original"].get("packets").is_none(),
        "{}",
        all[0]
    );
}

#[test]
fn the_list_of_settings() {
    let said = run("track --settings --set nf_conntrack_udp_timeout=5", &[]).fine();
    assert!(
        said.out.lines().any(|l| l == "nf_conntrack_udp_timeout = 5 (seconds; default 30)"),
        "{}",
        said.out
    );
    assert!(said.out.lines().any(|l| l == "nf_conntrack_acct = 1 (0 or 1)"), "{}", said.out);
    let all = run("explain --settings --format ndjson", &[]).fine().json();
    assert_eq!(all.len(), said.out.lines().count());
    let established = all.iter().find(|s| s["setting"] == "nf_conntrack_tcp_timeout_established");
    assert_eq!(established.expect("is there")["value"], "432000");
}

#[test]
fn zones_are_shown() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &[(0, udp(1, 1, 2, 2, 0))]);
    let said = run("track --zone 7", &[&file]).fine();
    assert!(said.out.contains("mark=0 zone=7 delta-time=0 id=1"), "{}", said.out);
    let all = run("track --zone 7 --format ndjson", &[&file]).fine().json();
    assert_eq!(all[0]["zone"], 7);
}

#[test]
fn packets_that_the_capture_cut() {
    use fourtuple::capture::{PcapWriter, Precision};
    use fourtuple::packet::{Instant, LinkType};
    let mut writer =
        PcapWriter::new(Vec::new(), LinkType::RAW, 0, Precision::Nanos).expect("memory");
    let packet = udp(1, 1, 2, 2, 1000);
    writer
        .write(Instant::from_nanos(NEW_YEAR), packet.len() as u32, &packet[..60])
        .expect("memory");
    let scratch = Scratch::new();
    let file = scratch.write("a.pcap", &writer.into_inner().expect("memory"));
    let whole = run("explain --format ndjson", &[&file]).fine().json();
    assert_eq!(
        (whole[0]["verdict"].as_str(), whole[0]["length"].as_u64()),
        (Some("new"), Some(1028))
    );
    let dropped = run("explain --format ndjson --cut-packets drop", &[&file]).fine().json();
    assert_eq!(dropped[0]["verdict"], "dropped");
}

#[test]
fn colours() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let colourful = |command: &mut std::process::Command| {
        let output = command.arg(&file).output().expect("runs");
        Said::from(output).fine().out.contains('\x1b')
    };
    assert!(!colourful(program().arg("explain")), "not on a terminal");
    assert!(colourful(program().args(["explain", "--color", "always"])));
    assert!(!colourful(program().args(["explain", "--color", "never"])));
    assert!(!colourful(program().arg("explain").env("NO_COLOR", "1")));
    assert!(
        colourful(program().args(["explain", "--color=always"]).env("NO_COLOR", "1")),
        "said is said"
    );
    assert!(!colourful(program().args(["explain", "--color=always", "--format=ndjson"])));
    // Colours do not move columns.
    let plain = run("explain", &[&file]).fine().out;
    let mut painted = run("explain --color always", &[&file]).fine().out;
    while let Some(start) = painted.find('\x1b') {
        let end = start + painted[start..].find('m').expect("an end");
        painted.replace_range(start..=end, "");
    }
    assert_eq!(painted, plain);
}

/// On a terminal there are colours, unless NO_COLOR is set.
#[cfg(target_os = "linux")]
#[test]
fn colours_on_a_terminal() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let command = format!("{} explain {}", env!("CARGO_BIN_EXE_fourtuple"), file.display());
    let on_terminal = |variables: &[(&str, &str)]| {
        std::process::Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(std::process::Stdio::null())
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .envs(variables.iter().copied())
            .output()
    };
    let Ok(output) = on_terminal(&[]) else {
        println!("skipped: script (util-linux) not found");
        return;
    };
    assert!(Said::from(output).out.contains("\x1b[1m\x1b[31mINVALID"), "bold red");
    let output = on_terminal(&[("NO_COLOR", "1")]).expect("ran before");
    let said = Said::from(output);
    assert!(said.out.contains("INVALID") && !said.out.contains('\x1b'), "{}", said.out);
    let dumb = on_terminal(&[("TERM", "dumb")]).expect("ran before");
    assert!(!Said::from(dumb).out.contains('\x1b'));
}

#[test]
fn the_same_input_gives_the_same_output() {
    let scratch = Scratch::new();
    let mut packets = conversation();
    packets.extend((0..500).map(|i| (SECOND + i * MS, udp(1, i as u16, 2, (i * 7) as u16, 3))));
    let file = scratch.pcap("a.pcap", &packets);
    for command in ["track", "track --ended", "explain", "events"] {
        for format in ["text", "ndjson"] {
            let arguments = format!("{command} --format {format}");
            let first = run(&arguments, &[&file]).fine().out;
            assert_eq!(first, run(&arguments, &[&file]).fine().out, "{arguments}");
            let keyed = format!("{arguments} --hash-key 00112233445566778899aabbccddeeff");
            assert_eq!(first, run(&keyed, &[&file]).fine().out, "{keyed}");
        }
    }
}
