//! Writing the classic format.

use std::io::{self, Write};

use fourtuple_packet::{Instant, LinkType};

use crate::wire::record_limit;

/// The unit of a pcap file's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Microseconds, which every reader knows. Times are rounded down.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// Why a record cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Writing failed below.
    #[error("writing failed: {0}")]
    Io(#[from] io::Error),
    /// More data than the file's header allows; a reader would cut or refuse it.
    #[error("a packet of {len} bytes is longer than the {limit} that the file allows")]
    TooLong {
        /// Bytes of the packet.
        len: usize,
        /// The most that is allowed.
        limit: u32,
    },
    /// A time past what the format can hold (for pcap, in the year 2106).
    #[error("the time {seconds} s since 1970 does not fit into the 32 bits of the file format")]
    TimeOutOfRange {
        /// Whole seconds.
        seconds: u64,
    },
    /// A packet of an interface that has not been added.
    #[error("interface {interface} has not been added; there are {added}")]
    UndefinedInterface {
        /// The interface asked for.
        interface: u32,
        /// How many there are.
        added: usize,
    },
}

/// Writes a pcap file, version 2.4, in little-endian order.
///
/// Two small writes a record: give it a [`std::io::BufWriter`], and flush that (or call [`Self::into_inner`]) at the end.
#[derive(Debug)]
pub struct PcapWriter<W> {
    to: W,
    limit: u32,
    precision: Precision,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header. A `snaplen` of 0 stands for 262,144, the usual one.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn new(
        mut to: W,
        link_type: LinkType,
        snaplen: u32,
        precision: Precision,
    ) -> Result<Self, WriteError> {
        let snaplen = if snaplen == 0 { record_limit(0, link_type.0) } else { snaplen };
        let magic: u32 = match precision {
            Precision::Micros => 0xa1b2_c3d4,
            Precision::Nanos => 0xa1b2_3c4d,
        };
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&magic.to_le_bytes());
        header[4..6].copy_from_slice(&2_u16.to_le_bytes());
        header[6..8].copy_from_slice(&4_u16.to_le_bytes());
        header[16..20].copy_from_slice(&snaplen.to_le_bytes());
        header[20..24].copy_from_slice(&u32::from(link_type.0).to_le_bytes());
        to.write_all(&header)?;
        let limit = snaplen.min(record_limit(snaplen, link_type.0));
        Ok(Self { to, limit, precision })
    }

    /// Writes a record: `data` is what there is of a packet that had `wire_len` bytes.
    ///
    /// # Errors
    ///
    /// If `data` is longer than the snap length, the time is later than 32 bits of seconds, or writing fails. In the
    /// first two cases nothing has been written.
    pub fn write(&mut self, time: Instant, wire_len: u32, data: &[u8]) -> Result<(), WriteError> {
        let len = fitting(data, self.limit)?;
        let seconds = time.as_nanos() / 1_000_000_000;
        let Ok(whole) = u32::try_from(seconds) else {
            return Err(WriteError::TimeOutOfRange { seconds });
        };
        let nanos = (time.as_nanos() % 1_000_000_000) as u32;
        let fraction = match self.precision {
            Precision::Micros => nanos / 1000,
            Precision::Nanos => nanos,
        };
        let mut header = [0; 16];
        for (to, number) in header.chunks_exact_mut(4).zip([whole, fraction, len, wire_len]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        self.to.write_all(&header)?;
        Ok(self.to.write_all(data)?)
    }

    /// Flushes and gives back what was written to.
    ///
    /// # Errors
    ///
    /// If flushing fails.
    pub fn into_inner(mut self) -> Result<W, WriteError> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// The length of `data`, if it is within `limit`.
pub(crate) fn fitting(data: &[u8], limit: u32) -> Result<u32, WriteError> {
    match u32::try_from(data.len()) {
        Ok(len) if len <= limit => Ok(len),
        _ => Err(WriteError::TooLong { len: data.len(), limit }),
    }
}
