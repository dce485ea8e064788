//! The whole receive path of a host, as far as connection tracking is concerned: link layer, IP header checks,
//! reassembly, tracking.

use fourtuple_packet::{
    FragmentError, Instant, IpError, Limits, LinkError, LinkType, Outcome, Packet, Reassembler,
    decapsulate,
};

use crate::connection::ConnId;
use crate::nets::Hasher;
use crate::reason::{Reason, VerdictKind};
use crate::settings::Settings;
use crate::track::{Conntrack, Context, Hint};
use crate::tuple::{Direction, Tuple, Zone};
use crate::verdict::{Detail, Verdict};

/// What to make of packets that were whole on the wire and that the capture cut behind their headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutPackets {
    /// Track them as they were on the wire; what is missing is not checked (checksums).
    #[default]
    Track,
    /// Treat them as a host that received just these bytes: it drops them.
    Drop,
}

/// Choices about the receive path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathOptions {
    /// Look at IP inside MPLS. Linux forwards by label without asking netfilter, so the default is not to.
    pub mpls: bool,
    /// Zone of all packets.
    pub zone: Zone,
    /// Net id of all packets.
    pub net: u32,
    /// Packets that the capture cut.
    pub cut: CutPackets,
}

/// A captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// When it was captured.
    pub now: Instant,
    /// Its link type.
    pub link: LinkType,
    /// The bytes that were captured.
    pub data: &'a [u8],
    /// Bytes that were on the wire.
    pub wire_len: u32,
}

/// Frames whose memory is asked for at once: enough to cover a miss to main memory with the work of the others, and few
/// enough to stay in the first-level cache.
const BATCH: usize = 16;

/// How many packets before its own a connection's memory is asked for: a few packets' work covers a miss, and the
/// processor has room for so many lines on their way and not for all of a batch.
const AHEAD: usize = 4;

/// A frame of a batch, and what was found out about it before its turn.
#[derive(Clone, Copy)]
struct Arrival<'a> {
    frame: Frame<'a>,
    /// The IP packet in it and that one's length on the wire, if it is that simple.
    ip: Option<(&'a [u8], u32)>,
    lead: Lead,
}

/// Where an arrival's connection may be.
#[derive(Clone, Copy)]
enum Lead {
    /// Nobody knows.
    None,
    /// Where the packet before is: its tuple is this one's, or the `reverse` of it. Packets come in trains (Jain and
    /// Routhier, "Packet Trains", 1986): this spares most of them the hash and the look-up.
    Before { reverse: bool },
    /// Where the table says.
    Table(Hint),
}

impl Arrival<'_> {
    const NONE: Self = Self {
        frame: Frame { now: Instant::ZERO, link: LinkType::ETHERNET, data: &[], wire_len: 0 },
        ip: None,
        lead: Lead::None,
    };
}

/// A host's receive path with a tracker at its end.
#[derive(Debug)]
pub struct ReceivePath {
    conntrack: Conntrack,
    reassembler: Reassembler,
    options: PathOptions,
    reasons: Vec<u64>,
}

impl ReceivePath {
    /// A path that ends in `conntrack`; reassembly follows its settings.
    pub fn new(conntrack: Conntrack, options: PathOptions) -> Self {
        let reassembler = Reassembler::new(limits(conntrack.settings()));
        Self { conntrack, reassembler, options, reasons: vec![0; Reason::ALL.len()] }
    }

    /// Takes a frame of `wire_len` bytes, of which `data` was captured, and says what Linux would.
    pub fn frame(&mut self, now: Instant, link: LinkType, data: &[u8], wire_len: u32) -> Verdict {
        let wire_len = self.wire_len(data, wire_len);
        let verdict = match decapsulate(link, data, wire_len) {
            Ok(inner) if inner.mpls_labels > 0 && !self.options.mpls => {
                skipped(Reason::Mpls, Detail::None)
            }
            Ok(inner) => return self.ip_hinted(now, inner.bytes, inner.wire_len, Hint::NONE),
            Err(e) => skipped(link_reason(e), Detail::Link(e)),
        };
        self.conntrack.advance(now);
        self.counted(verdict)
    }

