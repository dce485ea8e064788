//! This project's parts beside their peers, in one run: hashing, parsing, tables, tracking.
//!
//! `cargo run --release -p fourtuple-bench [-- --json] [--quick]`
//!
//! What is compared takes turns, round by round, so that a slow minute of the machine hits all alike.
#![forbid(unsafe_code)]

mod hash;
mod measure;
mod parse;
mod random;
mod report;
mod table;
mod track;
mod traffic;

use std::io::Write;

use anyhow::Result;
use clap::Parser;

use crate::measure::Plan;

/// Measure this project's parts beside their peers.
#[derive(Parser)]
struct Args {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// One round and no more than 10,000 entries: to see that everything runs, not to compare.
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    let machine = report::Machine::here();
    let mut rows = hash::measure(&plan)?;
    rows.extend(parse::measure(&plan)?);
    rows.extend(table::measure(&plan)?);
    rows.extend(track::measure(&plan)?);
    let text = if args.json {
        report::json(&machine, &plan, &rows)?
    } else {
        report::markdown(&machine, &plan, &rows)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
