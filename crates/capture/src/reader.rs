//! One reader for all formats.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use fourtuple_packet::{Instant, LinkType};

use crate::input::Input;
use crate::ng::{Comments, Direction, Ng, Options, packet_flags};
use crate::pcap::{self, Pcap};
use crate::wire::{
    ENHANCED_PACKET, INTERFACE_DESCRIPTION, OBSOLETE_PACKET, SECTION_HEADER, SIMPLE_PACKET,
};
use crate::{ByteOrder, CaptureError, Cause, Format, FormatInfo, Interface};

/// Reads a capture record by record.
///
/// Memory: a buffer of 256 KiB, the longest record so far if that is more, and the interfaces of the current section;
/// with compression, the decompressor's window (for zstd at most 128 MiB, as the frame asks).
pub struct CaptureReader {
    input: Input,
    parser: Parser,
    records: u64,
    /// Where the records of the last batch are, in a format whose records do not stand side by side.
    located: Vec<Located>,
    /// The damage behind the last batch, to be reported next.
    pending: Option<CaptureError>,
    done: bool,
}

enum Parser {
    Pcap(Pcap),
    Ng(Ng),
}

/// A record in the buffer, before it borrows from it.
pub(crate) struct Located {
    pub(crate) offset: u64,
    pub(crate) time: Option<Instant>,
    pub(crate) interface: u32,
    pub(crate) link_type: LinkType,
    pub(crate) wire_len: u32,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) options_at: usize,
    pub(crate) options_len: usize,
}

/// Records that the buffer holds all at once.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    reader: &'a CaptureReader,
    /// Number of the first one.
    first: u64,
    /// How many there are.
    count: usize,
    /// Where the first one begins in the buffer.
    start: usize,
}

impl<'a> Batch<'a> {
    /// How many there are: at least one.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The records in order.
    pub fn records(&self) -> Records<'a> {
        Records { batch: *self, next: 0, at: self.start }
    }
}

/// Iterator over the records of a [`Batch`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    batch: Batch<'a>,
    next: usize,
    /// Where the next one begins, if they stand side by side.
    at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let Batch { reader, first, count, .. } = self.batch;
        if self.next == count {
            return None;
        }
        let number = first + self.next as u64;
        let record = match &reader.parser {
            Parser::Pcap(pcap) => {
                let located = pcap.at(&reader.input, self.at);
                self.at = located.at + located.len;
                reader.record(&located, number)
            }
            Parser::Ng(_) => reader.record(reader.located.get(self.next)?, number),
        };
        self.next += 1;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batch.count - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Records<'_> {}

/// A captured packet. It borrows from the reader's buffer and is gone with the next call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The record's number in the file, from 1.
    pub number: u64,
    /// Where the record (in pcapng its block) begins, in bytes of the decompressed stream.
    pub offset: u64,
    /// Since the Unix epoch; `None` for simple packet blocks, which have no time.
    pub time: Option<Instant>,
    /// The link-layer header that `data` begins with.
    pub link_type: LinkType,
    /// The number of the interface in its section, from 0; 0 in pcap files.
    pub interface: u32,
    /// The length that the packet had on the wire, by the file. Usually at least `data.len()`, but nothing makes it so.
    pub wire_len: u32,
    /// What was captured of the packet.
    pub data: &'a [u8],
    /// The first comment, if there is one that is UTF-8; see [`Self::comments`].
    pub comment: Option<&'a str>,
    /// The `epb_flags` word, if the packet has one.
    pub flags: Option<u32>,
    options: Options<'a>,
}

impl<'a> Record<'a> {
    /// All comments that are UTF-8.
    pub fn comments(&self) -> Comments<'a> {
        Comments(self.options)
    }

    /// The direction, if the flags have one (bits 0 and 1).
    pub fn direction(&self) -> Option<Direction> {
        match self.flags? & 3 {
            1 => Some(Direction::Inbound),
            2 => Some(Direction::Outbound),
            _ => None,
        }
    }
}

