//! `fourtuple-oracle`: what the live kernel says.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use std::time::Duration;

use fourtuple_oracle::generate::{Kind, Step};
use fourtuple_oracle::udp::{UdpLimits, udp_campaign};
use fourtuple_oracle::{
    Campaign, Capture, Comparer, Error, Judge, Limits, Seeds, Settings, kernel_version, replay,
    required, script,
};

/// Asks the live kernel about packets, in a network namespace of its own.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends a capture's packets through connection tracking and prints a JSON line for each.
    Replay {
        /// A pcap or pcapng file, also gzip-compressed.
        capture: PathBuf,
        /// A setting by its kernel name, for example `nf_conntrack_tcp_loose=0`.
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// Leave the time-outs as they are instead of adding 100,000 seconds.
        #[arg(long)]
        real_timeouts: bool,
    },
    /// Puts generated packets to the kernel and to this tracker until one of the limits is reached.
    Conntrack {
        /// Packets.
        #[arg(long, default_value_t = u64::MAX)]
        packets: u64,
        /// Seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// First seed, decimal or 0x; a new one each time if not given.
        #[arg(long, value_parser = seed)]
        seed: Option<u64>,
        /// Only these kinds of cases.
        #[arg(long, value_parser = kind)]
        kind: Vec<Kind>,
        /// Folder for a pcapng of each difference.
        #[arg(long)]
        save: Option<PathBuf>,
        /// Stop after so many differences.
        #[arg(long, default_value_t = 10)]
        differences: usize,
    },
    /// Puts random scenarios to real UDP sockets and to this table until one of the limits is reached.
    Udp {
        /// Operations.
        #[arg(long, default_value_t = u64::MAX)]
        operations: u64,
        /// Seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// First seed, decimal or 0x; a new one each time if not given.
        #[arg(long, value_parser = seed)]
        seed: Option<u64>,
        /// Stop after so many differences.
        #[arg(long, default_value_t = 10)]
        differences: usize,
    },
    /// Compares the kernel and this tracker on captures.
    Capture {
        /// pcap or pcapng files, also gzip-compressed.
        #[arg(required = true)]
        captures: Vec<PathBuf>,
    },
    /// Compares the kernel and this tracker on scripts, as --save writes them.
    Script {
        /// Text files.
        #[arg(required = true)]
        scripts: Vec<PathBuf>,
    },
    /// Ten seconds of everything, for users.
    Selftest,
}

