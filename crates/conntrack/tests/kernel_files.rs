//! What a live kernel said of captured packets, and what this tracker says of them: packet by packet.
//!
//! The files lie beside the checkout, in `../shared/captures`; where they are missing the test says so and passes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fourtuple_capture::CaptureReader;
use fourtuple_conntrack::{
    Connection, Conntrack, CutPackets, Direction, PathOptions, ReceivePath, Settings, TupleHash,
    Verdict, VerdictKind,
};
use fourtuple_hash::Key;
use fourtuple_packet::{Instant, protocol};
use serde_json::Value;

fn folder() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    path.is_dir().then_some(path)
}

#[derive(Default)]
struct Tally {
    packets: u32,
    verdicts: u32,
    entries: u32,
    entries_equal: u32,
    report: String,
}

/// The kernel's records of one capture by packet number.
fn kernel_records(path: &Path) -> BTreeMap<u64, Value> {
    let text = fs::read_to_string(path).expect("a kernel file");
    let values = text.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    values.filter_map(|v| Some((v["n"].as_u64()?, v))).collect()
}

/// What differs between the kernel's entry and ours; empty if nothing.
fn entry_difference(kernel: &Value, ours: &Connection) -> String {
    let mut out = String::new();
    let mut differ = |what: &str, kernel: String, ours: String| {
        if kernel != ours {
            write!(out, " {what}: kernel {kernel}, ours {ours};").expect("writes to a string");
        }
    };
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    if let Some(state) = ours.tcp_state() {
        differ("state", text(&kernel["state"]), state.name().to_owned());
    }
    let status: Vec<String> =
        kernel["status"].as_array().expect("status").iter().map(text).collect();
    differ("status", status.join(","), ours.status().names().collect::<Vec<_>>().join(","));
    let timeout = kernel["timeout"].as_i64().unwrap_or(-1);
    let left = ours.timeout().as_secs() as i64;
    if (timeout - left).abs() > 1 {
        differ("timeout", timeout.to_string(), left.to_string());
    }
    for (dir, name) in [(Direction::Original, "orig"), (Direction::Reply, "reply")] {
        let counters = ours.counters(dir).expect("accounting is on");
        let number = |field: &str| kernel[format!("{field}_{name}")].to_string();
        differ("packets", number("packets"), counters.packets.to_string());
        differ("bytes", number("bytes"), counters.bytes.to_string());
        if let fourtuple_conntrack::Proto::Tcp(track) = ours.proto() {
            let tcp = |field: &str| kernel["tcp"][format!("{field}_{name}")].to_string();
            let side = track.side(dir);
            differ("wscale", tcp("wscale"), side.scale.to_string());
            differ("flags", tcp("flags"), side.flags.0.to_string());
        }
    }
    let tuple = ours.tuple(Direction::Original);
    differ("src", text(&kernel["orig"]["src"]), tuple.src_ip().to_string());
    differ("dst", text(&kernel["orig"]["dst"]), tuple.dst_ip().to_string());
    out
}

fn compare(
    name: &str,
    n: u64,
    kernel: &Value,
    verdict: &Verdict,
    path: &ReceivePath,
    tally: &mut Tally,
) {
    tally.packets += 1;
    let direction = verdict.direction.map_or("null", Direction::name);
    let kernel_direction = kernel["direction"].as_str().unwrap_or("null");
    let same = kernel["verdict"] == verdict.kind.word() && kernel_direction == direction;
    if same {
        tally.verdicts += 1;
    } else {
        writeln!(
            tally.report,
            "{name} packet {n}: kernel {} {kernel_direction}, ours {} {direction} ({}: {})",
            kernel["verdict"], verdict.kind, verdict.reason, verdict.detail,
        )
        .expect("writes to a string");
    }
    for entry in kernel["changed"].as_array().into_iter().flatten() {
        tally.entries += 1;
        let ours = verdict.connection.and_then(|id| path.conntrack().connection(id));
        let difference = match ours {
            Some(ours) => entry_difference(entry, ours),
            None => " no entry here".to_owned(),
        };
        if difference.is_empty() {
            tally.entries_equal += 1;
        } else {
            writeln!(tally.report, "{name} packet {n} entry:{difference}").expect("string");
        }
    }
    let ended = kernel["destroyed"].as_array().is_some_and(|d| !d.is_empty());
    if ended != (verdict.change.ended || verdict.reason.word() == "reopened") {
        writeln!(tally.report, "{name} packet {n}: kernel ended {ended}").expect("string");
    }
}

