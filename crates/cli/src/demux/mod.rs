//! `demux`: which UDP socket gets a datagram, and why.

mod answer;
pub(crate) mod args;
mod capture;
mod describe;
mod host;
mod json;
mod listed;
mod place;
mod scenario;
mod tally;
mod text;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::out::Out;
use crate::setup::is_stdin;

pub(crate) use args::Demux;

/// What was wrong with the input, in words that name file and line.
pub(crate) type Complaints = Vec<String>;

pub(crate) fn run(args: &Demux, out: &mut Out) -> anyhow::Result<Complaints> {
    match (&args.scenario, &args.sockets) {
        (Some(scenario), _) => scenario::run(scenario, args, out),
        (None, Some(sockets)) => listed::run(sockets, args, out),
        // The parser of arguments wants one of them.
        (None, None) => Ok(Complaints::new()),
    }
}

/// A file or standard input, and its name.
fn open(path: &Path) -> Result<(Box<dyn BufRead>, String), String> {
    if is_stdin(path) {
        return Ok((Box::new(io::stdin().lock()), "standard input".to_owned()));
    }
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((Box::new(BufReader::new(file)), name)),
        Err(e) => Err(format!("{name}: cannot be opened: {e}")),
    }
}
