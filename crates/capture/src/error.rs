//! What can be wrong with a capture, in words a person can act on.

use core::fmt;
use std::io;

use crate::Compression;

/// A capture that cannot be read, or not further.
///
/// The text has the file's name, the offset and the cause with its numbers, for example
/// `a.pcap: at byte 2345: record 17 says 70000 bytes of data, but the file ends after 12 of them`.
#[derive(Debug)]
pub struct CaptureError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    file: String,
    offset: u64,
    compression: Option<Compression>,
    cause: Cause,
}

impl CaptureError {
    pub(crate) fn new(
        file: &str,
        offset: u64,
        compression: Option<Compression>,
        cause: Cause,
    ) -> Self {
        Self(Box::new(Inner { file: file.to_owned(), offset, compression, cause }))
    }

    /// The name of the file, as it was given.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Where the fault is: the first byte of the record, block or header that is at fault; for [`Cause::Io`] and
    /// [`Cause::Damaged`], how many bytes could be read before. Counted in the decompressed stream if the file is
    /// compressed.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// How the file is compressed, if it is.
    pub fn compression(&self) -> Option<Compression> {
        self.0.compression
    }

    /// What is wrong.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { file, offset, compression, cause } = &*self.0;
        write!(f, "{file}: ")?;
        match (cause, compression) {
            (Cause::Open(_) | Cause::Empty | Cause::NotACapture { .. }, _) => {}
            (_, None) => write!(f, "at byte {offset}: ")?,
            (_, Some(how)) => write!(f, "at byte {offset} of the decompressed {how} stream: ")?,
        }
        write!(f, "{cause}")
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.cause {
            Cause::Open(e) | Cause::Io(e) | Cause::Damaged { source: e, .. } => Some(e),
            _ => None,
        }
    }
}

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The file could not be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// Reading failed below the capture.
    #[error("reading failed: {0}")]
    Io(io::Error),
    /// The compressed data is damaged or ends too early.
    #[error("the {how} data is damaged or cut: {source}")]
    Damaged {
        /// The compression.
        how: Compression,
        /// What the decompressor says.
        source: io::Error,
    },
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// The first bytes are those of no known format.
    #[error("not a capture: starts with {}{}", Bytes(start), Hint(hint))]
    NotACapture {
        /// The first bytes, up to eight.
        start: Vec<u8>,
        /// What it seems to be instead, or empty.
        hint: &'static str,
    },
    /// A pcapng file that does not begin with a section header block.
    #[error("a pcapng block of type {block_type} stands before the first section header block")]
    BlockBeforeSection {
        /// The type of the block.
        block_type: u32,
    },
    /// The file ends in its header.
    #[error("the {what} has {need} bytes, but the file ends after {have} of them")]
    HeaderCut {
        /// Which header.
        what: &'static str,
        /// Its length.
        need: u64,
        /// The bytes that are there.
        have: u64,
    },
    /// A version of the format that is not known.
    #[error("{format} version {major}.{minor} is not known")]
    Version {
        /// "pcap" or "pcapng".
        format: &'static str,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// The file ends in the header of a pcap record.
    #[error(
        "the header of record {number} has {need} bytes, but the file ends after {have} of them"
    )]
    RecordHeaderCut {
        /// The record, counted from 1.
        number: u64,
        /// Length of the header.
        need: u64,
        /// The bytes that are there.
        have: u64,
    },
    /// The file ends in the data of a record.
    #[error("record {number} says {says} bytes of data, but the file ends after {have} of them")]
    RecordCut {
        /// The record, counted from 1.
        number: u64,
        /// Its length by its header.
        says: u64,
        /// The bytes that are there.
        have: u64,
    },
    /// A record longer than any that is written.
    #[error(
        "record {number} says {says} bytes of data, more than the {limit} that a record of this file may have"
    )]
    RecordTooLong {
        /// The record, counted from 1.
        number: u64,
        /// Its length by its header.
        says: u64,
        /// The most that is accepted; see the crate's documentation.
        limit: u64,
    },
    /// The file ends in a pcapng block.
    #[error(
        "the block of type {block_type}{} says {says} bytes, but the file ends after {have} of them",
        OfRecord(record)
    )]
    BlockCut {
        /// The type of the block.
        block_type: u32,
        /// The record that the block is, counted from 1, if it is one.
        record: Option<u64>,
        /// Its length by its header.
        says: u64,
        /// The bytes that are there.
        have: u64,
    },
    /// A pcapng block whose length cannot be.
    #[error("the block of type {block_type} says {length} bytes, {why}")]
    BlockLength {
        /// The type of the block.
        block_type: u32,
        /// Its length by its header.
        length: u32,
        /// Why that cannot be.
        why: &'static str,
    },
    /// A pcapng block whose two lengths differ.
    #[error(
        "the block of type {block_type} says {first} bytes at its start and {second} at its end"
    )]
    BlockLengthsDiffer {
        /// The type of the block.
        block_type: u32,
        /// The length at the start.
        first: u32,
        /// The length at the end.
        second: u32,
    },
    /// A pcapng packet block that is too short for its packet.
    #[error("record {number} says {says} bytes of data, but its block has room for {room}")]
    PacketExceedsBlock {
        /// The record, counted from 1.
        number: u64,
        /// Its length by its header.
        says: u64,
        /// The bytes of the block that can be data.
        room: u64,
    },
    /// A section header block with neither form of the byte-order magic.
    #[error(
        "the section header block has {found:#010x} where its byte-order magic 0x1a2b3c4d belongs"
    )]
    ByteOrderMagic {
        /// The number found, read as big-endian.
        found: u32,
    },
    /// A packet of an interface that its section has not described.
    #[error(
        "record {number} is of interface {interface}, but the section has described {described}"
    )]
    UndefinedInterface {
        /// The record, counted from 1.
        number: u64,
        /// The interface it names, counted from 0.
        interface: u32,
        /// How many there are.
        described: usize,
    },
    /// More interfaces in one section than are kept.
    #[error("the section describes more than {limit} interfaces")]
    TooManyInterfaces {
        /// The most that are accepted.
        limit: usize,
    },
}

struct Bytes<'a>(&'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

struct Hint<'a>(&'a str);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({})", self.0) }
    }
}

struct OfRecord<'a>(&'a Option<u64>);

impl fmt::Display for OfRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, " (record {number})"),
            None => Ok(()),
        }
    }
}
