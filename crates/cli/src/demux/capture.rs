//! Every datagram of a capture, put to the sockets of a host.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use fourtuple::capture::{CaptureError, CaptureReader, Direction, Record};
use fourtuple::conntrack::ip;
use fourtuple::packet::{L4, Packet, decapsulate, protocol};
use fourtuple::udp::AddressKind;

use super::answer::Question;
use super::host::Host;
use super::tally::Tally;
use super::{Complaints, Demux, json, text};
use crate::args::Format;
use crate::out::Out;
use crate::print::Paint;
use crate::progress::Progress;
use crate::setup::is_stdin;
use crate::stamp::{Stamp, Stamper};

/// Destinations that were taken for the host's because something was sent there. Beyond this many
/// none is remembered.
const MAX_LEARNT: usize = 1 << 16;

/// What datagrams tell of the host.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    /// Destinations that no socket is bound to.
    pub(super) own: HashSet<IpAddr>,
    pub(super) multicast: bool,
}

impl Learnt {
    pub(super) fn destination(&mut self, host: &Host, to: IpAddr) {
        match host.table.router().what(to) {
            AddressKind::Multicast => self.multicast = true,
            AddressKind::Unicast if self.own.len() < MAX_LEARNT => {
                self.own.insert(to);
            }
            _ => {}
        }
    }
}

/// A record of a capture as far as it matters here.
enum Inside {
    Udp {
        source: SocketAddr,
        destination: SocketAddr,
        checksum: bool,
    },
    /// Behind the first fragment of a datagram, without ports.
    Fragment,
    Other,
}

fn inside(record: &Record<'_>) -> Inside {
    let Ok(inner) = decapsulate(record.link_type, record.data, record.wire_len) else {
        return Inside::Other;
    };
    let Ok(packet) = Packet::parse(inner.bytes, inner.wire_len) else {
        return Inside::Other;
    };
    if packet.protocol != protocol::UDP {
        return Inside::Other;
    }
    let (ports, checksum) = match (packet.fragment, packet.l4) {
        (Some(f), _) if f.offset > 0 => return Inside::Fragment,
        (Some(_), _) => {
            let header = packet.bytes.get(packet.l4_offset..).unwrap_or_default();
            let &[a, b, c, d, ..] = header else { return Inside::Other };
            (Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))), true)
        }
        (None, L4::Udp(header)) => (Some((header.sport, header.dport)), header.checksum != 0),
        (None, L4::Malformed { ports, .. }) => (ports, true),
        _ => (None, true),
    };
    let Some((sport, dport)) = ports else { return Inside::Other };
    let addr = |a| ip(packet.family, a);
    let (source, destination) =
        (SocketAddr::new(addr(&packet.src), sport), SocketAddr::new(addr(&packet.dst), dport));
    Inside::Udp { source, destination, checksum }
}

pub(super) fn run(
    host: &Host,
    args: &Demux,
    learnt: &mut Learnt,
    tally: &mut Tally,
    out: &mut Out,
) -> anyhow::Result<Complaints> {
    let style = args.style();
    let captures = &args.ask.capture;
    let mut progress = Progress::over(captures, !args.quiet);
    let mut complaints = Complaints::new();
    let mut reading = Reading { host, args, learnt, tally, stamper: Stamper::new() };
    for path in captures {
        let name = path.display().to_string();
        let opened: Result<CaptureReader, CaptureError> =
            if is_stdin(path) { CaptureReader::stdin() } else { CaptureReader::open(path) };
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(e) => {
                complaints.push(e.to_string());
                continue;
            }
        };
        if captures.len() > 1 && !args.quiet && style.format == Format::Text {
            out.line(format_args!("==> {name} <=="))?;
        }
        progress.capture(reader.format().compression.is_some());
        let file = (captures.len() > 1).then_some(name.as_str());
        while let Some(record) = reader.next() {
            match record {
                Ok(record) => {
                    progress.packet(record.offset);
                    reading.record(file, &record, out)?;
                }
                Err(e) => complaints.push(e.to_string()),
            }
        }
        progress.passed(reader.offset());
    }
    progress.finish();
    Ok(complaints)
}

struct Reading<'a> {
    host: &'a Host,
    args: &'a Demux,
    learnt: &'a mut Learnt,
    tally: &'a mut Tally,
    stamper: Stamper,
}

impl Reading<'_> {
    fn record(
        &mut self,
        file: Option<&str>,
        record: &Record<'_>,
        out: &mut Out,
    ) -> anyhow::Result<()> {
        self.tally.packets += 1;
        let (source, destination, checksum) = match inside(record) {
            Inside::Udp { source, destination, checksum } => (source, destination, checksum),
            Inside::Fragment => {
                self.tally.fragments += 1;
                return Ok(());
            }
            Inside::Other => {
                self.tally.others += 1;
                return Ok(());
            }
        };
        if self.is_sent(record, source, destination) {
            self.tally.sent += 1;
            return Ok(());
        }
        let question = Question { source, destination, device: None, checksum };
        let answer = self.host.ask(&question, self.args.steps && !self.args.quiet);
        self.learnt.destination(self.host, destination.ip());
        self.tally.count(self.host, &question, &answer);
        if self.args.quiet {
            return Ok(());
        }
        let time: Option<Stamp> = record.time.map(|at| self.stamper.stamp(at));
        let style = self.args.style();
        match style.format {
            Format::Text => {
                let line = text::Line {
                    host: self.host,
                    number: record.number,
                    time,
                    question,
                    answer: &answer,
                };
                out.line(line.paint(Paint(style.color)))?;
                for step in &answer.steps {
                    out.line(format_args!("       {step}"))?;
                }
            }
            Format::Ndjson => {
                let mut object = json::Datagram::of(self.host, &question, &answer);
                (object.packet, object.file, object.time) = (Some(record.number), file, time);
                out.json(&object)?;
            }
        }
        Ok(())
    }

    /// Whether the host sent this datagram itself, and does not receive it.
    fn is_sent(&self, record: &Record<'_>, source: SocketAddr, destination: SocketAddr) -> bool {
        match record.direction() {
            Some(Direction::Outbound) => return true,
            Some(Direction::Inbound) => return false,
            _ => {}
        }
        let router = self.host.table.router();
        let (from, to) = (source.ip(), destination.ip());
        if to.is_multicast() || router.what(to) != AddressKind::Unicast {
            return false;
        }
        if router.is_own(from) || !self.args.ask.address.is_empty() {
            return router.is_own(from);
        }
        // Neither address is known: the side whose port a socket has is the host's.
        self.host.on_port(destination.port()).is_empty()
            && !self.host.on_port(source.port()).is_empty()
    }
}