impl CaptureReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// If it cannot be opened or read, is empty, or is not a capture of a known format and version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(name, file),
            Err(e) => Err(CaptureError::new(&name, 0, None, Cause::Open(e))),
        }
    }

    /// Reads a capture from standard input.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn stdin() -> Result<Self, CaptureError> {
        Self::from_reader("standard input", io::stdin())
    }

    /// Reads a capture from any source of bytes; `name` stands for it in messages. The reader has its own buffer, so
    /// that `source` needs none.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn from_reader(
        name: impl Into<String>,
        source: impl Read + Send + 'static,
    ) -> Result<Self, CaptureError> {
        let mut input = Input::new(name.into(), Box::new(source))?;
        let whole = input.ensure(4)?;
        if input.available() == 0 {
            return Err(input.error(0, Cause::Empty));
        }
        let magic = if whole { ByteOrder::Big.u32(input.bytes(), 0) } else { 0 };
        let parser = if let Some(kind) = pcap::recognise(magic) {
            Parser::Pcap(Pcap::open(&mut input, kind)?)
        } else if magic == SECTION_HEADER {
            Parser::Ng(Ng::open(&mut input)?)
        } else {
            return Err(not_a_capture(&mut input));
        };
        Ok(Self { input, parser, records: 0, located: Vec::new(), pending: None, done: false })
    }

    /// The next record, an error, or `None` at the end. After an error there is nothing more.
    ///
    /// # Errors
    ///
    /// The first damage in the file; what was before it has been delivered.
    // A record borrows from the reader, which `Iterator` cannot say.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Option<Result<Record<'_>, CaptureError>> {
        if self.done {
            return self.pending.take().map(Err);
        }
        match self.locate() {
            Ok(Some(located)) => Some(Ok(self.record(&located, self.records))),
            Ok(None) => None,
            Err(e) => Some(Err(e)),
        }
    }

    /// The next record and those behind it that the buffer holds already, `most` at the most and one at the least, for
    /// callers that work on several at once. Ends as [`next`](Self::next) does, and may be mixed with it.
    ///
    /// # Errors
    ///
    /// The first damage in the file; what was before it has been delivered.
    pub fn next_batch(&mut self, most: usize) -> Option<Result<Batch<'_>, CaptureError>> {
        if self.done {
            return self.pending.take().map(Err);
        }
        let first = self.records + 1;
        let located = match self.locate() {
            Ok(Some(located)) => located,
            Ok(None) => return None,
            Err(e) => return Some(Err(e)),
        };
        if let Parser::Pcap(pcap) = &self.parser {
            let start = pcap.start_of(located.at);
            let count = 1 + pcap.take_buffered(&mut self.input, most.saturating_sub(1));
            self.records = first + count as u64 - 1;
            return Some(Ok(Batch { reader: self, first, count, start }));
        }
        self.located.clear();
        self.located.push(located);
        // Only records that are there whole: to read on would move the ones before.
        while self.located.len() < most && self.is_buffered() {
            match self.locate() {
                Ok(located) => self.located.extend(located),
                Err(e) => {
                    self.pending = Some(e);
                    break;
                }
            }
        }
        let count = self.located.len();
        Some(Ok(Batch { reader: self, first, count, start: 0 }))
    }

    /// True iff the next thing in the file is a record, and the buffer holds all of it.
    fn is_buffered(&self) -> bool {
        match &self.parser {
            Parser::Pcap(_) => false,
            Parser::Ng(ng) => ng.is_buffered(&self.input),
        }
    }

    /// Finds the next record.
    #[inline]
    fn locate(&mut self) -> Result<Option<Located>, CaptureError> {
        let number = self.records + 1;
        let located = match &mut self.parser {
            Parser::Pcap(pcap) => pcap.next(&mut self.input, number),
            Parser::Ng(ng) => ng.next(&mut self.input, number),
        };
        match located {
            Ok(Some(_)) => self.records = number,
            Ok(None) | Err(_) => self.done = true,
        }
        located
    }

    fn order(&self) -> ByteOrder {
        match &self.parser {
            Parser::Pcap(pcap) => pcap.order,
            Parser::Ng(ng) => ng.order,
        }
    }

    #[inline]
    fn record(&self, located: &Located, number: u64) -> Record<'_> {
        let order = self.order();
        let rest = self.input.at(located.options_at, located.options_len);
        let options = Options { order, rest };
        let (comment, flags) = if rest.is_empty() {
            (None, None)
        } else {
            (Comments(options).next(), packet_flags(options))
        };
        Record {
            number,
            offset: located.offset,
            time: located.time,
            link_type: located.link_type,
            interface: located.interface,
            wire_len: located.wire_len,
            data: self.input.at(located.at, located.len),
            comment,
            flags,
            options,
        }
    }

    /// Format, byte order, resolution and compression.
    pub fn format(&self) -> FormatInfo {
        let compression = self.input.compression();
        match &self.parser {
            Parser::Pcap(pcap) => FormatInfo {
                format: Format::Pcap(pcap.variant),
                byte_order: pcap.order,
                resolution: Some(pcap.interface.resolution),
                compression,
            },
            Parser::Ng(ng) => FormatInfo {
                format: Format::Pcapng,
                byte_order: ng.order,
                resolution: None,
                compression,
            },
        }
    }

    /// How many bytes of the capture have been taken: where the next record or block begins. In a compressed file this
    /// counts the decompressed stream.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// How many records have been delivered.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The interfaces that [`Record::interface`] counts: those described so far in the current section of a pcapng file,
    /// or the single one of a pcap file.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.parser {
            Parser::Pcap(pcap) => core::slice::from_ref(&pcap.interface),
            Parser::Ng(ng) => &ng.interfaces,
        }
    }
}

