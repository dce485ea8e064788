//! Checksums: the Internet checksum (RFC 1071), the pseudo-headers in front of it, and SCTP's CRC32c.

mod crc32c;

use crate::ip::{Family, Packet, protocol};
use crate::l4::{L4, L4Error};

/// What a packet's transport checksum says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Right.
    Ok,
    /// UDP without one: the field is zero. Connection tracking accepts that over IPv6 too, where RFC 8200 allows it
    /// for tunnels only.
    Absent,
    /// Wrong.
    Bad {
        /// Checksum field.
        found: u16,
        /// What would be right.
        expected: u16,
    },
    /// SCTP: wrong. Both values as big-endian readings of the field.
    BadCrc {
        /// Checksum field.
        found: u32,
        /// What would be right.
        expected: u32,
    },
    /// Cannot be told.
    NotCheckable(Unverifiable),
    /// The protocol has none, or connection tracking does not look at it (DCCP, IGMP, GRE's optional one, ICMP over
    /// IPv6 and ICMPv6 over IPv4).
    NotCovered,
}

/// Why a checksum cannot be told right or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unverifiable {
    /// The capture cut the packet.
    Cut,
    /// The packet was captured before the sender's card cut it into segments and filled in their checksums.
    Offloaded,
    /// A fragment: the checksum covers the whole datagram.
    Fragment,
    /// The transport header is malformed.
    Malformed,
}

/// Whose idea of a checksum to apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumRule {
    /// Linux connection tracking's (`nf_checksum`, 6.18). It differs from the standards in two ways: UDP-Lite's
    /// pseudo-header carries UDP's protocol number, 17, and a UDP checksum is taken over all bytes of the IP
    /// datagram with their number in the pseudo-header, whatever the UDP length field says.
    #[default]
    Linux,
    /// The standards': RFC 768, RFC 3828, RFC 8200 section 8.1 (but for packets with a routing header the destination
    /// is the IPv6 header's, as in Linux).
    Standard,
}

/// One's complement sum of `bytes` as big-endian 16-bit words, folded; an odd last byte is padded with zero.
///
/// The order of bytes does not matter to a one's complement sum until it is folded (RFC 1071, section 2 (B)), so the
/// words are added as the machine has them, 64 bits at a time, the carries beside.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    fold(raw_sum(bytes))
}

/// [`sum`] of an IPv4 header without options.
#[inline]
pub(crate) fn sum_of_20(bytes: &[u8; 20]) -> u16 {
    let (words, _) = bytes.as_chunks::<4>();
    fold(words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum())
}

/// The sum before folding and before the bytes of it are put in order: less than 2^34, so that a few can be added.
#[inline]
fn raw_sum(bytes: &[u8]) -> u64 {
    // An addition and an addition with carry for each word, and nothing at the end: shorter for packets than vectors.
    let mut total = 0u128;
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for word in words {
            total += u128::from(u64::from_ne_bytes(*word));
        }
    }
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        total += u128::from(u64::from_ne_bytes(*word));
    }
    let (low, high) = (total as u64, (total >> 64) as u64);
    let mut total = (low & 0xffff_ffff) + (low >> 32) + high;
    let mut rest = rest;
    if let Some((word, behind)) = rest.split_first_chunk::<4>() {
        total += u64::from(u32::from_ne_bytes(*word));
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk::<2>() {
        total += u64::from(u16::from_ne_bytes(*word));
        rest = behind;
    }
    if let [byte] = *rest {
        total += u64::from(u16::from_ne_bytes([byte, 0]));
    }
    total
}

/// Folds a sum of native words to its big-endian 16 bits.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::from_be(sum as u16)
}

/// One's complement addition.
#[inline]
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// The checksum that would make right a range whose folded sum, the field `found` included, is `sum`.
pub(crate) fn expected(sum: u16, found: u16) -> u16 {
    !add(sum, !found)
}

