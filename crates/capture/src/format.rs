//! What a capture says of itself: format, byte order, resolution, interfaces.

use core::fmt;

use fourtuple_packet::{Instant, LinkType};

/// The order of the bytes of a number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// A capture file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The classic format, one file header and records.
    Pcap(PcapVariant),
    /// The block format.
    Pcapng,
}

/// The members of the pcap family that can be told apart by their magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PcapVariant {
    /// As libpcap writes it.
    Standard,
    /// The "modified" format of old Linux systems: record headers of 24 bytes.
    Modified,
    /// IXIA's lcap: four more bytes in the file header.
    Ixia,
}

/// The unit of time stamps, as pcapng's `if_tsresol` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// 10 to the minus this many seconds.
    Decimal(u8),
    /// 2 to the minus this many seconds.
    Binary(u8),
}

impl Resolution {
    /// Microseconds.
    pub const MICROS: Self = Self::Decimal(6);
    /// Nanoseconds.
    pub const NANOS: Self = Self::Decimal(9);

    /// From the byte of an `if_tsresol` option.
    pub const fn from_byte(byte: u8) -> Self {
        match byte & 0x80 {
            0 => Self::Decimal(byte),
            _ => Self::Binary(byte & 0x7f),
        }
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal(n) => write!(f, "10^-{n} s"),
            Self::Binary(n) => write!(f, "2^-{n} s"),
        }
    }
}

/// What is known of a capture as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatInfo {
    /// The file format.
    pub format: Format,
    /// The byte order; in pcapng that of the section that is being read.
    pub byte_order: ByteOrder,
    /// The unit of time stamps; `None` in pcapng, where each [`Interface`] has its own.
    pub resolution: Option<Resolution>,
    /// How the file is compressed, if it is.
    pub compression: Option<Compression>,
}

/// An interface of a pcapng section, or the one that stands for a whole pcap file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// The link-layer header of its packets.
    pub link_type: LinkType,
    /// The most bytes that were to be captured of a packet, 0 for no limit.
    pub snaplen: u32,
    /// The unit of its time stamps.
    pub resolution: Resolution,
    /// Seconds that are added to its time stamps (`if_tsoffset`).
    pub offset_secs: i64,
    /// Its name, if the file has one; at most 255 bytes are kept.
    pub name: Option<String>,
    /// Bytes of frame check sequence at the end of each packet, where the file says so.
    pub fcs_len: Option<u8>,
    scale: Scale,
}

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// From units to nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Multiply(u64),
    /// By a power of ten that 64 bits hold; what is finer than that is less than a nanosecond whatever the time stamp.
    Divide(u64),
    /// Nanoseconds are `units * 10^9 >> n`.
    Shift(u32),
}

impl Scale {
    fn new(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Decimal(n @ 0..=9) => Self::Multiply(10_u64.pow(u32::from(9 - n))),
            Resolution::Decimal(n) => {
                let power = 10_u64.checked_pow(u32::from(n - 9));
                power.map_or(Self::Shift(127), Self::Divide)
            }
            Resolution::Binary(n) => Self::Shift(u32::from(n)),
        }
    }
}

impl Interface {
    pub(crate) fn new(link_type: LinkType, snaplen: u32, resolution: Resolution) -> Self {
        Self {
            link_type,
            snaplen,
            resolution,
            offset_secs: 0,
            name: None,
            fcs_len: None,
            scale: Scale::new(resolution),
        }
    }

    /// The time of a stamp of `units`, to the nanosecond, rounded down. Times before 1970 are 1970, times past the
    /// year 2554 are the last that an [`Instant`] has.
    #[inline]
    pub(crate) fn time(&self, units: u64) -> Instant {
        match self.scale {
            Scale::Multiply(m) if self.offset_secs == 0 => {
                Instant::from_nanos(units.saturating_mul(m))
            }
            _ => self.time_general(units),
        }
    }

    fn time_general(&self, units: u64) -> Instant {
        let nanos = match self.scale {
            Scale::Multiply(m) => i128::from(units) * i128::from(m),
            Scale::Divide(d) => i128::from(units / d),
            Scale::Shift(n) => (i128::from(units) * NANOS_PER_SEC) >> n,
        } + i128::from(self.offset_secs) * NANOS_PER_SEC;
        Instant::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(byte: u8, offset_secs: i64, units: u64) -> u64 {
        let mut interface = Interface::new(LinkType::RAW, 0, Resolution::from_byte(byte));
        interface.offset_secs = offset_secs;
        interface.time(units).as_nanos()
    }

    #[test]
    fn powers_of_ten() {
        assert_eq!(time(0, 0, 7), 7_000_000_000);
        assert_eq!(time(3, 0, 7), 7_000_000);
        assert_eq!(time(6, 0, 1_700_000_000_123_456), 1_700_000_000_123_456_000);
        assert_eq!(time(9, 0, 1_700_000_000_123_456_789), 1_700_000_000_123_456_789);
        assert_eq!(time(12, 0, 1_999), 1);
        assert_eq!(time(28, 0, u64::MAX), 1);
        assert_eq!(time(29, 0, u64::MAX), 0);
        assert_eq!(time(127, 0, u64::MAX), 0);
    }

    #[test]
    fn powers_of_two() {
        assert_eq!(time(0x80, 0, 3), 3_000_000_000);
        assert_eq!(time(0x80 | 1, 0, 3), 1_500_000_000);
        // 2^-32: the upper half is seconds, the lower a fraction.
        assert_eq!(time(0x80 | 32, 0, (5 << 32) | (1 << 31)), 5_500_000_000);
        assert_eq!(time(0xff, 0, u64::MAX), 0);
    }

    #[test]
    fn offsets_and_the_ends_of_time() {
        assert_eq!(time(6, 10, 1), 10_000_001_000);
        assert_eq!(time(6, -1, 1_500_000), 500_000_000);
        assert_eq!(time(6, -2, 1_500_000), 0);
        assert_eq!(time(6, i64::MIN, u64::MAX), 0);
        assert_eq!(time(6, i64::MAX, u64::MAX), u64::MAX);
        assert_eq!(time(0, 0, u64::MAX), u64::MAX);
    }

    #[test]
    fn the_resolution_byte() {
        assert_eq!(Resolution::from_byte(6), Resolution::MICROS);
        assert_eq!(Resolution::from_byte(0x8a), Resolution::Binary(10));
        assert_eq!(Resolution::from_byte(0x8a).to_string(), "2^-10 s");
    }
}
