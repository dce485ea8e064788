//! The classic format: a file header and records.

use fourtuple_packet::{Instant, LinkType};

use crate::input::Input;
use crate::reader::Located;
use crate::wire::record_limit;
use crate::{ByteOrder, CaptureError, Cause, Interface, PcapVariant, Resolution};

const FILE_HEADER: usize = 24;
/// What IXIA's formats add to the file header: the size of all records, which nothing needs.
const IXIA_EXTRA: usize = 4;
const RECORD_HEADER: usize = 16;
/// The modified format adds an interface index, a protocol, a packet type and a byte of padding.
const MODIFIED_RECORD_HEADER: usize = 24;

/// The pcap variant whose magic is `magic` read as big-endian, with its byte order and resolution.
pub(crate) fn recognise(magic: u32) -> Option<(PcapVariant, ByteOrder, Resolution)> {
    let of = |magic| {
        Some(match magic {
            0xa1b2_c3d4 => (PcapVariant::Standard, Resolution::MICROS),
            0xa1b2_3c4d => (PcapVariant::Standard, Resolution::NANOS),
            0xa1b2_cd34 => (PcapVariant::Modified, Resolution::MICROS),
            0x1c00_01ab | 0x1c00_01ac => (PcapVariant::Ixia, Resolution::MICROS),
            _ => return None,
        })
    };
    let big = of(magic).map(|(v, r)| (v, ByteOrder::Big, r));
    big.or_else(|| of(magic.swap_bytes()).map(|(v, r)| (v, ByteOrder::Little, r)))
}

/// Which of the two lengths of a record comes first; it changed with the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    /// Captured, then original: version 2.4.
    CapturedFirst,
    /// Original, then captured: up to 2.2, and 543.0.
    OriginalFirst,
    /// Either, so the smaller is the captured one: 2.3.
    SmallerCaptured,
}

impl Lengths {
    fn of_version(major: u16, minor: u16) -> Option<Self> {
        match (major, minor) {
            (2, 4) => Some(Self::CapturedFirst),
            (2, 3) => Some(Self::SmallerCaptured),
            (2, 0..=2) | (543, 0) => Some(Self::OriginalFirst),
            _ => None,
        }
    }
}

/// The state of reading a pcap file.
#[derive(Debug)]
pub(crate) struct Pcap {
    pub(crate) variant: PcapVariant,
    pub(crate) order: ByteOrder,
    pub(crate) interface: Interface,
    header: usize,
    limit: u32,
    lengths: Lengths,
    nanos_per_unit: u32,
}

impl Pcap {
    /// Reads the file header, of which at least the magic is there and known.
    pub(crate) fn open(
        input: &mut Input,
        (variant, order, resolution): (PcapVariant, ByteOrder, Resolution),
    ) -> Result<Self, CaptureError> {
        let need = FILE_HEADER + if variant == PcapVariant::Ixia { IXIA_EXTRA } else { 0 };
        if !input.ensure(need)? {
            let (need, have) = (need as u64, input.available() as u64);
            return Err(input.error(0, Cause::HeaderCut { what: "pcap file header", need, have }));
        }
        let b = input.bytes();
        let (major, minor) = (order.u16(b, 4), order.u16(b, 6));
        let Some(lengths) = Lengths::of_version(major, minor) else {
            return Err(input.error(0, Cause::Version { format: "pcap", major, minor }));
        };
        let (snaplen, network) = (order.u32(b, 16), order.u32(b, 20));
        input.take(need);
        // Bits 0 to 15 are the type, bit 26 says that bits 28 to 31 count the FCS in 16-bit words.
        let link_type = LinkType((network & 0xffff) as u16);
        let mut interface = Interface::new(link_type, snaplen, resolution);
        interface.fcs_len = (network & (1 << 26) != 0).then_some(2 * (network >> 28) as u8);
        Ok(Self {
            variant,
            order,
            interface,
            header: match variant {
                PcapVariant::Modified => MODIFIED_RECORD_HEADER,
                _ => RECORD_HEADER,
            },
            limit: record_limit(snaplen, link_type.0),
            lengths,
            nanos_per_unit: if resolution == Resolution::NANOS { 1 } else { 1000 },
        })
    }

