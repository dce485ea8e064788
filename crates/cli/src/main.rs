//! The program `fourtuple`: what Linux connection tracking says of every packet of a capture, and why.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod demux;
mod feed;
mod filter;
mod frame;
mod out;
mod print;
mod progress;
mod schema;
mod select;
mod setup;
mod ss;
mod stamp;
mod summary;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use args::Cli;
use demux::Complaints;
use out::Out;
use setup::Usage;

/// Bad or incomplete input, or output that could not be written.
const FAILED: u8 = 1;
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Out::new();
    let result = commands::run(cli.command, &mut out);
    // What was printed goes out before errors, so that they stand behind it.
    let closed = out.flush();
    match (result, closed) {
        (Err(e), _) => failed(&e),
        (Ok(complaints), Err(e)) => {
            let code = report(&complaints);
            if e.kind() == io::ErrorKind::BrokenPipe {
                code
            } else {
                failed(&anyhow::Error::from(e))
            }
        }
        (Ok(complaints), Ok(())) => report(&complaints),
    }
}

fn report(complaints: &Complaints) -> ExitCode {
    for complaint in complaints {
        say(complaint);
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    if let Some(usage) = error.downcast_ref::<Usage>() {
        // As clap reports what it finds itself.
        let _ = Cli::command().error(ErrorKind::ValueValidation, usage).print();
        return ExitCode::from(USAGE);
    }
    match error.downcast_ref::<io::Error>() {
        // Whoever reads has had enough: `fourtuple explain x.pcap | head`.
        Some(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Some(e) if error.chain().count() == 1 => {
            say(&format_args!("writing to standard output: {e}"));
            ExitCode::from(FAILED)
        }
        _ => {
            say(&format_args!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Says something on standard error; if even that is closed there is nobody to tell.
fn say(what: &dyn std::fmt::Display) {
    let _ = writeln!(io::stderr(), "fourtuple: {what}");
}
