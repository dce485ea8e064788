//! pcapng: sections of blocks.

use fourtuple_packet::LinkType;

use crate::input::Input;
use crate::reader::Located;
use crate::wire::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, IF_FCSLEN, IF_NAME, IF_TSOFFSET, IF_TSRESOL,
    INTERFACE_DESCRIPTION, OBSOLETE_PACKET, OPT_COMMENT, OPT_END, OPT_PACKET_FLAGS, SECTION_HEADER,
    SIMPLE_PACKET, pad4, record_limit,
};
use crate::{ByteOrder, CaptureError, Cause, Interface, Resolution};

/// Type, length, and the length again at the end.
const SMALLEST_BLOCK: u32 = 12;
/// Up to where a packet block has its packet, and the length at its end.
const PACKET_HEADER: usize = 28;
const SIMPLE_HEADER: usize = 12;
const TRAILER: usize = 4;
/// What may stand around the data of a packet, or in a header block: what libpcap grants a whole block.
const OPTIONS_LIMIT: u32 = 16 << 20;
/// Memory must not grow with the file. No capture has so many; each takes at most a few hundred bytes.
const INTERFACES_LIMIT: usize = 65_536;
const NAME_LIMIT: usize = 255;

/// The state of reading a pcapng file.
#[derive(Debug)]
pub(crate) struct Ng {
    pub(crate) order: ByteOrder,
    pub(crate) interfaces: Vec<Interface>,
}

impl Ng {
    /// Reads the first section header block, of which at least the type is there.
    pub(crate) fn open(input: &mut Input) -> Result<Self, CaptureError> {
        let mut ng = Self { order: ByteOrder::Little, interfaces: Vec::new() };
        ng.section(input)?;
        Ok(ng)
    }

    /// Finds record `number`, the next one, and takes it and the blocks before it.
    #[inline]
    pub(crate) fn next(
        &mut self,
        input: &mut Input,
        number: u64,
    ) -> Result<Option<Located>, CaptureError> {
        loop {
            if !input.ensure(8)? {
                return block_header_cut(input);
            }
            let block_type = self.order.u32(input.bytes(), 0);
            match block_type {
                ENHANCED_PACKET | OBSOLETE_PACKET => {
                    return self.packet(input, number, block_type).map(Some);
                }
                SIMPLE_PACKET => return self.simple_packet(input, number).map(Some),
                SECTION_HEADER => self.section(input)?,
                INTERFACE_DESCRIPTION => self.interface(input)?,
                _ => self.pass_over(input, block_type)?,
            }
        }
    }

    /// True iff the next block is a packet's, and the buffer holds all of it.
    #[inline]
    pub(crate) fn is_buffered(&self, input: &Input) -> bool {
        let b = input.bytes();
        if b.len() < 8 {
            return false;
        }
        let block_type = self.order.u32(b, 0);
        matches!(block_type, ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET)
            && self.order.u32(b, 4) as usize <= b.len()
    }

    /// The length of the block at the front, which has at least `least` bytes.
    #[inline]
    fn length(&self, input: &Input, block_type: u32, least: u32) -> Result<u32, CaptureError> {
        let length = self.order.u32(input.bytes(), 4);
        let why = if length < least {
            "less than a block of this type has"
        } else if !length.is_multiple_of(4) {
            "which is not a multiple of 4"
        } else {
            return Ok(length);
        };
        Err(input.error(input.offset(), Cause::BlockLength { block_type, length, why }))
    }

    /// Makes the whole block available and checks the length at its end.
    #[inline]
    fn whole(
        &self,
        input: &mut Input,
        block_type: u32,
        record: Option<u64>,
        length: u32,
    ) -> Result<(), CaptureError> {
        if !input.ensure(length as usize)? {
            let (says, have) = (length.into(), input.available() as u64);
            let cause = Cause::BlockCut { block_type, record, says, have };
            return Err(input.error(input.offset(), cause));
        }
        let second = self.order.u32(input.bytes(), length as usize - TRAILER);
        self.same_lengths(input, input.offset(), block_type, length, second)
    }

    #[inline]
    fn same_lengths(
        &self,
        input: &Input,
        offset: u64,
        block_type: u32,
        first: u32,
        second: u32,
    ) -> Result<(), CaptureError> {
        if first == second {
            return Ok(());
        }
        Err(input.error(offset, Cause::BlockLengthsDiffer { block_type, first, second }))
    }

    /// A header block whole in the buffer; such blocks are short.
    fn whole_header(
        &self,
        input: &mut Input,
        block_type: u32,
        least: u32,
    ) -> Result<u32, CaptureError> {
        let length = self.length(input, block_type, least)?;
        if length > OPTIONS_LIMIT {
            let why = "more than the 16 MiB that a header block may have";
            return Err(input.error(input.offset(), Cause::BlockLength { block_type, length, why }));
        }
        self.whole(input, block_type, None, length)?;
        Ok(length)
    }

