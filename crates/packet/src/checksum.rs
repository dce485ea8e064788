//! The Internet checksum (RFC 1071).

/// One's complement sum of `bytes` as big-endian 16-bit words, folded; an odd last byte is padded with zero.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let mut acc = 0u64;
    for chunk in bytes.chunks(2) {
        acc += u64::from(u16::from_be_bytes([chunk[0], *chunk.get(1).unwrap_or(&0)]));
    }
    while acc > 0xffff {
        acc = (acc & 0xffff) + (acc >> 16);
    }
    acc as u16
}

/// The checksum that would make right a range whose folded sum, the field `found` included, is `sum`.
pub(crate) fn expected(sum: u16, found: u16) -> u16 {
    let mut rest = u32::from(sum) + u32::from(!found);
    rest = (rest & 0xffff) + (rest >> 16);
    !(rest as u16)
}
