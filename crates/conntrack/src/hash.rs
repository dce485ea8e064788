//! The hash of a tuple: the arrangement of the kernel patch, today's kernel's, and a compact one.

use fourtuple_hash::{Key, SipHash24};
use fourtuple_packet::Family;

use crate::tuple::Tuple;

/// How a tuple becomes the input of SipHash-2-4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TupleHash {
    /// Exactly the tuple's information and nothing else, under a key derived from the net id: two blocks for IPv4,
    /// five for IPv6. Injective: no two tuples (with zone) collide before the key.
    #[default]
    Compact,
    /// The arrangement of Linux 5.19 to 6.4 (`siphash_4u64`): four words, into which the middle words of IPv6
    /// addresses are folded by XOR and addition *before* the keyed hash. Whoever owns a /64 can choose addresses and
    /// ports that collide under every key. For comparison and for measuring, not for traffic you do not trust.
    FourWords,
    /// Linux since 6.5: the first 39 bytes of the kernel's tuple, with zone and namespace mix XORed into the key.
    Linux65,
}

impl TupleHash {
    /// The hash of `tuple` in zone id `zone` of the net with the given id (`Compact`) or hash mix (the kernel's two).
    ///
    /// `Compact` expects `key` to be the net's own, [`Key::derive`]d; the other two take the one secret.
    #[inline(always)]
    pub fn hash(self, key: &Key, tuple: &Tuple, zone: u16, net: u32) -> u32 {
        match self {
            Self::Compact => compact(key, tuple, zone),
            Self::FourWords => four_words(key, tuple, zone, net),
            Self::Linux65 => linux65(key, tuple, zone, net),
        }
    }

    /// The key under which this layout hashes the tuples of net `net`.
    pub fn net_key(self, secret: &Key, net: u32) -> Key {
        match self {
            Self::Compact => secret.derive(u64::from(net)),
            Self::FourWords | Self::Linux65 => *secret,
        }
    }
}

#[inline]
fn le32(b: &[u8; 16], word: usize) -> u64 {
    let at = word * 4;
    u64::from(u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]))
}

#[inline]
fn le64(b: &[u8; 16], word: usize) -> u64 {
    le32(b, word * 2) | le32(b, word * 2 + 1) << 32
}

/// IPv4: source 4, destination 4 | source port 2, destination port 2, protocol 1, zone 2: 15 bytes.
/// IPv6: source 16, destination 16 | the same seven bytes: 39 bytes. The length, in the top byte of SipHash's last
/// block, tells the families apart.
#[inline(always)]
fn compact(key: &Key, t: &Tuple, zone: u16) -> u32 {
    let tail = u64::from(t.sport)
        | u64::from(t.dport) << 16
        | u64::from(t.protocol) << 32
        | u64::from(zone) << 40;
    let hash = match t.family {
        Family::V4 => {
            let addresses = le32(&t.src, 0) | le32(&t.dst, 0) << 32;
            SipHash24::blocks(key, &[addresses], tail | 15 << 56)
        }
        Family::V6 => {
            let words = [le64(&t.src, 0), le64(&t.src, 1), le64(&t.dst, 0), le64(&t.dst, 1)];
            SipHash24::blocks(key, &words, tail | 39 << 56)
        }
    };
    hash as u32
}

/// The patch's four words, as it arranges them on a little-endian machine: `src[i]`, `dst[i]` are the i-th 32-bit
/// words of the address as loaded, port words as loaded (network order).
#[inline(never)]
fn four_words(key: &Key, t: &Tuple, zone: u16, mix: u32) -> u32 {
    let (src, dst) = (&t.src, &t.dst);
    let a = le32(src, 0) << 32 | le32(src, 3);
    let b = le32(dst, 0) << 32 | le32(dst, 3);
    let sport = u64::from(t.sport.swap_bytes());
    let dport = u64::from(t.dport.swap_bytes());
    let mut c = sport << 32 | dport << 16 | u64::from(t.protocol);
    let mut d = u64::from(zone) << 32 | u64::from(mix);
    c ^= le32(src, 1) << 32 | le32(src, 2);
    d = d.wrapping_add(le32(dst, 1) << 32 | le32(dst, 2));
    SipHash24::u64x4(key, a, b, c, d) as u32
}

/// 39 bytes: source address 16, source word 2 (network order), family 2 (host order), destination address 16,
/// destination word 2, protocol 1.
#[inline(never)]
fn linux65(key: &Key, t: &Tuple, zone: u16, mix: u32) -> u32 {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let family = match t.family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    };
    let (k0, k1) = key.words();
    let key = Key::from_words(k0 ^ u64::from(zone), k1 ^ u64::from(mix));
    let words = u64::from(t.sport.swap_bytes()) | u64::from(family) << 16;
    let blocks = [
        le64(&t.src, 0),
        le64(&t.src, 1),
        words | le32(&t.dst, 0) << 32,
        le32(&t.dst, 1) | le32(&t.dst, 2) << 32,
    ];
    let tail = le32(&t.dst, 3)
        | u64::from(t.dport.swap_bytes()) << 32
        | u64::from(t.protocol) << 48
        | 39 << 56;
    SipHash24::blocks(&key, &blocks, tail) as u32
}

#[cfg(test)]
mod tests;