impl core::fmt::Debug for CaptureReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CaptureReader")
            .field("format", &self.format())
            .field("offset", &self.offset())
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

fn not_a_capture(input: &mut Input) -> CaptureError {
    if let Err(e) = input.ensure(8) {
        return e;
    }
    let start = input.bytes()[..input.available().min(8)].to_vec();
    if let Some(block_type) = looks_like_block(&start) {
        return input.error(0, Cause::BlockBeforeSection { block_type });
    }
    let hint = hint(&start);
    input.error(0, Cause::NotACapture { start, hint })
}

/// The type, if these eight bytes can be the start of a common pcapng block in either byte order.
fn looks_like_block(start: &[u8]) -> Option<u32> {
    const NAME_RESOLUTION: u32 = 4;
    const INTERFACE_STATISTICS: u32 = 5;
    if start.len() < 8 {
        return None;
    }
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
        let (block_type, length) = (order.u32(start, 0), order.u32(start, 4));
        let known = matches!(
            block_type,
            INTERFACE_DESCRIPTION
                | OBSOLETE_PACKET
                | SIMPLE_PACKET
                | NAME_RESOLUTION
                | INTERFACE_STATISTICS
                | ENHANCED_PACKET
        );
        (known && length.is_multiple_of(4) && (12..1 << 24).contains(&length)).then_some(block_type)
    })
}

/// What a file that is no capture seems to be.
fn hint(start: &[u8]) -> &'static str {
    match start {
        [0x1f, 0x8b, ..] => "gzip within a compressed file",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd within a compressed file",
        [0x04, 0x22, 0x4d, 0x18, ..] => "lz4; decompress it first",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "xz; decompress it first",
        [b'B', b'Z', b'h', ..] => "bzip2; decompress it first",
        [b'P', b'K', 3, 4, ..] => "a zip archive; unpack it first",
        [b's', b'n', b'o', b'o', b'p', ..] => "a snoop capture; convert it with editcap",
        [b'G', b'M', b'B', b'U', ..] => "a Network Monitor capture; convert it with editcap",
        _ if start.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => "text",
        _ => "",
    }
}
