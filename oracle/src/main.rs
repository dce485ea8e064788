//! `fourtuple-oracle`: what the live kernel says.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use fourtuple_oracle::{Capture, Error, Judge, Settings, replay, required};

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
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            if let Some(Error::Unavailable(missing)) = error.downcast_ref() {
                eprintln!("skipped: {missing}");
                return if required() {
                    ExitCode::FAILURE
                } else {
                    ExitCode::SUCCESS
                };
            }
            eprintln!("fourtuple-oracle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Command::Replay {
        capture,
        set,
        real_timeouts,
    } = arguments.command;
    let mut settings = if real_timeouts {
        Settings::unlengthened()
    } else {
        Settings::default()
    };
    for text in &set {
        let (name, value) = text.split_once('=').context("--set wants NAME=VALUE")?;
        let value = value
            .parse()
            .with_context(|| format!("{text}: not a number"))?;
        settings
            .set(name, value)
            .map_err(|name| anyhow::anyhow!("unknown setting {name}"))?;
    }
    let file = Capture::open(&capture)?;
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
