//! `explain`: a line a packet.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use fourtuple::conntrack::{Connection, Verdict, protocol_name};
use fourtuple::packet::{Instant, L4, Tcp};

use super::Damage;
use super::annotate::Annotator;
use crate::args::{Format, Which};
use crate::feed::{self, Frame};
use crate::frame::Look;
use crate::out::Out;
use crate::print::{Comment, Paint, VerdictLine};
use crate::progress::Progress;
use crate::schema;
use crate::setup::Setup;
use crate::stamp::Stamper;

/// What to print and what to write.
pub(crate) struct How {
    pub(crate) which: Which,
    pub(crate) quiet: bool,
    pub(crate) annotate: Option<PathBuf>,
}

pub(crate) fn run(setup: &Setup, how: &How, out: &mut Out) -> anyhow::Result<Damage> {
    let annotate = how.annotate.as_deref();
    let mut annotator = annotate.map(|to| Annotator::new(to, &setup.captures)).transpose()?;
    let mut path = setup.path();
    let mut printer = Printer::new(setup, out);
    let mut quiet = how.quiet;
    let mut comment = String::new();
    let read = feed::read(setup, Progress::new(setup, !quiet), |frame| {
        let record = &frame.record;
        let verdict = path.frame(frame.now, record.link_type, record.data, record.wire_len);
        let connection = verdict.connection.and_then(|id| path.conntrack().connection(id));
        if let Some(annotator) = &mut annotator {
            comment.clear();
            // Writing to a string does not fail.
            let _ = write!(comment, "{}", Comment { verdict: &verdict, connection });
            annotator.write(frame, &mut comment)?;
        }
        if quiet {
            return Ok(());
        }
        let look = Look::at(record);
        if !how.which.wants(record.number, &verdict, &look) {
            return Ok(());
        }
        let now = path.conntrack().now();
        let line = Line { frame, look, verdict: &verdict, connection, now };
        match printer.print(line) {
            // Nobody reads on, but the file that was asked for is to be whole.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe && annotator.is_some() => {
                quiet = true;
                Ok(())
            }
            done => done.map_err(anyhow::Error::from),
        }
    })?;
    if let Some(annotator) = annotator {
        annotator.finish()?;
    }
    Ok(read.damage)
}

struct Line<'a> {
    frame: &'a Frame<'a>,
    look: Look<'a>,
    verdict: &'a Verdict,
    connection: Option<&'a Connection>,
    now: Instant,
}

struct Printer<'a> {
    setup: &'a Setup,
    /// Names of the captures.
    names: Vec<String>,
    /// The capture whose name was printed last.
    named: Option<usize>,
    packets: Stamper,
    connections: Stamper,
    out: &'a mut Out,
}

impl<'a> Printer<'a> {
    fn new(setup: &'a Setup, out: &'a mut Out) -> Self {
        let names = setup.captures.iter().map(|p| p.display().to_string()).collect();
        let (packets, connections) = (Stamper::new(), Stamper::new());
        Self { setup, names, named: None, packets, connections, out }
    }

    fn print(&mut self, line: Line<'_>) -> io::Result<()> {
        match self.setup.style.format {
            Format::Text => self.text(&line),
            Format::Ndjson => self.json(&line),
        }
    }

    fn text(&mut self, line: &Line<'_>) -> io::Result<()> {
        let file = line.frame.file;
        if self.names.len() > 1 && self.named != Some(file) {
            self.out.line(format_args!("==> {} <==", self.names[file]))?;
            self.named = Some(file);
        }
        self.out.line(VerdictLine {
            number: line.frame.record.number,
            time: line.frame.time.map(|at| self.packets.stamp(at)),
            verdict: line.verdict,
            connection: line.connection,
            look: &line.look,
            paint: Paint(self.setup.style.color),
        })
    }

    fn json(&mut self, line: &Line<'_>) -> io::Result<()> {
        let Line { frame, look, verdict, connection, now } = line;
        let packet = look.packet.as_ref();
        let object = schema::Packet {
            packet: frame.record.number,
            file: (self.names.len() > 1).then(|| self.names[frame.file].as_str()),
            time: frame.time.map(|at| self.packets.stamp(at)),
            verdict: verdict.kind.word(),
            direction: verdict.direction.map(|d| d.name()),
            reason: verdict.reason.word(),
            detail: verdict.detail,
            connection: connection.map(|c| schema::Connection::at(c, *now, &mut self.connections)),
            change: schema::Change::of(verdict.change),
            length: packet.map_or(look.wire_len, |p| p.len),
            tuple: tuple(look),
            vlan: look.vlan,
            fragment: packet.and_then(|p| p.fragment).map(|f| schema::Fragment {
                id: f.id,
                offset: f.offset,
                more: f.more,
            }),
            tcp: match packet.map(|p| p.l4) {
                Some(L4::Tcp(Tcp { seq, ack, flags, window, payload_len, .. })) => {
                    Some(schema::Segment { flags, seq, ack, window, payload: payload_len })
                }
                _ => None,
            },
        };
        self.out.json(&object)
    }
}

fn tuple(look: &Look<'_>) -> Option<schema::PacketTuple> {
    let packet = look.packet.as_ref()?;
    let flow = match &look.tuple {
        Some(tuple) => schema::Flow::of(tuple),
        None => {
            let (src, dst) = look.addresses()?;
            schema::Flow::between(src, dst)
        }
    };
    let (protocol, protonum) = (protocol_name(packet.protocol), packet.protocol);
    Some(schema::PacketTuple { protocol, protonum, flow })
}
