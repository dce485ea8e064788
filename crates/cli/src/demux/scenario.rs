//! A scenario, operation by operation.

use std::ops::ControlFlow;
use std::path::Path;

use fourtuple::udp::scenario::{Operation, Outcome, Runner, each};
use fourtuple::udp::{Config, Profile};

use super::{Complaints, Demux, describe, open};
use crate::args::Format;
use crate::out::Out;
use crate::print::Paint;
use crate::setup::Style;

pub(super) fn run(path: &Path, args: &Demux, out: &mut Out) -> anyhow::Result<Complaints> {
    let mut complaints = Complaints::new();
    let (reader, name) = match open(path) {
        Ok(opened) => opened,
        Err(complaint) => return Ok(vec![complaint]),
    };
    let style = args.style();
    let profile = args.profile.map_or(Profile::Strict, Profile::from);
    let mut config = Config::new(profile);
    config.key = args.hash_key.unwrap_or(config.key);
    let mut runner = Runner::new(&config);
    runner.steps = args.steps || style.format == Format::Text;
    let mut written = Ok(());
    let read = each(reader, |line, text| {
        let outcome = Operation::parse(text).and_then(|op| Ok((runner.apply(&op)?, op)));
        match outcome {
            Ok((outcome, op)) => written = print(out, style, line, &op, &outcome),
            Err(cause) => {
                complaints.push(format!("{name}: line {line}: {cause}"));
                if !args.keep_going {
                    return ControlFlow::Break(());
                }
            }
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written?;
    if let Err(fault) = read {
        complaints.push(format!("{name}: {fault}"));
    }
    Ok(complaints)
}

fn print(
    out: &mut Out,
    style: Style,
    line: usize,
    op: &Operation,
    outcome: &Outcome,
) -> std::io::Result<()> {
    if style.format == Format::Ndjson {
        return out.json(outcome);
    }
    let paint = Paint(style.color);
    let what = describe::operation(op);
    let result = describe::outcome(outcome);
    let result = if describe::is_good(outcome) { paint.good(result) } else { paint.bad(result) };
    out.line(format_args!("{line:>4} {what}: {result}"))?;
    for step in &outcome.steps {
        // A socket stands in the table that was named before it.
        match step.split_once(':').and_then(|(table, rest)| Some((keyed_by(table)?, rest))) {
            Some((key, rest)) => out.line(format_args!("       {key}:{rest}"))?,
            None => out.line(format_args!("         {step}"))?,
        }
    }
    let dropped = outcome.reason.as_deref().and_then(describe::reason);
    if let Some(why) = outcome.why.as_deref().or(dropped) {
        out.line(format_args!("       so: {why}"))?;
    }
    Ok(())
}

/// A table, and what it is keyed by.
fn keyed_by(table: &str) -> Option<&'static str> {
    Some(match table {
        "hash4" => "hash4, by 4-tuple",
        "hash2" => "hash2, by port and destination address",
        "hash2-any" => "hash2, by port and any address",
        "hash" => "hash, by port",
        _ => return None,
    })
}