    /// Takes an IP packet of `wire_len` bytes (link-layer padding may be included), of which `data` was captured.
    pub fn ip(&mut self, now: Instant, data: &[u8], wire_len: u32) -> Verdict {
        self.ip_hinted(now, data, wire_len, Hint::NONE)
    }

    #[inline]
    fn ip_hinted(&mut self, now: Instant, data: &[u8], wire_len: u32, hint: Hint) -> Verdict {
        // By reference: a packet is too large to be moved for nothing.
        let verdict = match &Packet::parse(data, wire_len) {
            Ok(packet) if packet.is_for_reassembly() => self.fragment(now, packet),
            Ok(packet) => {
                let context = self.context(true);
                self.conntrack.track_hinted(now, packet, &context, hint)
            }
            Err(e) => {
                self.conntrack.advance(now);
                refused(*e)
            }
        };
        self.counted(verdict)
    }

    /// Takes frames in order and hands each one's verdict to `sink`, as [`frame`](Self::frame) would have answered: what
    /// differs is that the memory is asked for the connections of a few before the first of them is touched.
    pub fn frames<'a>(
        &mut self,
        frames: impl IntoIterator<Item = Frame<'a>>,
        mut sink: impl FnMut(&Self, &Frame<'a>, Verdict),
    ) {
        let mut frames = frames.into_iter();
        let hasher = self.conntrack.hasher(&self.context(true));
        let mut batch = [Arrival::NONE; BATCH];
        // Tuple of the packet before the one that arrives, and connection of the one before whose turn it is.
        let (mut tuple, mut place) = (None, None);
        loop {
            let mut count = 0;
            for (arrival, frame) in batch.iter_mut().zip(&mut frames) {
                *arrival = self.arrival(frame, &mut tuple, &hasher);
                count += 1;
            }
            let batch = &mut batch[..count];
            for arrival in batch.iter_mut().take(AHEAD) {
                self.prefetch(arrival);
            }
            for i in 0..count {
                if let Some(later) = batch.get_mut(i + AHEAD) {
                    self.prefetch(later);
                }
                let verdict = self.finish(&batch[i], place);
                place = verdict.connection.zip(verdict.direction);
                sink(self, &batch[i].frame, verdict);
            }
            if count < BATCH {
                return;
            }
        }
    }

