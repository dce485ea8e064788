//! `events`: what happens to connections.

use std::io;

use fourtuple::conntrack::{EndReason, Event, EventBits, EventKind, ReceivePath};

use super::Damage;
use crate::args::Format;
use crate::feed;
use crate::out::Out;
use crate::print::EventLine;
use crate::progress::Progress;
use crate::schema;
use crate::setup::{Setup, Style};
use crate::stamp::Stamper;

/// Events that wait at most. They are taken after every packet, and one packet makes far fewer.
const CAPACITY: usize = 1 << 16;

pub(crate) fn run(setup: &Setup, out: &mut Out) -> anyhow::Result<Damage> {
    let mut path = setup.path();
    path.conntrack_mut().enable_events(CAPACITY);
    let (times, starts) = (Stamper::new(), Stamper::new());
    let mut printer = Printer { style: setup.style, times, starts, lost: 0, out };
    let read = feed::read(setup, Progress::new(setup, true), |frame| {
        let record = &frame.record;
        path.frame(frame.now, record.link_type, record.data, record.wire_len);
        printer.waiting(&mut path, Some(record.number))
    })?;
    // What has timed out and nobody asked for since.
    let now = path.conntrack().now();
    path.conntrack_mut().expire_all(now);
    printer.waiting(&mut path, None)?;
    Ok(read.damage)
}

struct Printer<'a> {
    style: Style,
    times: Stamper,
    starts: Stamper,
    /// Lost events that were told of.
    lost: u64,
    out: &'a mut Out,
}

impl Printer<'_> {
    fn waiting(&mut self, path: &mut ReceivePath, packet: Option<u64>) -> io::Result<()> {
        while let Some(event) = path.conntrack_mut().next_event() {
            match self.style.format {
                Format::Text => self.out.pieces(|line| EventLine(&event).print(line))?,
                Format::Ndjson => self.json(&event, packet)?,
            }
        }
        let lost = path.conntrack().lost_events();
        if lost > self.lost {
            self.loss(lost - self.lost)?;
            self.lost = lost;
        }
        Ok(())
    }

    fn json(&mut self, event: &Event, packet: Option<u64>) -> io::Result<()> {
        let at = self.times.stamp(event.at);
        let connection = schema::Connection::at(&event.connection, event.at, &mut self.starts);
        let ended = event.end.is_some();
        let connection = schema::Connection {
            end: event.end.map(EndReason::word),
            stop: ended.then_some(at),
            ..connection
        };
        let line = schema::Event {
            event: match event.kind {
                EventKind::New => "new",
                EventKind::Update => "update",
                EventKind::Destroy => "destroy",
            },
            sequence: event.sequence,
            time: Some(at),
            packet,
            changed: changed(event.bits),
            connection,
        };
        self.out.json(&line)
    }

    fn loss(&mut self, lost: u64) -> io::Result<()> {
        match self.style.format {
            Format::Text => self.out.line(format_args!("# {lost} events lost: no room for them")),
            Format::Ndjson => self.out.json(&schema::Lost { lost }),
        }
    }
}

fn changed(bits: EventBits) -> Vec<&'static str> {
    let names = [
        (EventBits::REPLY, "reply"),
        (EventBits::ASSURED, "assured"),
        (EventBits::PROTOINFO, "protoinfo"),
        (EventBits::MARK, "mark"),
    ];
    names.into_iter().filter(|(bit, _)| bits.has(*bit)).map(|(_, name)| name).collect()
}
