//! The sockets of a host, and what is asked of them.

use std::path::Path;

use super::answer::Question;
use super::capture::{self, Learnt};
use super::host::Host;
use super::tally::Tally;
use super::{Complaints, Demux, json, open, text};
use crate::args::Format;
use crate::out::Out;
use crate::setup::{Usage, is_stdin};
use crate::ss;

pub(super) fn run(path: &Path, args: &Demux, out: &mut Out) -> anyhow::Result<Complaints> {
    let captures = args.ask.capture.iter().filter(|c| is_stdin(c)).count();
    if captures + usize::from(is_stdin(path)) > 1 {
        return Err(Usage("standard input (-) can be read once only".to_owned()).into());
    }
    let (reader, name) = match open(path) {
        Ok(opened) => opened,
        Err(complaint) => return Ok(vec![complaint]),
    };
    let listing = match ss::read(reader, args.keep_going) {
        Ok(listing) => listing,
        Err(e) => return Ok(vec![format!("{name}: {e}")]),
    };
    let faults = listing.faults.iter();
    let mut complaints: Complaints =
        faults.map(|f| format!("{name}: line {}: {}", f.line, f.cause)).collect();
    // Half of the sockets would answer what the whole would not.
    if !complaints.is_empty() && !args.keep_going {
        return Ok(complaints);
    }
    let profile = args.profile.map_or(fourtuple::udp::Profile::Linux, Into::into);
    let (host, misfits) = Host::new(listing.sockets, &args.ask, profile);
    complaints.extend(misfits.iter().map(|m| format!("{name}: line {}: {m}", m.line)));
    let style = args.style();
    if args.ask.datagram.is_empty() && args.ask.capture.is_empty() {
        match style.format {
            Format::Text => text::listing(&host, listing.foreign, style, out)?,
            Format::Ndjson => json::listing(&host, listing.foreign, out)?,
        }
        return Ok(complaints);
    }
    let mut tally = Tally::new(&host);
    let mut learnt = Learnt::default();
    for asked in &args.ask.datagram {
        let question = Question {
            source: asked.source,
            destination: asked.destination,
            device: asked.device.as_deref(),
            checksum: true,
        };
        let answer = host.ask(&question, args.steps || style.format == Format::Text);
        learnt.destination(&host, asked.destination.ip());
        tally.count(&host, &question, &answer);
        match style.format {
            Format::Text => text::answer(&host, &question, &answer, style, out)?,
            Format::Ndjson => out.json(&json::Datagram::of(&host, &question, &answer))?,
        }
    }
    if !args.ask.capture.is_empty() {
        complaints.extend(capture::run(&host, args, &mut learnt, &mut tally, out)?);
    }
    let assumed = host.assumed(&learnt, &tally);
    match style.format {
        Format::Text if args.ask.capture.is_empty() => text::assumed(&assumed, style, out)?,
        Format::Text => text::summary(&host, &tally, &assumed, style, out)?,
        Format::Ndjson => out.json(&json::SummaryLine::of(&host, &tally, &assumed))?,
    }
    Ok(complaints)
}
