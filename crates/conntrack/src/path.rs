//! The whole receive path of a host, as far as connection tracking is concerned: link layer, IP header checks,
//! reassembly, tracking.

use fourtuple_packet::{
    FragmentError, Instant, IpError, Limits, LinkError, LinkType, Outcome, Packet, Reassembler,
    decapsulate,
};

use crate::reason::{Reason, VerdictKind};
use crate::settings::Settings;
use crate::track::{Conntrack, Context, Prepared};
use crate::tuple::Zone;
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

/// An ordinary packet of a batch.
struct Staged<'a> {
    packet: Packet<'a>,
    prepared: Option<Prepared>,
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
            Ok(inner) => return self.ip(now, inner.bytes, inner.wire_len),
            Err(e) => skipped(link_reason(e), Detail::Link(e)),
        };
        self.conntrack.advance(now);
        self.counted(verdict)
    }

    /// Takes an IP packet of `wire_len` bytes (link-layer padding may be included), of which `data` was captured.
    pub fn ip(&mut self, now: Instant, data: &[u8], wire_len: u32) -> Verdict {
        let verdict = match Packet::parse(data, wire_len) {
            Ok(packet) if packet.fragment.is_some() => self.fragment(now, &packet),
            Ok(packet) => {
                let context = self.context(true);
                self.conntrack.track(now, &packet, &context)
            }
            Err(e) => {
                self.conntrack.advance(now);
                refused(e)
            }
        };
        self.counted(verdict)
    }

    /// Takes a batch of frames in order and hands each one's verdict to `sink`, as [`frame`](Self::frame) would have
    /// answered: what differs is that the memory is asked for all their connections before the first is touched.
    pub fn frames(
        &mut self,
        frames: &[Frame<'_>],
        mut sink: impl FnMut(&Self, &Frame<'_>, Verdict),
    ) {
        let context = self.context(true);
        for batch in frames.chunks(BATCH) {
            let mut staged: [Option<Staged<'_>>; BATCH] = [const { None }; BATCH];
            for (frame, stage) in batch.iter().zip(&mut staged) {
                *stage = self.stage(frame, &context);
            }
            for stage in staged.iter_mut().flatten() {
                if let Some(prepared) = &mut stage.prepared {
                    self.conntrack.prefetch(prepared);
                }
            }
            for (frame, stage) in batch.iter().zip(&staged) {
                let verdict = match stage {
                    Some(Staged { packet, prepared }) => {
                        let verdict =
                            self.conntrack.track_prepared(frame.now, packet, &context, *prepared);
                        self.counted(verdict)
                    }
                    None => self.frame(frame.now, frame.link, frame.data, frame.wire_len),
                };
                sink(self, frame, verdict);
            }
        }
    }

    /// Parses a frame as far as it is an ordinary packet; `None` for everything that takes another way.
    #[inline]
    fn stage<'a>(&mut self, frame: &Frame<'a>, context: &Context) -> Option<Staged<'a>> {
        let wire_len = self.wire_len(frame.data, frame.wire_len);
        let inner = decapsulate(frame.link, frame.data, wire_len).ok()?;
        if inner.mpls_labels > 0 && !self.options.mpls {
            return None;
        }
        let packet = Packet::parse(inner.bytes, inner.wire_len).ok()?;
        if packet.fragment.is_some() {
            return None;
        }
        let prepared = self.conntrack.prepare(&packet, context);
        Some(Staged { packet, prepared })
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
                return match Packet::parse(datagram.bytes, datagram.len) {
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