/// True for packets whose tracking is left to a later version: SCTP, GRE.
fn exempt(kernel: &Value, verdict: &Verdict, path: &ReceivePath) -> bool {
    let of_entry = verdict.connection.and_then(|id| path.conntrack().connection(id));
    let number = of_entry.map(|c| c.tuple(Direction::Original).protocol);
    let named = |v: &Value| v["proto"] == "sctp" || v["proto"] == "gre";
    matches!(number, Some(protocol::SCTP | protocol::GRE))
        || kernel["changed"].as_array().is_some_and(|c| c.iter().any(named))
        || verdict.reason.word().starts_with("sctp")
}

fn run(folder: &Path, kinds: impl Fn(&str) -> bool, cut: CutPackets) -> Tally {
    let mut tally = Tally::default();
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .filter_map(|e| e.expect("an entry").file_name().into_string().ok())
        .filter_map(|n| n.strip_suffix(".kernel.ndjson").map(str::to_owned))
        .filter(|n| kinds(n))
        .collect();
    names.sort();
    for name in &names {
        let kernel = kernel_records(&folder.join(format!("{name}.kernel.ndjson")));
        let settings = Settings { acct: true, ..Settings::default() };
        let key = Key::from_words(1, 2);
        let conntrack = Conntrack::new(settings, TupleHash::Compact, key);
        let options = PathOptions { cut, ..PathOptions::default() };
        let mut path = ReceivePath::new(conntrack, options);
        let Ok(mut reader) = CaptureReader::open(folder.join(name)) else {
            assert!(kernel.is_empty(), "{name} does not open");
            continue;
        };
        let mut clock = 1_000_000_000_000u64;
        while let Some(Ok(record)) = reader.next() {
            let said = kernel.get(&record.number);
            if let Some(t) = said.and_then(|v| v["t"].as_f64()) {
                clock = 1_000_000_000_000 + (t * 1e9) as u64;
            }
            let now = Instant::from_nanos(clock);
            let verdict = path.frame(now, record.link_type, record.data, record.wire_len);
            assert!(verdict.reason.verdicts().contains(&verdict.kind), "{verdict:?}");
            match said {
                Some(said) if !exempt(said, &verdict, &path) => {
                    compare(name, record.number, said, &verdict, &path, &mut tally);
                }
                Some(_) => {}
                None if verdict.kind == VerdictKind::Skipped => {}
                None => writeln!(
                    tally.report,
                    "{name} packet {}: not IP for the kernel, ours {} ({})",
                    record.number, verdict.kind, verdict.reason
                )
                .expect("writes to a string"),
            }
        }
    }
    assert!(!names.is_empty());
    tally
}

/// Captures with packets that were no IP for whoever fed the judge, but are for a host that ends the link: sessions of
/// PPPoE, and a BSD loopback header in the byte order of another machine than the file's.
const ENCAPSULATED: [&str; 2] = ["l2--sv-pppoe", "format--ngt-test102"];

#[test]
fn agrees_with_the_kernel_files() {
    let Some(folder) = folder() else {
        println!("skipped: ../shared/captures is not there");
        return;
    };
    let kinds = |name: &str| !ENCAPSULATED.iter().any(|n| name.starts_with(n));
    let tally = run(&folder, kinds, CutPackets::Drop);
    println!(
        "verdict and direction: {} of {}; entries: {} of {}\n{}",
        tally.verdicts, tally.packets, tally.entries_equal, tally.entries, tally.report
    );
    assert_eq!(tally.report, "", "unlisted differences");
    assert!(tally.packets > 2500 && tally.entries > 2000);
}

/// The judge was given the bytes that the capture kept; by default packets are tracked as they were on the wire. Only
/// captures with cut packets may differ by that.
#[test]
fn tracking_cut_packets_changes_nothing_else() {
    let Some(folder) = folder() else {
        println!("skipped: ../shared/captures is not there");
        return;
    };
    let cut = [
        "format--zeek-truncated-header",
        "format--ngt-test",
        "malformed--zeek-ip4-trunc",
        "l2--sv-pppoe",
    ];
    let tally = run(&folder, |name| !cut.iter().any(|c| name.starts_with(c)), CutPackets::Track);
    assert_eq!(tally.report, "", "unlisted differences");
}