    /// A section header block: from here on its byte order holds, and no interface is known.
    fn section(&mut self, input: &mut Input) -> Result<(), CaptureError> {
        const LEAST: u32 = 28;
        let what = "section header block";
        if !input.ensure(LEAST as usize)? {
            let (need, have) = (LEAST.into(), input.available() as u64);
            return Err(input.error(input.offset(), Cause::HeaderCut { what, need, have }));
        }
        let b = input.bytes();
        let found = ByteOrder::Big.u32(b, 8);
        self.order = match found {
            BYTE_ORDER_MAGIC => ByteOrder::Big,
            _ if found.swap_bytes() == BYTE_ORDER_MAGIC => ByteOrder::Little,
            _ => return Err(input.error(input.offset(), Cause::ByteOrderMagic { found })),
        };
        let (major, minor) = (self.order.u16(b, 12), self.order.u16(b, 14));
        // Version 1.2 was written by some and means 1.0; a new minor version is one that old readers can read.
        if major != 1 {
            let cause = Cause::Version { format: "pcapng", major, minor };
            return Err(input.error(input.offset(), cause));
        }
        let length = self.whole_header(input, SECTION_HEADER, LEAST)?;
        input.take(length as usize);
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, input: &mut Input) -> Result<(), CaptureError> {
        const BODY: usize = 16;
        let length = self.whole_header(input, INTERFACE_DESCRIPTION, 20)? as usize;
        if self.interfaces.len() == INTERFACES_LIMIT {
            let limit = INTERFACES_LIMIT;
            return Err(input.error(input.offset(), Cause::TooManyInterfaces { limit }));
        }
        let block = &input.bytes()[..length - TRAILER];
        let order = self.order;
        let (mut resolution, mut offset_secs) = (Resolution::MICROS, 0);
        let (mut name, mut fcs_len) = (None, None);
        for (code, value) in (Options { order, rest: &block[BODY..] }) {
            match (code, value) {
                (IF_TSRESOL, [byte, ..]) => resolution = Resolution::from_byte(*byte),
                (IF_TSOFFSET, _) => offset_secs = order.i64(value).unwrap_or(offset_secs),
                (IF_FCSLEN, [bits, ..]) => fcs_len = Some(bits.div_ceil(8)),
                (IF_NAME, _) => {
                    let kept = &value[..value.len().min(NAME_LIMIT)];
                    name = Some(String::from_utf8_lossy(kept).into_owned());
                }
                _ => {}
            }
        }
        let link_type = LinkType(order.u16(block, 8));
        let mut interface = Interface::new(link_type, order.u32(block, 12), resolution);
        interface.offset_secs = offset_secs;
        interface.name = name;
        interface.fcs_len = fcs_len;
        self.interfaces.push(interface);
        input.take(length);
        Ok(())
    }

    /// A block that is of no use here, however long it is.
    fn pass_over(&self, input: &mut Input, block_type: u32) -> Result<(), CaptureError> {
        let length = self.length(input, block_type, SMALLEST_BLOCK)?;
        let offset = input.offset();
        let body = u64::from(length) - TRAILER as u64;
        let skipped = input.skip(body)?;
        if skipped < body || !input.ensure(TRAILER)? {
            let have = skipped + input.available() as u64;
            let cause = Cause::BlockCut { block_type, record: None, says: length.into(), have };
            return Err(input.error(offset, cause));
        }
        let second = self.order.u32(input.bytes(), 0);
        self.same_lengths(input, offset, block_type, length, second)?;
        input.take(TRAILER);
        Ok(())
    }

    #[inline]
    fn known(&self, input: &Input, number: u64, id: u32) -> Result<&Interface, CaptureError> {
        self.interfaces.get(id as usize).ok_or_else(|| {
            let described = self.interfaces.len();
            let cause = Cause::UndefinedInterface { number, interface: id, described };
            input.error(input.offset(), cause)
        })
    }

