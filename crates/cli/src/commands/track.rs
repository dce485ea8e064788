//! `track`: connections at the end, and a summary.

use fourtuple::conntrack::{Connection, EndReason, EventKind, ReceivePath, Verdict};
use fourtuple::packet::Instant;

use super::Damage;
use crate::args::Format;
use crate::feed;
use crate::out::Out;
use crate::print::{ENDED, Listed, Paint, SummaryText};
use crate::progress::Progress;
use crate::schema::{self, SummaryLine};
use crate::setup::{Setup, Style};
use crate::stamp::Stamper;
use crate::summary::Tally;

/// Events that a batch of packets can make, and room to spare: expiry is bounded per packet.
const EVENTS: usize = 1 << 16;

pub(crate) fn run(setup: &Setup, ended: bool, out: &mut Out) -> anyhow::Result<Damage> {
    let mut path = setup.path();
    if ended {
        path.conntrack_mut().enable_events(EVENTS);
    }
    let mut printer = Printer { style: setup.style, stamper: Stamper::new(), out };
    let mut tally = Tally::default();
    let progress = Progress::new(setup, ended);
    let count = |verdict: &Verdict| tally.count(verdict);
    let read = feed::track(setup, progress, &mut path, count, |path| {
        if ended { printer.ended(path) } else { Ok(()) }
    })?;
    if read.opened == 0 {
        return Ok(read.damage);
    }
    if ended {
        let now = path.conntrack().now();
        path.conntrack_mut().expire_all(now);
        printer.ended(&mut path)?;
    }
    printer.live(&path)?;
    let summary = tally.summary(&read, &path, &mut printer.stamper);
    printer.summary(summary)?;
    Ok(read.damage)
}

struct Printer<'a> {
    style: Style,
    stamper: Stamper,
    out: &'a mut Out,
}

impl Printer<'_> {
    /// Prints the connections that have ended since the last call.
    fn ended(&mut self, path: &mut ReceivePath) -> std::io::Result<()> {
        while let Some(event) = path.conntrack_mut().next_event() {
            if event.kind == EventKind::Destroy {
                self.connection(&event.connection, event.at, event.end)?;
            }
        }
        Ok(())
    }

    /// Prints the connections that are left, in the order of their beginning.
    fn live(&mut self, path: &ReceivePath) -> std::io::Result<()> {
        let now = path.conntrack().now();
        // With their numbers beside them, so that sorting does not go to the connections for each comparison.
        let numbered = path.conntrack().connections().map(|(id, conn)| (id.number(), conn));
        let mut all: Vec<(u64, &Connection)> = numbered.collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        let none = all.is_empty();
        for (_, conn) in all {
            self.connection(conn, now, None)?;
        }
        if self.style.format == Format::Text && !none { self.out.line("") } else { Ok(()) }
    }

    fn connection(
        &mut self,
        conn: &Connection,
        now: Instant,
        end: Option<EndReason>,
    ) -> std::io::Result<()> {
        match self.style.format {
            Format::Text => {
                let listed = Listed { conn, now, end };
                self.out.pieces(|line| {
                    line.text(if end.is_some() { ENDED } else { "" });
                    listed.print(line);
                })
            }
            Format::Ndjson => {
                let object = schema::Connection::at(conn, now, &mut self.stamper);
                let object = schema::Connection {
                    end: end.map(EndReason::word),
                    stop: end.map(|_| self.stamper.stamp(now)),
                    ..object
                };
                self.out.json(&object)
            }
        }
    }

    fn summary(&mut self, summary: schema::Summary) -> std::io::Result<()> {
        match self.style.format {
            Format::Text => {
                let paint = Paint(self.style.color);
                self.out.line(SummaryText { summary: &summary, paint })
            }
            Format::Ndjson => self.out.json(&SummaryLine { summary }),
        }
    }
}