    /// Looks at a frame. `before` is the tuple of the packet before, and becomes this one's.
    #[inline]
    fn arrival<'a>(
        &self,
        frame: Frame<'a>,
        before: &mut Option<Tuple>,
        hasher: &Hasher,
    ) -> Arrival<'a> {
        let wire_len = self.wire_len(frame.data, frame.wire_len);
        let inner = decapsulate(frame.link, frame.data, wire_len);
        let ip = inner.ok().filter(|inner| inner.mpls_labels == 0);
        let ip = ip.map(|inner| (inner.bytes, inner.wire_len));
        let tuple = ip.and_then(|(bytes, _)| Tuple::peek(bytes));
        let lead = match (&tuple, &*before) {
            (Some(tuple), Some(before)) if tuple.is_reverse_of(before) => {
                Lead::Before { reverse: true }
            }
            (Some(tuple), Some(before)) if tuple == before => Lead::Before { reverse: false },
            (Some(tuple), _) => Lead::Table(self.conntrack.hint(tuple, hasher)),
            (None, _) => Lead::None,
        };
        *before = tuple;
        Arrival { frame, ip, lead }
    }

    #[inline]
    fn prefetch(&self, arrival: &mut Arrival<'_>) {
        if let Lead::Table(hint) = &mut arrival.lead {
            self.conntrack.prefetch(hint);
        }
    }

    #[inline]
    fn finish(&mut self, arrival: &Arrival<'_>, before: Option<(ConnId, Direction)>) -> Verdict {
        let Frame { now, link, data, wire_len } = arrival.frame;
        let Some((bytes, wire_len)) = arrival.ip else {
            return self.frame(now, link, data, wire_len);
        };
        let hint = match (arrival.lead, before) {
            (Lead::Table(hint), _) => hint,
            (Lead::Before { reverse: false }, Some((id, direction))) => Hint::at(id, direction),
            (Lead::Before { reverse: true }, Some((id, direction))) => {
                Hint::at(id, direction.other())
            }
            _ => Hint::NONE,
        };
        self.ip_hinted(now, bytes, wire_len, hint)
    }

    const fn wire_len(&self, data: &[u8], wire_len: u32) -> u32 {
        match self.options.cut {
            CutPackets::Track => wire_len,
            CutPackets::Drop => data.len() as u32,
        }
    }

    fn fragment(&mut self, now: Instant, packet: &Packet<'_>) -> Verdict {
        let waits = |reason, detail| Verdict::without(VerdictKind::Absorbed, reason, detail);
        let user = u32::from(self.options.zone.id);
        let verdict = match self.reassembler.push(now, packet, user) {
            Outcome::Complete(datagram) => {
                return match Packet::parse_reassembled(datagram.bytes, datagram.len) {
                    Ok(whole) => {
                        let context = Context {
                            zone: self.options.zone,
                            net: self.options.net,
                            verify: !datagram.cut,
                        };
                        self.conntrack.track(now, &whole, &context)
                    }
                    Err(e) => refused(e),
                };
            }
            Outcome::NotFragment => {
                let context = self.context(true);
                return self.conntrack.track(now, packet, &context);
            }
            Outcome::PassThrough(_) => {
                let context = self.context(true);
                return self.conntrack.track(now, &packet.unassembled(), &context);
            }
            Outcome::Waiting => waits(Reason::FragmentWaiting, Detail::None),
            Outcome::Dropped(e) => {
                let (kind, reason) = fragment_reason(&e);
                Verdict::without(kind, reason, Detail::Fragment(e))
            }
        };
        self.conntrack.advance(now);
        verdict
    }

    const fn context(&self, verify: bool) -> Context {
        Context { zone: self.options.zone, net: self.options.net, verify }
    }

    fn counted(&mut self, verdict: Verdict) -> Verdict {
        self.reasons[verdict.reason as usize] += 1;
        verdict
    }

    /// Frames that got `reason`.
    pub fn count(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// The tracker.
    pub const fn conntrack(&self) -> &Conntrack {
        &self.conntrack
    }

    /// The tracker, to enable events, delete entries, and so on.
    pub const fn conntrack_mut(&mut self) -> &mut Conntrack {
        &mut self.conntrack
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        v4_timeout: settings.ipfrag_time.span(),
        v4_high_thresh: settings.ipfrag_high_thresh as usize,
        v6_timeout: settings.frag6_timeout.span(),
        v6_high_thresh: settings.frag6_high_thresh as usize,
    }
}

const fn skipped(reason: Reason, detail: Detail) -> Verdict {
    Verdict::without(VerdictKind::Skipped, reason, detail)
}

const fn link_reason(e: LinkError) -> Reason {
    match e {
        LinkError::Unsupported(_) => Reason::LinkTypeUnknown,
        LinkError::NotIp { .. } => Reason::NotIp,
        LinkError::Cut { .. } => Reason::CutByCapture,
        LinkError::Short { .. } => Reason::LinkHeaderBad,
    }
}

const fn refused(e: IpError) -> Verdict {
    let (kind, reason) = match e {
        IpError::Cut { .. } => (VerdictKind::Skipped, Reason::CutByCapture),
        IpError::Checksum { .. } => (VerdictKind::Dropped, Reason::IpChecksum),
        _ => (VerdictKind::Dropped, Reason::IpHeader),
    };
    Verdict::without(kind, reason, Detail::Ip(e))
}

const fn fragment_reason(e: &FragmentError) -> (VerdictKind, Reason) {
    match e {
        FragmentError::Duplicate { .. } => (VerdictKind::Dropped, Reason::FragmentDuplicate),
        FragmentError::Overlap { .. } => (VerdictKind::Dropped, Reason::FragmentOverlap),
        FragmentError::Memory { .. } => (VerdictKind::Dropped, Reason::FragmentMemory),
        _ => (VerdictKind::Dropped, Reason::FragmentRefused),
    }
}
