//! Packets made by hand for unit tests.

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2.
pub(crate) fn ipv4(proto: u8, l4: &[u8]) -> Vec<u8> {
    let len = (20 + l4.len()) as u16;
    let mut p = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    p[2..4].copy_from_slice(&len.to_be_bytes());
    finish_ipv4(&mut p);
    p.extend(l4);
    p
}

/// Puts the header checksum of an IPv4 packet right.
pub(crate) fn finish_ipv4(p: &mut [u8]) {
    p[10..12].fill(0);
    let header = usize::from(p[0] & 15) * 4;
    let sum = !crate::checksum::sum(&p[..header]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// An IPv6 packet from fd00::1 to fd00::2.
pub(crate) fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut p = vec![0; 40];
    p[0] = 0x60;
    p[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
    (p[6], p[7]) = (next, 64);
    (p[8], p[23]) = (0xfd, 1);
    (p[24], p[39]) = (0xfd, 2);
    p.extend(rest);
    p
}