fn seed(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    let all = Kind::QUICK.into_iter().chain([Kind::Waiting]);
    let named = |kind: &Kind| format!("{kind:?}").eq_ignore_ascii_case(text);
    all.clone().find(named).ok_or_else(|| {
        let names: Vec<_> = all.map(|kind| format!("{kind:?}").to_lowercase()).collect();
        format!("one of {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            if let Some(Error::Unavailable(missing)) = error.downcast_ref() {
                eprintln!("skipped: {missing}");
                return if required() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
            }
            eprintln!("fourtuple-oracle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Replay { capture, set, real_timeouts } => {
            replay_capture(&capture, &set, real_timeouts)
        }
        Command::Conntrack { packets, seconds, seed, kind, save, differences } => {
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            let seeds = if kind.is_empty() { Seeds::Any(seed) } else { Seeds::Of(kind, seed) };
            let limits = Limits { packets, time: Duration::from_secs(seconds), differences };
            conntrack(&seeds, limits, save)
        }
        Command::Udp { operations, seconds, seed, differences } => {
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            let time = Duration::from_secs(seconds);
            udp(seed, UdpLimits { operations, time, differences })
        }
        Command::Capture { captures } => compare_captures(&captures),
        Command::Script { scripts } => compare_scripts(&scripts),
        Command::Selftest => selftest(),
    }
}

fn conntrack(seeds: &Seeds, limits: Limits, save: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let mut comparer = Comparer::new(Judge::new(&Settings::default())?);
    let mut told = std::time::Instant::now();
    let summary = Campaign::new(&mut comparer, save).run(seeds, limits, |sum, difference| {
        if let Some(text) = difference {
            println!("{text}");
        }
        if told.elapsed() > Duration::from_secs(10) {
            told = std::time::Instant::now();
            eprintln!(
                "{:6.0} s  {} cases, {} packets",
                sum.time.as_secs_f64(),
                sum.cases,
                sum.packets
            );
        }
    })?;
    print!("{summary}");
    Ok(if summary.agrees() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn udp(seed: u64, limits: UdpLimits) -> anyhow::Result<ExitCode> {
    let mut told = std::time::Instant::now();
    let summary = udp_campaign(seed, limits, |sum, difference| {
        if let Some(text) = difference {
            println!("{text}\n");
        }
        if told.elapsed() > Duration::from_secs(10) {
            told = std::time::Instant::now();
            let seconds = sum.time.as_secs_f64();
            eprintln!(
                "{seconds:6.0} s  {} scenarios, {} operations",
                sum.scenarios, sum.operations
            );
        }
    })?;
    print!("{summary}");
    Ok(if summary.agrees() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn selftest() -> anyhow::Result<ExitCode> {
    println!(
        "Asking this machine's kernel, Linux {}, and this program the same questions.",
        kernel_version()
    );
    let seeds = Seeds::Any(fastrand::u64(..));
    let limits = Limits { packets: u64::MAX, time: Duration::from_secs(10), differences: 3 };
    conntrack(&seeds, limits, None)
}

fn compare_scripts(scripts: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut comparer = Comparer::new(Judge::new(&Settings::default())?);
    let mut code = ExitCode::SUCCESS;
    for path in scripts {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
        let case = script::case(&text).with_context(|| format!("reading {name}"))?;
        match comparer.case(&case)?.difference {
            None => println!("{name}: {} packets agree", case.packets().count()),
            Some(difference) => {
                println!("{name}: {}\n{difference}", difference.known.unwrap_or("DIFFERS"));
                if difference.known.is_none() {
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    Ok(code)
}

fn compare_captures(captures: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut comparer = Comparer::new(Judge::new(&Settings::default())?);
    let mut code = ExitCode::SUCCESS;
    for capture in captures {
        let file = Capture::open(capture)?;
        let steps: Vec<_> = file
            .records
            .iter()
            .filter_map(|record| Some(Step::Packet(record.ip()?.to_vec())))
            .collect();
        let settings = Settings::default();
        let compared = comparer.run(&settings, &steps, false)?;
        match compared.difference {
            None => println!("{}: {} packets agree", capture.display(), compared.packets),
            Some(difference) => {
                if let Some(name) = difference.known {
                    println!(
                        "{}: packet {} differs as known: {name}",
                        capture.display(),
                        compared.packets
                    );
                } else {
                    println!(
                        "{}: packet {} differs\n{difference}",
                        capture.display(),
                        compared.packets
                    );
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    Ok(code)
}

fn replay_capture(capture: &Path, set: &[String], real_timeouts: bool) -> anyhow::Result<ExitCode> {
    let mut settings = if real_timeouts { Settings::unlengthened() } else { Settings::default() };
    for text in set {
        let (name, value) = text.split_once('=').context("--set wants NAME=VALUE")?;
        let value = value.parse().with_context(|| format!("{text}: not a number"))?;
        settings.set(name, value).map_err(|name| anyhow::anyhow!("unknown setting {name}"))?;
    }
    let file = Capture::open(capture)?;
    let mut judge = Judge::new(&settings)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    replay(&mut judge, &file.records, &mut out)?;
    out.flush()?;
    match file.fault {
        Some(fault) => {
            eprintln!("fourtuple-oracle: {}: {fault}", capture.display());
            Ok(ExitCode::FAILURE)
        }
        None => Ok(ExitCode::SUCCESS),
    }
}
