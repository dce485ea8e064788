//! The live kernel and this tracker, packet by packet: generated cases, regressions, captures.
//!
//! `FOURTUPLE_ORACLE_PACKETS` says how many generated packets (default 120,000), `FOURTUPLE_ORACLE_SEED` from which seed
//! on (default: another one each time; it is printed), `FOURTUPLE_ORACLE_SAVE` where a pcapng and a script of each
//! difference go.

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fourtuple_oracle::generate::{Kind, Step};
use fourtuple_oracle::{Campaign, Capture, Comparer, Limits, Seeds, Settings, script};

/// More than the 100,000 that every run of CI has to compare; about a minute and a half.
const PACKETS: u64 = 120_000;

fn comparer(test: &str) -> Option<Comparer> {
    common::judge(test, &Settings::default()).map(Comparer::new)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    Some(number.unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn campaign(test: &str, seeds: &Seeds, packets: u64) {
    let Some(mut comparer) = comparer(test) else { return };
    let save = std::env::var_os("FOURTUPLE_ORACLE_SAVE").map(PathBuf::from);
    let limits = Limits { packets, time: Duration::from_secs(3600), differences: 10 };
    let summary = Campaign::new(&mut comparer, save)
        .run(seeds, limits, |_, difference| {
            if let Some(text) = difference {
                println!("{text}");
            }
        })
        .unwrap();
    println!("{summary}");
    assert!(summary.packets > 0);
    assert!(summary.agrees(), "unlisted differences from seed {:#x} on", summary.seed);
}

#[test]
fn generated_packets_get_the_kernels_answers() {
    let seed = number("FOURTUPLE_ORACLE_SEED").unwrap_or_else(|| fastrand::u64(..));
    let packets = number("FOURTUPLE_ORACLE_PACKETS").unwrap_or(PACKETS);
    campaign("generated_packets_get_the_kernels_answers", &Seeds::Any(seed), packets);
}

#[test]
fn timeouts_run_out_when_the_kernels_do() {
    let seed = number("FOURTUPLE_ORACLE_SEED").unwrap_or_else(|| fastrand::u64(..));
    let packets = number("FOURTUPLE_ORACLE_PACKETS").unwrap_or(PACKETS) / 400;
    let seeds = Seeds::Of(vec![Kind::Waiting], seed);
    campaign("timeouts_run_out_when_the_kernels_do", &seeds, packets);
}

#[test]
fn every_difference_ever_found_is_gone() {
    let name = "every_difference_ever_found_is_gone";
    let Some(mut comparer) = comparer(name) else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut failures = Vec::new();
    for file in &files {
        let case = script::case(&std::fs::read_to_string(file).unwrap()).unwrap();
        if let Some(difference) = comparer.case(&case).unwrap().difference {
            failures.push(format!("{}\n{difference}", file.display()));
        }
    }
    println!("{} regressions", files.len());
    assert!(!files.is_empty());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn captures_get_the_kernels_answers() {
    let name = "captures_get_the_kernels_answers";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures");
    let Ok(files) = std::fs::read_dir(folder) else {
        println!("skipped: {name}: no ../shared/captures here");
        return;
    };
    let Some(mut comparer) = comparer(name) else { return };
    let mut files: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|file| file.to_str().is_some_and(|name| name.ends_with(".kernel.ndjson")))
        .map(|file| file.with_extension("").with_extension(""))
        .collect();
    files.sort();
    let (mut packets, mut known, mut failures) = (0, 0, Vec::new());
    for file in &files {
        let steps: Vec<_> = Capture::open(file)
            .unwrap()
            .records
            .iter()
            .filter_map(|record| Some(Step::Packet(record.ip()?.to_vec())))
            .collect();
        let compared = comparer.run(&Settings::default(), &steps, false).unwrap();
        packets += compared.packets;
        match compared.difference {
            Some(difference) if difference.known.is_none() => {
                failures.push(format!("{}\n{difference}", file.display()));
            }
            Some(_) => known += 1,
            None => {}
        }
    }
    println!(
        "{} captures, {packets} packets compared, {known} end in a known difference",
        files.len()
    );
    assert!(packets > 1000, "{packets} packets");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
