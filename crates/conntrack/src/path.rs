//! The whole receive path of a host, as far as connection tracking is concerned: link layer, IP header checks,
//! reassembly, tracking.

use fourtuple_packet::{
    FragmentError, Instant, IpError, Limits, LinkError, LinkType, Outcome, Packet, Reassembler,
    decapsulate,
};

use crate::reason::{Reason, VerdictKind};
use crate::settings::Settings;
use crate::track::{Conntrack, Context, Hint};
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

impl Frame<'_> {
    /// A frame of no bytes, to fill arrays with.
    pub const EMPTY: Self =
        Self { now: Instant::ZERO, link: LinkType::ETHERNET, data: &[], wire_len: 0 };
}

/// Frames whose memory is asked for at once: enough to cover a miss to main memory with the work of the others, and few
/// enough to stay in the first-level cache.
const BATCH: usize = 16;

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
        self.frame_hinted(&Frame { now, link, data, wire_len }, None)
    }

    #[inline]
    fn frame_hinted(&mut self, frame: &Frame<'_>, hint: Option<Hint>) -> Verdict {
        let Frame { now, link, data, wire_len } = *frame;
        let wire_len = self.wire_len(data, wire_len);
        let verdict = match decapsulate(link, data, wire_len) {
            Ok(inner) if inner.mpls_labels > 0 && !self.options.mpls => {
                skipped(Reason::Mpls, Detail::None)
            }
            Ok(inner) => return self.ip_hinted(now, inner.bytes, inner.wire_len, hint),
            Err(e) => skipped(link_reason(e), Detail::Link(e)),
        };
        self.conntrack.advance(now);
        self.counted(verdict)
    }

    /// Takes an IP packet of `wire_len` bytes (link-layer padding may be included), of which `data` was captured.
    pub fn ip(&mut self, now: Instant, data: &[u8], wire_len: u32) -> Verdict {
        self.ip_hinted(now, data, wire_len, None)
    }

    #[inline]
    fn ip_hinted(
        &mut self,
        now: Instant,
        data: &[u8],
        wire_len: u32,
        hint: Option<Hint>,
    ) -> Verdict {
        let verdict = match Packet::parse(data, wire_len) {
            Ok(packet) if packet.is_for_reassembly() => self.fragment(now, &packet),
            Ok(packet) => {
                let context = self.context(true);
                self.conntrack.track_hinted(now, &packet, &context, hint)
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
            let mut hints = [const { None }; BATCH];
            for (frame, hint) in batch.iter().zip(&mut hints) {
                *hint = self.hint(frame, &context);
            }
            for hint in hints.iter_mut().flatten() {
                self.conntrack.prefetch(hint);
            }
            for (frame, hint) in batch.iter().zip(&hints) {
                let verdict = self.frame_hinted(frame, *hint);
                sink(self, frame, verdict);
            }
        }
    }

    /// Where an ordinary packet's connection will be looked up.
    #[inline]
    fn hint(&mut self, frame: &Frame<'_>, context: &Context) -> Option<Hint> {
        let inner = decapsulate(frame.link, frame.data, frame.wire_len).ok()?;
        self.conntrack.hint(inner.bytes, context)
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
