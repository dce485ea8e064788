//! The judge against what an earlier judge of the same design wrote down for each capture of
//! `../shared/captures`: same kernel, so every line must agree.

mod common;

use std::path::{Path, PathBuf};

use common::judge;
use fourtuple_oracle::{Capture, Settings, replay};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures")
}

/// Takes out what may differ between two runs: times, and a second of a time-out.
fn same(path: &str, want: &Value, got: &Value) -> Result<(), String> {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<_> = a.keys().chain(b.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                if key == "t" {
                    continue;
                }
                let null = Value::Null;
                let (x, y) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                same(&format!("{path}.{key}"), x, y)?;
            }
            Ok(())
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().try_for_each(|(i, (x, y))| same(&format!("{path}[{i}]"), x, y))
        }
        (Value::Number(a), Value::Number(b)) if path.ends_with(".timeout") => {
            let apart = (a.as_f64().unwrap() - b.as_f64().unwrap()).abs();
            if apart <= 1.0 { Ok(()) } else { Err(format!("{path}: {want} then, {got} now")) }
        }
        _ if want == got => Ok(()),
        _ => Err(format!("{path}: {want} then, {got} now")),
    }
}

/// Where the earlier judge's *reader* read a file differently; what follows it cannot agree.
///
/// `format--ngt-test102.pcapng`, record 5: BSD loopback, family little-endian in a big-endian
/// section. The earlier reader took it for not IP; tcpdump accepts both orders, and so do we.
/// `format--pcpp-fuzz-...`: the file ends inside its third record, which the earlier reader counted.
fn read_differently(file: &str, line: &Value) -> bool {
    match file {
        "format--ngt-test102.pcapng" => line["n"].as_u64().is_none_or(|n| n > 4),
        "format--pcpp-fuzz-5717750942269440.pcap" => line.get("stats").is_some(),
        _ => false,
    }
}

#[test]
fn every_capture_gets_the_same_answers_again() {
    let name = "every_capture_gets_the_same_answers_again";
    let Ok(files) = std::fs::read_dir(folder()) else {
        println!("skipped: {name}: no ../shared/captures here");
        return;
    };
    let Some(mut judge) = judge(name, &Settings::default()) else { return };
    assert!(judge.sees_drops(), "the drop reasons must be readable where the rest is");
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let (mut compared, mut packets, mut failures) = (0, 0, Vec::new());
    for file in files {
        let Some(capture) = file.to_str().unwrap().strip_suffix(".kernel.ndjson") else {
            continue;
        };
        let records = Capture::open(Path::new(capture)).unwrap().records;
        judge.reset(&Settings::default()).unwrap();
        let mut out = Vec::new();
        replay(&mut judge, &records, &mut out).unwrap();
        let lines = |text: &str| -> Vec<Value> {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let want = lines(&std::fs::read_to_string(&file).unwrap());
        let got = lines(std::str::from_utf8(&out).unwrap());
        packets += got.len() - 2;
        compared += 1;
        let short = Path::new(capture).file_name().unwrap().to_str().unwrap();
        if want.len() != got.len() && short != "format--ngt-test102.pcapng" {
            failures.push(format!("{short}: {} lines then, {} now", want.len(), got.len()));
        }
        for (want, got) in want.iter().zip(&got) {
            if read_differently(short, want) {
                continue;
            }
            if let Err(difference) = same("", want, got) {
                failures.push(format!("{short} packet {}: {difference}", want["n"]));
            }
        }
    }
    println!("{compared} captures, {packets} packets compared");
    assert!(compared > 0, "no *.kernel.ndjson files in ../shared/captures");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
