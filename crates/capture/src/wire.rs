//! Fixed-width numbers in either byte order, and the numbers of the two formats.

use crate::ByteOrder;

/// The type of a section header block; reads the same in both byte orders.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
pub(crate) const OBSOLETE_PACKET: u32 = 2;
pub(crate) const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// `opt_endofopt`, `opt_comment`: the same in every block.
pub(crate) const OPT_END: u16 = 0;
pub(crate) const OPT_COMMENT: u16 = 1;
/// `epb_flags`, and `pack_flags` of the obsolete packet block.
pub(crate) const OPT_PACKET_FLAGS: u16 = 2;
pub(crate) const SHB_HARDWARE: u16 = 2;
pub(crate) const SHB_OS: u16 = 3;
pub(crate) const SHB_USERAPPL: u16 = 4;
pub(crate) const IF_NAME: u16 = 2;
pub(crate) const IF_TSRESOL: u16 = 9;
pub(crate) const IF_FCSLEN: u16 = 13;
pub(crate) const IF_TSOFFSET: u16 = 14;

/// The shortest bound on a record's length; see the crate's documentation.
const STANDARD_RECORD_LIMIT: u32 = 262_144;
/// The longest bound on a record's length.
const LARGEST_RECORD_LIMIT: u32 = 128 << 20;
/// LINKTYPE_DBUS and LINKTYPE_USBPCAP.
const LONG_RECORD_LINK_TYPES: [u16; 2] = [231, 249];

/// How many bytes of data a record may have: `snaplen` 0 stands for "no limit known".
pub(crate) fn record_limit(snaplen: u32, link_type: u16) -> u32 {
    if LONG_RECORD_LINK_TYPES.contains(&link_type) {
        return LARGEST_RECORD_LIMIT;
    }
    snaplen.clamp(STANDARD_RECORD_LIMIT, LARGEST_RECORD_LIMIT)
}

/// Rounds up to a multiple of four, the alignment of everything in pcapng.
pub(crate) const fn pad4(n: usize) -> usize {
    n.next_multiple_of(4)
}

impl ByteOrder {
    /// The 16-bit number at `at`; the caller has checked that it is there.
    #[inline]
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let b = [bytes[at], bytes[at + 1]];
        match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        }
    }

    /// The 32-bit number at `at`; the caller has checked that it is there.
    #[inline]
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let b: &[u8] = &bytes[at..at + 4];
        let little = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        match self {
            Self::Little => little,
            Self::Big => little.swap_bytes(),
        }
    }

    /// The signed 64-bit number in the first eight of `bytes`, if there are so many.
    pub(crate) fn i64(self, bytes: &[u8]) -> Option<i64> {
        let b = *bytes.first_chunk::<8>()?;
        Some(match self {
            Self::Little => i64::from_le_bytes(b),
            Self::Big => i64::from_be_bytes(b),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_follows_the_snap_length_between_two_ends() {
        assert_eq!(record_limit(0, 1), 262_144);
        assert_eq!(record_limit(96, 1), 262_144);
        assert_eq!(record_limit(1 << 20, 1), 1 << 20);
        assert_eq!(record_limit(u32::MAX, 1), 128 << 20);
        assert_eq!(record_limit(96, 231), 128 << 20);
        assert_eq!(record_limit(96, 249), 128 << 20);
    }

    #[test]
    fn numbers_in_both_orders() {
        let b = [0xff, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(ByteOrder::Little.u16(&b, 1), 0x0201);
        assert_eq!(ByteOrder::Big.u16(&b, 1), 0x0102);
        assert_eq!(ByteOrder::Little.u32(&b, 1), 0x0403_0201);
        assert_eq!(ByteOrder::Big.u32(&b, 1), 0x0102_0304);
        assert_eq!(ByteOrder::Big.i64(&b[1..]), Some(0x0102_0304_0506_0708));
        assert_eq!(ByteOrder::Little.i64(&b[1..]), Some(0x0807_0605_0403_0201));
        assert_eq!(ByteOrder::Little.i64(&b[2..]), None);
    }
}