impl Packet<'_> {
    /// Verifies the transport checksum as Linux connection tracking does ([`ChecksumRule::Linux`]).
    #[inline]
    pub fn verify_checksum(&self) -> Checksum {
        if self.is_right_at_once() {
            return Checksum::Ok;
        }
        self.verify_checksum_by(ChecksumRule::Linux)
    }

    /// True for the usual packet: whole TCP or UDP right behind its IP header, with a right checksum. The addresses of
    /// the pseudo-header stand at the end of the IP header, so one pass sums all of it. False says nothing.
    #[inline]
    fn is_right_at_once(&self) -> bool {
        match self.l4 {
            L4::Tcp(_) => {}
            L4::Udp(udp) if udp.checksum != 0 && self.protocol == protocol::UDP => {}
            _ => return false,
        }
        let (header, addresses) = match self.family {
            Family::V4 => (20, 12),
            Family::V6 => (40, 8),
        };
        if self.l4_offset != header || self.is_cut() || self.offloaded {
            return false;
        }
        let length = self.l4_len();
        let rest = u32::from(self.protocol) + (length & 0xffff) + (length >> 16);
        let total = raw_sum(&self.bytes[addresses..]) + u64::from(rest.to_be());
        // All ones when folded, in either order of bytes: a multiple of 65,535, and the protocol makes it more than zero.
        total.is_multiple_of(0xffff)
    }

    /// Verifies the transport checksum.
    pub fn verify_checksum_by(&self, rule: ChecksumRule) -> Checksum {
        let plan = match self.plan(rule) {
            Ok(plan) => plan,
            Err(answer) => return answer,
        };
        let l4 = self.l4_bytes();
        // An odd number of covered bytes is padded by the sum itself.
        let mut total = sum(&l4[..plan.covered as usize]);
        if let Some(proto) = plan.pseudo {
            total = add(total, self.pseudo_header(proto, plan.length));
        } else if total == 0 {
            // Nothing but zeros. The kernel sums the IP header along, which is all ones if it is right, so that
            // this packet is right to it (and to the standards, since ones and zeros are the same number).
            return Checksum::Ok;
        }
        if total == 0xffff {
            return Checksum::Ok;
        }
        let found = u16::from_be_bytes([l4[plan.field], l4[plan.field + 1]]);
        let expected = match expected(total, found) {
            // What a UDP sender transmits in place of zero, which would mean "none" (RFC 768).
            0 if matches!(self.protocol, protocol::UDP | protocol::UDP_LITE) => 0xffff,
            e => e,
        };
        Checksum::Bad { found, expected }
    }

    /// True iff the TCP or UDP checksum field holds the folded sum of the pseudo-header: what a Linux sender leaves
    /// there for its network card to finish (`CHECKSUM_PARTIAL`). A capture on the sending host shows such packets;
    /// to the receiver they were fine.
    pub fn looks_offloaded(&self) -> bool {
        let field = match (self.protocol, &self.l4) {
            (protocol::TCP, L4::Tcp(_)) => 16,
            (protocol::UDP, L4::Udp(_)) => 6,
            _ => return false,
        };
        let l4 = self.l4_bytes();
        let Some(&[hi, lo]) = l4.get(field..).and_then(|b| b.first_chunk::<2>()) else {
            return false;
        };
        u16::from_be_bytes([hi, lo]) == self.pseudo_header(self.protocol, self.l4_len())
    }

    /// What to sum, or the answer where there is nothing to sum.
    fn plan(&self, rule: ChecksumRule) -> Result<Plan, Checksum> {
        use Checksum::NotCheckable;
        if self.fragment.is_some_and(|f| f.more || f.offset != 0) {
            return Err(NotCheckable(Unverifiable::Fragment));
        }
        let length = self.l4_len();
        let mut plan = Plan { pseudo: Some(self.protocol), length, covered: length, field: 0 };
        match (&self.l4, self.protocol, self.family) {
            (L4::Malformed { why, .. }, _, _) => {
                let cut = matches!(why, L4Error::Cut);
                return Err(NotCheckable(if cut {
                    Unverifiable::Cut
                } else {
                    Unverifiable::Malformed
                }));
            }
            (L4::Tcp(_), _, _) => plan.field = 16,
            (L4::Udp(udp), protocol::UDP_LITE, _) => {
                plan.field = 6;
                if udp.length != 0 {
                    plan.covered = u32::from(udp.length);
                }
                if rule == ChecksumRule::Linux {
                    plan.pseudo = Some(protocol::UDP);
                    if self.family == Family::V4 {
                        // Length and protocol change places in the sum, so that of the length only a byte counts.
                        plan.length &= 0xff;
                    }
                }
            }
            (L4::Udp(udp), _, _) => {
                plan.field = 6;
                if udp.checksum == 0 {
                    return Err(Checksum::Absent);
                }
                if rule == ChecksumRule::Standard {
                    plan.length = u32::from(udp.length);
                    plan.covered = plan.length;
                }
            }
            (L4::Icmp(_), protocol::ICMP, Family::V4) => {
                plan.field = 2;
                plan.pseudo = None;
            }
            (L4::Icmp(_), protocol::ICMPV6, Family::V6) => plan.field = 2,
            (L4::Sctp(_), _, _) => {
                self.all_there(plan.covered)?;
                return Err(self.sctp_checksum());
            }
            _ => return Err(Checksum::NotCovered),
        }
        self.all_there(plan.covered)?;
        Ok(plan)
    }

    /// Fails unless the first `covered` transport bytes were kept, in their final form.
    fn all_there(&self, covered: u32) -> Result<(), Checksum> {
        if self.offloaded {
            Err(Checksum::NotCheckable(Unverifiable::Offloaded))
        } else if (self.l4_bytes().len() as u64) < u64::from(covered) {
            Err(Checksum::NotCheckable(Unverifiable::Cut))
        } else {
            Ok(())
        }
    }

    /// Folded sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    fn pseudo_header(&self, proto: u8, length: u32) -> u16 {
        // The unused twelve bytes of an IPv4 address are zero and add nothing.
        let addresses = raw_sum(&self.src) + raw_sum(&self.dst);
        let rest = u32::from(proto) + (length & 0xffff) + (length >> 16);
        add(fold(addresses), fold(u64::from(rest.to_be())))
    }

    /// SCTP (RFC 9260, section 6.8 and appendix A): CRC32c of the packet with the field zeroed, least significant
    /// byte first.
    fn sctp_checksum(&self) -> Checksum {
        let l4 = self.l4_bytes();
        let found = [l4[8], l4[9], l4[10], l4[11]];
        let mut crc = crc32c::Crc::default();
        crc.update(&l4[..8]);
        crc.update(&[0; 4]);
        crc.update(&l4[12..]);
        let right = crc.finish().to_le_bytes();
        if found == right {
            return Checksum::Ok;
        }
        Checksum::BadCrc { found: u32::from_be_bytes(found), expected: u32::from_be_bytes(right) }
    }
}

/// What a checksum is taken over.
struct Plan {
    /// Protocol number in the pseudo-header, if there is one.
    pseudo: Option<u8>,
    /// Length in the pseudo-header.
    length: u32,
    /// Transport bytes covered.
    covered: u32,
    /// Offset of the checksum field.
    field: usize,
}

#[cfg(test)]
mod tests;