    /// An enhanced packet block, or the obsolete packet block, which differs in the width of its interface number only.
    #[inline]
    fn packet(
        &self,
        input: &mut Input,
        number: u64,
        block_type: u32,
    ) -> Result<Located, CaptureError> {
        let length = self.length(input, block_type, (PACKET_HEADER + TRAILER) as u32)?;
        if !input.ensure(PACKET_HEADER)? {
            self.whole(input, block_type, Some(number), length)?;
        }
        let b = input.bytes();
        let order = self.order;
        let id = match block_type {
            ENHANCED_PACKET => order.u32(b, 8),
            _ => order.u16(b, 8).into(),
        };
        let units = u64::from(order.u32(b, 12)) << 32 | u64::from(order.u32(b, 16));
        let (captured, wire_len) = (order.u32(b, 20), order.u32(b, 24));
        let interface = self.known(input, number, id)?;
        let (link_type, time) = (interface.link_type, interface.time(units));
        let limit = record_limit(interface.snaplen, link_type.0);
        let room = length - (PACKET_HEADER + TRAILER) as u32;
        check_data(input, number, captured, limit, room)?;
        self.bounded(input, block_type, length, captured)?;
        self.whole(input, block_type, Some(number), length)?;
        let offset = input.offset();
        let block = input.take(length as usize);
        let (at, len) = (block + PACKET_HEADER, captured as usize);
        let options_at = at + pad4(len);
        Ok(Located {
            offset,
            time: Some(time),
            interface: id,
            link_type,
            wire_len,
            at,
            len,
            options_at,
            options_len: block + length as usize - TRAILER - options_at,
        })
    }

    /// A simple packet block: interface 0, no time, and the snap length says how much of the packet is there.
    fn simple_packet(&self, input: &mut Input, number: u64) -> Result<Located, CaptureError> {
        let least = (SIMPLE_HEADER + TRAILER) as u32;
        let length = self.length(input, SIMPLE_PACKET, least)?;
        if !input.ensure(SIMPLE_HEADER)? {
            self.whole(input, SIMPLE_PACKET, Some(number), length)?;
        }
        let wire_len = self.order.u32(input.bytes(), 8);
        let interface = self.known(input, number, 0)?;
        let captured = match interface.snaplen {
            0 => wire_len,
            snaplen => wire_len.min(snaplen),
        };
        let link_type = interface.link_type;
        let limit = record_limit(interface.snaplen, link_type.0);
        check_data(input, number, captured, limit, length - least)?;
        self.bounded(input, SIMPLE_PACKET, length, captured)?;
        self.whole(input, SIMPLE_PACKET, Some(number), length)?;
        let offset = input.offset();
        let at = input.take(length as usize) + SIMPLE_HEADER;
        let len = captured as usize;
        Ok(Located {
            offset,
            time: None,
            interface: 0,
            link_type,
            wire_len,
            at,
            len,
            options_at: at,
            options_len: 0,
        })
    }

    /// A packet block holds its packet and some options, not more.
    #[inline]
    fn bounded(
        &self,
        input: &Input,
        block_type: u32,
        length: u32,
        captured: u32,
    ) -> Result<(), CaptureError> {
        if length - captured <= OPTIONS_LIMIT {
            return Ok(());
        }
        let why = "over 16 MiB more than its packet";
        Err(input.error(input.offset(), Cause::BlockLength { block_type, length, why }))
    }
}

#[inline]
fn check_data(
    input: &Input,
    number: u64,
    captured: u32,
    limit: u32,
    room: u32,
) -> Result<(), CaptureError> {
    let says = captured.into();
    let cause = if captured > limit {
        Cause::RecordTooLong { number, says, limit: limit.into() }
    } else if captured > room {
        Cause::PacketExceedsBlock { number, says, room: room.into() }
    } else {
        return Ok(());
    };
    Err(input.error(input.offset(), cause))
}

/// The stream ended where a block begins, or within its first eight bytes.
#[cold]
fn block_header_cut(input: &Input) -> Result<Option<Located>, CaptureError> {
    match input.available() as u64 {
        0 => Ok(None),
        have => {
            let what = "header of a block";
            Err(input.error(input.offset(), Cause::HeaderCut { what, need: 8, have }))
        }
    }
}

/// The options of a block, up to their end or to the first that does not fit: a packet is not lost for a bad option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) order: ByteOrder,
    pub(crate) rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.len() < 4 {
            return None;
        }
        let code = self.order.u16(self.rest, 0);
        let len = usize::from(self.order.u16(self.rest, 2));
        let value = self.rest.get(4..4 + len)?;
        if code == OPT_END {
            return None;
        }
        self.rest = self.rest.get(4 + pad4(len)..).unwrap_or_default();
        Some((code, value))
    }
}

/// The comments of a packet, in the file's order.
#[derive(Clone, Debug)]
pub struct Comments<'a>(pub(crate) Options<'a>);

impl<'a> Iterator for Comments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.find_map(|(code, value)| match code {
            OPT_COMMENT => core::str::from_utf8(value).ok(),
            _ => None,
        })
    }
}

/// The packet's `epb_flags`, if it has them.
pub(crate) fn packet_flags(options: Options<'_>) -> Option<u32> {
    let order = options.order;
    let mut all = options;
    all.find_map(|(code, value)| (code == OPT_PACKET_FLAGS && value.len() == 4).then_some(value))
        .map(|value| order.u32(value, 0))
}

/// Which way a packet went, as seen from the host that captured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}