    /// Finds record `number`, the next one, and takes it.
    #[inline]
    pub(crate) fn next(
        &self,
        input: &mut Input,
        number: u64,
    ) -> Result<Option<Located>, CaptureError> {
        if !input.ensure(self.header)? {
            return self.ended(input, number);
        }
        let b = input.bytes();
        let order = self.order;
        let (seconds, fraction) = (order.u32(b, 0), order.u32(b, 4));
        let (captured, original) = self.sort(order.u32(b, 8), order.u32(b, 12));
        if captured > self.limit {
            return Err(self.too_long(input, number, captured));
        }
        let len = captured as usize;
        if !input.ensure(self.header + len)? {
            return Err(self.cut(input, number, captured));
        }
        let offset = input.offset();
        let at = input.take(self.header + len) + self.header;
        let nanos = self.nanos(seconds, fraction);
        Ok(Some(self.located(offset, nanos, original, at, len)))
    }

    /// Takes records that the buffer holds whole, `most` at most, and says how many they were.
    pub(crate) fn take_buffered(&self, input: &mut Input, most: usize) -> usize {
        let mut rest = input.bytes();
        let whole = rest.len();
        let mut count = 0;
        while count < most {
            let Some((header, data)) = rest.split_at_checked(self.header) else { break };
            let Some(b) = header.first_chunk::<RECORD_HEADER>() else { break };
            let (captured, _) = self.sort(self.order.u32(b, 8), self.order.u32(b, 12));
            let Some(behind) = data.get(captured as usize..) else { break };
            if captured > self.limit {
                break;
            }
            rest = behind;
            count += 1;
        }
        let taken = whole - rest.len();
        input.take(taken);
        count
    }

    /// The record at `start` in the buffer, which holds it whole.
    #[inline]
    pub(crate) fn at(&self, input: &Input, start: usize) -> Located {
        let b: &[u8] = input.at(start, RECORD_HEADER);
        let order = self.order;
        let (captured, original) = self.sort(order.u32(b, 8), order.u32(b, 12));
        let nanos = self.nanos(order.u32(b, 0), order.u32(b, 4));
        let offset = input.offset_of(start);
        self.located(offset, nanos, original, start + self.header, captured as usize)
    }

    /// Where the record begins whose data is at `at` in the buffer.
    pub(crate) fn start_of(&self, data_at: usize) -> usize {
        data_at - self.header
    }

    /// Below 2^32 * (10^9 + 1000), which 64 bits hold.
    #[inline]
    fn nanos(&self, seconds: u32, fraction: u32) -> u64 {
        u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * u64::from(self.nanos_per_unit)
    }

    #[inline]
    fn located(&self, offset: u64, nanos: u64, wire_len: u32, at: usize, len: usize) -> Located {
        Located {
            offset,
            time: Some(Instant::from_nanos(nanos)),
            interface: 0,
            link_type: self.interface.link_type,
            wire_len,
            at,
            len,
            options_at: at,
            options_len: 0,
        }
    }

    #[inline]
    fn sort(&self, first: u32, second: u32) -> (u32, u32) {
        match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::OriginalFirst => (second, first),
            Lengths::SmallerCaptured => (first.min(second), first.max(second)),
        }
    }

    #[cold]
    fn ended(&self, input: &Input, number: u64) -> Result<Option<Located>, CaptureError> {
        match input.available() as u64 {
            0 => Ok(None),
            have => {
                let need = self.header as u64;
                Err(input.error(input.offset(), Cause::RecordHeaderCut { number, need, have }))
            }
        }
    }

    #[cold]
    fn too_long(&self, input: &Input, number: u64, captured: u32) -> CaptureError {
        let (says, limit) = (captured.into(), self.limit.into());
        input.error(input.offset(), Cause::RecordTooLong { number, says, limit })
    }

    #[cold]
    fn cut(&self, input: &Input, number: u64, captured: u32) -> CaptureError {
        let have = (input.available() - self.header) as u64;
        input.error(input.offset(), Cause::RecordCut { number, says: captured.into(), have })
    }
}
