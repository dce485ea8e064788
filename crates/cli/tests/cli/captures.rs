//! Real captures: the project's own, and, where they are there, those of public test suites.

use std::path::{Path, PathBuf};

use super::support::*;

fn captures_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: {} is not there", folder.display());
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|e| e.expect("readable").path())
        .filter(|p| {
            let name = p.to_string_lossy();
            name.contains(".pcap") && !name.ends_with(".ndjson")
        })
        .collect();
    files.sort();
    files
}

/// Every command reads every sample to its end, and the three agree on what is in it.
#[test]
fn samples() {
    let files = captures_in("captures");
    assert!(files.len() >= 10, "the project's samples");
    for file in files {
        let name = file.display();
        let track = run("track --format ndjson", &[&file]).fine().json();
        let summary = &track.last().expect("summary")["summary"];
        let explain = run("explain --format ndjson", &[&file]).fine().json();
        assert_eq!(summary["packets"].as_u64(), Some(explain.len() as u64), "{name}");
        for (verdict, count) in summary["verdicts"].as_object().expect("an object") {
            let lines = explain.iter().filter(|l| l["verdict"] == verdict.as_str()).count();
            assert_eq!(count.as_u64(), Some(lines as u64), "{name} {verdict}");
        }
        for (reason, count) in summary["reasons"].as_object().expect("an object") {
            let lines = explain.iter().filter(|l| l["reason"] == reason.as_str()).count();
            assert_eq!(count.as_u64(), Some(lines as u64), "{name} {reason}");
        }
        let events = run("events --format ndjson", &[&file]).fine().json();
        let of_kind = |kind: &str| events.iter().filter(|e| e["event"] == kind).count() as u64;
        let connections = &summary["connections"];
        assert_eq!(connections["opened"], of_kind("new"), "{name}");
        let ended: u64 = connections["ended"]
            .as_object()
            .expect("an object")
            .values()
            .filter_map(serde_json::Value::as_u64)
            .sum();
        assert_eq!(ended, of_kind("destroy"), "{name}");
        assert_eq!(connections["live"], track.len() as u64 - 1, "{name}");
        // Text has a line for a line.
        assert_eq!(run("explain", &[&file]).fine().out.lines().count(), explain.len(), "{name}");
        assert_eq!(run("events", &[&file]).fine().out.lines().count(), events.len(), "{name}");
    }
}

/// xorshift64, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Captures that were cut or damaged anywhere: what can be read is printed, the rest is an error, nothing panics.
#[test]
fn damaged() {
    let mut files = captures_in("captures");
    files.extend(captures_in("../shared/captures"));
    let mut random = Random(0x4d59_5df4_d0f3_3173);
    for file in files {
        let bytes = std::fs::read(&file).expect("readable");
        for round in 0..6 {
            let mut bytes = bytes.clone();
            if round < 4 {
                bytes.truncate(random.below(bytes.len()));
            } else {
                for _ in 0..200 {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            let command =
                ["track --ended --format ndjson -", "explain --format ndjson -", "explain -"]
                    [round % 3];
            let said = run_on_stdin(command, bytes);
            let name = file.display();
            assert!(said.status == 0 || said.status == 1, "{name} {round}: {}", said.err);
            assert_eq!(said.status == 0, said.err.is_empty(), "{name} {round}: {}", said.err);
            if command.contains("ndjson") {
                said.json();
            }
        }
    }
}
